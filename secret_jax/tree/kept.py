"""Leaves that keep their training rows and predict from nearby ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from secret_jax.tree.structure import Tree

# Numbers in the largest array of a block of rows to predict: 32 MiB.
_BLOCK_NUMBERS = 1 << 22
# Slopes are shrunk by this share where rows spread as far as the kernel reaches; more
# where they lie along fewer directions, without information on the others.
_SHRINKAGE = 0.01
# A variance that is never reached: rows in one place have no slope.
_NO_VARIANCE = 1e-12
KINDS = ("kernel regression", "local linear regression")


class NoEquationsError(ValueError):
    """Error of a request that needs equations, of a tree whose leaves keep rows."""


@dataclass(frozen=True, eq=False, kw_only=True)
class KeptRows:
    """Training rows of the leaves, in standardised units, sorted by leaf.

    Attributes
    ----------
    degree : int
        0: weighted means (Nadaraya & Watson); 1: weighted linear models.
    x : ndarray of shape (n_rows, n_regressors), float32
    residual : ndarray of shape (n_rows, n_outputs), float32
        Targets minus the predictions of the leaf's linear model, not clipped.
    weight : ndarray of shape (n_rows,), float64
    first : ndarray of shape (n_nodes + 1,), int64
        The rows of a node are those from its number here up to the next one's.
    bandwidth : ndarray of shape (n_nodes,), float64
        Deviation of the Gaussian kernel; NaN where there are no rows.
    """

    degree: int
    x: np.ndarray
    residual: np.ndarray
    weight: np.ndarray
    first: np.ndarray
    bandwidth: np.ndarray

    def n_rows_of(self, node: int) -> int:
        """Number of rows kept by a node, with up to 50 copies of a row."""
        return int(self.first[node + 1] - self.first[node])

    def of(self, node: int) -> LocalRows:
        """Rows of a node."""
        part = slice(self.first[node], self.first[node + 1])
        return LocalRows.of(self.x[part], self.residual[part], self.weight[part])

    def output(self, part: slice) -> KeptRows:
        """Restrict the residuals to a slice of the outputs."""
        return replace(self, residual=self.residual[:, part])

    def corrections(self, x: np.ndarray, node: np.ndarray) -> np.ndarray:
        """Local corrections to the linear models of given nodes.

        The time for a row grows with the rows that its leaf keeps, times the regressors
        (squared if the models are linear).

        Parameters
        ----------
        x : ndarray of shape (n_rows, n_regressors)
        node : ndarray of shape (n_rows,), int

        Returns
        -------
        ndarray of shape (n_rows, n_outputs), float64
            Zero at nodes without rows.
        """
        found = np.zeros((len(x), self.residual.shape[1]))
        order = np.argsort(node, kind="stable")
        occupied, start = np.unique(node[order], return_index=True)
        for own, part in zip(occupied, np.split(order, start[1:]), strict=True):
            if not self.n_rows_of(own):
                continue
            rows = self.of(own)
            for some in rows.blocks(len(part)):
                place = rows.centred(x[part[some]])
                square = rows.squared_distances(place)
                found[part[some]] = rows.smoothed(
                    place, square, float(self.bandwidth[own]), self.degree
                )
        return found


class LocalRows(NamedTuple):
    """Rows of one leaf, centered at their weighted mean.

    Attributes
    ----------
    center : ndarray of shape (n_regressors,), float64
    x : ndarray of shape (n_rows, n_regressors), float64
        Less the center.
    target : ndarray of shape (n_rows, n_outputs), float64
    weight : ndarray of shape (n_rows,), float64
    variance : ndarray of shape (n_regressors,), float64
    """

    center: np.ndarray
    x: np.ndarray
    target: np.ndarray
    weight: np.ndarray
    variance: np.ndarray

    @classmethod
    def of(cls, x: np.ndarray, target: np.ndarray, weight: np.ndarray) -> LocalRows:
        """Center the rows (at least one), in float64."""
        share = weight / weight.sum()
        center = share @ x.astype(np.float64)
        centred = x - center
        return cls(
            center, centred, target.astype(np.float64), weight, share @ centred**2
        )

    def centred(self, x: np.ndarray) -> np.ndarray:
        """Center other rows at the same point."""
        return x - self.center

    def blocks(self, n_rows: int) -> Iterator[slice]:
        """Slices of rows to predict that fit into memory."""
        width = max(len(self.weight), len(self.center) ** 2)
        size = max(_BLOCK_NUMBERS // width, 1)
        return (slice(first, first + size) for first in range(0, n_rows, size))

    def squared_distances(self, place: np.ndarray) -> np.ndarray:
        """Squared distances of centred rows to these: shape (n_others, n_rows)."""
        square = (place**2).sum(axis=1)[:, None] + (self.x**2).sum(axis=1)
        return np.maximum(square - 2.0 * (place @ self.x.T), 0.0)

    def smoothed(
        self, place: np.ndarray, square: np.ndarray, bandwidth: float, degree: int
    ) -> np.ndarray:
        """Weighted means, or weighted linear models, at other rows.

        Far from all rows the nearest ones count: only ratios of weights matter.

        Parameters
        ----------
        place : ndarray of shape (n_others, n_regressors), float64
            Centred.
        square : ndarray of shape (n_others, n_rows), float64
            Squared distances; infinite where a row is not to count.

        Returns
        -------
        ndarray of shape (n_others, n_outputs), float64
        """
        nearest = square.min(axis=1, keepdims=True)
        share = self.weight * np.exp((nearest - square) / (2.0 * bandwidth**2))
        share /= share.sum(axis=1, keepdims=True)
        value = share @ self.target
        n_regressors = len(self.center)
        if degree == 0 or n_regressors == 0:
            return value
        mean = share @ self.x
        # Column by column: all products of two columns would not fit into memory.
        columns = [share @ (self.x * column[:, None]) for column in self.x.T]
        scatter = np.stack(columns, axis=1) - mean[:, :, None] * mean[:, None, :]
        outputs = [share @ (self.x * column[:, None]) for column in self.target.T]
        moment = np.stack(outputs, axis=2) - mean[:, :, None] * value[:, None, :]
        reach = min(bandwidth**2, float(self.variance.mean()))
        penalty = _SHRINKAGE * reach + _NO_VARIANCE
        slope = np.linalg.solve(scatter + penalty * np.eye(n_regressors), moment)
        return value + np.einsum("qi,qio->qo", place - mean, slope)


def require_equations(tree: Tree) -> None:
    """Raise `NoEquationsError` for a tree whose leaves keep rows."""
    if tree.kept is not None:
        raise NoEquationsError(
            f"The leaves of this tree are a {KINDS[tree.kept.degree]} of rows that "
            "they keep, so they have no equations: they can be neither cut, nor "
            "exported as code, nor explained by terms. Use predict, export_text, "
            "plot_tree and save, or fit with another leaf, such as leaf='ridge'."
        )
