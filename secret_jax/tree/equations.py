"""Values of many rows: the equations of their leaves, added up and then applied.

A sum of linear equations is one equation, so the trees of a sum add up the equations of
a row's leaves, and a row is multiplied once. Where a leaf clips its values that is no
longer so; but mostly no row can be clipped, as the splits and the rows of the block
bound the columns. (So a value of a sum depends on the other rows of its block, but only
as float32 rounds.)
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from secret_jax.tree.decisions import RowBlock
from secret_jax.tree.lookup import Lookup, lookup_of
from secret_jax.tree.reshape import joined
from secret_jax.tree.structure import Tree


class Equations(NamedTuple):
    """Tables of some trees, and the equations of their states."""

    lookup: Lookup
    # (n_outputs, n_states, 1 + n_columns), float32: zero for columns that are only
    # split on.
    coefficient: np.ndarray
    # low, high (n_outputs, n_states), float32.
    low: np.ndarray
    high: np.ndarray


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
    first: np.ndarray  # (n_trees,), int: first leaf of each tree

    def may_clip(self, rows: RowBlock) -> np.ndarray:
        """Whether a value could leave the range of its leaf, shape (n_trees,), bool."""
        least = np.maximum(self.least, rows.ranges[0])
        most = np.minimum(self.most, rows.ranges[1])
        value, slope = self.coefficient[:, 0], self.coefficient[:, 1:]
        with np.errstate(over="ignore", invalid="ignore"):
            ends = slope * least, slope * most
            lowest = value + np.minimum(*ends).sum(axis=1)
            highest = value + np.maximum(*ends).sum(axis=1)
        inside = (lowest >= self.low) & (highest <= self.high)
        empty = (least > most).any(axis=0)  # no row of these reaches the leaf
        return ~np.logical_and.reduceat((inside | empty).all(axis=0), self.first)


class Forest(NamedTuple):
    """Trees of a sum, in groups that are decided together; bounds if there are many."""

    groups: list[Equations]
    bounds: Bounds | None

    def values(self, rows: RowBlock) -> np.ndarray:
        """Sum the values of the trees, shape (n_outputs, n_rows), float32."""
        sizes = [len(trees.lookup.root) for trees in self.groups]
        at_once = (
            np.ones(1, bool) if self.bounds is None else self.bounds.may_clip(rows)
        )
        clips = np.split(at_once, np.cumsum(sizes)[:-1])
        total = np.zeros((len(self.groups[0].low), len(rows)), np.float32)
        shape, summed = (len(total), *rows.design.shape), None
        if not at_once.all():
            summed = rows.scratch.array("summed", shape, np.float32)
            summed[:] = 0.0
        equation = rows.scratch.array("equation", shape[1:], np.float32)
        for trees, clipped in zip(self.groups, clips, strict=True):
            states = trees.lookup.states(rows)
            for output, coefficient in enumerate(trees.coefficient):
                for state, clip in zip(states, clipped, strict=True):
                    coefficient.take(state, axis=0, out=equation, mode="clip")
                    if not clip and summed is not None:
                        summed[output] += equation
                        continue
                    value = _applied(equation, rows)
                    np.maximum(value, trees.low[output].take(state), out=value)
                    np.minimum(value, trees.high[output].take(state), out=value)
                    total[output] += value
        for output, added in enumerate(() if summed is None else summed):
            total[output] += _applied(added, rows)
        return total


def _applied(equation: np.ndarray, rows: RowBlock) -> np.ndarray:
    """Apply an equation of its own to every row, in place."""
    equation *= rows.design
    return np.matmul(equation, np.ones(equation.shape[1], np.float32))


def forest_of(groups: Sequence[Sequence[Tree]], steps: Sequence[np.ndarray]) -> Forest:
    """Collect the equations of weighted trees of one schema, in groups."""
    several = [_equations_of(*group) for group in zip(groups, steps, strict=True)]
    if sum(map(len, groups)) == 1:
        return Forest([several[0][0]], None)
    sizes = [len(bounds.low[0]) for _, bounds in several]
    starts = np.cumsum([0, *sizes[:-1]])
    *arrays, first = zip(*(bounds for _, bounds in several), strict=True)
    joint = (np.concatenate(array, axis=-1) for array in arrays)
    first = np.concatenate([a + b for a, b in zip(starts, first, strict=True)])
    return Forest([equations for equations, _ in several], Bounds(*joint, first=first))


def _equations_of(trees: Sequence[Tree], steps: np.ndarray) -> tuple[Equations, Bounds]:
    forest, size = joined(trees), np.array([tree.n_nodes for tree in trees])
    lookup = lookup_of(forest, (np.cumsum(size) - size).tolist())
    node, is_leaf = lookup.node, forest.is_leaf[lookup.node]
    tree = np.repeat(np.arange(len(size)), size)[node]
    step = steps[tree, None]
    edges = np.stack([step * edge[node] for edge in forest.clip_range()])
    low, high = (
        edges.min(axis=0).T.astype(np.float32),
        edges.max(axis=0).T.astype(np.float32),
    )
    model = step[:, None] * forest.coefficient[node]
    more = 1 + len(lookup.decisions.direction) - model.shape[2]  # only split on
    model = np.pad(model.transpose(1, 0, 2), [(0, 0), (0, 0), (0, more)])
    model = model.astype(np.float32)
    ranges = (ends[node[is_leaf]].T for ends in _ranges(forest))
    first = np.searchsorted(tree[is_leaf], np.arange(len(size)))
    of_leaves = (array[:, is_leaf] for array in (low, high))
    bounds = Bounds(
        model[:, is_leaf].transpose(0, 2, 1), *of_leaves, *ranges, first=first
    )
    return Equations(lookup, model, low, high), bounds


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
