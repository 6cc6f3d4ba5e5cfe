"""What trees of resamples split on, beside the tree itself: counted, and in words."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from secret_jax.inspect.equations import (
    CategorySplit,
    LinearSplit,
    conditions_at,
)
from secret_jax.inspect.printing import counted_leaves, number, quoted
from secret_jax.losses.classes import class_in_words
from secret_jax.tree.structure import Tree

if TYPE_CHECKING:
    from secret_jax.inspect.plot.picture import Picture

_MOST_SETS = 2
_HEADER = ("column", "split on", "at the root", "in the tree", "where")


class SplitColumns(NamedTuple):
    """Splits of one tree by column.

    ``depths`` at which each column is split on, alone or in a sum; ``thresholds`` of
    splits on one column of numbers, and the ``sets`` of categories that are listed.
    """

    n_leaves: int
    depths: list[set[int]]
    thresholds: dict[str, list[float]]
    sets: dict[str, list[tuple]]

    @classmethod
    def of(cls, tree: Tree) -> SplitColumns:
        """Collect the columns, thresholds and categories of the splits of a tree."""
        columns = cls(tree.n_leaves, [set() for _ in tree.schema.names], {}, {})
        for node in np.flatnonzero(~tree.is_leaf).tolist():
            for _, split in conditions_at(tree, node):
                columns._add(split, int(tree.depth[node]))
        return columns

    def _add(self, split: LinearSplit | CategorySplit, depth: int) -> None:
        if isinstance(split, CategorySplit):
            self.depths[split.column].add(depth)
            self.sets.setdefault(split.name, []).append(split.listed)
            return
        for term in split.terms:
            self.depths[term.column].add(depth)
        first = split.terms[0]
        if len(split.terms) == 1 and first.asks == "number":
            self.thresholds.setdefault(first.name, []).append(split.threshold)

    @property
    def at_root(self) -> list[bool]:
        """Whether the root splits on each column."""
        return [0 in depths for depths in self.depths]


@dataclass(frozen=True, eq=False, kw_only=True)
class Stability:
    """Agreement of trees of resamples with a tree, and with each other.

    Attributes
    ----------
    original, resamples : SplitColumns, list of SplitColumns
        What the fitted tree itself, and what those of the resamples split on.
    deviation : ndarray of shape (n_outputs,), float64
        Standard deviation of the predictions of a row over the resamples, the mean over
        the rows: 0 where all trees agree. Of numbers in standard deviations of the
        target, of classes of the probability itself.
    equal_classes : float
        Of a classifier the share of the rows whose predicted class a resample's tree
        predicts as well, the mean over resamples; otherwise NaN.
    """

    names: tuple[str, ...]
    original: SplitColumns
    resamples: list[SplitColumns]
    target_names: tuple[str, ...]
    deviation: np.ndarray
    equal_classes: float = math.nan

    @property
    def used(self) -> np.ndarray:
        """Share of the resamples that split on each column, shape (n_columns,)."""
        return np.mean([[*map(bool, one.depths)] for one in self.resamples], axis=0)

    @property
    def at_root(self) -> np.ndarray:
        """Share of the resamples that split on each column at the root."""
        return np.mean([one.at_root for one in self.resamples], axis=0)

    @property
    def in_original(self) -> np.ndarray:
        """Whether the fitted tree splits on each column, bool."""
        return np.array([*map(bool, self.original.depths)])

    @property
    def equal_roots(self) -> float:
        """Share of the resamples whose root splits on the columns of the tree's."""
        root = self.original.at_root
        return float(np.mean([one.at_root == root for one in self.resamples]))

    @property
    def n_leaves(self) -> np.ndarray:
        """Number of leaves of each resample's tree, shape (n_resamples,), int."""
        return np.array([one.n_leaves for one in self.resamples])

    def thresholds(self, name: str) -> np.ndarray:
        """All thresholds of splits on one column of numbers, rising."""
        return np.sort(
            [v for one in self.resamples for v in one.thresholds.get(name, ())]
        )

    def sets(self, name: str) -> list[tuple[tuple, int]]:
        """Sets of categories that splits list, and how often, largest first."""
        every = (chosen for one in self.resamples for chosen in one.sets.get(name, ()))
        return Counter(every).most_common()

    def order(self) -> np.ndarray:
        """Columns that any tree splits on, the most frequent first."""
        rank = np.lexsort((-self.at_root, -self.used))
        return rank[(self.used[rank] > 0) | self.in_original[rank]]

    def __str__(self) -> str:
        """The summary as text."""
        return "\n".join(_lines(self))

    def plot(self) -> Picture:
        """Draw how often columns are split on, and where.

        See `secret_jax.inspect.plot.stability.plot_stability`.
        """
        from secret_jax.inspect.plot.stability import plot_stability

        return plot_stability(self)


def _lines(stability: Stability) -> Iterator[str]:
    """Write the leaves, roots and predictions of resamples, and a line a column."""
    leaves = stability.n_leaves
    yield f"{len(leaves)} resamples, each with a tree of its own"
    yield (
        f"size: {leaves.min()} to {counted_leaves(leaves.max())}, half of them up to "
        f"{number(float(np.median(leaves)))}; the tree itself has "
        f"{counted_leaves(stability.original.n_leaves)}"
    )
    same = f"{stability.equal_roots:.0%}"
    yield f"root: split on the same columns as the tree's in {same}"
    of_classes = not math.isnan(stability.equal_classes)
    if of_classes:
        yield (
            f"classes: for {stability.equal_classes:.0%} of the rows a tree of a "
            "resample predicts the class that the tree predicts"
        )
    apart = zip(stability.target_names, stability.deviation.tolist(), strict=True)
    for name, by in apart:
        if of_classes:
            what = f"probability of {quoted(class_in_words(name))}: it differs"
            unit = f"{number(100 * by, 2)} percentage points"
        else:
            what = f"predictions of {name}: they differ"
            unit = f"{number(by, 2)} of the target's standard deviation"
        yield f"{what} between the trees by {unit}"
    order = stability.order().tolist()
    if not order:
        yield "no tree splits on any column"
        return
    rows: list[tuple[str, ...]] = [_HEADER]
    for column in order:
        name, split = stability.names[column], stability.in_original[column]
        shares = stability.used[column], stability.at_root[column]
        cells = [f"{share:.0%}" for share in shares] + ["yes" if split else "no"]
        rows.append((name, *cells, _where(stability, name)))
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    yield ""
    for first, *cells, where in rows:
        padded = [cell.rjust(w) for cell, w in zip(cells, widths[1:], strict=False)]
        yield "  ".join([first.ljust(widths[0]), *padded, where]).rstrip()


def _where(stability: Stability, name: str) -> str:
    """Write the thresholds of a column of numbers, or the most frequent sets."""
    sets, thresholds = stability.sets(name), stability.thresholds(name)
    if sets:
        shown = sets[:_MOST_SETS]
        words = [f"{{{', '.join(map(_word, one))}}} {n}x" for one, n in shown]
        more = len(sets) - len(shown)
        return ", ".join(words + [f"{more} others"] * (more > 0))
    if not len(thresholds):
        return ""
    low, middle, high = (number(v, 4) for v in np.quantile(thresholds, [0.1, 0.5, 0.9]))
    of_tree = sorted(stability.original.thresholds.get(name, ()))
    place = f"{low} to {high}, median {middle}"
    if not of_tree:
        return place
    return f"{place}; the tree's {', '.join(number(value, 4) for value in of_tree)}"


def _word(category: Any) -> str:
    return "missing" if category is None else str(category)
