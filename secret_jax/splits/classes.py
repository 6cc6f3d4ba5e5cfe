"""The paper's discriminants with given classes in place of a mixture's labels."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import jax
import numpy as np
from jaxtyping import Bool, Float

from secret_jax.runtime.linalg import (
    AnyArray,
    leading_eigenvectors,
    matmul,
    matvec,
    namespace,
    safe_divide,
)
from secret_jax.splits.interface import Level, Split, SplitFinder
from secret_jax.splits.labelled import best_labelled_split, left_rows
from secret_jax.tree.structure import SplitKind

# A deviation of the indicators below this, in units of one, is rounding.
_PURE = 1e-6


@dataclass(frozen=True, kw_only=True)
class ClassSplits(SplitFinder):
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
    >>> from secret_jax import SecretClassifier
    >>> from secret_jax.splits.classes import ClassSplits
    >>> SecretClassifier(splits=ClassSplits(gain="counted")).splits.gain
    'counted'
    """

    gain: Literal["normal", "counted"] = "normal"

    compiled: ClassVar[bool] = True

    def find(self, level: Level) -> Split:
        """Best split of every node; its gain is the drop of the Gini impurity."""
        xp, share = level.rows.xp, class_shares(level.targets)
        weight = level.rows.sums(level.weight)[:, None]
        mean = safe_divide(_counts(level, share, level.weight), weight)
        apart = (share - level.rows.spread(mean)) ** 2
        variance = safe_divide(_counts(level, apart, level.weight), weight)
        pure = (variance <= _PURE**2).all(axis=-1)

        def best_of(group: AnyArray) -> tuple[Split, AnyArray]:
            inside = xp.sum(share * level.rows.spread(group), axis=-2)
            split = best_labelled_split(level, level.weight * inside, self.gain)
            gain = gini_drop(level, share, left_rows(level, split))
            return split, xp.where(split.gain > 0, gain, -xp.inf)

        groups = _groups(level, share)
        if xp is np:
            found = [best_of(group) for group in groups]
            splits, gain = jax.tree.map(lambda *arrays: np.stack(arrays), *found)
        else:
            splits, gain = jax.lax.map(best_of, groups)
        best = xp.argmax(gain, axis=0)
        split = jax.tree.map(lambda a: a[best, np.arange(level.n_nodes)], splits)
        gain = xp.max(gain, axis=0)
        usable = (gain > 0) & ~pure
        return split._replace(
            kind=xp.where(usable, split.kind, int(SplitKind.LEAF)).astype(xp.int32),
            gain=xp.where(usable, gain, 0.0),
            pure=pure,
        )


def class_shares(
    targets: Float[AnyArray, "... n_outputs rows"],
) -> Float[AnyArray, "... n_classes rows"]:
    """Indicators of all classes; a single output is that of the second of two."""
    if targets.shape[-2] > 1:
        return targets
    return namespace(targets).concatenate([1.0 - targets, targets], axis=-2)


def _counts(level: Level, values: AnyArray, weight: AnyArray) -> AnyArray:
    """Weighted sums of rows of values, (n_nodes, n_values)."""
    return level.rows.products(values, weight[..., None, :])[..., 0]


def gini_drop(
    level: Level,
    share: Float[AnyArray, "... n_classes rows"],
    left: Bool[AnyArray, "... rows"],
) -> Float[AnyArray, " n_nodes"]:
    """Drop of the Gini impurity, times the weight, if some rows go left."""

    def purity(count: AnyArray) -> AnyArray:
        return safe_divide((count**2).sum(axis=-1), count.sum(axis=-1))

    weight, xp = level.weight, level.rows.xp
    every = _counts(level, share, weight)
    on_left = _counts(level, share, xp.where(left, weight, 0.0))
    on_right = _counts(level, share, xp.where(left, 0.0, weight))
    return purity(on_left) + purity(on_right) - purity(every)


def _groups(level: Level, share: AnyArray) -> AnyArray:
    """Which classes are in the first of two groups, (n_groups, n_nodes, n_classes)."""
    rows, xp, n_classes = level.rows, level.rows.xp, share.shape[-2]
    alone = xp.eye(n_classes, dtype=share.dtype)[:, None]
    alone = xp.broadcast_to(alone, (n_classes, level.n_nodes, n_classes))
    if n_classes == 2:
        return alone[:1]
    if not level.x.shape[-2]:
        return alone
    count = _counts(level, share, level.weight)
    total = count.sum(axis=-1, keepdims=True)
    center = rows.head(level.x, 1)[..., 0]
    center = center + safe_divide(
        _counts(level, level.x - rows.spread(center), level.weight), total
    )
    apart = level.x - rows.spread(center)
    variance = safe_divide(_counts(level, apart**2, level.weight), total)
    scale = xp.where(variance > 0, variance, 1.0) ** 0.5
    mean = rows.products(share * level.weight[..., None, :], apart)
    mean = safe_divide(mean, count[..., None]) / scale[:, None]
    between = matmul((count[..., None] * mean).swapaxes(-1, -2), mean)
    place = matvec(mean, leading_eigenvectors(between, 1)[:, 0])
    order = xp.argsort(place, axis=-1, stable=True)
    ordered = xp.take_along_axis(count, order, axis=-1)
    below = xp.cumsum(ordered, axis=-1) - 0.5 * ordered
    rank = xp.argsort(order, axis=-1, stable=True)
    half = xp.take_along_axis(below < 0.5 * total, rank, axis=-1)
    return xp.concatenate([alone, half.astype(share.dtype)[None]])
