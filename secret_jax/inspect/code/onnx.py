"""Trees and their sums as ONNX graphs: an ensemble of splits, a gather and a product.

Columns are encoded as the tree has them. Splits are compared in float32, all at once;
``TreeEnsembleRegressor`` says which leaf follows, whose coefficients are multiplied by
the row in float64. The graph is of opset 17, with ``ai.onnx.ml`` 3.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np

from secret_jax.inspect.code.program import (
    ExportedModel,
    parts_of_dates,
    plain_categories,
)
from secret_jax.inspect.equations import clip_range_of, unknown_values
from secret_jax.losses.interface import HIGHEST_LOG
from secret_jax.runtime.environment import imported
from secret_jax.tree.soft import HARD_LOGIT, paths
from secret_jax.tree.structure import SplitKind, Tree

_ML = "ai.onnx.ml"
_OPSETS = {"": 17, _ML: 3}


def onnx_model(model: ExportedModel) -> Any:
    """Convert a model to a graph; see `secret_jax.inspect.code.export`."""
    graph = _Graph(model)
    totals: list[Any] = [[[constant]] for constant in model.constants]
    for trees in model.trees:
        values = (_mixture if trees[0].is_soft else _leaves)(graph, trees)
        pairs = zip(totals, values, strict=True)
        totals = [graph("Add", total, value) for total, value in pairs]
    scores, several, link = graph.concat(totals), len(totals) > 1, model.link
    chances = scores
    if link == "exponential":
        chances = graph("Exp", graph.clip(scores, (-math.inf, HIGHEST_LOG)))
    elif link == "softmax":
        chances = graph("Softmax" if several else "Sigmoid", scores)
    elif link == "clip":
        chances = graph.clip(scores, (0.0, 1.0))
    if model.classes is not None and not several:
        chances = graph.concat([graph("Sub", 1.0, chances), chances])
    if model.classes is None:
        graph.output("prediction", graph("Squeeze", chances, [1]), np.float64)
    elif model.only is not None:
        value = graph("Gather", chances, model.only, axis=1)
        graph.output("prediction", value, np.float64)
    else:
        gains, labels = chances, np.array(model.labels)
        if model.classes.costs is not None:
            gains = graph("MatMul", chances, -model.classes.costs)
        best = graph("ArgMax", gains, axis=1, keepdims=0)
        labels = labels.astype(object) if labels.dtype.kind == "U" else labels
        graph.output("label", graph("Gather", labels, best), labels.dtype)
        graph.output("probabilities", chances, np.float64, len(labels))
    return graph.proto(model.title, " ".join(parts_of_dates(model)))


class _Graph:
    """Nodes, constants and inputs as they are made, and the columns that trees use.

    ``x`` is a matrix of the encoded columns in ``order``, ``rounded`` that in float32.
    """

    def __init__(self, model: ExportedModel):
        self.onnx = imported("onnx", "ONNX models", "onnx")
        self.schema = schema = model.schema
        self.taken = {*schema.names, "X"}
        self.nodes, self.constants, self.inputs, self.outputs = [], [], {}, []
        of_array = not (schema.named or schema.discrete or schema.levels)
        self.width = len(schema.names) if of_array else 0
        used = [one.in_use for one in chain(*model.trees)]
        self.order: list[int] = []
        self.x = self.concat([*self._blocks(np.any(used, axis=0))])
        self.rounded = self.cast(self.x, np.float32)

    def __call__(self, operator: str, *inputs: Any, domain: str = "", **more) -> str:
        """Add an operation on results, which are names, and arrays; name its result."""
        names = []
        for name in inputs:
            if not isinstance(name, str):
                array = self.onnx.numpy_helper.from_array(np.asarray(name))
                array.name = name = self._name(f"constant {len(self.constants)}")
                self.constants.append(array)
            names.append(name)
        result = self._name(f"{operator} {len(self.nodes)}")
        make = self.onnx.helper.make_node
        self.nodes.append(make(operator, names, [result], domain=domain, **more))
        return result

    def _name(self, wanted: str) -> str:
        while wanted in self.taken:
            wanted += "_"
        self.taken.add(wanted)
        return wanted

    def _input(self, name: str, text: bool = False, width: int = 1) -> str:
        """Add an input, or take the one that is there."""
        types, name = self.onnx.TensorProto, name or "unnamed"  # an empty name is none
        kind = types.STRING if text else types.DOUBLE
        info = self.onnx.helper.make_tensor_value_info(name, kind, [None, width])
        self.inputs.setdefault(name, info)
        return name

    def output(self, name: str, value: str, dtype: Any, *width: int) -> None:
        helper, name = self.onnx.helper, self._name(name)
        self.nodes.append(helper.make_node("Identity", [value], [name]))
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        self.outputs.append(helper.make_tensor_value_info(name, kind, [None, *width]))

    def concat(self, columns: Sequence[str]) -> str:
        return columns[0] if len(columns) == 1 else self("Concat", *columns, axis=1)

    def cast(self, value: str, dtype: Any) -> str:
        kind = self.onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        return self("Cast", value, to=kind)

    def clip(self, value: str, ends: Iterable[Any], chosen: str = "") -> str:
        """Keep values in ranges that are broadcast or chosen, where any is finite."""
        for side, end in zip(("Max", "Min"), ends, strict=True):
            if np.isfinite(end).any():
                value = self(
                    side, value, self("Gather", end, chosen) if chosen else end
                )
        return value

    def proto(self, title: str, notes: str) -> Any:
        """Put the parts together, and check them."""
        helper, title = self.onnx.helper, " ".join(title.split()) or "tree"
        ends = [*self.inputs.values()], self.outputs, self.constants
        graph = helper.make_graph(self.nodes, title, *ends, doc_string=notes)
        opsets = [helper.make_opsetid(*pair) for pair in _OPSETS.items()]
        options = {"ir_version": 8, "producer_name": "secret-jax"}
        model = helper.make_model(graph, opset_imports=opsets, **options)
        self.onnx.checker.check_model(model)
        return model

    def _blocks(self, used: np.ndarray) -> Iterator[str]:
        """Make matrices of some encoded columns each, at least one."""
        schema = self.schema
        positions = [i for i in schema.continuous_positions if used[i]]
        if positions:
            self.order += positions
            value = self._values([schema.input_columns[i] for i in positions])
            scaled = self("Sub", value, schema.center[None, positions])
            scaled = self("Div", scaled, schema.scale[None, positions])
            scaled = self("Where", self("IsNaN", value), 0.0, scaled)  # the mean
            yield self.clip(scaled, (end[positions] for end in schema.saturation))
        gaps = [(i, gap) for i, gap in schema.missing_columns if used[gap]]
        if gaps:
            self.order += [gap for _, gap in gaps]
            value = self._values([schema.input_columns[i] for i, _ in gaps])
            yield self.cast(self("IsNaN", value), np.float64)
        first = schema.n_regressors - schema.n_indicators
        for attribute, known in enumerate(schema.categories):
            codes = {
                position: code
                for position, (of, code) in enumerate(schema.indicators, first)
                if of == attribute and used[position]
            }
            if codes:
                self.order += codes
                holds = np.eye(len(known))[:, [*codes.values()]]
                unknown = unknown_values(schema)[[*codes]]
                yield self.by_category(attribute, [*holds, unknown])
        if not self.order:  # of a constant, too, there are as many as rows
            if 0 in schema.discrete:
                attribute = schema.discrete.index(0)
                n_known = len(schema.categories[attribute])
                yield self.by_category(attribute, np.zeros((n_known + 1, 1)))
            else:
                yield self._values([0])

    def _values(self, columns: Sequence[int]) -> str:
        """Put columns of numbers side by side, with NaN where they are missing."""
        if self.width:
            return self("Gather", self._input("X", width=self.width), columns, axis=1)
        values = []
        for column in columns:
            name, levels = self.schema.names[column], self.schema.origin(column).levels
            if levels:
                places = [*map(float, range(len(levels))), math.nan]
                values.append(self("Gather", places, self._code(name, levels)))
            else:
                values.append(self._input(name))
        return self.concat(values)

    def _code(self, name: str, texts: Sequence[Any]) -> str:
        """Number a column's texts; None is that of empty ones, others come last."""
        return self(
            "LabelEncoder",
            self._input(name, text=True),
            domain=_ML,
            keys_strings=["" if text is None else text for text in texts],
            values_int64s=[*range(len(texts))],
            default_int64=len(texts),
        )

    def by_category(self, attribute: int, table: Any) -> str:
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
            return self("Squeeze", self("Gather", table, self._code(name, known)), [1])
        value = self._input(name)
        numbers = [[math.nan if one is None else float(one) for one in known]]
        same = self.cast(self("Equal", value, numbers), np.float64)
        if None in known:
            gap = self.cast(self("IsNaN", value), np.float64)
            here = [[float(one is None) for one in known]]
            same = self("Add", same, self("Mul", gap, here))
        return self("Add", self("MatMul", same, table[:-1] - table[-1]), table[-1:])


