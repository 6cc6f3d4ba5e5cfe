"""Predictions of numeric rows on the devices where they lie."""

import jax
import jax.numpy as jnp
import numpy as np

from secret_jax.data.shards import (
    RowShards,
    Scaling,
    in_64_bits,
    scaling_of,
    standardised,
)
from secret_jax.runtime.linalg import AnyArray
from secret_jax.runtime.programs import program
from secret_jax.tree.blocks import once
from secret_jax.tree.packed import PackedTrees, programmed, values_of
from secret_jax.tree.structure import Tree


def predict_where_they_lie(tree: Tree, shards: RowShards) -> jax.Array:
    """Predict every row with a hard tree of numbers, in float32 on the rows' devices.

    Raises
    ------
    ValueError
        If a row holds a number that is not finite.
    """
    schema = tree.schema
    units = np.array([schema.target_centers, schema.target_scales])
    with in_64_bits():
        x = schema.in_order(shards.x)
        value, finite = _predicted(
            x, scaling_of(schema, shards), once(tree, programmed), units
        )
    if not bool(finite):
        raise ValueError(
            "X holds values that are no finite numbers; say output='host'."
        )
    value = value[: shards.n_rows]
    return value[:, 0] if tree.n_outputs == 1 else value


@program()
def _predicted(
    x: AnyArray, scaling: Scaling, packed: PackedTrees, units: AnyArray
) -> tuple[jax.Array, jax.Array]:
    """Predict every row, shape (n_rows, n_outputs); return also whether x is finite."""
    codes = jnp.zeros((len(x), 0), jnp.int32)
    value = values_of(packed, standardised(x, scaling), codes).T.astype(units.dtype)
    value = (units[0] + units[1] * value).astype(jnp.float32)
    return value, jnp.isfinite(x).all()
