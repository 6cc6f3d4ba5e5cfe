"""Many fits side by side: repeats, folds, seeds and parameters in one frontier."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import clone

from secret_jax.data.columns import as_frame
from secret_jax.grow.together import Together
from secret_jax.runtime.parallel import one_thread_for_products
from secret_jax.runtime.values import is_integer

# Fits that grow side by side: more of them hold more rows, and win little.
TOGETHER = 16


def fit_many(
    models: Any,
    X: Any,
    y: Any,
    sample_weight: Any = None,
    *,
    rows: Sequence[Any] | None = None,
    prune_rows: Sequence[Any] | None = None,
    together: int = TOGETHER,
) -> list[Any]:
    """Fit estimators to a table or to parts of it, their trees side by side.

    Every fit is what it would be by itself. Trees of estimators with the same options
    of growth, on tables with the same columns, grow in one frontier; others, and
    boosters and forests, one after the other. What is won is the calls of small levels:
    a tenth of the time of the paper's trees, next to nothing of the default ones.

    Parameters
    ----------
    models : estimator, or sequence of estimators
        They are cloned. A single one is fitted to every part.
    X : array or DataFrame of shape (n_rows, n_features)
    y : array-like of shape (n_rows,) or (n_rows, n_outputs)
    sample_weight : array-like of shape (n_rows,), optional
    rows : sequence of array-like of int, optional
        Positions of the rows of each fit; None: every fit has all rows. A single model
        needs them, or there is but one fit.
    prune_rows : sequence of array-like of int, optional
        Positions of the rows that each fit gets as its ``prune_set``.
    together : int, default=16
        Fits that are under way at a time.

    Returns
    -------
    list of estimators
        Fitted, in order.

    Raises
    ------
    ValueError
        If the lengths do not agree, or a fit refuses its data.

    Examples
    --------
    >>> import numpy as np
    >>> from secret_jax import SecretRegressor, fit_many
    >>> from secret_jax.datasets import make_fried
    >>> X, y = make_fried(300, random_state=0)
    >>> halves = [np.arange(0, 300, 2), np.arange(1, 300, 2)]
    >>> models = fit_many(SecretRegressor(max_depth=2), X, y, rows=halves)
    >>> [model.n_leaves_ <= 4 for model in models]
    [True, True]
    """
    if not is_integer(together) or together < 1:
        raise ValueError(f"together must be a count of at least 1. Got {together!r}.")
    wanted = _models(models, rows)
    for name, some in (("rows", rows), ("prune_rows", prune_rows)):
        if some is not None and len(some) != len(wanted):
            raise ValueError(
                f"{name} has {len(some)} parts, but there are {len(wanted)} fits. Give "
                "one for each."
            )

    def arguments(which: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
        part = None if rows is None else rows[which]
        given = (taken(X, part), taken(y, part))
        more: dict[str, Any] = {}
        if sample_weight is not None:
            more["sample_weight"] = taken(sample_weight, part)
        if prune_rows is not None:
            others = prune_rows[which]
            pair = (taken(X, others), taken(y, others))
            weighted = sample_weight is not None
            weight = (taken(sample_weight, others),) if weighted else ()
            more["prune_set"] = (*pair, *weight)
        return given, more

    def job(which: int) -> None:
        given, more = arguments(which)
        wanted[which].fit(*given, **more)

    with one_thread_for_products():
        for first in range(0, len(wanted), together):
            numbers = range(first, min(first + together, len(wanted)))
            Together([lambda which=which: job(which) for which in numbers]).run()
    return wanted


def _models(models: Any, rows: Sequence[Any] | None) -> list[Any]:
    if isinstance(models, Sequence):
        return [clone(model) for model in models]
    return [clone(models) for _ in range(1 if rows is None else len(rows))]


def taken(values: Any, part: Any) -> Any:
    """Some of the rows of an array, a DataFrame or a list."""
    if part is None:
        return values
    index = np.asarray(part)
    if hasattr(values, "iloc"):
        return values.iloc[index]
    frame = as_frame(values)
    return np.asarray(values)[index] if frame is None else frame[index].to_native()
