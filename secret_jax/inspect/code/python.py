"""Trees and their sums as Python functions that need nothing but Python."""

from __future__ import annotations

import keyword
import math
import re
import textwrap
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Any

from secret_jax.data.schema import TableSchema
from secret_jax.inspect.code.dialect import FIXED_SPACE, Dialect, added
from secret_jax.inspect.code.helpers import with_helpers
from secret_jax.inspect.code.program import (
    ExportedModel,
    Program,
    decisions,
    plain_category,
)
from secret_jax.inspect.equations import CategorySplit, LinearSplit, conditions_of
from secret_jax.inspect.printing import counted_leaves

_WIDTH = 88  # characters in a line, as most formatters have it
# Names that the functions use: neither they nor a variable may have such a name.
TAKEN = {"row", "columns", "min", "max", "float", "exp", "gate", "clip", "total"}
TAKEN |= {"missing", "number", "calendar", "datetime", "dict", "zip", "sum", "score"}
TAKEN |= {"scores", "odds", "chance", "chances", "isinstance", "getattr"}
# Log-odds beyond are chances of 0 and 1; expected counts stay below e^30, as in
# `secret_jax.losses.numbers.Poisson`.
_MOST_LOG_ODDS, _MOST_LOG_COUNT = 700.0, 30.0


def python_code(model: ExportedModel, function_name: str) -> str:
    """Write the functions; see `secret_jax.inspect.code.export.export_code`."""
    functions = (function_name, function_name + "_proba")
    python = _Python(model.schema, functions)
    variables = _variables(python, model.programs)
    arguments = ", ".join(variable for variable, _ in variables)
    whole = len(model.trees) == 1 and model.link == "identity" and not model.classes
    lines: list[str] = []
    calls = [f"tree_{i}({arguments})" for i in range(0 if whole else len(model.trees))]
    for call, outputs in zip(calls, model.trees, strict=False):
        lines += [f"def {call}:", *_body(python, outputs), "", ""]
    by = f"{len(model.trees)} trees that add up"
    if len(model.trees) == 1:
        by = f"a tree of {counted_leaves(model.trees[0][0].tree.n_leaves)}"
    with_all = model.classes is not None and model.only is None
    lines += [
        f"def {functions[with_all]}(row=None, /, **columns):",
        f"    # {' '.join(model.title.split())}: {by}.",
        "    # Columns come as keyword arguments or as one dict; others are ignored.",
    ]
    if variables:
        lines.append("    row = columns if row is None else row")
    lines += [f"    {variable} = {value}" for variable, value in variables]
    if whole:
        lines += _body(python, model.trees[0])
    else:
        lines += _answer(model, calls)
    if with_all:
        lines += ["", "", *_class_function(model, function_name)]
    code = "\n".join(lines) + "\n"
    return with_helpers(code).replace(FIXED_SPACE, " ")


class _Python(Dialect):
    """Python with a variable for every column."""

    logical_or, logical_and, logical_not = "or", "and", "not"
    indicator, sigmoid = "({})", "gate({})"

    def __init__(self, schema: TableSchema, functions: Sequence[str]):
        self.schema = schema
        self.names = _local_names(schema.names, functions)

    def number(self, value: float) -> str:
        return repr(value)

    def column(self, name: str, missing_as: float | None = None) -> str:
        del missing_as  # in the variable already
        return self.names[name]

    def missing(self, name: str) -> str:
        return f"{self.names[name]}_missing"

    def member(
        self, name: str, categories: Sequence[Any], inside: bool, or_missing: bool
    ) -> str:
        del or_missing  # None is one of the categories
        listed = [_literal(category, name) for category in categories]
        if len(listed) == 1:
            return f"{self.column(name)} {'==' if inside else '!='} {listed[0]}"
        word = "in" if inside else "not in"
        return f"{self.column(name)} {word} ({', '.join(listed)})"

    def clip(self, value: str, low: float, high: float) -> str:
        if math.isinf(low):
            return f"min({value}, {high!r})"
        if math.isinf(high):
            return f"max({value}, {low!r})"
        return f"clip({value}, {low!r}, {high!r})"


def _literal(category: Any, name: str) -> str:
    return repr(plain_category(category, name)).replace(" ", FIXED_SPACE)


def _variables(python: _Python, programs: Sequence[Program]) -> list[tuple[str, str]]:
    """Variables of the columns that are used, with their values."""
    schema = python.schema
    splits = [
        one
        for program in programs
        for split in program.splits.values()
        for one in conditions_of(split)
    ]
    models = [model for program in programs for model in program.models.values()]
    sums = [split for split in splits if isinstance(split, LinearSplit)]
    terms = [term for part in (*sums, *models) for term in part.terms]
    numbers = {term.name: term.missing_as for term in terms if term.asks == "number"}
    categories = {split.name for split in splits if isinstance(split, CategorySplit)}
    categories |= {term.name for term in terms if term.asks == "category"}
    missing = {term.name for term in terms if term.asks == "missing"}
    missing |= {one.terms[0].name for one in sums if one.missing_left is not None}
    variables = []
    for position, name in enumerate(schema.names):
        held, value = _held(schema, position), None
        if name in numbers:
            mean = numbers[name]
            value = f"float({held})" if mean is None else f"number({held}, {mean!r})"
        elif name in categories:
            value = f"None if missing({held}) else {held}"
            value = value if schema.allow_missing else held
        if value is not None:
            variables.append((python.column(name), value))
        if name in missing:
            variables.append((python.missing(name), f"missing({held})"))
    return variables


