"""Base of option values: split finders, leaf models, pruning rules, refinements.

The fields of such a frozen dataclass, a parameter of an estimator, are compared,
hashed, printed, written to model files and reached by ``get_params`` and ``set_params``
like parameters of the estimator itself.
"""

import collections.abc
import inspect
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, fields
from functools import lru_cache
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Literal,
    NoReturn,
    TypeGuard,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import numpy as np
from sklearn.utils._param_validation import (
    Interval,
    InvalidParameterError,
    Options,
    RealNotInt,
    StrOptions,
    make_constraint,
    validate_parameter_constraints,
)


@dataclass(frozen=True)
class Value:
    """Base of all option values; a subclass is a frozen dataclass with defaults.

    The types of its fields say what these may be, as ``Annotated[int, at_least(1)]``,
    ``bool`` and ``Literal["all"]`` do, and so it is of estimators that are dataclasses;
    scikit-learn's ``_parameter_constraints`` count as well.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Fields by name, like the parameters of an estimator of scikit-learn."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def check(self) -> None:
        """Refuse invalid fields with the error of scikit-learn's estimators."""
        kind = type(self)
        check_constraints(constraints_of(kind), self.get_params(), kind.__name__)

    def conflict(self, options: Mapping[str, Any]) -> str:
        """Say what else is needed beside other options; empty if it goes with them."""
        return ""


@lru_cache(maxsize=256)  # not for ever: classes may be made while a program runs
def constraints_of(kind: type) -> Mapping[str, Any]:
    """Constraints of the parameters of a class and its bases, by name."""
    found: dict[str, Any] = {}
    types: dict[str, Any] = {}
    for base in kind.__mro__[::-1]:
        if "__dataclass_fields__" in vars(base):
            hints, plain = {}, {}
            with suppress(Exception):  # names that type checkers alone know, any text
                plain = get_type_hints(base)
                hints = get_type_hints(base, include_extras=True)
            declared = inspect.get_annotations(base)
            for name in (field.name for field in fields(base) if field.init):
                hint, own = hints.get(name, Any), plain.get(name, Any)
                # A field that is declared anew for its default keeps its range.
                is_new = hint != own or name not in types or own != types[name]
                if name in declared and is_new:
                    found[name], types[name] = _allowed(hint), own
        more = vars(base).get("_parameter_constraints")
        found |= more if isinstance(more, dict) else {}
    return found


def _allowed(hint: Any) -> Any:
    """Constraints that a type stands for, as scikit-learn writes them."""
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        parts = [_allowed(part) for part in get_args(hint)]
        if "no_validation" in parts:
            return "no_validation"
        return [each for part in parts for each in part]
    if origin is Annotated:
        constraints = list(filter(_is_constraint, hint.__metadata__))
        return constraints or _allowed(hint.__origin__)
    if origin is Literal:
        values = get_args(hint)
        if all(isinstance(value, str) for value in values):
            return [StrOptions(set(values))]
        is_boolean = any(isinstance(value, bool) for value in values)
        return [Options(object, set(values)), *["boolean"] * is_boolean]
    if origin is collections.abc.Callable:
        return [callable]
    named = {NoneType: None, bool: "boolean", int: Integral, float: Real}
    kind = origin or hint
    if kind is Any or not isinstance(kind, type):
        return "no_validation"
    return [named.get(kind, kind)]


def _is_constraint(what: Any) -> bool:
    """Whether scikit-learn knows what stands beside a type."""
    with suppress(ValueError):
        return make_constraint(what) is not None
    return False


class DeclaredConstraints:
    """Attribute of a class: constraints where scikit-learn's checks look for them."""

    def __get__(self, instance: object, owner: type) -> dict[str, Any]:
        return dict(constraints_of(owner))


def value_class(name: str) -> type[Value]:
    """Find an imported value class of this package by name; TypeError if none."""
    waiting, package = [Value], __name__.partition(".")[0]
    while waiting:
        found = waiting.pop()
        if found.__name__ == name and found.__module__.partition(".")[0] == package:
            return found
        waiting += found.__subclasses__()
    raise TypeError(f"{name} is no value of this package")


def check_constraints(
    constraints: Mapping[str, Any], parameters: Mapping[str, Any], caller: str
) -> None:
    """Check parameters as scikit-learn does, but do not take True for a number."""
    for name, allowed in constraints.items():
        value = parameters[name]
        if allowed == "no_validation":
            continue
        is_flag = isinstance(value, bool | np.bool_) and "boolean" not in allowed
        if is_flag or (isinstance(value, Real) and value != value):
            *others, last = [str(make_constraint(kind)) for kind in allowed]
            words = f"{', '.join(others)} or {last}" if others else last
            refuse(name, caller, words, value)
    known = {name: parameters[name] for name in constraints}
    validate_parameter_constraints(dict(constraints), known, caller)


def checked_parameters(estimator: Any, caller: str = "") -> dict[str, Any]:
    """Parameters of an estimator by name, checked, also those that a subclass sets."""
    kind = type(estimator)
    constraints = constraints_of(kind)
    own = {name: getattr(estimator, name) for name in constraints}
    check_constraints(constraints, own, caller or kind.__name__)
    return estimator.get_params(deep=False) | own


def refuse(name: str, caller: str, allowed: str, value: Any) -> NoReturn:
    """Raise the error that scikit-learn raises for a bad parameter."""
    raise InvalidParameterError(
        f"The {name!r} parameter of {caller} must be {allowed}. Got {value!r} instead."
    )


class Range(Interval):
    """Constraint of a number in an interval; in signatures it is written in words."""

    __repr__ = Interval.__str__


def at_least(least: int) -> Range:
    """Integers from ``least`` on, in the type of a field: ``Annotated[int, ...]``."""
    return Range(Integral, least, None, closed="left")


def real(least: float, most: float | None = None, closed: str = "left") -> Range:
    """Numbers from ``least`` up to ``most``, or without end, in the type of a field.

    ``closed``: which ends are allowed: "left", "right", "both" or "neither".
    """
    return Range(Real, least, np.inf if most is None else most, closed=closed)  # pyright: ignore[reportArgumentType]


POSITIVE = real(0.0, closed="neither")
SHARE = Range(RealNotInt, 0.0, 1.0, closed="neither")


class TupleOf(Range):
    """Constraint of a tuple of numbers in one interval, not empty."""

    def __init__(self, each: Interval):
        super().__init__(each.type, each.left, each.right, closed=each.closed)

    def is_satisfied_by(self, val: Any) -> bool:
        return (
            isinstance(val, tuple)
            and len(val) > 0
            and all(super(TupleOf, self).is_satisfied_by(number) for number in val)
            and not any(isinstance(number, bool | np.bool_) for number in val)
        )

    def __str__(self) -> str:
        return f"a tuple, each of it {super().__str__()}"


def is_integer(value: Any) -> TypeGuard[int]:
    """Whether a value is an integer and not a boolean."""
    return isinstance(value, Integral) and not isinstance(value, bool | np.bool_)


def is_real(value: Any) -> TypeGuard[float]:
    """Whether a value is a real number and not a boolean."""
    return isinstance(value, Real) and not isinstance(value, bool | np.bool_)
