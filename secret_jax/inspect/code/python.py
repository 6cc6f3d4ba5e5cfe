"""Trees and their sums as Python functions that need nothing but Python."""

import keyword
import math
import re
import unicodedata
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

from secret_jax.data.dates import MINUTES, clock_of
from secret_jax.inspect.code.program import (
    ExportedModel,
    Writer,
    decisions,
    exact_conditions,
    exact_equation,
    plain_category,
)
from secret_jax.inspect.equations import (
    CategorySplit,
    LinearSplit,
    clip_range_of,
)
from secret_jax.inspect.printing import counted_leaves
from secret_jax.tree.soft import HARD_LOGIT
from secret_jax.tree.structure import Tree
from secret_jax.tree.totals import Side, way_to

_IMPORTS = {"datetime": "datetime", "timedelta": "datetime", "timezone": "datetime"}
_IMPORTS |= {"exp": "math", "ZoneInfo": "zoneinfo"}
_WIDTH = 88  # characters in a line, as formatters have it
# Functions, each before those that it calls.
_HELPERS = f"""
def softmax(scores):
    odds = [exp(score - max(scores)) for score in scores]
    return [each / sum(odds) for each in odds]


def gate(distance):
    return 1.0 / (1.0 + exp(-clip(distance, -{HARD_LOGIT!r}, {HARD_LOGIT!r})))


def clip(value, low, high):
    return min(max(value, low), high)


def date_part(value, part, zone=None):
    if missing(value):
        return None
    date = datetime.fromisoformat(str(value))
    date = date.astimezone(zone) if zone and date.tzinfo else date
    return {{
        "year": date.year,
        "month": date.month,
        "weekday": date.isoweekday(),
        "hour": date.hour + date.minute / 60 + date.second / 3600,
        "days since 1970": date.toordinal() - 719163,
    }}[part]


def minutes_of(value):
    if missing(value):
        return None
    hours, minutes, seconds = f"{{value}}:0:0".split(":")[:3]
    return 60 * int(hours) + int(minutes) + int(float(seconds)) / 60


def number(value, mean):
    return mean if missing(value) else float(value)


def missing(value):
    return value is None or value != value
"""
# Names that the functions call.
_TAKEN = {
    *("min", "max", "float", "exp", "dict", "zip", "sum", "int", "str"),
    *("datetime", "timedelta", "timezone", "ZoneInfo"),
    *re.findall(r"def (\w+)", _HELPERS),
}


def python_code(model: ExportedModel, function: str) -> str:
    """Write the functions of a model; see `secret_jax.inspect.code.export`."""
    function = unicodedata.normalize("NFKC", function)  # as Python reads it
    if not function.isidentifier() or keyword.iskeyword(function):
        raise ValueError(
            f"function_name is {function!r}, which is no name of a function in Python."
        )
    if function in _TAKEN or re.fullmatch(r"tree_\d+", function):
        raise ValueError(
            f"function_name is {function!r}, which the function itself uses. Choose a "
            f"name other than {', '.join(sorted(_TAKEN))}."
        )
    code = "\n\n\n".join(_PythonWriter(model).functions(function)) + "\n"
    helpers = ""
    for text in _HELPERS.strip().split("\n\n\n"):
        if text[4 : text.index("(") + 1] in code + helpers:
            helpers = f"{text}\n\n\n{helpers}"
    code = helpers + code
    imports = [
        f"from {module} import {name}\n"
        for name, module in _IMPORTS.items()
        if re.search(rf"\b{name}[(.]", code)
    ]
    return "".join(imports) + "\n\n" * bool(imports) + code


