"""Header of a model file: schemas, parameters and fitted state as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from secret_jax.data.schema import Role, TableSchema
from secret_jax.losses import classes as _classes  # noqa: F401
from secret_jax.losses import numbers as _numbers  # noqa: F401
from secret_jax.losses import quantile as _quantile  # noqa: F401
from secret_jax.losses.interface import Loss
from secret_jax.runtime.values import Value, value_class
from secret_jax.tree.archive import ModelFileError

# Fields of a schema that are arrays of the file.
SCALING = ("center", "scale")
# Of an array that the header holds.
_MOST_BYTES = 1 << 26
_PLAIN = (str, int, float, bool)


def schema_to_json(schema: TableSchema) -> dict[str, Any]:
    """Convert a schema, without its center and scale, to JSON values.

    Raises
    ------
    ModelFileError
        If a category has no form there.
    """
    # JSON keeps text, integers, floats and booleans apart, and Python writes a float
    # with as many digits as bring it back exactly.
    header = {
        field.name: getattr(schema, field.name)
        for field in fields(schema)
        if field.name not in SCALING
    }
    header["categories"] = [
        [_category(value, schema.names[column]) for value in values]
        for column, values in zip(schema.discrete, schema.categories, strict=True)
    ]
    return to_json(header)


def schema_from_json(
    header: dict[str, Any], scaling: Mapping[str, np.ndarray]
) -> TableSchema:
    """Restore a schema from `schema_to_json`, with its center and scale."""
    values: dict[str, Any] = dict(scaling)
    values |= {name: _tuples(value) for name, value in header.items()}
    values["roles"] = tuple(Role(role) for role in values["roles"])
    return TableSchema(**values)


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def _category(value: Any, column: str) -> str | int | float | bool | None:
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, _PLAIN):
        return value
    raise ModelFileError(
        f"Column {column!r} has the category {value!r}, a {type(value).__name__}; a "
        "model file holds text, numbers and booleans. Turn the column into text before "
        "fitting."
    )


def to_json(value: Any) -> Any:
    """Convert a parameter or fitted attribute to JSON values, or raise a TypeError.

    Arrays become ``{"dtype": ..., "array": ...}``, values of this package
    ``{"value": class, "fields": ...}``, tuples become lists.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, _PLAIN):
        return value
    if isinstance(value, list | tuple):
        return [to_json(item) for item in value]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: to_json(item) for key, item in value.items()}
    if isinstance(value, Value) and type(value).__module__.startswith("secret_jax."):
        its = {name: to_json(field) for name, field in value.get_params().items()}
        return {"value": type(value).__name__, "fields": its}
    if isinstance(value, np.ndarray):
        return {"dtype": value.dtype.str, "array": to_json(value.tolist())}
    raise TypeError(f"a {type(value).__name__} is not text, a number or a boolean")


def loss_to_json(loss: Loss) -> Any:
    """Convert a loss of this package to JSON; a ModelFileError for any other."""
    try:
        return to_json(loss)
    except TypeError:
        raise ModelFileError(
            f"{loss!r} cannot be kept in a model file: it is a loss of your own, and a "
            "file holds no code. Pickle the estimator instead."
        ) from None


def _array(items: Any, dtype: np.dtype) -> np.ndarray:
    found = np.asarray(items)
    if dtype.itemsize * found.size > _MOST_BYTES:
        raise TypeError(f"an array of {found.size} {dtype} is too long")
    return found.astype(dtype)


def from_json(value: Any) -> Any:
    """Restore a value from `to_json`."""
    if isinstance(value, list):
        return [from_json(item) for item in value]
    if isinstance(value, dict):
        if set(value) == {"dtype", "array"}:
            return _array(value["array"], np.dtype(value["dtype"]))
        if set(value) == {"value", "fields"}:
            its = {name: _tuples(field) for name, field in value["fields"].items()}
            return value_class(value["value"])(**its)
        return {key: from_json(item) for key, item in value.items()}
    return value
