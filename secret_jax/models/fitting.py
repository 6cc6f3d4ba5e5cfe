"""Fit models for the nodes of grown trees to their rows, and measure their errors."""

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.optimize import lsq_linear

from secret_jax.data.encoding import RowSource
from secret_jax.data.rows import Rows, are_ones, join
from secret_jax.losses.interface import Loss
from secret_jax.models.interface import (
    LeafModel,
    Levels,
    Models,
    RowGroups,
    groups_of_levels,
)
from secret_jax.models.resident import resident_errors, resident_statistics
from secret_jax.models.statistics import (
    BLOCK_ROWS,
    NodeStatistics,
    accumulate_to_root,
    empty_statistics,
    group_statistics,
    mean_squared_errors,
    merge_into,
)
from secret_jax.runtime.devices import on_accelerator
from secret_jax.runtime.parallel import in_blocks
from secret_jax.runtime.progress import UNTOLD, Stage
from secret_jax.runtime.shapes import Scratch, slice_positions
from secret_jax.tree.reshape import joined, separated
from secret_jax.tree.routing import apply, values
from secret_jax.tree.structure import Tree
from secret_jax.tree.totals import in_slices, leaf_totals
from secret_jax.tree.walk import descend

# Of parts with no more rows all trees are looked at together.
_FEW_ROWS = 1 << 15
# Fewer rows of the host are not worth a program of an accelerator.
_MANY_ROWS = 1 << 16
# Variances of regressors grow by this share of one, the variance over the table, in the
# metric of projections: what does not vary in a node is left as it is.
_RIDGE = 1e-3


class NodeSummary(NamedTuple):
    """What a tree tells of the rows of its nodes: fields of `Tree`, from statistics."""

    weight: np.ndarray
    mean: np.ndarray
    deviation: np.ndarray
    center: np.ndarray
    spread: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    train_error: np.ndarray


class FittedNodes(NamedTuple):
    models: Models
    summary: NodeSummary


def summary_of(statistics: NodeStatistics, coefficient: np.ndarray) -> NodeSummary:
    """Summarise the rows of nodes, and the errors of their models."""
    weight, mean, scatter, lower, upper, _ = statistics
    counted = np.where(weight > 0, weight, 1.0)[:, None]
    square = np.einsum("nii->ni", scatter) / counted
    deviation, n = np.sqrt(np.maximum(square, 0.0)), statistics.n_regressors
    return NodeSummary(
        weight=weight,
        mean=mean[:, n:],
        deviation=deviation[:, n:],
        center=mean[:, :n],
        spread=deviation[:, :n],
        lower=lower,
        upper=upper,
        train_error=mean_squared_errors(statistics, coefficient),
    )


def fit_models(
    trees: Sequence[Tree],
    parts: Sequence[Rows],
    leaf: LeafModel,
    *,
    leaves: Sequence[np.ndarray] | None = None,
    stage: Stage = UNTOLD,
) -> list[Tree]:
    """Fit a model for every node of several trees, each to the rows of its part.

    These are routed through it, so that a model learns from the rows that prediction
    will send to it. ``leaves`` says where each of them ends, if it is known.
    """
    forest, size = joined(trees), [tree.n_nodes for tree in trees]
    if leaves is None and max(part.n_rows for part in parts) > _FEW_ROWS:
        each = map(node_statistics, trees, parts)
        statistics = NodeStatistics(*map(np.concatenate, zip(*each, strict=True)))
    else:
        rows, root = _joint(size, parts)
        if leaves is None:
            leaf_of = descend(forest, rows.table, root)
        else:
            leaf_of = root + np.concatenate(leaves)
        n_regressors = forest.schema.n_regressors
        own = group_statistics(rows, n_regressors, leaf_of, forest.n_nodes)
        statistics = _added_up(forest, [own])
    return fit_to_statistics(trees, statistics, lambda: parts, leaf, stage)


def _joint(size: Sequence[int], parts: Sequence[Rows]) -> tuple[Rows, np.ndarray]:
    """Rows of parts of trees of so many nodes, and the root where each begins."""
    n_rows = [part.n_rows for part in parts]
    return join(list(parts)), np.repeat(np.cumsum(size) - size, n_rows)


