"""What ridge regressions of many penalties explain, without a regression of each.

The moments of the regressors with the output, put beside their matrix, are reduced by
reflections to a band of three diagonals. On it the error and the degrees of freedom of
a penalty are a short recurrence (Eldén. A Note on the Computation of the Generalized
Cross-Validation Function for Ill-Conditioned Least Squares Problems. BIT 24, 1984), and
the derivative comes along. Eigenvectors, which say the same, take three times as long.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.linalg import get_lapack_funcs

# Maximum number of numbers of the matrices that are reduced together: they stay in a
# cache.
_MOST_NUMBERS = 1 << 15
# Larger matrices are reduced one by one.
_MOST_AT_ONCE = 16


class PenaltyPaths(NamedTuple):
    """Ridge regressions with matrix C and moments m at each penalty p."""

    explained: np.ndarray  # (n_nodes, n_penalties): m' (C + p)^-1 m
    change: np.ndarray  # (n_nodes, n_penalties): m' (C + p)^-2 m
    trace: np.ndarray  # (n_nodes, n_penalties): of (C + p)^-1


def penalty_paths(
    matrix: Float[np.ndarray, "n_nodes n n"],
    moment: Float[np.ndarray, "n_nodes n"],
    penalty: Float[np.ndarray, " n_penalties"],
) -> PenaltyPaths:
    """Follow ridge regressions of several nodes along their penalties.

    ``matrix``: positive semi-definite; ``penalty``: positive.
    """
    n_nodes, n = moment.shape
    found = PenaltyPaths(*np.empty((3, n_nodes, len(penalty))))
    together = max(_MOST_NUMBERS // (n + 1) ** 2, 1)
    for start in range(0, n_nodes, together):
        some = slice(start, start + together)
        bordered = np.zeros((n + 1, n + 1, len(moment[some])))
        bordered[1:, 1:] = np.moveaxis(matrix[some], 0, 2)
        bordered[1:, 0] = moment[some].T
        bands = _bands_at_once if n <= _MOST_AT_ONCE else _bands_one_by_one
        for every, part in zip(found, _paths(*bands(bordered), penalty), strict=True):
            every[some] = part.T
    return found


def _bands_one_by_one(
    matrix: Float[np.ndarray, "n n n_nodes"],
) -> tuple[np.ndarray, np.ndarray]:
    """`_bands_at_once` by LAPACK, whose blocks are worth it for large matrices."""
    (reduced,) = get_lapack_funcs(["sytrd"], dtype=np.float64)
    diagonal, below = np.zeros(matrix.shape[1:]), np.zeros(matrix.shape[1:])
    for node in range(matrix.shape[2]):
        _, diagonal[:, node], beside, *_ = reduced(matrix[:, :, node], lower=1)
        below[:-1, node] = beside**2
    return diagonal, below


def _bands_at_once(
    matrix: Float[np.ndarray, "n n n_nodes"],
) -> tuple[np.ndarray, np.ndarray]:
    """Diagonals, and squares of what is below them, of the reduced matrices.

    The first row and column are only reduced with the others; all is overwritten.
    """
    n = len(matrix)
    below = np.zeros(matrix.shape[1:])
    for j in range(n - 1):
        mirror, rest = matrix[j + 1 :, j], matrix[j + 1 :, j + 1 :]
        below[j] = np.einsum("ik,ik->k", mirror, mirror)
        if j == n - 2:
            break
        length = np.sqrt(below[j])
        scale = below[j] + length * np.abs(mirror[0])
        scale = np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0)
        mirror[0] += np.copysign(length, mirror[0])
        image = scale * np.einsum("ijk,jk->ik", rest, mirror)
        image -= 0.5 * scale * np.einsum("ik,ik->k", image, mirror) * mirror
        both = mirror[:, None] * image
        rest -= both
        rest -= both.swapaxes(0, 1)
    return np.einsum("iik->ik", matrix), below


def _paths(
    diagonal: Float[np.ndarray, "n n_nodes"],
    below: Float[np.ndarray, "n n_nodes"],
    penalty: Float[np.ndarray, " n_penalties"],
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The fields of `PenaltyPaths`, (n_penalties, n_nodes), from the last row up."""
    shape = len(penalty), diagonal.shape[1]
    pivot, rate, trace = np.ones(shape), np.zeros(shape), np.zeros(shape)
    for j in range(len(diagonal) - 1, 0, -1):
        ratio = below[j] / pivot
        pivot = diagonal[j] + penalty[:, None] - ratio
        # Rounding must not take more than there is.
        np.maximum(pivot, penalty[:, None], out=pivot)
        rate = (1.0 + ratio * rate) / pivot  # of the pivot's logarithm
        trace += rate
    explained = below[0] / pivot
    return explained, explained * rate, trace
