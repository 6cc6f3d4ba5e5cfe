"""How much of a tree stays when it is grown on other rows of the same kind.

The tree is fitted again on resamples of the rows, and what the new trees split on is
counted (Philipp, Zeileis & Strobl, A Toolkit for Stability Assessment of Tree-Based
Learners, COMPSTAT 2016); how far their predictions lie apart is measured as well. A
resample is a set of integer weights. A row that is drawn twice weighs two, but is one
row: were its copies to judge each other, trees would grow far too large.
"""

import warnings
from collections import Counter
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state

from secret_jax.data.labels import refuse_other_classes
from secret_jax.data.sampling import draws_of_groups, group_numbers
from secret_jax.data.validation import copies_of, validated_weight
from secret_jax.inspect.classes import Classes, with_all_classes
from secret_jax.inspect.equations import CategorySplit, conditions_at
from secret_jax.inspect.frame import import_pandas
from secret_jax.inspect.printing import quoted
from secret_jax.inspect.rounding import rounded_split
from secret_jax.inspect.views import estimator_of
from secret_jax.runtime.parallel import one_thread_for_products
from secret_jax.runtime.progress import Stage
from secret_jax.runtime.progress_line import shown
from secret_jax.runtime.values import is_integer
from secret_jax.tree.structure import Tree


def stability(
    model: Any,
    X: Any,
    y: Any,
    *,
    sample_weight: Any = None,
    groups: Any = None,
    n_resamples: int = 30,
    random_state: Any = None,
) -> Any:
    """Fit a model again on bootstrap samples of rows, and count what trees split on.

    Parameters
    ----------
    X : array-like or DataFrame of shape (n_rows, n_features)
    y : array-like of shape (n_rows,) or (n_rows, n_outputs)
        The rows that the model was fitted on, or others like them.
    sample_weight : array-like of shape (n_rows,), optional
        Integers count as so many rows, which are drawn one by one.
    groups : array-like of shape (n_rows,), optional
        Names of what rows belong to, as persons or places, which are drawn instead,
        each with all of its rows; fits know of them, as `SecretRegressor.fit`.
    n_resamples : int, default=30
        At least 2.
    random_state : int, RandomState instance or None
        Draws the rows.

    Returns
    -------
    pandas.DataFrame
        A row for each column that any tree splits on, the most frequent first:
        ``resamples`` and ``at_root``, the shares of the resamples whose tree, and whose
        root, splits on it, ``in_tree``, whether the fitted tree does; of the thresholds
        of splits on it alone the ``low`` and ``high`` decile and the ``median``, and
        the ``categories`` that are listed most often. ``.plot.barh()`` draws the
        shares. In ``attrs``: ``n_leaves`` of each resample's tree; ``same_root``, the
        share of roots that split on the columns of the tree's; ``deviation`` of the
        predictions of a row between the trees, the mean over the rows, for each output,
        of numbers in standard deviations of the target, of classes of the probability;
        of a classifier ``same_class``, the share of the rows whose predicted class is
        the tree's, the mean over the resamples.

    Raises
    ------
    ValueError
        If a parameter means nothing, or the rows cannot be used.
    """
    model = estimator_of(model)
    if not is_integer(n_resamples) or n_resamples < 2:
        raise ValueError(f"n_resamples is {n_resamples}; give at least 2.")
    tree, given = model.tree_, model._targets(y, X, np.ones(len(X)))
    classes, of_classes = Classes.of_estimator(model), {}
    if classes is not None:
        refuse_other_classes(given.learned["classes_"], model.classes_)
    targets = given.values
    if targets.shape[1] != tree.n_outputs:
        raise ValueError(
            f"y has {targets.shape[1]} output(s), but the tree has {tree.n_outputs}. "
            "Give the targets that it was fitted on."
        )
    weight = validated_weight(sample_weight, X)
    group = None if groups is None else group_numbers(groups, len(weight))
    random = np.random.default_rng(check_random_state(random_state).randint(2**31 - 1))
    trees, predictions = [], []
    with shown(model.verbose) as progress:
        stage = Stage("fitting on resamples", progress)
        for done in range(n_resamples):
            stage.at(done, n_resamples, f"{done + 1} of {n_resamples}")
            drawn, copies = resampled(weight, random, group)
            again: Any = clone(model)
            again.verbose = 0
            with warnings.catch_warnings(), one_thread_for_products():
                # What a resample lacks is no news to whoever has all rows.
                warnings.simplefilter("ignore", UserWarning)
                again._fit(again._plan(), X, y, drawn, None, groups, copies)
                predictions.append(again._outputs(X).reshape(targets.shape))
            trees.append(again.tree_)
    apart = np.average(np.std(predictions, axis=0), axis=0, weights=weight)
    if classes is None:
        mean = np.average(targets, axis=0, weights=weight)
        spread = np.sqrt(np.average((targets - mean) ** 2, axis=0, weights=weight))
        apart = apart / np.where(spread > 0, spread, 1.0)
    else:
        every = [model._outputs(X).reshape(targets.shape), *predictions]
        chosen = np.array([classes.chosen(with_all_classes(one)) for one in every])
        same = (chosen[1:] == chosen[0]).mean(axis=0)
        of_classes = {"same_class": float(np.average(same, weights=weight))}
    table = frequencies(tree, trees)
    table.attrs["deviation"] = apart.tolist()
    table.attrs |= of_classes
    return table


