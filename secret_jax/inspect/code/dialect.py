"""Phrases of exported programs: conditions and sums."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from secret_jax.data.schema import TableSchema
from secret_jax.inspect.code.program import Program, plain_categories
from secret_jax.inspect.equations import AnySplit, CategorySplit, Conjunction, Term
from secret_jax.tree.totals import Side

# A space within a name or literal: no line is broken and no sign is moved there.
FIXED_SPACE = "\0"
# Parsers refuse sums of more than about a thousand terms without brackets.
_LONGEST_SUM = 64


class Dialect(ABC):
    """A language; subclasses say how it writes the smallest parts."""

    schema: TableSchema
    logical_or: ClassVar[str]
    logical_and: ClassVar[str]
    logical_not: ClassVar[str]
    # What is 1 in a product where a condition holds, and 0 elsewhere.
    indicator: ClassVar[str]

    @abstractmethod
    def number(self, value: float) -> str:
        """Write a float."""

    @abstractmethod
    def column(self, name: str, missing_as: float | None = None) -> str:
        """Write what a row holds in a column, a mean in place of missing numbers."""

    @abstractmethod
    def missing(self, name: str) -> str:
        """Write the condition that a column is missing."""

    @abstractmethod
    def member(
        self, name: str, categories: Sequence[Any], inside: bool, or_missing: bool
    ) -> str:
        """Write the condition that a column holds one of some categories, or none."""

    @abstractmethod
    def clip(self, value: str, low: float, high: float) -> str:
        """Write a value, cut at bounds of which one may be infinite."""

    def clipped(self, value: str, low: float, high: float) -> str:
        """Write a value, cut at its bounds if it has any."""
        unbounded = math.isinf(low) and math.isinf(high)
        return value if unbounded else self.clip(value, low, high)

    def term(self, term: Term) -> str:
        """Write a term; a number's factor of one is left out."""
        factor = f"{self.number(term.factor)} * "
        if term.asks == "missing":
            return factor + self.indicator.format(self.missing(term.name))
        if term.asks == "category":
            missing = term.category is None
            holds = self.member(term.name, [term.category], True, missing)
            text = factor + self.indicator.format(holds)
            if not term.missing_as:
                return text
            known = plain_categories(self.schema, term.name)
            unknown = self.member(term.name, known, False, None not in known)
            share = self.number(term.factor * term.missing_as)
            return f"{text} + {share} * {self.indicator.format(unknown)}"
        value = self.column(term.name, term.missing_as)
        value = self.clipped(value, term.low, term.high)
        return value if term.factor == 1 else factor + value

    def sum_of(self, terms: Iterable[Term], constant: float | None = None) -> str:
        """Write a sum of terms."""
        parts = [] if constant is None else [self.number(constant)]
        parts += map(self.term, terms)
        return added(parts or [self.number(0.0)])

    def equation(self, program: Program, leaf: int) -> str:
        """Write the equation of a leaf, before it is clipped."""
        model = program.models[leaf]
        return self.sum_of(model.terms, model.intercept)

    def condition(self, split: AnySplit, side: Side) -> str:
        """Write a condition under which a row goes to a side."""
        if isinstance(split, Conjunction):
            word = self.logical_and if side == "left" else self.logical_or
            return f" {word} ".join(self.condition(c, side) for c in split.conditions)
        or_missing = split.missing_left == (side == "left")
        if isinstance(split, CategorySplit):
            inside = side == split.listed_side
            return self.member(split.name, split.listed, inside, or_missing)
        threshold = self.number(split.threshold)
        text = f"{self.sum_of(split.terms)} {split.sign(side)} {threshold}"
        if split.missing_left is None:
            return text
        missing = self.missing(split.terms[0].name)
        if or_missing:
            return f"({missing} {self.logical_or} {text})"
        return f"({self.logical_not} {missing} {self.logical_and} {text})"


def added(parts: list[str]) -> str:
    """Write a sum, in brackets of brackets if it is very long."""
    while len(parts) > _LONGEST_SUM:
        starts = range(0, len(parts), _LONGEST_SUM)
        parts = [f"({added(parts[i : i + _LONGEST_SUM])})" for i in starts]
    return " + ".join(parts).replace("+ -", "- ")
