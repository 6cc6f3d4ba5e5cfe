"""Options of ``fit`` that are the parameters of the estimators, derived from them."""

import argparse
import ast
import inspect
import re
from typing import Any

from sklearn.utils._param_validation import StrOptions

from secret_jax.cli.messages import CommandError
from secret_jax.estimators.classifier import SecretClassifier
from secret_jax.estimators.presets import AccuratePreset, Presets
from secret_jax.estimators.regressor import SecretRegressor
from secret_jax.runtime.values import constraints_of, value_class

_ANSWERS = {"yes": True, "no": False, "none": None}
_WORDS = {str(value): word for word, value in _ANSWERS.items()}
# Columns, classes and the seed have options of their own, or none.
_ELSEWHERE = {"categorical_features", "split_features", "monotonic_cst"}
_ELSEWHERE |= {"random_state", "verbose", "priors", "costs"}
PRESETS = [n for n in (*vars(AccuratePreset), *vars(Presets)) if not n.startswith("_")]


def defaults() -> dict[str, Any]:
    """Parameters of the trees that are options, and their defaults, in order."""
    kinds = SecretRegressor, SecretClassifier
    signed = [inspect.signature(kind).parameters for kind in kinds]
    every = {name: one.default for name, one in {**signed[1], **signed[0]}.items()}
    ordered = dict.fromkeys((*signed[0], *signed[1]))
    return {name: every[name] for name in ordered if name not in _ELSEWHERE}


def add_parameters(group: argparse._ArgumentGroup) -> None:
    """Add an option for each parameter, with its description and default."""
    kinds = SecretClassifier, SecretRegressor
    described = _descriptions(kinds[0]) | _descriptions(kinds[1])
    for name, default in defaults().items():
        allowed = [one for kind in kinds for one in constraints_of(kind).get(name, ())]
        words = {
            w for one in allowed if isinstance(one, StrOptions) for w in one.options
        }
        words = sorted(words) + ["yes", "no"] * ("boolean" in allowed)
        purpose = f"{described[name]} (default: {_WORDS.get(str(default), default)})"
        group.add_argument(
            f"--{name.replace('_', '-')}",
            metavar=f"{{{','.join(words)}}}" if len(words) > 1 else "VALUE",
            type=_value,
            # Never a value of the parameter: what is not given stays as it is.
            default=argparse.SUPPRESS,
            help=purpose.replace("%", "%%"),
        )


def built(arguments: argparse.Namespace, kind: Any, **more: Any) -> Any:
    """Build an estimator with the parameters that were given, or a preset of it."""
    given = {name: vars(arguments)[name] for name in defaults() if name in arguments}
    model = kind()
    strange = [f"--{n.replace('_', '-')}" for n in given if n not in model.get_params()]
    if arguments.preset and not hasattr(kind, arguments.preset):
        strange.append(f"--preset {arguments.preset}")
    if strange:
        raise CommandError(f"{strange[0]} does not go with a {kind.__name__}")
    model = getattr(kind, arguments.preset)() if arguments.preset else model
    return model.set_params(**given, **more)


def _value(text: str) -> Any:
    """Read a word, a number, or a value as ``Ridge(clip_margin=0.2)``."""
    if text in _ANSWERS:
        return _ANSWERS[text]
    try:
        node = ast.parse(text, mode="eval").body
        if not isinstance(node, ast.Call):
            return ast.literal_eval(node)
        fields = {str(one.arg): ast.literal_eval(one.value) for one in node.keywords}
        value = value_class(ast.unparse(node.func))(**fields)
        value.check()
        return value
    except ValueError as error:  # of a value that is checked, or of what is no literal
        if "parameter" in str(error):
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
        sentence = sentence[:1].lower() + sentence[1:].rstrip(".:").replace("`", "")
        described |= dict.fromkeys(names.split(", "), sentence)
    return described