class _PythonWriter(Writer):
    """Functions of a model, and the ``cells`` of a row that these ask for."""

    logical, indicator = ("or", "and", "not"), "{}"
    exponential = "exp"
    blank = "\n"  # where a line may break; names are written without

    def __init__(self, model: ExportedModel):
        super().__init__(model)
        self.cells: dict[str, str] = {}

    def functions(self, name: str) -> Iterator[str]:
        """Write the functions of the trees, unless one is all there is, and of rows."""
        model = self.model
        classes = model.classes if model.only is None else None
        by, alone = f"{len(model.trees)} trees that add up", False
        if len(model.trees) == 1:
            by = f"a tree of {counted_leaves(model.trees[0][0].n_leaves)}"
            alone = model.link == "identity" and not any(model.constants)
        bodies = [
            "\n".join(self._mixture(one) if one[0].is_soft else self._body(one))
            for one in model.trees
        ]
        if not alone:
            yield from (f"def tree_{i}(row):\n{one}" for i, one in enumerate(bodies))
        cells = [f"        {name}: {cell}," for name, cell in self.cells.items()]
        lines = [
            f"def {name}{'_proba' * bool(classes)}(row=None, /, **columns):",
            f"    # {' '.join(model.title.split())}: {by}.",
            "    # Columns come as keyword arguments or as one dict"
            + f"{', dates as such or in ISO 8601' * bool(self.schema.dates)}.",
            "    row = columns if row is None else row",
            *(["    row = {", *cells, "    }"] if cells else []),
            *(bodies if alone else self._answer()),
        ]
        yield "\n".join(lines)
        if classes is not None:
            yield "\n".join(self._class_function(name))

    def number(self, value: float) -> str:
        return repr(float(value))

    def column(self, name: str, missing_as: float | None = None) -> str:
        cell = self._held(name)
        if missing_as is not None:
            cell = f"number({cell}, {missing_as})"
        elif self.schema.names.index(name) not in self.schema.discrete:
            cell = f"float({cell})"
        elif self.schema.allow_missing:
            cell = f"None if missing({cell}) else {cell}"
        self.cells[repr(name)] = cell
        return f"row[{name!r}]"

    def missing(self, name: str) -> str:
        self.cells[f"({name!r}, 'missing')"] = f"missing({self._held(name)})"
        return f"row[{name!r}, 'missing']"

    def _held(self, name: str) -> str:
        """Write what is given: of a date its part, of levels in an order the place."""
        column, part, levels = self.schema.origin(self.schema.names.index(name))
        if part == MINUTES:
            return f"minutes_of(row[{column!r}])"
        if part:
            zone = dict(self.schema.zones).get(column)
            clock = f", {_clock(zone)}" if zone else ""
            return f"date_part(row[{column!r}], {part!r}{clock})"
        codes = {level: float(code) for code, level in enumerate(levels or ())}
        return f"{codes!r}.get(row[{name!r}])" if levels else f"row[{name!r}]"

    def member(self, split: CategorySplit, side: Side) -> str:
        inside, name = side == split.listed_side, self.column(split.name)
        listed = [repr(plain_category(one, split.name)) for one in split.listed]
        if len(listed) == 1:
            return f"{name} {'==' if inside else '!='} {listed[0]}"
        return f"{name} {'in' if inside else 'not in'} ({', '.join(listed)})"

    def effect(self, name: str, effects: dict[Any, float], otherwise: float) -> str:
        return f"{effects!r}.get({self.column(name)}, {otherwise!r})"

    def clip(self, value: str, low: float, high: float) -> str:
        ends = [self.number(end) for end in (low, high) if math.isfinite(end)]
        name = "min" if math.isinf(low) else "max" if math.isinf(high) else "clip"
        return f"{name}({', '.join([value, *ends])})" if ends else value

    def _equation(self, tree: Tree, leaf: int) -> str:
        model = exact_equation(tree, leaf)
        total = self.sum_of(model.terms, model.intercept)
        return self.clip(total, model.low, model.high)

    def _body(self, trees: list[Tree]) -> Iterator[str]:
        """Write the lines that return the value of a tree, or one for each output."""
        for node, depth, nested, _ in decisions(trees[0]):
            indent = "    " * (depth + 1)
            if nested is None:
                yield _returned([self._equation(one, node) for one in trees], indent)
            else:
                asked = self.condition(exact_conditions(trees[0], node), nested)
                yield _statement("if ", asked, ":", indent=indent)

    def _mixture(self, trees: list[Tree]) -> Iterator[str]:
        """Write the gates, then the sums over the leaves."""
        tree, totals = trees[0], []
        for node in np.flatnonzero(~tree.is_leaf).tolist():
            conditions = exact_conditions(tree, node)
            split = conditions[0]
            if isinstance(split, LinearSplit) and split.width > 0:
                sign, terms = -1.0 if split.at_most else 1.0, split.terms
                if split.missing_value is not None:  # beside the mean
                    (term,) = terms
                    more = split.missing_value - (term.missing_as or 0.0)
                    terms = term, term._replace(asks="missing", factor=more)
                terms = [t._replace(factor=sign * t.factor) for t in terms]
                distance = self.sum_of(terms, -sign * split.threshold)
                share = f"gate(({distance}) / {self.number(split.width)})"
            else:
                share = self.condition(conditions, "left")
            yield _statement(f"left_{node} = ", share)
        for i, one in enumerate(trees):
            sign = "="
            for leaf in np.flatnonzero(tree.is_leaf).tolist():
                factors = [
                    f"left_{node}" if side == "left" else f"(1.0 - left_{node})"
                    for node, side in way_to(tree, leaf)
                ]
                value = " * ".join([*factors, f"({self._equation(one, leaf)})"])
                yield _statement(f"total_{i} {sign} ", value)
                sign = "+="
            totals.append(self.clip(f"total_{i}", *clip_range_of(one)))
        yield _returned(totals)

    def _answer(self) -> Iterator[str]:
        """Write the sum, or the list of several, and what follows."""
        model = self.model
        constants = [self.number(one) for one in model.constants]
        calls = [f"tree_{i}(row)" for i in range(len(model.trees))]
        several = len(constants) > 1
        if several:
            lists = ",\n".join([f"[{', '.join(constants)}]", *calls])
            yield _statement("scores = ", f"[sum(each) for each in zip({lists})]")
            of_scores = f"[{self.undone('score')} for score in scores]"
            of_scores = "softmax(scores)" if model.link == "softmax" else of_scores
        else:
            yield _statement("total = ", "\n+ ".join([*constants, *calls]))
            of_total = (
                "gate(total)" if model.link == "softmax" else self.undone("total")
            )
        if model.classes is None:
            yield f"    return {of_total}"
            return
        if several:
            yield f"    chances = {of_scores}"
        else:
            yield f"    chance = {of_total}"
            yield "    chances = [1.0 - chance, chance]"
        if model.only is not None:
            yield f"    return chances[{model.only}]"
        else:
            yield f"    labels = {list(model.labels)!r}"
            yield "    return dict(zip(labels, chances))"

    def _class_function(self, name: str) -> Iterator[str]:
        labels, best = list(self.model.labels), "chances"
        yield f"def {name}(row=None, /, **columns):"
        yield f"    labels = {labels!r}"
        yield f"    chances = [*{name}_proba(row, **columns).values()]"
        if gains := self.costs([f"chances[{i}]" for i in range(len(labels))], "-"):
            best = "gains"
            yield "    # Minus the average cost of naming each class."
            yield _statement("gains = ", f"[{', '.join(gains)}]")
        yield f"    return labels[{best}.index(max({best}))]"


def _clock(zone: str) -> str:
    """Write a time zone."""
    clock = clock_of(zone)
    if isinstance(clock, ZoneInfo):
        return f"ZoneInfo({zone!r})"
    seconds = (clock.utcoffset(None) or timedelta()).total_seconds()
    return f"timezone(timedelta(seconds={seconds:.0f}))"


def _statement(before: str, value: str, after: str = "", indent: str = "    ") -> str:
    """Write a statement in a line, or if that is long in a line for each addend."""
    line = f"{indent}{before}{value}{after}"
    if len(line) <= _WIDTH or "\n" not in value:
        return line.replace("\n", " ")
    lines = value.replace("\n", f"\n{indent}    ")
    return f"{indent}{before}({lines}){after}"


def _returned(values: Sequence[str], indent: str = "    ") -> str:
    value = values[0] if len(values) == 1 else f"[{', '.join(values)}]"
    return _statement("return ", value, indent=indent)
