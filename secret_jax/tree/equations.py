"""Values of many rows: the equations of their leaves, added up and then applied.

A sum of linear equations is one equation, so the trees of a sum add up the equations of
a row's leaves, and a row is multiplied once. Of a few trees the sums are made before,
for all combinations of their leaves. Where a leaf clips its values that is no longer
so: its rows get their values one by one. But in most leaves no row can be clipped, as
the splits and the rows of the block bound the columns. (So a value of a sum depends on
the other rows of its block, but only as float32 rounds.)
"""

from collections.abc import Sequence
from functools import cached_property
from itertools import groupby
from typing import NamedTuple

import numpy as np

from secret_jax.data.rows import Table
from secret_jax.runtime.shapes import Scratch
from secret_jax.tree.packed import BYTE, PackedTrees, applied, packed_trees
from secret_jax.tree.reshape import joined
from secret_jax.tree.structure import Tree

# Of so many rows values are added one by one: to add up equations would take longer.
_FEW_ROWS = 256
# Maximum number of splits that are decided together.
_GROUP_BITS = 128
# Most numbers of the equations of all combinations of leaves: they stay in a cache.
_BUNDLED = 1 << 14


class RowBlock:
    """Rows in the layouts that splits and models read, each made when asked for."""

    def __init__(self, table: Table, scratch: Scratch):
        (x, self.codes), self.scratch = table, scratch
        self.x = np.asarray(x, np.float32)

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

    def leaves(self, trees: PackedTrees) -> np.ndarray:
        """Leaf of every row in each tree, shape (n_trees, n_rows)."""
        return trees.leaves(self.columns, self.codes.T, np, self.scratch.array)


class Group(NamedTuple):
    """Trees that are decided together, and sums of the equations of their leaves."""

    trees: PackedTrees
    first: list[int]  # number of the first leaf of each tree, and one past the last
    bundles: list[range]  # neighbouring trees whose equations are added up beforehand
    # Equations of all combinations of leaves of each bundle, (n_outputs,
    # n_combinations, 1 + n_columns), float32.
    combined: list[np.ndarray]

    def add(
        self, rows: RowBlock, clips: np.ndarray, summed: np.ndarray, total: np.ndarray
    ) -> None:
        """Add up, in place, equations of rows, and values where a leaf ``clips``."""
        leaves, n_rows = rows.leaves(self.trees), len(rows.x)
        if not clips.all():
            combined = self.combined
            if clips.any():
                kept = np.where(clips[:, None], np.float32(0), self.trees.coefficient)
                combined = _combined(kept, self.first, self.bundles)
            equation = rows.scratch.array("equation", summed.shape[1:], np.float32)
            code = rows.scratch.array("code", (n_rows,), np.uint32)
            index = rows.scratch.array("index", (n_rows,), np.intp)
            for (first, *others), equations in zip(self.bundles, combined, strict=True):
                before, code[:] = self.first[first], leaves[first]
                for tree in others:
                    start, stop = self.first[tree : tree + 2]
                    code *= stop - start
                    code += leaves[tree]
                    before = before * (stop - start) + start
                np.subtract(code, before, out=index)
                for out, own in zip(summed, equations, strict=True):
                    out += own.take(index, axis=0, out=equation, mode="clip")
        if clips.any():
            clipping = np.searchsorted(self.first, np.flatnonzero(clips), "right") - 1
            leaves = leaves[np.unique(clipping)]  # of the trees of such leaves
            place = np.flatnonzero(clips.take(leaves))
            leaf, row = leaves.ravel().take(place), place % n_rows
            design = rows.design.take(row, axis=0)
            for output, out in enumerate(total):
                value = self.trees.values(leaf, design, output, np)
                out += np.bincount(row, value, n_rows)


class Bounds(NamedTuple):
    """Equations and ranges of the leaves of many trees."""

    coefficient: np.ndarray  # (n_outputs, 1 + n_columns, n_leaves), float32
    # low, high (n_outputs, n_leaves), float32.
    low: np.ndarray
    high: np.ndarray
    # least, most (n_columns, n_leaves), float32: range of the columns in each leaf, as
    # far as splits on single columns tell.
    least: np.ndarray
    most: np.ndarray

    def may_clip(self, columns: np.ndarray) -> np.ndarray:
        """Whether a value of rows could leave the range of each leaf, bool."""
        least = np.maximum(self.least, columns.min(axis=1, keepdims=True))
        most = np.minimum(self.most, columns.max(axis=1, keepdims=True))
        value, slope = self.coefficient[:, 0], self.coefficient[:, 1:]
        with np.errstate(over="ignore", invalid="ignore"):
            ends = slope * least, slope * most
            lowest = value + np.minimum(*ends).sum(axis=1)
            highest = value + np.maximum(*ends).sum(axis=1)
        inside = ((lowest >= self.low) & (highest <= self.high)).all(axis=0)
        return ~(inside | (least > most).any(axis=0))  # or no row reaches the leaf