def resampled(
    weight: np.ndarray, random: np.random.Generator, group: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Draw as many rows as there are: their weights, and how many of them differ.

    Or as many groups, each with all of its rows.

    Where all weights are integers, a row stands for so many, and each of them is drawn
    by itself, so that as many differ as are to be expected. Otherwise rows are drawn
    and keep their weights. Rows that are not drawn weigh 0.
    """
    if group is not None:
        drawn, used = np.zeros(len(weight)), weight > 0
        drawn[used] = draws_of_groups(group[used], random) * weight[used]
        return drawn, copies_of(weight)
    whole = bool(np.equal(np.mod(weight, 1), 0).all())
    copies = weight.astype(np.int64) if whole else (weight > 0).astype(np.int64)
    drawn = random.multinomial(copies.sum(), copies / copies.sum()).astype(np.float64)
    drawn = drawn if whole else drawn * weight
    copies, different = np.maximum(copies_of(weight), 1), copies_of(drawn)
    different = np.rint(copies * (1.0 - (1.0 - 1.0 / copies) ** different))
    return drawn, np.clip(different, 1, copies).astype(np.int64)


class _Splits(NamedTuple):
    """Splits of one tree by column.

    ``depths`` at which each column is split on, alone or in a sum; ``thresholds`` of
    splits on one column of numbers, and the ``sets`` of categories that are listed.
    """

    depths: list[set[int]]
    thresholds: list[list[float]]
    sets: list[list[tuple]]

    @classmethod
    def of(cls, tree: Tree) -> Self:
        """Collect the columns, thresholds and categories of the splits of a tree."""
        columns = range(len(tree.schema.names))
        lists = [[] for _ in columns], [[] for _ in columns]
        splits = cls([set() for _ in columns], *lists)
        for node in np.flatnonzero(~tree.is_leaf).tolist():
            for _, split in conditions_at(tree, node):
                if isinstance(split, CategorySplit):
                    asked = [split.column]
                    splits.sets[split.column].append(split.listed)
                else:
                    asked = [term.column for term in split.terms]
                    if len(asked) == 1 and split.terms[0].asks == "number":
                        splits.thresholds[asked[0]].append(
                            rounded_split(split).threshold
                        )
                for column in asked:
                    splits.depths[column].add(int(tree.depth[node]))
        return splits

    @property
    def at_root(self) -> list[bool]:
        """Whether the root splits on each column."""
        return [0 in depths for depths in self.depths]


def frequencies(tree: Tree, resamples: list[Tree]) -> Any:
    """Make the table of `stability`: what trees of resamples and a tree split on."""
    original, splits = _Splits.of(tree), [_Splits.of(one) for one in resamples]
    used = np.mean([[*map(bool, one.depths)] for one in splits], axis=0)
    at_root = np.mean([one.at_root for one in splits], axis=0)
    in_tree = np.array([*map(bool, original.depths)])
    order = np.lexsort((-at_root, -used))
    order = order[(used[order] > 0) | in_tree[order]]
    cuts = [[v for one in splits for v in one.thresholds[column]] for column in order]
    deciles = [np.quantile(each or [np.nan], [0.1, 0.5, 0.9]) for each in cuts]
    low, median, high = np.reshape(deciles, (-1, 3)).T
    sets = [Counter(s for one in splits for s in one.sets[column]) for column in order]
    table = import_pandas().DataFrame(
        {
            "resamples": used[order],
            "at_root": at_root[order],
            "in_tree": in_tree[order],
            "low": low,
            "median": median,
            "high": high,
            "categories": [
                ", ".join(map(quoted, each.most_common(1)[0][0])) if each else ""
                for each in sets
            ],
        },
        index=[str(tree.schema.names[column]) for column in order],
    )
    same = [one.at_root == original.at_root for one in splits]
    table.attrs["n_leaves"] = [one.n_leaves for one in resamples]
    table.attrs["same_root"] = float(np.mean(same))
    return table
