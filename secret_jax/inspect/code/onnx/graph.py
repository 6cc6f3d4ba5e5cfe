"""An ONNX graph as it is made, and the columns in it, encoded as the tree has them."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from secret_jax.inspect.code.program import (
    ExportedModel,
    plain_categories,
    unknown_values,
)
from secret_jax.runtime.optional import imported

_OPSETS = {"": 17, "ai.onnx.ml": 3}
ML = "ai.onnx.ml"


class Graph:
    """Nodes, constants and inputs as they are made, and the columns that trees use.

    ``x`` is a matrix of the encoded columns whose positions are in ``order``,
    ``rounded`` the same in float32, as in `secret_jax.data.rows.Table`.
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
        made, make = self.name(f"{operator} {len(self.nodes)}"), self.onnx.helper
        node = make.make_node(operator, inputs, [made], domain=domain, **attributes)
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
        places = [i for i in schema.continuous_positions if used[i]]
        if places:
            self.order += places
            names = [schema.names[schema.input_columns[i]] for i in places]
            value, ends = self._values(names), [e[places] for e in schema.saturation]
            moved = self.add("Sub", value, self.constant([schema.center[places]]))
            scaled = self.add("Div", moved, self.constant([schema.scale[places]]))
            zeros = self.constant(0.0)  # the mean
            gap = self.add("IsNaN", value)
            yield self.clip(self.add("Where", gap, zeros, scaled), *ends)
        for place, indicator in schema.missing_columns:
            if used[indicator]:
                self.order.append(indicator)
                value = self._values([schema.names[schema.input_columns[place]]])
                yield self.to_double(self.add("IsNaN", value))
        first = schema.n_regressors - schema.n_indicators
        for attribute in range(len(schema.discrete)):
            mine = [
                (place, code)
                for place, (of, code) in enumerate(schema.indicators, first)
                if of == attribute and used[place]
            ]
            if mine:
                self.order += [place for place, _ in mine]
                codes = [code for _, code in mine]
                known = np.eye(len(schema.categories[attribute]))[:, codes]
                unknown = unknown_values(schema)[[place for place, _ in mine]]
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
        if not self.width:
            return self.concat([self._value(name) for name in names])
        matrix = self.input("X", width=self.width)
        index = [self.schema.names.index(name) for name in names]
        return self.add("Gather", matrix, self.constant(index, np.int64), axis=1)

    def _value(self, name: str) -> str:
        levels = self.schema.origin(self.schema.names.index(name)).levels
        if not levels:
            return self.input(name)
        places = [*map(float, range(len(levels))), math.nan]
        return self.take(places, self._code(name, levels))

    def _code(self, name: str, texts: Sequence[Any]) -> str:
        """Number a column's texts; None is that of empty ones, others come last."""
        return self.add(
            "LabelEncoder",
            self.input(name, text=True),
            domain=ML,
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
        listed = [[math.nan if one is None else float(one) for one in known]]
        same = self.to_double(self.add("Equal", value, self.constant(listed)))
        if None in known:
            gap = self.to_double(self.add("IsNaN", value))
            here = [[float(one is None) for one in known]]
            same = self.add("Add", same, self.add("Mul", gap, self.constant(here)))
        found = self.add("MatMul", same, self.constant(table[:-1] - table[-1]))
        return self.add("Add", found, self.constant(table[-1:]))
