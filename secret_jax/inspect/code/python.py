"""Trees and their sums as Python functions that need nothing but Python."""

import keyword
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, get_args

from secret_jax.data.attributes import DAYS
from secret_jax.inspect.code.dialect import FIXED_SPACE
from secret_jax.inspect.code.procedural import Kind, Procedural, Result
from secret_jax.inspect.code.program import plain_category
from secret_jax.losses.interface import HIGHEST_LOG
from secret_jax.tree.soft import HARD_LOGIT

_USED = "columns min max float exp datetime dict zip sum isinstance getattr values"


class Python(Procedural):
    """Python with a variable for every column."""

    words: ClassVar[frozenset[str]] = frozenset(keyword.kwlist)
    used: ClassVar[frozenset[str]] = frozenset(_USED.split())
    function_head, branch, block_end = "def {}:", ("if ", ":"), ()
    comment, end = "# ", ""
    types: ClassVar[Mapping[str, str]] = dict.fromkeys(get_args(Kind), "")
    addition = "scores = ", "[a + b for a, b in zip(scores, {})]"
    chances_of = "chances = [*{0}_proba(row, **columns).values()]"
    as_number, as_category = "float({})", "None if missing({0}) else {0}"
    at_most, at_least = "min({}, {})", "max({}, {})"
    logical_or, logical_and, logical_not = "or", "and", "not"
    # The parts of a date are those that `secret_jax.data.attributes` makes.
    short_helper = "def {}({}):\n    return {}\n"
    helpers: ClassVar[Mapping[str, str | tuple[str, ...]]] = {
        "calendar": f"""\
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
""",
        "largest": ("values", "values.index(max(values))"),
        "expected": ("total", f"exp(min(total, {HIGHEST_LOG}))"),
        "softmax": """\
def softmax(scores):
    odds = [exp(score - max(scores)) for score in scores]
    return [each / sum(odds) for each in odds]
""",
        "shares": ("scores", "[clip(score, 0.0, 1.0) for score in scores]"),
        "gate": (
            "distance",
            f"1.0 / (1.0 + exp(-clip(distance, -{HARD_LOGIT!r}, {HARD_LOGIT!r})))",
        ),
        "clip": ("value, low, high", "min(max(value, low), high)"),
        "number": ("value, mean", "mean if missing(value) else float(value)"),
        "missing": ("value", "value is None or value != value"),
    }

    def literal(self, category: Any, name: str) -> str:
        return repr(plain_category(category, name)).replace(" ", FIXED_SPACE)

    def held(self, name: str) -> str:
        return f"row[{name!r}]".replace(" ", FIXED_SPACE)

    def attribute(self, position: int) -> str:
        column, part, _ = self.schema.origin(position)
        if part:
            return f"calendar({self.held(column)}, {part!r})"
        return super().attribute(position)

    def place(self, held: str, levels: Sequence[str]) -> str:
        places = {level: float(place) for place, level in enumerate(levels)}
        return f"{places!r}.get({held})"

    def member(
        self, name: str, categories: Sequence[Any], inside: bool, or_missing: bool
    ) -> str:
        del or_missing  # None is one of the categories
        listed = [self.literal(category, name) for category in categories]
        if len(listed) == 1:
            return f"{self.column(name)} {'==' if inside else '!='} {listed[0]}"
        word = "in" if inside else "not in"
        return f"{self.column(name)} {word} ({', '.join(listed)})"

    def head(self, name: str, result: Result) -> list[str]:
        lines = [self.function_head.format(f"{name}(row=None, /, **columns)")]
        if result != "label":
            lines.append("    # Columns come as keyword arguments or as one dict.")
            lines += ["    row = columns if row is None else row"] * bool(
                self.variables
            )
        return lines

    def give_chances(self) -> list[str]:
        return [*self.label_list(), "    return dict(zip(labels, chances))"]

    def written(self, code: str) -> str:
        code, imports = super().written(code), ""
        for name, module in (("exp(", "math"), ("datetime.", "datetime")):
            if name in code:
                imports += f"from {module} import {name[:-1]}\n"
        return imports + "\n\n" * bool(imports) + code
