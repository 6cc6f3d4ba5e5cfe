"""Conditions and sums of exported programs, as Python and SQL write them alike."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from secret_jax.data.schema import TableSchema
from secret_jax.inspect.code.program import Levels, split_sum
from secret_jax.inspect.equations import AnySplit, CategorySplit, Conjunction, Term
from secret_jax.tree.totals import Side

# Parsers refuse sums of more than about a thousand addends without brackets.
_LONGEST_SUM = 64


class Phrases(ABC):
    """Conditions and sums, in parts between which a line may break."""

    logical: ClassVar[tuple[str, str, str]]
    """The words for or, and, not."""
    indicator: ClassVar[str]
    """What is 1 where a condition holds, and else 0."""

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
    def member(self, split: CategorySplit, side: Side) -> list[str]:
        """Write the condition that a column holds one of some categories, or none."""

    @abstractmethod
    def effect(self, levels: Levels) -> list[str]:
        """Write what a category adds to a sum."""

    @abstractmethod
    def clip(self, parts: list[str], low: float, high: float) -> list[str]:
        """Write a value, cut at those of its bounds that are finite."""

    def sum_of(self, terms: Sequence[Term], constant: float | None = None) -> list[str]:
        """Write a sum, in brackets of brackets if it is very long."""
        numbers, columns = split_sum(self.schema, terms)
        addends = [] if constant is None else [[self.number(constant)]]
        addends += map(self._term, numbers)
        for levels in columns:
            first, *more = self.effect(levels)
            addends.append([f"+ {first}", *more])
        return added(addends or [[self.number(0.0)]])

    def _term(self, term: Term) -> list[str]:
        """Write a signed term of a number; a factor of one is left out."""
        value = self.indicator.format(self.missing(term.name))
        if term.asks == "number":
            held = self.column(term.name, term.missing_as)
            value = " ".join(self.clip([held], term.low, term.high))
        size = "" if abs(term.factor) == 1 else f"{self.number(abs(term.factor))} * "
        return [f"{'-' if term.factor < 0 else '+'} {size}{value}"]

    def condition(self, split: AnySplit, side: Side) -> list[str]:
        """Write a condition under which a row goes to a side."""
        either, both, no = self.logical
        if isinstance(split, Conjunction):
            first, *others = [self.condition(one, side) for one in split.conditions]
            word = both if side == "left" else either
            more = [part for one in others for part in (f"{word} {one[0]}", *one[1:])]
            return [*first, *more]
        if isinstance(split, CategorySplit):
            return self.member(split, side)
        threshold = self.number(split.threshold)
        parts = [*self.sum_of(split.terms), f"{split.sign(side)} {threshold}"]
        if split.missing_left is None:
            return parts
        gap = self.missing(split.terms[0].name)
        here = split.missing_left == (side == "left")
        first = f"({gap} {either}" if here else f"({no} {gap} {both}"
        return [first, *parts[:-1], f"{parts[-1]})"]


def added(addends: list[list[str]]) -> list[str]:
    """Join signed addends, of which the first needs no plus."""
    first, *more = addends[0]
    addends = [[first.removeprefix("+ "), *more], *addends[1:]]
    if len(addends) <= _LONGEST_SUM:
        return [part for addend in addends for part in addend]
    sums = []
    for start in range(0, len(addends), _LONGEST_SUM):
        parts = added(addends[start : start + _LONGEST_SUM])
        parts[0], parts[-1] = f"+ ({parts[0]}", f"{parts[-1]})"
        sums.append(parts)
    return added(sums)
