"""Rows of the nodes of a level on a processor: arrays of NumPy, nothing compiled.

The rows of a node are neighbours, nodes one after the other, none of them empty. The
axis of rows is the last one of every array of rows, and the axis of nodes the first one
of every array of nodes. `secret_jax.data.tiles` has the same verbs for accelerators.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Float, Int, Shaped
from scipy.sparse import csc_array

from secret_jax.data import mixtures
from secret_jax.runtime.parallel import shared

# What is known of nodes, and of rows.
OfNodes: TypeAlias = Shaped[np.ndarray, "n_nodes ..."]
OfRows: TypeAlias = Shaped[np.ndarray, "... n_rows"]
# All bits of a number but that of its sign.
_REST = np.int32(2**31 - 1)
# Numbers of a row times rows that are worked on at once: they stay in a cache.
_CACHED = 1 << 17
# Blocks from which on it is worth to share them among threads.
_SHARED = 4
# Rows from which on other threads are let run beside a product.
_SEVERAL = 2048
# Fewer rows of a node are chosen from row by row in less time than node by node.
_FEW = 256
# Fewer rows that nobody asked for take less time than to begin anew behind them.
_SMALL_GAP = 512


class RaggedRows:
    """Which rows are of which node, and the sums of what is known of the rows.

    Parameters
    ----------
    length : ndarray of shape (n_nodes,), int
        Number of rows of each node, at least one.

    Attributes
    ----------
    n_nodes, n_rows, longest : int
        Number of nodes, of all rows, and of the rows of the longest node.
    first : ndarray of shape (n_nodes,), int
        First row of each node.
    """

    xp: Any = np

    def __init__(self, length: Int[np.ndarray, " n_nodes"]):
        self.length = np.asarray(length)
        self.n_nodes, self.longest = len(self.length), int(self.length.max(initial=0))
        self._stop = np.cumsum(self.length)
        self.first = self._stop - self.length
        self.n_rows = int(self._stop[-1]) if self.n_nodes else 0
        self._last_blocks: tuple[Any, list] = None, []
        self._heads: dict[int, tuple[np.ndarray, np.ndarray | None]] = {}

    @cached_property
    def slot(self) -> np.ndarray:
        """Node of each row, (n_rows,)."""
        return np.repeat(np.arange(self.n_nodes), self.length)

    @cached_property
    def _alike(self) -> list[tuple[int, slice, slice]]:
        """Neighbouring nodes of one length: how many, which, and their rows."""
        starts = np.flatnonzero(self.length[1:] != self.length[:-1]) + 1
        nodes = [0, *starts.tolist(), self.n_nodes]
        rows = [0, *self.first[starts].tolist(), self.n_rows]
        count = np.diff(nodes).tolist()
        slices = (map(slice, edges, edges[1:]) for edges in (nodes, rows))
        return list(zip(count, *slices, strict=True))

    def spread(self, values: OfNodes) -> OfRows:
        """What each row's node has, or one number for all rows of a single node."""
        values = values.transpose(*range(1, values.ndim), 0)
        return values if self.n_nodes == 1 else values.repeat(self.length, axis=-1)

    def sums(self, values: OfRows) -> OfNodes:
        """Sums over the rows of each node; in float64, as long sums lose digits."""
        found = np.add.reduceat(values, self.first, axis=-1, dtype=np.float64)
        dtype = np.result_type(values.dtype, np.int8)  # truth values are counted
        return found.transpose(-1, *range(found.ndim - 1)).astype(dtype)

    def least(self, values: OfRows) -> OfNodes:
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
        dtype = np.result_type(left, right)
        found = np.empty((self.n_nodes, len(left), len(right)), dtype)
        turned = right.T
        product = np.matmul if self.longest < _SEVERAL else _product
        for n_nodes, nodes, rows in self._alike:
            if n_nodes == 1:
                product(left[:, rows], turned[rows], out=found[nodes.start])
            else:
                first = _by_node(left[:, rows], n_nodes)
                second = _by_node(right[:, rows], n_nodes).swapaxes(1, 2)
                np.matmul(first, second, out=found[nodes])
        return found

    def transformed(
        self,
        matrices: Float[np.ndarray, "n_nodes m n"],
        values: Float[np.ndarray, "n n_rows"],
    ) -> Float[np.ndarray, "m n_rows"]:
        """Each row by the matrix of its node."""
        found = np.empty((matrices.shape[1], values.shape[1]), values.dtype)
        for n_nodes, nodes, rows in self._alike:
            own, out = values[:, rows], found[:, rows]
            if n_nodes == 1:
                np.matmul(matrices[nodes.start], own, out=out)
            else:
                out = _by_node(out, n_nodes)
                np.matmul(matrices[nodes], _by_node(own, n_nodes), out=out)
        return found

    def sums_by_code(
        self,
        code: Int[np.ndarray, "n_attributes n_rows"],
        n_codes: int,
        values: Float[np.ndarray, "m n_rows"],
    ) -> Float[np.ndarray, "n_nodes n_attributes m n_codes"]:
        """Sums over the rows of each node with each code of each attribute."""
        found = self._member(code, n_codes) @ np.ascontiguousarray(values.T)
        shape = n_codes, self.n_nodes, len(code), len(values)
        return found.reshape(shape).transpose(1, 2, 3, 0)

    def moments_below(
        self,
        values: Float[np.ndarray, "d n_rows"],
        cuts: Float[np.ndarray, "n_nodes d n_cuts"],
        of: Float[np.ndarray, "m n_rows"],
        weight: Float[np.ndarray, " n_rows"],
    ) -> tuple[
        Float[np.ndarray, "n_nodes d m n_cuts"], Float[np.ndarray, "n_nodes d 2 n_cuts"]
    ]:
        """Sums over the rows whose value is at most a cut; cuts rise.

        Of ``of``, and of the values and their squares, weighted.
        """
        shape = cuts.shape[-1] + 1, self.n_nodes, len(values)
        # How many cuts of their node are below the values.
        code = np.zeros(values.shape, np.min_scalar_type(cuts.shape[-1]))
        for cut in np.ascontiguousarray(cuts.transpose(2, 1, 0)):
            above = values > cut.repeat(self.length, axis=-1)
            code += above.view(np.uint8)
        member = self._member(code, shape[0])
        found = _running(member @ np.ascontiguousarray(of.T), (*shape, len(of)))
        own = np.empty((np.prod(shape), 2), values.dtype)
        member.data = values.T.ravel()
        own[:, 0] = member @ weight
        member.data = member.data**2
        own[:, 1] = member @ weight
        return found, _running(own, (*shape, 2))

    def _member(self, code: np.ndarray, n_codes: int) -> csc_array:
        """Which rows are of which code, node and attribute, (cells, n_rows).

        A product with it sums rows up in 3 ns for each of them and an attribute.
        """
        n_attributes, n_rows = code.shape
        cells = self.n_nodes * n_attributes
        many = max(n_codes * cells, n_attributes * n_rows) > np.iinfo(np.int32).max
        dtype = np.int64 if many else np.int32
        cell = np.multiply(code, cells, dtype=dtype)
        cell += n_attributes * self.slot.astype(dtype)
        cell += np.arange(n_attributes, dtype=dtype)[:, None]
        member = csc_array((n_codes * cells, n_rows), dtype=np.float32)
        # What is set afterwards is not looked through.
        member.data = np.ones(cell.size, np.float32)
        member.indices = cell.T.ravel()
        member.indptr = n_attributes * np.arange(n_rows + 1, dtype=dtype)
        return member

    def chosen(
        self,
        index: Int[np.ndarray, "n_nodes k"],
        values: Shaped[np.ndarray, "n n_rows"],
    ) -> Shaped[np.ndarray, "k n_rows"]:
        """Of each row the values that its node chooses."""
        if self.n_rows < _FEW * self.n_nodes:
            return values[self.spread(index), np.arange(self.n_rows)]
        found = np.empty((index.shape[1], values.shape[1]), values.dtype)
        edges = zip(index, self.first.tolist(), self._stop.tolist(), strict=True)
        for which, first, stop in edges:
            found[:, first:stop] = values[which, first:stop]
        return found

    def looked_up(
        self,
        table: Shaped[np.ndarray, "n_nodes k n_codes"],
        code: Int[np.ndarray, "k n_rows"],
    ) -> Shaped[np.ndarray, "k n_rows"]:
        """What the tables of each row's node have at its codes."""
        return table[self.slot, np.arange(len(code))[:, None], code]

    def head(self, values: OfRows, n: int) -> OfNodes:
        """The first rows of each node, which are a random sample; zero beyond them."""
        if n not in self._heads:
            column = np.arange(n)
            beyond = column >= self.length[:, None]
            place = np.where(beyond, 0, self.first[:, None] + column)
            self._heads[n] = place, beyond if beyond.any() else None
        place, beyond = self._heads[n]
        found = values.take(place, axis=-1)
        if beyond is not None:
            found[..., beyond] = 0
        return found.transpose(values.ndim - 1, *range(values.ndim - 1), values.ndim)

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
        blocks = self._blocks(row_arrays, going)
        parts = _of_blocks(function, blocks, node_values, row_arrays)
        if len(blocks) == 1 and blocks[0][0].n_nodes == self.n_nodes:
            return parts[0]
        found: list[np.ndarray] = []
        for sums in zip(*parts, strict=True):
            every = np.zeros((self.n_nodes, *sums[0].shape[1:]), np.float64)
            for (_, nodes, _), some in zip(blocks, sums, strict=True):
                every[nodes] += some
            found.append(every.astype(sums[0].dtype))
        return tuple(found)

    def each(
        self,
        function: Callable[[Any, Any, Any], tuple[np.ndarray, ...]],
        node_values: Sequence[np.ndarray],
        row_arrays: Sequence[np.ndarray],
    ) -> tuple[np.ndarray, ...]:
        """Arrays of rows that a function makes of some rows, block by block."""
        blocks = self._blocks(row_arrays, None)
        parts = _of_blocks(function, blocks, node_values, row_arrays)
        found: list[np.ndarray] = []
        for arrays in zip(*parts, strict=True):
            shape = *arrays[0].shape[:-1], self.n_rows
            every = np.empty(shape, arrays[0].dtype)
            for (_, _, rows), some in zip(blocks, arrays, strict=True):
                every[..., rows] = some
            found.append(every)
        return tuple(found)

    def expectation(
        self, forms: Sequence[OfNodes], z: OfRows, weight: OfRows, going: np.ndarray
    ) -> tuple[OfNodes, ...]:
        """E step of mixtures of two Gaussians; zeros in nodes that are not ``going``.

        See `secret_jax.data.mixtures.expectation`.
        """
        return self.total(mixtures.expectation, forms, (z, weight), going)

    def at_share(
        self,
        values: Shaped[np.ndarray, "... n_rows"],
        weight: Float[np.ndarray, " n_rows"],
        share: Float[np.ndarray, "n_nodes k"],
    ) -> Shaped[np.ndarray, "n_nodes ... k"]:
        """The rows at some shares of the weight, as it adds up row by row.

        ``share``: in (0, 1).
        """
        below = np.cumsum(weight, dtype=np.float64)
        last = below[self._stop - 1]
        start = below[self.first] - weight[self.first]
        wanted = start[:, None] + share * (last - start)[:, None]
        row = np.searchsorted(below, wanted, side="right")
        # Rounding must not lead beyond the last row of some weight.
        row = np.minimum(row, np.searchsorted(below, last)[:, None])
        row = np.clip(row, self.first[:, None], self._stop[:, None] - 1)
        return np.moveaxis(values[..., row], -2, 0)

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
        place = np.arange(values.shape[-1], dtype=np.int32)
        one_zero = values + np.float32(0)  # zero has one sign
        order = sorted_pairs(one_zero, place.view(np.float32))[1].view(np.int32)
        order = order.astype(np.intp)
        if self.n_nodes == 1:
            return order
        # Keys of two bytes are sorted by counting.
        slot = self.slot.astype(np.min_scalar_type(self.n_nodes))
        by_node = np.argsort(slot[order], axis=-1, kind="stable")
        return np.take_along_axis(order, by_node, axis=-1)

    def _blocks(
        self, row_arrays: Sequence[np.ndarray], going: np.ndarray | None
    ) -> list[tuple[RaggedRows, slice, slice]]:
        """Neighbouring nodes, or parts of one, that fit into a cache.

        Those of the last time are kept: an iteration asks for the same many times.
        """
        width = max(sum(array.size for array in row_arrays) // self.n_rows, 1)
        most = max(_CACHED // width, 256)
        key = most, None if going is None else going.tobytes()
        last, blocks = self._last_blocks
        if key == last:
            return blocks
        first, stop = self.first.tolist(), self._stop.tolist()
        wanted = np.arange(self.n_nodes) if going is None else np.flatnonzero(going)
        runs: list[list[int]] = []  # first and last node
        for node in wanted.tolist():
            if (
                runs
                and stop[node] - first[runs[-1][0]] <= most
                and first[node] - stop[runs[-1][1]] <= _SMALL_GAP
            ):
                runs[-1][1] = node
            else:
                runs.append([node, node])
        blocks = []
        for begin, end in runs:
            nodes, rows = slice(begin, end + 1), slice(first[begin], stop[end])
            if begin < end:
                blocks.append((RaggedRows(self.length[nodes]), nodes, rows))
                continue
            for start in range(rows.start, rows.stop, most):
                part = slice(start, min(start + most, rows.stop))
                blocks.append((RaggedRows(np.array([part.stop - start])), nodes, part))
        self._last_blocks = key, blocks
        return blocks


def sorted_pairs(
    values: Float[np.ndarray, "... n"], others: Float[np.ndarray, "... n"]
) -> tuple[np.ndarray, np.ndarray]:
    """Rising values along the last axis, with what belongs to them; all float32.

    ``others``: not negative; they may be broadcast, and rise where values are equal.
    What is no number counts as infinite. Whole numbers of eight bytes are sorted six
    times as fast as places of others.
    """
    values = np.fmin(values, np.float32(np.inf))
    pairs = np.empty((*values.shape, 2), "<i4")
    pairs[..., 0] = others.view(np.int32)
    pairs[..., 1] = _rising(values.view(np.int32))
    pairs.view("<i8")[..., 0].sort(axis=-1)
    return _rising(pairs[..., 1]).view(np.float32), pairs[..., 0].view(np.float32)


def _rising(bits: np.ndarray) -> np.ndarray:
    """Whole numbers in the order of floats, by their bits, or the bits by these."""
    return bits ^ ((bits >> 31) & _REST)  # negative ones fall


def _of_blocks(
    function: Callable[[Any, Any, Any], tuple[np.ndarray, ...]],
    blocks: Sequence[tuple[RaggedRows, slice, slice]],
    node_values: Sequence[np.ndarray],
    row_arrays: Sequence[np.ndarray],
) -> list[tuple[np.ndarray, ...]]:
    """What a function makes of each block, many of them in threads."""

    def of_block(block: tuple[RaggedRows, slice, slice]) -> tuple[np.ndarray, ...]:
        part, nodes, rows = block
        own = [values[nodes] for values in node_values]
        return tuple(function(part, own, [array[..., rows] for array in row_arrays]))

    if len(blocks) < _SHARED:
        return list(map(of_block, blocks))
    return shared(of_block, blocks)


def _by_node(values: np.ndarray, n_nodes: int) -> np.ndarray:
    """Rows (m, n_nodes * length) of nodes of one length as (n_nodes, m, length)."""
    m, n_rows = values.shape
    return values.reshape(m, n_nodes, n_rows // n_nodes).swapaxes(0, 1)


def _product(left: np.ndarray, right: np.ndarray, out: np.ndarray) -> None:
    """Product of matrices (m, n_rows) and (n_rows, n), in pieces if there are many."""
    (m, n_rows), n = left.shape, right.shape[1]
    # NumPy lets other threads run where it makes more than 500 numbers.
    n_pieces = 1 if n_rows < _SEVERAL else 500 // max(m * n, 1) + 1
    if n_pieces == 1:
        np.matmul(left, right, out=out)
        return
    length = n_rows // n_pieces
    stop = n_pieces * length
    first = left[:, :stop].reshape(m, n_pieces, length).swapaxes(0, 1)
    second = right.T[:, :stop].reshape(n, n_pieces, length).swapaxes(0, 1)
    np.matmul(first, second.swapaxes(1, 2)).sum(axis=0, out=out)
    if stop < n_rows:
        out += np.matmul(left[:, stop:], right[stop:])


def _running(sums: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Sums (n_codes, n_nodes, d, m) of all codes up to each, but the last one.

    Returned as (n_nodes, d, m, n_codes - 1). A product with ones takes a tenth of the
    time of `numpy.cumsum`.
    """
    of_codes = sums.reshape(shape[0], -1)[:-1]
    below = np.tri(len(of_codes), dtype=sums.dtype) @ of_codes
    return np.ascontiguousarray(below.T).reshape(*shape[1:], shape[0] - 1)
