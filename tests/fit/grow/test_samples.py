"""What a search sees of a node stands for all of its rows."""

from __future__ import annotations

import numpy as np
import pytest

from secret_jax import SecretRegressor


@pytest.mark.parametrize("splits", ["rss", "secret"])
def test_many_identical_rows_do_not_hide_the_others(splits):
    """Three binary columns, a binary target: few distinct rows, many copies."""
    rng = np.random.default_rng(8)
    X = rng.integers(0, 2, (8000, 3)).astype(float)
    y = (rng.random(8000) < 0.2 + 0.5 * X[:, 0] * X[:, 1]).astype(float)
    model = SecretRegressor(splits=splits, prune=None, random_state=0).fit(X, y)
    cells = 4 * X[:, 0] + 2 * X[:, 1] + X[:, 2]
    mean = np.bincount(cells.astype(int), y) / np.bincount(cells.astype(int))
    best = np.mean((y - mean[cells.astype(int)]) ** 2)
    assert np.mean((model.predict(X) - y) ** 2) < 1.02 * best
