"""The paper's discriminants with given classes in place of a mixture's labels."""

from dataclasses import dataclass
from typing import Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from secret_jax.runtime.eigenvectors import leading_eigenvectors
from secret_jax.runtime.linalg import matmul, safe_divide
from secret_jax.runtime.pieces import weighted_moments
from secret_jax.splits.interface import Split
from secret_jax.splits.labelled import best_labelled_split
from secret_jax.splits.node_chosen import goes_left_of
from secret_jax.splits.one_node import Node, OneNodeFinder
from secret_jax.tree.structure import SplitKind

# A deviation of the indicators below this, in units of one, is rounding.
_PURE = 1e-6


@dataclass(frozen=True, kw_only=True)
class ClassSplits(OneNodeFinder):
    """QDA thresholds and an LDA direction between two groups of classes.

    Sections 4.2.1 to 4.2.4 of Dobra & Gehrke 2002 after the labels are known: they are
    given, and no EM is needed. Of more than two classes each is tried against the rest,
    and the two halves of all of them in the order of their means along the first
    principal component of these (Loh & Shih 1997 make two groups of classes by their
    means); the Gini impurity of all classes decides. The targets indicate classes, or
    are shares of them.

    Attributes
    ----------
    gain : {"normal", "counted"}, default="normal"
        How thresholds of two groups are compared, see `secret_jax.SecretSplits`.

    References
    ----------
    A. Dobra and J. Gehrke. SECRET: A Scalable Linear Regression Tree Algorithm. KDD
    2002.

    W.-Y. Loh and Y.-S. Shih. Split Selection Methods for Classification Trees.
    Statistica Sinica 7, 1997.

    Examples
    --------
    >>> from secret_jax import ClassSplits, SecretClassifier
    >>> SecretClassifier(splits=ClassSplits(gain="counted")).splits.gain
    'counted'
    """

    gain: Literal["normal", "counted"] = "normal"

    def __call__(self, node: Node) -> Split:
        """Best split of one node; its gain is the drop of the Gini impurity."""
        share = class_shares(node.targets)
        _, _, deviation = weighted_moments(share, node.weight)

        def best_of(group: jax.Array) -> tuple[Split, jax.Array]:
            first = node.weight * matmul(share, group)
            split = best_labelled_split(self, node, first)
            left = goes_left_of(split, node.x, node.codes).astype(node.x.dtype)
            gain = gini_drop(share, node.weight, left)
            return split, jnp.where(split.gain > 0, gain, -jnp.inf)

        splits, gain = jax.lax.map(best_of, _groups(node, share))
        best = jnp.argmax(gain)
        split = jax.tree.map(lambda array: array[best], splits)
        pure = (deviation <= _PURE).all()
        usable = (gain[best] > 0) & ~pure
        return split._replace(
            kind=jnp.where(usable, split.kind, SplitKind.LEAF).astype(jnp.int32),
            gain=jnp.where(usable, gain[best], 0.0),
            pure=pure,
        )


def class_shares(
    targets: Float[Array, "n_rows n_outputs"],
) -> Float[Array, "n_rows n_classes"]:
    """Indicators of all classes; a single output is that of the second of two."""
    if targets.shape[1] > 1:
        return targets
    return jnp.concatenate([1.0 - targets, targets], axis=1)


def gini_drop(
    share: Float[Array, "n_rows n_classes"],
    weight: Float[Array, " n_rows"],
    left: Float[Array, " n_rows"],
) -> Float[Array, ""]:
    """Drop of the Gini impurity, times the weight, if some rows go left.

    ``left``: 1 for the rows on the left, 0 for the others.
    """

    def purity(weight: jax.Array) -> jax.Array:
        count = matmul(weight, share)
        return safe_divide(jnp.sum(count**2), jnp.sum(weight))

    return purity(weight * left) + purity(weight * (1.0 - left)) - purity(weight)


def _groups(node: Node, share: jax.Array) -> jax.Array:
    """Which classes are in the first of two groups, shape (n_groups, n_classes)."""
    n_classes = share.shape[1]
    if n_classes == 2:
        return jnp.array([[1.0, 0.0]], share.dtype)
    alone = jnp.eye(n_classes, dtype=share.dtype)
    if not node.x.shape[1]:
        return alone
    _, center, deviation = weighted_moments(node.x, node.weight)
    scale = jnp.where(deviation > 0, deviation, 1.0)
    count = matmul(node.weight, share)
    mean = safe_divide(
        matmul((node.weight[:, None] * share).T, (node.x - center) / scale),
        count[:, None],
    )
    between = matmul((count[:, None] * mean).T, mean)
    place = matmul(mean, leading_eigenvectors(between, 1)[0])
    order = jnp.argsort(place)
    below = jnp.cumsum(count[order]) - 0.5 * count[order]
    half = jnp.zeros(n_classes, share.dtype)
    half = half.at[order].set((below < 0.5 * count.sum()).astype(share.dtype))
    return jnp.concatenate([alone, half[None]])