def fit_to_statistics(
    trees: Sequence[Tree],
    statistics: NodeStatistics,
    parts: Callable[[], Sequence[Rows]],
    leaf: LeafModel,
    stage: Stage = UNTOLD,
) -> list[Tree]:
    """Fit a model for every node of several trees, of given statistics.

    ``parts`` gives the rows of each tree, or a sample, for what statistics do not tell.
    """
    forest, size = joined(trees), [tree.n_nodes for tree in trees]
    stage.at(0, forest.n_nodes)
    joint = cache(lambda: _joint(size, parts()))

    def levels() -> Iterator[RowGroups]:
        return groups_of_levels(forest, *joint())

    models = leaf.fit_tree(forest, statistics, levels, stage)
    occupied = statistics.weight > 0
    coefficient = inherited(models.coefficient, occupied, forest.parent)
    models = models._replace(coefficient=coefficient)
    summary = summary_of(statistics, coefficient)
    forest = with_models(forest, models, summary, leaf, levels)
    return separated(with_monotone_models(forest, statistics, levels), size)


def remeasured(tree: Tree, rows: Rows, leaf: LeafModel) -> Tree:
    """Measure weights, ranges and errors of a tree on rows; its models stay."""
    models = Models(tree.coefficient, tree.degrees, tree.corrects_parent)
    statistics = node_statistics(tree, rows)
    summary = summary_of(statistics, models.coefficient)
    levels = partial(groups_of_levels, tree, rows)
    found = with_models(tree, models, summary, leaf, levels)
    return with_monotone_models(found, statistics, levels)


def node_statistics(tree: Tree, rows: Rows | Sequence[RowSource]) -> NodeStatistics:
    """Compute the statistics of every node in one pass over rows, or over sources."""
    return counted_statistics(tree, rows)[0]


def counted_statistics(
    tree: Tree, rows: Rows | Sequence[RowSource]
) -> tuple[NodeStatistics, np.ndarray]:
    """Compute `node_statistics`, and the number of rows as given, (n_nodes,), int64."""
    n_regressors, scratch = tree.schema.n_regressors, Scratch()
    counts = np.zeros(tree.n_nodes)

    def of_block(rows: Rows) -> tuple[np.ndarray, np.ndarray, NodeStatistics]:
        if by_programs or not isinstance(rows.table.x, np.ndarray):
            leaf, (node, found) = None, resident_statistics(tree, rows)
        else:
            leaf = apply(tree, rows.table, scratch)
            node, found = group_statistics(
                rows, n_regressors, leaf, tree.n_nodes, scratch
            )
        if rows.times is None and are_ones(rows.weight):
            return node, found.weight, found
        leaf = apply(tree, rows.table) if leaf is None else leaf
        times = np.where(rows.weight > 0, rows.n_given, 0.0)  # others are padding
        return node, np.bincount(leaf, times, tree.n_nodes)[node], found

    by_programs = isinstance(rows, Rows) and _by_programs(rows)
    if isinstance(rows, Rows):
        parts = (
            [[of_block(rows)]] if by_programs else [rows.blocks(of_block, BLOCK_ROWS)]
        )
    else:
        parts = (source.blocks(of_block, BLOCK_ROWS) for source in rows)

    def blocks() -> Iterator[tuple[np.ndarray, NodeStatistics]]:
        for node, count, found in itertools.chain.from_iterable(parts):
            counts[node] += count
            yield node, found

    statistics = _added_up(tree, blocks())
    # Parts of a row that repeats, which are held out in turn, add up to whole rows.
    return statistics, np.rint(leaf_totals(tree, counts)).astype(np.int64)


def _by_programs(rows: Rows) -> bool:
    """Whether rows lie on a device, or are worth the way to an accelerator."""
    lie = not isinstance(rows.table.x, np.ndarray)
    return lie or (rows.n_rows >= _MANY_ROWS and on_accelerator())


def _added_up(
    tree: Tree, parts: Iterable[tuple[np.ndarray, NodeStatistics]]
) -> NodeStatistics:
    """Statistics of every node from those of leaves in parts of the rows."""
    schema = tree.schema
    statistics = empty_statistics(tree.n_nodes, schema.n_regressors, schema.n_outputs)
    for leaf, found in parts:
        merge_into(statistics, leaf, found)
    accumulate_to_root(statistics, tree.parent, tree.depth)
    return statistics


