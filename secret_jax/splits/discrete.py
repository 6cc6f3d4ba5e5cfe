"""The best binary split of a discrete attribute for two classes.

Breiman et al. 1984, Theorem 9.4: with the categories ordered by P[class 1 | category],
the best of all subsets is a prefix of the order.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from secret_jax.splits.impurity import gini_gain


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
