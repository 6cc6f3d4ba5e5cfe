"""Rows of the nodes of a level on a processor: arrays of NumPy, nothing compiled.

The rows of a node are neighbours, nodes one after the other, none of them empty. The
axis of rows is the last one of every array of rows, and the axis of nodes the first one
of every array of nodes. `secret_jax.rows.tiles` has the same verbs for accelerators.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float, Int, Shaped
from scipy.sparse import csc_array

# Rows that are added up in float32 before float64 goes on: a sum of more loses digits.
_PIECE = 4096
# The bit that says that a number is negative.
_SIGN = np.int32(-(2**31))
# Numbers of a row times rows that are worked on at once: they stay in a cache.
_CACHED = 1 << 16


class RaggedRows:
    """Which rows are of which node, and the sums of what is known of the rows.

    Parameters
    ----------
    length : ndarray of shape (n_nodes,), int
        Number of rows of each node, at least one.
    """

    xp: Any = np

    def __init__(self, length: Int[np.ndarray, " n_nodes"]):
        self.length = np.asarray(length)

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return len(self.length)

    @cached_property
    def first(self) -> np.ndarray:
        """First row of each node, (n_nodes,)."""
        return np.cumsum(self.length) - self.length

    @cached_property
    def slot(self) -> np.ndarray:
        """Node of each row, (n_rows,)."""
        return np.repeat(np.arange(self.n_nodes), self.length)

    @cached_property
    def _slices(self) -> list[slice]:
        stop = self.first + self.length
        return list(map(slice, self.first.tolist(), stop.tolist()))

    @cached_property
    def _pieces(self) -> tuple[np.ndarray, np.ndarray]:
        """First row of each piece of a node, and first piece of each node."""
        number = -(-self.length // _PIECE)
        first = np.cumsum(number) - number
        nth = np.arange(number.sum()) - np.repeat(first, number)
        return np.repeat(self.first, number) + _PIECE * nth, first

    def spread(
        self, values: Shaped[np.ndarray, "n_nodes ..."]
    ) -> Shaped[np.ndarray, "... n_rows"]:
        """What each row's node has."""
        last = np.ascontiguousarray(np.moveaxis(values, 0, -1))
        return last if self.n_nodes == 1 else np.repeat(last, self.length, axis=-1)

    def sums(
        self, values: Shaped[np.ndarray, "... n_rows"]
    ) -> Shaped[np.ndarray, "n_nodes ..."]:
        """Sums over the rows of each node."""
        start, first = self._pieces
        found = np.add.reduceat(values, start, axis=-1)
        if len(start) > self.n_nodes:
            found = np.add.reduceat(found, first, axis=-1, dtype=np.float64)
        return np.moveaxis(found, -1, 0).astype(values.dtype, copy=False)

    def least(
        self, values: Shaped[np.ndarray, "... n_rows"]
    ) -> Shaped[np.ndarray, "n_nodes ..."]:
        """Smallest value among the rows of each node."""
        return np.moveaxis(np.minimum.reduceat(values, self.first, axis=-1), -1, 0)

    def products(
        self,
        left: Float[np.ndarray, "... m n_rows"],
        right: Float[np.ndarray, "... n n_rows"],
    ) -> Float[np.ndarray, "n_nodes ... m n"]:
        """Sums of products of two lists of numbers of the rows."""
        if left.ndim > 2:
            each = [self.products(*pair) for pair in zip(left, right, strict=True)]
            return np.stack(each, axis=1)
        found = np.empty((self.n_nodes, len(left), len(right)), left.dtype)
        for node, rows in enumerate(self._slices):
            # Not by `numpy.matmul`, which lets no other thread run for so few results.
            np.dot(left[:, rows], right[:, rows].T, out=found[node])
        return found

    def transformed(
        self,
        matrices: Float[np.ndarray, "n_nodes m n"],
        values: Float[np.ndarray, "n n_rows"],
    ) -> Float[np.ndarray, "m n_rows"]:
        """Each row by the matrix of its node."""
        found = np.empty((matrices.shape[1], values.shape[1]), values.dtype)
        if self.n_nodes == 1:
            return np.dot(matrices[0], values, out=found)
        for matrix, rows in zip(matrices, self._slices, strict=True):
            found[:, rows] = np.dot(matrix, values[:, rows])
        return found

    def sums_by_code(
        self,
        code: Int[np.ndarray, "n_attributes n_rows"],
        n_codes: int,
        values: Float[np.ndarray, "m n_rows"],
    ) -> Float[np.ndarray, "n_nodes n_attributes m n_codes"]:
        """Sums over the rows of each node with each code of each attribute."""
        n_attributes, n_rows = code.shape
        shape = n_codes, self.n_nodes, n_attributes, len(values)
        if not n_attributes:
            return np.moveaxis(np.zeros(shape, values.dtype), 0, -1)
        cells = self.n_nodes * n_attributes
        position = code.T * np.int32(cells)
        position += n_attributes * self.slot[:, None]
        position += np.arange(n_attributes, dtype=np.int32)
        ones = np.ones(position.size, values.dtype)
        starts = np.arange(0, position.size + 1, n_attributes, dtype=np.int32)
        # One product with the matrix of who is where: 3 ns for a row and attribute.
        member = csc_array(
            (ones, position.ravel(), starts), shape=(n_codes * cells, n_rows)
        )
        found = (member @ np.ascontiguousarray(values.T)).reshape(shape)
        return np.moveaxis(found, 0, -1)

    def sums_below(
        self,
        values: Float[np.ndarray, "d n_rows"],
        cuts: Float[np.ndarray, "n_nodes d n_cuts"],
        of: Float[np.ndarray, "m n_rows"],
    ) -> Float[np.ndarray, "n_nodes d m n_cuts"]:
        """Sums over the rows whose value is at most a cut; cuts rise."""
        code = np.zeros(values.shape, np.int32)
        for cut in np.moveaxis(cuts, -1, 0):
            code += values > self.spread(cut)
        n_cuts = cuts.shape[-1]
        found = self.sums_by_code(code, n_cuts + 1, of)
        return np.cumsum(found[..., :n_cuts], axis=-1)

    def head(
        self, values: Shaped[np.ndarray, "... n_rows"], n: int
    ) -> Shaped[np.ndarray, "n_nodes ... n"]:
        """The first rows of each node, which are a random sample; zero beyond them."""
        column = np.arange(n)
        inside = column < self.length[:, None]
        place = np.where(inside, self.first[:, None] + column, 0)
        found = np.where(inside, values[..., place], np.zeros((), values.dtype))
        return np.moveaxis(found, -2, 0)

    def total(
        self,
        function: Callable[[Any, Any, Any], tuple[np.ndarray, ...]],
        node_values: Sequence[np.ndarray],
        row_arrays: Sequence[np.ndarray],
        going: np.ndarray | None = None,
    ) -> tuple[np.ndarray, ...]:
        """Sums that a function makes of some rows, block by block.

        Parameters
        ----------
        function : callable
            From rows, the values of their nodes and what is known of them to a tuple of
            arrays of nodes that add up over rows.
        node_values : sequence of ndarray of shape (n_nodes, ...)
        row_arrays : sequence of ndarray of shape (..., n_rows)
        going : ndarray of shape (n_nodes,), bool, or None
            Nodes that are needed; others get zeros.
        """
        found: list[np.ndarray] = []
        for part, nodes, rows in self._blocks(row_arrays, going):
            own = [values[nodes] for values in node_values]
            sums = function(part, own, [array[..., rows] for array in row_arrays])
            if not found:
                shapes = ((self.n_nodes, *each.shape[1:]) for each in sums)
                found = [np.zeros(shape, np.float64) for shape in shapes]
            for all_sums, some in zip(found, sums, strict=True):
                all_sums[nodes] += some
        dtype = row_arrays[0].dtype
        return tuple(array.astype(dtype) for array in found)

    def each(
        self,
        function: Callable[[Any, Any, Any], tuple[np.ndarray, ...]],
        node_values: Sequence[np.ndarray],
        row_arrays: Sequence[np.ndarray],
    ) -> tuple[np.ndarray, ...]:
        """Arrays of rows that a function makes of some rows, block by block."""
        found: list[np.ndarray] = []
        for part, nodes, rows in self._blocks(row_arrays, None):
            own = [values[nodes] for values in node_values]
            some = function(part, own, [array[..., rows] for array in row_arrays])
            if not found:
                n_rows = len(self.slot)
                shapes = ((*array.shape[:-1], n_rows) for array in some)
                found = [
                    np.empty(shape, array.dtype)
                    for shape, array in zip(shapes, some, strict=True)
                ]
            for every, array in zip(found, some, strict=True):
                every[..., rows] = array
        return tuple(found)

    def take(
        self, nodes: Shaped[np.ndarray, " k"]
    ) -> tuple[RaggedRows, Int[np.ndarray, " n_rows"]]:
        """Select nodes, by position or by a mask; also where their rows were."""
        length, first = self.length[nodes], self.first[nodes]
        chosen = RaggedRows(length)
        place = np.arange(length.sum())
        return chosen, place + np.repeat(first - chosen.first, length)

    def sorted_by(
        self, values: Float[np.ndarray, "n_attributes n_rows"]
    ) -> Int[np.ndarray, "n_attributes n_rows"]:
        """Positions of the rows of each node in the order of each attribute.

        Of equal values the first row comes first. Values are float32.
        """
        # Whole numbers in the order of the values: negative ones the other way round.
        bits = (values + np.float32(0)).view(np.int32)  # zero has one sign
        rising = np.where(bits < 0, ~bits, bits | _SIGN).view(np.uint32)
        # Numbers of eight bytes are sorted six times as fast as places of others.
        key = rising.astype(np.uint64) << 32
        key |= np.arange(values.shape[-1], dtype=np.uint64)
        key.sort(axis=-1)
        order = (key & np.uint64(0xFFFFFFFF)).astype(np.intp)
        if self.n_nodes == 1:
            return order
        # Keys of two bytes are sorted by counting.
        slot = self.slot.astype(np.min_scalar_type(self.n_nodes))
        by_node = np.argsort(slot[order], axis=-1, kind="stable")
        return np.take_along_axis(order, by_node, axis=-1)

    def _blocks(
        self, row_arrays: Sequence[np.ndarray], going: np.ndarray | None
    ) -> Iterator[tuple[RaggedRows, slice, slice]]:
        """Neighbouring nodes, or parts of one, that fit into a cache."""
        width = max(
            sum(array.size // max(len(self.slot), 1) for array in row_arrays), 1
        )
        most = max(_CACHED // width, 256)
        nodes = np.arange(self.n_nodes) if going is None else np.flatnonzero(going)
        length, first = self.length.tolist(), self.first.tolist()
        begin = 0
        nodes = nodes.tolist()
        while begin < len(nodes):
            node, stop = nodes[begin], begin + 1
            n_rows = length[node]
            if n_rows > most:
                for start in range(first[node], first[node] + n_rows, most):
                    last = min(start + most, first[node] + n_rows)
                    part = RaggedRows(np.array([last - start]))
                    yield part, slice(node, node + 1), slice(start, last)
                begin += 1
                continue
            while (
                stop < len(nodes)
                and nodes[stop] == node + stop - begin
                and n_rows + length[nodes[stop]] <= most
            ):
                n_rows += length[nodes[stop]]
                stop += 1
            some = slice(node, nodes[stop - 1] + 1)
            rows = slice(first[node], first[node] + n_rows)
            yield RaggedRows(self.length[some]), some, rows
            begin = stop
