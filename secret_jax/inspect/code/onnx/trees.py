"""Trees in an ONNX graph: the leaf of a row by its splits, and what the leaf says."""

from collections.abc import Iterable, Sequence

import numpy as np

from secret_jax.inspect.code.onnx.columns import Columns
from secret_jax.inspect.code.onnx.graph import ML
from secret_jax.inspect.code.program import Program
from secret_jax.tree.soft import HARD_LOGIT, paths
from secret_jax.tree.structure import SplitKind, Tree


def leaves(columns: Columns, outputs: Sequence[Program]) -> Iterable[str]:
    """Add a hard tree: the value of each of its outputs, of shape (n_rows, 1)."""
    graph, leaf = columns.graph, _leaf(columns, outputs[0].tree)
    for tree in (program.tree for program in outputs):
        intercept, slopes, ends = _equations(columns, tree)
        value = graph.take(intercept[:, None], leaf)
        if slopes.any():
            product = graph.add("Mul", graph.take(slopes, leaf), columns.x)
            value = graph.add("Add", value, graph.row_sums(product))
        for side, bound in zip(("Max", "Min"), ends, strict=True):
            if np.isfinite(bound).any():
                value = graph.add(side, value, graph.take(bound[:, None], leaf))
        yield value


def _equations(
    columns: Columns, tree: Tree
) -> tuple[np.ndarray, np.ndarray, tuple[np.ndarray, np.ndarray]]:
    """Intercepts, slopes and bounds of the leaves in units of the target."""
    schema, leaf = tree.schema, tree.is_leaf
    weights = np.asarray(tree.coefficient[leaf, 0], np.float64) * schema.target_scale
    slopes = np.zeros((len(weights), schema.n_columns))
    slopes[:, : schema.n_regressors] = weights[:, 1:]
    low, high = (schema.restore_target(end[leaf, 0]) for end in tree.clip_range())
    intercept = weights[:, 0] + schema.target_center
    return intercept, slopes[:, columns.order], (low, high)


def _sides(columns: Columns, tree: Tree) -> str:
    """Add whether rows go left at the inner nodes, in their order, as 0 and 1."""
    graph, inner = columns.graph, np.flatnonzero(~tree.is_leaf)
    blocks, nodes = [], []
    for part in tree.comparisons:
        sums = np.flatnonzero(np.any(part.direction != 0, axis=1) & ~tree.is_leaf)
        if len(sums):
            direction = graph.single(part.direction[sums][:, columns.order].T)
            total = graph.add("MatMul", columns.rounded, direction)
            left = graph.add("LessOrEqual", total, graph.single([part.threshold[sums]]))
            blocks.append(graph.to_double(left))
            nodes += sums.tolist()
        for attribute in range(len(tree.schema.discrete)):
            here = (part.kind == SplitKind.DISCRETE) & (part.attribute == attribute)
            if here.any():
                known = len(tree.schema.categories[attribute])
                known = part.goes_left[here, :known].T
                table = [*known, part.larger_left[here]]
                blocks.append(columns.of_codes(attribute, table))
                nodes += np.flatnonzero(here).tolist()
    # Of a conjunction all conditions hold.
    of_node = 1.0 * (np.array(nodes)[:, None] == inner)
    held = graph.add("MatMul", graph.concat(blocks), graph.constant(of_node))
    every = graph.constant([of_node.sum(axis=0) - 0.5])
    return graph.to_single(graph.add("Greater", held, every))


def _leaf(columns: Columns, tree: Tree) -> str:
    """Add the splits of a tree: the number of the leaf of every row, (n_rows,)."""
    graph, leaf = columns.graph, tree.is_leaf
    nodes, numbers = [*range(tree.n_nodes)], np.flatnonzero(leaf).tolist()
    number = graph.add(
        "TreeEnsembleRegressor",
        _sides(columns, tree) if tree.n_nodes > 1 else columns.rounded,
        domain=ML,
        n_targets=1,
        nodes_treeids=[0] * len(nodes),
        nodes_nodeids=nodes,
        nodes_featureids=np.where(leaf, 0, np.cumsum(~leaf) - 1).tolist(),
        nodes_modes=["LEAF" if one else "BRANCH_GTE" for one in leaf],
        nodes_values=[0.5] * len(nodes),
        nodes_truenodeids=np.maximum(tree.left, 0).tolist(),
        nodes_falsenodeids=np.maximum(tree.right, 0).tolist(),
        target_treeids=[0] * len(numbers),
        target_nodeids=numbers,
        target_ids=[0] * len(numbers),
        target_weights=[*map(float, range(len(numbers)))],
    )
    number = graph.add("Cast", number, to=graph.onnx.TensorProto.INT64)
    return graph.squeeze(number)


def mixture(columns: Columns, outputs: Sequence[Program]) -> Iterable[str]:
    """Add a soft tree: shares of the leaves, and the mean of what they say."""
    graph, tree = columns.graph, outputs[0].tree
    logit, n_leaves = _logits(columns, tree), tree.n_leaves
    along = paths(tree.left, tree.parent, n_inner=n_leaves - 1, n_leaves=n_leaves)
    # The logarithm of the left share, and of the right one, which is less by the logit.
    odds = graph.add("Exp", graph.add("Neg", logit))
    log_left = graph.add("Log", graph.add("Add", odds, graph.constant(1.0)))
    through = graph.constant((along.left + along.right).T)
    left = graph.add("MatMul", log_left, through)
    right = graph.add("MatMul", logit, graph.constant(along.right.T))
    share = graph.add("Exp", graph.add("Neg", graph.add("Add", left, right)))
    for program in outputs:
        intercept, slopes, ends = _equations(columns, program.tree)
        value = graph.add("MatMul", columns.x, graph.constant(slopes.T))
        value = graph.add("Add", value, graph.constant([intercept]))
        if tree.clip_leaves:
            value = graph.clip(value, *([end] for end in ends))
        total = graph.row_sums(graph.add("Mul", share, value))
        yield graph.clip(total, program.low, program.high)


def _logits(columns: Columns, tree: Tree) -> str:
    """Add the logarithms of the odds that rows go left at the inner nodes."""
    graph, inner = columns.graph, np.flatnonzero(~tree.is_leaf)
    width, most = tree.gate_width[inner], graph.constant(HARD_LOGIT)
    twice = graph.add(
        "Mul", graph.to_double(_sides(columns, tree)), graph.constant(2.0)
    )
    hard = graph.add("Mul", most, graph.add("Sub", twice, graph.constant(1.0)))
    direction = graph.constant(tree.direction[inner][:, columns.order].T)
    total = graph.add("MatMul", columns.x, direction)
    distance = graph.add("Sub", graph.constant([tree.threshold[inner]]), total)
    distance = graph.add("Div", distance, graph.constant([np.where(width, width, 1.0)]))
    soft = graph.clip(distance, -HARD_LOGIT, HARD_LOGIT)
    return graph.add("Where", graph.constant([width > 0], bool), soft, hard)
