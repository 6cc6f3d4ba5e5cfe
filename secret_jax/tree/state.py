"""Trees, estimators and what they have learned, as JSON beside arrays."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

import numpy as np

from secret_jax.data.schema import Role, TableSchema
from secret_jax.losses.interface import Loss
from secret_jax.runtime.values import Value, value_class
from secret_jax.runtime.warning import warn
from secret_jax.tree.archive import ModelFileError
from secret_jax.tree.structure import LongerTree, Tree

_Kind = TypeVar("_Kind", bound=type)

# Classes that a file may hold beside the package's option values; see `recorded`.
_RECORDS: dict[str, Any] = {
    kind.__name__: kind for kind in (Tree, TableSchema, LongerTree)
}
_PLAIN = (str, int, float, bool)
# Maximum size of an array whose items the JSON holds.
_MOST_BYTES = 1 << 26


def recorded(kind: _Kind) -> _Kind:
    """Let model files hold a record, or an estimator as a part of another one.

    Of a record (a dataclass or a NamedTuple) a file holds all fields; of an estimator
    the parameters and the fitted attributes.
    """
    _RECORDS[kind.__name__] = kind
    return kind


def to_json(value: Any, arrays: dict[str, np.ndarray], path: str = "") -> Any:
    """Convert a value to JSON.

    Records become ``{"value": class, "fields": ...}``, tuples lists, arrays
    ``{"array": name}`` (of objects ``{"dtype": ..., "items": ...}``), and mappings of
    numbers ``{"keys": ..., "values": ...}``.

    ``arrays``: receives the arrays by name: their path in the value.

    Raises
    ------
    TypeError
        If there is no JSON of it; of categories and losses a `ModelFileError`.
    """

    def of(item: Any, name: str) -> Any:
        return to_json(item, arrays, f"{path}.{name}" if path else name)

    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, _PLAIN):
        return value
    if isinstance(value, np.ndarray):
        if value.dtype.hasobject:
            return {"dtype": value.dtype.str, "items": of(value.tolist(), "items")}
        arrays[path] = value
        return {"array": path}
    kind = type(value).__name__
    is_record = type(value) is _RECORDS.get(kind)
    if isinstance(value, list | tuple) and not is_record:
        return [of(item, str(place)) for place, item in enumerate(value)]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: of(item, key) for key, item in value.items()}
    if isinstance(value, dict) and all(isinstance(key, int) for key in value):
        items = {"keys": list(value), "values": list(value.values())}
        return {key: of(item, key) for key, item in items.items()}
    if isinstance(value, TableSchema):
        _check_categories(value)
    if isinstance(value, Value) and type(value).__module__.startswith("secret_jax."):
        own = value.get_params()
    elif is_record and hasattr(value, "get_params"):
        own = estimator_state(value)
    elif is_record:
        own = {name: getattr(value, name) for name in _fields_of(type(value))}
    elif isinstance(value, Loss):
        raise ModelFileError(
            f"{value!r} cannot be kept in a model file: it is a loss of your own, and "
            "a file holds no code. Pickle the estimator instead."
        )
    else:
        raise TypeError(f"a {kind} is not text, a number or a boolean")
    return {"value": kind, "fields": {name: of(own[name], name) for name in own}}


def from_json(value: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    """Restore a value from `to_json`."""
    if isinstance(value, list):
        return [from_json(item, arrays) for item in value]
    if not isinstance(value, dict):
        return value
    if set(value) == {"array"}:
        return arrays[value["array"]]
    if set(value) == {"dtype", "items"}:
        items, dtype = np.asarray(value["items"]), np.dtype(value["dtype"])
        if dtype.itemsize * items.size > _MOST_BYTES:
            raise TypeError(f"an array of {items.size} {dtype} is too long")
        return items.astype(dtype)
    if set(value) == {"keys", "values"}:
        values = from_json(value["values"], arrays)
        return dict(zip(value["keys"], values, strict=True))
    if set(value) != {"value", "fields"}:
        return {key: from_json(item, arrays) for key, item in value.items()}
    kind = value["value"]
    record = _RECORDS[kind] if kind in _RECORDS else value_class(kind)
    if kind in _RECORDS and hasattr(record, "get_params"):
        return estimator_of(record, from_json(value["fields"], arrays))
    own = {
        name: _tuples(from_json(item, arrays)) for name, item in value["fields"].items()
    }
    if record is TableSchema:
        own["roles"] = tuple(map(Role, own["roles"]))
    return record(**own)


def estimator_state(model: Any) -> dict[str, Any]:
    """Class, parameters and fitted attributes of an estimator, for `to_json`.

    Raises
    ------
    ModelFileError
        If there is no JSON of a fitted attribute.

    Warns
    -----
    UserWarning
        If there is none of a parameter; it is left out.
    """
    parameters, fitted = {}, {}
    for name, value in model.get_params(deep=False).items():
        try:
            to_json(value, {})
        except TypeError:
            warn(
                f"The parameter {name}={value!r} cannot be kept in a model file; the "
                "loaded model will have the default. Predictions do not depend on it."
            )
        else:
            parameters[name] = value
    for name, value in vars(model).items():
        if name.endswith("_") and not name.startswith("_"):
            fitted[name] = value.saved() if hasattr(value, "saved") else value
            try:
                to_json(fitted[name], {})
            except TypeError as error:
                raise ModelFileError(
                    f"The fitted attribute {name} cannot be kept in a model file: "
                    f"{error}."
                ) from None
    return {"estimator": _kind_of(model), "parameters": parameters, "fitted": fitted}


def _kind_of(model: Any) -> str:
    """Name of the package's class of an estimator, which may be of a subclass."""
    package = __name__.partition(".")[0] + "."
    own = (kind for kind in type(model).__mro__ if kind.__module__.startswith(package))
    return next(own, type(model)).__name__


def estimator_of(model_class: type, state: dict[str, Any]) -> Any:
    """Restore an estimator from `estimator_state`.

    Raises
    ------
    TypeError
        If the class has no such parameter.
    ValueError
        If a name is not that of a fitted attribute.
    """
    model = model_class(**state["parameters"])
    for key, value in state["fitted"].items():
        fitted = key.endswith("_") and not key.startswith("_")
        if not fitted or hasattr(model_class, key):
            raise ValueError(f"it sets {key!r}, which is no fitted attribute")
        setattr(model, key, value)
    return model


def array_names(value: Any) -> list[str]:
    """Names of the arrays to which JSON refers."""
    if isinstance(value, dict) and set(value) == {"array"}:
        return [value["array"]]
    items = value.values() if isinstance(value, dict) else value
    if not isinstance(value, dict | list):
        return []
    return [name for item in items for name in array_names(item)]


def _fields_of(record: Any) -> tuple[str, ...]:
    """Names of the fields of a dataclass or a NamedTuple."""
    if is_dataclass(record):
        return tuple(field.name for field in fields(record))
    return record._fields


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def _check_categories(schema: TableSchema) -> None:
    for column, values in zip(schema.discrete, schema.categories, strict=True):
        for value in values:
            value = value.item() if isinstance(value, np.generic) else value
            if value is not None and not isinstance(value, _PLAIN):
                raise ModelFileError(
                    f"Column {schema.names[column]!r} has the category {value!r}, a "
                    f"{type(value).__name__}; a model file holds text, numbers and "
                    "booleans. Turn the column into text before fitting."
                )
