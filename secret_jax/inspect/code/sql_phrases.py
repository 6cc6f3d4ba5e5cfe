"""Phrases of SQL: conditions, sums, identifiers, numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from secret_jax.inspect.code.program import Program, plain_category
from secret_jax.inspect.equations import (
    CategorySplit,
    LinearSplit,
    Side,
    Term,
)
from secret_jax.tree.soft import HARD_LOGIT

# SQLite and DuckDB refuse expressions that are nested deeper than about a thousand.
LONGEST_SUM = 64


def condition(split: LinearSplit | CategorySplit, side: Side) -> str:
    """A condition under which a row goes to a side."""
    missing_taken = split.missing_left == (side == "left")
    if isinstance(split, CategorySplit):
        name, is_listed = identifier(split.name), side == split.listed_side
        plain = [literal(c, split.name) for c in split.listed if c is not None]
        condition = f"{name} {'IN' if is_listed else 'NOT IN'} ({', '.join(plain)})"
        if not plain:
            condition = "1 = 0" if is_listed else f"{name} = {name}"
        # Of NULL neither IN nor NOT IN is true.
        return f"({condition} OR {name} IS NULL)" if missing_taken else condition
    total, threshold = sum_of_terms(None, split.terms), number(split.threshold)
    condition = f"{total} {split.sign(side)} {threshold}"
    if split.missing_left is None:
        return condition
    name = identifier(split.terms[0].name)
    if missing_taken:
        return f"({condition} OR {name} IS NULL)"
    return f"({condition} AND {name} IS NOT NULL)"


def share_left(split: LinearSplit | CategorySplit) -> str:
    """The share of a row that goes left."""
    if isinstance(split, CategorySplit) or split.width == 0:
        return f"CASE WHEN {condition(split, 'left')} THEN 1e0 ELSE 0e0 END"
    terms = split.terms
    if split.missing_value is not None:
        terms = (terms[0]._replace(missing_as=split.missing_value),)
    total, threshold = f"({sum_of_terms(None, terms)})", number(split.threshold)
    sides = (total, threshold) if split.at_most else (threshold, total)
    exponent = f"({sides[0]} - {sides[1]}) / {number(split.width)}"
    limit = number(HARD_LOGIT)
    # EXP of a large number is an error in some databases.
    return (
        f"CASE WHEN {exponent} > {limit} THEN 0e0 WHEN {exponent} < -{limit} THEN 1e0 "
        f"ELSE 1e0 / (1e0 + EXP({exponent})) END"
    )


def sum_at(program: Program, node: int) -> str:
    return sum_of_terms(program.models[node].intercept, program.models[node].terms)


def clipped(text: str, low: float, high: float) -> str:
    """The value of a name between two bounds; an infinite one is none."""
    bounds = (("<", low), (">", high))
    cases = [
        f"WHEN {text} {sign} {number(bound)} THEN {number(bound)}"
        for sign, bound in bounds
        if math.isfinite(bound)
    ]
    return " ".join(["CASE", *cases, f"ELSE {text} END"]) if cases else text


def sum_of_terms(constant: float | None, terms: Iterable[Term]) -> str:
    parts = [] if constant is None else [number(constant)]
    for term in terms:
        factor, column = number(term.factor), identifier(term.name)
        if term.asks == "number":
            if term.missing_as is not None:
                column = f"COALESCE({column}, {number(term.missing_as)})"
            parts.append(column if term.factor == 1 else f"{factor} * {column}")
        else:
            holds = f"{column} IS NULL"
            if term.category is not None:
                holds = f"{column} = {literal(term.category, term.name)}"
            parts.append(f"CASE WHEN {holds} THEN {factor} ELSE 0e0 END")
    return added(parts, " + ") if parts else "0e0"


def added(parts: list[str], plus: str) -> str:
    while len(parts) > LONGEST_SUM:
        starts = range(0, len(parts), LONGEST_SUM)
        parts = [f"({plus.join(parts[i : i + LONGEST_SUM])})" for i in starts]
    return plus.join(parts)


def identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def literal(category: object, name: str) -> str:
    value = plain_category(category, name)
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return number(value) if isinstance(value, float) else str(value)


def number(value: float) -> str:
    """A literal of double precision: without an exponent it would be a decimal."""
    text = repr(float(np.float64(value)))
    if "e" not in text:
        text = text.removesuffix(".0") + "e0"
    return text
