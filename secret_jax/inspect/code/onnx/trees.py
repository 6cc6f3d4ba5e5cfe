"""Trees in an ONNX graph: the leaf of a row by its splits, and what the leaf says."""

import functools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from secret_jax.inspect import equations
from secret_jax.inspect.code.onnx.columns import Columns
from secret_jax.inspect.code.onnx.graph import ML
from secret_jax.inspect.code.program import Program
from secret_jax.tree.soft import HARD_LOGIT, paths


def leaves(columns: Columns, outputs: Sequence[Program]) -> Iterable[str]:
    """Add a hard tree: the value of each of its outputs, of shape (n_rows, 1)."""
    graph, leaf = columns.graph, _leaf(columns, outputs[0])
    for program in outputs:
        models = [*program.models.values()]
        factors = columns.factors([model.terms for model in models])
        used = np.flatnonzero(factors.any(axis=1))
        value = graph.take([[model.intercept] for model in models], leaf)
        if len(used):
            matrix = columns.matrix
            if len(used) < len(columns):
                index = graph.constant(used, np.int64)
                matrix = graph.add("Gather", matrix, index, axis=1)
            product = graph.add("Mul", graph.take(factors[used].T, leaf), matrix)
            value = graph.add("Add", value, graph.row_sums(product))
        for side, bound in (("Max", "low"), ("Min", "high")):
            bounds = [[getattr(model, bound)] for model in models]
            if np.isfinite(bounds).any():
                value = graph.add(side, value, graph.take(bounds, leaf))
        yield value


def _leaf(columns: Columns, program: Program) -> str:
    """Add the splits of a tree: the number of the leaf of every row, (n_rows,)."""
    graph, tree = columns.graph, program.tree
    oblique, feature, mode, value, gap = [], [], [], [], []
    conjunctions: dict[int, str] = {}
    for node in range(tree.n_nodes):
        split = program.splits.get(node)
        place, sign, threshold, missing_left = 0, "LEAF", 0.0, False
        if isinstance(split, equations.CategorySplit):
            place = columns.place[split.name, split.listed, 0.0]
            # Rows go to the listed side where the flag is 1.
            sign = "BRANCH_GTE" if split.listed_side == "left" else "BRANCH_LEQ"
            threshold = 0.5
        elif isinstance(split, equations.Conjunction):
            sign, threshold = "BRANCH_GTE", 0.5
            conjunctions[node] = graph.to_double(_left(columns, split))
        elif split is not None:
            sign = "BRANCH_LEQ" if split.at_most else "BRANCH_GTE"
            threshold, missing_left = split.threshold, bool(split.missing_left)
            first, *others = split.terms
            if split.missing_left is not None:
                place = len(columns) + columns.gaps[first.name]
            elif not others and first.asks == "number":
                place = columns.of(first)
            else:
                place = len(columns) + len(columns.gaps) + len(oblique)
                oblique.append(split.terms)
        feature.append(place)
        mode.append(sign)
        value.append(threshold)
        gap.append(int(missing_left))
    parts = [columns.matrix] + [columns.gap_matrix] * bool(columns.gaps)
    if oblique:
        factors = graph.constant(columns.factors(oblique))
        parts.append(graph.add("MatMul", columns.matrix, factors))
    first = len(columns) + len(columns.gaps) + len(oblique)
    for place, node in enumerate(conjunctions, first):
        feature[node] = place
    matrix = graph.concat([*parts, *conjunctions.values()])
    leaves, nodes = [*program.models], [*range(tree.n_nodes)]
    helper, double = graph.onnx.helper, graph.onnx.TensorProto.DOUBLE

    def tensor(values: Sequence[float]) -> Any:
        return helper.make_tensor("values", double, [len(values)], values)

    number = graph.add(
        "TreeEnsembleRegressor",
        matrix,
        domain=ML,
        n_targets=1,
        nodes_treeids=[0] * len(nodes),
        nodes_nodeids=nodes,
        nodes_featureids=feature,
        nodes_modes=mode,
        nodes_values_as_tensor=tensor(value),
        nodes_truenodeids=np.maximum(tree.left, 0).tolist(),
        nodes_falsenodeids=np.maximum(tree.right, 0).tolist(),
        nodes_missing_value_tracks_true=gap,
        target_treeids=[0] * len(leaves),
        target_nodeids=leaves,
        target_ids=[0] * len(leaves),
        target_weights_as_tensor=tensor([*map(float, range(len(leaves)))]),
    )
    number = graph.add("Cast", number, to=graph.onnx.TensorProto.INT64)
    return graph.squeeze(number)


