"""Trees and their sums as ONNX graphs: an ensemble of splits, a gather and a product.

Columns become one matrix of numbers: values with their means where they are missing,
flags of categories, and sums for oblique splits. The operator ``TreeEnsembleRegressor``
says which leaf a row of it reaches; the coefficients of that leaf are gathered and
multiplied by the row. The graph is of opset 17, with ``ai.onnx.ml`` 3, in float64.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from secret_jax.data.schema import TableSchema
from secret_jax.inspect.code.export import exported
from secret_jax.inspect.code.program import ExportedModel, Program, plain_category
from secret_jax.inspect.equations import CategorySplit, LinearSplit, Term
from secret_jax.inspect.views import Readable
from secret_jax.tree.soft import HARD_LOGIT, paths

_OPSETS = {"": 17, "ai.onnx.ml": 3}
_ML = "ai.onnx.ml"
_MOST_LOG_COUNT = 30.0
# Column of the table of numbers (name, value if missing, bounds), flag that a number is
# missing, and flag that a category is one of some.
_Number = tuple[str, float, float, float]
_Flag = tuple[str, tuple[Any, ...], bool]


def to_onnx(tree: Readable, *, output: int | str | None = None) -> Any:
    """Convert the tree to an ONNX model, which needs nothing of this package to run.

    Parameters
    ----------
    output : int or str, optional
        Which of several outputs of numbers; of classes the one whose probability alone
        is predicted, in place of a class.

    Returns
    -------
    onnx.ModelProto
        Its inputs are the columns that the tree uses, by name and each of the shape
        (n_rows, 1): numbers and truth values as float64, text as strings; or one
        matrix ``X`` if the model was fitted on an array of numbers. Missing numbers are
        NaN, missing texts empty. Parts of dates are columns of their own, named as in
        the text: ``sold (year)``.

        Its outputs are ``prediction``, of shape (n_rows,); or of classes ``label``,
        (n_rows,), and ``probabilities``, (n_rows, n_classes).

    Raises
    ------
    ImportError
        If onnx is not installed: ``pip install 'secret-jax[onnx]'``.
    TypeError
        If a column has texts and numbers as categories.

    Notes
    -----
    The graph computes in float64 what `predict` computes in float32, as
    `secret_jax.inspect.code.export.export_code` does, and changes sides where it does.

    Examples
    --------
    >>> import numpy as np
    >>> from secret_jax import SecretRegressor
    >>> X = np.arange(30.0)[:, None]
    >>> y = np.where(X[:, 0] < 15, 3.0, 8.0)
    >>> model = SecretRegressor(distill=False, random_state=0).fit(X, y)
    >>> graph = model.to_onnx()  # with open(...) as file: file.write(
    >>> len(graph.SerializeToString()) < 2_000
    True
    """
    return onnx_model(exported(tree, output=output))


def onnx_model(model: ExportedModel) -> Any:
    """Convert what programs compute to a graph; see `to_onnx`."""
    graph = _Graph(model.schema)
    columns = _Columns(graph, model)
    totals: list[list[str]] = [[] for _ in model.constants]
    for outputs in model.trees:
        make = _mixture if outputs[0].tree.is_soft else _leaves
        for addends, value in zip(totals, make(columns, outputs), strict=True):
            addends.append(value)
    sums = []
    for constant, (first, *others) in zip(model.constants, totals, strict=True):
        for addend in others:
            first = graph.add("Add", first, addend)
        sums.append(graph.add("Add", first, graph.constant([[constant]])))
    _answer(graph, model, graph.concat(sums))
    return graph.proto(" ".join(model.title.split()))


class _Graph:
    """Nodes, constants and inputs of a graph as it is made."""

    def __init__(self, schema: TableSchema):
        try:
            import onnx
        except ImportError as error:
            raise ImportError(
                "ONNX models need onnx, which is not installed. Install the extra: "
                "pip install 'secret-jax[onnx]'"
            ) from error
        self.onnx, self.taken = onnx, {*schema.names, "X"}
        self.nodes, self.constants, self.inputs, self.outputs = [], [], {}, []

    def name(self, wanted: str) -> str:
        """Choose a name that no other part has."""
        while wanted in self.taken:
            wanted += "_"
        self.taken.add(wanted)
        return wanted

    def add(self, operator: str, *inputs: str, domain: str = "", **attributes) -> str:
        """Add an operation, and name its result."""
        made = self.name(f"{operator} {len(self.nodes)}")
        node = self.onnx.helper.make_node(
            operator, inputs, [made], domain=domain, **attributes
        )
        self.nodes.append(node)
        return made

    def constant(self, values: Any, dtype: Any = np.float64) -> str:
        """Add an array."""
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
        """Declare a result."""
        name = self.name(name)
        self.nodes.append(self.onnx.helper.make_node("Identity", [value], [name]))
        kind = self.onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        info = self.onnx.helper.make_tensor_value_info(name, kind, shape)
        self.outputs.append(info)

    def concat(self, columns: Sequence[str]) -> str:
        """Put matrices side by side."""
        if len(columns) == 1:
            return columns[0]
        return self.add("Concat", *columns, axis=1)

    def to_double(self, value: str) -> str:
        return self.add("Cast", value, to=self.onnx.TensorProto.DOUBLE)

    def clip(self, value: str, low: Any, high: Any) -> str:
        """Keep values in ranges that are broadcast, where any is finite."""
        low, high = np.asarray(low), np.asarray(high)
        if np.isfinite(low).any():
            value = self.add("Max", value, self.constant(low))
        if np.isfinite(high).any():
            value = self.add("Min", value, self.constant(high))
        return value

    def take(self, values: Any, index: str) -> str:
        """Gather rows of an array."""
        return self.add("Gather", self.constant(values), index, axis=0)

    def proto(self, title: str) -> Any:
        helper = self.onnx.helper
        inputs = [*self.inputs.values()]
        graph = helper.make_graph(
            self.nodes, title or "tree", inputs, self.outputs, self.constants
        )
        opsets = [helper.make_opsetid(*pair) for pair in _OPSETS.items()]
        model = helper.make_model(
            graph, opset_imports=opsets, ir_version=8, producer_name="secret-jax"
        )
        self.onnx.checker.check_model(model)
        return model


class _Columns:
    """Matrix of all numbers and flags that splits and equations ask for."""

    def __init__(self, graph: _Graph, model: ExportedModel):
        self.graph, self.schema = graph, model.schema
        self.numbers: dict[_Number, int] = {}
        self.missing: dict[str, int] = {}
        self.flags: dict[str, dict[_Flag, int]] = {}
        # Columns with their gaps, on which a split has learned a side for these.
        self.gaps: dict[str, int] = {}
        for program in model.programs:
            for model_of_leaf in program.models.values():
                self._ask(model_of_leaf.terms)
            for split in program.splits.values():
                if isinstance(split, CategorySplit):
                    self._ask_flag((split.name, split.listed, True))
                else:
                    self._ask(split.terms)
                    if split.missing_left is not None:
                        self.gaps.setdefault(split.terms[0].name, len(self.gaps))
                    if split.missing_value is not None:
                        self._ask([split.terms[0]._replace(asks="missing")])
        if not self.numbers and not self.missing and not self.flags:
            # Of a constant, too, there are as many as rows.
            name = self.schema.names[0]
            if 0 in self.schema.discrete:
                self._ask_flag((name, (), True))
            else:
                self.numbers[name, 0.0, -math.inf, math.inf] = 0
        of_array = not self.schema.named and not self.flags and not self.schema.levels
        self.width = len(self.schema.names) if of_array else 0
        blocks = [*self._blocks()]
        self.place: dict[Any, int] = {}
        for block, keys in blocks:
            del block
            first = len(self.place)
            self.place |= {key: first + i for i, key in enumerate(keys)}
        self.matrix = graph.concat([block for block, _ in blocks])
        # Apart, since a gap times a factor of 0 is no number.
        self.gap_matrix = self._values([*self.gaps]) if self.gaps else ""

    def __len__(self) -> int:
        return len(self.place)

    def _ask(self, terms: Iterable[Term]) -> None:
        for term in terms:
            key = _key(term)
            if term.asks == "number":
                self.numbers.setdefault(key, 0)
            elif term.asks == "missing":
                self.missing.setdefault(term.name, 0)
            else:
                self._ask_flag(key)

    def _ask_flag(self, flag: _Flag) -> None:
        self.flags.setdefault(flag[0], {}).setdefault(flag, 0)

    def _blocks(self) -> Iterable[tuple[str, list[Any]]]:
        """Make matrices of some columns each."""
        graph = self.graph
        if self.numbers:
            names, means, low, high = zip(*self.numbers, strict=True)
            block = self._values(names)
            if not np.isnan(means).all():
                gap = graph.add("IsNaN", block)
                block = graph.add("Where", gap, graph.constant([means]), block)
            yield graph.clip(block, [low], [high]), [*self.numbers]
        if self.missing:
            block = graph.add("IsNaN", self._values([*self.missing]))
            yield graph.to_double(block), [(name, "missing") for name in self.missing]
        for name, flags in self.flags.items():
            yield self._flag_block(name, [*flags]), [*flags]

    def _values(self, names: Sequence[str]) -> str:
        """Put columns of numbers side by side, with NaN where they are missing."""
        graph = self.graph
        if not self.width:
            return graph.concat([self._value(name) for name in names])
        matrix = graph.input("X", width=self.width)
        index = [self.schema.names.index(name) for name in names]
        if index == [*range(self.width)]:
            return matrix
        return graph.add("Gather", matrix, graph.constant(index, np.int64), axis=1)

    def _value(self, name: str) -> str:
        _, _, levels = self.schema.origin(self.schema.names.index(name))
        if not levels:
            return self.graph.input(name)
        places = [*map(float, range(len(levels))), math.nan]
        return self.graph.take(places, self._code(name, levels))

    def _code(self, name: str, texts: Sequence[Any]) -> str:
        """Number a column's texts; None is that of empty ones, others come last."""
        return self.graph.add(
            "LabelEncoder",
            self.graph.input(name, text=True),
            domain=_ML,
            keys_strings=["" if text is None else text for text in texts],
            values_int64s=[*range(len(texts))],
            default_int64=len(texts),
        )

    def _flag_block(self, name: str, flags: Sequence[_Flag]) -> str:
        graph, schema = self.graph, self.schema
        attribute = schema.discrete.index(schema.names.index(name))
        known = [plain_category(one, name) for one in schema.categories[attribute]]
        table = [[one in flag[1] for flag in flags] for one in known]
        table = np.array([*table, [False] * len(flags)], np.float64)
        texts = {isinstance(one, str) for one in known if one is not None}
        if len(texts) > 1:
            raise TypeError(
                f"Column {name!r} has texts and numbers as categories, and a tensor "
                "holds one or the other. Turn the column into text before fitting."
            )
        if True in texts:
            rows = graph.take(table, self._code(name, known))
            return graph.add("Squeeze", rows, graph.constant([1], np.int64))
        value = graph.input(name)
        listed = [[math.nan if one is None else float(one) for one in known]]
        same = graph.to_double(graph.add("Equal", value, graph.constant(listed)))
        if None in known:
            gap = graph.to_double(graph.add("IsNaN", value))
            here = [[float(one is None) for one in known]]
            same = graph.add("Add", same, graph.add("Mul", gap, graph.constant(here)))
        return graph.add("MatMul", same, graph.constant(table[:-1]))

    def of(self, term: Term) -> int:
        """Column of what a term is a multiple of."""
        return self.place[
            (term.name, "missing") if term.asks == "missing" else _key(term)
        ]

    def factors(self, sums: Sequence[Sequence[Term]]) -> np.ndarray:
        """Coefficients of the columns in some sums, shape (n_columns, n_sums)."""
        factors = np.zeros((len(self), len(sums)))
        for i, terms in enumerate(sums):
            for term in terms:
                factors[self.of(term), i] += term.factor
        return factors