def _equations(graph: _Graph, tree: Tree) -> tuple[np.ndarray, ...]:
    """Intercepts, slopes and ranges of the leaves in units of the target."""
    schema, leaf = tree.schema, tree.is_leaf
    weights = np.asarray(tree.coefficient[leaf, 0], np.float64) * schema.target_scale
    slopes = np.pad(
        weights[:, 1:], ((0, 0), (0, schema.n_columns - schema.n_regressors))
    )
    ends = (schema.restore_target(end[leaf, 0]) for end in tree.clip_range())
    return weights[:, 0] + schema.target_center, slopes[:, graph.order], *ends


def _sides(graph: _Graph, tree: Tree) -> str:
    """Add whether rows go left at the inner nodes, in their order."""
    blocks, compared = [], []
    sums = np.flatnonzero(np.any(tree.direction != 0, axis=1))
    if len(sums):
        total = graph("MatMul", graph.rounded, tree.direction[sums][:, graph.order].T)
        left = graph("LessOrEqual", total, tree.threshold[None, sums])
        blocks.append(graph.cast(left, np.float64))
        compared += sums.tolist()
    for attribute, known in enumerate(tree.schema.categories):
        here = (tree.kind == SplitKind.DISCRETE) & (tree.attribute == attribute)
        if here.any():
            table = tree.goes_left[here, : len(known)].T
            unseen = tree.larger_left[tree.node_of[here]]
            blocks.append(graph.by_category(attribute, [*table, unseen]))
            compared += np.flatnonzero(here).tolist()
    # All comparisons of a node hold.
    inner = np.flatnonzero(~tree.is_leaf)
    of_node = 1.0 * (tree.node_of[compared][:, None] == inner)
    n_held = graph("MatMul", graph.concat(blocks), of_node)
    return graph("Greater", n_held, of_node.sum(axis=0)[None] - 0.5)


