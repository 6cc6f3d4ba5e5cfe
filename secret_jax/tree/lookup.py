"""Leaves of many rows by tables of decisions, in NumPy.

Rows are decided at all splits of some trees, and the decisions are bits. Where a tree
has few splits, all its bits of a row are one number, and a table says which leaf it
leads to. A larger tree is cut into pieces of at most eight splits, each with a table of
256 numbers: of leaves, and of pieces that the row goes on to. (QuickScorer, Lucchese et
al. 2015, decides all splits likewise, and finds its leaves by masks.)
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from secret_jax.tree.decisions import BYTE, Decisions, RowBlock, decisions_of
from secret_jax.tree.structure import Tree


class Lookup(NamedTuple):
    """Splits of some trees by bits, and the tables that lead from bits to leaves.

    The states of a row in a tree are pieces, and then a leaf.
    """

    decisions: Decisions
    # (n_states,), int: root of a piece, or leaf: pieces first, those of the trees'
    # roots before others.
    node: np.ndarray
    root: np.ndarray  # (n_trees,), int: state at the root of each tree
    place: np.ndarray  # (n_states,), int: which of the numbers of a row a state reads
    # (n_states, n_numbers), unsigned int: state that follows a state and the number
    # that it reads; of leaves only where rows may have to wait there.
    following: np.ndarray
    n_steps: int  # pieces on the longest way to a leaf

    def states(self, rows: RowBlock) -> np.ndarray:
        """Find the leaves of rows, as states, shape (n_trees, n_rows), unsigned int."""
        shape = len(self.root), len(rows)
        state = rows.scratch.array("state", shape, self.following.dtype)
        if not self.n_steps:
            state[:] = self.root[:, None]
            return state
        numbers = self.decisions.numbers(rows)
        index = rows.scratch.array("index", shape[1:], np.intp)
        for root, out in zip(self.root, state, strict=True):
            index[:] = numbers[self.place[root]]
            self.following[root].take(index, out=out, mode="clip")
        if self.n_steps == 1:
            return state
        per_number, per_row = (n // numbers.itemsize for n in numbers.strides)
        first, place = np.arange(len(rows)) * per_row, self.place * per_number
        numbers, following = numbers.ravel(order="K"), self.following.ravel()
        for _ in range(self.n_steps - 1):
            number = numbers.take(first + place.take(state))
            state = following.take((state.astype(np.intp) << BYTE) | number)
        return state


def lookup_of(forest: Tree, roots: Sequence[int]) -> Lookup:
    """Make the tables of trees; gates count as hard splits.

    ``forest``: trees in one set of arrays, with these roots.
    """
    left, right = forest.left.tolist(), forest.right.tolist()
    sizes = np.diff([*roots, len(left)]) // 2
    n_bits = 2 * BYTE if BYTE < sizes.max() <= 2 * BYTE else BYTE
    pieces, n_steps = _pieces(left, right, roots, n_bits)
    place, start = _fitted([len(piece) for piece in pieces], n_bits)
    leaf = np.flatnonzero(forest.is_leaf)
    node = np.r_[[piece[0] for piece in pieces], leaf].astype(np.intp)
    state = np.zeros(len(left), np.min_scalar_type(len(node)))
    state[node] = np.arange(len(node))
    # A row that has reached its leaf stays there.
    staying = node if n_steps > 1 else node[: len(pieces)]
    most = sizes.max() if n_bits > BYTE else n_bits  # bits above are 0
    following = np.repeat(state[staying, None], 1 << most, axis=1)
    bit = np.full(len(left), -1)
    for piece, nodes in enumerate(pieces):
        table = _table(left, right, nodes[0], set(nodes), state)
        table = np.repeat(table, 1 << (n_bits - start[piece] - len(nodes)))
        following[piece] = np.tile(table, following.shape[1] // len(table))
        bit[nodes] = place[piece] * n_bits + start[piece] + np.arange(len(nodes))
    n_numbers = max(place, default=-1) + 1
    return Lookup(
        decisions=decisions_of(forest, bit, n_numbers, n_bits),
        node=node,
        root=state[list(roots)].astype(np.intp),
        place=np.r_[place, np.zeros(len(leaf))].astype(np.intp),
        following=following,
        n_steps=n_steps,
    )


def _pieces(
    left: list[int], right: list[int], roots: Sequence[int], most: int
) -> tuple[list[list[int]], int]:
    """Cut trees into pieces of connected splits, each in preorder.

    Returns ``pieces``: nodes; those of the roots come first; ``n_steps``: pieces on the
    longest way to a leaf.
    """
    height = [0] * len(left)
    for node in range(len(left) - 1, -1, -1):  # parents come first
        if left[node] >= 0:
            height[node] = 1 + max(height[left[node]], height[right[node]])
    pieces, steps = [], [0]
    waiting = [(root, 1) for root in roots if height[root]]
    for root, step in waiting:
        chosen, below = set(), [root]
        while below and len(chosen) < most:
            node = max(below, key=height.__getitem__)
            below.remove(node)
            chosen.add(node)
            below += [child for child in (left[node], right[node]) if height[child]]
        waiting += [(node, step + 1) for node in below]
        pieces.append(list(_preorder(left, right, root, chosen)))
        steps.append(step)
    return pieces, max(steps)


def _preorder(
    left: list[int], right: list[int], node: int, chosen: set[int]
) -> Iterator[int]:
    if node in chosen:
        yield node
        yield from _preorder(left, right, left[node], chosen)
        yield from _preorder(left, right, right[node], chosen)


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


def _table(
    left: list[int], right: list[int], node: int, chosen: set[int], state: np.ndarray
) -> np.ndarray:
    """States to which all decisions at splits lead, by their bits in preorder."""
    if node not in chosen:
        return state[node : node + 1]
    lefts = _table(left, right, left[node], chosen, state)
    rights = _table(left, right, right[node], chosen, state)
    both = np.empty((2, len(lefts), len(rights)), state.dtype)
    both[1], both[0] = lefts[:, None], rights
    return both.ravel()
