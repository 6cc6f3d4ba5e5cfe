"""How much of a tree stays when it is grown on other rows of the same kind.

The tree is fitted again on resamples of the rows, and what the new trees split on is
counted (Philipp, Zeileis & Strobl, A Toolkit for Stability Assessment of Tree-Based
Learners, COMPSTAT 2016); how far their predictions lie apart is measured as well. A
resample is a set of integer weights. A row that is drawn twice weighs two, but is one
row: were its copies to judge each other, trees would grow far too large.
"""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from secret_jax.data.validation import copies_of, validated_weight
from secret_jax.inspect.arguments import check_choice, check_counts, check_share
from secret_jax.inspect.classes import Classes, with_all_classes
from secret_jax.inspect.equations import CategorySplit, split_in_original_units
from secret_jax.inspect.printing import counted_leaves, number, quoted
from secret_jax.losses.classes import class_in_words
from secret_jax.runtime.parallel import one_thread_for_products
from secret_jax.runtime.progress import Stage
from secret_jax.runtime.progress_line import shown
from secret_jax.runtime.values import is_integer
from secret_jax.tree.structure import SplitKind, Tree

if TYPE_CHECKING:
    from secret_jax.inspect.plot.picture import Picture

Method = Literal["bootstrap", "subsample"]
_MOST_SETS = 2
_HEADER = ("column", "split on", "at the root", "in the tree", "where")


class SplitColumns(NamedTuple):
    """Splits of one tree by column.

    Attributes
    ----------
    n_leaves : int
    depths : list of set of int
        For each column the depths at which it is split on, alone or in a sum.
    thresholds : dict of str to list of float
        Of splits on one column of numbers, in its units.
    sets : dict of str to list of tuple
        Of splits on categories: those of the side that is listed.
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
            split, depth = split_in_original_units(tree, node), int(tree.depth[node])
            if isinstance(split, CategorySplit):
                columns.depths[split.column].add(depth)
                columns.sets.setdefault(split.name, []).append(split.listed)
                continue
            for term in split.terms:
                columns.depths[term.column].add(depth)
            first = split.terms[0]
            if tree.kind[node] == SplitKind.AXIS and first.asks == "number":
                columns.thresholds.setdefault(first.name, []).append(split.threshold)
        return columns

    @property
    def at_root(self) -> list[bool]:
        """Whether the root splits on each column."""
        return [0 in depths for depths in self.depths]


@dataclass(frozen=True, eq=False, kw_only=True)
class Stability:
    """Agreement of trees of resamples with a tree, and with each other.

    Attributes
    ----------
    names : tuple of str
        Of the columns.
    original : SplitColumns
        What the fitted tree itself splits on.
    resamples : list of SplitColumns
        What the trees of the resamples split on.
    target_names : tuple of str
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

    def plot(self, *, max_columns: int | None = 6) -> Picture:
        """Draw how often columns are split on, and where.

        See `secret_jax.inspect.plot.stability.plot_stability`.
        """
        from secret_jax.inspect.plot.stability import plot_stability

        return plot_stability(self, max_columns=max_columns)


def stability(
    model: Any,
    X: Any,
    y: Any,
    *,
    sample_weight: Any = None,
    n_resamples: int = 30,
    method: Method = "bootstrap",
    fraction: float = 0.8,
    random_state: Any = None,
) -> Stability:
    """Fit a model again on resamples of rows, and compare the trees.

    Parameters
    ----------
    X : array-like or DataFrame of shape (n_rows, n_features)
    y : array-like of shape (n_rows,) or (n_rows, n_outputs)
        The rows that the model was fitted on, or others like them.
    sample_weight : array-like of shape (n_rows,), optional
        Integers count as so many rows, which are drawn one by one.
    n_resamples : int, default=30
        At least 2.
    method : {"bootstrap", "subsample"}, default="bootstrap"
        As many rows as there are, drawn with replacement; or a ``fraction`` of them,
        drawn without.
    fraction : float, default=0.8
        In (0, 1).
    random_state : int, RandomState instance or None
        Draws the rows.

    Raises
    ------
    ValueError
        If a parameter means nothing, or the rows cannot be used.
    """
    check_is_fitted(model)
    check_counts(n_resamples=n_resamples)
    if not is_integer(n_resamples) or n_resamples < 2:
        raise ValueError(f"n_resamples is {n_resamples}; give at least 2.")
    check_choice("method", method, ("bootstrap", "subsample"))
    check_share("fraction", fraction)
    tree, targets = model.tree_, model._targets(y, X, np.ones(len(X))).values
    if targets.shape[1] != tree.n_outputs:
        raise ValueError(
            f"y has {targets.shape[1]} output(s), but the tree has {tree.n_outputs}. "
            "Give the targets that it was fitted on."
        )
    weight = validated_weight(sample_weight, X)
    seed = int(check_random_state(random_state).randint(2**31 - 1))
    random = np.random.default_rng(seed)
    resamples, predictions = [], []
    with shown(model.verbose) as progress:
        stage = Stage("fitting on resamples", progress)
        for done in range(n_resamples):
            stage.at(done, n_resamples, f"{done + 1} of {n_resamples}")
            drawn, copies = resampled(weight, random, method, fraction)
            again: Any = clone(model)
            again.set_params(verbose=0)
            with warnings.catch_warnings(), one_thread_for_products():
                # What a resample lacks is no news to whoever has all rows.
                warnings.simplefilter("ignore", UserWarning)
                again._fit(again._plan(), X, y, drawn, copies=copies)
                predictions.append(again._outputs(X).reshape(targets.shape))
            resamples.append(SplitColumns.of(again.tree_))
    apart = np.average(np.std(predictions, axis=0), axis=0, weights=weight)
    classes, equal = Classes.of_estimator(model), math.nan
    if classes is None:
        mean = np.average(targets, axis=0, weights=weight)
        spread = np.sqrt(np.average((targets - mean) ** 2, axis=0, weights=weight))
        apart = apart / np.where(spread > 0, spread, 1.0)
    else:
        predicted = classes.chosen(
            with_all_classes(model._outputs(X).reshape(targets.shape))
        )
        same = [classes.chosen(with_all_classes(p)) == predicted for p in predictions]
        equal = float(np.average(np.mean(same, axis=0), weights=weight))
    return Stability(
        names=tuple(map(str, tree.schema.names)),
        original=SplitColumns.of(tree),
        resamples=resamples,
        target_names=tree.schema.target_names,
        deviation=apart,
        equal_classes=equal,
    )


