"""Columns that are worth their place, told from lines before a tree is grown.

Where columns are many beside the rows, any equation of all of them fits noise, and so
does a fold's: the lasso says which few predict rows that were left out (Tibshirani
1996). What is left is searched column by column for what no line says; a column has to
beat the best of as many columns of noise. Categories that say nothing cost every leaf a
coefficient each, and many of them can be ordered so that noise looks like a split:
many levels whose means differ by no more than chance get no indicators, and if their
slopes do not differ either, they are not split on.
"""

import warnings
from collections.abc import Collection
from dataclasses import replace

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Lasso, LassoCV
from sklearn.model_selection import GroupKFold

from secret_jax.data.learning import ColumnOptions
from secret_jax.data.rows import Rows
from secret_jax.data.schema import Attributes, Role, TableSchema
from secret_jax.runtime.linalg import safe_divide

# Regressors are many where there are fewer rows than so many for each of them.
_ROWS_PER_REGRESSOR = 3
_N_FOLDS, _MOST_STEPS = 5, 2000
# Columns of noise are told from others as the largest of so many looks at each.
_QUANTILES = (0.25, 0.5, 0.75)
_N_LOOKS = len(_QUANTILES) + 2
# Fewer levels cost little, and may say in a part of the table what they do not in all.
_MANY_LEVELS = 9
# Indicators must explain so many noise variances each (Akaike 1974).
_LEAST_EXPLAINED = 2.0
# Levels of fewer rows each are split on where the squares of their means, or of one of
# their slopes, are so many deviations above chance. Of more rows splits can judge, also
# what categories say together.
_ROWS_PER_LEVEL = 30
_ABOVE, _FAR_ABOVE = 2.0, 3.5
# Penalty of the line beside which levels are looked at, per unit of weight.
_PENALTY = 1e-3


def are_many(schema: Attributes, n_rows: int) -> bool:
    """Whether there are too many numeric regressors for so many rows.

    Of fewer rows than folds none could be left out to choose among them.
    """
    n_numbers = len(schema.of_role(Role.REGRESSOR))
    return _N_FOLDS <= n_rows < n_numbers * _ROWS_PER_REGRESSOR


def with_useful_columns(
    options: ColumnOptions, schema: TableSchema, rows: Rows, kept: Collection[str] = ()
) -> ColumnOptions:
    """Say which columns a fit can do without: options for reading them again.

    ``rows``: encoded, in hash order. Of the columns ``kept`` splits are fixed.
    """
    numbers = schema.of_role(Role.REGRESSOR)
    x = np.asarray(rows.table.x[:, : len(numbers)], np.float64)
    in_lines = np.ones(len(numbers), bool)
    if are_many(schema, rows.n_rows):
        in_lines, in_splits = _few_columns(x, rows)
        names = np.array([schema.names[i] for i in numbers], object)
        in_splits |= ~in_lines & np.isin(names, list(kept))
        split = [schema.names[i] for i in schema.of_role(Role.SPLIT)]
        unused = tuple(names[~(in_lines | in_splits)])
        split_features = [*split, *names[in_splits]]
        options = replace(options, split_features=split_features, unused=unused)
    useless, silent = _useless_and_silent(schema, rows, x[:, in_lines])
    silent += [name for name in useless if name in kept]
    unused = [*options.unused, *(name for name in useless if name not in kept)]
    if len(unused) == len(schema.names):  # one is left
        silent.append(unused.pop())
    return replace(options, unused=tuple(unused), without_indicators=tuple(silent))


