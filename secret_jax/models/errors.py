"""Errors of trees by their losses: per row, per tree, per node."""

import numpy as np
from jaxtyping import Float

from secret_jax.data.rows import Rows
from secret_jax.losses.interface import Loss
from secret_jax.models.statistics import NodeStatistics
from secret_jax.runtime.parallel import in_blocks
from secret_jax.runtime.shapes import slice_positions
from secret_jax.tree.routing import apply, values
from secret_jax.tree.structure import Tree


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
    low, high = tree.clip_range()
    slopes = tree.coefficient[..., 1:].transpose(0, 2, 1)

    def block(part: slice) -> np.ndarray:
        leaf = apply(tree, rows.table.take(part))
        start, stop = _slices(tree, np.bincount(leaf, minlength=tree.n_nodes))
        order = part.start + np.argsort(start[leaf], kind="stable")
        x = rows.table.on_host().x.take(order, axis=0)
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


def _slices(tree: Tree, count: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Slices of rows of nodes, sorted by where their leaf, of ``count``, starts."""
    inner = np.flatnonzero(~tree.is_leaf).tolist()
    left, right = tree.left.tolist(), tree.right.tolist()
    length, start = count.tolist(), [0] * tree.n_nodes
    for node in inner[::-1]:  # children come after their parents
        length[node] = length[left[node]] + length[right[node]]
    for node in inner:
        start[left[node]] = start[node]
        start[right[node]] = start[node] + length[left[node]]
    return np.array(start), np.array(start) + length


def mean_squared_errors(
    statistics: NodeStatistics, coefficient: Float[np.ndarray, "n_nodes n_outputs _"]
) -> Float[np.ndarray, "n_nodes n_outputs"]:
    """Mean squared errors of the nodes' models on the rows of any statistics."""
    errors = np.empty(coefficient.shape[:2])
    for output in range(coefficient.shape[1]):
        _, mean, scatter, *_ = statistics.output(output)
        model = coefficient[:, output]
        # The residual as a sum of the regressors and the output.
        residual = np.concatenate([-model[:, 1:], np.ones((len(model), 1))], axis=1)
        bias = np.einsum("ni,ni->n", residual, mean) - model[:, 0]
        spread = np.einsum("ni,nij,nj->n", residual, scatter, residual)
        errors[:, output] = np.maximum(spread, 0.0) + statistics.weight * bias**2
    return errors / np.where(statistics.weight > 0, statistics.weight, 1.0)[:, None]
