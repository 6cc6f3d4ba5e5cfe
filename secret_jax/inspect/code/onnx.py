"""Trees and their sums as ONNX graphs: an ensemble of splits, a gather and a product.

Columns are encoded as the tree has them. Splits are compared in float32, all at once;
the operator ``TreeEnsembleRegressor`` says which leaf follows. The coefficients of that
leaf are gathered and multiplied by the row in float64. The graph is of opset 17, with
``ai.onnx.ml`` 3.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from secret_jax.inspect.code.export import exported
from secret_jax.inspect.code.program import (
    ExportedModel,
    Program,
    plain_categories,
    unknown_values,
)
from secret_jax.inspect.view import Readable
from secret_jax.losses.interface import HIGHEST_LOG
from secret_jax.runtime.optional import imported
from secret_jax.tree.soft import HARD_LOGIT, paths
from secret_jax.tree.structure import SplitKind, Tree

_ML = "ai.onnx.ml"
_OPSETS = {"": 17, _ML: 3}


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
        add = _mixture if program.tree.is_soft else _leaves
        for addends, value in zip(totals, add(graph, program), strict=True):
            addends.append(value)
    sums = []
    for constant, (total, *others) in zip(model.constants, totals, strict=True):
        for addend in others:
            total = graph.add("Add", total, addend)
        sums.append(graph.add("Add", total, graph.constant([[constant]])))
    _answer(graph, model, graph.concat(sums))
    return graph.proto(" ".join(model.title.split()))


class Graph:
    """Nodes, constants and inputs as they are made, and the columns that trees use.

    ``x`` is a matrix of the encoded columns in ``order``, ``rounded`` that in float32.
    """

    def __init__(self, model: ExportedModel):
        self.onnx = imported("onnx", "ONNX models", "onnx")
        self.taken = {*model.schema.names, "X"}
        self.nodes, self.constants, self.inputs, self.outputs = [], [], {}, []
        self.schema = model.schema
        used = [one.in_use for program in model.trees for one in program.outputs]
        of_array = not self.schema.named and not self.schema.discrete
        of_array &= not self.schema.levels
        self.width = len(self.schema.names) if of_array else 0
        self.order: list[int] = []
        blocks = [*self._blocks(np.any(used, axis=0))]
        self.x = self.concat(blocks) if blocks else self._zeros()
        self.rounded = self.to_single(self.x)

    def name(self, wanted: str) -> str:
        """Choose a name that no other part has."""
        while wanted in self.taken:
            wanted += "_"
        self.taken.add(wanted)
        return wanted

    def add(self, operator: str, *inputs: str, domain: str = "", **attributes) -> str:
        """Add an operation, and name its result."""
        result, helper = self.name(f"{operator} {len(self.nodes)}"), self.onnx.helper
        node = helper.make_node(operator, inputs, [result], domain=domain, **attributes)
        self.nodes.append(node)
        return result

    def constant(self, values: Any, dtype: Any = np.float64) -> str:
        name = self.name(f"constant {len(self.constants)}")
        array = np.asarray(values, dtype)
        self.constants.append(self.onnx.numpy_helper.from_array(array, name))
        return name

    def input(self, name: str, text: bool = False, width: int = 1) -> str:
        """Add an input, or take the one that is there."""
        types = self.onnx.TensorProto
        kind = types.STRING if text else types.DOUBLE
        name = name or "unnamed"  # an empty name is none
        info = self.onnx.helper.make_tensor_value_info(name, kind, [None, width])
        self.inputs.setdefault(name, info)
        return name

    def output(self, name: str, value: str, dtype: Any, shape: Sequence[Any]) -> None:
        name = self.name(name)
        self.nodes.append(self.onnx.helper.make_node("Identity", [value], [name]))
        kind = self.onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        info = self.onnx.helper.make_tensor_value_info(name, kind, shape)
        self.outputs.append(info)

    def concat(self, columns: Sequence[str]) -> str:
        return columns[0] if len(columns) == 1 else self.add("Concat", *columns, axis=1)

    def to_single(self, value: str) -> str:
        return self.add("Cast", value, to=self.onnx.TensorProto.FLOAT)

    def to_double(self, value: str) -> str:
        return self.add("Cast", value, to=self.onnx.TensorProto.DOUBLE)

    def clip(self, value: str, low: Any, high: Any) -> str:
        """Keep values in ranges that are broadcast, where any is finite."""
        for side, end in (("Max", low), ("Min", high)):
            if np.isfinite(end).any():
                value = self.add(side, value, self.constant(end))
        return value

    def take(self, values: Any, index: str) -> str:
        """Gather rows of an array."""
        return self.add("Gather", self.constant(values), index, axis=0)

    def squeeze(self, column: str) -> str:
        """Turn a matrix of one column into a vector."""
        return self.add("Squeeze", column, self.constant([1], np.int64))

    def row_sums(self, matrix: str) -> str:
        """Add up the columns, to a matrix of one."""
        axis = self.constant([1], np.int64)
        return self.add("ReduceSum", matrix, axis, keepdims=1)

    def proto(self, title: str) -> Any:
        """Put the parts together, and check them."""
        helper, inputs = self.onnx.helper, [*self.inputs.values()]
        parts = self.nodes, title or "tree", inputs, self.outputs, self.constants
        opsets = [helper.make_opsetid(*pair) for pair in _OPSETS.items()]
        options = {"ir_version": 8, "producer_name": "secret-jax"}
        graph = helper.make_graph(*parts)
        model = helper.make_model(graph, opset_imports=opsets, **options)
        self.onnx.checker.check_model(model)
        return model

    def _blocks(self, used: np.ndarray) -> Iterator[str]:
        """Make matrices of some encoded columns each."""
        schema = self.schema
        positions = [i for i in schema.continuous_positions if used[i]]
        if positions:
            self.order += positions
            names = [schema.names[schema.input_columns[i]] for i in positions]
            value, ends = self._values(names), [e[positions] for e in schema.saturation]
            moved = self.add("Sub", value, self.constant([schema.center[positions]]))
            scaled = self.add("Div", moved, self.constant([schema.scale[positions]]))
            zeros = self.constant(0.0)  # the mean
            gap = self.add("IsNaN", value)
            yield self.clip(self.add("Where", gap, zeros, scaled), *ends)
        for position, indicator in schema.missing_columns:
            if used[indicator]:
                self.order.append(indicator)
                value = self._values([schema.names[schema.input_columns[position]]])
                yield self.to_double(self.add("IsNaN", value))
        first = schema.n_regressors - schema.n_indicators
        for attribute in range(len(schema.discrete)):
            codes = {
                position: code
                for position, (of, code) in enumerate(schema.indicators, first)
                if of == attribute and used[position]
            }
            if codes:
                self.order += codes
                known = np.eye(len(schema.categories[attribute]))[:, [*codes.values()]]
                unknown = unknown_values(schema)[[*codes]]
                yield self.of_codes(attribute, [*known, unknown])

    def _zeros(self) -> str:
        """Make a column of zeros: of a constant, too, there are as many as rows."""
        if self.schema.discrete and 0 in self.schema.discrete:
            attribute = self.schema.discrete.index(0)
            known = self.schema.categories[attribute]
            return self.of_codes(attribute, np.zeros((len(known) + 1, 1)))
        value = self._values([self.schema.names[0]])
        return self.add("Mul", value, self.constant(0.0))

    def _values(self, names: Sequence[str]) -> str:
        """Put columns of numbers side by side, with NaN where they are missing."""
        if self.width:
            matrix = self.input("X", width=self.width)
            index = [self.schema.names.index(name) for name in names]
            return self.add("Gather", matrix, self.constant(index, np.int64), axis=1)
        columns = []
        for name in names:
            levels = self.schema.origin(self.schema.names.index(name)).levels
            values = [*map(float, range(len(levels or ()))), math.nan]
            columns.append(
                self.take(values, self._code(name, levels))
                if levels
                else self.input(name)
            )
        return self.concat(columns)

    def _code(self, name: str, texts: Sequence[Any]) -> str:
        """Number a column's texts; None is that of empty ones, others come last."""
        return self.add(
            "LabelEncoder",
            self.input(name, text=True),
            domain=_ML,
            keys_strings=["" if text is None else text for text in texts],
            values_int64s=[*range(len(texts))],
            default_int64=len(texts),
        )

    def of_codes(self, attribute: int, table: Any) -> str:
        """Look codes of a category up: the last line is of those never seen."""
        table = np.asarray(table, np.float64)
        name = self.schema.names[self.schema.discrete[attribute]]
        known = plain_categories(self.schema, name)
        texts = {isinstance(one, str) for one in known if one is not None}
        if len(texts) > 1:
            raise TypeError(
                f"Column {name!r} has texts and numbers as categories, and a tensor "
                "holds one or the other. Turn the column into text before fitting."
            )
        if True in texts:
            alike = [table[known.index(one)] for one in ("", None) if one in known]
            if len(alike) == 2 and (alike[0] != alike[1]).any():
                raise TypeError(
                    f"Column {name!r} has empty texts and missing ones, which a tensor "
                    "of texts cannot tell apart. Name one of them before fitting."
                )
            return self.squeeze(self.take(table, self._code(name, known)))
        value = self.input(name)
        numbers = [[math.nan if one is None else float(one) for one in known]]
        same = self.to_double(self.add("Equal", value, self.constant(numbers)))
        if None in known:
            gap = self.to_double(self.add("IsNaN", value))
            here = [[float(one is None) for one in known]]
            same = self.add("Add", same, self.add("Mul", gap, self.constant(here)))
        looked_up = self.add("MatMul", same, self.constant(table[:-1] - table[-1]))
        return self.add("Add", looked_up, self.constant(table[-1:]))


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


