"""Levels of nodes for split finders, made without a table or a tree."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from secret_jax.rows.ragged import RaggedRows
from secret_jax.splits.interface import Level, Roles, Split, SplitFinder

N_NODES, N_ROWS, N_COLUMNS, N_DISCRETE, N_CATEGORIES = 3, 256, 3, 2, 4


def level_of(
    finder: SplitFinder,
    x: np.ndarray,
    targets: np.ndarray,
    codes: np.ndarray | None = None,
    *,
    n_categories: int = 1,
    oblique: bool = False,
    **changes: Any,
) -> Level:
    """Nodes of equally many rows of weight one, all of whose columns are regressors.

    Parameters
    ----------
    x, targets, codes : ndarray of shape (n_nodes, n_rows, ...)
    changes
        Further fields of the level.
    """
    n_nodes, n_rows, n_columns = x.shape
    codes = np.zeros((n_nodes, n_rows, 0)) if codes is None else codes
    targets = targets if targets.ndim == 3 else targets[..., None]
    n_outputs, n_discrete = targets.shape[2], codes.shape[2]
    n_regressors = changes.get("n_regressors", n_columns)
    plain = {
        "rows": RaggedRows(np.full(n_nodes, n_rows)),
        "weight": np.ones(n_nodes * n_rows, np.float32),
        "min_weight": np.full(n_nodes, 2, np.float32),
        "random": np.zeros((n_nodes, finder.n_random(n_columns)), np.float32),
        "model": np.zeros((n_nodes, n_outputs, 1 + n_regressors), np.float32),
        "degrees": np.ones(n_nodes, np.float32),
        "oblique": np.full(n_nodes, oblique),
        "allowed": np.ones((n_nodes, n_columns + n_discrete), bool),
        "roles": Roles.alike(n_columns),
        "n_regressors": n_columns,
        "n_categories": n_categories,
        "any_oblique": oblique,
    }
    return Level(
        x=_rows_last(x, np.float32),
        codes=_rows_last(codes, np.int32),
        targets=_rows_last(targets, np.float32),
        **(plain | changes),
    )


def _rows_last(values: np.ndarray, dtype: Any) -> np.ndarray:
    n_nodes, n_rows, n = values.shape
    return np.ascontiguousarray(values.reshape(n_nodes * n_rows, n).T, dtype)


def mixed_level(finder: SplitFinder, *, oblique: bool = True, seed: int = 0) -> Level:
    """Three nodes that ask for an oblique, a discrete and an axis split.

    Columns and outputs are standardised over the node, as they are over a table.
    """
    rng = np.random.default_rng(seed)
    shape = (N_NODES, N_ROWS)
    x = rng.normal(size=(*shape, N_COLUMNS))
    codes = rng.integers(0, N_CATEGORIES, (*shape, N_DISCRETE))
    a, b, c = np.moveaxis(x, 2, 0)
    y = 0.1 * rng.normal(size=shape)
    y[0] += 2 * np.abs(a[0] + b[0] - 0.3)
    y[1] += np.where(np.isin(codes[1, :, 1], [0, 3]), 2 + a[1], -2 - b[1])
    y[2] += np.where(c[2] > 0.3, 2 + a[2], -1 - a[2])
    y = (y - y.mean(axis=1, keepdims=True)) / y.std(axis=1, keepdims=True)
    return level_of(
        finder,
        x,
        y,
        codes,
        n_categories=N_CATEGORIES,
        oblique=oblique,
        min_weight=np.full(N_NODES, 8, np.float32),
        random=rng.random((N_NODES, finder.n_random(N_COLUMNS)), dtype=np.float32),
    )


def with_targets(level: Level, targets: np.ndarray) -> Level:
    """The same nodes with other outputs (n_outputs, rows), and without models."""
    n_nodes, _, width = level.model.shape
    model = np.zeros((n_nodes, len(targets), width), np.float32)
    return replace(level, targets=targets.astype(np.float32), model=model)


def found_in(level: Level, finder: SplitFinder) -> Split:
    """What a finder finds, as the driver asks it."""
    with np.errstate(all="ignore"):
        return finder.find(level)
