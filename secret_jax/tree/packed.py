"""Trees as bits: rows are decided at all comparisons at once, for NumPy and for JAX.

Where a tree has few splits, all its decisions about a row are one number, and a table
says which leaf it leads to. A larger tree is cut into pieces of at most eight splits,
each with a table of 256 numbers: of leaves, and of pieces that the row goes on to; one
of thousands of leaves into pieces of four, so that its tables stay small.
(QuickScorer, Lucchese et al. 2015, decides all splits likewise, and finds its leaves by
masks.) Of both the states of a row are made, and its value is the state's equation.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from secret_jax.runtime.linalg import AnyArray, matmul, namespace
from secret_jax.runtime.packing import Packed
from secret_jax.runtime.programs import program
from secret_jax.runtime.shapes import next_power_of_two, padded
from secret_jax.tree.reshape import joined
from secret_jax.tree.structure import SplitKind, Tree

BYTE = 8
_WORTH = np.uint8(128) >> np.arange(BYTE, dtype=np.uint8)[:, None, None]
# Splits of a piece in programs for trees of more than so many leaves. (NumPy is slower
# with so small ones, and has them for trees of four times as many splits.)
_HALF, _MANY = 4, 1 << 10
# Rows of a product of matrices: it stays in a cache.
_PRODUCT = 1 << 12
# Minimum number of leaves after padding: one program for all smaller trees.
FEWEST = 16

NewArray = Callable[[str, tuple[int, ...], Any], np.ndarray]


class Comparisons(NamedTuple):
    """Comparisons of some trees: of single columns, sums of columns, and lists."""

    # Columns with the thresholds of the comparisons of them, (n, 1).
    single: tuple[tuple[int, AnyArray], ...]
    direction: AnyArray  # (n_sums, n_columns), float32
    threshold: AnyArray  # (n_sums, 1), float32
    attribute: AnyArray  # (n_lists,), int32
    # (n_lists, 1 + n_categories), bool: whether unseen categories go left, then others.
    goes_left: AnyArray
    # (most, n_comparisons), int: how far away one stands that must hold as well.
    also: AnyArray

    def left(self, x: AnyArray, codes: AnyArray) -> Any:
        """Whether rows go left, (n_comparisons, n_rows); none is of a single column."""
        left = matmul(self.direction, x) <= self.threshold
        if len(self.attribute):
            n_lists, width = self.goes_left.shape
            first = 1 + width * np.arange(n_lists, dtype=np.int32)[:, None]
            listed = self.goes_left.ravel()[codes[self.attribute] + first]
            left = namespace(left).concatenate([left, listed])
        for more in self.also:
            left = left & left[np.arange(len(left)) + more]
        return left

    def left_of_many(
        self, x: np.ndarray, codes: np.ndarray, array: NewArray
    ) -> np.ndarray:
        """The same for NumPy in the memory that ``array`` gives, column by column.

        There is one more, which never holds.
        """
        n_rows, stop = x.shape[1], 0
        left = array("left", (1 + self.also.shape[1], n_rows), bool)
        for column, threshold in self.single:
            start, stop = stop, stop + len(threshold)
            np.less_equal(x[column], threshold, out=left[start:stop])
        start, stop = stop, stop + len(self.direction)
        for first in range(0, n_rows if stop > start else 0, _PRODUCT):
            some = x[:, first : first + _PRODUCT]
            along = array("along", (stop - start, some.shape[1]), np.float32)
            np.matmul(self.direction, some, out=along)
            here = left[start:stop, first : first + _PRODUCT]
            np.less_equal(along, self.threshold, out=here)
        for attribute, goes_left in zip(self.attribute, self.goes_left, strict=True):
            left[stop], stop = goes_left.take(codes[attribute] + 1), stop + 1
        left[-1] = False
        for more in self.also:
            left[:-1] &= left[np.arange(len(more)) + more]
        return left


def comparisons_of(
    tree: Tree, by_column: bool, n: int = 0
) -> tuple[Comparisons, np.ndarray]:
    """Collect the comparisons of a tree, or of joined ones, and where each node's is.

    ``by_column``: whether those of single columns stand apart; ``n``: number of sums
    and of lists after padding. The place of a leaf is past all of them.
    """
    every = np.flatnonzero(tree.kind != SplitKind.LEAF)
    single = column = every[:0]
    if by_column:
        direction = tree.direction[every]
        alone = np.count_nonzero(direction, axis=1) == 1
        alone &= (direction == 1).any(axis=1)
        if alone.any():
            column = direction[alone].argmax(axis=1)
            order = np.argsort(column, kind="stable")
            single, column = every[alone][order], column[order]
        every = every[~alone]
    is_listed = tree.kind[every] == SplitKind.DISCRETE
    listed, sums = every[is_listed], every[~is_listed]
    larger_left = tree.larger_left[tree.node_of[listed], None]
    goes_left = np.concatenate([larger_left, tree.goes_left[listed]], axis=1)
    n_sums, n_lists = len(sums), len(listed)
    if n:
        n_sums, n_lists = n, n if tree.schema.discrete else 0
        width = 1 + next_power_of_two(goes_left.shape[1] - 1)
        goes_left = np.pad(goes_left, [(0, 0), (0, width - goes_left.shape[1])])
    never = len(single) + n_sums + n_lists
    place = np.full(len(tree.kind), never)
    place[single] = np.arange(len(single))
    place[sums] = len(single) + np.arange(len(sums))
    place[listed] = len(single) + n_sums + np.arange(len(listed))
    also, node, further = [], tree.further, place[tree.n_nodes :]
    while len(node):  # one of each node at a time
        some, which = np.unique(node, return_index=True)
        also.append(np.zeros(never, int))
        also[-1][place[some]] = further[which] - place[some]
        node, further = (np.delete(each, which) for each in (node, further))
    groups = [
        (one, tree.threshold[single[column == one], None])
        for one in sorted({*column.tolist()})
    ]
    found = Comparisons(
        single=tuple(groups),
        direction=padded(tree.direction[sums], n_sums),
        threshold=padded(tree.threshold[sums, None], n_sums),
        attribute=padded(tree.attribute[listed], n_lists),
        goes_left=padded(goes_left, n_lists),
        also=np.array(also, int).reshape(len(also), never),
    )
    return found, place[: tree.n_nodes]


class PackedTrees(NamedTuple):
    """Comparisons of some trees, and the tables that lead from them to equations.

    The states of a row in a tree are pieces, and then a leaf; leaves come first.
    """

    comparisons: Comparisons
    # (n_bits, n_bytes), int: places of the bits, the lesser byte of a number first.
    order: AnyArray
    root: AnyArray  # (n_trees,), int: each tree's first row of `following`, or its leaf
    place: AnyArray  # (n_states,), int: which of the numbers of a row a state reads
    # (n_states, n_numbers), int: state that follows a state and the number that it
    # reads; of leaves only where rows may have to wait there.
    following: AnyArray
    steps: AnyArray  # (n_steps,): pieces on the longest way to a leaf
    node: AnyArray  # (n_leaves,), int32: node ids of the leaves
    # (n_outputs, n_leaves, 1 + n_columns), float32: zero for columns that are only
    # split on.
    coefficient: AnyArray
    # low, high (n_outputs, n_leaves), float32.
    low: AnyArray
    high: AnyArray

    def leaves(
        self,
        x: AnyArray,
        codes: AnyArray,
        xp: Any,
        array: NewArray = lambda _, shape, dtype: np.empty(shape, dtype),
    ) -> Any:
        """Leaves of rows, by their numbers, shape (n_trees, n_rows), int.

        ``x`` and ``codes`` have rows last; ``array``: where NumPy takes memory.
        """
        n_rows, n_bits = x.shape[1], len(self.order)
        if not len(self.steps):  # trees of a single leaf
            alone = self.root.astype(self.following.dtype)[:, None]
            return xp.broadcast_to(alone, (len(alone), n_rows))
        if xp is np:
            with np.errstate(over="ignore", invalid="ignore"):
                left = self.comparisons.left_of_many(x, codes, array).view(np.uint8)
            out = array("bits", (*self.order.shape, n_rows), np.uint8)
        else:
            left, out = self.comparisons.left(x, codes).astype(np.uint8), None
        bits = left.take(self.order, axis=0, out=out, mode="clip")
        bits *= _WORTH[BYTE - n_bits :]
        numbers = xp.bitwise_or.reduce(bits, axis=0)
        if self.following.shape[1] > 1 << BYTE:
            more = numbers[1::2].astype(np.uint16)
            numbers = numbers[::2] | (more << np.uint16(BYTE))
        first = len(self.place) - len(self.following)
        if xp is np:
            state = array("state", (len(self.root), n_rows), self.following.dtype)
            index = array("index", (n_rows,), np.intp)
            for root, out in zip(self.root, state, strict=True):
                index[:] = numbers[self.place[first + root]]
                self.following[root].take(index, out=out, mode="clip")
        else:
            number = numbers[self.place[first + self.root]]
            state = self.following[self.root[:, None], number]
        following = self.following.ravel()
        for _ in range(len(self.steps) - 1):
            place = self.place.take(state, mode="clip")
            number = _along_rows(numbers, place, xp).astype(int)
            index = (state.astype(int) << n_bits) | number
            state = following.take(index, mode="clip")
        return state

    def values(self, leaf: AnyArray, design: AnyArray, output: int, xp: Any) -> Any:
        """Values of rows in leaves, clipped, (n_rows,); ``design`` (n_rows, 1 + n)."""
        leaf = leaf.astype(int)  # what `take` would make of it each time
        equation = self.coefficient[output].take(leaf, axis=0, mode="clip")
        value = applied(equation, design)
        low, high = (
            end[output].take(leaf, mode="clip") for end in (self.low, self.high)
        )
        if xp is np:
            np.maximum(value, low, out=value)
            return np.minimum(value, high, out=value)
        return clipped(value, low, high, jnp)


def _along_rows(numbers: AnyArray, place: AnyArray, xp: Any) -> Any:
    """Take from each row's numbers, (n, n_rows), those at places (..., n_rows)."""
    if xp is np:  # places in all of them: a single index is faster
        row = np.arange(numbers.shape[1])
        return numbers.ravel().take(place * len(row) + row, mode="clip")
    # A program counts in int32, and numbers of many rows are more than that.
    return jnp.take_along_axis(numbers, place, axis=0, mode="clip")


