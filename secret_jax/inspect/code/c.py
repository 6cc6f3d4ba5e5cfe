"""Trees and their sums as functions of C that need nothing but its standard library."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from secret_jax.inspect.code.dialect import FIXED_SPACE
from secret_jax.inspect.code.procedural import Kind, Procedural, Result
from secret_jax.inspect.code.program import (
    are_texts,
    plain_categories,
    plain_category,
)
from secret_jax.tree.soft import HARD_LOGIT

_WORDS = """
auto bool break case char const constexpr continue default do double else enum extern
false float for goto if inline int long nullptr register restrict return short signed
sizeof static struct switch thread_local true typedef typeof union unsigned void
volatile while
"""
# Functions and macros of <math.h> and <string.h>, and names that GNU's C reserves.
_LIBRARY = """
abs acos asin atan atan2 cbrt ceil cos cosh erf erfc exp exp2 expm1 fabs fdim floor fma
fmax fmin fmod frexp gamma hypot index isfinite isinf isnan j0 j1 jn y0 y1 yn ldexp
lgamma log log10 log1p log2 logb lrint lround modf nan nearbyint pow remainder rindex
rint round scalbn signgam signbit sin sinh sqrt strcmp tan tanh tgamma trunc NULL NAN
INFINITY HUGE_VAL probabilities main memcpy asm linux unix
"""
_PLAIN = re.compile(r"[ !#->@-\[\]-~]")  # without quotes, backslash and question mark


class C(Procedural):
    """C99: a struct of the columns that are used, and a variable for each of them."""

    words: ClassVar[frozenset[str]] = frozenset(_WORDS.split())
    used: ClassVar[frozenset[str]] = frozenset(_LIBRARY.split())
    brackets, list_mark = ("{", "}"), "[]"
    types: ClassVar[Mapping[str, str]] = {
        "number": "double ",
        "text": "const char *",
        "missing": "int ",
    }
    at_most, at_least = "fmin({}, {})", "fmax({}, {})"
    helpers: ClassVar[Mapping[str, str]] = {
        "place": """\
static double place(const char *value, int n, const char *const *levels) {
    for (int i = 0; i < n; i++)
        if (same(value, levels[i])) return i;
    return NAN;
}
""",
        "expected": """\
static double expected(double total) {
    return exp(fmin(total, 30.0));
}
""",
        "softmax": """\
static double *softmax(double *scores, int n) {
    double total = 0.0, highest = scores[largest(scores, n)];
    for (int i = 0; i < n; i++) total += scores[i] = exp(scores[i] - highest);
    for (int i = 0; i < n; i++) scores[i] /= total;
    return scores;
}
""",
        "shares": """\
static double *shares(double *scores, int n) {
    for (int i = 0; i < n; i++) scores[i] = clip(scores[i], 0.0, 1.0);
    return scores;
}
""",
        "largest": """\
static int largest(const double *values, int n) {
    int best = 0;
    for (int i = 1; i < n; i++)
        if (values[i] > values[best]) best = i;
    return best;
}
""",
        "gate": f"""\
static double gate(double distance) {{
    return 1.0 / (1.0 + exp(-clip(distance, -{HARD_LOGIT!r}, {HARD_LOGIT!r})));
}}
""",
        "clip": """\
static double clip(double value, double low, double high) {
    return fmin(fmax(value, low), high);
}
""",
        "number": """\
static double number(double value, double mean) {
    return missing(value) ? mean : value;
}
""",
        "missing": """\
static int missing(double value) {
    return value != value;
}
""",
        "same": """\
static int same(const char *value, const char *category) {
    return value && strcmp(value, category) == 0;
}
""",
    }

    def literal(self, category: Any, name: str) -> str:
        value = plain_category(category, name)
        if not isinstance(value, str):
            return "NAN" if value is None else self.number(value)
        parts = [
            char if _PLAIN.fullmatch(char) else "".join(map(_octal, char.encode()))
            for char in value
        ]
        return '"' + "".join(parts).replace(" ", FIXED_SPACE) + '"'

    def identifier(self, name: str) -> str:
        made = re.sub(r"\W", "_", super().identifier(name), flags=re.ASCII)
        return made if made.isidentifier() else f"x_{made}"

    def kind_of(self, name: str) -> Kind:
        schema = self.schema
        position = schema.names.index(name)
        if position not in schema.discrete:
            return "text" if schema.origin(position).levels else "number"
        return "text" if are_texts(plain_categories(schema, name), name) else "number"

    def held(self, name: str) -> str:
        return f"row->{self.names[name]}"

    def place(self, held: str, levels: Sequence[str]) -> str:
        listed = ", ".join(self.literal(level, held) for level in levels)
        return f"place({held}, {len(levels)}, (const char *[]){{{listed}}})"

    def member(
        self, name: str, categories: Sequence[Any], inside: bool, or_missing: bool
    ) -> str:
        del or_missing  # missing is one of the categories
        value, text = self.column(name), self.kind_of(name) == "text"
        found = []
        for category in categories:
            if category is None:
                found.append(f"!{value}" if text else f"missing({value})")
            elif text:
                found.append(f"same({value}, {self.literal(category, name)})")
            else:
                found.append(f"{value} == {self.literal(category, name)}")
        return ("" if inside else "!") + f"({' || '.join(found) or '0'})"

    def _arguments(self) -> list[str]:
        return [f"{self.types[each.kind]}{each.name}" for each in self.variables]

    def head_of_tree(self, name: str) -> str:
        arguments = self._arguments()
        if len(self.model.constants) == 1:
            return f"static double {name}({', '.join(arguments) or 'void'}) {{"
        return f"static void {name}({', '.join([*arguments, 'double *scores'])}) {{"

    def head(self, name: str, result: Result) -> list[str]:
        row = f"const struct {self.function}_row *row"
        if result == "chances":
            return [f"void {name}({row}, double probabilities[{self.n_chances}]) {{"]
        text = result == "label" and isinstance(self.model.labels[0], str)
        return [f"{self.types['text' if text else 'number']}{name}({row}) {{"]

    def add_each(self, tree: str) -> tuple[str, str]:
        return "", f"{tree[:-1]}{', ' if self.variables else ''}scores)"

    def give(self, values: Sequence[str]) -> list[str]:
        if len(values) == 1:
            return [*values]
        added = [f"scores[{i}] += {value}" for i, value in enumerate(values)]
        return [*added, "return"]

    def let_chances(self, value: str) -> Iterator[str]:
        yield f"    const double *chances = {value};"

    def on_list(self, function: str, name: str) -> str:
        return f"{function}({name}, {self.n_chances})"

    def give_chances(self) -> list[str]:
        size = f"{self.n_chances} * sizeof(double)"
        return [f"    memcpy(probabilities, chances, {size});"]

    def ask_chances(self) -> str:
        asked = f"{self.function}_proba(row, chances)"
        return f"double chances[{self.n_chances}]; {asked}"

    def written(self, code: str) -> str:
        """Add the struct of a row, helpers and headers."""
        fields = [f"struct {self.function}_row {{"]
        for name in self.asked:
            kind = self.types[self.kind_of(name)]
            written = json.dumps(name).replace("??", "? ?")
            fields.append(f"    {kind}{self.names[name]}; // {written}")
        if len(fields) == 1:
            fields.append("    char unused;")
        missing = "// A row; missing numbers are NAN, missing texts NULL."
        struct = "\n".join([missing, *fields, "};"])
        headers = "#include <math.h>\n#include <string.h>"
        return f"{headers}\n\n{struct}\n\n{super().written(code)}"


def _octal(byte: int) -> str:
    return f"\\{byte:03o}"
