"""Columns of an ONNX graph: numbers and flags that splits and equations ask for."""

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from secret_jax.inspect.code.onnx.graph import ML, Graph
from secret_jax.inspect.code.program import ExportedModel, are_texts, plain_categories
from secret_jax.inspect.equations import Term

# Column of the table of numbers (name, value if missing, bounds), flag that a number is
# missing, and flag that a category is one of some, with what it is for unknown ones.
_Number = tuple[str, float, float, float]
_Flag = tuple[str, tuple[Any, ...], float]


class Columns:
    """Matrix of all numbers and flags that splits and equations ask for."""

    def __init__(self, graph: Graph, model: ExportedModel):
        self.graph, self.schema = graph, model.schema
        self.numbers: dict[_Number, int] = {}
        self.missing: dict[str, int] = {}
        self.flags: dict[str, dict[_Flag, int]] = {}
        # Columns with their gaps, on which a split has learned a side for these.
        self.gaps: dict[str, int] = {}
        for program in model.programs:
            self._ask(program.terms)
            for split in program.lists:
                self._ask_flag((split.name, split.listed, 0.0))
            for split in program.sums:
                if split.missing_left is not None:
                    self.gaps.setdefault(split.terms[0].name, len(self.gaps))
                if split.missing_value is not None:
                    self._ask([split.terms[0]._replace(asks="missing")])
        if not self.numbers and not self.missing and not self.flags:
            # Of a constant, too, there are as many as rows.
            name = self.schema.names[0]
            if 0 in self.schema.discrete:
                self._ask_flag((name, (), 0.0))
            else:
                self.numbers[name, 0.0, -math.inf, math.inf] = 0
        of_array = not self.schema.named and not self.flags and not self.schema.levels
        self.width = len(self.schema.names) if of_array else 0
        blocks = [*self._blocks()]
        self.place: dict[Any, int] = {}
        for _, keys in blocks:
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
            domain=ML,
            keys_strings=["" if text is None else text for text in texts],
            values_int64s=[*range(len(texts))],
            default_int64=len(texts),
        )

    def _flag_block(self, name: str, flags: Sequence[_Flag]) -> str:
        graph, known = self.graph, plain_categories(self.schema, name)
        table = [[one in flag[1] for flag in flags] for one in known]
        table = np.array([*table, [flag[2] for flag in flags]], np.float64)
        if are_texts(known, name):
            alike = [table[known.index(one)] for one in ("", None) if one in known]
            if len(alike) == 2 and (alike[0] != alike[1]).any():
                raise TypeError(
                    f"Column {name!r} has empty texts and missing ones, which a tensor "
                    "of texts cannot tell apart. Name one of them before fitting."
                )
            rows = graph.take(table, self._code(name, known))
            return graph.squeeze(rows)
        value = graph.input(name)
        listed = [[math.nan if one is None else float(one) for one in known]]
        same = graph.to_double(graph.add("Equal", value, graph.constant(listed)))
        if None in known:
            gap = graph.to_double(graph.add("IsNaN", value))
            here = [[float(one is None) for one in known]]
            same = graph.add("Add", same, graph.add("Mul", gap, graph.constant(here)))
        known_ones = graph.add("MatMul", same, graph.constant(table[:-1]))
        if not table[-1].any():
            return known_ones
        unknown = graph.add("Sub", graph.constant([[1.0]]), graph.row_sums(same))
        shares = graph.add("Mul", unknown, graph.constant(table[-1:]))
        return graph.add("Add", known_ones, shares)

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
        return term.name, (term.category,), term.missing_as or 0.0
    mean = math.nan if term.missing_as is None else term.missing_as
    # NaN is equal to nothing: as a key it must be this one.
    return term.name, math.nan if math.isnan(mean) else mean, term.low, term.high
