"""From encoded rows to a fitted tree: grow, model, prune."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from secret_jax import leaves
from secret_jax.grow import GrownTree, Progress, grow
from secret_jax.options import GrowOptions
from secret_jax.prune import reduced_error
from secret_jax.table import Table, TableSchema
from secret_jax.tree import Tree, apply


class Rows(NamedTuple):
    """Encoded rows with their output.

    Attributes
    ----------
    table : Table
    y : ndarray of shape (n_rows,), float64
        Output in standardised units.
    weight : ndarray of shape (n_rows,), float64
        Positive.
    """

    table: Table
    y: np.ndarray
    weight: np.ndarray

    def take(self, index: np.ndarray | slice) -> Rows:
        """Some of the rows."""
        table = Table(self.table.x[index], self.table.codes[index])
        return Rows(table, self.y[index], self.weight[index])


class FittedTree(NamedTuple):
    """A fitted tree and its size before pruning."""

    tree: Tree
    n_leaves_grown: int


def fit_tree(
    training: Rows,
    pruning: Rows | None,
    schema: TableSchema,
    options: GrowOptions,
    *,
    leaf: str,
    clip_margin: float | None,
    seed: int,
    progress: Progress | None = None,
) -> FittedTree:
    """Grow a tree on the training rows and prune it on the pruning rows.

    Parameters
    ----------
    training : Rows
        In shuffled order.
    pruning : Rows or None
        None leaves the tree as it was grown.
    schema : TableSchema
    options : GrowOptions
    leaf : {"linear", "constant", "em"}
    clip_margin : float or None
    seed : int
    progress : callable, optional
        Called with a line now and then.

    Returns
    -------
    FittedTree
    """
    grown = grow(
        training.table,
        training.y.astype(np.float32),
        training.weight.astype(np.float32),
        schema,
        options,
        seed,
        progress,
    )
    tree = with_models(grown, training, schema, leaf=leaf, clip_margin=clip_margin)
    n_leaves_grown = tree.n_leaves
    if pruning is not None:
        tree = reduced_error(tree, pruning.table, pruning.y, pruning.weight)
        if progress is not None:
            progress(f"pruned from {n_leaves_grown} to {tree.n_leaves} leaves")
    return FittedTree(tree, n_leaves_grown)


def with_models(
    grown: GrownTree,
    training: Rows,
    schema: TableSchema,
    *,
    leaf: str,
    clip_margin: float | None,
) -> Tree:
    """Give every node of a grown tree its model.

    The rows are routed through the finished tree, so that a model is trained on
    exactly the rows that prediction will send to it.
    """
    structure = {
        name: array
        for name, array in grown._asdict().items()
        if name != "mixture_model"
    }
    n_nodes = len(grown.left)
    tree = Tree(
        **structure,
        coefficient=np.zeros((n_nodes, 1 + schema.n_regressors)),
        lower=np.zeros(n_nodes),
        upper=np.zeros(n_nodes),
        weight=np.zeros(n_nodes),
        train_error=np.zeros(n_nodes),
        schema=schema,
        clip_margin=clip_margin,
    )
    statistics = leaves.node_statistics(
        training.table.x[:, : schema.n_regressors],
        training.y,
        training.weight,
        apply(tree, training.table),
        grown.parent,
        grown.depth,
    )
    model = leaves.least_squares(statistics)
    if leaf == "em":
        model[1:] = grown.mixture_model[1:]  # the root has no mixture above it
    lower, upper = statistics.lower.copy(), statistics.upper.copy()
    for array in (model, lower, upper):
        leaves.inherit_where_empty(array, statistics.weight, grown.parent)
    error = leaves.squared_errors(statistics, model)
    changed = {
        "coefficient": model,
        "lower": lower,
        "upper": upper,
        "weight": statistics.weight,
        "train_error": error / np.maximum(statistics.weight, 1e-300),
    }
    return Tree(**structure, **changed, schema=schema, clip_margin=clip_margin)
