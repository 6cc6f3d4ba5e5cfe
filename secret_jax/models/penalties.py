"""What ridge regressions of many penalties explain, without a regression of each.

The moments of the regressors with the output, put beside their matrix, are reduced by
reflections to a band of three diagonals. On it the error and the degrees of freedom of
a penalty are a short recurrence (Eldén. A Note on the Computation of the Generalized
Cross-Validation Function for Ill-Conditioned Least Squares Problems. BIT 24, 1984), and
the derivative comes along. Eigenvectors, which say the same, take twice as long.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.linalg import get_lapack_funcs

# Nodes that are worked on together: their numbers stay in a cache.
_TOGETHER = 256


class PenaltyPaths(NamedTuple):
    """Ridge regressions with matrix C and moments m at each penalty p."""

    explained: np.ndarray  # (n_nodes, n_penalties): m' (C + p)^-1 m
    change: np.ndarray  # (n_nodes, n_penalties): m' (C + p)^-2 m
    trace: np.ndarray  # (n_nodes, n_penalties): of (C + p)^-1
    # (n_nodes,), bool: whether C has eigenvalues clearly below zero, for which the
    # others are wrong.
    indefinite: np.ndarray


def penalty_paths(
    matrix: Float[np.ndarray, "n_nodes n n"],
    moment: Float[np.ndarray, "n_nodes n"],
    penalty: Float[np.ndarray, " n_penalties"],
) -> PenaltyPaths:
    """Follow ridge regressions of several nodes along their penalties.

    ``matrix``: positive semi-definite; ``penalty``: positive.
    """
    n_nodes, n = moment.shape
    explained, change, trace = np.empty((3, n_nodes, len(penalty)))
    found = PenaltyPaths(explained, change, trace, np.zeros(n_nodes, bool))
    bordered = np.zeros((n_nodes, n + 1, n + 1))
    bordered[:, 1:, 1:] = matrix
    bordered[:, 0, 1:] = moment
    for start in range(0, n_nodes, _TOGETHER):
        some = slice(start, start + _TOGETHER)
        bands = _bands(bordered[some])
        # Nobody reads the numbers of indefinite matrices, which may be too large.
        with np.errstate(over="ignore", invalid="ignore"):
            parts = _paths(*bands, penalty)
        for every, part in zip(found, parts, strict=True):
            every[some] = part.T
    return found


def _bands(
    matrix: Float[np.ndarray, "n_nodes n n"],
) -> tuple[np.ndarray, np.ndarray]:
    """Diagonals of reduced matrices (overwritten), and squares beside them."""
    (reduced,) = get_lapack_funcs(["sytrd"], dtype=np.float64)
    diagonal = np.empty(matrix.shape[:2])
    beside = np.empty((len(matrix), matrix.shape[1] - 1))
    for node, own in enumerate(matrix):
        # In the order of Fortran, what is right of the diagonal is below it: the first
        # row is not turned, and its length becomes the first number beside.
        _, diagonal[node], beside[node], *_ = reduced(own.T, lower=1, overwrite_a=1)
    return diagonal.T, beside.T**2


def _paths(
    diagonal: Float[np.ndarray, "n n_nodes"],
    beside: Float[np.ndarray, "n-1 n_nodes"],
    penalty: Float[np.ndarray, " n_penalties"],
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The fields of `PenaltyPaths`, nodes last, from the last row up."""
    shape = len(penalty), diagonal.shape[1]
    pivot, rate, trace = np.ones(shape), np.zeros(shape), np.zeros(shape)
    ratio, indefinite = np.zeros(shape), np.zeros(shape[1], bool)
    least = np.argmin(penalty)
    for j in range(len(diagonal) - 1, 0, -1):
        pivot = diagonal[j] + penalty[:, None] - ratio
        indefinite |= pivot[least] < 0.5 * penalty[least]
        # Rounding must not take more than there is.
        np.maximum(pivot, penalty[:, None], out=pivot)
        rate = (1.0 + ratio * rate) / pivot  # of the pivot's logarithm
        trace += rate
        ratio = beside[j - 1] / pivot
    return ratio, ratio * rate, trace, indefinite
