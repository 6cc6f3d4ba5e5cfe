"""Fast prediction of one row of numbers by a hard tree: a few microseconds.

For one row the calls cost more than the sums: the tree's numbers are kept as Python
lists, and the row walks through them.
"""

from __future__ import annotations

import operator
from typing import NamedTuple

import numpy as np

from secret_jax.tree.structure import SplitKind, Tree

# Farther from the training rows, in deviations, the usual way knows what to do.
_FAR = 1e6


class OneRow(NamedTuple):
    """Hard tree of one output over numeric columns, as Python lists.

    Attributes
    ----------
    center, scale : ndarray of shape (n_columns,), float64
    child : list of tuple of (int, int)
        Left and right child of every node; of a leaf -1.
    terms : list of tuple of (int, float)
        Columns and factors of every split.
    threshold, intercept, low, high : list of float
        Parameters of every node; predictions are clipped to ``low`` and ``high``.
    """

    center: np.ndarray
    scale: np.ndarray
    child: list[tuple[int, int]]
    terms: list[tuple[tuple[int, float], ...]]
    threshold: list[float]
    intercept: list[float]
    slopes: list[list[float]]
    low: list[float]
    high: list[float]
    target_center: float
    target_scale: float

    @classmethod
    def of(cls, tree: Tree) -> OneRow | None:
        """Convert a tree; None if it has gates, categories, outputs, a loss or rows."""
        schema = tree.schema
        hard = not tree.is_soft and (tree.kind != SplitKind.DISCRETE).all()
        single = tree.n_outputs == 1 and tree.loss is None
        if not (hard and schema.is_plain and single):
            return None
        low, high = (side[:, 0].tolist() for side in tree.clip_range())
        coefficient = tree.coefficient[:, 0].astype(np.float64)
        terms = [
            tuple((int(i), float(direction[i])) for i in np.flatnonzero(direction))
            for direction in tree.direction
        ]
        return cls(
            center=schema.center.astype(np.float64),
            scale=schema.scale.astype(np.float64),
            child=list(zip(tree.left.tolist(), tree.right.tolist(), strict=True)),
            terms=terms,
            threshold=tree.threshold.tolist(),
            intercept=coefficient[:, 0].tolist(),
            slopes=coefficient[:, 1:].tolist(),
            low=low,
            high=high,
            target_center=float(schema.target_centers[0]),
            target_scale=float(schema.target_scales[0]),
        )

    def predict(self, row: np.ndarray) -> float | None:
        """Predict a row, in the units of the target.

        Parameters
        ----------
        row : ndarray of shape (n_columns,), float32 or float64

        Returns
        -------
        float or None
            Within 1e-6 of the target's deviation of what the row gets in a batch of
            many, which is computed in float32. None if a number is missing, infinite
            or far away.
        """
        with np.errstate(over="ignore"):
            z = ((row - self.center) / self.scale).astype(np.float32).tolist()
        for value in z:
            if not -_FAR < value < _FAR:
                return None
        node = 0
        left, right = self.child[0]
        while left >= 0:
            projection = 0.0
            for column, factor in self.terms[node]:
                projection += factor * z[column]
            node = left if projection <= self.threshold[node] else right
            left, right = self.child[node]
        slopes = sum(map(operator.mul, self.slopes[node], z))
        value = self.intercept[node] + slopes
        value = min(max(value, self.low[node]), self.high[node])
        return value * self.target_scale + self.target_center
