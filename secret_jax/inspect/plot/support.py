"""Where there are rows: how far a place of a slice is from the nearest of them."""

from __future__ import annotations

import numpy as np

from secret_jax.data.rows import Table
from secret_jax.inspect.plot.style import evenly_spaced
from secret_jax.tree.structure import SplitKind, Tree

_MOST_ROWS, _MOST_JUDGED = 4000, 400
# Farther from every row than so many of the rows are from all others.
_QUANTILE = 0.99


def far_from_rows(tree: Tree, rows: Table, places: Table) -> np.ndarray:
    """Places that are farther from all rows than nearly every row is from the others.

    Distances are Euclidean over the encoded columns that the tree uses: standardised
    numbers, indicators, and one for a category that a split asks for and that differs.

    Returns
    -------
    ndarray of shape (n_places,), bool
        False everywhere if there are fewer than three rows.
    """
    chosen = evenly_spaced(len(rows.x), _MOST_ROWS)
    known = _coordinates(tree, rows.take(chosen))
    if len(known) < 3:
        return np.zeros(len(places.x), bool)
    judged = evenly_spaced(len(known), _MOST_JUDGED)
    between = _squared_distances(known[judged], known)
    between[np.arange(len(judged)), judged] = np.inf
    usual = np.quantile(between.min(axis=1), _QUANTILE)
    return _squared_distances(_coordinates(tree, places), known).min(axis=1) > usual


def _coordinates(tree: Tree, table: Table) -> np.ndarray:
    """Encoded columns that the tree uses, one-hot codes that splits ask for."""
    schema = tree.schema
    used = (tree.direction != 0).any(axis=0)
    used[: schema.n_regressors] |= (tree.coefficient[:, :, 1:] != 0).any(axis=(0, 1))
    parts = [table.x[:, used].astype(np.float64)]
    asked = np.unique(tree.attribute[tree.kind == SplitKind.DISCRETE])
    for attribute in asked.tolist():
        codes = np.arange(len(schema.categories[attribute]))
        # Two rows that differ are then one apart.
        parts.append((table.codes[:, [attribute]] == codes) / np.sqrt(2.0))
    return np.concatenate(parts, axis=1)


def _squared_distances(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Between every row of one and every row of the other."""
    squares = (one**2).sum(axis=1)[:, None] + (other**2).sum(axis=1)
    return np.maximum(squares - 2.0 * one @ other.T, 0.0)