def with_models(
    tree: Tree,
    models: Models,
    summary: NodeSummary,
    leaf: LeafModel,
    levels: Levels | None = None,
) -> Tree:
    """Store models in a tree, with weights, ranges and errors of its rows."""
    tree = replace(
        tree,
        coefficient=models.coefficient,
        degrees=models.degrees,
        corrects_parent=models.corrects_parent,
        standard_error=np.full(models.coefficient.shape, np.nan),
        clip_margin=leaf.clip_margin,
        loss=leaf.loss,
        n_rows=np.rint(summary.weight).astype(np.int64),
        **summary._asdict(),
    )
    if leaf.loss.least_squares:
        return _with_wide_ranges(tree, leaf)
    assert levels is not None
    return with_losses(tree, levels(), leaf)


def with_losses(tree: Tree, levels: Iterator[RowGroups], leaf: LeafModel) -> Tree:
    """Measure mean losses of all nodes, and ranges of the raw predictions."""
    error = np.zeros((tree.n_nodes, tree.n_outputs))
    lower, upper = np.full(error.shape, np.inf), np.full(error.shape, -np.inf)
    for group in levels:
        value = group.values(tree.coefficient[group.node])
        error[group.node] = group.mean_losses(tree.loss, value)
        lower[group.node] = np.minimum.reduceat(value, group.start)
        upper[group.node] = np.maximum.reduceat(value, group.start)
    tree = replace(tree, train_error=error, lower=lower, upper=upper)
    return _with_wide_ranges(tree, leaf)


def _with_wide_ranges(tree: Tree, leaf: LeafModel) -> Tree:
    """Widen ranges of few rows to that of the nearest ancestor with enough."""
    parent, lower, upper = tree.parent, tree.lower, tree.upper
    root = inherited(np.arange(tree.n_nodes), parent < 0, parent)
    least = np.minimum(leaf.clip_min_samples, tree.weight[root])
    enough = (tree.weight >= least) & (tree.weight > 0)
    lower = np.minimum(lower, inherited(lower, enough, parent))
    upper = np.maximum(upper, inherited(upper, enough, parent))
    return replace(tree, lower=lower, upper=upper)


def inherited(given: np.ndarray, own: np.ndarray, parent: np.ndarray) -> np.ndarray:
    """Give nodes that have no ``own`` one what the nearest ancestor has."""
    source = np.where(own | (parent < 0), np.arange(len(parent)), parent)
    while (source[source] != source).any():
        source = source[source]  # of the one above, and of the one above that
    return given[source]


def with_monotone_models(
    tree: Tree, statistics: NodeStatistics, levels: Levels
) -> Tree:
    """Constrain a tree's models by the directions of its schema, in every subtree.

    Two rows that differ in one constrained column part at most at a split on it. So it
    is enough that slopes have the right signs, and that both sides of such a split are
    clipped at one level, between their means, as in a booster's trees
    (`sklearn.ensemble.HistGradientBoostingRegressor`). Sums leave such columns out.
    """
    schema = tree.schema
    if not schema.monotonic:
        return tree
    n = statistics.n_regressors
    direction = np.zeros(schema.n_columns)
    for attribute, sign in schema.monotonic:
        direction[schema.position_of(attribute)] = sign
    coefficient = _with_signs(tree, statistics, direction[:n])
    tree = replace(tree, coefficient=coefficient, clip_margin=tree.clip_margin or 0.0)
    low, high = (ends.copy() for ends in tree.clip_range())
    slopes, mean = coefficient[:, :, 1:], statistics.mean[:, :n]
    value = coefficient[:, :, 0] + np.einsum("noj,nj->no", slopes, mean)
    for node in np.flatnonzero(~tree.is_leaf):  # parents come first
        sides = [tree.left[node], tree.right[node]]
        for ends in (low, high):
            ends[sides] = np.clip(ends[sides], low[node], high[node])
        level = np.clip(value[sides].mean(axis=0), low[node], high[node])
        asked = np.sign(tree.direction[node]) * direction
        for sign, (below, above) in ((1, sides), (-1, sides[::-1])):
            if (asked == sign).any():
                for ends in (low, high):
                    ends[below] = np.minimum(ends[below], level)
                    ends[above] = np.maximum(ends[above], level)
    error = tree.train_error.copy()
    for group in levels():
        ends = (each[group.node][group.slot] for each in (low, high))
        told = np.clip(group.values(coefficient[group.node]), *ends)
        error[group.node] = group.mean_losses(tree.loss, told)
    return replace(tree, lower=low, upper=high, clip_margin=0.0, train_error=error)


