"""Trees at any size are grown finer where pruning keeps what was grown."""

from __future__ import annotations

import numpy as np
import pytest

from secret_jax import RssSplits, SecretRegressor
from secret_jax.fit import alternatives
from secret_jax.fit.pipeline import grow_and_prune


def calendar(n_rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Days of many short seasons, each with a level of its own."""
    rng = np.random.default_rng(seed)
    day = rng.integers(0, 400, n_rows)
    level = np.random.default_rng(7).normal(size=134)
    return day[:, None].astype(float), level[day // 3] + 0.05 * rng.normal(size=n_rows)


@pytest.fixture(scope="module")
def rows():
    return calendar(1600, 0)


@pytest.fixture(scope="module")
def fine(rows):
    return fitted(rows, pruning_tolerance=0.0)


def fitted(rows, **parameters) -> SecretRegressor:
    model = SecretRegressor(oblique=False, leaf="constant", **parameters)
    return model.fit(*rows)


def test_small_regions_are_found_where_size_has_no_price(rows, fine):
    X, y = calendar(1000, 1)
    coarse = fitted(rows, pruning_tolerance=0.0, min_samples_split=0.02)
    errors = [np.mean((model.predict(X) - y) ** 2) for model in (coarse, fine)]
    assert coarse.n_leaves_ < 100 < fine.n_leaves_
    assert errors[1] < 0.5 * errors[0]


def test_streams_are_grown_finer_too(rows, fine):
    streamed = SecretRegressor(oblique=False, leaf="constant", pruning_tolerance=0.0)
    streamed.fit_stream(
        [(rows[0][:900], rows[1][:900]), (rows[0][900:], rows[1][900:])]
    )
    np.testing.assert_allclose(streamed.predict(rows[0]), fine.predict(rows[0]), 1e-9)


def test_limits_that_are_given_hold(rows, fine):
    given = fitted(rows, pruning_tolerance=0.0, min_samples_leaf=20)
    weight = given.tree_.weight[given.tree_.is_leaf]
    assert weight.min() >= 20 > fine.tree_.weight[fine.tree_.is_leaf].min()


@pytest.mark.parametrize(
    "options",
    [{"max_depth": 2}, {"splits": RssSplits(fixed_splits=("x0", 200))}, {}],
    ids=["depth", "fixed splits alone", "root"],
)
def test_what_a_finer_growth_cannot_change_is_fitted_once(options, monkeypatch):
    X, y = calendar(400, 2)
    y = y if "max_depth" in options else np.random.default_rng(0).normal(size=len(y))
    fits = []

    def counted(*given):
        fits.append(grow_and_prune(*given))
        return fits[-1]

    monkeypatch.setattr(alternatives, "grow_and_prune", counted)
    fitted((X, y), pruning_tolerance=0.0, **options)
    assert len(fits) == 1
