"""Fitted models as pure functions of JAX: accelerators run them, users trace them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from secret_jax.data.schema import TableSchema
from secret_jax.runtime.linalg import AnyArray
from secret_jax.runtime.packing import Packed
from secret_jax.runtime.programs import program
from secret_jax.runtime.shapes import padded
from secret_jax.tree.packed import PackedTrees, stacked, values_of
from secret_jax.tree.soft import SoftRouting, mixed
from secret_jax.tree.structure import Tree


class WeightedTrees(NamedTuple):
    """Hard trees of a sum, stacked, and their weights."""

    trees: PackedTrees
    weight: AnyArray  # (n_trees,), float32; 0 for padding
    n_trees: AnyArray | int  # how many count; loops of an int have a derivative


Model: TypeAlias = WeightedTrees | SoftRouting

# Fields of a model that may be trained; all others are its structure.
_PARAMETERS = (
    *("direction", "threshold", "width", "coefficient", "weight"),
    *("low", "high", "lowest", "highest"),
)


def weighted_trees(
    trees: Sequence[Tree], weight: np.ndarray, n_padded: int
) -> WeightedTrees:
    """Stack the trees of a sum, padded to a number of trees."""
    weight = padded(weight.astype(np.float32), n_padded)
    return WeightedTrees(stacked(trees, n_padded), weight, np.int32(len(trees)))


def raw_values(model: Model, x: jax.Array, codes: jax.Array) -> jax.Array:
    """Predict rows in standardised units, before the link, (n_outputs, n_rows)."""
    if isinstance(model, SoftRouting):
        return mixed(model, x, codes, jnp)

    def add(which: jax.Array, total: jax.Array) -> jax.Array:
        tree = jax.tree.map(lambda array: array[which], model.trees)
        return total + model.weight[which] * values_of(tree, x, codes)

    nothing = jnp.zeros((model.trees.coefficient.shape[1], x.shape[0]), x.dtype)
    return jax.lax.fori_loop(0, model.n_trees, add, nothing)


@program()
def predicted(x: jax.Array, codes: jax.Array, packed: Packed) -> tuple[jax.Array]:
    """Compute `raw_values`, compiled; ``packed``: a `Model`."""
    (model,) = packed.apart()
    return (raw_values(model, x, codes),)


def traceable(
    model: Model, schema: TableSchema, finish: Callable[[jax.Array], jax.Array]
) -> tuple[Callable[[Any, Any], jax.Array], dict[str, np.ndarray]]:
    """Split a model into a function of parameters and encoded rows, and parameters.

    ``finish``: from raw values (n_rows, n_outputs) to what the function returns.
    """
    paths, structure = jax.tree_util.tree_flatten_with_path(model)
    fields = [(path[-1].name, array) for path, array in paths]
    n_columns, width = schema.n_columns, schema.n_columns + len(schema.discrete)

    def function(parameters: Any, rows: Any) -> jax.Array:
        rows = jnp.asarray(rows, parameters["coefficient"].dtype)
        if not rows.ndim or rows.shape[-1] != width:
            raise ValueError(
                f"Encoded rows have {width} columns, and these are of shape "
                f"{rows.shape}. Make them by encode(X)."
            )

        def of_field(name: str, array: Any) -> Any:
            array = parameters.get(name, array)
            if isinstance(array, int):
                return array
            return jnp.asarray(array, rows.dtype if array.dtype.kind == "f" else None)

        own = structure.unflatten([of_field(*field) for field in fields])
        flat = rows.reshape(-1, width)
        codes = flat[:, n_columns:].astype(np.int32)
        found = finish(raw_values(own, flat[:, :n_columns], codes).T)
        return found.reshape(*rows.shape[:-1], *found.shape[1:])

    return function, {name: array for name, array in fields if name in _PARAMETERS}


def encoded_rows(schema: TableSchema, X: jax.Array) -> jax.Array:
    """Encode traced rows (..., n_columns) of plain numbers, in their own precision."""
    if not schema.is_plain:
        raise ValueError(
            "encode was traced by JAX, and the model reads categories or missing "
            "values, which are encoded on the host. Call encode before (jax.jit, "
            "jax.grad), and trace the function of to_jax alone."
        )
    if not jnp.issubdtype(X.dtype, jnp.floating):
        X = X.astype(np.float32)
    if not X.ndim or X.shape[-1] != len(schema.names):
        raise ValueError(
            f"X is of shape {X.shape}, but the model was fitted with "
            f"{len(schema.names)} columns."
        )
    X = X[..., list(schema.continuous)]
    # A center in two parts: what is near it loses no digits.
    center = schema.center.astype(X.dtype)
    rest = (schema.center - center.astype(np.float64)).astype(X.dtype)
    x = (X - center - rest) / schema.scale.astype(X.dtype)
    low, high = (end.astype(X.dtype) for end in schema.saturation)
    return jnp.where(jnp.isnan(x), 0.0, jnp.clip(x, low, high))