def _with_signs(
    tree: Tree, statistics: NodeStatistics, direction: np.ndarray
) -> np.ndarray:
    """Models with slopes of the right signs that are nearest in squared error."""
    n = len(direction)
    bounds = np.where(direction > 0, 0.0, -np.inf), np.where(direction < 0, 0.0, np.inf)
    coefficient = tree.coefficient.copy()
    wrong = (coefficient[:, :, 1:] * direction < 0).any(axis=2)
    for node, output in zip(*np.nonzero(wrong), strict=True):
        slopes = coefficient[node, output, 1:]
        scatter = statistics.scatter[node, :n, :n]
        metric = scatter / max(float(statistics.weight[node]), 1e-300)
        root = np.linalg.cholesky(metric + _RIDGE * np.eye(n)).T
        nearest = lsq_linear(root, root @ slopes, bounds, method="bvls").x
        nearest = np.clip(nearest, *bounds)  # of rounding
        coefficient[node, output, 0] += (slopes - nearest) @ statistics.mean[node, :n]
        coefficient[node, output, 1:] = nearest
    return coefficient


def weighted_errors(
    value: Float[np.ndarray, "n_rows n_outputs"], rows: Rows, loss: Loss
) -> Float[np.ndarray, " n_rows"]:
    """Weighted loss of raw predictions for each row, summed over the outputs."""
    return rows.weight * loss.losses(rows.targets, value).sum(axis=1)


def row_errors(tree: Tree, rows: Rows) -> Float[np.ndarray, " n_rows"]:
    """Weighted loss of a tree for each row, summed over the outputs."""
    return weighted_errors(values(tree, rows.table), rows, tree.loss)


def total_error(tree: Tree, rows: Rows) -> float:
    """Total weighted loss of a tree over rows, in standardised units."""
    return float(row_errors(tree, rows).sum())


def node_errors(
    tree: Tree,
    rows: Rows,
    output_weight: Float[np.ndarray, " n_outputs"] | None = None,
    *,
    loss: Loss | None = None,
) -> Float[np.ndarray, " n_nodes"]:
    """Total loss of every node's model on the rows that reach it, over all outputs."""
    loss = loss or tree.loss
    weight = np.ones(tree.n_outputs) if output_weight is None else output_weight
    if loss.least_squares and _by_programs(rows):
        return resident_errors(tree, rows, weight)
    low, high = tree.clip_range()
    slopes, table = tree.coefficient[..., 1:].transpose(0, 2, 1), rows.table.on_host()

    def block(part: slice) -> np.ndarray:
        leaf = apply(tree, table.take(part))
        order, start, stop = in_slices(tree, leaf)
        order += part.start
        x = table.x.take(order, axis=0)
        x, last = x[:, : tree.schema.n_regressors].astype(np.float64), 0
        value = np.empty((np.sum(stop - start), tree.n_outputs))
        for begin, end, model in zip(
            start.tolist(), stop.tolist(), slopes, strict=True
        ):
            first, last = last, last + end - begin
            np.matmul(x[begin:end], model, out=value[first:last])
        node = np.repeat(np.arange(tree.n_nodes), stop - start)
        value += tree.coefficient[node, :, 0]
        np.clip(value, low[node], high[node], out=value)
        row = order[slice_positions(start, stop)]
        losses = loss.losses(rows.targets[row], value) @ weight
        return np.bincount(node, rows.weight[row] * losses, tree.n_nodes)

    return np.sum(list(in_blocks(block, rows.n_rows)), axis=0)
