"""The split finder of CART: one attribute, every threshold, the variance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float
from sklearn.utils._param_validation import StrOptions

from secret_jax.runtime.linalg import matmul, safe_divide, weighted_moments
from secret_jax.splits.axis import leading_component, projections, split_of
from secret_jax.splits.interface import Node, Split, SplitFinder

# A deviation of the output below this, in units of the whole table, is rounding.
_PURE = 1e-6


@dataclass(frozen=True, kw_only=True)
class CartSplits(SplitFinder):
    """Splits on one attribute that lower the variance of the outputs most.

    Every threshold between two rows is tried. With ``leaf="constant"`` the trees are
    those of Breiman, Friedman, Olshen & Stone (1984), chapter 8.

    Attributes
    ----------
    criterion : {"variance", "gini"}, default="variance"
        "gini": every output indicates a class. The sum of the variances of the
        indicators is the Gini impurity (chapter 4), if none is in units of its own
        deviation.

    Examples
    --------
    >>> from secret_jax import CartSplits, SecretRegressor
    >>> SecretRegressor(splits=CartSplits(criterion="gini"), leaf="constant").splits
    CartSplits(criterion='gini')
    """

    criterion: Literal["variance", "gini"] = "variance"

    _parameter_constraints: ClassVar[dict] = {
        "criterion": [StrOptions({"variance", "gini"})]
    }

    may_be_oblique: ClassVar[bool] = False

    @property
    def max_attributes(self) -> int:
        """See `SplitFinder`."""
        return 1

    @property
    def numbers_per_cell(self) -> int:
        """Sorted rows and their sums."""
        return 8

    def __call__(self, node: Node) -> Split:
        """Best split of one node; its gain is the drop of the sum of squares."""
        _, mean, deviation = weighted_moments(node.targets, node.weight)
        present = (node.weight > 0)[:, None]
        centred = jnp.where(present, node.targets - mean, 0.0)
        if self.criterion == "gini":
            # An indicator takes two values: their difference is the unit.
            unit = jnp.max(centred, axis=0) - jnp.min(centred, axis=0)
            centred = safe_divide(centred, unit)
        axis = projections(node, leading_component(centred, node.weight))

        def cut(projection):
            return best_cut(projection, centred, node.weight, node.min_weight)

        gain, threshold = jax.lax.map(cut, axis.projection)
        candidates = axis.candidates(gain, threshold)
        return split_of(
            candidates.take(jnp.argmax(candidates.gain)),
            node,
            pure=(deviation <= _PURE).all(),
            chance_gain=jnp.zeros((), node.x.dtype),
        )


def best_cut(
    projection: Float[Array, " n_rows"],
    targets: Float[Array, "n_rows n_outputs"],
    weight: Float[Array, " n_rows"],
    min_weight: Float[Array, ""],
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """The value up to which rows go left so that two means fit best.

    Parameters
    ----------
    projection : Array of shape (n_rows,)
    targets : Array of shape (n_rows, n_outputs)
        Of mean zero.
    weight : Array of shape (n_rows,)
        Zero for padding.
    min_weight : Array of shape ()
        Least weight on each side.

    Returns
    -------
    gain : Array of shape ()
        Drop of the sum of squares; minus infinity where no cut is allowed.
    threshold : Array of shape ()
        The largest value on the left.
    """
    ranked = jnp.where(weight > 0, projection, jnp.inf)
    order = jnp.argsort(ranked)
    ranked, weight = ranked[order], weight[order]
    left = jnp.cumsum(weight)
    right = jnp.sum(weight) - left
    moment = jnp.cumsum(weight[:, None] * targets[order], axis=0)
    total = matmul(weight, targets[order])
    gain = jnp.sum(
        safe_divide(moment**2, left[:, None])
        + safe_divide((total - moment) ** 2, right[:, None]),
        axis=1,
    )
    last = jnp.append(ranked[1:] > ranked[:-1], False) & jnp.isfinite(ranked)
    least = jnp.minimum(left, right)
    allowed = last & (least >= min_weight) & (least > 0)
    gain = jnp.where(allowed, gain, -jnp.inf)
    best = jnp.argmax(gain)
    return gain[best], ranked[best]
