"""Trees and their sums as Python functions that need nothing but Python."""

import keyword
import math
import re
import unicodedata
from collections.abc import Iterator, Sequence

from secret_jax.data.attributes import DAYS
from secret_jax.inspect.code.phrases import Phrases, added
from secret_jax.inspect.code.program import (
    ExportedModel,
    Levels,
    Program,
    decisions,
    plain_category,
)
from secret_jax.inspect.equations import (
    AnySplit,
    CategorySplit,
    LinearModel,
    LinearSplit,
)
from secret_jax.inspect.printing import counted_leaves, in_lines
from secret_jax.losses.interface import HIGHEST_LOG
from secret_jax.tree.soft import HARD_LOGIT
from secret_jax.tree.totals import Side, way_to

_WIDTH = 88  # characters in a line, as formatters have it
_WORDS = frozenset(keyword.kwlist)
# Names that the functions use, beside those of the helpers.
_USED = """
row columns total scores chances chance labels gains
min max float exp datetime dict zip sum isinstance getattr values
"""
_NUMBERED = re.compile(r"(left|tree|total)_\d+")
# What follows from a sum by the inverse link, and from several.
_BY_LINK: dict[str, tuple[str, str]] = {
    "identity": ("total", ""),
    "exponential": (f"exp(min(total, {HIGHEST_LOG}))", ""),
    "softmax": ("gate(total)", "softmax(scores)"),
    "clip": ("clip(total, 0.0, 1.0)", "[clip(score, 0.0, 1.0) for score in scores]"),
}
# Functions, each before those that it calls. The parts of a date are those that
# `secret_jax.data.attributes` makes.
_HELPERS = f"""
def calendar(value, part):
    if value is None or value != value:
        return None
    if isinstance(value, str):
        value = datetime.fromisoformat(value)
    if part == "hour":
        if not isinstance(value, datetime):
            return 0.0
        return value.hour + value.minute / 60 + value.second / 3600
    if part == "weekday":
        return value.isoweekday()
    if part == {DAYS!r}:
        return value.toordinal() - 719163
    return getattr(value, part)  # year, month


def softmax(scores):
    odds = [exp(score - max(scores)) for score in scores]
    return [each / sum(odds) for each in odds]


def gate(distance):
    return 1.0 / (1.0 + exp(-clip(distance, -{HARD_LOGIT!r}, {HARD_LOGIT!r})))


def clip(value, low, high):
    return min(max(value, low), high)


def number(value, mean):
    return mean if missing(value) else float(value)


def missing(value):
    return value is None or value != value
"""
_TAKEN = {*_USED.split(), *re.findall(r"def (\w+)", _HELPERS)}


def python_code(model: ExportedModel, function: str) -> str:
    """Write the functions of a model; see `secret_jax.inspect.code.export`."""
    function = unicodedata.normalize("NFKC", function)  # as Python reads it
    if not function.isidentifier() or function in _WORDS:
        raise ValueError(
            f"function_name is {function!r}, which is no name of a function in Python."
        )
    if function in _TAKEN or _NUMBERED.fullmatch(function):
        raise ValueError(
            f"function_name is {function!r}, which the function itself uses. Choose a "
            f"name other than {', '.join(sorted(_TAKEN))}."
        )
    code = _Functions(model, function).code()
    helpers = ""
    for text in _HELPERS.strip().split("\n\n\n"):
        if text[4 : text.index("(") + 1] in code + helpers:
            helpers = f"{text}\n\n\n{helpers}"
    code, imports = helpers + code, ""
    for name, module in (("exp(", "math"), ("datetime.", "datetime")):
        if name in code:
            imports += f"from {module} import {name[:-1]}\n"
    return imports + "\n\n" * bool(imports) + code


