"""Models for the nodes of grown trees, from the rows that the trees send to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from secret_jax.data.rows import Rows, join
from secret_jax.data.source import EncodedRows, RowSource
from secret_jax.models.interface import LeafModel, Models, squared_errors
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
from secret_jax.tree.routing import apply, descend
from secret_jax.tree.structure import Tree, joined, separated

# Of more rows statistics are products of float32 numbers on the device.
_FLOAT64_ROWS = 1 << 15


def attach(
    trees: Sequence[Tree],
    parts: Sequence[Rows],
    leaf: LeafModel,
    stage: Stage = UNTOLD,
) -> list[Tree]:
    """Give every node of several trees its model, in one pass.

    The rows are routed through the finished trees, so that a model is trained on
    exactly the rows that prediction will send to it.

    Parameters
    ----------
    trees : sequence of Tree
    parts : sequence of Rows
        Those that train each tree.
    leaf : LeafModel
    stage : Stage, optional
        Told how many nodes have their models.

    Returns
    -------
    list of Tree
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


def attach_one(tree: Tree, rows: Rows, leaf: LeafModel) -> Tree:
    """`attach` for a single tree."""
    return attach([tree], [rows], leaf)[0]


def node_statistics(tree: Tree, rows: Rows) -> NodeStatistics:
    """Statistics of every node of a tree from one pass over rows."""
    if rows.n_rows > _FLOAT64_ROWS:
        return source_statistics(tree, [EncodedRows(rows)])
    return host_statistics(tree, rows, np.zeros(rows.n_rows, int))


def source_statistics(tree: Tree, sources: Sequence[RowSource]) -> NodeStatistics:
    """Statistics of every node of a tree from one pass over sources, in blocks.

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
        return tile_statistics(rows, n_regressors, group, len(leaves), block)

    statistics = no_statistics(tree.n_nodes, n_regressors, n_outputs)
    for source in sources:
        for occupied, found in source.blocks(part, block):
            add(statistics, leaves[occupied], found)
    sum_upwards(statistics, tree.parent, tree.depth)
    return statistics


def host_statistics(tree: Tree, rows: Rows, root: np.ndarray) -> NodeStatistics:
    """Statistics of every node of a tree, or of trees side by side, in float64.

    Parameters
    ----------
    tree : Tree
    rows : Rows
    root : ndarray of shape (n_rows,), int
        The node where each row begins.

    Returns
    -------
    NodeStatistics
    """
    schema = tree.schema
    n_regressors, n_outputs = schema.n_regressors, schema.n_outputs
    leaf = descend(tree, rows.table, root, tree.max_depth)
    order = np.argsort(leaf, kind="stable")
    occupied, first = np.unique(leaf[order], return_index=True)
    last = np.append(first, len(order))[1:]
    (x, _), targets, weight = rows
    found = slice_statistics(x, None, targets, weight, n_regressors, order, first, last)
    statistics = no_statistics(tree.n_nodes, n_regressors, n_outputs)
    for whole, own in zip(statistics, found, strict=True):
        whole[occupied] = own
    sum_upwards(statistics, tree.parent, tree.depth)
    return statistics


def with_statistics(
    tree: Tree,
    statistics: NodeStatistics,
    leaf: LeafModel,
    stage: Stage = UNTOLD,
) -> Tree:
    """A tree, or trees side by side, with models fitted to given statistics."""
    models = leaf.fit(statistics, tree, stage)
    occupied = statistics.weight > 0
    coefficient = inherited(models.coefficient, occupied, tree.parent)
    return described(tree, statistics, Models(coefficient, models.degrees), leaf)


def described(
    tree: Tree, statistics: NodeStatistics, models: Models, leaf: LeafModel
) -> Tree:
    """A tree with given models, and weights, ranges and errors of given rows.

    Parameters
    ----------
    tree : Tree
    statistics : NodeStatistics
        Of any rows that were routed through it.
    models : Models
    leaf : LeafModel
        How predictions are clipped.

    Returns
    -------
    Tree
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
    )


def counted(tree: Tree, statistics: NodeStatistics) -> Tree:
    """A tree with the weights and means of further rows; its models stay."""
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
    """The root above every node."""
    root = np.arange(tree.n_nodes)
    for node in np.flatnonzero(tree.parent >= 0):  # parents come first
        root[node] = root[tree.parent[node]]
    return root


def inherited(values: np.ndarray, own: np.ndarray, parent: np.ndarray) -> np.ndarray:
    """Values of the nodes; those without their ``own`` take the nearest ancestor's."""
    values = values.copy()
    for node in np.flatnonzero(~own & (parent >= 0)):  # parents come first
        values[node] = values[parent[node]]
    return values