def _leaves(graph: _Graph, trees: Sequence[Tree]) -> Iterator[str]:
    """Add a hard tree: the value of each of its outputs, of shape (n_rows, 1)."""
    tree, leaf = trees[0], trees[0].is_leaf
    nodes, leaves = [*range(tree.n_nodes)], np.flatnonzero(leaf).tolist()
    number = graph(
        "TreeEnsembleRegressor",
        graph.cast(_sides(graph, tree) if tree.n_nodes > 1 else graph.x, np.float32),
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
    number = graph("Squeeze", graph.cast(number, np.int64), [1])
    for one in trees:
        intercept, slopes, *ends = _equations(graph, one)
        value = graph("Gather", intercept[:, None], number)
        if slopes.any():
            product = graph("Mul", graph("Gather", slopes, number), graph.x)
            value = graph("Add", value, graph("ReduceSum", product, [1]))
        yield graph.clip(value, (end[:, None] for end in ends), number)


def _mixture(graph: _Graph, trees: Sequence[Tree]) -> Iterator[str]:
    """Add a soft tree: shares of the leaves, and the mean of what they say."""
    tree, n_leaves = trees[0], trees[0].n_leaves
    # The logarithms of the odds that rows go left at the inner nodes.
    inner = np.flatnonzero(~tree.is_leaf)
    width, threshold = tree.gate_width[inner], tree.threshold[inner]
    direction = tree.direction[inner][:, graph.order].T.astype(np.float64)
    total = graph("MatMul", graph.x, direction)
    distance = graph("Sub", threshold[None].astype(np.float64), total)
    narrow = np.where(width, width, 1.0)[None].astype(np.float64)
    soft = graph.clip(graph("Div", distance, narrow), (-HARD_LOGIT, HARD_LOGIT))
    hard = graph("Where", _sides(graph, tree), HARD_LOGIT, -HARD_LOGIT)
    logit = graph("Where", width[None] > 0, soft, hard)
    along = paths(tree, n_inner=n_leaves - 1, n_leaves=n_leaves)
    left, right = (np.asarray(side, np.float64) for side in (along.left, along.right))
    # The logarithm of the left share, and of the right one, which is less by the logit.
    odds = graph("Exp", graph("Neg", logit))
    lost = graph("Log", graph("Add", odds, 1.0))  # Softplus knows no float64
    lost = graph("MatMul", lost, (left + right).T)
    lost = graph("Add", lost, graph("MatMul", logit, right.T))
    share = graph("Exp", graph("Neg", lost))
    for one in trees:
        intercept, slopes, *ends = _equations(graph, one)
        value = graph("Add", graph("MatMul", graph.x, slopes.T), intercept[None])
        if tree.clip_leaves:
            value = graph.clip(value, (end[None] for end in ends))
        total = graph("ReduceSum", graph("Mul", share, value), [1])
        yield graph.clip(total, clip_range_of(one))
