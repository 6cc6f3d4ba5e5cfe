"""Slices through a tree: what its splits become where most columns are held fixed.

Every split on numbers is then a straight line, and every leaf a convex polygon.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from secret_jax.data.rows import Table
from secret_jax.tree.structure import SplitKind, Tree


class Piece(NamedTuple):
    """A node's part of the slice.

    Attributes
    ----------
    corners : ndarray of shape (n_corners, 2), float64
        Of its polygon, in encoded units, in order.
    cut : ndarray of shape (2, 2), float64, or None
        End points of the line of its split; None for leaves and where the split does
        not cut the polygon in two.
    """

    node: int
    corners: np.ndarray
    cut: np.ndarray | None


def pieces(tree: Tree, base: Table, positions: list[int], box: Any) -> Iterator[Piece]:
    """The polygons of all nodes that the slice meets, parents before children.

    Parameters
    ----------
    base : Table
        One row: what the columns are held at.
    positions : list of two int
        The encoded columns that vary.
    box : array-like of shape (2, 2)
        Lowest and highest value of each, in encoded units.
    """
    (left, right), (low, high) = np.asarray(box, np.float64)
    corners = np.array([[left, low], [right, low], [right, high], [left, high]])
    stack = [(0, corners)]
    fixed = base.x[0].astype(np.float64)
    fixed[positions] = 0.0
    while stack:
        node, corners = stack.pop()
        if tree.is_leaf[node]:
            yield Piece(node, corners, None)
            continue
        children = int(tree.left[node]), int(tree.right[node])
        if tree.kind[node] == SplitKind.DISCRETE:
            code = int(base.codes[0, tree.attribute[node]])
            known = tree.goes_left[node, code] if code >= 0 else tree.larger_left[node]
            yield Piece(node, corners, None)
            stack.append((children[0 if known else 1], corners))
            continue
        direction = tree.direction[node].astype(np.float64)
        threshold = tree.threshold[node] - direction @ fixed
        beyond = corners @ direction[positions] - threshold
        cut = _crossings(corners, beyond)
        yield Piece(node, corners, cut if len(cut) == 2 else None)
        # The right side first, so that the left one is drawn first.
        if (beyond > 0).any():
            stack.append((children[1], _clipped(corners, -beyond)))
        if (beyond < 0).any() or not beyond.any():
            stack.append((children[0], _clipped(corners, beyond)))


def _crossings(corners: np.ndarray, beyond: np.ndarray) -> np.ndarray:
    """Where a line crosses the sides of a polygon, shape (0 or 2, 2)."""
    following, later = np.roll(corners, -1, axis=0), np.roll(beyond, -1)
    crossed = (beyond > 0) != (later > 0)
    share = beyond[crossed] / (beyond[crossed] - later[crossed])
    return corners[crossed] + share[:, None] * (following[crossed] - corners[crossed])


def _clipped(corners: np.ndarray, beyond: np.ndarray) -> np.ndarray:
    """The part of a convex polygon that is not beyond (Sutherland & Hodgman 1974)."""
    kept = []
    for i in range(len(corners)):
        j = (i + 1) % len(corners)
        if beyond[i] <= 0:
            kept.append(corners[i])
        if (beyond[i] > 0) != (beyond[j] > 0):
            share = beyond[i] / (beyond[i] - beyond[j])
            kept.append(corners[i] + share * (corners[j] - corners[i]))
    return np.array(kept).reshape(-1, 2)


class Strip:
    """Splits and leaves along one column.

    Attributes
    ----------
    cuts : list of (float, bool)
        Where a split lies, in encoded units, and whether it is a gate.
    leaves : list of (int, float, float)
        Node and ends of its interval.
    """

    def __init__(self, tree: Tree, base: Table, position: int, side: np.ndarray):
        self.cuts, self.leaves = [], []
        # A second column that no split looks at makes a slice of two of one.
        one_more = np.concatenate([base.x, np.zeros((1, 1), np.float32)], axis=1)
        direction = np.pad(tree.direction, [(0, 0), (0, 1)])
        wide = replace(tree, direction=direction)
        places = [position, base.x.shape[1]]
        for piece in pieces(wide, Table(one_more, base.codes), places, [side, (0, 1)]):
            if piece.cut is not None:
                self.cuts.append(
                    (piece.cut[0, 0], bool(tree.gate_width[piece.node] > 0))
                )
            if tree.is_leaf[piece.node]:
                along = piece.corners[:, 0]
                self.leaves.append((piece.node, along.min(), along.max()))


def varied(base: Table, positions: list[int], values: np.ndarray) -> Table:
    """Copies of one row in which some encoded columns take the given values."""
    table = Table(*(np.repeat(array, len(values), axis=0) for array in base))
    table.x[:, positions] = values
    return table


def area(corners: np.ndarray) -> float:
    """Area of a polygon."""
    following = np.roll(corners, -1, axis=0)
    return 0.5 * abs(
        np.sum(corners[:, 0] * following[:, 1] - corners[:, 1] * following[:, 0])
    )
