"""Decisions of many rows at all splits of some trees, as bits, in NumPy.

Splits on single columns compare the columns one after the other; others are products.
"""

from functools import cached_property
from typing import NamedTuple

import numpy as np

from secret_jax.data.rows import Table
from secret_jax.runtime.scratch import Scratch
from secret_jax.tree.comparisons import comparisons_of
from secret_jax.tree.structure import Tree

BYTE = 8
_WORTH = np.uint8(128) >> np.arange(BYTE, dtype=np.uint8)[:, None, None]
# Rows of a product of matrices: it stays in a cache.
_PRODUCT = 1 << 12


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


class Decisions(NamedTuple):
    """Splits of some trees, each with a bit: first those on single columns, then sums
    of columns, lists of categories, and conjunctions of what comes before."""

    # Columns with the thresholds of the splits on them, (n_splits, 1).
    single: list[tuple[int, np.ndarray]]
    direction: np.ndarray  # (n_sums, n_columns), float32
    threshold: np.ndarray  # (n_sums, 1), float32
    # Attributes with the categories that go left; the last one is any unseen.
    listed: list[tuple[int, np.ndarray]]
    conditions: list[list[int]]  # of each conjunction
    # (8, n_bytes), int: which of them each bit is; one more for bits that nobody reads.
    order: np.ndarray
    word: np.dtype  # of the numbers that the bits are parts of
    n_splits: int

    def numbers(self, rows: RowBlock) -> np.ndarray:
        """Decide rows, and read the bits as numbers, shape (n_numbers, n_rows)."""
        left = rows.scratch.array("left", (self.n_splits + 1, len(rows)), bool)
        stop = 0
        for column, thresholds in self.single:
            start, stop = stop, stop + len(thresholds)
            np.less_equal(rows.columns[column], thresholds, out=left[start:stop])
        if len(self.direction):
            shape = len(self.direction), min(len(rows), _PRODUCT)
            product = rows.scratch.array("product", shape, np.float32)
            start, stop = stop, stop + len(self.direction)
            with np.errstate(over="ignore", invalid="ignore"):
                for first in range(0, len(rows), _PRODUCT):
                    part = slice(first, first + _PRODUCT)
                    columns = rows.columns[:, part]
                    out = product[:, : columns.shape[1]]
                    np.matmul(self.direction, columns, out=out)
                    np.less_equal(out, self.threshold, out=left[start:stop, part])
        for attribute, goes_left in self.listed:
            left[stop], stop = goes_left.take(rows.codes[:, attribute]), stop + 1
        for conditions in self.conditions:
            left[stop], stop = left[conditions].all(axis=0), stop + 1
        left[stop] = False
        shape = *self.order.shape, len(rows)
        packed = rows.scratch.array("packed", shape, np.uint8)
        left.view(np.uint8).take(self.order, axis=0, out=packed, mode="clip")
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
    inner = np.flatnonzero(bit >= 0)
    compared = comparisons_of(forest, inner)
    used, every = compared.direction != 0, np.arange(len(compared.node))
    column = used.argmax(axis=1) if used.size else every
    alone = used.sum(axis=1) == 1
    alone[alone] = compared.direction[every[alone], column[alone]] == 1
    single = every[alone][np.argsort(column[alone], kind="stable")]
    discrete = compared.discrete
    conjunctions = np.array([which for which, _ in compared.conditions], int)
    sums = np.setdiff1d(every, np.r_[single, discrete, conjunctions])
    rank = np.argsort(np.r_[single, sums, discrete, conjunctions])
    order = np.full(n_numbers * n_bits, len(every))
    order[bit[inner]] = rank[: len(inner)]
    goes_left = np.c_[compared.goes_left, compared.larger_left]
    return Decisions(
        single=[
            (one, compared.threshold[single[column[single] == one], None])
            for one in np.unique(column[single]).tolist()
        ],
        direction=np.ascontiguousarray(compared.direction[sums]),
        threshold=compared.threshold[sums, None],
        listed=[
            (int(compared.attribute[which]), goes_left[which]) for which in discrete
        ],
        conditions=[rank[several].tolist() for _, several in compared.conditions],
        order=order.reshape(-1, BYTE).T,
        word=np.dtype("<u2" if n_bits > BYTE else "u1"),
        n_splits=len(every),
    )
