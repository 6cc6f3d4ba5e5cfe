"""Decisions of many rows at all splits of some trees, as bits, in NumPy.

Splits on single columns compare the columns one after the other; others are products.
"""

from functools import cached_property
from typing import NamedTuple

import numpy as np

from secret_jax.data.rows import Table
from secret_jax.runtime.scratch import Scratch
from secret_jax.tree.comparisons import Comparisons, comparisons_of
from secret_jax.tree.structure import Tree

BYTE = 8
_WORTH = np.uint8(128) >> np.arange(BYTE, dtype=np.uint8)[:, None, None]
# Minimum number of pairs of a row and a split that are worth some more calls.
_MANY_PAIRS = 1 << 15
# Rows whose products are compared as if they were those of one.
_ROWS_IN_ONE = 64
# Maximum number of multiplications of a product: small ones stay in a cache, and have a
# way of their own in OpenBLAS.
_PRODUCT = 10**6


class RowBlock:
    """Rows in the layouts that splits and models read, each made when asked for."""

    def __init__(self, table: Table, scratch: Scratch):
        (x, self.codes), self.scratch = table, scratch
        self.x = np.asarray(x, np.float32)

    def __len__(self) -> int:
        return len(self.x)

    @cached_property
    def design(self) -> np.ndarray:
        """Ones, then the columns, shape (n_rows, 1 + n_columns), float32."""
        n_rows, n_columns = self.x.shape
        design = self.scratch.array("design", (n_rows, 1 + n_columns), np.float32)
        design[:, 0] = 1.0
        if not self.x.flags.c_contiguous:
            design[:, 1:] = self.x
        elif n_columns:  # rows as records: loops along few columns are slow
            record = np.dtype((np.void, n_columns * design.itemsize))
            records = np.ndarray(
                n_rows, record, design, design.itemsize, design.strides[:1]
            )
            records[:] = self.x.view(record)[:, 0]
        return design

    @cached_property
    def columns(self) -> np.ndarray:
        """Columns one after the other, shape (n_columns, n_rows), float32."""
        if self.x.strides[0] == self.x.itemsize:  # as a block is encoded
            return self.x.T
        columns = self.scratch.array("columns", self.x.shape[::-1], np.float32)
        columns[:] = self.x.T
        return columns

    @cached_property
    def ranges(self) -> tuple[np.ndarray, np.ndarray]:
        """Least and greatest number of every column, shape (n_columns, 1) each."""
        least = self.columns.min(axis=1, keepdims=True)
        return least, self.columns.max(axis=1, keepdims=True)


class _Listed(NamedTuple):
    """Discrete split; of categories the last one is any unseen."""

    bit: int
    attribute: int
    goes_left: np.ndarray


class _Columns(NamedTuple):
    """Continuous splits by their columns."""

    # List of (int, ndarray of shape (n_splits, 1)): columns with the thresholds of the
    # splits on them.
    single: list[tuple[int, np.ndarray]]
    # List of (list of int, ndarray of shape (2,), float32): columns, factors and
    # threshold of further splits.
    pairs: list[tuple[list[int], np.ndarray, np.ndarray]]
    # Which of the comparisons, first these, then the discrete ones, are those of each
    # conjunction.
    conditions: list[list[int]]
    # (8, n_bytes), int: which of them, or conjunction after them, each bit is; one more
    # for bits that nobody reads.
    order: np.ndarray