def clipped(value: AnyArray, low: AnyArray, high: AnyArray, xp: Any) -> Any:
    """Clip values, NaN to ``low``. At an end the slope is that of the end."""
    return xp.where(value > low, xp.where(value < high, value, high), low)


def applied(equation: AnyArray, design: AnyArray) -> Any:
    """Apply an equation of its own to every row, those of NumPy in place."""
    equation *= design
    return matmul(equation, np.ones(equation.shape[1], equation.dtype))


def packed_trees(
    trees: Sequence[Tree], weights: np.ndarray | float = 1.0, n: int = 0
) -> PackedTrees:
    """Pack weighted trees of one schema; gates count as hard splits.

    ``n``: for programs, number of leaves, and of comparisons, after padding.
    """
    tree, sizes = joined(trees), [one.n_nodes for one in trees]
    left, right = tree.left.tolist(), tree.right.tolist()
    roots = (np.cumsum(sizes) - sizes).tolist()
    n_splits = max(sizes) // 2
    n_bits = _HALF if max(n, n_splits // 4) > _MANY else BYTE
    n_bits = 2 * BYTE if BYTE < n_splits <= 2 * BYTE and not n else n_bits
    pieces, n_steps = _pieces(left, right, roots, n_bits)
    n_steps = max(2, next_power_of_two(n_steps)) if n else n_steps
    place, start = _fitted([len(chosen) for chosen in pieces.values()], n_bits)
    leaf = np.flatnonzero(tree.is_leaf)
    n_leaves, n_pieces = n or len(leaf), n or len(pieces)
    n_states = n_leaves + n_pieces
    least = np.min_scalar_type(n_states)
    state = np.zeros(tree.n_nodes, np.promote_types(least, np.uint16) if n else least)
    state[leaf] = np.arange(len(leaf))
    state[[*pieces]] = n_leaves + np.arange(len(pieces))
    # A row that has reached its leaf stays there.
    first = 0 if n_steps > 1 or tree.is_leaf[roots].any() else n_leaves
    following = np.arange(first, n_states, dtype=state.dtype)[:, None]
    alone = len({*place}) == len(place)  # in its number: bits above are 0
    most = n_splits if n_bits > BYTE and alone else n_bits
    following = np.repeat(following, 1 << most, axis=1)
    compared, at = comparisons_of(tree, not n, n)
    n_numbers = 2 * n // n_bits + 1 if n else max(place, default=-1) + 1
    order = np.full(n_numbers * n_bits, at[leaf[0]])  # bits that say nothing
    for piece, (root, chosen) in enumerate(pieces.items()):
        nodes, table = _table(left, right, root, chosen, state)
        before = 1 << (n_bits - start[piece] - len(nodes))  # decisions of other pieces
        own = following[n_leaves + piece - first]
        own.reshape(-1, len(table), before)[...] = table[:, None]
        bit = place[piece] * n_bits + start[piece] + np.arange(len(nodes))
        # The first byte of a number is the lesser one.
        order[bit ^ BYTE if n_bits > BYTE else bit] = at[nodes]
    weight = np.repeat(np.broadcast_to(weights, len(trees)), sizes)[leaf, None]
    ends = np.stack([weight * end[leaf] for end in tree.clip_range()])
    low, high = (
        padded(end.astype(np.float32), n_leaves).T
        for end in (ends.min(axis=0), ends.max(axis=0))
    )
    model = (weight[..., None] * tree.coefficient[leaf]).transpose(1, 0, 2)
    more = 1 + tree.direction.shape[1] - model.shape[2]  # only split on
    model = np.pad(model, [(0, 0), (0, n_leaves - len(leaf)), (0, more)])
    return PackedTrees(
        comparisons=compared,
        order=order.reshape(-1, min(n_bits, BYTE)).T,
        root=state[roots].astype(np.int32) - (first if n_steps else 0),
        place=np.r_[np.zeros(n_leaves, int), padded(np.array(place, int), n_pieces)],
        following=following,
        steps=np.arange(n_steps),
        node=padded(leaf.astype(np.int32), n_leaves),
        coefficient=model.astype(np.float32),
        low=low,
        high=high,
    )


def _pieces(
    left: list[int], right: list[int], roots: Sequence[int], most: int
) -> tuple[dict[int, set[int]], int]:
    """Cut trees into pieces of connected splits, by their first; how many on a way."""
    height = [0] * len(left)
    for node in range(len(left) - 1, -1, -1):  # parents come first
        if left[node] >= 0:
            height[node] = 1 + max(height[left[node]], height[right[node]])
    pieces, step = {}, 0
    waiting = [(root, 1) for root in roots if height[root]]
    for root, step in waiting:
        chosen, below = set(), [root]
        while below and len(chosen) < most:
            node = max(below, key=height.__getitem__)
            below.remove(node)
            chosen.add(node)
            below += [child for child in (left[node], right[node]) if height[child]]
        waiting += [(node, step + 1) for node in below]
        pieces[root] = chosen
    return pieces, step  # of the last one, as pieces nearer to a root come first


def _fitted(sizes: Sequence[int], n_bits: int) -> tuple[list[int], list[int]]:
    """Fit pieces into numbers of bits; return each one's number, and its first bit."""
    place, start = [0] * len(sizes), [0] * len(sizes)
    # Numbers by how many of their bits are free, the first one first.
    free: list[list[int]] = [[] for _ in range(n_bits + 1)]
    n_numbers = 0
    for piece in sorted(range(len(sizes)), key=lambda piece: -sizes[piece]):
        size, room = sizes[piece], n_bits
        fitting = [(free[n][0], n) for n in range(size, n_bits + 1) if free[n]]
        if fitting:
            number, room = min(fitting)
            heapq.heappop(free[room])
        else:
            number, n_numbers = n_numbers, n_numbers + 1
        heapq.heappush(free[room - size], number)
        place[piece], start[piece] = number, room - size
    return place, start


def _table(
    left: list[int], right: list[int], node: int, chosen: set[int], state: np.ndarray
) -> tuple[list[int], np.ndarray]:
    """Splits of a piece in preorder; states to which all decisions at them lead."""
    if node not in chosen:
        return [], state[node : node + 1]
    before, lefts = _table(left, right, left[node], chosen, state)
    after, rights = _table(left, right, right[node], chosen, state)
    both = np.empty((2, len(lefts), len(rights)), state.dtype)
    both[1], both[0] = lefts[:, None], rights
    return [node, *before, *after], both.ravel()


def programmed(tree: Tree, n: int = 0) -> PackedTrees:
    """Pack a hard tree for programs, with at least ``n`` leaves after padding."""
    most = max(len(tree.kind) - tree.n_leaves + 1, n, FEWEST)
    return packed_trees([tree], n=next_power_of_two(most))


@program()
def leaf_ids(x: jax.Array, codes: jax.Array, packed: Packed) -> tuple[jax.Array]:
    """Node id of every row's leaf, (n_rows,); rows come first in ``x``, ``codes``.

    ``packed``: a tree, and of other functions of blocks what else they are told.
    """
    tree: PackedTrees
    (tree,) = packed.apart()
    return (tree.node[tree.leaves(x.T, codes.T, jnp)[0]],)


def values_of(tree: PackedTrees, x: jax.Array, codes: jax.Array) -> jax.Array:
    """Predict with every row's leaf, clipped, (n_outputs, n_rows); traceable."""
    (leaf,) = tree.leaves(x.T, codes.T, jnp)
    design = jnp.concatenate([jnp.ones_like(x[:, :1]), x], axis=1)
    outputs = range(len(tree.coefficient))
    return jnp.stack([tree.values(leaf, design, output, jnp) for output in outputs])


def stacked(trees: Sequence[Tree], n_trees: int) -> PackedTrees:
    """Pack trees for programs, one behind the other, padded to a number of them."""

    def stack(*arrays: np.ndarray) -> np.ndarray:
        longest = max(map(len, arrays))  # of steps, and of comparisons of one split
        return padded(np.stack([padded(one, longest) for one in arrays]), n_trees)

    most = max(len(tree.kind) - tree.n_leaves + 1 for tree in trees)
    return jax.tree.map(stack, *(programmed(tree, most) for tree in trees))
