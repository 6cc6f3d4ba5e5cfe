"""Growth ends where pruning has long chosen, and pruning chooses the same."""

from __future__ import annotations

import numpy as np
import pytest

from secret_jax import SecretRegressor
from secret_jax.datasets import make_fried
from secret_jax.fit import axis_or_oblique
from secret_jax.splits.rss import RssSplits

SMALL = {"oblique": False, "distill": False}


@pytest.fixture(scope="module")
def step():
    """Two leaves say all, and splits below them find noise."""
    X, _ = make_fried(1200, random_state=0)
    noise = np.random.default_rng(0).normal(size=len(X))
    return X[:, :4], np.where(X[:, 0] > 0.4, 3.0 + X[:, 1], -X[:, 2]) + 0.3 * noise


def test_the_tree_is_that_of_full_growth(step, monkeypatch):
    ended = SecretRegressor(**SMALL, splits=RssSplits(min_gain=0.1)).fit(*step)
    monkeypatch.setattr(axis_or_oblique, "PATIENCE_LEVELS", 99)
    whole = SecretRegressor(**SMALL, splits=RssSplits(min_gain=0.1)).fit(*step)
    assert ended.n_leaves_ == whole.n_leaves_
    np.testing.assert_array_equal(ended.tree_.threshold, whole.tree_.threshold)
    np.testing.assert_allclose(ended.predict(step[0]), whole.predict(step[0]))
    assert ended.n_leaves_grown_ < whole.n_leaves_grown_
