"""Trees, parameters and fitted attributes as JSON beside arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from secret_jax.data.schema import Role, TableSchema
from secret_jax.losses.interface import Loss
from secret_jax.runtime.values import Value, value_class
from secret_jax.tree.archive import ModelFileError
from secret_jax.tree.structure import Tree

# Records of which a file holds all fields; of parameters it holds any value of the
# package.
_RECORDS = {record.__name__: record for record in (Tree, TableSchema)}
_PLAIN = (str, int, float, bool)
# Maximum size of an array whose items the JSON holds.
_MOST_BYTES = 1 << 26


def to_json(value: Any, arrays: dict[str, np.ndarray], path: str = "") -> Any:
    """Convert a value to JSON.

    Records become ``{"value": class, "fields": ...}``, tuples lists, and arrays
    ``{"array": name}`` (of objects ``{"dtype": ..., "items": ...}``).

    Parameters
    ----------
    arrays : dict of str to ndarray
        Receives the arrays by name: their path in the value.

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
    if isinstance(value, list | tuple):
        return [of(item, str(place)) for place, item in enumerate(value)]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: of(item, key) for key, item in value.items()}
    kind, own = type(value).__name__, {}
    if isinstance(value, TableSchema):
        _check_categories(value)
    if isinstance(value, Value) and type(value).__module__.startswith("secret_jax."):
        own = value.get_params()
    elif is_dataclass(value) and kind in _RECORDS:
        own = {field.name: getattr(value, field.name) for field in fields(value)}
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
    if set(value) != {"value", "fields"}:
        return {key: from_json(item, arrays) for key, item in value.items()}
    kind = value["value"]
    record = _RECORDS[kind] if kind in _RECORDS else value_class(kind)
    own = {
        name: _tuples(from_json(item, arrays)) for name, item in value["fields"].items()
    }
    if record is TableSchema:
        own["roles"] = tuple(map(Role, own["roles"]))
    return record(**own)


def array_names(value: Any) -> list[str]:
    """Names of the arrays to which JSON refers."""
    if isinstance(value, dict) and set(value) == {"array"}:
        return [value["array"]]
    items = value.values() if isinstance(value, dict) else value
    if not isinstance(value, dict | list):
        return []
    return [name for item in items for name in array_names(item)]


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
