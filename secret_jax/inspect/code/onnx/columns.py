"""Columns of an ONNX graph, encoded as the tree has them."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from secret_jax.inspect.code.onnx.graph import ML, Graph
from secret_jax.inspect.code.program import (
    ExportedModel,
    plain_categories,
    unknown_values,
)


class Columns:
    """Encoded columns that trees use, and sides of the splits on categories.

    ``x`` is a matrix of the encoded columns whose positions are in ``order``,
    ``rounded`` the same in float32, as in `secret_jax.data.rows.Table`.
    """

    def __init__(self, graph: Graph, model: ExportedModel):
        self.graph, self.schema = graph, model.schema
        used = [one.tree.in_use for outputs in model.trees for one in outputs]
        of_array = not self.schema.named and not self.schema.discrete
        of_array &= not self.schema.levels
        self.width = len(self.schema.names) if of_array else 0
        self.order: list[int] = []
        blocks = [*self._blocks(np.any(used, axis=0))]
        self.x = graph.concat(blocks) if blocks else self._zeros()
        self.rounded = graph.to_single(self.x)

    def _blocks(self, used: np.ndarray) -> Iterator[str]:
        """Make matrices of some encoded columns each."""
        graph, schema = self.graph, self.schema
        places = [i for i in schema.continuous_positions if used[i]]
        if places:
            self.order += places
            names = [schema.names[schema.input_columns[i]] for i in places]
            value, ends = self._values(names), [e[places] for e in schema.saturation]
            moved = graph.add("Sub", value, graph.constant([schema.center[places]]))
            scaled = graph.add("Div", moved, graph.constant([schema.scale[places]]))
            zeros = graph.constant(0.0)  # the mean
            gap = graph.add("IsNaN", value)
            yield graph.clip(graph.add("Where", gap, zeros, scaled), *ends)
        for place, indicator in schema.missing_columns:
            if used[indicator]:
                self.order.append(indicator)
                value = self._values([schema.names[schema.input_columns[place]]])
                yield graph.to_double(graph.add("IsNaN", value))
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
        return self.graph.add("Mul", value, self.graph.constant(0.0))

    def _values(self, names: Sequence[str]) -> str:
        """Put columns of numbers side by side, with NaN where they are missing."""
        graph = self.graph
        if not self.width:
            return graph.concat([self._value(name) for name in names])
        matrix = graph.input("X", width=self.width)
        index = [self.schema.names.index(name) for name in names]
        return graph.add("Gather", matrix, graph.constant(index, np.int64), axis=1)

    def _value(self, name: str) -> str:
        levels = self.schema.origin(self.schema.names.index(name)).levels
        if not levels:
            return self.graph.input(name)
        places = [*map(float, range(len(levels))), math.nan]
        return self.graph.take(places, self._code(name, levels))

    def _code(self, name: str, texts: Sequence[Any]) -> str:
        """Number a column's texts; None is that of empty ones, others come last."""
        return self.graph.add(
            "LabelEncoder",
            self.graph.input(name, text=True),
            domain=ML,
            keys_strings=["" if text is None else text for text in texts],
            values_int64s=[*range(len(texts))],
            default_int64=len(texts),
        )

    def of_codes(self, attribute: int, table: Any) -> str:
        """Look codes of a category up: the last line is of those never seen."""
        graph, table = self.graph, np.asarray(table, np.float64)
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
            return graph.squeeze(graph.take(table, self._code(name, known)))
        value = graph.input(name)
        listed = [[math.nan if one is None else float(one) for one in known]]
        same = graph.to_double(graph.add("Equal", value, graph.constant(listed)))
        if None in known:
            gap = graph.to_double(graph.add("IsNaN", value))
            here = [[float(one is None) for one in known]]
            same = graph.add("Add", same, graph.add("Mul", gap, graph.constant(here)))
        found = graph.add("MatMul", same, graph.constant(table[:-1] - table[-1]))
        return graph.add("Add", found, graph.constant(table[-1:]))
