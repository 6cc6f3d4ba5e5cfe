"""Rows in blocks: through NumPy on processors, through programs on accelerators."""

import weakref
from collections.abc import Callable
from typing import Any, TypeVar

import jax
import numpy as np

from secret_jax.data.encoding import Unencoded
from secret_jax.data.rows import Table
from secret_jax.data.shards import block_of
from secret_jax.runtime.devices import in_32_bits, rows_at_once
from secret_jax.runtime.parallel import (
    N_WORKERS,
    ROW_BLOCK,
    in_blocks,
    one_thread_for_products,
    side_by_side,
)
from secret_jax.runtime.shapes import bucket, next_power_of_two
from secret_jax.tree.structure import Tree

_Made = TypeVar("_Made")

# Maximum number of rows, and of pairs of a row and a tree, that are walked, as calls
# cost more then than work (measured on processors, of trees of 24 and 150 leaves).
FEW_ROWS, FEW_PAIRS = 1 << 10, 1 << 12
# Minimum block: padding costs less than a program of its own. Maximum number of values
# in a block of a program: they stay in a processor's cache (4 MiB).
_SMALLEST_BLOCK, _BLOCK_NUMBERS = 1024, 1 << 20
# The same for NumPy, in bytes of a block, and the minimum and maximum number of rows:
# threads wait for each other between calls, which therefore take many rows.
_HOST_BYTES, _ROWS_PER_THREAD, _HOST_ROWS = 1 << 24, 1 << 14, 1 << 14

# What was made of a tree when it was first used; trees never change.
_MADE: weakref.WeakKeyDictionary[Tree, dict[Callable, Any]] = (
    weakref.WeakKeyDictionary()
)


def made_of(tree: Tree) -> dict[Callable, Any]:
    """What was made of a tree, by what made it; it must not hold the tree."""
    return _MADE.setdefault(tree, {})


def once(tree: Tree, make: Callable[[Tree], _Made]) -> _Made:
    """Make something of a tree when it is first asked."""
    made = made_of(tree)
    if make not in made:
        made[make] = make(tree)
    return made[make]


def are_few(n_rows: int, n_trees: int = 1) -> bool:
    """Whether rows are walked down trees, not decided at all comparisons at once."""
    return n_rows <= FEW_ROWS and n_rows * n_trees <= FEW_PAIRS


def by_rows(
    function: Callable[[Table], np.ndarray],
    table: Table | Unencoded,
    n_bits: int,
    shape: tuple[int, ...],
    dtype: type,
) -> np.ndarray:
    """Apply a function to blocks of rows, in threads, and put its results together."""
    n_rows, n_columns = shape_of(table)
    found = np.empty((n_rows, *shape), dtype)
    block = table.block if isinstance(table, Unencoded) else table.on_host().take
    row_bytes = max(2 * n_bits + 20 * n_columns, 1)
    most = max(_HOST_BYTES // row_bytes, _SMALLEST_BLOCK)
    size = min(most, _HOST_ROWS, max(-(-n_rows // N_WORKERS), _ROWS_PER_THREAD))
    starts = iter(range(0, n_rows, size))  # of which every thread takes the next one

    def fill(_: int) -> None:
        for start in starts:
            rows = slice(start, min(start + size, n_rows))
            found[rows] = function(block(rows))

    n_threads = min(-(-n_rows // size), N_WORKERS)
    with one_thread_for_products():
        if n_threads == 1:
            fill(0)
        else:
            side_by_side(fill, range(n_threads))
    return found


def computed(
    function: Callable[..., tuple[jax.Array]],
    table: Table | Unencoded,
    n_leaves: int,
    *arrays: Any,
) -> np.ndarray:
    """Apply a compiled function to padded blocks of rows, and concatenate.

    ``n_leaves``: of a tree. A row's result does not depend on the other rows of its
    block, nor on the block.
    """
    n_rows, n_columns = shape_of(table)
    # Memory for the decisions at all splits, but on a processor a cache for few.
    width = n_leaves + 2 * n_columns
    usual = max(
        _SMALLEST_BLOCK, min(ROW_BLOCK, next_power_of_two(_BLOCK_NUMBERS // width))
    )
    size = min(bucket(n_rows, smallest=_SMALLEST_BLOCK), rows_at_once(4 * width, usual))
    with in_32_bits():
        arrays = jax.device_put(arrays)

    def run(rows: slice) -> np.ndarray:
        n_inside = rows.stop - rows.start
        with in_32_bits():
            if isinstance(table, Unencoded):
                block, rows = table.block(rows), slice(0, n_inside)
            else:
                block = table
            x, codes = (block_of(array, rows, size) for array in block)
            (found,) = function(x, codes, *arrays)
        return np.asarray(found)[..., :n_inside]

    return np.concatenate(list(in_blocks(run, n_rows, size)), axis=-1)


def on_host(table: Table | Unencoded) -> Table:
    """Rows, encoded, in the memory of the host."""
    return table.encoded() if isinstance(table, Unencoded) else table.on_host()


def shape_of(table: Table | Unencoded) -> tuple[int, int]:
    """Numbers of rows and of encoded columns."""
    if isinstance(table, Unencoded):
        return len(table.columns.codes), table.schema.n_columns
    return table.x.shape