def resampled(
    weight: np.ndarray,
    random: np.random.Generator,
    method: Method = "bootstrap",
    fraction: float = 0.8,
) -> tuple[np.ndarray, np.ndarray]:
    """Draw rows: their weights, 0 for those not drawn, and how many of them differ.

    Where all weights are integers, a row stands for so many, and each of them is drawn
    by itself; with replacement as many differ as are to be expected. Otherwise rows are
    drawn and keep their weights.
    """
    whole = bool(np.equal(np.mod(weight, 1), 0).all())
    copies = weight.astype(np.int64) if whole else (weight > 0).astype(np.int64)
    total = int(copies.sum())
    if method == "bootstrap":
        drawn = random.multinomial(total, copies / total)
    else:
        size = max(1, round(fraction * total))
        drawn = random.multivariate_hypergeometric(copies, size, method="marginals")
    drawn = drawn.astype(np.float64) if whole else drawn * weight
    copies, different = np.maximum(copies_of(weight), 1), copies_of(drawn)
    if method == "bootstrap":
        different = np.rint(copies * (1.0 - (1.0 - 1.0 / copies) ** different))
    return drawn, np.clip(different, 1, copies).astype(np.int64)


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
    for name, apart in zip(
        stability.target_names, stability.deviation.tolist(), strict=True
    ):
        yield (
            f"probability of {quoted(class_in_words(name))}: it differs between the "
            f"trees by {number(100 * apart, 2)} percentage points"
            if of_classes
            else f"predictions of {name}: they differ between the trees by "
            f"{number(apart, 2)} of the target's standard deviation"
        )
    order = stability.order().tolist()
    if not order:
        yield "no tree splits on any column"
        return
    rows: list[tuple[str, ...]] = [_HEADER]
    for column in order:
        shares = [
            f"{share[column]:.0%}" for share in (stability.used, stability.at_root)
        ]
        split = "yes" if stability.in_original[column] else "no"
        name = stability.names[column]
        rows.append((name, *shares, split, _where(stability, name)))
    widths = [max(len(row[i]) for row in rows) for i in range(4)]
    yield ""
    for first, *shares, where in rows:
        cells = [one.rjust(wide) for one, wide in zip(shares, widths[1:], strict=True)]
        yield "  ".join([first.ljust(widths[0]), *cells, where]).rstrip()


def _where(stability: Stability, name: str) -> str:
    """Write the thresholds of a column of numbers, or the most frequent sets."""
    sets, thresholds = stability.sets(name), stability.thresholds(name)
    words = [
        f"{{{', '.join('missing' if v is None else str(v) for v in chosen)}}} {n}x"
        for chosen, n in sets[:_MOST_SETS]
    ]
    if sets:
        more = len(sets) - _MOST_SETS
        return ", ".join(words) + (f", {more} others" if more > 0 else "")
    if not len(thresholds):
        return ""
    low, middle, high = (number(v, 4) for v in np.quantile(thresholds, [0.1, 0.5, 0.9]))
    of_tree = sorted(stability.original.thresholds.get(name, ()))
    place = f"{low} to {high}, median {middle}"
    if not of_tree:
        return place
    return f"{place}; the tree's {', '.join(number(value, 4) for value in of_tree)}"
