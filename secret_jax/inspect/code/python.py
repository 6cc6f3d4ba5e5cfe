"""Trees and what they add up to as Python functions that need nothing but Python."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from secret_jax.data.attributes import DAYS
from secret_jax.data.schema import TableSchema
from secret_jax.inspect.code.answer import Answer, Summands
from secret_jax.inspect.code.curves import WrittenCurve, written_curves
from secret_jax.inspect.code.program import Program, decisions
from secret_jax.inspect.code.python_phrases import (
    clipped,
    condition,
    enclosed,
    local_names,
    share_left,
    wrapped,
)
from secret_jax.inspect.equations import CategorySplit, LinearSplit
from secret_jax.inspect.printing import counted, counted_leaves
from secret_jax.tree.soft import HARD_LOGIT
from secret_jax.tree.structure import Tree

# What a part of a date is in Python; `secret_jax.data.attributes` makes the same parts.
_PARTS = {
    "year": "value.year",
    "month": "value.month",
    "weekday": "value.isoweekday()",
    "hour": "value.hour + value.minute / 60 + value.second / 3600",
    DAYS: "value.toordinal() - 719163",
}
_CURVE = (
    "def curve(value, points):",
    "    before, low = points[0]",
    "    if value <= before:",
    "        return low",
    "    for place, high in points[1:]:",
    "        if value <= place:",
    "            return low + (value - before) / (place - before) * (high - low)",
    "        before, low = place, high",
    "    return low",
    "",
    "",
)
# Log-odds beyond are chances of 0 and 1; expected counts stay below e^30, as in
# `secret_jax.losses.numbers.Poisson`.
_MOST_LOG_ODDS, _MOST_LOG_COUNT = 700.0, 30.0


def python_code(
    summands: Summands, answer: Answer, function_name: str, precision: int | None
) -> str:
    """The source of the functions; see `secret_jax.inspect.code.export.export_code`."""
    start, curves = (
        (0.0, [])
        if summands.curved is None
        else written_curves(summands.curved, precision)
    )
    programs = summands.programs(precision)
    schema = summands.trees[0][0].schema
    every = [_columns_used(its) for its in programs]
    used = _all_used(every, curves)
    any_used = bool(used.numbers or used.categories or used.missing)
    names = local_names(schema.names, (function_name, function_name + "_proba"))
    lines = list(_helpers(summands, programs, answer, used, any_used))
    if any(curve.points for curve in curves):
        lines += _CURVE
    trees = [its[0] for its in summands.trees]
    own = len(trees) > 1 or curves or answer != Answer()
    calls = []
    for i, (tree, its, columns) in enumerate(zip(trees, programs, every, strict=True)):
        calls.append(f"tree_{i}({', '.join(_arguments(schema, names, columns))})")
        if own:
            lines += [f"def {calls[-1]}:", *_body(tree, its, names), "", ""]
    with_all = answer.classes is not None and answer.which is None
    lines += [
        f"def {function_name}{'_proba' if with_all else ''}(row=None, /, **columns):",
        f"    # {_summary(summands, curves)}",
        "    # Columns come as keyword arguments or as one dict; others are ignored.",
    ]
    if any_used:
        lines.append("    row = columns if row is None else row")
    lines += _variables(trees[0], names, used)
    if not own:
        return "\n".join([*lines, *_body(trees[0], programs[0], names)]) + "\n"
    constants = [start + constant for constant in summands.constants]
    lines += _total(constants, curves, calls, names)
    lines += _answered(answer, len(constants))
    if with_all:
        lines += ["", "", *_class_of(answer, function_name)]
    return "\n".join(lines) + "\n"


def _summary(summands: Summands, curves: Sequence[WrittenCurve]) -> str:
    """What is predicted, and by what, on one line."""
    n_trees, first = len(summands.trees), summands.trees[0][0]
    by = f"a tree of {counted_leaves(first.n_leaves)}"
    if n_trees > 1:
        by = f"{n_trees} trees that add up"
    if curves:
        by = f"{counted(len(curves), 'curve', 'curves')} and {by}"
    return " ".join(f"{' / '.join(summands.names)}: {by}.".split())


def _total(
    constants: list[float],
    curves: Sequence[WrittenCurve],
    calls: Sequence[str],
    names: dict[str, str],
) -> Iterator[str]:
    """The sum, or of several outputs the list of their sums."""
    if len(constants) > 1:
        first, *others = calls
        if any(constants):
            yield f"    scores = {constants!r}"
            others = calls
        else:
            yield f"    scores = {first}"
        for call in others:
            yield f"    scores = [a + b for a, b in zip(scores, {call})]"
        return
    yield f"    total = {constants[0]!r}"
    for curve in curves:
        yield from wrapped(["total +=", *_curve(curve, names[curve.name])], "    ")
    for call in calls:
        yield f"    total += {call}"


def _curve(curve: WrittenCurve, column: str) -> list[str]:
    """What a curve adds, in parts."""
    if not curve.points:
        listed = [f"{each!r}: {value!r}," for each, value in curve.categories]
        return enclosed("{", listed, f"}}.get({column}, 0.0)")
    points = [f"({place!r}, {value!r})," for place, value in curve.points]
    parts = [f"curve({column},", *enclosed("(", points, "))")]
    if curve.missing is not None:
        parts = [f"({curve.missing!r} if {column}_missing else", *parts]
        parts[-1] += ")"
    return parts


def _answered(answer: Answer, n_outputs: int) -> Iterator[str]:
    """What is made of the sums, and returned."""
    if answer.classes is None:
        limited = f"exp(min(total, {_MOST_LOG_COUNT}))"
        yield f"    return {limited if answer.link == 'exponential' else 'total'}"
        return
    labels, soft = answer.labels, answer.link == "softmax"
    if n_outputs == 1:
        most = _MOST_LOG_ODDS
        logistic = f"1.0 / (1.0 + exp(-min(max(total, -{most}), {most})))"
        yield f"    chance = {logistic if soft else 'min(max(total, 0.0), 1.0)'}"
        chances = ["1.0 - chance", "chance"]
        if answer.which is not None:
            yield f"    return {chances[answer.which]}"
            return
        pairs = zip(labels, chances, strict=True)
        inside = ", ".join(f"{label!r}: {chance}" for label, chance in pairs)
        yield f"    return {{{inside}}}"
        return
    if soft:
        yield "    odds = [exp(score - max(scores)) for score in scores]"
        yield "    chances = [each / sum(odds) for each in odds]"
    else:
        yield "    chances = [min(max(score, 0.0), 1.0) for score in scores]"
    if answer.which is not None:
        yield f"    return chances[{answer.which}]"
        return
    listed = enclosed("(", [f"{label!r}," for label in labels], "),")
    yield from wrapped(["return dict(zip(", *listed, "chances))"], "    ")


def _class_of(answer: Answer, function_name: str) -> Iterator[str]:
    """The function that says a class."""
    assert answer.classes is not None
    yield f"def {function_name}(row=None, /, **columns):"
    yield f"    chances = {function_name}_proba(row, **columns)"
    if answer.classes.costs is None:
        yield "    return max(chances, key=chances.get)"
        return
    yield "    # What each class costs on average if it is named."
    yield "    costs = {"
    for column, label in enumerate(answer.labels):
        terms = [
            f"{cost!r} * chances[{other!r}]"
            for other, cost in zip(
                answer.labels, answer.classes.costs[:, column].tolist(), strict=True
            )
            if cost
        ]
        yield f"        {label!r}: {' + '.join(terms) or '0.0'},"
    yield from ("    }", "    return min(costs, key=costs.get)")


def _arguments(schema: TableSchema, names: dict[str, str], used: _Used) -> list[str]:
    """The variables that a part of the function reads."""
    return [
        names[name] + ending
        for name in schema.names
        for ending, columns in (
            ("", {*used.numbers, *used.categories}),
            ("_missing", used.missing),
        )
        if name in columns
    ]


class _Used(NamedTuple):
    """Columns that the function reads.

    Attributes
    ----------
    numbers : dict of str to float or None
        Columns of numbers, with what missing ones count as.
    categories : set of str
        Columns of categories.
    missing : set of str
        Columns that are asked whether they are missing.
    """

    numbers: dict[str, float | None]
    categories: set[str]
    missing: set[str]


def _columns_used(programs: Iterable[Program]) -> _Used:
    """Those of a tree; its programs have the same splits."""
    used = _Used({}, set(), set())
    for program in programs:
        for part in (*program.splits.values(), *program.models.values()):
            if isinstance(part, CategorySplit):
                used.categories.add(part.name)
                continue
            for term in part.terms:
                if term.asks == "number":
                    used.numbers[term.name] = term.missing_as
                else:
                    asked = used.categories if term.asks == "category" else used.missing
                    asked.add(term.name)
            if isinstance(part, LinearSplit) and part.missing_left is not None:
                used.missing.add(part.terms[0].name)
    return used


def _all_used(every: Iterable[_Used], curves: Iterable[WrittenCurve]) -> _Used:
    used = _Used({}, set(), set())
    for own in every:
        used.numbers.update(own.numbers)
        used.categories.update(own.categories)
        used.missing.update(own.missing)
    for curve in curves:
        if curve.points:
            used.numbers[curve.name] = curve.missing_as
            used.missing.update({curve.name} if curve.missing is not None else ())
        else:
            used.categories.add(curve.name)
    return used


def _helpers(
    summands: Summands,
    programs: Sequence[Sequence[Program]],
    answer: Answer,
    used: _Used,
    any_used: bool,
) -> Iterator[str]:
    """The functions that the function calls."""
    schema = summands.trees[0][0].schema
    soft = any(its[0].is_soft for its in summands.trees)
    ranges = [
        part.low
        for its in programs
        for program in its
        for part in (program, *program.models.values())
    ]
    parts = {
        schema.origin(position).part
        for position, name in enumerate(schema.names)
        if name in used.numbers or name in used.missing
    } - {""}
    if parts:
        yield from ("from datetime import datetime", "", "")
        yield from (
            "def calendar(value, part):",
            "    if value is None or value != value:",
        )
        yield "        return None"
        yield "    if isinstance(value, str):"
        yield "        value = datetime.fromisoformat(value)"
        for part, text in _PARTS.items():
            if part == "hour":
                text = f"{text} if isinstance(value, datetime) else 0.0"
            if part in parts:
                yield from (f"    if part == {part!r}:", f"        return {text}")
        yield from ("", "")
    if soft or answer.link in ("softmax", "exponential"):
        yield from ("from math import exp", "", "")
    if soft:
        limit = repr(HARD_LOGIT)
        share = f"1.0 / (1.0 + exp(-min(max(distance, -{limit}), {limit})))"
        yield from ("def gate(distance):", f"    return {share}", "", "")
    if any(map(math.isfinite, ranges)):
        clipped = "min(max(value, low), high)"
        yield from ("def clip(value, low, high):", f"    return {clipped}", "", "")
    if schema.allow_missing and any_used:
        missing = "value is None or value != value"
        yield from ("def missing(value):", f"    return {missing}", "", "")
        if used.numbers:
            number = "mean if missing(value) else float(value)"
            yield from ("def number(value, mean):", f"    return {number}", "", "")


def _variables(tree: Tree, names: dict[str, str], used: _Used) -> Iterator[str]:
    """What the row holds in the columns that are used."""
    for position, name in enumerate(tree.schema.names):
        held = _held(tree.schema, position)
        if name in used.numbers:
            mean = used.numbers[name]
            value = f"float({held})" if mean is None else f"number({held}, {mean!r})"
            yield f"    {names[name]} = {value}"
        elif name in used.categories:
            if tree.schema.allow_missing:
                yield f"    {names[name]} = None if missing({held}) else {held}"
            else:
                yield f"    {names[name]} = {held}"
        if name in used.missing:
            yield f"    {names[name]}_missing = missing({held})"


def _held(schema: TableSchema, position: int) -> str:
    """What a row holds in a column: a part of a date, or the place of a category."""
    column, part, levels = schema.origin(position)
    if part:
        return f"calendar(row[{column!r}], {part!r})"
    if levels:
        places = {level: float(place) for place, level in enumerate(levels)}
        return f"{places!r}.get(row[{column!r}])"
    return f"row[{column!r}]"


def _body(
    tree: Tree, programs: Sequence[Program], names: dict[str, str]
) -> Iterator[str]:
    """The lines that return what a tree says: a number, or one for each output."""
    return (_mixture if tree.is_soft else _decisions)(tree, programs, names)


def _decisions(
    tree: Tree, programs: Sequence[Program], names: dict[str, str]
) -> Iterator[str]:
    """If, return, if, return ..."""
    for step in decisions(tree):
        indent = "    " * (step.depth + 1)
        if step.nested is None:
            each = [clipped(program.models[step.node], names) for program in programs]
            yield from wrapped(["return", *_together(each)], indent)
        else:
            parts = condition(programs[0].splits[step.node], step.nested, names)
            yield from wrapped(["if", *parts[:-1], parts[-1] + ":"], indent)


def _together(each: Sequence[list[str]]) -> list[str]:
    """One value, or several as a tuple, in parts."""
    if len(each) == 1:
        return each[0]
    listed = [part for value in each for part in enclosed("", value, ",")]
    return enclosed("(", listed, ")")


def _mixture(
    tree: Tree, programs: Sequence[Program], names: dict[str, str]
) -> Iterator[str]:
    """Shares of the nodes, from the root down, then the sums over the leaves."""

    def share(node: int) -> str:
        parent = int(tree.parent[node])
        goes_left = tree.left[parent] == node
        way = f"left_{parent}" if goes_left else f"(1.0 - left_{parent})"
        return f"share_{parent} * {way}" if parent else way

    for node, split in programs[0].splits.items():
        if node:
            yield f"    share_{node} = {share(node)}"
        yield from wrapped([f"left_{node} =", *share_left(split, names)], "    ")
    totals = []
    for output, program in enumerate(programs):
        total, sign = "total" if len(programs) == 1 else f"total_{output}", "="
        for node, model in program.models.items():
            value = clipped(model, names)
            if len(value) > 1 and not value[0].startswith("clip("):
                value = enclosed("(", value, ")")
            yield from wrapped([f"{total} {sign} {share(node)} *", *value], "    ")
            sign = "+="
        bounded = f"clip({total}, {program.low!r}, {program.high!r})"
        totals.append([total if math.isinf(program.low) else bounded])
    yield f"    return {' '.join(_together(totals))}"
