"""The E step over rows of nodes, on every kind of device, against loops in float64."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from rows_of_nodes import in_tiles
from scipy.special import expit
from scipy.stats import multivariate_normal

from secret_jax.data import kernels
from secret_jax.data.ragged import RaggedRows
from secret_jax.data.tiles import TiledRows

# A part of a tile, a row more than a tile, a single row.
LENGTH, TILE = np.array([40, 65, 1]), 64
N, N_STARTS, WIDTH = int(LENGTH.sum()), 2, 2


@pytest.fixture
def mixture(rng):
    """Rows (1, z), their weights, and two Gaussians of every start in every node."""
    z = np.concatenate([np.ones((1, N)), rng.normal(size=(WIDTH, N))])
    shape = len(LENGTH), N_STARTS, 2
    share = rng.uniform(0.2, 0.8, shape[:2])
    mean = rng.normal(size=(*shape, WIDTH))
    spread = rng.normal(size=(*shape, WIDTH, WIDTH))
    covariance = spread @ spread.swapaxes(-1, -2) + 0.5 * np.eye(WIDTH)
    alpha = np.stack([share, 1 - share], axis=-1)
    return z, rng.uniform(0.5, 2.0, N), alpha, mean, covariance


def expected_of(mixture):
    z, weight, alpha, mean, covariance = mixture
    node = np.repeat(np.arange(len(LENGTH)), LENGTH)
    moments = np.zeros((len(LENGTH), N_STARTS, 1 + WIDTH, 1 + WIDTH))
    likelihood = np.zeros((len(LENGTH), N_STARTS))
    for row, own in enumerate(node):
        for start in range(N_STARTS):
            logs = [
                np.log(alpha[own, start, i])
                + multivariate_normal.logpdf(
                    z[1:, row], mean[own, start, i], covariance[own, start, i]
                )
                for i in range(2)
            ]
            part = weight[row] * expit(logs[0] - logs[1])
            moments[own, start] += part * np.outer(z[:, row], z[:, row])
            likelihood[own, start] += weight[row] * np.logaddexp(*logs)
    return moments, likelihood


def forms_of(mixture):
    """Constants and factors of joint log-densities."""
    _, _, alpha, mean, covariance = mixture
    inverse = np.linalg.inv(np.linalg.cholesky(covariance))
    factor = np.concatenate([-inverse @ mean[..., None], inverse], axis=-1)
    size = np.log(np.linalg.det(covariance)) + WIDTH * np.log(2 * np.pi)
    return (np.log(alpha) - 0.5 * size).astype(np.float32), factor.astype(np.float32)


def on_tiles(rows, going, forms, *arrays):
    tiles = (in_tiles(values, LENGTH, len(rows.filled), TILE) for values in arrays)
    step = jax.jit(lambda rows, *given: rows.expectation(*given))
    return step(rows, forms, *tiles, going)


@pytest.mark.parametrize("kind", ["processor", "tiles", "kernel"])
def test_expectation(kind, mixture, monkeypatch):
    z, weight = (values.astype(np.float32) for values in mixture[:2])
    forms, going = forms_of(mixture), np.ones(len(LENGTH), bool)
    if kind == "processor":
        found = RaggedRows(LENGTH).expectation(forms, z, weight, going)
    else:
        if kind == "kernel":  # of two parts of a tile
            monkeypatch.setattr(kernels, "INTERPRETED", True)
            monkeypatch.setattr(kernels, "_LONG", 32)
            monkeypatch.setattr("secret_jax.data.tiles.uses_kernels", lambda: True)
            going[2] = False
        n_tiles = int((-(-LENGTH // TILE)).sum()) + 1
        found = on_tiles(TiledRows.of(LENGTH, n_tiles, TILE), going, forms, z, weight)
    moments, likelihood = expected_of(mixture)
    np.testing.assert_allclose(found[0][going], moments[going], rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(found[1][going], likelihood[going], rtol=1e-4)
    assert kind != "kernel" or not np.any(found[0][2])  # it is not read


def test_wide_tables_and_tiles_of_no_whole_blocks_are_not_for_kernels():
    rows = TiledRows.of(LENGTH, 5, TILE)
    assert kernels.takes(rows, 12)
    assert not kernels.takes(rows, 13)
    assert not kernels.takes(TiledRows.of(LENGTH, 5, 40), 3)
