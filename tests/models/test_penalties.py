"""Ridge regressions of many penalties, against a decomposition of the matrix."""

import numpy as np
import pytest

from secret_jax.models.penalties import penalty_paths
from secret_jax.models.ridge import Ridge
from secret_jax.models.statistics import NodeStatistics

PENALTIES = np.logspace(-6, 2.5, 18)


def nodes(n: int, n_nodes: int, n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Correlations of columns, and moments with an output of each node."""
    random = np.random.default_rng(n)
    x = random.normal(size=(n_nodes, n_rows, n))
    matrix = np.swapaxes(x, 1, 2) @ x / n_rows
    y = random.normal(size=(n_nodes, n_rows))
    return matrix, np.einsum("kri,kr->ki", x, y) / n_rows


@pytest.mark.parametrize("n", [1, 2, 3, 10, 40])
def test_paths_are_those_of_eigenvectors(n: int):
    """Also of fewer rows than columns, of columns without spread or moments."""
    matrix, moment = nodes(n, n_nodes=7, n_rows=max(n // 2, 2))
    matrix[1, :, n // 2] = matrix[1, n // 2] = moment[1, n // 2] = 0.0
    moment[2] = 0.0
    matrix[3] = np.eye(n)
    value, vector = np.linalg.eigh(matrix)
    square = np.einsum("kij,ki->kj", vector, moment)[:, None] ** 2
    inverse = 1.0 / (np.maximum(value, 0.0)[:, None] + PENALTIES[:, None])
    expected = [square * inverse, square * inverse**2, inverse]
    found = penalty_paths(matrix, moment, PENALTIES)
    assert not found.indefinite.any()
    for one, terms in zip(found[:3], expected, strict=True):
        np.testing.assert_allclose(one, terms.sum(axis=2), rtol=1e-6, atol=1e-12)


def test_a_node_does_not_depend_on_the_others():
    matrix, moment = nodes(9, n_nodes=1000, n_rows=30)
    every = penalty_paths(matrix, moment, PENALTIES)
    for node in (0, 500, 999):
        alone = slice(node, node + 1)
        found = penalty_paths(matrix[alone], moment[alone], PENALTIES)
        for one, of_all in zip(found, every, strict=True):
            np.testing.assert_array_equal(one[0], of_all[node])


def test_eigenvalues_below_zero_are_told_and_count_as_zero():
    """Sums of float32 numbers of nearly collinear columns have such."""
    random = np.random.default_rng(0)
    basis = np.linalg.qr(random.normal(size=(60, 60)))[0]
    value = np.where(np.arange(60) < 30, 1.0, -2e-6)
    matrix = np.stack([np.eye(60), basis * value @ basis.T])
    found = penalty_paths(matrix, np.ones((2, 60)), PENALTIES)
    assert found.indefinite.tolist() == [False, True]
    rows, n = 300.0, 60
    scatter = np.zeros((2, n + 1, n + 1))
    scatter[:, :n, :n], scatter[:, n, n] = rows * matrix, rows
    scatter[:, :n, n] = scatter[:, n, :n] = rows * 0.05
    statistics = NodeStatistics(
        np.full(2, rows),
        np.zeros((2, n + 1)),
        scatter,
        np.full((2, 1), -3.0),
        np.full((2, 1), 3.0),
        np.full(2, 1e-6),
    )
    models = Ridge().fit(statistics, np.zeros((2, 1, n + 1)))
    assert (models.degrees >= 1.0).all()
    assert (models.degrees <= 1.0 + n).all()
    assert np.abs(models.coefficient).max() < 1.0
