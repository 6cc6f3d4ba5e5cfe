"""Cross-validation whose fits, of all folds and settings, grow side by side."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.metrics import check_scoring
from sklearn.model_selection import ParameterGrid, check_cv
from sklearn.utils.validation import _num_samples

from secret_jax.many import TOGETHER, fit_many, taken


class _Fold(NamedTuple):
    """A fitted estimator, its scores by name, and the seconds of both."""

    estimator: Any
    scores: dict[str, float]
    fit_time: float
    score_time: float


def cross_validate_many(
    models: Any,
    X: Any,
    y: Any,
    sample_weight: Any = None,
    *,
    groups: Any = None,
    scoring: Any = None,
    cv: Any = None,
    return_estimator: bool = False,
    together: int = TOGETHER,
) -> Any:
    """Cross-validate one or several estimators, their fits side by side.

    The scores are those of `sklearn.model_selection.cross_validate` with the same
    folds; the fits are made by `fit_many`, which says what that saves.

    Parameters
    ----------
    models : estimator, or sequence of estimators
        They are cloned; all of them see the same folds.
    X : array or DataFrame of shape (n_rows, n_features)
    y : array-like of shape (n_rows,) or (n_rows, n_outputs)
    sample_weight : array-like of shape (n_rows,), optional
        Goes to the fits. Scores are unweighted, as are scikit-learn's by default.
    groups : array-like of shape (n_rows,), optional
        Told to the splitter: rows of one group are not to be parted.
    scoring : str, callable, list, tuple or dict, optional
        As in scikit-learn, greater is better. None: each estimator's own ``score``.
    cv : int, splitter or iterable of pairs of positions, optional
        As in scikit-learn: a number of folds (of regressors rows in their order, of
        classifiers stratified), or what says them. None: five.
    return_estimator : bool, default=False
        Whether to return the fitted estimators too.
    together : int, default=16
        Fits that are under way at a time.

    Returns
    -------
    dict of arrays of shape (n_folds,), or list of dict
        ``test_score``, or ``test_NAME`` of every name in ``scoring``; ``fit_time`` in
        seconds, the share of one fit in the time of all; ``score_time``; perhaps
        ``estimator``, a list. Of a sequence of estimators a list, in order.

    Raises
    ------
    ValueError
        If the lengths do not agree, there is nothing to do, or a fit refuses its data:
        no score stands for a fit that failed.

    Examples
    --------
    >>> from secret_jax import SecretRegressor, cross_validate_many
    >>> from secret_jax.datasets import make_fried
    >>> X, y = make_fried(300, random_state=0)
    >>> models = [SecretRegressor.cart(), SecretRegressor(oblique=False, max_depth=1)]
    >>> cart, lines = cross_validate_many(models, X, y, cv=3)
    >>> lines["test_score"].mean() > cart["test_score"].mean()
    np.True_
    """
    several = not hasattr(models, "fit")
    wanted = list(models) if several else [models]
    results = []
    for folds in _cross_validated(
        wanted, X, y, sample_weight, groups, scoring, cv, together
    ):
        result: dict[str, Any] = {
            "fit_time": np.array([fold.fit_time for fold in folds]),
            "score_time": np.array([fold.score_time for fold in folds]),
        }
        if return_estimator:
            result["estimator"] = [fold.estimator for fold in folds]
        results.append(result | _by_name(folds))
    return results if several else results[0]


def grid_search_many(
    model: Any,
    param_grid: Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Sequence[Any]]],
    X: Any,
    y: Any,
    sample_weight: Any = None,
    *,
    groups: Any = None,
    scoring: Any = None,
    cv: Any = None,
    together: int = TOGETHER,
) -> dict[str, Any]:
    """Cross-validate an estimator with every setting of a grid, all fits side by side.

    Parameters
    ----------
    model : estimator
        It is cloned.
    param_grid : dict of sequences, or sequence of such dicts
        Values to try of every parameter, as in `sklearn.model_selection.GridSearchCV`.
    X, y, sample_weight, groups, scoring, cv, together
        As of `cross_validate_many`.

    Returns
    -------
    dict of arrays of shape (n_settings,)
        What scikit-learn's ``cv_results_`` says under the same names: ``params`` (a
        list), ``param_NAME``, ``split0_test_score`` and so on, ``mean_test_score``,
        ``std_test_score``, ``rank_test_score`` (1 is the best), ``mean_fit_time`` and
        ``mean_score_time``. With several scorers their names stand for ``score``.

    Raises
    ------
    ValueError
        As `cross_validate_many`, or if there is no such parameter.

    Examples
    --------
    >>> from secret_jax import SecretRegressor, grid_search_many
    >>> from secret_jax.datasets import make_fried
    >>> X, y = make_fried(300, random_state=0)
    >>> grid = {"max_leaf_nodes": [2, 8]}
    >>> found = grid_search_many(SecretRegressor.cart(), grid, X, y, cv=3)
    >>> best = found["params"][found["mean_test_score"].argmax()]
    >>> best
    {'max_leaf_nodes': 8}
    >>> model = SecretRegressor.cart(**best).fit(X, y)
    """
    settings = list(ParameterGrid(param_grid))
    if not settings:
        raise ValueError(
            f"param_grid={param_grid!r} has no settings. Name a parameter."
        )
    models: list[Any] = [clone(model) for _ in settings]
    for one, setting in zip(models, settings, strict=True):
        one.set_params(**setting)
    results: dict[str, Any] = {"params": settings}
    for name in sorted({name for setting in settings for name in setting}):
        column = np.ma.array(np.empty(len(settings), object), mask=True)
        for which, setting in enumerate(settings):
            if name in setting:
                column[which] = setting[name]
        results[f"param_{name}"] = column
    of_settings = _cross_validated(
        models, X, y, sample_weight, groups, scoring, cv, together
    )
    for time_of in ("fit_time", "score_time"):
        each = [[getattr(fold, time_of) for fold in folds] for folds in of_settings]
        results[f"mean_{time_of}"] = np.mean(each, axis=1)
    named = [_by_name(folds) for folds in of_settings]
    for name in named[0]:
        scores = np.array([scores[name] for scores in named])
        for which, column in enumerate(scores.T):
            results[f"split{which}_{name}"] = column
        mean = scores.mean(axis=1)
        results[f"mean_{name}"] = mean
        results[f"std_{name}"] = scores.std(axis=1)
        known = np.where(np.isnan(mean), -np.inf, mean)
        results[f"rank_{name}"] = 1 + (known > known[:, None]).sum(axis=1)
    return results


def _cross_validated(
    models: Sequence[Any],
    X: Any,
    y: Any,
    sample_weight: Any,
    groups: Any,
    scoring: Any,
    cv: Any,
    together: int,
) -> list[list[_Fold]]:
    """Every model on every fold."""
    if not models:
        raise ValueError("There is no estimator to cross-validate. Give at least one.")
    _check_lengths(X, y=y, sample_weight=sample_weight, groups=groups)
    scorers = [check_scoring(model, scoring=scoring) for model in models]
    splitter: Any = check_cv(cv, y, classifier=is_classifier(models[0]))
    pairs = list(splitter.split(X, y, groups))
    if not pairs:
        raise ValueError(f"cv has no folds: {cv!r}. Give a number or pairs of rows.")
    # Folds of one model beside each other: their trees have the same options.
    each = [model for model in models for _ in pairs]
    rows = [train for train, _ in pairs] * len(models)
    started = time.perf_counter()
    fitted = iter(fit_many(each, X, y, sample_weight, rows=rows, together=together))
    seconds = (time.perf_counter() - started) / len(each)
    tests = [(taken(X, test), taken(y, test)) for _, test in pairs]
    return [
        [_scored(next(fitted), scorer, test, seconds) for test in tests]
        for scorer in scorers
    ]


def _check_lengths(X: Any, **others: Any) -> None:
    n_rows = _num_samples(X)
    for name, values in others.items():
        if values is not None and _num_samples(values) != n_rows:
            raise ValueError(
                f"{name} has {_num_samples(values)} rows, but X has {n_rows}."
            )


def _scored(model: Any, scorer: Any, test: tuple[Any, Any], fit_time: float) -> _Fold:
    started = time.perf_counter()
    scores = scorer(model, *test)
    score_time = time.perf_counter() - started
    named = scores if isinstance(scores, Mapping) else {"score": scores}
    return _Fold(model, dict(named), fit_time, score_time)


def _by_name(folds: Sequence[_Fold]) -> dict[str, np.ndarray]:
    """Scores of all folds, by the names that scikit-learn gives them."""
    return {
        f"test_{name}": np.array([fold.scores[name] for fold in folds])
        for name in folds[0].scores
    }