def _equations(graph: Graph, tree: Tree) -> tuple[np.ndarray, np.ndarray, tuple]:
    """Intercepts, slopes and ranges of the leaves in units of the target."""
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
        threshold = graph.constant([tree.threshold[sums]], np.float32)
        blocks.append(graph.to_double(graph.add("LessOrEqual", total, threshold)))
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
    n_held = graph.add("MatMul", graph.concat(blocks), graph.constant(of_node))
    nearly_all = graph.constant([of_node.sum(axis=0) - 0.5])
    return graph.to_single(graph.add("Greater", n_held, nearly_all))


def _leaves(graph: Graph, program: Program) -> Iterator[str]:
    """Add a hard tree: the value of each of its outputs, of shape (n_rows, 1)."""
    tree, leaf = program.tree, program.tree.is_leaf
    nodes, leaves = [*range(tree.n_nodes)], np.flatnonzero(leaf).tolist()
    number = graph.add(
        "TreeEnsembleRegressor",
        _sides(graph, tree) if tree.n_nodes > 1 else graph.rounded,
        domain=_ML,
        n_targets=1,
        nodes_treeids=[0] * len(nodes),
        nodes_nodeids=nodes,
        nodes_featureids=np.where(leaf, 0, np.cumsum(~leaf) - 1).tolist(),
        nodes_modes=["LEAF" if one else "BRANCH_GTE" for one in leaf],
        nodes_values=[0.5] * len(nodes),
        nodes_truenodeids=np.maximum(tree.left, 0).tolist(),
        nodes_falsenodeids=np.maximum(tree.right, 0).tolist(),
        target_treeids=[0] * len(leaves),
        target_nodeids=leaves,
        target_ids=[0] * len(leaves),
        target_weights=[*map(float, range(len(leaves)))],
    )
    number = graph.add("Cast", number, to=graph.onnx.TensorProto.INT64)
    number = graph.squeeze(number)
    for one in program.outputs:
        intercept, slopes, ends = _equations(graph, one)
        value = graph.take(intercept[:, None], number)
        if slopes.any():
            product = graph.add("Mul", graph.take(slopes, number), graph.x)
            value = graph.add("Add", value, graph.row_sums(product))
        for side, bound in zip(("Max", "Min"), ends, strict=True):
            if np.isfinite(bound).any():
                value = graph.add(side, value, graph.take(bound[:, None], number))
        yield value


def _mixture(graph: Graph, program: Program) -> Iterator[str]:
    """Add a soft tree: shares of the leaves, and the mean of what they say."""
    tree, n_leaves = program.tree, program.tree.n_leaves
    # The logarithms of the odds that rows go left at the inner nodes.
    inner = np.flatnonzero(~tree.is_leaf)
    width, limit = tree.gate_width[inner], graph.constant(HARD_LOGIT)
    twice = graph.add("Mul", graph.to_double(_sides(graph, tree)), graph.constant(2.0))
    hard = graph.add("Mul", limit, graph.add("Sub", twice, graph.constant(1.0)))
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
