"""Languages of functions, conditions and assignments: names, variables, statements."""

import math
import re
import textwrap
import unicodedata
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal, NamedTuple

from secret_jax.inspect.code.dialect import FIXED_SPACE, Dialect
from secret_jax.inspect.code.program import ExportedModel

Kind = Literal["number", "text", "missing", "list"]
Result = Literal["number", "chances", "label"]

_WIDTH = 88  # characters in a line, as most formatters have it
# Variables of the functions.
_LOCALS = {"row", "total", "scores", "chances", "chance", "labels", "gains"}
_NUMBERED = re.compile(r"(left|tree|total)_\d+")


class Variable(NamedTuple):
    """A value of a row that splits or equations use."""

    name: str
    value: str
    kind: Kind


class Procedural(Dialect):
    """A language of functions, conditions and assignments, for one model.

    The functions are one for each tree of a sum, one that reads a row and predicts, and
    one that names the class of a row. Subclasses say how statements are written.
    """

    words: ClassVar[frozenset[str]]
    """Words of the language, which are no names."""
    used: ClassVar[frozenset[str]]
    """Names of the language that the functions use."""
    helpers: ClassVar[Mapping[str, str | tuple[str, ...]]]
    """Functions by name, each before those that it calls; see `short_helper`."""
    short_helper: ClassVar[str]
    """Form of a function {0} of one expression; its parts are in ``helpers``."""
    function_head: ClassVar[str] = "function {} {{"
    """Begins a function with its arguments."""
    comment: ClassVar[str] = "// "
    end: ClassVar[str] = ";"
    """Ends a statement."""
    branch: ClassVar[tuple[str, str]] = ("if (", f"){FIXED_SPACE}{{")
    """Stands before and after the condition of a block."""
    block_end: ClassVar[tuple[str, ...]] = ("}",)
    brackets: ClassVar[tuple[str, str]] = ("[", "]")
    """Of a list of values; before them stands what a name of a list has after it."""
    list_mark: ClassVar[str] = ""
    types: ClassVar[Mapping[Kind, str]]
    """What stands before a new variable."""
    as_number: ClassVar[str] = "{}"
    """A number that a row holds; `or_mean`: one that may be missing."""
    or_mean: ClassVar[str] = "number({}, {})"
    as_category: ClassVar[str] = "{0}"
    at_most: ClassVar[str]
    at_least: ClassVar[str]
    addition: ClassVar[tuple[str, str]] = ("scores = ", "added(scores, {})")
    """Adds the values of a tree to the list of sums: a statement in two parts."""
    chances_of: ClassVar[str]
    """Calls a function for the probabilities of all classes, {1} of them."""
    logical_or, logical_and, logical_not = "||", "&&", "!"
    indicator = "({})"

    def __init__(self, model: ExportedModel, name: str):
        self.model, self.schema = model, model.schema
        self.function = unicodedata.normalize("NFKC", name)  # as languages read it
        self.n_chances = len(model.labels) if model.classes is not None else 0
        self.names = self._local_names()
        self.asked: list[str] = []
        self.variables = list(self._variables())

    @abstractmethod
    def literal(self, category: Any, name: str) -> str:
        """Write a category of a column."""

    @abstractmethod
    def held(self, name: str) -> str:
        """Write what a row holds in an input column."""

    def attribute(self, position: int) -> str:
        """Write what a row holds of an attribute; parts of dates are columns here."""
        _, _, levels = self.schema.origin(position)
        held = self.held(self.schema.names[position])
        return self.place(held, levels) if levels else held

    @abstractmethod
    def place(self, held: str, levels: Sequence[str]) -> str:
        """Write the place of an ordered category."""

    def head_of_tree(self, name: str) -> str:
        """Begin the function of a tree of a sum."""
        return self.function_head.format(self.call_of_tree(name))

    def call_of_tree(self, name: str) -> str:
        """Call the function of a tree of a sum."""
        return f"{name}({', '.join(each.name for each in self.variables)})"

    def head(self, name: str, result: Result) -> list[str]:
        """Begin a function of a row."""
        del result  # whose type is not declared
        return [self.function_head.format(f"{name}(row)")]

    def give(self, values: Sequence[str]) -> list[str]:
        """Return a value, or the several values of a tree."""
        text = ", ".join(values)
        return [text if len(values) == 1 else f"[{text}]"]

    @abstractmethod
    def give_chances(self) -> list[str]:
        """Return the probabilities of all classes."""

    def on_list(self, function: str, name: str) -> str:
        """Call a function of the probabilities of all classes."""
        return f"{function}({name})"

    def identifier(self, name: str) -> str:
        """Turn the name of a column into one of a variable."""
        # Languages read names in this form: others would become one variable.
        plain = unicodedata.normalize("NFKC", name)
        # A letter, digit or mark may follow a letter; what else \w takes may not.
        made = "".join(c if f"x{c}".isidentifier() else "_" for c in plain)
        return made if made.isidentifier() else f"x_{made}"

    def written(self, code: str) -> str:
        """Add the functions that the code calls."""
        helpers = ""
        for name, parts in self.helpers.items():
            if f"{name}(" in code + helpers:
                short = isinstance(parts, tuple)
                text = self.short_helper.format(name, *parts) if short else parts
                helpers = f"{text}\n\n{helpers}"
        return helpers + code

    @property
    def taken(self) -> set[str]:
        """Names that the functions use, and words of the language."""
        return _LOCALS | self.words | self.used | self.helpers.keys()

    def check_name(self) -> None:
        """Refuse a name that no function of the language can have."""
        name, language = self.function, type(self).__name__
        if not name or self.identifier(name) != name or name in self.words:
            raise ValueError(
                f"function_name is {name!r}, which is no name of a function in "
                f"{language}."
            )
        if name in self.taken or _NUMBERED.fullmatch(name):
            raise ValueError(
                f"function_name is {name!r}, which the function itself uses. Choose a "
                f"name other than {', '.join(sorted(self.taken - self.words))}."
            )

    def let(self, name: str, value: str, kind: Kind = "number") -> str:
        return f"    {self.types[kind]}{name} = {value}{self.end}"

    def let_list(self, name: str, values: Sequence[str], kind: Kind = "number"):
        first, last = self.brackets
        before = f"{self.types[kind]}{name}{self.list_mark} = {first}"
        return wrapped("    ", before, ", ".join(values), f"{last}{self.end}", "")

    def returned(self, indent: str, *values: str) -> Iterator[str]:
        for statement in self.give(values):
            if "+=" in statement or statement == "return":
                yield f"{indent}{statement}{self.end}"
            else:
                yield from wrapped(indent, "return ", statement, self.end)

    def column(self, name: str, missing_as: float | None = None) -> str:
        del missing_as  # in the variable already
        return self.names[name]

    def missing(self, name: str) -> str:
        return f"{self.names[name]}_missing"

    def number(self, value: float) -> str:
        return repr(float(value))

    def clip(self, value: str, low: float, high: float) -> str:
        if math.isinf(low):
            return self.at_most.format(value, self.number(high))
        if math.isinf(high):
            return self.at_least.format(value, self.number(low))
        return f"clip({value}, {self.number(low)}, {self.number(high)})"

    def kind_of(self, name: str) -> Kind:
        """Kind of the variable of a column."""
        return "number"

    def _variables(self) -> Iterator[Variable]:
        """Choose the variables: what is asked of columns, in the order of these."""
        schema, programs = self.schema, self.model.programs
        sums = [split for program in programs for split in program.sums]
        terms = [term for program in programs for term in program.terms]
        numbers = {
            term.name: term.missing_as for term in terms if term.asks == "number"
        }
        categories = {split.name for program in programs for split in program.lists}
        categories |= {term.name for term in terms if term.asks == "category"}
        missing = {term.name for term in terms if term.asks == "missing"}
        missing |= {one.terms[0].name for one in sums if one.missing_left is not None}
        for position, name in enumerate(schema.names):
            if name not in numbers.keys() | categories | missing:
                continue
            self.asked.append(name)
            held, variable = self.attribute(position), self.names[name]
            if name in numbers:
                mean = numbers[name]
                form = self.as_number if mean is None else self.or_mean
                yield Variable(variable, form.format(held, mean), "number")
            elif name in categories:
                form = self.as_category if schema.allow_missing else "{}"
                yield Variable(variable, form.format(held), self.kind_of(name))
            if name in missing:
                yield Variable(f"{variable}_missing", f"missing({held})", "missing")

    def _local_names(self) -> dict[str, str]:
        """Choose a variable for every column."""
        taken = self.taken | {self.function, f"{self.function}_proba"}
        local = {}
        for name in self.schema.names:
            variable = self.identifier(name)
            variable = f"x_{variable}" if variable in self.words else variable
            while {variable, f"{variable}_missing"} & taken or _NUMBERED.fullmatch(
                variable
            ):
                variable += "_"
            taken |= {variable, f"{variable}_missing"}
            local[name] = variable
        return local

    def label_list(self) -> list[str]:
        """Write the list of the labels of the classes."""
        kind: Kind = "text" if isinstance(self.model.labels[0], str) else "number"
        labels = [self.literal(label, "y") for label in self.model.labels]
        return self.let_list("labels", labels, kind)


def wrapped(
    indent: str, before: str, text: str, after: str = "", brackets: str = "()"
) -> list[str]:
    """Write a statement in lines; brackets let a long one end within it."""
    line = f"{indent}{before}{text}{after}"
    if len(line) <= _WIDTH:
        return [line]
    before = before.replace(" ", FIXED_SPACE)  # a statement begins with its bracket
    first, last = brackets if brackets and before[-1:] != "(" else ("", "")
    return textwrap.wrap(
        f"{before}{first}{text}{last}{after}",
        max(_WIDTH, len(indent) + _WIDTH // 2),
        initial_indent=indent,
        subsequent_indent=indent + "    ",
        break_long_words=False,
        break_on_hyphens=False,
    )
