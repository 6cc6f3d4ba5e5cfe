"""Batches of nodes for split finders, made without a table or a tree."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from secret_jax import RssSplits
from secret_jax.splits.interface import SplitFinder
from secret_jax.splits.one_node import Columns, Node

# The default search with its loops run once: the same steps, compiled in half the time.
FEW_HINGES = RssSplits(hinge_steps=1)

N_NODES, N_ROWS, N_COLUMNS, N_DISCRETE, N_CATEGORIES = 3, 256, 3, 2, 4


def nodes_of(
    finder: SplitFinder,
    x: np.ndarray,
    targets: np.ndarray,
    codes: np.ndarray | None = None,
    columns: Columns | None = None,
    **changes: Any,
) -> Node:
    """Nodes of rows of weight one, all of whose columns are regressors.

    Parameters
    ----------
    x, targets, codes : ndarray of shape (n_nodes, n_rows, ...)
    columns
        What is known of them, where it is something else.
    changes
        Further arrays of the nodes.
    """
    n_nodes, n_rows, n_columns = x.shape
    codes = np.zeros((n_nodes, n_rows, 0)) if codes is None else codes
    targets = targets.reshape(n_nodes, n_rows, -1).astype(np.float32)
    columns = columns or Columns(n_regressors=n_columns)
    shape = (n_nodes, targets.shape[2], 1 + columns.n_regressors)
    plain = {
        "weight": np.ones((n_nodes, n_rows), np.float32),
        "min_weight": np.full(n_nodes, 2, np.float32),
        "random": np.zeros((n_nodes, finder.n_random(n_columns)), np.float32),
        "coefficient": np.zeros(shape, np.float32),
        "degrees": np.ones(n_nodes, np.float32),
        "oblique": np.full(n_nodes, columns.oblique),
        "allowed": np.ones((n_nodes, n_columns + codes.shape[2]), bool),
        "extra": {},
    }
    return Node(
        x=x.astype(np.float32),
        codes=codes.astype(np.int32),
        targets=targets,
        columns=columns,
        **(plain | changes),
    )


def mixed_nodes(finder: SplitFinder, *, oblique: bool = True, seed: int = 0) -> Node:
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
    columns = Columns(N_COLUMNS, N_CATEGORIES, oblique=oblique)
    random = rng.random((N_NODES, finder.n_random(N_COLUMNS)), dtype=np.float32)
    least = np.full(N_NODES, 8, np.float32)
    return nodes_of(finder, x, y, codes, columns, min_weight=least, random=random)


def with_targets(nodes: Node, targets: np.ndarray) -> Node:
    """The same nodes with other outputs, and without models."""
    n_nodes, _, n_outputs = targets.shape
    width = nodes.coefficient.shape[2]
    coefficient = np.zeros((n_nodes, n_outputs, width), np.float32)
    targets = targets.astype(np.float32)
    return replace(nodes, targets=targets, coefficient=coefficient)
