"""Ridge regression shrunk toward the parent's model, and of many penalties."""

from __future__ import annotations

import numpy as np
import pytest
from statistics_by_hand import statistics_of

from secret_jax import SecretRegressor
from secret_jax.models import ridge
from secret_jax.models.linear import selected_forward
from secret_jax.models.ridge import Ridge, penalty_paths
from secret_jax.models.statistics import NodeStatistics


@pytest.mark.parametrize("noise", [0.01, 3.0])
def test_shrinkage_is_the_ridge_of_least_cross_validation_error(noise):
    rng = np.random.default_rng(2)
    x = rng.normal(size=(60, 4)) @ np.diag([1, 2, 0.5, 1])
    base = np.array([[0.5, 1.0, 0.0, -1.0, 0.0]])
    y = x @ [1.2, 0.1, -1, 0] + 0.5 + noise * rng.normal(size=60)
    statistics = statistics_of(x, y)
    model, degrees, _ = Ridge(gcv_factor=1.2).fit(statistics, base[:, None])
    model = model[:, 0]

    residual = y - base[0, 0] - x @ base[0, 1:]
    centred = x - x.mean(axis=0)
    scaled = centred / centred.std(axis=0)
    best = (np.mean((residual - residual.mean()) ** 2) / (1 - 1.2 / 60) ** 2, None, 1.0)
    for strength in np.logspace(-6, 2.5, 18):
        inverse = np.linalg.inv(scaled.T @ scaled / 60 + strength * np.eye(4))
        slopes = inverse @ scaled.T @ (residual - residual.mean()) / 60
        free = 1 + np.trace(inverse @ scaled.T @ scaled / 60)
        error = np.mean((residual - residual.mean() - scaled @ slopes) ** 2)
        score = error / (1 - 1.2 * free / 60) ** 2
        if score < best[0]:
            best = (score, slopes / centred.std(axis=0), free)
    slopes = base[0, 1:] + (0 if best[1] is None else best[1])
    np.testing.assert_allclose(model[0, 1:], slopes, atol=1e-8)
    np.testing.assert_allclose(model[0, 0], np.mean(y - x @ slopes), atol=1e-8)
    assert degrees[0] == pytest.approx(best[2])


def test_forward_selection_is_that_of_least_squares(rng):
    x = rng.normal(size=(80, 6)) @ rng.normal(size=(6, 6))
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    y = x @ [2.0, 0.0, -1.0, 0.5, 0.0, 0.0] + rng.normal(size=80)
    y = y - y.mean()
    # A second node has two of the columns twice: four of them are as good as all.
    twice = x[:, [0, 1, 2, 3, 0, 1]]
    gram = np.stack([x.T @ x, twice.T @ twice]) / 80
    moment = np.stack([y @ x, y @ twice]) / 80
    none, variance = np.full(2, -np.inf), np.full(2, np.var(y))
    found, unexplained = selected_forward(gram, moment, variance, none, 1e-6, most=5)
    chosen: list[int] = []
    for _ in range(5):
        errors = {}
        for column in set(range(6)) - set(chosen):
            part = x[:, [*chosen, column]]
            errors[column] = np.linalg.lstsq(part, y, rcond=None)[1].sum()
        chosen.append(min(errors, key=lambda column: errors[column]))
    assert found[0].tolist() == chosen
    np.testing.assert_allclose(unexplained[0], min(errors.values()) / 80)
    assert sorted(found[1].tolist()) == [-1, 0, 1, 2, 3]


def test_noise_of_many_columns_leaves_the_mean(rng):
    """The best 128 of 200 fit noise well; that they were chosen has its price."""
    X, y = rng.normal(size=(300, 200)), rng.normal(size=300)
    model = SecretRegressor(max_depth=0, prune=None, equation_tolerance=0.0).fit(X, y)
    np.testing.assert_allclose(model.tree_.coefficient[0, 0, 1:], 0)
    several = np.array([64, 128, 1000])
    # The mean of the largest squares of normal numbers, of so many.
    squares = np.sort(rng.normal(size=(400, 1000)) ** 2, axis=1)[:, ::-1]
    price = ridge._price_of_choice(64, several)
    assert price[0] == pytest.approx(1.0)
    assert price[2] == pytest.approx(squares[:, :64].mean(), rel=0.02)


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
    few, many, more = (
        penalty_paths(*(np.concatenate([a] * n) for a in (matrix, moment)), PENALTIES)
        for n in (1, 20, 200)
    )
    assert not few.indefinite.any()
    for one, of_many, of_more, terms in zip(
        few[:3], many[:3], more[:3], expected, strict=True
    ):
        terms = terms.sum(axis=2)
        np.testing.assert_allclose(one, terms, rtol=1e-6, atol=1e-12)
        # A node does not depend on the others, but for rounding on how many they are.
        np.testing.assert_allclose(of_many, np.tile(one, (20, 1)), 1e-9, 1e-12)
        np.testing.assert_array_equal(of_more, np.tile(of_many, (10, 1)))


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
    mean, side, rounding = np.zeros((2, n + 1)), np.full((2, 1), 3.0), np.full(2, 1e-6)
    statistics = NodeStatistics(np.full(2, rows), mean, scatter, -side, side, rounding)
    models = Ridge().fit(statistics, np.zeros((2, 1, n + 1)))
    assert (models.degrees >= 1.0).all()
    assert (models.degrees <= 1.0 + n).all()
    assert np.abs(models.coefficient).max() < 1.0
