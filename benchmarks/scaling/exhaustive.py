"""The search that SECRET replaces: every threshold, scored by two linear models.

A level-wise tree with axis-parallel splits and linear leaves. Each candidate threshold
costs one solve for each side; the sums behind them run along the sorted attribute, so
unlike in the programs of 2002 the search is n log n in the rows, not quadratic. This is
the strongest plain version of the competitor, in NumPy with its BLAS and LAPACK.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

# Rows of which all outer products are held at once.
_BLOCK = 2048
# Relative to the mean diagonal: a constant column must not stop a solve.
_RIDGE = 1e-10
# A node whose output is linear up to this share of its variance is not split.
_PURE = 1e-12


class OutOfTimeError(Exception):
    """A tree took longer than it was allowed to."""


class Nodes(NamedTuple):
    """A tree as lists, parents before their children."""

    # attribute, left, right: -1 in leaves.
    attribute: list[int]
    left: list[int]  # rows go left where the attribute is at most the threshold
    right: list[int]
    threshold: list[float]
    coefficient: list[np.ndarray]  # intercepts and slopes, (1 + n_columns,)

    @property
    def n_leaves(self) -> int:
        """Number of leaves."""
        return self.attribute.count(-1)

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Predictions, shape (n_rows,)."""
        found = np.empty(len(X))
        waiting = [(0, np.arange(len(X)))]
        while waiting:
            node, rows = waiting.pop()
            if self.attribute[node] < 0:
                intercept, *slopes = self.coefficient[node]
                found[rows] = intercept + X[rows] @ np.array(slopes)
                continue
            left = X[rows, self.attribute[node]] <= self.threshold[node]
            waiting.append((self.left[node], rows[left]))
            waiting.append((self.right[node], rows[~left]))
        return found


def exhaustive_tree(
    X: np.ndarray,
    y: np.ndarray,
    *,
    share: float = 1.0,
    min_samples_split: float = 0.01,
    min_samples_leaf: float = 0.0025,
    seconds: float = np.inf,
    seed: int = 0,
) -> Nodes:
    """Grow a tree by trying every threshold, or a random share of them.

    ``share``: of the distinct thresholds of a node that is tried, at least one;
    ``min_samples_split``, ``min_samples_leaf``: shares of the rows; a leaf also has
    twice as many rows as its model has coefficients. After ``seconds``:
    `OutOfTimeError`.
    """
    deadline = time.perf_counter() + seconds
    random = np.random.default_rng(seed)
    n_rows, n_columns = X.shape
    least = max(5, int(np.ceil(min_samples_leaf * n_rows)), 2 * (n_columns + 1))
    nodes = Nodes([], [], [], [], [])
    level = [(-1, np.arange(n_rows))]
    while level:
        following = []
        for parent, rows in level:
            node = len(nodes.attribute)
            x, output = X[rows], y[rows]
            coefficient, rss = _linear_model(x, output)
            for ids in (nodes.attribute, nodes.left, nodes.right):
                ids.append(-1)
            nodes.threshold.append(0.0)
            nodes.coefficient.append(coefficient)
            if parent >= 0:
                side = nodes.right if nodes.left[parent] >= 0 else nodes.left
                side[parent] = node
            scale = len(rows) * float(np.var(output))
            if len(rows) < max(min_samples_split * n_rows, 2 * least):
                continue
            if rss <= _PURE * max(scale, np.finfo(float).tiny):
                continue
            best = _best_split(x, output, rss, least, share, random, deadline)
            if best is None:
                continue
            attribute, threshold = best
            nodes.attribute[node], nodes.threshold[node] = attribute, threshold
            left = x[:, attribute] <= threshold
            following += [(node, rows[left]), (node, rows[~left])]
        level = following
    return nodes


def _linear_model(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, float]:
    """Least squares: intercept and slopes, and the residual sum of squares."""
    center, level = x.mean(axis=0), float(y.mean())
    joint = np.column_stack([x - center, y - level])
    gram = joint.T @ joint
    slopes = _solved(gram[None, :-1, :-1], gram[None, :-1, -1])[0]
    rss = float(gram[-1, -1] - gram[:-1, -1] @ slopes)
    return np.append(level - center @ slopes, slopes), rss


def _solved(matrix: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """Solutions of a stack of positive semidefinite systems."""
    diagonal = np.einsum("kii->ki", matrix)
    ridge = _RIDGE * diagonal.mean(axis=1) + np.finfo(float).tiny
    matrix = matrix + ridge[:, None, None] * np.eye(matrix.shape[1])
    return np.linalg.solve(matrix, vector[:, :, None])[:, :, 0]


def _best_split(
    x: np.ndarray,
    y: np.ndarray,
    rss: float,
    least: int,
    share: float,
    random: np.random.Generator,
    deadline: float,
) -> tuple[int, float] | None:
    """Attribute and threshold of the least residual sum of squares, if it is less."""
    # About the node's means, so that the sums lose few digits.
    joint = np.column_stack([np.ones(len(x)), x - x.mean(axis=0), y - y.mean()])
    total = joint.T @ joint
    lowest, best = rss, None
    for attribute in range(x.shape[1]):
        order = np.argsort(x[:, attribute])
        value = x[order, attribute]
        # Rows left of a cut; only between different values.
        cuts = 1 + np.flatnonzero(np.diff(value) > 0)
        cuts = cuts[(cuts >= least) & (cuts <= len(value) - least)]
        if len(cuts) == 0:
            continue
        if share < 1:
            n_tried = max(1, round(share * len(cuts)))
            cuts = np.sort(random.choice(cuts, n_tried, replace=False))
        for some, left in _running_grams(joint[order], cuts):
            if time.perf_counter() > deadline:
                raise OutOfTimeError
            both = _residuals(left) + _residuals(total - left)
            place = int(np.argmin(both))
            if both[place] < lowest:
                cut = some[place]
                lowest = float(both[place])
                best = attribute, float(value[cut - 1])
    return best


def _running_grams(
    joint: np.ndarray, cuts: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Grams of all rows left of each cut, for one block of cuts after the other."""
    width = joint.shape[1]
    before = np.zeros((width, width))
    if 8 * len(cuts) < len(joint):  # few cuts: one matrix product between two of them
        for first in range(0, len(cuts), _BLOCK):
            some = cuts[first : first + _BLOCK]
            grams = np.empty((len(some), width, width))
            start = cuts[first - 1] if first else 0
            for i, stop in enumerate(some):
                before = grams[i] = before + joint[start:stop].T @ joint[start:stop]
                start = stop
            yield some, grams
        return
    for first in range(0, len(joint), _BLOCK):
        rows = joint[first : first + _BLOCK]
        running = np.cumsum(rows[:, :, None] * rows[:, None, :], axis=0)
        running += before
        before = running[-1].copy()
        some = cuts[np.searchsorted(cuts, first, "right") :]
        some = some[: np.searchsorted(some, first + len(rows), "right")]
        if len(some):
            yield some, running[some - first - 1]


def _residuals(gram: np.ndarray) -> np.ndarray:
    """Residual sums of squares of linear models, from Grams of [1, x, y]."""
    moment = gram[:, :-1, -1]
    explained = np.einsum("ki,ki->k", moment, _solved(gram[:, :-1, :-1], moment))
    return np.maximum(gram[:, -1, -1] - explained, 0.0)
