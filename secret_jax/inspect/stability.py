"""How much of a tree stays when it is grown on other rows of the same kind.

The tree is fitted again on resamples of the rows, and what the new trees split on is
counted, as by the R package stablelearner (Philipp, Zeileis & Strobl 2016); how far
their predictions lie apart is measured as well. A resample is a set of integer weights.
A row that is drawn twice weighs two, but is one row: were its copies to judge each
other, trees would grow far too large.

References
----------
M. Philipp, A. Zeileis and C. Strobl. A Toolkit for Stability Assessment of Tree-Based
Learners. COMPSTAT 2016.
"""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from secret_jax.data.validation import copies_of, validated_weight
from secret_jax.inspect.arguments import check_choice, check_count
from secret_jax.inspect.classes import Classes, with_all_classes
from secret_jax.inspect.equations import CategorySplit, split_in_original_units
from secret_jax.runtime.parallel import one_thread_for_products
from secret_jax.runtime.progress import Stage
from secret_jax.runtime.progress_line import shown
from secret_jax.runtime.values import is_integer, is_real
from secret_jax.tree.structure import SplitKind, Tree

if TYPE_CHECKING:
    from secret_jax.inspect.plot.picture import Picture

_FEWEST = 2


class SplitColumns(NamedTuple):
    """What a tree splits on.

    Attributes
    ----------
    at_depth : ndarray of shape (n_columns, depth), bool
        Whether some node of that depth splits on the column, alone or in a sum.
    thresholds : dict of str to list of float
        Of splits on one column of numbers, in its units.
    sets : dict of str to list of tuple
        Of splits on categories: those of the side that is listed.
    """

    at_depth: np.ndarray
    thresholds: dict[str, list[float]]
    sets: dict[str, list[tuple]]