class Forest(NamedTuple):
    """Trees of a sum, in groups that are decided together; bounds if there are many."""

    groups: list[Group]
    bounds: Bounds | None

    def values(self, rows: RowBlock) -> np.ndarray:
        """Sum the values of the trees, shape (n_outputs, n_rows), float32."""
        first = self.groups[0].trees
        if self.bounds is None:  # a single tree
            (leaf,), outputs = rows.leaves(first), range(len(first.low))
            return np.stack([first.values(leaf, rows.design, i, np) for i in outputs])
        shape = len(first.low), *rows.design.shape
        summed = rows.scratch.array("summed", shape, np.float32)
        total = np.zeros(shape[:2], np.float32)
        summed[:] = 0.0
        clips = np.ones(self.bounds.low.shape[1], bool)
        if len(rows.x) > _FEW_ROWS:
            clips = self.bounds.may_clip(rows.columns)
        for group in self.groups:
            own, clips = np.split(clips, group.first[-1:])
            group.add(rows, own, summed, total)
        for out, equation in zip(total, summed, strict=True):
            out += applied(equation, rows.design)
        return total


def forest_of(trees: Sequence[Tree], steps: np.ndarray) -> Forest:
    """Group weighted trees that have the same number of bytes of decisions."""
    if len(trees) == 1:
        return Forest([Group(packed_trees(trees, steps), [], [], [])], None)
    size = [-(-(tree.n_nodes // 2) // BYTE) * BYTE for tree in trees]
    groups, bounds = list[Group](), list[Bounds]()
    order = sorted(range(len(trees)), key=size.__getitem__)
    for n_bits, alike in groupby(order, size.__getitem__):
        which, together = list(alike), max(_GROUP_BITS // max(n_bits, 1), 1)
        for start in range(0, len(which), together):
            own = which[start : start + together]
            some = [trees[i] for i in own]
            packed = packed_trees(some, steps[own])
            n_leaves = [tree.n_leaves for tree in some]
            model, first = packed.coefficient, np.cumsum([0, *n_leaves]).tolist()
            bundles = _bundled(n_leaves, _BUNDLED // model.shape[2])
            combined = _combined(model, first, bundles)
            groups.append(Group(packed, first, bundles, combined))
            ranges = (ends[packed.node].T for ends in _ranges(joined(some)))
            ends = packed.low, packed.high, *ranges
            bounds.append(Bounds(model.transpose(0, 2, 1), *ends))
    joint = (np.concatenate(arrays, axis=-1) for arrays in zip(*bounds, strict=True))
    return Forest(groups, Bounds(*joint))


def _bundled(n_leaves: list[int], most: int) -> list[range]:
    """Bundle neighbouring trees, if there are not too many combinations of leaves."""
    starts, n_combined = [0], n_leaves[0]
    for tree, n in enumerate(n_leaves[1:], 1):
        n_combined *= n
        if n_combined > most:
            starts.append(tree)
            n_combined = n
    return list(map(range, starts, [*starts[1:], len(n_leaves)]))


def _combined(
    coefficient: np.ndarray, first: list[int], bundles: list[range]
) -> list[np.ndarray]:
    """Sum the equations of all combinations of leaves of the trees of each bundle."""
    found = []
    for bundle in bundles:
        several, *others = (coefficient[:, first[i] : first[i + 1]] for i in bundle)
        for own in others:
            each = several[:, :, None] + own[:, None]
            several = each.reshape(len(coefficient), -1, coefficient.shape[2])
        found.append(several)
    return found


def _ranges(forest: Tree) -> tuple[np.ndarray, np.ndarray]:
    """Least and greatest number of every column in every node, (n_nodes, n_columns)."""
    least = np.full((forest.n_nodes, forest.direction.shape[1]), -np.inf, np.float32)
    most = -least
    direction = forest.direction[: forest.n_nodes]
    one = ((direction != 0).sum(axis=1) == 1) & (direction == 1).any(axis=1)
    one[forest.further] = False  # rows on the right may lie on both sides
    for node in np.flatnonzero(~forest.is_leaf).tolist():
        left, right = forest.left[node], forest.right[node]
        least[left] = least[right] = least[node]
        most[left] = most[right] = most[node]
        if one[node]:
            at, threshold = direction[node].argmax(), forest.threshold[node]
            most[left, at] = min(most[left, at], threshold)
            least[right, at] = max(least[right, at], threshold)
    return least, most
