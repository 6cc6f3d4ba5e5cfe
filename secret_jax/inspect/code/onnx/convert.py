"""Trees and their sums as ONNX graphs: an ensemble of splits, a gather and a product.

Columns are encoded as the tree has them. Splits are compared in float32, all at once;
the operator ``TreeEnsembleRegressor`` says which leaf follows. The coefficients of that
leaf are gathered and multiplied by the row in float64. The graph is of opset 17, with
``ai.onnx.ml`` 3.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from secret_jax.inspect.code.export import exported
from secret_jax.inspect.code.onnx.graph import ML, Graph
from secret_jax.inspect.code.program import ExportedModel, Program
from secret_jax.inspect.view import Readable
from secret_jax.losses.interface import HIGHEST_LOG
from secret_jax.tree.soft import HARD_LOGIT, paths
from secret_jax.tree.structure import SplitKind, Tree

# What follows from sums, of several outputs or of one.
_BY_LINK: dict[str, Callable[[Graph, str, bool], str]] = {
    "identity": lambda graph, sums, several: sums,
    "exponential": lambda graph, sums, several: graph.add(
        "Exp", graph.clip(sums, -math.inf, HIGHEST_LOG)
    ),
    "softmax": lambda graph, sums, several: graph.add(
        "Softmax" if several else "Sigmoid", sums
    ),
    "clip": lambda graph, sums, several: graph.clip(sums, 0.0, 1.0),
}


def to_onnx(tree: Readable, *, output: int | str | None = None) -> Any:
    """Convert the tree to an ONNX model, which needs nothing of this package to run.

    Parameters
    ----------
    output : int or str, optional
        See `export_code`.

    Returns
    -------
    onnx.ModelProto
        Its inputs are the columns that the tree uses, by name and each of the shape
        (n_rows, 1): numbers and truth values as float64, text as strings; or one
        matrix ``X`` if the model was fitted on an array of numbers. Missing numbers are
        NaN, missing texts empty; dates are as in `export_code`. Its outputs are
        ``prediction``, of shape (n_rows,); or of classes ``label``, (n_rows,), and
        ``probabilities``, (n_rows, n_classes).

    Raises
    ------
    ImportError
        If onnx is not installed: ``pip install 'secret-jax[onnx]'``.
    TypeError
        If a column has texts and numbers as categories, or tells empty texts from
        missing ones.

    Examples
    --------
    >>> import numpy as np
    >>> from secret_jax import SecretRegressor
    >>> X = np.arange(30.0)[:, None]
    >>> y = np.where(X[:, 0] < 15, 3.0, 8.0)
    >>> model = SecretRegressor(distill=False, random_state=0).fit(X, y)
    >>> graph = model.to_onnx()  # with open(...) as file: file.write(
    >>> [one.name for one in (*graph.graph.input, *graph.graph.output)]
    ['X', 'prediction']
    """
    return onnx_model(exported(tree, output=output))


def onnx_model(model: ExportedModel) -> Any:
    """Convert what programs compute to a graph; see `to_onnx`."""
    graph = Graph(model)
    totals: list[list[str]] = [[] for _ in model.constants]
    for program in model.trees:
        make = _mixture if program.tree.is_soft else _leaves
        for addends, value in zip(totals, make(graph, program), strict=True):
            addends.append(value)
    sums = []
    for constant, (first, *others) in zip(model.constants, totals, strict=True):
        for addend in others:
            first = graph.add("Add", first, addend)
        sums.append(graph.add("Add", first, graph.constant([[constant]])))
    _answer(graph, model, graph.concat(sums))
    return graph.proto(" ".join(model.title.split()))


def _answer(graph: Graph, model: ExportedModel, scores: str) -> None:
    """Add what follows from the sums, of shape (n_rows, n_outputs)."""
    several = len(model.constants) > 1
    chances = _BY_LINK[model.link](graph, scores, several)
    if model.classes is None:
        graph.output("prediction", graph.squeeze(chances), np.float64, [None])
        return
    if not several:
        other = graph.add("Sub", graph.constant(1.0), chances)
        chances = graph.concat([other, chances])
    if model.only is not None:
        index = graph.constant(model.only, np.int64)
        value = graph.add("Gather", chances, index, axis=1)
        graph.output("prediction", value, np.float64, [None])
        return
    gains = chances
    if model.classes.costs is not None:
        gains = graph.add("MatMul", chances, graph.constant(-model.classes.costs))
    best = graph.add("ArgMax", gains, axis=1, keepdims=0)
    labels = np.array(model.labels)
    kind = object if labels.dtype.kind == "U" else labels.dtype
    label = graph.add("Gather", graph.constant(labels, kind), best)
    graph.output("label", label, kind, [None])
    graph.output("probabilities", chances, np.float64, [None, len(labels)])


def _leaves(graph: Graph, program: Program) -> Iterator[str]:
    """Add a hard tree: the value of each of its outputs, of shape (n_rows, 1)."""
    leaf = _leaf(graph, program.tree)
    for tree in program.outputs:
        intercept, slopes, ends = _equations(graph, tree)
        value = graph.take(intercept[:, None], leaf)
        if slopes.any():
            product = graph.add("Mul", graph.take(slopes, leaf), graph.x)
            value = graph.add("Add", value, graph.row_sums(product))
        for side, bound in zip(("Max", "Min"), ends, strict=True):
            if np.isfinite(bound).any():
                value = graph.add(side, value, graph.take(bound[:, None], leaf))
        yield value


def _equations(
    graph: Graph, tree: Tree
) -> tuple[np.ndarray, np.ndarray, tuple[np.ndarray, np.ndarray]]:
    """Intercepts, slopes and bounds of the leaves in units of the target."""
    schema, leaf = tree.schema, tree.is_leaf
    weights = np.asarray(tree.coefficient[leaf, 0], np.float64) * schema.target_scale
    slopes = np.zeros((len(weights), schema.n_columns))
    slopes[:, : schema.n_regressors] = weights[:, 1:]
    low, high = (schema.restore_target(end[leaf, 0]) for end in tree.clip_range())
    intercept = weights[:, 0] + schema.target_center
    return intercept, slopes[:, graph.order], (low, high)


def _sides(graph: Graph, tree: Tree) -> str:
    """Add whether rows go left at the inner nodes, in their order, as 0 and 1."""
    inner = np.flatnonzero(~tree.is_leaf)
    blocks, compared = [], []
    sums = np.flatnonzero(np.any(tree.direction != 0, axis=1))
    if len(sums):
        weights = tree.direction[sums][:, graph.order].T
        weights = graph.constant(weights, np.float32)
        total = graph.add("MatMul", graph.rounded, weights)
        most = graph.constant([tree.threshold[sums]], np.float32)
        left = graph.add("LessOrEqual", total, most)
        blocks.append(graph.to_double(left))
        compared += sums.tolist()
    for attribute in range(len(tree.schema.discrete)):
        here = (tree.kind == SplitKind.DISCRETE) & (tree.attribute == attribute)
        if here.any():
            known = len(tree.schema.categories[attribute])
            known = tree.goes_left[here, :known].T
            table = [*known, tree.larger_left[tree.node_of[here]]]
            blocks.append(graph.of_codes(attribute, table))
            compared += np.flatnonzero(here).tolist()
    # All comparisons of a node hold.
    of_node = 1.0 * (tree.node_of[compared][:, None] == inner)
    held = graph.add("MatMul", graph.concat(blocks), graph.constant(of_node))
    every = graph.constant([of_node.sum(axis=0) - 0.5])
    return graph.to_single(graph.add("Greater", held, every))


def _leaf(graph: Graph, tree: Tree) -> str:
    """Add the splits of a tree: the number of the leaf of every row, (n_rows,)."""
    leaf = tree.is_leaf
    nodes, numbers = [*range(tree.n_nodes)], np.flatnonzero(leaf).tolist()
    number = graph.add(
        "TreeEnsembleRegressor",
        _sides(graph, tree) if tree.n_nodes > 1 else graph.rounded,
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


def _mixture(graph: Graph, program: Program) -> Iterator[str]:
    """Add a soft tree: shares of the leaves, and the mean of what they say."""
    tree, n_leaves = program.tree, program.tree.n_leaves
    # The logarithms of the odds that rows go left at the inner nodes.
    inner = np.flatnonzero(~tree.is_leaf)
    width, most = tree.gate_width[inner], graph.constant(HARD_LOGIT)
    twice = graph.add("Mul", graph.to_double(_sides(graph, tree)), graph.constant(2.0))
    hard = graph.add("Mul", most, graph.add("Sub", twice, graph.constant(1.0)))
    direction = graph.constant(tree.direction[inner][:, graph.order].T)
    total = graph.add("MatMul", graph.x, direction)
    distance = graph.add("Sub", graph.constant([tree.threshold[inner]]), total)
    distance = graph.add("Div", distance, graph.constant([np.where(width, width, 1.0)]))
    soft = graph.clip(distance, -HARD_LOGIT, HARD_LOGIT)
    logit = graph.add("Where", graph.constant([width > 0], bool), soft, hard)
    along = paths(tree.left, tree.parent, n_inner=n_leaves - 1, n_leaves=n_leaves)
    # The logarithm of the left share, and of the right one, which is less by the logit.
    odds = graph.add("Exp", graph.add("Neg", logit))
    log_left = graph.add("Log", graph.add("Add", odds, graph.constant(1.0)))
    through = graph.constant((along.left + along.right).T)
    left = graph.add("MatMul", log_left, through)
    right = graph.add("MatMul", logit, graph.constant(along.right.T))
    share = graph.add("Exp", graph.add("Neg", graph.add("Add", left, right)))
    for one, range_of_all in zip(program.outputs, program.ends, strict=True):
        intercept, slopes, ends = _equations(graph, one)
        value = graph.add("MatMul", graph.x, graph.constant(slopes.T))
        value = graph.add("Add", value, graph.constant([intercept]))
        if tree.clip_leaves:
            value = graph.clip(value, *([end] for end in ends))
        total = graph.row_sums(graph.add("Mul", share, value))
        yield graph.clip(total, *range_of_all)