@dataclass(frozen=True, eq=False, kw_only=True)
class Stability:
    """What the trees of resamples have in common with a tree, and among each other.

    Attributes
    ----------
    names : tuple of str
        Of the columns.
    used : ndarray of shape (n_columns,), float64
        Share of the resamples whose tree splits on the column at all.
    at_depth : ndarray of shape (n_columns, largest depth), float64
        The same at each depth; the root's is 0.
    original : SplitColumns
        What the fitted tree itself splits on.
    thresholds : dict of str to ndarray
        All thresholds of splits on one column of numbers, rising, of all resamples.
    sets : dict of str to dict of tuple to int
        For columns of categories how often a split set these apart from all others, the
        most frequent first.
    n_leaves : ndarray of shape (n_resamples,), int
    equal_roots : float
        Share of the resamples whose root splits on the same columns as the fitted
        tree's (or is a leaf as well).
    deviation : ndarray of shape (n_outputs,), float64
        Standard deviation of the predictions of a row over the resamples, the mean over
        the rows: 0 where all trees agree. Of numbers in standard deviations of the
        target, of classes of the probability itself.
    equal_classes : float
        Of a classifier the share of the rows whose predicted class a resample's tree
        predicts as well, the mean over resamples; otherwise NaN.
    """

    names: tuple[str, ...]
    used: np.ndarray
    at_depth: np.ndarray
    original: SplitColumns
    thresholds: Mapping[str, np.ndarray]
    sets: Mapping[str, Mapping[tuple, int]]
    n_leaves: np.ndarray
    n_leaves_original: int
    equal_roots: float
    target_names: tuple[str, ...]
    deviation: np.ndarray
    equal_classes: float = math.nan

    @property
    def n_resamples(self) -> int:
        """Number of resamples."""
        return len(self.n_leaves)

    @property
    def at_root(self) -> np.ndarray:
        """Share of the resamples that split on each column at the root."""
        empty = np.zeros(len(self.names))
        return self.at_depth[:, 0] if self.at_depth.shape[1] else empty

    @property
    def in_original(self) -> np.ndarray:
        """Whether the fitted tree splits on each column, bool."""
        return np.asarray(self.original.at_depth.any(axis=1))

    def order(self) -> np.ndarray:
        """Columns that any tree splits on, the most frequent first."""
        rank = np.lexsort((-self.at_root, -self.used))
        return rank[(self.used[rank] > 0) | self.in_original[rank]]

    def __str__(self) -> str:
        """The summary as text."""
        from secret_jax.inspect.stability_text import summary

        return summary(self)

    def plot(self, *, max_columns: int | None = 6) -> Picture:
        """Draw how often columns are split on, and where.

        Parameters
        ----------
        max_columns : int or None, default=6
            Most columns of numbers whose thresholds are drawn; None: all.

        Returns
        -------
        secret_jax.inspect.plot.picture.Picture
            The frequencies, then the thresholds of each column; those of the fitted
            tree are lines.
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
    method: Literal["bootstrap", "subsample"] = "bootstrap",
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
    _check(n_resamples, method, fraction)
    targets = model._targets(y, X, np.ones(len(X))).values
    if targets.shape[1] != model.tree_.n_outputs:
        raise ValueError(
            f"y has {targets.shape[1]} output(s), but the tree has "
            f"{model.tree_.n_outputs}. Give the targets that it was fitted on."
        )
    weight = validated_weight(sample_weight, X)
    seed = int(check_random_state(random_state).randint(2**31 - 1))
    random = np.random.default_rng(seed)
    found: list[SplitColumns] = []
    n_leaves, predictions = [], []
    with shown(model.verbose) as progress:
        stage = Stage("fitting on resamples", progress)
        for done in range(n_resamples):
            stage.at(done, n_resamples, f"{done + 1} of {n_resamples}")
            drawn = resampled(weight, random, method, fraction)
            again: Any = clone(model)
            again.set_params(verbose=0)
            with warnings.catch_warnings():
                # What a resample lacks is no news to whoever has all rows.
                warnings.simplefilter("ignore", UserWarning)
                with one_thread_for_products():
                    copies = different_rows(weight, drawn, method)
                    again._fit(again._plan(), X, y, drawn, copies=copies)
                predictions.append(again._outputs(X).reshape(targets.shape))
            found.append(split_columns(again.tree_))
            n_leaves.append(again.n_leaves_)
    compared = _compared(model.tree_, found, n_leaves)
    drawn, own = np.array(predictions), model._outputs(X).reshape(targets.shape)
    apart = np.average(drawn.std(axis=0), axis=0, weights=weight)
    classes = Classes.of_estimator(model)
    if classes is None:
        mean = np.average(targets, axis=0, weights=weight)
        spread = np.sqrt(np.average((targets - mean) ** 2, axis=0, weights=weight))
        return replace(compared, deviation=apart / np.where(spread > 0, spread, 1.0))
    predicted = classes.chosen(with_all_classes(own))
    same = np.mean(
        [classes.chosen(with_all_classes(one)) == predicted for one in drawn], axis=0
    )
    equal = float(np.average(same, weights=weight))
    return replace(compared, deviation=apart, equal_classes=equal)


def _check(n_resamples: Any, method: Any, fraction: Any) -> None:
    check_count("n_resamples", n_resamples)
    if not is_integer(n_resamples) or n_resamples < _FEWEST:
        raise ValueError(f"n_resamples is {n_resamples}; give at least {_FEWEST}.")
    check_choice("method", method, ("bootstrap", "subsample"))
    if not is_real(fraction) or not 0 < fraction < 1:
        raise ValueError(f"fraction must be a float in (0, 1). Got {fraction!r}.")


def resampled(
    weight: np.ndarray,
    random: np.random.Generator,
    method: Literal["bootstrap", "subsample"] = "bootstrap",
    fraction: float = 0.8,
) -> np.ndarray:
    """Weights of the rows of a resample; 0 for those that were not drawn.

    Parameters
    ----------
    weight : ndarray of shape (n_rows,), float64
        Where all are integers, a row stands for so many, and each of them is drawn by
        itself. Otherwise rows are drawn and keep their weights.
    method, fraction
        As in `stability`.

    Returns
    -------
    ndarray of shape (n_rows,), float64
    """
    whole = bool(np.equal(np.mod(weight, 1), 0).all())
    copies = weight.astype(np.int64) if whole else (weight > 0).astype(np.int64)
    total = int(copies.sum())
    if method == "bootstrap":
        drawn = random.multinomial(total, copies / total)
    else:
        size = max(1, round(fraction * total))
        drawn = random.multivariate_hypergeometric(copies, size, method="marginals")
    return drawn.astype(np.float64) if whole else drawn * weight


def different_rows(
    weight: np.ndarray,
    drawn: np.ndarray,
    method: Literal["bootstrap", "subsample"] = "bootstrap",
) -> np.ndarray:
    """How many different ones of the rows that each stands for were drawn.

    Parameters
    ----------
    weight, drawn : ndarray of shape (n_rows,), float64
        As `resampled` took and gave them.
    method : {"bootstrap", "subsample"}

    Returns
    -------
    ndarray of shape (n_rows,), int64
        With replacement as many as are to be expected.

    Examples
    --------
    >>> different_rows(np.array([1.0, 100.0]), np.array([3.0, 100.0]))
    array([ 1, 63])
    """
    copies = np.maximum(copies_of(weight), 1)
    n_drawn = copies_of(drawn)
    if method == "bootstrap":
        n_drawn = np.rint(copies * (1.0 - (1.0 - 1.0 / copies) ** n_drawn))
    return np.clip(n_drawn, 1, copies).astype(np.int64)


def split_columns(tree: Tree) -> SplitColumns:
    """The columns, thresholds and categories of the splits of a tree."""
    names = tree.schema.names
    at_depth = np.zeros((len(names), tree.max_depth), bool)
    thresholds: dict[str, list[float]] = {}
    sets: dict[str, list[tuple]] = {}
    for node in np.flatnonzero(~tree.is_leaf):
        split = split_in_original_units(tree, int(node))
        depth = tree.depth[node]
        if isinstance(split, CategorySplit):
            at_depth[split.column, depth] = True
            sets.setdefault(split.name, []).append(split.listed)
            continue
        for term in split.terms:
            at_depth[term.column, depth] = True
        asks_number = split.terms[0].asks == "number"
        if tree.kind[node] == SplitKind.AXIS and asks_number:
            thresholds.setdefault(split.terms[0].name, []).append(split.threshold)
    return SplitColumns(at_depth, thresholds, sets)


def _compared(tree: Tree, found: list[SplitColumns], n_leaves: list[int]) -> Stability:
    """What trees split on, beside a tree; how far they predict apart is left open."""
    original = split_columns(tree)
    names = tree.schema.names
    depth = max(columns.at_depth.shape[1] for columns in [*found, original])

    def at_depth(columns: SplitColumns) -> np.ndarray:
        missing = depth - columns.at_depth.shape[1]
        return np.pad(columns.at_depth, [(0, 0), (0, missing)])

    every = np.array([at_depth(columns) for columns in found])
    # A tree of one leaf splits on nothing anywhere; another one does.
    roots = every[:, :, :1]
    same = (roots == at_depth(original)[:, :1]).all(axis=(1, 2))
    thresholds: dict[str, list[float]] = {}
    sets: dict[str, Counter] = {}
    for columns in found:
        for name, values in columns.thresholds.items():
            thresholds.setdefault(name, []).extend(values)
        for name, chosen in columns.sets.items():
            sets.setdefault(name, Counter()).update(chosen)
    return Stability(
        names=tuple(map(str, names)),
        used=every.any(axis=2).mean(axis=0),
        at_depth=every.mean(axis=0),
        original=original,
        thresholds={name: np.sort(values) for name, values in thresholds.items()},
        sets={name: dict(counts.most_common()) for name, counts in sets.items()},
        n_leaves=np.array(n_leaves),
        n_leaves_original=tree.n_leaves,
        equal_roots=float(same.mean()),
        target_names=tree.schema.target_names,
        deviation=np.full(len(tree.schema.target_names), math.nan),
    )