def mixture(columns: Columns, outputs: Sequence[Program]) -> Iterable[str]:
    """Add a soft tree: shares of the leaves, and the mean of what they say."""
    graph, tree = columns.graph, outputs[0].tree
    logit = graph.concat([_logit(columns, s) for s in outputs[0].splits.values()])
    n_leaves = len(outputs[0].models)
    along = paths(tree.left, tree.parent, n_inner=n_leaves - 1, n_leaves=n_leaves)
    # The logarithm of the left share, and of the right one, which is less by the logit.
    odds = graph.add("Exp", graph.add("Neg", logit))
    log_left = graph.add("Log", graph.add("Add", odds, graph.constant(1.0)))
    through = graph.constant((along.left + along.right).T)
    left = graph.add("MatMul", log_left, through)
    right = graph.add("MatMul", logit, graph.constant(along.right.T))
    share = graph.add("Exp", graph.add("Neg", graph.add("Add", left, right)))
    for program in outputs:
        models = [*program.models.values()]
        factors = columns.factors([model.terms for model in models])
        value = graph.add("MatMul", columns.matrix, graph.constant(factors))
        intercept = graph.constant([[model.intercept for model in models]])
        value = graph.add("Add", value, intercept)
        bounds = zip(*((model.low, model.high) for model in models), strict=True)
        value = graph.clip(value, *([bound] for bound in bounds))
        total = graph.row_sums(graph.add("Mul", share, value))
        yield graph.clip(total, program.low, program.high)


def _logit(columns: Columns, split: equations.AnySplit) -> str:
    """Add the logarithm of the odds that a row goes left, of shape (n_rows, 1)."""
    graph = columns.graph
    if not isinstance(split, equations.LinearSplit) or not split.width:
        share = graph.to_double(_left(columns, split))
        twice = graph.add("Mul", share, graph.constant(2.0 * HARD_LOGIT))
        return graph.add("Sub", twice, graph.constant(HARD_LOGIT))
    ends = graph.constant(split.threshold), _sum(columns, split.gate_terms)
    distance = graph.add("Sub", *(ends if split.at_most else ends[::-1]))
    distance = graph.add("Div", distance, graph.constant(split.width))
    return graph.clip(distance, -HARD_LOGIT, HARD_LOGIT)


def _left(columns: Columns, split: equations.AnySplit) -> str:
    """Add whether a row goes left at a hard split, of shape (n_rows, 1)."""
    graph = columns.graph
    if isinstance(split, equations.Conjunction):
        every = [_left(columns, one) for one in split.conditions]
        return functools.reduce(lambda a, b: graph.add("And", a, b), every)
    if isinstance(split, equations.CategorySplit):
        place = columns.place[split.name, split.listed, 0.0]
        index = graph.constant([place], np.int64)
        flag = graph.add("Gather", columns.matrix, index, axis=1)
        sign = "Greater" if split.listed_side == "left" else "Less"
        return graph.add(sign, flag, graph.constant(0.5))
    sign = "LessOrEqual" if split.at_most else "GreaterOrEqual"
    total = _sum(columns, split.terms)
    left = graph.add(sign, total, graph.constant(split.threshold))
    if split.missing_left is None:
        return left
    gap = _sum(columns, [split.terms[0]._replace(asks="missing", factor=1.0)])
    missing = graph.add("Greater", gap, graph.constant(0.5))
    if split.missing_left:
        return graph.add("Or", missing, left)
    return graph.add("And", graph.add("Not", missing), left)


def _sum(columns: Columns, terms: Sequence[equations.Term]) -> str:
    factors = columns.graph.constant(columns.factors([terms]))
    return columns.graph.add("MatMul", columns.matrix, factors)
