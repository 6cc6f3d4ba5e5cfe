"""A tree as SQL, with ``EXP`` for classes and counts alone.

A clipped sum would be written three times, since there is no standard function that
clips, so leaves and sums have names, in common table expressions of one row. These are
MATERIALIZED: SQLite would otherwise put what they stand for in each place of the name.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from secret_jax.inspect.code.program import (
    ExportedModel,
    Writer,
    decisions,
    exact_conditions,
    exact_equation,
    parts_of_dates,
    plain_category,
)
from secret_jax.inspect.equations import CategorySplit
from secret_jax.tree.structure import Tree
from secret_jax.tree.totals import Side

# Exponents beyond are chances of 0 or 1, and an error in some databases.
_MOST_LOG_ODDS = 100.0


def sql_code(model: ExportedModel, column_name: str, table: str | None) -> str:
    """Write an expression or query; see `secret_jax.inspect.code.export`."""
    if model.trees[0][0].is_soft:
        raise ValueError(
            "Gates are not exported to 'sql'. smaller(gates=False) gives the tree "
            "without them, which export_code('sql') writes."
        )
    by_class = model.classes is not None and model.only is None
    if by_class and len(model.constants) > 1 and table is None:
        raise ValueError(
            "An SQL expression has one value, and each of several classes has a "
            "probability. Name a table with table= for a query that has a column for "
            "each and the class, or one class with output=."
        )
    notes = "".join(f"-- {one}\n" for one in parts_of_dates(model))
    sql, name = _SqlWriter(model, column_name, table or ""), _quoted(column_name)
    sums = list(map(sql.value, model.trees[0]))
    if table is not None and by_class:
        return f"{notes}{sql.query_of_classes(sums, column_name, table)}\n"
    code = sql.answer(sums)
    code = code if table is None else _select({name: code}, _quoted(table))
    return f"{notes}{code}\n"


class _SqlWriter(Writer):
    """SQL with quoted names of columns, and a prefix that begins no name of these."""

    logical, exponential = ("OR", "AND", "NOT"), "EXP"
    indicator = "CASE WHEN {} THEN 1e0 ELSE 0e0 END"

    def __init__(self, model: ExportedModel, *names: str):
        super().__init__(model)
        tree = model.trees[0][0]
        inner = np.flatnonzero(~tree.is_leaf).tolist()
        self.splits = {node: exact_conditions(tree, node) for node in inner}
        names, self.prefix = (*names, *self.schema.names), "tree_"
        while any(name.lower().startswith(self.prefix) for name in names):
            self.prefix += "_"

    def number(self, value: float) -> str:
        # Without an exponent it would be a decimal.
        text = repr(float(value))
        return text if "e" in text else text.removesuffix(".0") + "e0"

    def column(self, name: str, missing_as: float | None = None) -> str:
        text, position = _quoted(name), self.schema.names.index(name)
        if levels := self.schema.origin(position).levels:
            texts = (self._literal(level, name) for level in levels)
            cases = (f"WHEN {one} THEN {i}e0" for i, one in enumerate(texts))
            text = _case(cases, of=f"{text} ")
        known = missing_as is None
        return text if known else f"COALESCE({text}, {self.number(missing_as)})"

    def missing(self, name: str) -> str:
        return f"{self.column(name)} IS NULL"

    def member(self, split: CategorySplit, side: Side) -> str:
        inside, column = side == split.listed_side, self.column(split.name)
        known = [self._literal(c, split.name) for c in split.listed if c is not None]
        text = f"{column} {'IN' if inside else 'NOT IN'} ({', '.join(known)})"
        if not known:
            text = "1 = 0" if inside else f"{column} = {column}"
        # Of NULL neither IN nor NOT IN is true.
        gap = split.missing_left == (side == "left")
        return f"({text} OR {column} IS NULL)" if gap else text

    def effect(self, name: str, effects: dict[Any, float], otherwise: float) -> str:
        column, cases = self.column(name), []
        for category, effect in effects.items():
            holds = f"{column} = {self._literal(category, name)}"
            asked = f"{column} IS NULL" if category is None else holds
            cases.append(f"WHEN {asked} THEN {self.number(effect)}")
        return _case(cases, self.number(otherwise))

    def _literal(self, category: Any, name: str) -> str:
        value = plain_category(category, name)
        if isinstance(value, bool):
            return "TRUE" if value else "FALSE"
        if isinstance(value, str):
            return _quoted(value, "'")
        return self.number(value) if isinstance(value, float) else str(value)

    def clip(self, value: str, low: float, high: float) -> str:
        cases = [
            f"WHEN {value} {sign} {self.number(bound)} THEN {self.number(bound)}"
            for sign, bound in (("<", low), (">", high))
            if math.isfinite(bound)
        ]
        return _case(cases, value) if cases else value

    def value(self, tree: Tree) -> str:
        """Write an output of the tree."""
        leaves = np.flatnonzero(tree.is_leaf).tolist()
        models = {node: exact_equation(tree, node) for node in leaves}
        sums = {
            node: self.sum_of(one.terms, one.intercept) for node, one in models.items()
        }
        if tree.clip_margin is None:
            return self._decided(tree, sums)
        leaf, value = f"{self.prefix}leaf", f"{self.prefix}value"
        leaves, values = f"{self.prefix}leaves", f"{self.prefix}values"

        def chosen(texts: Mapping[int, str]) -> str:
            lines = (f"WHEN {node} THEN {text}" for node, text in texts.items())
            return "\n".join([f"CASE {leaf}", *lines, "END"])

        numbers = self._decided(tree, {node: str(node) for node in models})
        stages = {
            leaves: f"SELECT\n{numbers} AS {leaf}",
            values: f"SELECT {leaf},\n{chosen(sums)} AS {value}\nFROM {leaves}",
        }
        clipped = {n: self.clip(value, one.low, one.high) for n, one in models.items()}
        query = f"SELECT {chosen(clipped)}\nFROM {values}"
        return f"({_with(stages, query)})"

    def _decided(self, tree: Tree, values: Mapping[int, str]) -> str:
        """Write one CASE for a chain of nodes, with another in each of its branches."""
        lines = []
        for node, depth, nested, first in decisions(tree):
            indent = "  " * depth
            if nested is not None:
                asked = self.condition(self.splits[node], nested)
                lines += [f"{indent}CASE"] * first + [f"{indent}WHEN {asked} THEN"]
            elif first:
                lines.append(indent + values[node])
            else:
                lines += [f"{indent}ELSE", f"{indent}  {values[node]}", f"{indent}END"]
        return "\n".join(lines)

    def answer(self, sums: list[str]) -> str:
        """Write one number: a sum, its meaning, or the probability of one class."""
        names = [f"{self.prefix}score_{i}" for i in range(len(sums))]
        values, model = self._by_link(names), self.model
        if values == names:
            return sums[0]
        # Of one score both shares are known; of a number it is the second that is
        # meant.
        shown = -1 if model.classes is None else 1 if model.only is None else model.only
        scores = f"{self.prefix}scores"
        stages = {scores: "SELECT\n" + _columns(dict(zip(names, sums, strict=True)))}
        query = f"SELECT {values[shown]}\nFROM {scores}"
        return f"({_with(stages, query)})"

    def query_of_classes(self, sums: list[str], column_name: str, table: str) -> str:
        """Write a query that adds scores, probabilities and the predicted class."""
        taken = {name.lower() for name in (*self.schema.names, column_name)}

        def free(name: str) -> str:
            while name.lower() in taken:
                name += "_"
            taken.add(name.lower())
            return _quoted(name)

        scores = [free(tree.schema.target_name) for tree in self.model.trees[0]]
        chances = [free(f"probability of {label}") for label in self.model.labels]
        scored, rated = f"{self.prefix}scored", f"{self.prefix}rated"
        named = dict(zip(chances, self._by_link(scores), strict=True))
        stages = {
            scored: _select(dict(zip(scores, sums, strict=True)), _quoted(table)),
            rated: _select(named, scored),
        }
        chosen = {_quoted(column_name): self._likeliest(chances)}
        return _with(stages, _select(chosen, rated))

    def _by_link(self, scores: list[str]) -> list[str]:
        link, ends = self.model.link, (-_MOST_LOG_ODDS, _MOST_LOG_ODDS)
        if link != "softmax":
            values = list(map(self.undone, scores))
            alone = link == "clip" and len(values) == 1
            return [f"1e0 - {values[0]}"] * alone + values
        if len(scores) == 1:
            odds = [f"EXP({self.clip(sign + scores[0], *ends)})" for sign in ("", "-")]
            return [f"1e0 / (1e0 + {each})" for each in odds]
        first, *others = scores
        odds = [f"EXP({self.clip(f'({each} - {first})', *ends)})" for each in others]
        total = " + ".join(["1e0", *odds])
        return [f"{each} / ({total})" for each in ("1e0", *odds)]

    def _likeliest(self, chances: list[str]) -> str:
        """Write the predicted class: a later one wins only if it is better."""
        values, better = chances, ">="
        if costs := self.costs(chances, "+"):
            values, better = [f"({one})" for one in costs], "<="
        *labels, last = [self._literal(label, "y") for label in self.model.labels]
        cases = ["CASE"]
        for i, label in enumerate(labels):
            best = (f"{values[i]} {better} {each}" for each in values[i + 1 :])
            cases.append(f"WHEN {' AND '.join(best)} THEN {label}")
        return "\n".join([*cases, f"ELSE {last}", "END"])


def _quoted(name: str, mark: str = '"') -> str:
    return mark + name.replace(mark, 2 * mark) + mark


def _case(cases: Iterable[str], otherwise: str | None = None, of: str = "") -> str:
    last = "" if otherwise is None else f"ELSE {otherwise} "
    return f"CASE {of}{' '.join(cases)} {last}END"


def _columns(named: Mapping[str, str]) -> str:
    return ",\n".join(f"{value} AS {name}" for name, value in named.items())


def _select(named: Mapping[str, str], source: str) -> str:
    return f"SELECT *,\n{_columns(named)}\nFROM {source}"


def _with(stages: Mapping[str, str], query: str) -> str:
    named = (f"{name} AS MATERIALIZED (\n{one}\n)" for name, one in stages.items())
    return f"WITH {', '.join(named)}\n{query}"