def _key(term: Term) -> Any:
    if term.asks == "category":
        return term.name, (term.category,), True
    mean = math.nan if term.missing_as is None else term.missing_as
    # NaN is equal to nothing: as a key it must be this one.
    return term.name, math.nan if math.isnan(mean) else mean, term.low, term.high


def _leaves(columns: _Columns, outputs: Sequence[Program]) -> Iterable[str]:
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
            axis = graph.constant([1], np.int64)
            total = graph.add("ReduceSum", product, axis, keepdims=1)
            value = graph.add("Add", value, total)
        for side, bound in (("Max", "low"), ("Min", "high")):
            bounds = [[getattr(model, bound)] for model in models]
            if np.isfinite(bounds).any():
                value = graph.add(side, value, graph.take(bounds, leaf))
        yield value


def _leaf(columns: _Columns, program: Program) -> str:
    """Add the splits of a tree: the number of the leaf of every row, (n_rows,)."""
    graph, tree = columns.graph, program.tree
    oblique, feature, mode, value, gap = [], [], [], [], []
    for node in range(tree.n_nodes):
        split = program.splits.get(node)
        place, sign, threshold, missing_left = 0, "LEAF", 0.0, False
        if isinstance(split, CategorySplit):
            place = columns.place[split.name, split.listed, True]
            # Rows go to the listed side where the flag is 1.
            sign = "BRANCH_GTE" if split.listed_side == "left" else "BRANCH_LEQ"
            threshold = 0.5
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
    matrix = graph.concat(parts)
    leaves, nodes = [*program.models], [*range(tree.n_nodes)]
    helper, double = graph.onnx.helper, graph.onnx.TensorProto.DOUBLE

    def tensor(values: Sequence[float]) -> Any:
        return helper.make_tensor("values", double, [len(values)], values)

    number = graph.add(
        "TreeEnsembleRegressor",
        matrix,
        domain=_ML,
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
    return graph.add("Squeeze", number, graph.constant([1], np.int64))


def _mixture(columns: _Columns, outputs: Sequence[Program]) -> Iterable[str]:
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
        product, axis = graph.add("Mul", share, value), graph.constant([1], np.int64)
        total = graph.add("ReduceSum", product, axis, keepdims=1)
        yield graph.clip(total, program.low, program.high)


def _logit(columns: _Columns, split: LinearSplit | CategorySplit) -> str:
    """Add the logarithm of the odds that a row goes left, of shape (n_rows, 1)."""
    graph = columns.graph

    def hard(left: str) -> str:
        share = graph.to_double(left)
        twice = graph.add("Mul", share, graph.constant(2.0 * HARD_LOGIT))
        return graph.add("Sub", twice, graph.constant(HARD_LOGIT))

    def of(terms: Sequence[Term]) -> str:
        return graph.add(
            "MatMul", columns.matrix, graph.constant(columns.factors([terms]))
        )

    if isinstance(split, CategorySplit):
        place = columns.place[split.name, split.listed, True]
        index = graph.constant([place], np.int64)
        flag = graph.add("Gather", columns.matrix, index, axis=1)
        sign = "Greater" if split.listed_side == "left" else "Less"
        return hard(graph.add(sign, flag, graph.constant(0.5)))
    if not split.width:
        sign = "LessOrEqual" if split.at_most else "GreaterOrEqual"
        left = graph.add(sign, of(split.terms), graph.constant(split.threshold))
        if split.missing_left is not None:
            gap = of([split.terms[0]._replace(asks="missing", factor=1.0)])
            missing = graph.add("Greater", gap, graph.constant(0.5))
            side = graph.constant(split.missing_left, bool)
            left = graph.add("Where", missing, side, left)
        return hard(left)
    terms = [*split.terms]
    if split.missing_value is not None:
        more = split.missing_value - (terms[0].missing_as or 0.0)
        terms.append(terms[0]._replace(asks="missing", factor=more))
    ends = graph.constant(split.threshold), of(terms)
    distance = graph.add("Sub", *(ends if split.at_most else ends[::-1]))
    distance = graph.add("Div", distance, graph.constant(split.width))
    return graph.clip(distance, -HARD_LOGIT, HARD_LOGIT)


def _answer(graph: _Graph, model: ExportedModel, scores: str) -> None:
    """Add what follows from the sums, of shape (n_rows, n_outputs)."""
    one = graph.constant([1], np.int64)
    if model.classes is None:
        if model.link == "exponential":
            scores = graph.add("Exp", graph.clip(scores, -math.inf, _MOST_LOG_COUNT))
        value = graph.add("Squeeze", scores, one)
        graph.output("prediction", value, np.float64, [None])
        return
    several = len(model.constants) > 1
    if model.link == "clip":
        chances = graph.clip(scores, 0.0, 1.0)
    else:
        chances = graph.add("Softmax" if several else "Sigmoid", scores)
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
