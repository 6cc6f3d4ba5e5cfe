"""A tree as a Python function that needs nothing but Python."""

from __future__ import annotations

import keyword
import math
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from secret_jax.data.attributes import DAYS
from secret_jax.data.schema import TableSchema
from secret_jax.inspect.code.curves import written_curves
from secret_jax.inspect.code.program import (
    Program,
    decisions,
    plain_category,
    program_of,
)
from secret_jax.inspect.equations import (
    CategorySplit,
    LinearModel,
    LinearSplit,
    Side,
    Term,
)
from secret_jax.inspect.printing import counted, counted_leaves
from secret_jax.inspect.rest import rest_of
from secret_jax.tree.soft import HARD_LOGIT
from secret_jax.tree.structure import Tree

_WIDTH = 88  # characters in a line, as most formatters have it
# What the function uses itself: neither it nor a variable may have such a name.
TAKEN = {"row", "columns", "min", "max", "float", "exp", "gate", "clip", "total"}
TAKEN |= {"missing", "number", "calendar", "datetime", "curve"}
# What a part of a date is in Python; `secret_jax.data.attributes` makes the same parts.
_PARTS = {
    "year": "value.year",
    "month": "value.month",
    "weekday": "value.isoweekday()",
    "hour": "value.hour + value.minute / 60 + value.second / 3600",
    DAYS: "value.toordinal() - 719163",
}


def python_code(tree: Tree, function_name: str, precision: int | None) -> str:
    """The source of the function; see `secret_jax.inspect.code.export.export_code`."""
    program = program_of(tree, precision)
    names = _local_names(tree.schema.names, function_name)
    used = _columns_used(program)
    any_used = bool(used.numbers or used.categories or used.missing)
    lowest = [program.low, *(model.low for model in program.models.values())]
    lines = [*_helpers(tree, lowest, used, any_used)]
    summary = f"{tree.schema.target_name}: a tree of {counted_leaves(tree.n_leaves)}."
    lines += [
        f"def {function_name}(row=None, /, **columns):",
        f"    # {' '.join(summary.split())}",
        "    # Columns come as keyword arguments or as one dict; others are ignored.",
    ]
    if any_used:
        lines.append("    row = columns if row is None else row")
    lines += _variables(tree, names, used)
    body = _mixture if tree.is_soft else _decisions
    return "\n".join([*lines, *body(tree, program, names)]) + "\n"


def python_sum(
    trees: Sequence[Tree], constant: float, function_name: str, precision: int | None
) -> str:
    """The source of a function that adds up what hard trees say.

    Each tree is a function of the columns that it reads.

    Parameters
    ----------
    trees : sequence of Tree
        Of one schema, but each with a scale of its target of its own.
    constant : float
        What is added to them.
    function_name : str
    precision : int or None
    """
    programs = [program_of(tree, precision) for tree in trees]
    every = [_columns_used(program) for program in programs]
    used = _Used({}, set(), set())
    for own in every:
        used.numbers.update(own.numbers)
        used.categories.update(own.categories)
        used.missing.update(own.missing)
    any_used = bool(used.numbers or used.categories or used.missing)
    schema = trees[0].schema
    names = _local_names(schema.names, function_name)
    clips = [model.low for program in programs for model in program.models.values()]
    lines = list(_helpers(trees[0], [min(clips)], used, any_used))
    calls = []
    for number, (tree, program, own) in enumerate(
        zip(trees, programs, every, strict=True)
    ):
        call = f"tree_{number}({', '.join(_arguments(schema, names, own))})"
        lines += [f"def {call}:", *_decisions(tree, program, names), "", ""]
        calls.append(f"    total += {call}")
    counted = f"{len(trees)} trees that add up"
    lines += [
        f"def {function_name}(row=None, /, **columns):",
        f"    # {' '.join(schema.target_name.split())}: {counted}.",
        "    # Columns come as keyword arguments or as one dict; others are ignored.",
    ]
    if any_used:
        lines.append("    row = columns if row is None else row")
    lines += [*_variables(trees[0], names, used), f"    total = {constant!r}"]
    return "\n".join([*lines, *calls, "    return total"]) + "\n"


