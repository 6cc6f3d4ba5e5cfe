"""Conditions and sums of exported programs, as Python and SQL write them alike."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from secret_jax.data.schema import TableSchema
from secret_jax.inspect.code.program import Levels, split_sum
from secret_jax.inspect.equations import AnySplit, CategorySplit, Conjunction, Term
from secret_jax.tree.totals import Side


class Phrases(ABC):
    """Conditions and sums over the columns of a row."""

    logical: ClassVar[tuple[str, str, str]]
    """The words for or, and, not."""
    indicator: ClassVar[str]
    """What is 1 where a condition holds, and else 0."""
    blank: ClassVar[str] = " "
    """What stands between addends."""

    def __init__(self, schema: TableSchema):
        self.schema = schema

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
    def member(self, split: CategorySplit, side: Side) -> str:
        """Write the condition that a column holds one of some categories, or none."""

    @abstractmethod
    def effect(self, levels: Levels) -> str:
        """Write what a category adds to a sum."""

    @abstractmethod
    def clip(self, value: str, low: float, high: float) -> str:
        """Write a value, cut at those of its bounds that are finite."""

    def sum_of(self, terms: Sequence[Term], constant: float | None = None) -> str:
        """Write a sum."""
        numbers, columns = split_sum(self.schema, terms)
        addends = [] if constant is None else [self.number(constant)]
        addends += map(self._term, numbers)
        return self.added([*addends, *(f"+ {self.effect(one)}" for one in columns)])

    def added(self, addends: Sequence[str]) -> str:
        """Join signed addends, of which the first needs no plus."""
        return self.blank.join(addends).removeprefix("+ ") or self.number(0.0)

    def _term(self, term: Term) -> str:
        """Write a signed term of a number; a factor of one is left out."""
        if term.asks == "number":
            held = self.column(term.name, term.missing_as)
            value = self.clip(held, term.low, term.high)
        else:
            value = self.indicator.format(self.missing(term.name))
        size = "" if abs(term.factor) == 1 else f"{self.number(abs(term.factor))} * "
        return f"{'-' if term.factor < 0 else '+'} {size}{value}"

    def condition(self, split: AnySplit, side: Side) -> str:
        """Write a condition under which a row goes to a side."""
        either, both, no = self.logical
        if isinstance(split, Conjunction):
            word = f" {both if side == 'left' else either} "
            return word.join(self.condition(one, side) for one in split.conditions)
        if isinstance(split, CategorySplit):
            return self.member(split, side)
        threshold = self.number(split.threshold)
        text = f"{self.sum_of(split.terms)} {split.sign(side)} {threshold}"
        if split.missing_left is None:
            return text
        gap = self.missing(split.terms[0].name)
        here = split.missing_left == (side == "left")
        return f"({gap} {either} {text})" if here else f"({no} {gap} {both} {text})"
