"""Trees and their sums as functions of C that need nothing but its standard library."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from secret_jax.inspect.code.dialect import FIXED_SPACE
from secret_jax.inspect.code.procedural import Kind, Procedural, Result
from secret_jax.inspect.code.program import are_texts, plain_categories, plain_category
from secret_jax.losses.interface import HIGHEST_LOG
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
        "list": "const double *",
    }
    addition = "", "{}"
    chances_of = "double chances[{1}]; {0}_proba(row, chances)"
    at_most, at_least = "fmin({}, {})", "fmax({}, {})"
    short_helper = "static {1} {0}({2}) {{\n    return {3};\n}}\n"
    helpers: ClassVar[Mapping[str, str | tuple[str, ...]]] = {
        "place": """\
static double place(const char *value, int n, const char *const *levels) {
    for (int i = 0; i < n; i++)
        if (same(value, levels[i])) return i;
    return NAN;
}
""",
        "expected": ("double", "double total", f"exp(fmin(total, {HIGHEST_LOG}))"),
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
        "gate": (
            *("double", "double distance"),
            f"1.0 / (1.0 + exp(-clip(distance, -{HARD_LOGIT!r}, {HARD_LOGIT!r})))",
        ),
        "clip": (
            *("double", "double value, double low, double high"),
            "fmin(fmax(value, low), high)",
        ),
        "number": (
            *("double", "double value, double mean"),
            "missing(value) ? mean : value",
        ),
        "missing": ("int", "double value", "value != value"),
        "same": (
            *("int", "const char *value, const char *category"),
            "value && strcmp(value, category) == 0",
        ),
    }

    def literal(self, category: Any, name: str) -> str:
        value = plain_category(category, name)
        if not isinstance(value, str):
            return "NAN" if value is None else self.number(value)
        parts = [
            char
            if _PLAIN.fullmatch(char)
            else "".join(f"\\{byte:03o}" for byte in char.encode())
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

    def head_of_tree(self, name: str) -> str:
        arguments = [f"{self.types[each.kind]}{each.name}" for each in self.variables]
        if len(self.model.constants) == 1:
            return f"static double {name}({', '.join(arguments) or 'void'}) {{"
        return f"static void {name}({', '.join([*arguments, 'double *scores'])}) {{"

    def head(self, name: str, result: Result) -> list[str]:
        row = f"const struct {self.function}_row *row"
        if result == "chances":
            return [f"void {name}({row}, double probabilities[{self.n_chances}]) {{"]
        text = result == "label" and isinstance(self.model.labels[0], str)
        return [f"{self.types['text' if text else 'number']}{name}({row}) {{"]

    def call_of_tree(self, name: str) -> str:
        into = ["scores"] if len(self.model.constants) > 1 else []
        return f"{name}({', '.join([*(each.name for each in self.variables), *into])})"

    def give(self, values: Sequence[str]) -> list[str]:
        if len(values) == 1:
            return [*values]
        added = [f"scores[{i}] += {value}" for i, value in enumerate(values)]
        return [*added, "return"]

    def on_list(self, function: str, name: str) -> str:
        return f"{function}({name}, {self.n_chances})"

    def give_chances(self) -> list[str]:
        size = f"{self.n_chances} * sizeof(double)"
        return [f"    memcpy(probabilities, chances, {size});"]

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