def python_with_curves(tree: Tree, function_name: str, precision: int | None) -> str:
    """The source of a function that adds a tree to the curves in front of it."""
    start, curves = written_curves(tree, precision)
    rest = rest_of(tree)
    program = program_of(rest, precision)
    names, own = _local_names(tree.schema.names, function_name), _columns_used(program)
    used = _Used(dict(own.numbers), set(own.categories), set(own.missing))
    for curve in curves:
        if curve.points:
            used.numbers[curve.name] = curve.missing_as
            used.missing.update({curve.name} if curve.missing is not None else ())
        else:
            used.categories.add(curve.name)
    any_used = bool(used.numbers or used.categories or used.missing)
    clips = [program.low, *(model.low for model in program.models.values())]
    lines = list(_helpers(rest, clips, used, any_used))
    if any(curve.points for curve in curves):
        lines += _CURVE
    call = f"tree_0({', '.join(_arguments(tree.schema, names, own))})"
    body = _mixture if tree.is_soft else _decisions
    lines += [f"def {call}:", *body(rest, program, names), "", ""]
    summary = f"{tree.schema.target_name}: {counted(len(curves), 'curve', 'curves')}"
    summary += f" and a tree of {counted_leaves(tree.n_leaves)}."
    lines += [
        f"def {function_name}(row=None, /, **columns):",
        f"    # {' '.join(summary.split())}",
        "    # Columns come as keyword arguments or as one dict; others are ignored.",
    ]
    if any_used:
        lines.append("    row = columns if row is None else row")
    lines += [*_variables(tree, names, used), f"    total = {start!r}"]
    for curve in curves:
        column = names[curve.name]
        if curve.points:
            points = [f"({place!r}, {value!r})," for place, value in curve.points]
            parts = [f"curve({column},", *_enclosed("(", points, "))")]
            if curve.missing is not None:
                parts = [f"({curve.missing!r} if {column}_missing else", *parts]
                parts[-1] += ")"
        else:
            listed = [f"{each!r}: {value!r}," for each, value in curve.categories]
            parts = _enclosed("{", listed, f"}}.get({column}, 0.0)")
        lines += _wrapped(["total +=", *parts], "    ")
    return "\n".join([*lines, f"    return total + {call}"]) + "\n"


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


def _columns_used(program: Program) -> _Used:
    used = _Used({}, set(), set())
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


def _helpers(
    tree: Tree, lowest: Sequence[float], used: _Used, any_used: bool
) -> Iterator[str]:
    """The functions that the function calls."""
    parts = {
        part[len(name) + 2 : -1]
        for name, its in tree.schema.dates
        for part in its
        if part in used.numbers or part in used.missing
    }
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
    if tree.is_soft:
        limit = repr(HARD_LOGIT)
        share = f"1.0 / (1.0 + exp(-min(max(distance, -{limit}), {limit})))"
        yield from ("from math import exp", "", "")
        yield from ("def gate(distance):", f"    return {share}", "", "")
    if any(map(math.isfinite, lowest)):
        clipped = "min(max(value, low), high)"
        yield from ("def clip(value, low, high):", f"    return {clipped}", "", "")
    if tree.schema.allow_missing and any_used:
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
    name = schema.names[position]
    for column, parts in schema.dates:
        if name in parts:
            return f"calendar(row[{column!r}], {name[len(column) + 2 : -1]!r})"
    levels = dict(schema.levels).get(position)
    if levels is not None:
        places = {level: float(place) for place, level in enumerate(levels)}
        return f"{places!r}.get(row[{name!r}])"
    return f"row[{name!r}]"


def _decisions(tree: Tree, program: Program, names: dict[str, str]) -> Iterator[str]:
    """If, return, if, return ..."""
    for step in decisions(tree):
        indent = "    " * (step.depth + 1)
        if step.nested is None:
            value = _clipped(program.models[step.node], names)
            yield from _wrapped(["return", *value], indent)
        else:
            parts = _condition(program.splits[step.node], step.nested, names)
            yield from _wrapped(["if", *parts[:-1], parts[-1] + ":"], indent)


