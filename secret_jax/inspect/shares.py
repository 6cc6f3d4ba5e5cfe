"""Which input columns a split, or a change of an equation, is due to."""

from __future__ import annotations

import numpy as np

from secret_jax.data.schema import TableSchema
from secret_jax.tree.structure import SplitKind, Tree

_NOTHING = 1e-300  # below every sum of squares; shares of zero stay zero


def column_shares(schema: TableSchema, parts: np.ndarray) -> np.ndarray:
    """Parts of the encoded columns, summed over input columns, in proportion to one.

    Parameters
    ----------
    parts : ndarray of shape (n_encoded,), float64
        Not negative; of all encoded columns or of the first ones.

    Returns
    -------
    ndarray of shape (n_columns,), float64
        Sums to 1, or is zero everywhere if the parts are.
    """
    shares = np.zeros(len(schema.names))
    np.add.at(shares, np.array(schema.input_columns[: len(parts)], int), parts)
    return in_proportion(shares)


def in_proportion(parts: np.ndarray) -> np.ndarray:
    """Parts that are not negative as shares of their sum; zeros stay zeros."""
    return parts / max(parts.sum(), _NOTHING)


def sum_variances(tree: Tree, node: int, slopes: np.ndarray) -> np.ndarray:
    """Variance of what every input column adds to a sum, among the rows of a node.

    Parameters
    ----------
    slopes : ndarray of shape (n_regressors,)

    Returns
    -------
    ndarray of shape (n_columns,), float64
        Of the indicators of a column together: a row has one category only.
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
    """What the equation of every node says at the center of the node's own rows.

    Returns
    -------
    ndarray of shape (n_nodes,), float64
        In standardised units.
    """
    coefficient = np.asarray(tree.coefficient[:, 0], np.float64)
    return coefficient[:, 0] + np.einsum("nj,nj->n", coefficient[:, 1:], tree.center)


def split_levels(tree: Tree) -> np.ndarray:
    """By how much the splits above a node move its level from that of the root.

    Returns
    -------
    ndarray of shape (n_nodes, n_columns), float64
        In standardised units, by the input columns that the splits ask for.
    """
    level = node_levels(tree)
    moved = np.zeros((tree.n_nodes, len(tree.schema.names)))
    for node in range(1, tree.n_nodes):  # parents come before their children
        parent = int(tree.parent[node])
        step = (level[node] - level[parent]) * split_columns(tree, parent)
        moved[node] = moved[parent] + step
    return moved
