"""Leaves of many rows by tables of decisions, in NumPy.

A block of rows is decided at all splits of a tree, and the decisions are bits. Where a
tree has few splits, all bits of a row are one number, and a table says which leaf it
leads to. A larger tree is cut into pieces of at most eight splits, each with a table of
256 numbers: of leaves, and of pieces that the row goes on to. (QuickScorer, Lucchese et
al. 2015, decides all splits likewise, and finds its leaves by masks.)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from secret_jax.data.rows import Table
from secret_jax.tree.structure import SplitKind, Tree

_BYTE = 8
_WORTH = np.uint8(128) >> np.arange(_BYTE, dtype=np.uint8)[:, None, None]
# Minimum number of rows that are worth some more calls.
MANY_ROWS = 4096
# Maximum number of multiplications of a product: small ones stay in a cache, and have a
# way of their own in OpenBLAS.
_PRODUCT = 10**6
# Maximum number of columns of a sum that is added up column by column.
_FEW_COLUMNS = 2


class RowBlock:
    """Rows in the layouts that splits and models read, each made when asked for."""

    def __init__(self, table: Table):
        self.x, self.codes = table.x, table.codes

    def __len__(self) -> int:
        return len(self.x)

    @cached_property
    def design(self) -> np.ndarray:
        """Ones, then the columns, shape (n_rows, 1 + n_columns), float32."""
        design = np.empty((len(self.x), 1 + self.x.shape[1]), np.float32)
        design[:, 0] = 1.0
        design[:, 1:] = self.x
        return design

    @cached_property
    def ranges(self) -> tuple[np.ndarray, np.ndarray]:
        """Least and greatest number of every column, shape (n_columns,) each."""
        return self.columns.min(axis=1), self.columns.max(axis=1)

    @cached_property
    def columns(self) -> np.ndarray:
        """Columns one after the other, shape (n_columns, n_rows), float32."""
        return np.ascontiguousarray(self.x.T)


class _Short(NamedTuple):
    """Continuous split on few columns, with its bit."""

    bit: int
    columns: list[int]
    factors: np.ndarray
    threshold: np.float32


class _Listed(NamedTuple):
    """Discrete split, with its bit; of categories the last one is any unseen."""

    bit: int
    attribute: int
    goes_left: np.ndarray


class Lookup(NamedTuple):
    """Splits of a tree by bits, and the tables that lead from bits to leaves.

    The states of a row are pieces of the tree, then its leaves.

    Attributes
    ----------
    node : ndarray of shape (n_states,), int
        Root of a piece, or leaf.
    weights : ndarray of shape (1 + n_columns, n_bits), float32
        A row goes left where the product of its design with them is not positive.
    short : list of _Short, or None
        Continuous splits, if all are on few columns.
    listed : list of _Listed
    word : dtype
        Of the number that the bits of a piece are a part of.
    place : ndarray of shape (n_states,), int
        Which of the numbers of a row a state reads.
    following : ndarray of shape (n_states * n_numbers,), unsigned int
        State that follows a state and the number that it reads.
    n_steps : int
        Pieces on the longest way to a leaf.
    """

    node: np.ndarray
    weights: np.ndarray
    short: list[_Short] | None
    listed: list[_Listed]
    word: np.dtype
    place: np.ndarray
    following: np.ndarray
    n_steps: int

    def states(self, rows: RowBlock) -> np.ndarray:
        """Find the leaves of rows, as states, shape (n_rows,), unsigned int."""
        if not self.n_steps:
            return np.zeros(len(rows), np.uint8)
        by_columns = self.short is not None and len(rows) >= MANY_ROWS
        numbers = self._by_columns(rows) if by_columns else self._by_product(rows)
        state = self.following.take(numbers[:, self.place[0]])
        if self.n_steps > 1:
            per_row, per_number = (n // self.word.itemsize for n in numbers.strides)
            first, place = np.arange(len(rows)) * per_row, self.place * per_number
            numbers = numbers.ravel(order="K")
        for _ in range(self.n_steps - 1):
            number = numbers.take(first + place.take(state))
            state = self.following.take((state.astype(np.intp) << _BYTE) | number)
        return state

    def _by_product(self, rows: RowBlock) -> np.ndarray:
        """Decide rows at all splits; numbers of bits, shape (n_rows, n_numbers)."""
        n_columns, n_bits = self.weights.shape
        size = max(_PRODUCT // (n_columns * n_bits), 1)
        left = np.empty((len(rows), n_bits), bool)
        product = np.empty((min(size, len(rows)), n_bits), np.float32)
        with np.errstate(over="ignore", invalid="ignore"):
            for start in range(0, len(rows), size):
                part = rows.design[start : start + size]
                np.matmul(part, self.weights, out=product[: len(part)])
                out = left[start : start + size]
                np.less_equal(product[: len(part)], 0, out=out)
        for bit, attribute, goes_left in self.listed:
            left[:, bit] = goes_left.take(rows.codes[:, attribute])
        return np.packbits(left.ravel()).view(self.word).reshape(len(rows), -1)

    def _by_columns(self, rows: RowBlock) -> np.ndarray:
        """Decide rows as `_by_product`, where splits are on few columns."""
        # Bits of one worth side by side, so that few calls pack them.
        left = np.zeros((_BYTE, self.weights.shape[1] // _BYTE, len(rows)), bool)
        for bit, columns, factors, threshold in self.short or ():
            total = rows.columns[columns[0]]
            if len(columns) > 1 or factors[0] != 1:
                total = factors @ rows.columns[columns]
            np.less_equal(total, threshold, out=left[bit % _BYTE, bit // _BYTE])
        for bit, attribute, goes_left in self.listed:
            known = goes_left.take(rows.codes[:, attribute])
            left[bit % _BYTE, bit // _BYTE] = known
        packed = left.view(np.uint8)
        packed *= _WORTH
        numbers = np.bitwise_or.reduce(packed, axis=0).astype(self.word, copy=False)
        if self.word.itemsize > 1:
            numbers = numbers[::2] | (numbers[1::2] << _BYTE)
        return numbers.T


def lookup_of(tree: Tree) -> Lookup:
    """Make the tables of a tree; gates count as hard splits."""
    n_bits = 2 * _BYTE if _BYTE < tree.n_nodes // 2 <= 2 * _BYTE else _BYTE
    pieces, n_steps = _pieces(tree, n_bits)
    place, start = _fitted([len(piece) for piece in pieces], n_bits)
    node = np.r_[[piece[0] for piece in pieces], np.flatnonzero(tree.is_leaf)]
    node = node.astype(np.intp)
    state = np.zeros(tree.n_nodes, np.min_scalar_type(len(node)))
    state[node] = np.arange(len(node))
    # A row that has reached its leaf stays there.
    staying = node if n_steps > 1 else node[: len(pieces)]
    following = np.repeat(state[staying, None], 1 << n_bits, axis=1)
    bit = np.full(tree.n_nodes, -1)
    for piece, nodes in enumerate(pieces):
        table, before = _table(tree, nodes[0], set(nodes), state), start[piece]
        after = n_bits - before - len(nodes)
        following[piece] = np.tile(np.repeat(table, 1 << after), 1 << before)
        bit[nodes] = place[piece] * n_bits + before + np.arange(len(nodes))
    if n_bits > _BYTE:  # the first byte of a number is the lesser one
        bit = np.where(bit >= 0, bit ^ _BYTE, bit)
    inner, discrete = np.flatnonzero(bit >= 0), tree.kind == SplitKind.DISCRETE
    n_numbers = max(place, default=-1) + 1
    weights = np.zeros((1 + tree.direction.shape[1], n_numbers * n_bits), np.float32)
    weights[0] = 1.0  # bits that nobody reads are 0
    weights[0, bit[inner]] = -tree.threshold[inner]
    weights[1:, bit[inner]] = tree.direction[inner].T
    n_columns = (tree.direction[inner[~discrete[inner]]] != 0).sum(axis=1)
    is_short = n_columns.max(initial=0) <= _FEW_COLUMNS
    return Lookup(
        node=node,
        weights=weights,
        short=[_short(tree, n, int(bit[n])) for n in inner[~discrete[inner]]]
        if is_short
        else None,
        listed=[
            _Listed(
                int(bit[n]),
                int(tree.attribute[n]),
                np.r_[tree.goes_left[n], tree.larger_left[n]],
            )
            for n in inner[discrete[inner]]
        ],
        word=np.dtype("<u2" if n_bits > _BYTE else "u1"),
        place=np.r_[place, np.zeros(tree.n_leaves)].astype(np.intp),
        following=following.ravel(),
        n_steps=n_steps,
    )


def _short(tree: Tree, node: int, bit: int) -> _Short:
    columns = np.flatnonzero(tree.direction[node])
    return _Short(
        bit, columns.tolist(), tree.direction[node, columns], tree.threshold[node]
    )


def _pieces(tree: Tree, most: int) -> tuple[list[list[int]], int]:
    """Cut a tree into pieces of connected splits, each in preorder.

    Returns
    -------
    pieces : list of list of int
        Nodes; roots first, and the first piece is that of the root of the tree.
    n_steps : int
        Pieces on the longest way to a leaf.
    """
    height = np.zeros(tree.n_nodes, int)
    for node in np.flatnonzero(~tree.is_leaf)[::-1]:  # parents come first
        height[node] = 1 + max(height[tree.left[node]], height[tree.right[node]])
    pieces, steps, waiting = [], [0], [(0, 1)] if height[0] else []
    for root, step in waiting:
        chosen, below = set(), [root]
        while below and len(chosen) < most:
            node = max(below, key=height.__getitem__)
            below.remove(node)
            chosen.add(node)
            children = int(tree.left[node]), int(tree.right[node])
            below += [child for child in children if height[child]]
        waiting += [(node, step + 1) for node in below]
        pieces.append(list(_preorder(tree, root, chosen)))
        steps.append(step)
    return pieces, max(steps)


def _preorder(tree: Tree, node: int, chosen: set[int]) -> Iterator[int]:
    if node in chosen:
        yield node
        yield from _preorder(tree, int(tree.left[node]), chosen)
        yield from _preorder(tree, int(tree.right[node]), chosen)


def _fitted(sizes: Sequence[int], n_bits: int) -> tuple[list[int], list[int]]:
    """Fit pieces into numbers of bits; return each one's number, and its first bit."""
    place, start, room = [0] * len(sizes), [0] * len(sizes), []
    for piece in sorted(range(len(sizes)), key=lambda piece: -sizes[piece]):
        size = sizes[piece]
        number = next((n for n, free in enumerate(room) if free >= size), len(room))
        if number == len(room):
            room.append(n_bits)
        room[number] -= size
        place[piece], start[piece] = number, room[number]
    return place, start


def _table(tree: Tree, node: int, chosen: set[int], state: np.ndarray) -> np.ndarray:
    """States to which all decisions at splits lead, by their bits in preorder."""
    if node not in chosen:
        return state[node : node + 1]
    left = _table(tree, int(tree.left[node]), chosen, state)
    right = _table(tree, int(tree.right[node]), chosen, state)
    both = np.empty((2, len(left), len(right)), state.dtype)
    both[1], both[0] = left[:, None], right
    return both.ravel()
