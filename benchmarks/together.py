"""Fits of several repeats side by side: the trees of single fits, in shared time."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar

import numpy as np

from benchmarks.shared import Part
from secret_jax import UnseenCategoryWarning, fit_many

_Task = TypeVar("_Task")


def batches(
    tasks: Sequence[_Task], alike: Callable[[_Task], Hashable], together: int
) -> list[list[_Task]]:
    """At most so many tasks at a time that are alike, in the order of their first.

    Examples
    --------
    >>> batches(["a0", "b0", "a1", "b1", "a2"], lambda task: task[0], 2)
    [['a0', 'a1'], ['b0', 'b1'], ['a2']]
    """
    own: dict[Hashable, list[int]] = {}
    for position, task in enumerate(tasks):
        own.setdefault(alike(task), []).append(position)
    found = [
        positions[first : first + together]
        for positions in own.values()
        for first in range(0, len(positions), together)
    ]
    return [[tasks[position] for position in batch] for batch in sorted(found)]


def fit_parts(
    models: Sequence[Any], train: Sequence[Part], prune: Sequence[Part] = ()
) -> tuple[list[Any], float]:
    """Fit every model to rows of its own, perhaps with rows to prune it.

    Returns
    -------
    list of estimators
        Fitted, in order.
    float
        The share of one of them in the seconds of all.
    """
    parts = [*train, *prune]
    X, y = stacked([part.X for part in parts]), np.concatenate([p.y for p in parts])
    stops = np.cumsum([len(part.y) for part in parts])
    rows = np.split(np.arange(len(y)), stops[:-1])
    n_fits = len(models)
    with warnings.catch_warnings():
        # In small sets some categories occur in the pruning rows only.
        warnings.simplefilter("ignore", UnseenCategoryWarning)
        started = time.perf_counter()
        fitted = fit_many(
            models,
            X,
            y,
            rows=rows[:n_fits],
            prune_rows=rows[n_fits:] or None,
            together=n_fits,
        )
        seconds = time.perf_counter() - started
    return fitted, seconds / n_fits


def stacked(tables: Sequence[Any]) -> Any:
    """Arrays or DataFrames one below the other, with rows numbered anew."""
    if not hasattr(tables[0], "iloc"):
        return np.concatenate(tables)
    import pandas

    return pandas.concat(tables, ignore_index=True)
