"""CART's split finder: one attribute, every threshold, an impurity."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from secret_jax.runtime.arrays import sums_below, taken
from secret_jax.runtime.linalg import AnyArray, matmul, namespace, safe_divide, vecmat
from secret_jax.runtime.pieces import for_rows, over_rows, weighted_moments
from secret_jax.runtime.values import at_least
from secret_jax.splits.node_axis import (
    AxisGains,
    AxisSplits,
    Projections,
    leading_component,
    projections,
)
from secret_jax.splits.one_node import Node
from secret_jax.splits.screening import quantiles

# A share below this is rounding; it has a logarithm.
_LEAST_SHARE = 1e-30
# A deviation of the output below this, in units of the whole table, is rounding.
_PURE = 1e-6
# A smaller share of the weight is rounding, too.
_ROUNDING = 1e-6
# Gain assigned to a split that saves nothing: less than any other, but positive.
_NOTHING = 1e-20


@dataclass(frozen=True, kw_only=True)
class CartSplits(AxisSplits):
    """Splits on one attribute by the largest drop of variance or impurity.

    Every threshold between two rows is tried. With ``leaf="constant"`` the trees are
    those of Breiman, Friedman, Olshen & Stone (1984), chapters 4 and 8. A node that is
    not pure is split even where no single split saves anything: of an exclusive or of
    two attributes the next ones do. Not so by misclassification, which nearly every
    split leaves as it is.

    Attributes
    ----------
    criterion : {"variance", "gini", "entropy", "misclassification"}, \
            default="variance"
        The impurities need outputs that indicate classes, or are shares of them; a
        single one of two classes.
        "gini": the sum of the variances of the indicators. "entropy": that of the
        classes' shares, which is half the deviance of a row. "misclassification": the
        share of all classes but the largest; many splits lower it equally.
    n_thresholds : int or None, default=None
        Quantiles tried along each attribute. None: every threshold between two rows,
        which have to be sorted for it.

    Examples
    --------
    >>> from secret_jax import SecretRegressor
    >>> from secret_jax.learners import CartSplits
    >>> SecretRegressor(splits=CartSplits(criterion="gini")).splits.criterion
    'gini'
    """

    criterion: Literal["variance", "gini", "entropy", "misclassification"] = "variance"
    n_thresholds: Annotated[int, at_least(2)] | None = None

    def gains(self, node: Node) -> AxisGains:
        xp, pieces = namespace(node.x), node.pieces
        _, mean, deviation = weighted_moments(node.targets, node.weight, pieces)
        centred = node.targets - for_rows(mean, pieces)[..., None, :]
        centred = xp.where((node.weight > 0)[..., None], centred, 0.0)
        values, purity = centred, _squares
        if self.criterion != "variance":
            lowest, unit = _absent_and_unit(node)
            centred = values = safe_divide(centred, unit)
        if self.criterion in _PURITIES:
            purity = _PURITIES[self.criterion]
            values = _classes(node, safe_divide(node.targets - lowest, unit))
        axis = projections(node, leading_component(centred, node.weight, pieces))

        if self.n_thresholds:
            gain, threshold = _best_quantiles(
                axis, values, node, purity, self.n_thresholds
            )
        else:

            def cut(projection):
                sides = (values, node.weight, node.min_weight)
                return best_cut(projection, *sides, purity)

            gain, threshold = jax.lax.map(cut, axis.projection)
        if self.criterion != "misclassification":
            gain = xp.where(xp.isfinite(gain), xp.maximum(gain, _NOTHING), gain)
        return axis, gain, threshold, (deviation <= _PURE).all(axis=-1)


def _squares(moment: AnyArray, weight: AnyArray) -> AnyArray:
    """Reduction of the sum of squares of centred targets by the mean."""
    return namespace(moment).sum(safe_divide(moment**2, weight[..., None]), axis=-1)


def _log_likelihood(moment: AnyArray, weight: AnyArray) -> AnyArray:
    """Log-likelihood of classes: minus entropy of the frequencies, times weight."""
    xp = namespace(moment)
    share = safe_divide(moment, weight[..., None])
    return xp.sum(moment * xp.log(xp.maximum(share, _LEAST_SHARE)), axis=-1)


def _majority(moment: AnyArray, weight: AnyArray) -> AnyArray:
    """Weight of the most frequent class."""
    return namespace(moment).max(moment, axis=-1)


_PURITIES = {"entropy": _log_likelihood, "misclassification": _majority}


def _absent_and_unit(node: Node) -> tuple[AnyArray, AnyArray]:
    """Value of an indicator outside its class, and the step to the value inside.

    Shares of classes, and indicators as they are, lie between 0 and 1. An indicator
    that was standardised takes two values, the lower one below 0.
    """
    xp, pieces = namespace(node.x), node.pieces
    present = (node.weight > 0)[..., None]
    lowest = xp.where(present, node.targets, xp.inf).min(axis=-2)
    highest = xp.where(present, node.targets, -xp.inf).max(axis=-2)
    lowest = for_rows(over_rows(lowest, pieces, np.minimum), pieces)[..., None, :]
    highest = for_rows(over_rows(highest, pieces, np.maximum), pieces)[..., None, :]
    standardised = lowest < 0
    unit = xp.where(standardised, highest - lowest, 1.0)
    return xp.where(standardised, lowest, 0.0), unit


def _classes(node: Node, shares: AnyArray) -> AnyArray:
    """Class frequencies, with both classes if there are two: (n_rows, n_classes)."""
    xp = namespace(shares)
    present = (node.weight > 0)[..., None]
    classes = xp.where(present, shares, 0.0)
    if classes.shape[-1] > 1:
        return classes
    others = xp.where(present, 1.0 - classes, 0.0)
    return xp.concatenate([classes, others], axis=-1)


def _best_quantiles(
    axis: Projections,
    values: AnyArray,
    node: Node,
    purity: Callable[[AnyArray, AnyArray], AnyArray],
    n_thresholds: int,
) -> tuple[AnyArray, AnyArray]:
    """Find the best of some quantiles along each direction: gain and threshold."""
    xp, pieces = namespace(values), node.pieces
    weight = node.weight if axis.weight is None else axis.weight
    cuts = quantiles(axis.projection, weight, n_thresholds, pieces)
    columns = xp.concatenate([xp.ones_like(values[..., :1]), values], axis=-1)
    left = sums_below(axis.projection, cuts, node.weight, [columns], pieces=pieces)
    whole = over_rows(vecmat(node.weight, columns), pieces)[..., None, None, :]
    right = whole - left

    def pure(sums):
        return purity(sums[..., 1:], sums[..., 0])

    gain = pure(left) + pure(right) - pure(whole)
    least = xp.minimum(left[..., 0], right[..., 0])
    # What is right of the cut is a difference: it may be rounding.
    enough = least >= xp.asarray(node.min_weight)[..., None, None]
    allowed = enough & (least > _ROUNDING * whole[..., 0]) & xp.isfinite(cuts)
    gain = xp.where(allowed, gain, -xp.inf)
    best = xp.argmax(gain, axis=-1)
    return xp.max(gain, axis=-1), taken(cuts, best, best.ndim)


def best_cut(
    projection: Float[Array, " n_rows"],
    targets: Float[Array, "n_rows n_outputs"],
    weight: Float[Array, " n_rows"],
    min_weight: Float[Array, ""],
    purity: Callable[[jax.Array, jax.Array], jax.Array] = _squares,
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Find the threshold with the purest sides; rows up to it go left.

    ``targets``: targets with mean zero for the sum of squares; indicators of classes
    for others; ``weight``: zero for padding; ``min_weight``: least weight on each side;
    ``purity``: from sums of the targets (n, n_outputs) and weights (n,) to what is
    gained. Returns ``gain``: drop of the sum of squares or of another impurity; minus
    infinity where no cut is allowed; ``threshold``: the largest value on the left.
    """
    ranked = jnp.where(weight > 0, projection, jnp.inf)
    order = jnp.argsort(ranked)
    ranked, weight = ranked[order], weight[order]
    left = jnp.cumsum(weight)
    right = jax.lax.cumsum(weight, reverse=True) - weight
    own = weight[:, None] * targets[order]
    moment = jnp.cumsum(own, axis=0)
    # From its own end: what is left of a large sum would be the rounding of it.
    rest = jax.lax.cumsum(own, axis=0, reverse=True) - own
    total = matmul(weight, targets[order])
    gain = purity(moment, left) + purity(rest, right)
    gain = gain - purity(total[None], jnp.sum(weight)[None])
    last = jnp.append(ranked[1:] > ranked[:-1], False) & jnp.isfinite(ranked)
    least = jnp.minimum(left, right)
    allowed = last & (least >= min_weight) & (least > 0)
    gain = jnp.where(allowed, gain, -jnp.inf)
    best = jnp.argmax(gain)
    return gain[best], ranked[best]
