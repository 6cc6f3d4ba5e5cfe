"""Phrases of Python: conditions, sums, names of variables, lines of a width."""

from __future__ import annotations

import keyword
import math
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence

from secret_jax.inspect.code.program import plain_category
from secret_jax.inspect.equations import (
    CategorySplit,
    LinearModel,
    LinearSplit,
    Side,
    Term,
)

_WIDTH = 88  # characters in a line, as most formatters have it
# What the function uses itself: neither it nor a variable may have such a name.
TAKEN = {"row", "columns", "min", "max", "float", "exp", "gate", "clip", "total"}
TAKEN |= {"missing", "number", "calendar", "datetime", "curve"}
# And what a function for classes uses.
TAKEN |= {"dict", "zip", "sum", "score", "scores", "odds", "chance", "chances"}
TAKEN |= {"probabilities"}


def condition(
    split: LinearSplit | CategorySplit, side: Side, names: dict[str, str]
) -> list[str]:
    """A condition under which a row goes to a side, in parts."""
    if isinstance(split, CategorySplit):
        listed = [f"{plain_category(c, split.name)!r}," for c in split.listed] or [""]
        word = "in" if side == split.listed_side else "not in"
        return [f"{names[split.name]} {word}", *enclosed("(", listed, ")")]
    parts = [
        *sum_of(None, split.terms, names),
        f"{split.sign(side)} {split.threshold!r}",
    ]
    if split.missing_left is None:
        return parts
    missing = f"{names[split.terms[0].name]}_missing"
    taken = split.missing_left == (side == "left")
    return [f"{missing} or" if taken else f"not {missing} and", *parts]


def share_left(split: LinearSplit | CategorySplit, names: dict[str, str]) -> list[str]:
    """The share of a row that goes left, in parts."""
    if isinstance(split, CategorySplit) or split.width == 0:
        return enclosed("float(", condition(split, "left", names), ")")
    total = sum_of(None, split.terms, names)
    if split.missing_value is not None:
        missing = f"{names[split.terms[0].name]}_missing"
        total = [f"({split.missing_value!r} if {missing} else", f"{total[0]})"]
    threshold, width = repr(split.threshold), repr(split.width)
    if not split.at_most:
        return enclosed("gate((", total, f" - {threshold}) / {width})")
    if len(total) > 1:
        total = enclosed("(", total, ")")
    return [f"gate(({threshold} -", *enclosed("", total, f") / {width})")]


def clipped(model: LinearModel, names: dict[str, str]) -> list[str]:
    parts = sum_of(model.intercept, model.terms, names)
    if math.isinf(model.low):
        return parts
    return [*enclosed("clip(", parts, ","), f"{model.low!r},", f"{model.high!r})"]


def enclosed(before: str, parts: Sequence[str], after: str) -> list[str]:
    """Parts with something put before the first and after the last of them."""
    first, *others = parts
    if not others:
        return [before + first + after]
    return [before + first, *others[:-1], others[-1] + after]


def sum_of(
    constant: float | None, terms: Iterable[Term], names: dict[str, str]
) -> list[str]:
    parts = [] if constant is None else [repr(constant)]
    for term in terms:
        factor = term.factor
        sign = ("- " if factor < 0 else "+ ") if parts else "-" if factor < 0 else ""
        column = names[term.name]
        if term.asks == "missing":
            column += "_missing"
        elif term.asks == "category":
            column = f"({column} == {plain_category(term.category, term.name)!r})"
        # True is 1 in a product, but alone it would be no number.
        alone = abs(factor) == 1 and term.asks == "number"
        parts.append(sign + ("" if alone else f"{abs(factor)!r} * ") + column)
    return parts or ["0.0"]


def local_names(names: tuple[str, ...], functions: tuple[str, ...]) -> dict[str, str]:
    """A variable for every column."""
    taken = TAKEN | {*functions}
    local = {}
    for name in names:
        # Python itself reads names in this form: others would become one variable.
        plain = unicodedata.normalize("NFKC", name)
        # A letter, digit or mark may follow a letter; what else \w takes may not.
        variable = "".join(c if f"x{c}".isidentifier() else "_" for c in plain)
        if not variable.isidentifier() or keyword.iskeyword(variable):
            variable = "x_" + variable
        while {variable, f"{variable}_missing"} & taken or re.fullmatch(
            r"(left|share|tree|total)_\d+", variable
        ):
            variable += "_"
        taken |= {variable, f"{variable}_missing"}
        local[name] = variable
    return local


def wrapped(parts: list[str], indent: str) -> Iterator[str]:
    """Parts in lines of at most the text width, if that is possible.

    Outside of brackets a line may not end: where there is no call, a pair is put round
    all that follows the first part.
    """
    line = indent + " ".join(parts)
    if len(line) <= _WIDTH or len(parts) < 3:  # too few to break between
        yield line
        return
    first, *rest = parts
    if not rest[0].startswith(("clip(", "gate(", "float(", "(")) or first == "if":
        colon = ":" if first == "if" else ""
        rest[0] = "(" + rest[0]
        rest[-1] = rest[-1].removesuffix(":") + ")" + colon
    line = indent + first
    for i, part in enumerate(rest):
        if i and len(line) + 1 + len(part) > _WIDTH:
            yield line
            line = indent + "    " + part
        else:
            line += " " + part
    yield line