class Decisions(NamedTuple):
    """Splits of some trees, each with a bit."""

    # Those of all numbers; bits of the conditions of conjunctions come after them.
    n_bits: int
    direction: np.ndarray  # (n_columns, n_bits and more), float32
    # (64 * (n_bits and more),), float32: those of 64 rows: a row goes left where its
    # product is not above it.
    threshold: np.ndarray
    columns: _Columns | None  # None where splits are on several columns
    listed: list[_Listed]
    # Bit of each conjunction, and those of its conditions.
    conditions: list[tuple[int, list[int]]]
    word: np.dtype  # of the numbers that the bits are parts of

    def numbers(self, rows: RowBlock) -> np.ndarray:
        """Decide rows, and read the bits as numbers, shape (n_numbers, n_rows)."""
        n_columns, n_bits = self.direction.shape
        if self.columns and len(rows) * n_bits >= _MANY_PAIRS:
            return self._by_columns(self.columns, rows)
        wide = len(self.threshold)  # NumPy's loops go along the last axis
        size = max(_PRODUCT // (max(n_columns, 1) * wide), 1) * _ROWS_IN_ONE
        n_padded = -(-len(rows) // _ROWS_IN_ONE) * _ROWS_IN_ONE
        left = rows.scratch.array("left", (n_padded, n_bits), bool)
        shape = min(size, n_padded), n_bits
        product = rows.scratch.array("product", shape, np.float32)
        with np.errstate(over="ignore", invalid="ignore"):
            for start in range(0, len(rows), size):
                part = rows.x[start : start + size]
                np.matmul(part, self.direction, out=product[: len(part)])
                out = left[start : start + size].reshape(-1, wide)
                several = product.reshape(-1, wide)[: len(out)]
                np.less_equal(several, self.threshold, out=out)
        left = left[: len(rows)]
        for bit, attribute, goes_left in self.listed:
            left[:, bit] = goes_left.take(rows.codes[:, attribute])
        for bit, conditions in self.conditions:
            left[:, bit] = left[:, conditions].all(axis=1)
        read = left[:, : self.n_bits].ravel()
        return np.packbits(read).view(self.word).reshape(len(rows), -1).T

    def _by_columns(self, columns: _Columns, rows: RowBlock) -> np.ndarray:
        n_splits = sum(len(threshold) for _, threshold in columns.single)
        n_splits += len(columns.pairs) + len(self.listed) + len(columns.conditions)
        left = rows.scratch.array("left", (n_splits + 1, len(rows)), bool)
        stop = 0
        for column, thresholds in columns.single:
            start, stop = stop, stop + len(thresholds)
            np.less_equal(rows.columns[column], thresholds, out=left[start:stop])
        value, term = rows.scratch.array("pair", (2, len(rows)), np.float32)
        for which, factors, threshold in columns.pairs:
            np.multiply(rows.columns[which[0]], factors[0], out=value)
            for column, factor in zip(which[1:], factors[1:], strict=True):
                value += np.multiply(rows.columns[column], factor, out=term)
            np.less_equal(value, threshold, out=left[stop])
            stop += 1
        for _, attribute, goes_left in self.listed:
            left[stop], stop = goes_left.take(rows.codes[:, attribute]), stop + 1
        for conditions in columns.conditions:
            left[stop], stop = left[conditions].all(axis=0), stop + 1
        left[stop] = False
        shape = *columns.order.shape, len(rows)
        packed = rows.scratch.array("packed", shape, np.uint8)
        left.view(np.uint8).take(columns.order, axis=0, out=packed, mode="clip")
        packed *= _WORTH
        numbers = np.bitwise_or.reduce(packed, axis=0).astype(self.word, copy=False)
        if self.word.itemsize > 1:
            numbers = numbers[::2] | (numbers[1::2] << BYTE)
        return numbers


def decisions_of(
    forest: Tree, bit: np.ndarray, n_numbers: int, n_bits: int
) -> Decisions:
    """Collect the splits of trees.

    ``bit`` (n_nodes,), int: bit of every split, -1 of leaves; ``n_numbers``,
    ``n_bits``: numbers of 8 or 16 bits.
    """
    if n_bits > BYTE:  # the first byte of a number is the lesser one
        bit = np.where(bit >= 0, bit ^ BYTE, bit)
    inner, n_read = np.flatnonzero(bit >= 0), n_numbers * n_bits
    compared = comparisons_of(forest, inner)
    n_more = len(compared.node) - len(inner)
    place = np.r_[bit[inner], n_read + np.arange(n_more)]
    direction = np.zeros((forest.direction.shape[1], n_read + n_more), np.float32)
    threshold = np.full(direction.shape[1], -1.0, np.float32)  # unread bits are 0
    direction[:, place] = compared.direction.T
    threshold[place] = compared.threshold
    goes_left = np.c_[compared.goes_left, compared.larger_left]
    listed = [
        _Listed(int(place[which]), int(compared.attribute[which]), goes_left[which])
        for which in compared.discrete
    ]
    conditions = [
        (int(place[which]), place[several].tolist())
        for which, several in compared.conditions
    ]
    columns = _columns_of(compared, place, n_read)
    word = np.dtype("<u2" if n_bits > BYTE else "u1")
    threshold = np.tile(threshold, _ROWS_IN_ONE)
    return Decisions(n_read, direction, threshold, columns, listed, conditions, word)


def _columns_of(
    compared: Comparisons, place: np.ndarray, n_bits: int
) -> _Columns | None:
    conjunction = np.array([which for which, _ in compared.conditions], int)
    discrete = compared.discrete
    others = np.r_[conjunction, discrete]
    continuous = np.setdiff1d(np.arange(len(place)), others)
    used = compared.direction[continuous] != 0
    n_used = used.sum(axis=1)
    if ((n_used < 1) | (n_used > 2)).any():
        return None
    first = used.argmax(axis=1) if used.size else n_used  # of categories alone
    factor = compared.direction[continuous, first]
    alone = (n_used == 1) & (factor == 1)
    by_column = np.flatnonzero(alone)[np.argsort(first[alone], kind="stable")]
    single = [
        (
            int(column),
            compared.threshold[continuous[by_column], None][first[by_column] == column],
        )
        for column in np.unique(first[alone])
    ]
    pairs = [
        (
            np.flatnonzero(row).tolist(),
            compared.direction[which, row],
            compared.threshold[which],
        )
        for which, row in zip(continuous[~alone], used[~alone], strict=True)
    ]
    every = np.r_[continuous[by_column], continuous[~alone], discrete, conjunction]
    rank = np.argsort(every)
    conditions = [rank[several].tolist() for _, several in compared.conditions]
    order = np.full(n_bits, len(every))
    read = place < n_bits
    order[place[read]] = rank[read]
    return _Columns(single, pairs, conditions, order.reshape(-1, BYTE).T)
