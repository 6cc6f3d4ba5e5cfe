"""Fit models for the nodes of grown trees, from the rows that reach them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from secret_jax.data.rows import Rows, join
from secret_jax.data.sharded import ShardedRows
from secret_jax.data.source import AddingSource, EncodedRows, RowSource
from secret_jax.losses.numbers import SquaredError
from secret_jax.models.errors import squared_errors
from secret_jax.models.interface import LeafModel, Levels, Models, fitted_models
from secret_jax.models.monotone import with_monotone_models
from secret_jax.models.row_groups import RowGroups, groups_of_levels
from secret_jax.models.sharded import sharded_statistics
from secret_jax.models.statistics import (
    NodeStatistics,
    accumulate_to_root,
    block_rows,
    block_statistics,
    empty_statistics,
    merge_into,
    slice_statistics,
)
from secret_jax.runtime.progress import UNTOLD, Stage
from secret_jax.tree.routing import apply
from secret_jax.tree.structure import Tree, joined, separated
from secret_jax.tree.walk import descend

# Maximum number of rows for statistics in float64; more use float32 on the device.
_FLOAT64_ROWS = 1 << 15


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

    def take(self, chosen: np.ndarray) -> FittedNodes:
        """Select nodes by a mask."""
        coefficient, degrees, corrects = self.models
        models = Models(coefficient[chosen], degrees[chosen], corrects)
        return FittedNodes(self.node[chosen], models, self.statistics.take(chosen))


def joined_nodes(
    parts: Sequence[FittedNodes], number: np.ndarray
) -> FittedNodes | None:
    """Concatenate fitted nodes, with their final node numbers; None without any.

    Parameters
    ----------
    number : ndarray of shape (n_nodes,), int
        Final number of every node; a removed node has that of its remaining ancestor.
    """
    if not parts:
        return None
    node = np.concatenate([part.node for part in parts])
    # Nodes come after those above them: the first of a number is the one that stayed.
    stayed = np.unique(number, return_index=True)[1]
    chosen = np.isin(node, stayed)

    def together(records: Sequence[tuple[np.ndarray, ...]]) -> Iterator[np.ndarray]:
        for arrays in zip(*records, strict=True):
            yield np.concatenate(arrays)[chosen]

    coefficient, degrees = together([part.models[:2] for part in parts])
    statistics = NodeStatistics(*together([part.statistics for part in parts]))
    return FittedNodes(number[node[chosen]], Models(coefficient, degrees), statistics)


def fit_models(
    trees: Sequence[Tree],
    parts: Sequence[Rows],
    leaf: LeafModel,
    *,
    leaves: Sequence[np.ndarray] | None = None,
    fitted: FittedNodes | None = None,
    statistics: NodeStatistics | None = None,
    stage: Stage = UNTOLD,
) -> list[Tree]:
    """Fit a model for every node of several trees, in one pass.

    The rows are routed through the finished trees, so that a model is trained on
    exactly the rows that prediction will send to it.

    Parameters
    ----------
    parts : sequence of Rows
        Rows that train each tree.
    leaves : sequence of ndarray of shape (n_rows,), int, optional
        The leaf of each of them, if it is known, as `secret_jax.grow.grower.grown`
        tells it: nodes count on through the trees.
    fitted : FittedNodes, optional
        Nodes whose models by ``leaf`` are known, given ``leaves``.
    statistics : NodeStatistics, optional
        Statistics of all rows, of which ``parts`` may be a sample.
    stage : Stage, optional
        Receives the number of nodes that have models.
    """
    size = [tree.n_nodes for tree in trees]
    forest = joined(trees)
    root = np.repeat(np.cumsum(size) - size, [part.n_rows for part in parts])
    stage.at(0, forest.n_nodes)

    def levels() -> Iterator[RowGroups]:
        return groups_of_levels(forest, join(list(parts)), root)

    if leaves is not None and fitted is not None:
        known = np.isin(np.arange(forest.n_nodes), fitted.node)
        if known[~forest.is_leaf].all():
            statistics, models = _with_new_leaves(
                forest, parts, leaves, leaf, fitted, known
            )
            tree = _with_models(forest, statistics, models, leaf, levels)
            return separated(tree, size)
    if statistics is None:
        statistics = _statistics(trees, forest, parts, root, leaves)
    models = leaf.fit_tree(forest, statistics, levels, stage)
    occupied = statistics.weight > 0
    coefficient = inherited(models.coefficient, occupied, forest.parent)
    models = models._replace(coefficient=coefficient)
    forest = _with_models(forest, statistics, models, leaf, levels)
    return separated(forest, size)


def remeasured(tree: Tree, rows: Rows, leaf: LeafModel) -> Tree:
    """Measure weights, ranges and errors of a tree on rows; its models stay."""
    models = Models(tree.coefficient, tree.degrees, tree.corrects_parent)
    root = np.zeros(rows.n_rows, int)
    statistics = node_statistics(tree, rows)
    return _with_models(
        tree, statistics, models, leaf, lambda: groups_of_levels(tree, rows, root)
    )


def node_statistics(tree: Tree, rows: Rows | Sequence[RowSource]) -> NodeStatistics:
    """Compute the statistics of every node in one pass over rows, or over sources.

    Those of many rows are products of float32 numbers, in blocks; see
    `block_statistics`.
    """
    if isinstance(rows, Rows):
        if rows.n_rows <= _FLOAT64_ROWS:
            root = np.zeros(rows.n_rows, int)
            return _sums(tree, rows, descend(tree, rows.table, root, tree.max_depth))
        rows = [EncodedRows(rows)]
    schema = tree.schema
    n_regressors, n_outputs = schema.n_regressors, schema.n_outputs
    leaves = np.flatnonzero(tree.is_leaf)
    number = np.cumsum(tree.is_leaf) - 1
    block = block_rows(len(leaves))

    def part(rows: Rows) -> tuple[np.ndarray, NodeStatistics]:
        group = number[apply(tree, rows.table)]
        occupied, sums = block_statistics(rows, n_regressors, group, len(leaves))
        return leaves[occupied], sums

    statistics = empty_statistics(tree.n_nodes, n_regressors, n_outputs)
    for source in rows:
        if isinstance(source, ShardedRows):
            merge_into(statistics, *sharded_statistics(tree, source))
            continue
        if isinstance(source, AddingSource):
            source.add_up(part, block, statistics, merge_into)
            continue
        for node, sums in source.blocks(part, block):
            merge_into(statistics, node, sums)
    accumulate_to_root(statistics, tree.parent, tree.depth)
    return statistics


def _statistics(
    trees: Sequence[Tree],
    forest: Tree,
    parts: Sequence[Rows],
    root: np.ndarray,
    leaves: Sequence[np.ndarray] | None,
) -> NodeStatistics:
    """Statistics of the nodes of several trees, each of its own rows."""
    if leaves is None and max(part.n_rows for part in parts) > _FLOAT64_ROWS:
        each = map(node_statistics, trees, [[EncodedRows(part)] for part in parts])
        return NodeStatistics(*map(np.concatenate, zip(*each, strict=True)))
    rows = join(list(parts))
    if leaves is not None:
        return _sums(forest, rows, np.concatenate(leaves))
    return _sums(forest, rows, descend(forest, rows.table, root, forest.max_depth))


def _sums(
    tree: Tree, rows: Rows, leaf: np.ndarray, *, upwards: bool = True
) -> NodeStatistics:
    """Statistics of every node from rows with known leaves, in float64.

    Unless ``upwards`` inner nodes have none.
    """
    schema = tree.schema
    n_regressors, n_outputs = schema.n_regressors, schema.n_outputs
    order = np.argsort(leaf, kind="stable")
    occupied, first = np.unique(leaf[order], return_index=True)
    last = np.append(first, len(order))[1:]
    (x, _), targets, weight = rows
    sums = slice_statistics(x, None, targets, weight, n_regressors, order, first, last)
    statistics = empty_statistics(tree.n_nodes, n_regressors, n_outputs)
    for every, some in zip(statistics, sums, strict=True):
        every[occupied] = some
    if upwards:
        accumulate_to_root(statistics, tree.parent, tree.depth)
    return statistics


def _with_new_leaves(
    forest: Tree,
    parts: Sequence[Rows],
    leaves: Sequence[np.ndarray],
    leaf: LeafModel,
    fitted: FittedNodes,
    known: np.ndarray,
) -> tuple[NodeStatistics, Models]:
    """Fit models of the leaves that have none yet, and take those that are known."""
    new = np.flatnonzero(~known)
    kept = [~known[node] for node in leaves]
    rows = join([part.take(rows) for part, rows in zip(parts, kept, strict=True)])
    node = np.concatenate(leaves)[np.concatenate(kept)]
    statistics = _sums(forest, rows, node, upwards=False)
    for every, some in zip(statistics, fitted.statistics, strict=True):
        every[fitted.node] = some
    coefficient = np.zeros((forest.n_nodes, *fitted.models.coefficient.shape[1:]))
    degrees = np.zeros(forest.n_nodes)
    coefficient[fitted.node], degrees[fitted.node], _ = fitted.models
    above = coefficient[forest.parent[new]] * (forest.parent[new] >= 0)[:, None, None]
    models = fitted_models(leaf, statistics.take(new), above)
    coefficient[new], degrees[new], corrects_parent = models
    return statistics, Models(coefficient, degrees, corrects_parent)


def _with_models(
    tree: Tree,
    statistics: NodeStatistics,
    models: Models,
    leaf: LeafModel,
    levels: Levels,
) -> Tree:
    """Store models in a tree, with weights, ranges and errors of its rows."""
    weight, n = statistics.weight, statistics.n_regressors
    counted = np.where(weight > 0, weight, 1.0)[:, None]
    square = np.einsum("nii->ni", statistics.scatter) / counted
    deviation = np.sqrt(np.maximum(square, 0.0))
    tree = replace(
        tree,
        coefficient=models.coefficient,
        weight=weight,
        degrees=models.degrees,
        mean=statistics.mean[:, n:],
        deviation=deviation[:, n:],
        center=statistics.mean[:, :n],
        spread=deviation[:, :n],
        standard_error=np.full(models.coefficient.shape, np.nan),
        clip_margin=leaf.clip_margin,
        corrects_parent=models.corrects_parent,
        loss=leaf.loss,
    )
    if not isinstance(leaf.loss, SquaredError):
        return with_monotone_models(with_losses(tree, levels(), leaf), statistics)
    enough = _has_enough(tree, leaf)
    tree = replace(
        tree,
        lower=inherited(statistics.lower, enough, tree.parent),
        upper=inherited(statistics.upper, enough, tree.parent),
        train_error=squared_errors(statistics, models.coefficient) / counted,
    )
    return with_monotone_models(tree, statistics)


def with_losses(tree: Tree, levels: Iterator[RowGroups], leaf: LeafModel) -> Tree:
    """Measure mean losses of all nodes, and ranges of the raw predictions.

    Values are clipped to those of the node's rows, and where these are few to those of
    the nearest ancestor with enough as well.
    """
    error = np.zeros((tree.n_nodes, tree.n_outputs))
    lower, upper = np.full(error.shape, np.inf), np.full(error.shape, -np.inf)
    for group in levels:
        value = group.values(tree.coefficient[group.node])
        losses = group.sums(tree.loss.losses(group.targets, value))
        error[group.node] = losses / group.total[:, None]
        lower[group.node] = np.minimum.reduceat(value, group.start)
        upper[group.node] = np.maximum.reduceat(value, group.start)
    enough = _has_enough(tree, leaf)
    return replace(
        tree,
        train_error=error,
        lower=np.minimum(lower, inherited(lower, enough, tree.parent)),
        upper=np.maximum(upper, inherited(upper, enough, tree.parent)),
    )


def _has_enough(tree: Tree, leaf: LeafModel) -> np.ndarray:
    """Mask of nodes with rows enough for a range of their own."""
    root = np.arange(tree.n_nodes)
    for node in np.flatnonzero(tree.parent >= 0):  # parents come first
        root[node] = root[tree.parent[node]]
    least = np.minimum(leaf.clip_min_samples, tree.weight[root])
    return (tree.weight >= least) & (tree.weight > 0)


def inherited(values: np.ndarray, own: np.ndarray, parent: np.ndarray) -> np.ndarray:
    """Fill values of nodes without an ``own`` one with the nearest ancestor's."""
    values = values.copy()
    for node in np.flatnonzero(~own & (parent >= 0)):  # parents come first
        values[node] = values[parent[node]]
    return values