def _mixture(tree: Tree, program: Program, names: dict[str, str]) -> Iterator[str]:
    """Shares of the nodes, from the root down, then the sum over the leaves."""

    def share(node: int) -> str:
        parent = int(tree.parent[node])
        goes_left = tree.left[parent] == node
        way = f"left_{parent}" if goes_left else f"(1.0 - left_{parent})"
        return f"share_{parent} * {way}" if parent else way

    for node, split in program.splits.items():
        if node:
            yield f"    share_{node} = {share(node)}"
        yield from _wrapped([f"left_{node} =", *_share(split, names)], "    ")
    sign = "="
    for node, model in program.models.items():
        value = _clipped(model, names)
        if len(value) > 1 and not value[0].startswith("clip("):
            value = _enclosed("(", value, ")")
        yield from _wrapped([f"total {sign} {share(node)} *", *value], "    ")
        sign = "+="
    clipped = f"clip(total, {program.low!r}, {program.high!r})"
    yield f"    return {'total' if math.isinf(program.low) else clipped}"


def _condition(
    split: LinearSplit | CategorySplit, side: Side, names: dict[str, str]
) -> list[str]:
    """A condition under which a row goes to a side, in parts."""
    if isinstance(split, CategorySplit):
        listed = [f"{plain_category(c, split.name)!r}," for c in split.listed] or [""]
        word = "in" if side == split.listed_side else "not in"
        return [f"{names[split.name]} {word}", *_enclosed("(", listed, ")")]
    parts = [*_sum(None, split.terms, names), f"{split.sign(side)} {split.threshold!r}"]
    if split.missing_left is None:
        return parts
    missing = f"{names[split.terms[0].name]}_missing"
    taken = split.missing_left == (side == "left")
    return [f"{missing} or" if taken else f"not {missing} and", *parts]


def _share(split: LinearSplit | CategorySplit, names: dict[str, str]) -> list[str]:
    """The share of a row that goes left, in parts."""
    if isinstance(split, CategorySplit) or split.width == 0:
        return _enclosed("float(", _condition(split, "left", names), ")")
    total = _sum(None, split.terms, names)
    if split.missing_value is not None:
        missing = f"{names[split.terms[0].name]}_missing"
        total = [f"({split.missing_value!r} if {missing} else", f"{total[0]})"]
    threshold, width = repr(split.threshold), repr(split.width)
    if not split.at_most:
        return _enclosed("gate((", total, f" - {threshold}) / {width})")
    if len(total) > 1:
        total = _enclosed("(", total, ")")
    return [f"gate(({threshold} -", *_enclosed("", total, f") / {width})")]


def _clipped(model: LinearModel, names: dict[str, str]) -> list[str]:
    parts = _sum(model.intercept, model.terms, names)
    if math.isinf(model.low):
        return parts
    return [*_enclosed("clip(", parts, ","), f"{model.low!r},", f"{model.high!r})"]


def _enclosed(before: str, parts: Sequence[str], after: str) -> list[str]:
    """The parts with something put before the first and after the last of them."""
    first, *others = parts
    if not others:
        return [before + first + after]
    return [before + first, *others[:-1], others[-1] + after]


def _sum(
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


def _local_names(names: tuple[str, ...], function_name: str) -> dict[str, str]:
    """A variable for every column."""
    taken = TAKEN | {function_name}
    local = {}
    for name in names:
        # Python itself reads names in this form: others would become one variable.
        plain = unicodedata.normalize("NFKC", name)
        # A letter, digit or mark may follow a letter; what else \w takes may not.
        variable = "".join(c if f"x{c}".isidentifier() else "_" for c in plain)
        if not variable.isidentifier() or keyword.iskeyword(variable):
            variable = "x_" + variable
        while {variable, f"{variable}_missing"} & taken or re.fullmatch(
            r"(left|share|tree)_\d+", variable
        ):
            variable += "_"
        taken |= {variable, f"{variable}_missing"}
        local[name] = variable
    return local


def _wrapped(parts: list[str], indent: str) -> Iterator[str]:
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