def _held(schema: TableSchema, position: int) -> str:
    """Write what a row holds: a part of a date, the place of a category, or a value."""
    column, part, levels = schema.origin(position)
    if part:
        return f"calendar(row[{column!r}], {part!r})"
    if levels:
        places = {level: float(place) for place, level in enumerate(levels)}
        return f"{places!r}.get(row[{column!r}])"
    return f"row[{column!r}]"


def _body(python: _Python, outputs: Sequence[Program]) -> Iterator[str]:
    """Write the lines that return the value of a tree, or one for each output."""
    tree = outputs[0].tree
    if tree.is_soft:
        yield from _mixture(python, outputs)
        return
    for node, depth, nested, _ in decisions(tree):
        indent = "    " * (depth + 1)
        if nested is not None:
            asked = python.condition(outputs[0].splits[node], nested)
            yield from _wrapped(indent, "if ", asked, ":")
            continue
        models = [program.models[node] for program in outputs]
        values = [
            python.clipped(python.equation(program, node), model.low, model.high)
            for program, model in zip(outputs, models, strict=True)
        ]
        yield from _wrapped(indent, "return ", ", ".join(values))


def _mixture(python: _Python, outputs: Sequence[Program]) -> Iterator[str]:
    """Write the gates, then the sums over the leaves."""
    for node, split in outputs[0].splits.items():
        yield from _wrapped("    ", f"left_{node} = ", python.share_left(split))
    totals = []
    for output, program in enumerate(outputs):
        values = []
        for leaf, model in program.models.items():
            value = python.equation(program, leaf)
            value = f"({value})" if math.isinf(model.low) and model.terms else value
            values.append((leaf, python.clipped(value, model.low, model.high)))
        total, sign = f"total_{output}", "="
        for product in python.mixture_terms(program, "left_", values):
            yield from _wrapped("    ", f"{total} {sign} ", product)
            sign = "+="
        totals.append(python.clipped(total, program.low, program.high))
    yield f"    return {', '.join(totals)}"


def _answer(model: ExportedModel, calls: Sequence[str]) -> Iterator[str]:
    """Write the sum, or the list of several, and what follows from it."""
    several = len(model.constants) > 1
    if several:
        yield f"    scores = {[*model.constants]!r}"
        yield from (
            f"    scores = [a + b for a, b in zip(scores, {call})]" for call in calls
        )
    else:
        yield f"    total = {model.constants[0]!r}"
        yield from (f"    total += {call}" for call in calls)
    if model.classes is None:
        limited = f"exp(min(total, {_MOST_LOG_COUNT}))"
        yield f"    return {limited if model.link == 'exponential' else 'total'}"
        return
    if not several:
        most = _MOST_LOG_ODDS
        chance = "clip(total, 0.0, 1.0)"
        if model.link == "softmax":
            chance = f"1.0 / (1.0 + exp(-clip(total, -{most}, {most})))"
        yield f"    chance = {chance}"
        yield "    chances = [1.0 - chance, chance]"
    elif model.link == "softmax":
        yield "    odds = [exp(score - max(scores)) for score in scores]"
        yield "    chances = [each / sum(odds) for each in odds]"
    else:
        yield "    chances = [clip(score, 0.0, 1.0) for score in scores]"
    if model.only is not None:
        yield f"    return chances[{model.only}]"
        return
    labels = ", ".join(_literal(label, "y") for label in model.labels)
    yield from _wrapped("    ", "return ", f"dict(zip(({labels}), chances))")


def _class_function(model: ExportedModel, function_name: str) -> Iterator[str]:
    """Write the function that predicts a class."""
    assert model.classes is not None
    yield f"def {function_name}(row=None, /, **columns):"
    yield f"    chances = {function_name}_proba(row, **columns)"
    if model.classes.costs is None:
        yield "    return max(chances, key=chances.get)"
        return
    yield "    # What each class costs on average if it is named."
    yield "    costs = {"
    labels = [_literal(label, "y") for label in model.labels]
    for label, costs in zip(labels, model.classes.costs.T.tolist(), strict=True):
        pairs = [(cost, one) for cost, one in zip(costs, labels, strict=True) if cost]
        terms = [f"{cost!r} * chances[{one}]" for cost, one in pairs]
        yield f"        {label}: {added(terms or ['0.0'])},"
    yield from ("    }", "    return min(costs, key=costs.get)")


def _local_names(names: Sequence[str], functions: Sequence[str]) -> dict[str, str]:
    """Choose a variable for every column."""
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
            r"(left|tree|total)_\d+", variable
        ):
            variable += "_"
        taken |= {variable, f"{variable}_missing"}
        local[name] = variable
    return local


def _wrapped(indent: str, before: str, text: str, after: str = "") -> list[str]:
    """Write a statement in lines; brackets let a long one end within it."""
    line = f"{indent}{before}{text}{after}"
    if len(line) <= _WIDTH:
        return [line]
    return textwrap.wrap(
        f"{before}({text}){after}",
        max(_WIDTH, len(indent) + _WIDTH // 2),
        initial_indent=indent,
        subsequent_indent=indent + "    ",
        break_long_words=False,
        break_on_hyphens=False,
    )
