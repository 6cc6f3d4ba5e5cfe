"""Fit models for the nodes of grown trees, from the rows that reach them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from secret_jax.data.rows import Rows, join
from secret_jax.data.schema import TableSchema
from secret_jax.data.sharded import ShardedRows
from secret_jax.data.source import AddingSource, EncodedRows, RowSource
from secret_jax.models.interface import LeafModel, Models, squared_errors
from secret_jax.models.sharded import sharded_statistics
from secret_jax.models.statistics import (
    NodeStatistics,
    add,
    no_statistics,
    slice_statistics,
    sum_upwards,
    tile_block,
    tile_statistics,
)
from secret_jax.runtime.progress import UNTOLD, Stage
from secret_jax.tree.routing import apply
from secret_jax.tree.structure import Tree, joined, separated
from secret_jax.tree.walk import descend

# Maximum number of rows for statistics in float64; more use float32 on the device.
_FLOAT64_ROWS = 1 << 15


def attach(
    trees: Sequence[Tree],
    parts: Sequence[Rows],
    leaf: LeafModel,
    stage: Stage = UNTOLD,
) -> list[Tree]:
    """Fit a model for every node of several trees, in one pass.

    The rows are routed through the finished trees, so that a model is trained on
    exactly the rows that prediction will send to it.

    Parameters
    ----------
    parts : sequence of Rows
        Rows that train each tree.
    stage : Stage, optional
        Receives the number of nodes that have models.
    """
    size = np.array([tree.n_nodes for tree in trees])
    stage.at(0, int(size.sum()))
    forest = joined(trees)
    root = np.repeat(np.cumsum(size) - size, [part.n_rows for part in parts])
    if leaf.needs_rows:
        forest = leaf.from_rows(forest, join(list(parts)), root, stage)
        return separated(forest, size.tolist())
    if max(part.n_rows for part in parts) > _FLOAT64_ROWS:
        pairs = zip(trees, parts, strict=True)
        each = [source_statistics(tree, [EncodedRows(part)]) for tree, part in pairs]
        arrays = (np.concatenate(arrays) for arrays in zip(*each, strict=True))
        statistics = NodeStatistics(*arrays)
    else:
        statistics = host_statistics(forest, join(list(parts)), root)
    forest = with_statistics(forest, statistics, leaf, stage)
    return separated(forest, size.tolist())


class FittedNodes(NamedTuple):
    """Nodes of concatenated trees that have their models already.

    Attributes
    ----------
    node : ndarray of shape (n_fitted,), int
    statistics : NodeStatistics
        Statistics of all their rows.
    """

    node: np.ndarray
    models: Models
    statistics: NodeStatistics


def joined_nodes(
    parts: Sequence[FittedNodes], schema: TableSchema, number: np.ndarray
) -> FittedNodes:
    """Concatenate fitted nodes, with their final node numbers.

    Parameters
    ----------
    number : ndarray of shape (n_nodes,), int
        Final number of every node; a removed node has that of its remaining ancestor.
    """
    width, n_outputs = 1 + schema.n_regressors, schema.n_outputs
    if not parts:
        nothing = Models(np.zeros((0, n_outputs, width)), np.zeros(0))
        none = no_statistics(0, schema.n_regressors, n_outputs)
        return FittedNodes(np.zeros(0, np.int64), nothing, none)
    node = np.concatenate([part.node for part in parts])
    # Nodes come after those above them: the first of a number is the one that stayed.
    stayed = np.unique(number, return_index=True)[1]
    chosen = np.isin(node, stayed)

    def together(arrays: Iterable[np.ndarray]) -> np.ndarray:
        return np.concatenate(list(arrays))[chosen]

    models = Models(*map(together, zip(*(part.models for part in parts), strict=True)))
    each = zip(*(part.statistics for part in parts), strict=True)
    statistics = NodeStatistics(*map(together, each))
    return FittedNodes(number[node[chosen]], models, statistics)


def attach_at(
    trees: Sequence[Tree],
    parts: Sequence[Rows],
    leaves: Sequence[np.ndarray],
    leaf: LeafModel,
    fitted: FittedNodes | None = None,
) -> list[Tree]:
    """Fit models like `attach`, with the leaf of every row given.

    Parameters
    ----------
    parts : sequence of Rows
        Rows that train each tree.
    leaves : sequence of ndarray of shape (n_rows,), int
        The leaf of each of them, as `secret_jax.grow.grower.grown` tells it: nodes
        count on through the trees.
    fitted : FittedNodes, optional
        Nodes whose models by ``leaf`` are known.
    """
    size = [tree.n_nodes for tree in trees]
    forest, node = joined(trees), np.concatenate(leaves)
    known = np.zeros(forest.n_nodes, bool)
    if fitted is not None:
        known[fitted.node] = True
    if fitted is None or not known[~forest.is_leaf].all():
        statistics = _statistics_at(forest, join(list(parts)), node)
        return separated(with_statistics(forest, statistics, leaf), size)
    new = np.flatnonzero(~known)
    kept = [~known[own] for own in leaves]
    rows = join([part.take(chosen) for part, chosen in zip(parts, kept, strict=True)])
    statistics = _statistics_at(forest, rows, node[np.concatenate(kept)], sums=False)
    for whole, own in zip(statistics, fitted.statistics, strict=True):
        whole[fitted.node] = own
    coefficient = np.zeros((forest.n_nodes, *fitted.models.coefficient.shape[1:]))
    degrees = np.zeros(forest.n_nodes)
    coefficient[fitted.node], degrees[fitted.node] = fitted.models
    above = coefficient[forest.parent[new]] * (forest.parent[new] >= 0)[:, None, None]
    coefficient[new], degrees[new] = leaf.toward(statistics.take(new), above)
    models = Models(coefficient, degrees)
    return separated(described(forest, statistics, models, leaf), size)


def attach_one(tree: Tree, rows: Rows, leaf: LeafModel) -> Tree:
    """Fit models like `attach`, for a single tree."""
    return attach([tree], [rows], leaf)[0]


def node_statistics(tree: Tree, rows: Rows) -> NodeStatistics:
    """Compute the statistics of every node of a tree in one pass over rows."""
    if rows.n_rows > _FLOAT64_ROWS:
        return source_statistics(tree, [EncodedRows(rows)])
    return host_statistics(tree, rows, np.zeros(rows.n_rows, int))


def source_statistics(tree: Tree, sources: Sequence[RowSource]) -> NodeStatistics:
    """Compute the statistics of every node in one pass over sources, in blocks.

    Products of float32 numbers; see `tile_statistics`.
    """
    schema = tree.schema
    n_regressors, n_outputs = schema.n_regressors, schema.n_outputs
    leaves = np.flatnonzero(tree.is_leaf)
    number = np.cumsum(tree.is_leaf) - 1
    most_rows = max((source.n_rows for source in sources), default=0)
    block = tile_block(len(leaves), n_regressors + n_outputs, most_rows)

    def part(rows: Rows) -> tuple[np.ndarray, NodeStatistics]:
        group = number[apply(tree, rows.table)]
        occupied, found = tile_statistics(rows, n_regressors, group, len(leaves), block)
        return leaves[occupied], found

    statistics = no_statistics(tree.n_nodes, n_regressors, n_outputs)
    for source in sources:
        if isinstance(source, ShardedRows):
            add(statistics, *sharded_statistics(tree, source))
            continue
        if isinstance(source, AddingSource):
            source.add_up(part, block, statistics, add)
            continue
        for node, found in source.blocks(part, block):
            add(statistics, node, found)
    sum_upwards(statistics, tree.parent, tree.depth)
    return statistics


def host_statistics(tree: Tree, rows: Rows, root: np.ndarray) -> NodeStatistics:
    """Compute statistics of the nodes of one or several trees, in float64.

    Parameters
    ----------
    root : ndarray of shape (n_rows,), int
        The node where each row begins.
    """
    return _statistics_at(tree, rows, descend(tree, rows.table, root, tree.max_depth))


def _statistics_at(
    tree: Tree, rows: Rows, leaf: np.ndarray, *, sums: bool = True
) -> NodeStatistics:
    """Compute statistics of every node from rows with known leaves, in float64.

    Without ``sums`` inner nodes have none.
    """
    schema = tree.schema
    n_regressors, n_outputs = schema.n_regressors, schema.n_outputs
    order = np.argsort(leaf, kind="stable")
    occupied, first = np.unique(leaf[order], return_index=True)
    last = np.append(first, len(order))[1:]
    (x, _), targets, weight = rows
    found = slice_statistics(x, None, targets, weight, n_regressors, order, first, last)
    statistics = no_statistics(tree.n_nodes, n_regressors, n_outputs)
    for whole, own in zip(statistics, found, strict=True):
        whole[occupied] = own
    if sums:
        sum_upwards(statistics, tree.parent, tree.depth)
    return statistics


def with_statistics(
    tree: Tree,
    statistics: NodeStatistics,
    leaf: LeafModel,
    stage: Stage = UNTOLD,
) -> Tree:
    """Fit the models of a tree, or of concatenated trees, to given statistics."""
    models = leaf.fit(statistics, tree, stage)
    occupied = statistics.weight > 0
    coefficient = inherited(models.coefficient, occupied, tree.parent)
    return described(tree, statistics, Models(coefficient, models.degrees), leaf)


def described(
    tree: Tree, statistics: NodeStatistics, models: Models, leaf: LeafModel
) -> Tree:
    """Store given models in a tree, with weights, ranges and errors of their rows.

    Parameters
    ----------
    statistics : NodeStatistics
        Statistics of any rows that were routed through it.
    leaf : LeafModel
        How predictions are clipped.
    """
    weight = statistics.weight
    of_root = weight[roots(tree)]
    enough = (weight >= np.minimum(leaf.clip_min_samples, of_root)) & (weight > 0)
    error = squared_errors(statistics, models.coefficient)
    counted = np.where(weight > 0, weight, 1.0)[:, None]
    square = np.einsum("nii->ni", statistics.scatter) / counted
    deviation = np.sqrt(np.maximum(square, 0.0))
    n = statistics.n_regressors
    return replace(
        tree,
        coefficient=models.coefficient,
        lower=inherited(statistics.lower, enough, tree.parent),
        upper=inherited(statistics.upper, enough, tree.parent),
        weight=weight,
        train_error=error / counted,
        degrees=models.degrees,
        mean=statistics.mean[:, n:],
        deviation=deviation[:, n:],
        center=statistics.mean[:, :n],
        spread=deviation[:, :n],
        standard_error=np.full(models.coefficient.shape, np.nan),
        clip_margin=leaf.clip_margin,
        corrects_parent=leaf.corrects_parent,
    )


def counted(tree: Tree, statistics: NodeStatistics) -> Tree:
    """Replace the weights and means of a tree by those of more rows."""
    n = statistics.n_regressors
    weight = np.where(statistics.weight > 0, statistics.weight, 1.0)
    square = np.einsum("nii->ni", statistics.scatter) / weight[:, None]
    deviation = np.sqrt(np.maximum(square, 0.0))
    return replace(
        tree,
        weight=statistics.weight,
        mean=statistics.mean[:, n:],
        deviation=deviation[:, n:],
        center=statistics.mean[:, :n],
        spread=deviation[:, :n],
    )


def roots(tree: Tree) -> np.ndarray:
    """Root of the tree that each node belongs to."""
    root = np.arange(tree.n_nodes)
    for node in np.flatnonzero(tree.parent >= 0):  # parents come first
        root[node] = root[tree.parent[node]]
    return root


def inherited(values: np.ndarray, own: np.ndarray, parent: np.ndarray) -> np.ndarray:
    """Fill values of nodes without an ``own`` one with the nearest ancestor's."""
    values = values.copy()
    for node in np.flatnonzero(~own & (parent >= 0)):  # parents come first
        values[node] = values[parent[node]]
    return values
