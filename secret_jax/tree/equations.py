"""Values of many rows: the equations of their leaves, added up and then applied.

A sum of linear equations is one equation, so the trees of a sum add up the equations of
a row's leaves, and a row is multiplied once. Of a few trees the sums are made before,
for all combinations of their leaves. Where a leaf clips its values that is no longer
so: its rows get their values one by one. But in most leaves no row can be clipped, as
the splits and the rows of the block bound the columns. (So a value of a sum depends on
the other rows of its block, but only as float32 rounds.)
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from secret_jax.tree.decisions import RowBlock
from secret_jax.tree.lookup import Lookup, lookup_of
from secret_jax.tree.reshape import joined
from secret_jax.tree.structure import Tree

# Most numbers of the equations of all combinations of leaves: they stay in a cache.
_BUNDLED = 1 << 14


class Equations(NamedTuple):
    """Tables of some trees, and the equations of their states."""

    lookup: Lookup
    # (n_outputs, n_states, 1 + n_columns), float32: zero for columns that are only
    # split on.
    coefficient: np.ndarray
    # low, high (n_outputs, n_states), float32.
    low: np.ndarray
    high: np.ndarray
    first: list[int]  # state of the first leaf of each tree, and one past the last
    bundles: list[range]  # neighbouring trees whose equations are added up beforehand
    # Equations of all combinations of leaves of each bundle, (n_outputs,
    # n_combinations, 1 + n_columns), float32.
    combined: list[np.ndarray]

    def values(self, output: int, state: np.ndarray, design: np.ndarray) -> np.ndarray:
        """Values of rows in states, clipped."""
        state = state.astype(np.intp)  # what `take` would make of it each time
        value = _applied(self.coefficient[output].take(state, axis=0), design)
        np.maximum(value, self.low[output].take(state), out=value)
        return np.minimum(value, self.high[output].take(state), out=value)

    def add(
        self, rows: RowBlock, clips: np.ndarray, summed: np.ndarray, total: np.ndarray
    ) -> None:
        """Add up equations of the rows, and values that may be clipped, in place.

        ``clips`` (n_states,), bool: whether a value could leave a leaf's range.
        """
        states, combined = self.lookup.states(rows), self.combined
        if clips.any():
            kept = np.where(clips[:, None], np.float32(0), self.coefficient)
            combined = _combined(kept, self.first, self.bundles)
        equation = rows.scratch.array("equation", summed.shape[1:], np.float32)
        code = rows.scratch.array("code", states.shape[1:], np.uint32)
        index = rows.scratch.array("index", states.shape[1:], np.intp)
        for (first, *others), equations in zip(self.bundles, combined, strict=True):
            before, code[:] = self.first[first], states[first]
            for tree in others:
                start, stop = self.first[tree : tree + 2]
                code *= stop - start
                code += states[tree]
                before = before * (stop - start) + start
            np.subtract(code, before, out=index)
            for out, own in zip(summed, equations, strict=True):
                out += own.take(index, axis=0, out=equation, mode="clip")
        if clips.any():
            clipping = np.searchsorted(self.first, np.flatnonzero(clips), "right") - 1
            states = states[np.unique(clipping)]  # of the trees of such leaves
            place = np.flatnonzero(clips.take(states))
            state, row = states.ravel().take(place), place % len(rows)
            design = rows.design.take(row, axis=0)
            for output, out in enumerate(total):
                out += np.bincount(row, self.values(output, state, design), len(rows))


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

    def may_clip(self, rows: RowBlock) -> np.ndarray:
        """Whether a value could leave the range of a leaf, shape (n_leaves,), bool."""
        least = np.maximum(self.least, rows.ranges[0])
        most = np.minimum(self.most, rows.ranges[1])
        value, slope = self.coefficient[:, 0], self.coefficient[:, 1:]
        with np.errstate(over="ignore", invalid="ignore"):
            ends = slope * least, slope * most
            lowest = value + np.minimum(*ends).sum(axis=1)
            highest = value + np.maximum(*ends).sum(axis=1)
        inside = ((lowest >= self.low) & (highest <= self.high)).all(axis=0)
        return ~(inside | (least > most).any(axis=0))  # or no row reaches the leaf


class Forest(NamedTuple):
    """Trees of a sum, in groups that are decided together; bounds if there are many."""

    groups: list[Equations]
    bounds: Bounds | None

    def values(self, rows: RowBlock) -> np.ndarray:
        """Sum the values of the trees, shape (n_outputs, n_rows), float32."""
        first = self.groups[0]
        if self.bounds is None:  # a single tree
            (state,) = first.lookup.states(rows)
            outputs = range(len(first.low))
            return np.stack([first.values(i, state, rows.design) for i in outputs])
        shape = len(first.low), *rows.design.shape
        summed = rows.scratch.array("summed", shape, np.float32)
        total = np.zeros(shape[:2], np.float32)
        summed[:] = 0.0
        clips = self.bounds.may_clip(rows)
        for trees in self.groups:
            n_pieces, n_leaves = trees.first[0], trees.first[-1] - trees.first[0]
            own = np.concatenate([np.zeros(n_pieces, bool), clips[:n_leaves]])
            trees.add(rows, own, summed, total)
            clips = clips[n_leaves:]
        for out, equation in zip(total, summed, strict=True):
            out += _applied(equation, rows.design)
        return total


def _applied(equation: np.ndarray, design: np.ndarray) -> np.ndarray:
    """Apply an equation of its own to every row, in place."""
    equation *= design
    return np.matmul(equation, np.ones(equation.shape[1], np.float32))


def forest_of(groups: Sequence[Sequence[Tree]], steps: Sequence[np.ndarray]) -> Forest:
    """Collect the equations of weighted trees of one schema, in groups."""
    several = [_equations_of(*group) for group in zip(groups, steps, strict=True)]
    trees, bounds = zip(*several, strict=True)
    if sum(map(len, groups)) == 1:
        return Forest(list(trees), None)
    joint = (np.concatenate(arrays, axis=-1) for arrays in zip(*bounds, strict=True))
    return Forest(list(trees), Bounds(*joint))


def _equations_of(trees: Sequence[Tree], steps: np.ndarray) -> tuple[Equations, Bounds]:
    forest, size = joined(trees), np.array([tree.n_nodes for tree in trees])
    lookup = lookup_of(forest, (np.cumsum(size) - size).tolist())
    node, is_leaf = lookup.node, forest.is_leaf[lookup.node]
    step = np.repeat(steps, size)[node, None]
    edges = np.stack([step * edge[node] for edge in forest.clip_range()])
    low, high = (
        edges.min(axis=0).T.astype(np.float32),
        edges.max(axis=0).T.astype(np.float32),
    )
    model = step[:, None] * forest.coefficient[node]
    more = 1 + forest.direction.shape[1] - model.shape[2]  # only split on
    model = np.pad(model.transpose(1, 0, 2), [(0, 0), (0, 0), (0, more)])
    model = model.astype(np.float32)
    ranges = (ends[node[is_leaf]].T for ends in _ranges(forest))
    leaves, *of_leaves = (array[:, is_leaf] for array in (model, low, high))
    bounds = Bounds(leaves.transpose(0, 2, 1), *of_leaves, *ranges)
    n_leaves = [tree.n_leaves for tree in trees]
    first = np.cumsum([len(node) - sum(n_leaves), *n_leaves]).tolist()
    bundles = _bundled(n_leaves, _BUNDLED // model.shape[2])
    combined = _combined(model, first, bundles)
    return Equations(lookup, model, low, high, first, bundles, combined), bounds


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
    least = np.full(forest.direction.shape, -np.inf, np.float32)
    most = -least
    inner = ~forest.is_leaf
    one = inner & ((forest.direction != 0).sum(axis=1) == 1)
    one &= (forest.direction == 1).any(axis=1)
    column = forest.direction.argmax(axis=1) if one.any() else inner
    for node in np.flatnonzero(inner).tolist():
        left, right = forest.left[node], forest.right[node]
        least[left] = least[right] = least[node]
        most[left] = most[right] = most[node]
        if one[node]:
            at, threshold = column[node], forest.threshold[node]
            most[left, at] = min(most[left, at], threshold)
            least[right, at] = max(least[right, at], threshold)
    return least, most
