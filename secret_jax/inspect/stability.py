"""How much of a tree stays when it is grown on other rows of the same kind."""

import warnings
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state

from secret_jax.data.hashes import group_numbers
from secret_jax.data.validation import checked_weight
from secret_jax.inspect.equations import CategorySplit, conditions_at, rounded_split
from secret_jax.inspect.view import estimator_of
from secret_jax.runtime.environment import imported
from secret_jax.runtime.progress import Stage, shown
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
    verbose: Any = 1,
) -> Any:
    """Fit a model again on reweighted rows, and count what the trees split on.

    A column that only some of the trees split on may be one of several that would do as
    well. A resample multiplies the weight of each row, or group, by a draw from the
    exponential distribution: the Bayesian bootstrap (Rubin, Annals of Statistics 9,
    1981; of trees Philipp, Zeileis and Strobl, COMPSTAT 2016). So no row has a copy,
    which could not judge it, and every resample has all classes and categories.

    Parameters
    ----------
    X, y, sample_weight, groups
        The rows that the model was fitted on, or others like them, as in `fit`; rows of
        a group are weighed alike.
    n_resamples : int, at least 2
        Each costs a fit.
    random_state : int, RandomState instance or None
        Draws the weights.
    verbose : int, default=1
        Whether to show which resample is being fitted; 0: silent.

    Returns
    -------
    pandas.DataFrame
        A row for each column that any tree splits on, the most frequent first:
        ``resamples`` and ``at_root``, the shares of the resamples whose tree, and whose
        root, splits on it, ``in_tree``, whether the fitted tree does, and of the
        thresholds of splits on it alone the ``low`` and ``high`` decile and the
        ``median``. In ``attrs`` the ``n_leaves`` of each resample's tree.

    Examples
    --------
    >>> from secret_jax import SecretRegressor
    >>> from secret_jax.datasets import make_fried
    >>> X, y = make_fried(500, random_state=0)
    >>> model = SecretRegressor(oblique=False, max_leaf_nodes=4).fit(X, y)
    >>> found = model.stability(X, y, n_resamples=2, random_state=0, verbose=0)
    >>> found.columns.tolist()
    ['resamples', 'at_root', 'in_tree', 'low', 'median', 'high']
    """
    model = estimator_of(model)
    if not is_integer(n_resamples) or n_resamples < 2:
        raise ValueError(f"n_resamples is {n_resamples}; give at least 2.")
    weight = checked_weight(sample_weight, X)
    group = np.arange(len(weight))
    if groups is not None:
        group = np.unique(group_numbers(groups, len(weight)), return_inverse=True)[1]
    random = np.random.default_rng(check_random_state(random_state).randint(2**31 - 1))
    trees = [model.tree_]
    with shown(verbose) as progress, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the first fit has said them
        stage = Stage("fitting on resamples", progress)
        for done in range(n_resamples):
            stage.at(done, n_resamples, f"{done + 1} of {n_resamples}")
            drawn = random.exponential(size=group.max() + 1)[group] * weight
            again: Any = clone(model)
            again.verbose = 0  # which subclasses may not have as a parameter
            trees.append(again.fit(X, y, drawn, groups=groups).tree_)
    return _frequencies(trees)


def _frequencies(trees: list[Tree]) -> Any:
    """The table of `stability`; the first tree is the fitted one."""
    rows = []
    for number, tree in enumerate(trees):
        for node in np.flatnonzero(~tree.is_leaf).tolist():
            for split in conditions_at(tree, node):
                if isinstance(split, CategorySplit):
                    rows.append((number, node == 0, split.column, np.nan))
                    continue
                alone = [term.asks for term in split.terms] == ["number"]
                cut = rounded_split(split).threshold if alone else np.nan
                rows += [(number, node == 0, one.column, cut) for one in split.terms]
    pandas = imported("pandas", "Tables", "data")
    asked = pandas.DataFrame(rows, columns=["tree", "at_root", "column", "cut"])
    asked = asked.astype({"at_root": bool, "cut": float})
    others, n_others = asked[asked["tree"] > 0], len(trees) - 1
    again, at_root = (
        some.groupby("column") for some in (others, others[others["at_root"]])
    )
    table = pandas.DataFrame(
        {
            "resamples": again["tree"].nunique() / n_others,
            "at_root": at_root["tree"].nunique() / n_others,
            "in_tree": asked.groupby("column")["tree"].min() == 0,
            "low": again["cut"].quantile(0.1),
            "median": again["cut"].median(),
            "high": again["cut"].quantile(0.9),
        }
    ).fillna({"resamples": 0.0, "at_root": 0.0})
    table.index = [str(trees[0].schema.names[column]) for column in table.index]
    table = table.sort_values(["resamples", "at_root"], ascending=False, kind="stable")
    table.attrs["n_leaves"] = [tree.n_leaves for tree in trees[1:]]
    return table