class _Functions(Phrases):
    """Functions of a model, with a variable for every column."""

    logical, indicator = ("or", "and", "not"), "{}"

    def __init__(self, model: ExportedModel, function: str):
        super().__init__(model.schema)
        self.model, self.function = model, function
        self.names = self._local_names()
        self.variables = list(self._variables())

    def code(self) -> str:
        """Write a function of each tree, of a row, and of its class."""
        model = self.model
        with_class = model.classes is not None and model.only is None
        follows, _ = _BY_LINK[model.link]
        alone = (
            len(model.trees) == 1 and follows == "total" and not any(model.constants)
        )
        lines: list[str] = []
        by = f"{len(model.trees)} trees that add up"
        if len(model.trees) == 1:
            by = f"a tree of {counted_leaves(model.trees[0][0].tree.n_leaves)}"
        if not alone:
            for i, outputs in enumerate(model.trees):
                head = f"def tree_{i}({', '.join(name for name, _ in self.variables)}):"
                lines += [head, *self._body(outputs), "", ""]
        lines += [
            f"def {self.function}{'_proba' * with_class}(row=None, /, **columns):",
            f"    # {' '.join(model.title.split())}: {by}.",
            "    # Columns come as keyword arguments or as one dict.",
        ]
        if self.variables:
            lines.append("    row = columns if row is None else row")
        lines += [f"    {name} = {value}" for name, value in self.variables]
        lines += self._body(model.trees[0]) if alone else self._answer()
        if with_class:
            lines += ["", "", *self._class_function()]
        return "\n".join(lines) + "\n"

    def number(self, value: float) -> str:
        return repr(float(value))

    def column(self, name: str, missing_as: float | None = None) -> str:
        del missing_as  # in the variable already
        return self.names[name]

    def missing(self, name: str) -> str:
        return f"{self.names[name]}_missing"

    def member(self, split: CategorySplit, side: Side) -> list[str]:
        inside, name = side == split.listed_side, self.names[split.name]
        listed = [repr(plain_category(one, split.name)) for one in split.listed]
        if len(listed) == 1:
            return [f"{name} {'==' if inside else '!='} {listed[0]}"]
        first = f"{name} {'in' if inside else 'not in'} ("
        return _enclosed(first, [[one] for one in listed], ")")

    def effect(self, levels: Levels) -> list[str]:
        pairs = [[f"{key!r}: {value!r}"] for key, value in levels.effects.items()]
        variable = self.names[levels.name]
        return _enclosed("{", pairs, f"}}.get({variable}, {levels.otherwise!r})")

    def clip(self, parts: list[str], low: float, high: float) -> list[str]:
        ends = [[self.number(end)] for end in (low, high) if math.isfinite(end)]
        if not ends:
            return parts
        name = "min" if math.isinf(low) else "max" if math.isinf(high) else "clip"
        return _enclosed(f"{name}(", [parts, *ends], ")")

    def _equation(self, model: LinearModel) -> list[str]:
        total = self.sum_of(model.terms, model.intercept)
        return self.clip(total, model.low, model.high)

    def _body(self, outputs: Sequence[Program]) -> Iterator[str]:
        """Write the lines that return the value of a tree, or one for each output."""
        if outputs[0].tree.is_soft:
            yield from self._mixture(outputs)
            return
        for node, depth, nested, _ in decisions(outputs[0].tree):
            indent = "    " * (depth + 1)
            if nested is None:
                values = [self._equation(program.models[node]) for program in outputs]
                yield from _returned(values, indent)
            else:
                asked = self.condition(outputs[0].splits[node], nested)
                yield from _statement("if ", asked, ":", indent=indent)

    def _mixture(self, outputs: Sequence[Program]) -> Iterator[str]:
        """Write the gates, then the sums over the leaves."""
        for node, split in outputs[0].splits.items():
            yield from _statement(f"left_{node} = ", self._share_left(split))
        totals = []
        for i, program in enumerate(outputs):
            sign = "="
            for leaf, model in program.models.items():
                factors = [
                    f"left_{node} *" if side == "left" else f"(1.0 - left_{node}) *"
                    for node, side in way_to(program.tree, leaf)
                ]
                value = _enclosed("(", [self._equation(model)], ")")
                yield from _statement(f"total_{i} {sign} ", [*factors, *value])
                sign = "+="
            totals.append(self.clip([f"total_{i}"], program.low, program.high))
        yield from _returned(totals)

    def _share_left(self, split: AnySplit) -> list[str]:
        """Write the share of a row that goes left."""
        if not isinstance(split, LinearSplit) or split.width == 0:
            return self.condition(split, "left")
        sign = -1.0 if split.at_most else 1.0
        terms = [term._replace(factor=sign * term.factor) for term in split.gate_terms]
        distance = self.sum_of(terms, -sign * split.threshold)
        return _enclosed("gate((", [distance], f") / {self.number(split.width)})")

    def _answer(self) -> Iterator[str]:
        """Write the sum, or the list of several, and what follows from it."""
        model = self.model
        of_total, of_scores = _BY_LINK[model.link]
        constants = [[self.number(one)] for one in model.constants]
        given, several = [[name] for name, _ in self.variables], len(constants) > 1
        if several:
            yield from _statement("scores = ", _enclosed("[", constants, "]"))
        else:
            yield f"    total = {constants[0][0]}"
        for i in range(len(model.trees)):
            if several:
                first, last = f"[a + b for a, b in zip(scores, tree_{i}(", "))]"
                yield from _statement("scores = ", _enclosed(first, given, last))
            else:
                call = _enclosed(f"tree_{i}(", given, ")")
                yield from _statement("total += ", call)
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
            return
        yield from self._labels()
        yield "    return dict(zip(labels, chances))"

    def _class_function(self) -> Iterator[str]:
        """Write the function that predicts a class."""
        assert self.model.classes is not None
        costs, name = self.model.classes.costs, self.function
        yield f"def {name}(row=None, /, **columns):"
        yield from self._labels()
        yield f"    chances = [*{name}_proba(row, **columns).values()]"
        if costs is None:
            yield "    return labels[chances.index(max(chances))]"
            return
        yield "    # Minus the average cost of naming each class."
        gains = []
        for column in costs.T.tolist():
            pairs = [(cost, i) for i, cost in enumerate(column) if cost]
            terms = [[f"- {self.number(cost)} * chances[{i}]"] for cost, i in pairs]
            gains.append(added(terms or [["0.0"]]))
        yield from _statement("gains = ", _enclosed("[", gains, "]"))
        yield "    return labels[gains.index(max(gains))]"

    def _labels(self) -> list[str]:
        labels = [[repr(label)] for label in self.model.labels]
        return _statement("labels = ", _enclosed("[", labels, "]"))

    def _variables(self) -> Iterator[tuple[str, str]]:
        """Choose the variables: what is asked of columns, in the order of these."""
        programs, schema = self.model.programs, self.schema
        terms = [term for program in programs for term in program.terms]
        sums = [split for program in programs for split in program.sums]
        means = {one.name: one.missing_as for one in terms if one.asks == "number"}
        categories = {split.name for program in programs for split in program.lists}
        categories |= {term.name for term in terms if term.asks == "category"}
        missing = {term.name for term in terms if term.asks == "missing"}
        missing |= {one.terms[0].name for one in sums if one.missing_left is not None}
        for position, name in enumerate(schema.names):
            held, variable = self._held(position), self.names[name]
            if name in means:
                mean = means[name]
                number = f"float({held})" if mean is None else f"number({held}, {mean})"
                yield variable, number
            elif name in categories:
                gap = f"None if missing({held}) else " if schema.allow_missing else ""
                yield variable, gap + held
            if name in missing:
                yield f"{variable}_missing", f"missing({held})"

    def _held(self, position: int) -> str:
        """Write what a row holds of an attribute."""
        column, part, levels = self.schema.origin(position)
        if part:
            return f"calendar(row[{column!r}], {part!r})"
        held = f"row[{self.schema.names[position]!r}]"
        if not levels:
            return held
        places = {level: float(place) for place, level in enumerate(levels)}
        return f"{places!r}.get({held})"

    def _local_names(self) -> dict[str, str]:
        """Choose a variable for every column."""
        taken = _TAKEN | {self.function, f"{self.function}_proba"}
        local = {}
        for name in self.schema.names:
            # Python reads names in this form: others would become one variable.
            plain = unicodedata.normalize("NFKC", name)
            # A letter, digit or mark may follow a letter; what else \w takes may not.
            made = "".join(c if f"x{c}".isidentifier() else "_" for c in plain)
            if not made.isidentifier() or made in _WORDS:
                made = f"x_{made}"
            while {made, f"{made}_missing"} & taken or _NUMBERED.fullmatch(made):
                made += "_"
            taken |= {made, f"{made}_missing"}
            local[name] = made
        return local


def _enclosed(first: str, arguments: Sequence[list[str]], last: str) -> list[str]:
    """Put arguments, each in parts, between brackets."""
    parts = [part for one in arguments for part in (*one[:-1], f"{one[-1]},")]
    parts = parts or [","]
    parts[0] = first + parts[0]
    parts[-1] = parts[-1].removesuffix(",") + last
    return parts


def _statement(
    before: str, parts: list[str], after: str = "", indent: str = "    "
) -> list[str]:
    """Write a statement in lines, which brackets hold together."""
    line = f"{indent}{before}{' '.join(parts)}{after}"
    if len(line) <= _WIDTH:
        return [line]
    first, *more = parts
    pieces = [f"{indent}{before}({first}", *more]
    pieces[-1] += f"){after}"
    return in_lines(pieces, max(_WIDTH, len(indent) + _WIDTH // 2), indent + "    ")


def _returned(values: Sequence[list[str]], indent: str = "    ") -> list[str]:
    """Return a value, or a list of several."""
    parts = values[0] if len(values) == 1 else _enclosed("[", values, "]")
    return _statement("return ", parts, indent=indent)
