"""Values of many rows: the equations of their leaves, added up and then applied.

A sum of linear equations is one equation, so the trees of a sum add up the equations of
a row's leaves, and a row is multiplied once. Where a leaf clips its values that is no
longer so; but mostly no row can be clipped, as the splits and the rows of the block
bound the columns.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from secret_jax.tree.blocks import once
from secret_jax.tree.lookup import MANY_ROWS, Lookup, RowBlock, lookup_of
from secret_jax.tree.structure import Tree


class Equations(NamedTuple):
    """Tables of a tree, and the equations of its states.

    Attributes
    ----------
    coefficient : ndarray of shape (n_outputs, n_states, 1 + n_columns), float32
        Zero for columns that are only split on.
    low, high : ndarray of shape (n_outputs, n_states), float32
    least, most : ndarray of shape (n_states, n_columns), float32
        Range of the columns in each state, as far as splits on single columns tell.
    """

    lookup: Lookup
    coefficient: np.ndarray
    low: np.ndarray
    high: np.ndarray
    least: np.ndarray
    most: np.ndarray

    def times(self, step: float) -> Equations:
        """Multiply the values by a number."""
        edges = np.float32(step) * self.low, np.float32(step) * self.high
        return self._replace(
            coefficient=np.float32(step) * self.coefficient,
            low=np.minimum(*edges),
            high=np.maximum(*edges),
        )

    def may_clip(self, rows: RowBlock) -> bool:
        """Whether a value could leave the range of its leaf."""
        least, most = rows.ranges
        ends = np.stack([np.maximum(self.least, least), np.minimum(self.most, most)])
        slope, intercept = self.coefficient[:, :, 1:], self.coefficient[:, :, 0]
        with np.errstate(over="ignore", invalid="ignore"):
            products = slope * ends[:, None]
            lowest = intercept + products.min(axis=0).sum(axis=2)
            highest = intercept + products.max(axis=0).sum(axis=2)
        inside = (lowest >= self.low) & (highest <= self.high)
        empty = (ends[0] > ends[1]).any(axis=1)  # no row of these reaches the state
        return not (inside | empty).all()


def equations_of(tree: Tree) -> Equations:
    """Collect the equations of a tree."""
    lookup = once(tree, lookup_of)
    is_leaf = tree.is_leaf[lookup.node]
    low, high = (
        np.where(is_leaf, edge[lookup.node].T, 0) for edge in tree.clip_range()
    )
    model = tree.coefficient[lookup.node].transpose(1, 0, 2)
    model = np.where(is_leaf[:, None], model, 0.0)
    more = len(lookup.weights) - model.shape[2]  # columns that are only split on
    model = np.pad(model, [(0, 0), (0, 0), (0, more)])
    ranges = (ends[lookup.node] for ends in _ranges(tree))
    arrays = (part.astype(np.float32) for part in (model, low, high, *ranges))
    return Equations(lookup, *arrays)


def _ranges(tree: Tree) -> tuple[np.ndarray, np.ndarray]:
    """Least and greatest number of every column in every node, (n_nodes, n_columns)."""
    least = np.full(tree.direction.shape, -np.inf, np.float32)
    most = -least
    for node in np.flatnonzero(~tree.is_leaf):
        left, right = tree.left[node], tree.right[node]
        for child in (left, right):
            least[child], most[child] = least[node], most[node]
        columns = np.flatnonzero(tree.direction[node])
        if len(columns) == 1 and tree.direction[node, columns[0]] == 1:
            column = columns[0]
            most[left, column] = min(most[left, column], tree.threshold[node])
            least[right, column] = max(least[right, column], tree.threshold[node])
    return least, most


class Sums:
    """Values of rows, summed over trees."""

    def __init__(self, rows: RowBlock, n_outputs: int):
        self._rows = rows
        self._values = np.zeros((n_outputs, len(rows)), np.float32)
        self._sums: list[np.ndarray | None] = [None] * n_outputs

    def add(self, tree: Equations, alone: bool = False) -> None:
        """Add the values of a tree; of one ``alone`` there is nothing to add up."""
        state = tree.lookup.states(self._rows)
        few = alone or len(self._rows) < MANY_ROWS
        at_once = few or tree.may_clip(self._rows)
        for output, coefficient in enumerate(tree.coefficient):
            equation = coefficient.take(state, axis=0)
            if at_once:
                value = self._applied(equation)
                np.maximum(value, tree.low[output].take(state), out=value)
                np.minimum(value, tree.high[output].take(state), out=value)
                self._values[output] += value
            elif self._sums[output] is None:
                self._sums[output] = equation
            else:
                self._sums[output] += equation

    def values(self) -> np.ndarray:
        """Sums of the values, shape (n_outputs, n_rows), float32."""
        for value, equation in zip(self._values, self._sums, strict=True):
            if equation is not None:
                value += self._applied(equation)
        return self._values

    def _applied(self, equation: np.ndarray) -> np.ndarray:
        """Apply an equation of its own to every row, in place."""
        equation *= self._rows.design
        return np.matmul(equation, np.ones(equation.shape[1], np.float32))
