"""Weighted sums of the predictions of many trees."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from secret_jax.data.rows import Table
from secret_jax.runtime.programs import program
from secret_jax.runtime.shapes import bucket, padded
from secret_jax.tree.leaf_bits import N_BITS, LeafBits, leaf_bits, sum_by_bits
from secret_jax.tree.routing import (
    _computed,
    _Routing,
    _routing,
    _value,
    descend,
    leaf_place,
    values_at,
)
from secret_jax.tree.structure import Tree, joined

# Maximum number of rows summed on the host, where calling a program is not worth it.
_FEW_ROWS = 128
# Pairs of a row and a tree that are looked at together on the host.
_MOST_PAIRS = 1 << 16
# Minimum number of trees after padding, so that few programs are compiled.
_FEWEST_TREES = 16


class TreeSum:
    """Weighted sum of trees of one schema, with cached arrays.

    Parameters
    ----------
    steps : ndarray of shape (n_trees,), float64
        Weight of each tree.
    """

    def __init__(self, trees: list[Tree], steps: np.ndarray):
        self.trees, self.steps = trees, np.asarray(steps, np.float64)
        self._depth = max((tree.max_depth for tree in trees), default=0)
        self._are_small = all(tree.n_leaves <= N_BITS for tree in trees)
        self._stack: tuple[_Routing | LeafBits, np.ndarray] | None = None
        self._forest: tuple[Tree, np.ndarray] | None = None

    def values(
        self, table: Table, first: int = 0, last: int | None = None
    ) -> np.ndarray:
        """Sum the predictions of trees ``first`` up to, but without, ``last``.

        Returns
        -------
        ndarray of shape (n_rows, n_outputs), float64
            In standardised units.
        """
        last = len(self.trees) if last is None else last
        if len(table.x) <= _FEW_ROWS:
            return self._of_few(table.on_host(), first, last)
        bounds = np.int32(first), np.int32(last)
        stack, steps = self._padded()
        if self._are_small:
            (found,) = _computed(sum_by_bits, table, stack, steps, *bounds)
        else:
            depth = np.int32(self._depth)
            (found,) = _computed(_sum_of_trees, table, stack, steps, *bounds, depth)
        return found.T.astype(np.float64)

    def _of_few(self, table: Table, first: int, last: int) -> np.ndarray:
        if self._forest is None:
            size = [tree.n_nodes for tree in self.trees]
            self._forest = joined(self.trees), np.cumsum(size) - size
        forest, root = self._forest
        n_rows = len(table.x)
        total = np.zeros((n_rows, forest.n_outputs))
        together = max(1, _MOST_PAIRS // max(n_rows, 1))
        for begin in range(first, last, together):
            some = np.arange(begin, min(begin + together, last))
            pairs = table.take(np.tile(np.arange(n_rows), len(some)))
            node = descend(forest, pairs, np.repeat(root[some], n_rows), self._depth)
            value = values_at(forest, pairs, node).reshape(len(some), n_rows, -1)
            total += np.einsum("t,tno->no", self.steps[some], value)
        return total

    def _padded(self) -> tuple[_Routing | LeafBits, np.ndarray]:
        """Pad the trees to few shapes for the compiled sum; cached."""
        if self._stack is None:
            n_trees = bucket(len(self.trees), smallest=_FEWEST_TREES)
            steps = padded(self.steps.astype(np.float32), n_trees)
            if self._are_small:
                self._stack = leaf_bits(self.trees, n_trees), steps
                return self._stack
            each = [_routing(tree) for tree in self.trees]

            def stacked(*arrays: np.ndarray) -> np.ndarray:
                longest = max(len(array) for array in arrays)
                same = [padded(array, longest) for array in arrays]
                return padded(np.stack(same), n_trees)

            self._stack = _Routing(*map(stacked, *each)), steps
        return self._stack


@program()
def _sum_of_trees(
    stack: _Routing,
    x: jax.Array,
    codes: jax.Array,
    steps: jax.Array,
    first: jax.Array,
    last: jax.Array,
    depth: jax.Array,
) -> tuple[jax.Array]:
    """Sum the weighted predictions of trees in turn, (n_outputs, n_rows)."""

    def add(which: jax.Array, total: jax.Array) -> jax.Array:
        routing = jax.tree.map(lambda array: array[which], stack)
        place = leaf_place(routing, x, codes, depth)
        return total + steps[which] * _value(routing, x, place)

    n_outputs = stack.coefficient.shape[2]
    nothing = jnp.zeros((n_outputs, x.shape[0]), x.dtype)
    return (jax.lax.fori_loop(first, last, add, nothing),)
