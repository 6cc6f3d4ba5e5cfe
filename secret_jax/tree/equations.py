"""Values of many rows: the equations of their leaves, added up and then applied.

A sum of linear equations is one equation, so the trees of a sum add up the equations of
a row's leaves, and a row is multiplied once. Where a leaf clips its values that is no
longer so; but mostly no row can be clipped, as the splits and the rows of the block
bound the columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from secret_jax.tree.decisions import RowBlock
from secret_jax.tree.lookup import Lookup, lookup_of
from secret_jax.tree.structure import Tree, joined


class Equations(NamedTuple):
    """Tables of some trees, and the equations of their states.

    Attributes
    ----------
    coefficient : ndarray of shape (n_outputs, n_states, 1 + n_columns), float32
        Zero for columns that are only split on.
    low, high : ndarray of shape (n_outputs, n_states), float32
    least, most : ndarray of shape (n_columns, n_leaves), float32
        Range of the columns in each leaf, as far as splits on single columns tell.
    first : ndarray of shape (n_trees,), int
        First leaf of each tree.
    """

    lookup: Lookup
    coefficient: np.ndarray
    low: np.ndarray
    high: np.ndarray
    least: np.ndarray
    most: np.ndarray
    first: np.ndarray

    def may_clip(self, rows: RowBlock) -> np.ndarray:
        """Whether a value could leave the range of its leaf, shape (n_trees,), bool."""
        least = np.maximum(self.least, rows.ranges[0])
        most = np.minimum(self.most, rows.ranges[1])
        leaves = slice(-self.least.shape[1], None)
        model = self.coefficient[:, leaves].transpose(0, 2, 1)
        with np.errstate(over="ignore", invalid="ignore"):
            ends = model[:, 1:] * least, model[:, 1:] * most
            lowest = model[:, 0] + np.minimum(*ends).sum(axis=1)
            highest = model[:, 0] + np.maximum(*ends).sum(axis=1)
        inside = (lowest >= self.low[:, leaves]) & (highest <= self.high[:, leaves])
        empty = (least > most).any(axis=0)  # no row of these reaches the leaf
        return ~np.logical_and.reduceat((inside | empty).all(axis=0), self.first)


def equations_of(trees: Sequence[Tree], steps: np.ndarray) -> Equations:
    """Collect the equations of weighted trees of one schema."""
    forest, size = joined(trees), np.array([tree.n_nodes for tree in trees])
    lookup = lookup_of(forest, (np.cumsum(size) - size).tolist())
    node, is_leaf = lookup.node, forest.is_leaf[lookup.node]
    tree = np.repeat(np.arange(len(size)), size)[node]
    step = steps[tree, None]
    edges = np.stack([step * edge[node] for edge in forest.clip_range()])
    model = np.where(
        is_leaf[:, None, None], step[:, None] * forest.coefficient[node], 0
    )
    more = lookup.decisions.weights.shape[0] - model.shape[2]  # that are only split on
    model = np.pad(model.transpose(1, 0, 2), [(0, 0), (0, 0), (0, more)])
    ranges = (ends[node[is_leaf]].T for ends in _ranges(forest))
    arrays = model, edges.min(axis=0).T, edges.max(axis=0).T, *ranges
    arrays = (array.astype(np.float32) for array in arrays)
    first = np.searchsorted(tree[is_leaf], np.arange(len(size)))
    return Equations(lookup, *arrays, first=first)


def _ranges(forest: Tree) -> tuple[np.ndarray, np.ndarray]:
    """Least and greatest number of every column in every node, (n_nodes, n_columns)."""
    least = np.full(forest.direction.shape, -np.inf, np.float32)
    most = -least
    inner = ~forest.is_leaf
    one = inner & ((forest.direction != 0).sum(axis=1) == 1)
    one &= (forest.direction == 1).any(axis=1)
    column = forest.direction.argmax(axis=1)
    for node in np.flatnonzero(inner).tolist():
        left, right = forest.left[node], forest.right[node]
        least[left] = least[right] = least[node]
        most[left] = most[right] = most[node]
        if one[node]:
            at, threshold = column[node], forest.threshold[node]
            most[left, at] = min(most[left, at], threshold)
            least[right, at] = max(least[right, at], threshold)
    return least, most


class Sums:
    """Values of rows, summed over trees."""

    def __init__(self, rows: RowBlock, n_outputs: int):
        self._rows = rows
        self._values = np.zeros((n_outputs, len(rows)), np.float32)
        self._sums: np.ndarray | None = None

    def add(self, trees: Equations, alone: bool = False) -> None:
        """Add the values of trees; of one ``alone`` there is nothing to add up."""
        state = trees.lookup.states(self._rows)
        at_once = np.ones(1, bool) if alone else trees.may_clip(self._rows)
        free = state[np.logical_not(at_once)] if np.any(at_once) else state
        for output, coefficient in enumerate(trees.coefficient):
            for own in state[at_once]:
                value = self._applied(self._equation(coefficient, own))
                np.maximum(value, trees.low[output].take(own), out=value)
                np.minimum(value, trees.high[output].take(own), out=value)
                self._values[output] += value
            for own in free:
                self._summed()[output] += self._equation(coefficient, own)

    def values(self) -> np.ndarray:
        """Sums of the values, shape (n_outputs, n_rows), float32."""
        if self._sums is not None:
            for value, equation in zip(self._values, self._sums, strict=True):
                value += self._applied(equation)
        return self._values

    def _summed(self) -> np.ndarray:
        """Sums of equations, shape (n_outputs, n_rows, 1 + n_columns)."""
        if self._sums is None:
            shape = len(self._values), *self._rows.design.shape
            self._sums = self._rows.scratch.array("sums", shape, np.float32)
            self._sums[:] = 0.0
        return self._sums

    def _equation(self, coefficient: np.ndarray, state: np.ndarray) -> np.ndarray:
        """Take the equation of each row, shape (n_rows, 1 + n_columns)."""
        out = self._rows.scratch.array("equation", self._rows.design.shape, np.float32)
        return coefficient.take(state, axis=0, out=out, mode="clip")

    def _applied(self, equation: np.ndarray) -> np.ndarray:
        """Apply an equation of its own to every row, in place."""
        equation *= self._rows.design
        return np.matmul(equation, np.ones(equation.shape[1], np.float32))
