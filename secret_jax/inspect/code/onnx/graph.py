"""Nodes, constants and inputs of an ONNX graph."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from secret_jax.data.schema import TableSchema
from secret_jax.runtime.optional import imported

_OPSETS = {"": 17, "ai.onnx.ml": 3}
ML = "ai.onnx.ml"


class Graph:
    """Nodes, constants and inputs of a graph as it is made."""

    def __init__(self, schema: TableSchema):
        self.onnx = imported("onnx", "ONNX models", "onnx")
        self.taken = {*schema.names, "X"}
        self.nodes, self.constants, self.inputs, self.outputs = [], [], {}, []

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

    def single(self, values: Any) -> str:
        return self.constant(values, np.float32)

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
