"""Options of ``fit`` that are the parameters of the estimators, derived from them."""

import argparse
import ast
import inspect
import re
from collections.abc import Callable
from typing import Any

from sklearn.utils._param_validation import StrOptions, make_constraint

from secret_jax.cli.messages import CommandError
from secret_jax.estimators.classifier import SecretClassifier
from secret_jax.estimators.presets import AccuratePreset, Presets
from secret_jax.estimators.regressor import SecretRegressor
from secret_jax.runtime.values import constraints_of, value_class

_ANSWERS = {"yes": True, "no": False, "none": None}
_WORDS = {value: word for word, value in _ANSWERS.items()}
PRESETS = [
    name
    for owner in (AccuratePreset, Presets)
    for name in vars(owner)
    if not name.startswith("_")
]


def parameter_names() -> list[str]:
    """Name the parameters that are options, in the order of the constructors.

    Columns and the seed have options of their own.
    """
    every = SecretRegressor().get_params(False) | SecretClassifier().get_params(False)
    signature = [*inspect.signature(SecretRegressor).parameters]
    names = sorted(every, key=lambda n: signature.index(n) if n in signature else 99)
    return [name for name in names if name != "verbose" and _constraints(name)]


def add_parameters(group: argparse._ArgumentGroup) -> None:
    """Add an option for each parameter, with its description and default."""
    described = _descriptions(SecretClassifier) | _descriptions(SecretRegressor)
    defaults = SecretClassifier().get_params() | SecretRegressor().get_params()
    for name in parameter_names():
        default = defaults[name]
        default = (
            _WORDS.get(default, default) if default in (True, False, None) else default
        )
        names = _names(name)
        group.add_argument(
            f"--{name.replace('_', '-')}",
            metavar=f"{{{','.join(names)}}}" if names else "VALUE",
            type=_reader(name),
            # Never a value of the parameter: what is not given stays as it is.
            default=argparse.SUPPRESS,
            help=f"{described[name]} (default: {default})".replace("%", "%%"),
        )


def given_parameters(arguments: argparse.Namespace, estimator: type) -> dict[str, Any]:
    """Return the parameters that were given; refuse those of another estimator."""
    known, given = inspect.signature(estimator).parameters, vars(arguments)
    parameters = {name: given[name] for name in parameter_names() if name in given}
    strange = [name.replace("_", "-") for name in parameters if name not in known]
    if arguments.preset and not hasattr(estimator, arguments.preset):
        strange.append(f"preset {arguments.preset}")
    if strange and arguments.model == "booster":
        raise CommandError(f"--{strange[0]} goes with one tree, not --model booster")
    if strange:
        kind = "classes" if estimator is SecretRegressor else "numbers"
        raise CommandError(f"--{strange[0]} goes with a target of {kind}")
    return parameters


def _constraints(name: str) -> list[Any]:
    """Constraints of a parameter, of either estimator; none if anything is allowed."""
    kinds = (SecretRegressor, SecretClassifier)
    allowed = [constraints_of(kind).get(name, []) for kind in kinds]
    if "no_validation" in allowed:
        return []
    return [make_constraint(kind) for kinds in allowed for kind in kinds]


def _names(name: str) -> list[str]:
    """Words that a parameter may be, in order of the documentation; [] if numbers."""
    words: list[str] = []
    for kind in _constraints(name):
        if isinstance(kind, StrOptions):
            words += sorted(kind.options)
        elif any(kind.is_satisfied_by(number) for number in (0.5, 1, 20)):
            return []
    answers = [
        word
        for word, value in _ANSWERS.items()
        if any(kind.is_satisfied_by(value) for kind in _constraints(name))
    ]
    return [*dict.fromkeys(words), *answers] if words or answers != ["none"] else []


def _reader(name: str) -> Callable[[str], Any]:
    """Build the type of an option: what satisfies a constraint of the parameter."""

    def read(text: str) -> Any:
        value = _value(text)
        kinds = _constraints(name)
        if any(kind.is_satisfied_by(value) for kind in kinds) and value == value:
            return value
        if _names(name):
            choices = ", ".join(_names(name))
            raise argparse.ArgumentTypeError(
                f"invalid choice: {text!r} (choose from {choices})"
            )
        *first, last = dict.fromkeys(str(kind) for kind in kinds)
        allowed = f"{', '.join(first)} or {last}" if first else last
        raise argparse.ArgumentTypeError(f"{text!r} is not {allowed}")

    return read


def _value(text: str) -> Any:
    """Read a word, a number, or a value as ``Ridge(clip_margin=0.2)``."""
    if text in _ANSWERS:
        return _ANSWERS[text]
    node: Any = None
    try:
        node = ast.parse(text, mode="eval").body
        if isinstance(node, ast.Call):
            fields = {
                str(one.arg): ast.literal_eval(one.value) for one in node.keywords
            }
            value = value_class(ast.unparse(node.func))(**fields)
            value.check()
            return value
        return ast.literal_eval(node)
    except ValueError as error:
        if isinstance(node, ast.Call):
            raise argparse.ArgumentTypeError(str(error)) from None
        return text
    except (SyntaxError, TypeError):
        return text


def _descriptions(estimator: type) -> dict[str, str]:
    """First sentences of the parameters in a numpydoc docstring."""
    text = inspect.getdoc(estimator) or ""
    section = text.partition("Parameters\n---")[2].partition("\n\n")[0]
    entries = re.findall(r"^(\w[\w, ]*) : .*\n((?:    .*(?:\n|\Z))+)", section, re.M)
    described = {}
    for names, words in entries:
        sentence = re.split(r"(?<=[.:]) ", " ".join(words.split()))[0]
        sentence = sentence.rstrip(".:").replace("`", "")
        described |= dict.fromkeys(
            names.split(", "), sentence[:1].lower() + sentence[1:]
        )
    return described
