"""Type aliases for user input: more telling in signatures than ``Any``.

scikit-learn takes whatever can be read, and checks it when it is given; so does this
package, and a type checker has nothing to refuse.
"""

from typing import Any, TypeAlias

TableLike: TypeAlias = Any
"""Rows of a table: a NumPy array, a DataFrame of pandas or polars, an Arrow table, an
array of JAX, `secret_jax.data.shards.RowShards`, or nested lists."""

ArrayLike: TypeAlias = Any
"""Values for rows, one each, or a column for each output: an array, a Series, a
DataFrame, or a list."""
