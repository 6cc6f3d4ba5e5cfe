"""Trees and their sums as functions of JavaScript, for browsers and Node."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, get_args

from secret_jax.inspect.code.dialect import FIXED_SPACE
from secret_jax.inspect.code.procedural import Kind, Procedural
from secret_jax.inspect.code.program import plain_category
from secret_jax.losses.interface import HIGHEST_LOG
from secret_jax.tree.soft import HARD_LOGIT

_WORDS = """
abstract arguments await boolean break byte case catch char class const continue
debugger default delete do double else enum eval export extends false final finally
float for function goto if implements import in instanceof int interface let long native
new null package private protected public return short static super switch synchronized
this throw throws transient true try typeof undefined var void volatile while with yield
"""


class JavaScript(Procedural):
    """JavaScript with a variable for every column."""

    words: ClassVar[frozenset[str]] = frozenset(_WORDS.split())
    used: ClassVar[frozenset[str]] = frozenset({"Math", "Map", "Number", "NaN"})
    types: ClassVar[Mapping[str, str]] = dict.fromkeys(get_args(Kind), "let ")
    chances_of = "let chances = [...{0}_proba(row).values()]"
    as_number, as_category = "number({}, NaN)", "known({0})"
    at_most, at_least = "Math.min({}, {})", "Math.max({}, {})"
    short_helper = "function {}({}) {{\n    return {};\n}}\n"
    helpers: ClassVar[Mapping[str, str | tuple[str, ...]]] = {
        "place": """\
function place(value, levels) {
    const found = levels.indexOf(value);
    return found < 0 ? null : found;
}
""",
        "added": ("scores, values", "scores.map((score, i) => score + values[i])"),
        "largest": ("values", "values.indexOf(Math.max(...values))"),
        "expected": ("total", f"Math.exp(Math.min(total, {HIGHEST_LOG}))"),
        "softmax": """\
function softmax(scores) {
    const odds = scores.map((score) => Math.exp(score - Math.max(...scores)));
    const total = odds.reduce((a, b) => a + b);
    return odds.map((each) => each / total);
}
""",
        "shares": ("scores", "scores.map((score) => clip(score, 0.0, 1.0))"),
        "gate": (
            "distance",
            f"1.0 / (1.0 + Math.exp(-clip(distance, -{HARD_LOGIT!r}, {HARD_LOGIT!r})))",
        ),
        "clip": ("value, low, high", "Math.min(Math.max(value, low), high)"),
        "number": """\
function number(value, mean) {
    const found = missing(value) ? mean : Number(value);
    if (found !== found && !missing(value)) throw new TypeError(value + ": no number");
    return found;
}
""",
        "missing": """\
function missing(value) {
    return value === null || value === undefined || value !== value
        || typeof value === "string" && value.trim() === "";
}
""",
        "known": (
            "category",
            "category === undefined || category !== category ? null : category",
        ),
    }

    def literal(self, category: Any, name: str) -> str:
        # Within a page "</script>" would end the program.
        text = json.dumps(plain_category(category, name)).replace("<", "\\u003c")
        return text.replace(" ", FIXED_SPACE)

    def held(self, name: str) -> str:
        return f"row[{self.literal(name, name)}]"

    def place(self, held: str, levels: Sequence[str]) -> str:
        return f"place({held}, [{', '.join(self.literal(x, held) for x in levels)}])"

    def member(
        self, name: str, categories: Sequence[Any], inside: bool, or_missing: bool
    ) -> str:
        del or_missing  # null is one of the categories
        # To a tree 0 and 1 are truth values, and the other way round.
        truths = [c for c in categories if c in (0, 1)]
        alike = [int(c) if isinstance(c, bool) else bool(c) for c in truths]
        listed = [self.literal(category, name) for category in (*categories, *alike)]
        if len(listed) == 1:
            return f"{self.column(name)} {'===' if inside else '!=='} {listed[0]}"
        found = f"[{', '.join(listed)}].includes({self.column(name)})"
        return found if inside else f"!{found}"

    def give_chances(self) -> list[str]:
        pairs = "labels.map((label, i) => [label, chances[i]])"
        return [*self.label_list(), f"    return new Map({pairs});"]