def _few_columns(x: np.ndarray, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
    """Masks of the columns of the lasso, and of those that only splits should see."""
    in_lines, score = np.zeros(x.shape[1], bool), np.zeros(x.shape[1])
    weight = rows.weight * len(x) / rows.weight.sum()
    for output in rows.targets.T:
        slopes = _lasso(x, output, weight, rows.group)
        in_lines |= slopes != 0.0
        score = np.maximum(score, _largest_gains(x, output - x @ slopes, weight))
    # The largest of so many chi-squared variables of one degree.
    n_looks = _N_LOOKS * x.shape[1] * rows.targets.shape[1]
    in_splits = ~in_lines & (score > 2.0 * np.log(n_looks))
    if not (in_lines.any() or in_splits.any()):
        in_splits[score.argmax()] = True
    return in_lines, in_splits


def _lasso(
    x: np.ndarray, output: np.ndarray, weight: np.ndarray, group: np.ndarray | None
) -> np.ndarray:
    """Slopes at the strongest penalty within a standard error of the least error."""
    folds, n_groups = _N_FOLDS, 0 if group is None else len(np.unique(group))
    if n_groups > 1:
        folds = list(GroupKFold(min(folds, n_groups)).split(x, groups=group))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        path = LassoCV(cv=folds, max_iter=_MOST_STEPS).fit(x, output, weight)
        mean = path.mse_path_.mean(axis=1)
        spread = path.mse_path_.std(axis=1) / np.sqrt(path.mse_path_.shape[1])
        least = mean.argmin()
        strongest = np.flatnonzero(mean <= mean[least] + spread[least])[0]
        line = Lasso(float(path.alphas_[strongest]), max_iter=_MOST_STEPS)
        return line.fit(x, output, weight).coef_


def _largest_gains(
    x: np.ndarray, residual: np.ndarray, weight: np.ndarray
) -> np.ndarray:
    """Variance that each column explains alone, by a line, a bend or a threshold."""
    # In units of the residual's variance over the number of rows: without effect each
    # look is a chi-squared variable of one degree.
    total = weight.sum()
    residual = residual - weight @ residual / total
    variance = weight @ residual**2 / total
    if not variance > 0:
        return np.zeros(x.shape[1])
    looks = [x, np.abs(x - np.median(x, axis=0))]
    looks += [(x > np.quantile(x, share, axis=0)) * 1.0 for share in _QUANTILES]
    gains = []
    for look in looks:
        centred = look - weight @ look / total
        moment = (weight * residual) @ centred
        gains.append(safe_divide(moment**2, (weight**2 @ centred**2) * variance))
    return np.max(gains, axis=0)


def _useless_and_silent(
    schema: TableSchema, rows: Rows, numbers: np.ndarray
) -> tuple[list[str], list[str]]:
    """Names of attributes that say nothing beside a line, or whose indicators do."""
    useless, silent, weight = list[str](), list[str](), rows.weight
    if not schema.discrete:
        return useless, silent
    x = np.column_stack([np.ones(len(numbers)), numbers])
    penalty = _PENALTY * weight.sum() * np.eye(x.shape[1])
    penalty[0, 0] = 0.0
    weighted = weight[:, None] * x
    slopes = np.linalg.solve(x.T @ weighted + penalty, weighted.T @ rows.targets)
    residual = rows.targets - x @ slopes
    for attribute, column in enumerate(schema.discrete):
        code = np.asarray(rows.table.codes)[:, attribute]
        _, level = np.unique(code, return_inverse=True)
        n_levels = 1 + level.max(initial=0)
        indicated = [each for own, each in schema.indicators if own == attribute]
        if n_levels < _MANY_LEVELS:
            continue
        few = rows.n_rows < _ROWS_PER_LEVEL * n_levels
        if few and _differ_by_chance(level, x, residual, weight):
            useless.append(schema.names[column])
        elif indicated:
            # Levels without an indicator are one.
            place = np.zeros(len(schema.categories[attribute]) + 1, int)
            place[indicated] = np.arange(1, len(indicated) + 1)
            place = place[code]
            least = _LEAST_EXPLAINED * (len(np.unique(place)) - 1)
            explained = [squared_differences(place, r, weight) for r in residual.T]
            if max(explained) <= least:
                silent.append(schema.names[column])
    return useless, silent


def _differ_by_chance(
    level: np.ndarray, x: np.ndarray, residual: np.ndarray, weight: np.ndarray
) -> bool:
    """Whether levels differ by no more than chance, in means and in slopes."""
    chance = int(level.max())
    deviation = np.sqrt(2.0 * chance)
    for output in residual.T:
        for place, column in enumerate(x.T):  # the first is constant: that of the means
            most = chance + (_FAR_ABOVE if place else _ABOVE) * deviation
            values = output * column
            values = values - np.average(values, weights=weight)
            if squared_differences(level, values, weight) > most:
                return False
    return True


def squared_differences(
    level: np.ndarray, values: np.ndarray, weight: np.ndarray
) -> float:
    """Squares of the levels' means, each in units of its variance, summed.

    ``values`` (n_rows,) have mean zero. Chi-squared, with as many degrees of freedom as
    there are levels but one, where these have no effect.
    """
    count = np.bincount(level, weight)
    mean = safe_divide(np.bincount(level, weight * values), count)
    n_rows, n_levels = len(level), np.count_nonzero(count)
    if not 1 < n_levels < n_rows:
        return 0.0
    within = np.average((values - mean[level]) ** 2, weights=weight)
    noise = within * n_rows / (n_rows - n_levels)
    # A mean's variance in units of the noise is at least one over its rows.
    variance = safe_divide(np.bincount(level, weight**2), count**2)
    return float(safe_divide(mean**2, variance * noise).sum()) if noise > 0 else np.inf
