"""How much of a tree stays when it is grown on other rows of the same kind.

The tree is fitted again on resamples of the rows, and what the new trees split on is
counted (Philipp, Zeileis & Strobl, A Toolkit for Stability Assessment of Tree-Based
Learners, COMPSTAT 2016); how far their predictions lie apart is measured as well. A
resample is a set of weights: a row that is drawn twice weighs two, and is one row.
"""

import warnings
from collections import Counter
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state

from secret_jax.data.labels import refuse_other_classes
from secret_jax.data.sampling import draws_of_groups, group_numbers
from secret_jax.data.validation import validated_weight
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
            drawn = resampled(weight, random, group)
            again: Any = clone(model)
            again.verbose = 0
            with warnings.catch_warnings(), one_thread_for_products():
                # What a resample lacks is no news to whoever has all rows.
                warnings.simplefilter("ignore", UserWarning)
                again._fit(again._plan(), X, y, drawn, None, groups)
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
) -> np.ndarray:
    """Draw as many rows, or groups with all of their rows, as there are: weights."""
    drawn, used = np.zeros(len(weight)), weight > 0
    member = np.arange(used.sum()) if group is None else group[used]
    drawn[used] = draws_of_groups(member, random) * weight[used]
    return drawn


class _Asked(NamedTuple):
    """What a condition of a split asks of one column.

    The threshold of a number alone, or the categories that are listed; None of a sum.
    """

    column: int
    at_root: bool
    threshold: float | None = None
    listed: tuple | None = None


def _asked(tree: Tree) -> list[_Asked]:
    """List what the splits of a tree ask, column by column."""
    asked = []
    for node in np.flatnonzero(~tree.is_leaf).tolist():
        for _, split in conditions_at(tree, node):
            if isinstance(split, CategorySplit):
                asked.append(_Asked(split.column, node == 0, listed=split.listed))
                continue
            alone = len(split.terms) == 1 and split.terms[0].asks == "number"
            cut = rounded_split(split).threshold if alone else None
            asked += [_Asked(term.column, node == 0, cut) for term in split.terms]
    return asked


def frequencies(tree: Tree, resamples: list[Tree]) -> Any:
    """Make the table of `stability`: what trees of resamples and a tree split on."""
    trees = [_asked(one) for one in (tree, *resamples)]
    own, *used = ({one.column for one in asked} for asked in trees)
    root, *roots = ({one.column for one in asked if one.at_root} for asked in trees)
    rows = []
    for column in range(len(tree.schema.names)):
        here = [one for asked in trees[1:] for one in asked if one.column == column]
        cuts = [one.threshold for one in here if one.threshold is not None]
        low, median, high = np.quantile(cuts or [np.nan], [0.1, 0.5, 0.9])
        sets = Counter(one.listed for one in here if one.listed is not None)
        most = sets.most_common(1)[0][0] if sets else ()
        row = {
            "resamples": np.mean([column in columns for columns in used]),
            "at_root": np.mean([column in columns for columns in roots]),
            "in_tree": column in own,
            **{"low": low, "median": median, "high": high},
            "categories": ", ".join(map(quoted, most)),
        }
        rows.append(row)
    table = import_pandas().DataFrame(rows, index=[*map(str, tree.schema.names)])
    table = table[(table["resamples"] > 0) | table["in_tree"]]
    table = table.sort_values(["resamples", "at_root"], ascending=False, kind="stable")
    table.attrs["n_leaves"] = [one.n_leaves for one in resamples]
    table.attrs["same_root"] = float(np.mean([root == one for one in roots]))
    return table
