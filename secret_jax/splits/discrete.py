"""The Gini gain of two classes, and the best binary split of a discrete attribute.

Breiman et al. 1984, Theorem 9.4: with the categories ordered by P[class 1 | category],
the best of all subsets is a prefix of the order.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

# A smaller product of both shares is float32's rounding: all rows go one way.
_ROUNDING = 1e-10


def gini_gain(
    class_fraction: jax.Array, left_fraction: jax.Array, left_and_class: jax.Array
) -> jax.Array:
    r"""Gini gain, :math:`2 (P[1, L] - P[1] P[L])^2 / (P[L] (1 - P[L]))`.

    Equation (1) of Dobra & Gehrke 2002 as it follows from the definition above it; the
    printed one does not.

    ``class_fraction``: P[1], the share of the first class; ``left_fraction``: P[L], the
    share of the rows that go left; ``left_and_class``: P[1, L], the share that is of
    the first class and goes left. Zero where all rows go one way.

    Examples
    --------
    >>> float(gini_gain(jnp.array(0.5), jnp.array(0.5), jnp.array(0.5)))
    0.5
    """
    spread = left_fraction * (1 - left_fraction)
    excess = left_and_class - class_fraction * left_fraction
    usable = spread > _ROUNDING
    return jnp.where(usable, 2 * excess**2 / jnp.where(usable, spread, 1.0), 0.0)


class DiscreteSplit(NamedTuple):
    """The best split of one discrete attribute."""

    gain: jax.Array  # (): minus infinity where no split is allowed
    # (n_categories,), bool: categories absent from the node follow the larger side; the
    # first present one is on the left.
    goes_left: jax.Array


def category_counts(
    codes: Int[Array, " n_rows"],
    class_weight: Float[Array, "2 n_rows"],
    n_categories: int,
) -> jax.Array:
    """Weight of each class in each category, shape (2, n_categories)."""
    member = codes[:, None] == jnp.arange(n_categories)
    return jnp.matmul(
        class_weight, member.astype(class_weight.dtype), precision="highest"
    )


def best_subset(
    counts: Float[Array, "2 n_categories"], min_weight: Float[Array, ""]
) -> DiscreteSplit:
    """Best subset of categories by Gini gain.

    ``counts``: weight of each class in each category; ``min_weight``: least weight on
    each side.
    """
    weight = counts.sum(axis=0)
    total = weight.sum()
    present = weight > 0
    safe_total = jnp.where(total > 0, total, 1.0)
    share = counts[0] / jnp.where(present, weight, 1.0)
    order = jnp.argsort(jnp.where(present, -share, jnp.inf), stable=True)

    left = jnp.cumsum(weight[order])
    left_class = jnp.cumsum(counts[0][order])
    gain = gini_gain(
        counts[0].sum() / safe_total, left / safe_total, left_class / safe_total
    )
    least = jnp.minimum(left, total - left)
    allowed = present[order] & (least >= min_weight) & (least > 0)
    gain = jnp.where(allowed, gain, -jnp.inf)
    cut = jnp.argmax(gain)
    rank = jnp.argsort(order)
    larger_left = left[cut] >= total - left[cut]
    goes_left = jnp.where(present, rank <= cut, larger_left)
    # Which class is called the first is chance; which side is left must not be.
    swap = ~goes_left[jnp.argmax(present)]
    return DiscreteSplit(gain[cut], goes_left ^ swap)
