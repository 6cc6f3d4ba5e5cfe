"""Residuals of a node's own model, and the thresholds along projections of its rows.

Thresholds are all, a number of quantiles, or a share of the observed values. The sums
behind the models of their sides run along the sorted rows, from both ends: one solve
for each side of each threshold, and no second pass over the rows.
"""

from typing import Annotated, Literal, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from secret_jax.runtime.linalg import matmul
from secret_jax.runtime.pieces import weighted_moments
from secret_jax.runtime.values import SHARE, at_least, is_integer
from secret_jax.splits.node_axis import leading_component
from secret_jax.splits.one_node import Node
from secret_jax.splits.scoring import NodeRows, fit_sums, n_model_products, node_rows

# Below this deviation, in units of the whole table, a column is constant or rounding.
CONSTANT = 1e-6
Thresholds: TypeAlias = (
    Literal["all"] | Annotated[int, at_least(1)] | Annotated[float, SHARE]
)
"""Thresholds to try: all, a number of quantiles, or a share of the rows' values from a
random start on."""

# Minimum number of rows per coefficient of a side's linear model: with fewer it would
# follow their noise.
_ROWS_PER_COEFFICIENT = 2.0
# Thresholds whose models are fitted at once: their matrices stay in a cache.
_AT_ONCE = 512
# Multiples of it, less their whole parts, fill an interval as evenly as can be.
_GOLDEN = 0.618033988749895
# Float32 rounding of sums of weights.
_ROUNDING = 1e-6


class Cuts(NamedTuple):
    """Thresholds along one projection, or with a leading axis along several."""

    order: jax.Array  # (n_rows,), int32: rows by their values, padding last
    # (n_cuts,), int32: position in the order of the last row on the left.
    last: jax.Array
    allowed: jax.Array  # (n_cuts,), bool: whether there is enough weight on both sides


class Residuals(NamedTuple):
    """Residuals of a node's model."""

    # (n_rows,): residuals of one output, or first principal component of several;
    # centred.
    leading: jax.Array
    # (n_rows, n_columns): columns of mean zero and unit variance in the node; constant
    # ones are zero.
    z: jax.Array
    # center, scale (n_columns,): by which they were standardised.
    center: jax.Array
    scale: jax.Array
    rows: NodeRows  # for models of parts of the node
    unit: jax.Array  # (): deviation of the residuals, in which ``rows`` are measured
    n_model: int  # number of columns that these models use
    least: jax.Array  # (): least weight of a part
    pure: jax.Array  # (), bool: whether the model leaves nothing but rounding

    def cuts(
        self,
        projection: Float[Array, " n_rows"],
        random: Float[Array, " n_random"],
        thresholds: Thresholds,
    ) -> Cuts:
        """Choose the thresholds to try along a projection.

        ``random``: a number in (0, 1), if a share of the values is tried.
        """
        weight, least = self.rows.weight, self.least
        n_rows = len(projection)
        ranked = jnp.where(weight > 0, projection, jnp.inf)
        order = jnp.argsort(ranked)
        ranked = ranked[order]
        below = jnp.cumsum(weight[order])
        total = below[-1]
        differs = jnp.append(ranked[1:] > ranked[:-1], False) & jnp.isfinite(ranked)
        index = jnp.arange(n_rows)
        if thresholds == "all":
            last, tried = index, jnp.ones(n_rows, bool)
        else:
            share, tried = _shares(
                thresholds, random, n_rows, jnp.sum((weight > 0).astype(weight.dtype))
            )
            lowest = jnp.zeros_like(total)
            if not is_integer(thresholds):
                # Of few there should be none that leaves a side too little.
                lowest = jnp.minimum(least, 0.5 * total)
            enough = lowest + share * (total - 2 * lowest)
            enough = enough * (1 - _ROUNDING)
            place = jnp.searchsorted(below, enough).astype(index.dtype)
            # All rows of one value are on one side: up to the last one of them.
            ends = jax.lax.cummin(jnp.where(differs, index, n_rows - 1), reverse=True)
            last = ends[jnp.minimum(place, n_rows - 1)]
        side = jnp.minimum(below[last], total - below[last])
        allowed = tried & differs[last] & (side >= least * (1 - _ROUNDING)) & (side > 0)
        return Cuts(order.astype(jnp.int32), last.astype(jnp.int32), allowed)

    def best(
        self, projection: Float[Array, " n_rows"], cuts: Cuts
    ) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """Find the threshold whose sides' models gain most: gain and threshold.

        The gain is the drop of the penalised residual sum of squares, minus infinity
        where no threshold is allowed; the threshold is the largest value on the left.
        """
        rows, least, n_model = self.rows, self.least, self.n_model

        def search() -> tuple[jax.Array, jax.Array]:
            n_products = n_model_products(rows, n_model)
            products = rows.products[cuts.order, :n_products]
            products = rows.weight[cuts.order, None] * products
            # From both ends: the difference to the total would drown a small side in
            # rounding.
            left = jnp.cumsum(products, axis=0)[cuts.last]
            right = jax.lax.cumsum(products, axis=0, reverse=True) - products
            sides = jnp.stack([left, right[cuts.last]])

            def gains(sides: jax.Array) -> jax.Array:
                enough = least * (1 - _ROUNDING)
                return fit_sums(rows, sides, enough, n_model=n_model).gain

            gain = jnp.where(cuts.allowed, _in_blocks(gains, sides), -jnp.inf)
            best = jnp.argmax(gain)
            return gain[best], projection[cuts.order[cuts.last[best]]]

        nothing = jnp.full((), -jnp.inf, projection.dtype)
        return jax.lax.cond(cuts.allowed.any(), search, lambda: (nothing, nothing))


