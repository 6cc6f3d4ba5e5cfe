"""Shares of the input columns in a split or in a change of an equation."""

from __future__ import annotations

import numpy as np

from secret_jax.data.schema import TableSchema
from secret_jax.tree.structure import SplitKind, Tree

_NOTHING = 1e-300  # below every sum of squares; shares of zero stay zero


def column_shares(schema: TableSchema, parts: np.ndarray) -> np.ndarray:
    """Sum parts of the (first) encoded columns by input column, as shares of one."""
    shares = np.zeros(len(schema.names))
    np.add.at(shares, np.array(schema.input_columns[: len(parts)], int), parts)
    return in_proportion(shares)


def in_proportion(parts: np.ndarray) -> np.ndarray:
    """Parts that are not negative as shares of their sum; zeros stay zeros."""
    return parts / max(parts.sum(), _NOTHING)


def sum_variances(tree: Tree, node: int, slopes: np.ndarray) -> np.ndarray:
    """Compute the variance that every input column adds to a sum in a node.

    That of the indicators of a column is taken together: a row has one category only.
    """
    schema = tree.schema
    columns = np.array(schema.input_columns[: len(slopes)], int)
    first = len(slopes) - schema.n_indicators
    categories = slice(first, first + len(schema.indicators))
    square = (slopes * tree.spread[node]) ** 2
    share, worth = tree.center[node, categories], slopes[categories]
    square[categories] = share * worth**2
    variance, mean = np.zeros((2, len(schema.names)))
    np.add.at(variance, columns, square)
    np.add.at(mean, columns[categories], share * worth)
    return np.maximum(variance - mean**2, 0.0)


def split_columns(tree: Tree, node: int) -> np.ndarray:
    """Share of every input column in a split, shape (n_columns,), float64.

    The squares of the standardised coefficients, which sum to one; a split on one
    column has one share of 1.
    """
    schema = tree.schema
    if tree.kind[node] == SplitKind.DISCRETE:
        shares = np.zeros(len(schema.names))
        shares[schema.discrete[tree.attribute[node]]] = 1.0
        return shares
    return column_shares(schema, np.asarray(tree.direction[node], np.float64) ** 2)


def node_levels(tree: Tree) -> np.ndarray:
    """Value of every node's equation at the center of its own rows, standardised."""
    coefficient = np.asarray(tree.coefficient[:, 0], np.float64)
    return coefficient[:, 0] + np.einsum("nj,nj->n", coefficient[:, 1:], tree.center)


def split_levels(tree: Tree) -> np.ndarray:
    """Steps of the level from the root to every node, by the columns of the splits.

    Returns
    -------
    ndarray of shape (n_nodes, n_columns), float64
        In standardised units.
    """
    level = node_levels(tree)
    moved = np.zeros((tree.n_nodes, len(tree.schema.names)))
    for node in range(1, tree.n_nodes):  # parents come before their children
        parent = int(tree.parent[node])
        step = (level[node] - level[parent]) * split_columns(tree, parent)
        moved[node] = moved[parent] + step
    return moved