def _shares(
    thresholds: int | float, random: jax.Array, n_rows: int, n_present: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Shares of the rows left of each threshold, and a mask of those to try."""
    if is_integer(thresholds):
        share = (np.arange(thresholds, dtype=np.float32) + 0.5) / thresholds
        if thresholds > 1:
            share[0] = 0.0  # the smallest value: its group may be rare
        return jnp.asarray(share), jnp.ones(thresholds, bool)
    most = int(np.ceil(thresholds * n_rows))
    share = (random[0] + _GOLDEN * np.arange(most, dtype=np.float32)) % 1.0
    return share, jnp.arange(most, dtype=share.dtype) < jnp.ceil(thresholds * n_present)


def _in_blocks(gains, sides: Float[Array, "2 n_cuts n_products"]) -> jax.Array:
    n_cuts = sides.shape[1]
    n_blocks = n_cuts // _AT_ONCE
    if n_blocks < 2 or n_cuts % _AT_ONCE:
        return gains(sides)
    blocks = sides.reshape(2, n_blocks, _AT_ONCE, -1).swapaxes(0, 1)
    return jax.lax.map(gains, blocks).reshape(n_cuts)


def residuals(node: Node, *, linear: bool, ridge: float) -> Residuals:
    """Compute the residuals of the node's model, and rows for models of its parts.

    ``linear``: whether parts get linear models, or constants; ``ridge``: penalty of
    their models, in units of the regressors' variances.
    """
    n = node.columns.n_regressors
    fitted = node.coefficient[:, 0] + matmul(node.x[:, :n], node.coefficient[:, 1:].T)
    residual = node.targets - fitted
    _, mean, spread = weighted_moments(residual, node.weight)
    present = (node.weight > 0)[:, None]
    residual = jnp.where(present, residual - mean, 0.0)
    _, center, deviation = weighted_moments(node.x, node.weight)
    varies = deviation > CONSTANT
    scale = jnp.where(varies, deviation, 1.0)
    z = jnp.where(varies & present, (node.x - center) / scale, 0.0)
    unit = jnp.maximum(jnp.sqrt(jnp.mean(spread**2)), CONSTANT)
    n_model = n if linear else 0
    rows, _ = node_rows(
        z[:, :n_model], residual / unit, node.weight, n_model=n_model, ridge=ridge
    )
    n_slopes = jnp.sum(varies[:n_model].astype(node.min_weight.dtype))
    enough = jnp.where(n_slopes > 0, _ROWS_PER_COEFFICIENT * (1.0 + n_slopes), 0.0)
    return Residuals(
        leading=leading_component(residual, node.weight),
        z=z,
        center=center,
        scale=scale,
        rows=rows,
        unit=unit,
        n_model=n_model,
        least=jnp.maximum(node.min_weight, enough),
        pure=(spread <= CONSTANT).all(),
    )
