"""Rows that lie on a device: measured, encoded and read there, as on the host."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from secret_jax import SecretBoostingClassifier, SecretRegressor
from secret_jax.data import shards
from secret_jax.data.row_programs import encoded_block
from secret_jax.data.scaling import moments_of
from secret_jax.data.shards import as_they_lie
from secret_jax.datasets import make_fried
from secret_jax.fit import pipeline as fit
from secret_jax.splits.rss import RssSplits
from secret_jax.tree import routing

SMALL = {
    "splits": RssSplits(max_samples=64),
    "min_samples_split": 0.1,
    "random_state": 0,
}


@pytest.fixture(scope="module")
def data():
    return make_fried(6000, random_state=0)


@pytest.fixture
def resident(monkeypatch):
    """Arrays of JAX count as lying on an accelerator, wherever they lie."""
    for module in ("data.encoding", "data.validation"):
        target = f"secret_jax.{module}.is_resident"
        monkeypatch.setattr(target, lambda X: isinstance(X, jax.Array))


def test_moments_on_the_device(rng):
    x = (rng.normal(size=(5000, 4)) * [1, 10, 0, 1e-3] + [0, 5, 7, 1e3]).astype("f4")
    for weight in (np.ones(len(x)), rng.uniform(0.1, 9, len(x))):
        sums = as_they_lie(jnp.asarray(x)).sums(weight)
        center, scale = moments_of(sums, "abcd")
        expected = np.average(x.astype(np.float64), axis=0, weights=weight)
        variance = np.average((x - expected) ** 2, axis=0, weights=weight)
        np.testing.assert_allclose(center, expected, rtol=1e-13, atol=1e-12)
        variance[2] = 1.0
        np.testing.assert_allclose(scale, np.sqrt(variance), rtol=1e-9)
    bad = jnp.asarray(x).at[17, 2].set(np.nan)
    assert as_they_lie(bad).sums(np.ones(len(x))) is None


def test_encoding_on_the_device(rng):
    x = (rng.normal(size=(300, 3)) * [1, 10, 1e-2] + [0, 5, 1e3]).astype("f4")
    x[0, 0], x[1, 0] = 3e38, -3e38
    center, scale = np.array([0.1, 5.0, 1e3 + 1e-5]), np.array([1e-3, 10.0, 1e-2])
    low, high = np.array([-1e30, -0.3, -1e30]), np.array([1e30, 0.5, 1e30])
    found = encoded_block(jnp.asarray(x), (center, scale, low, high))
    assert isinstance(found, jax.Array)
    assert found.dtype == np.float32
    exact = np.clip((x.astype(np.float64) - center) / scale, low, high)
    # The digits of x are exact in the difference; only the quotient is rounded.
    np.testing.assert_allclose(found, exact, rtol=1e-6, atol=1e-6)


def test_rows_on_a_device_stay_there_unless_they_need_the_host(
    data, resident, monkeypatch
):
    X, y = data
    X = X.astype(np.float32)
    options = SMALL | {"splits": RssSplits(max_samples=128), "max_leaf_nodes": 6}
    expected = SecretRegressor(**options).fit(X, y)
    seen = []
    counted_statistics = fit.counted_statistics

    def statistics(tree, sources):
        seen.extend(sources)
        return counted_statistics(tree, sources)

    monkeypatch.setattr(fit, "counted_statistics", statistics)
    model = SecretRegressor(**options).fit(jnp.asarray(X), y)
    assert len(seen) == 1
    assert isinstance(seen[0].columns.x, jax.Array)
    assert seen[0].n_rows == len(X)
    assert model.n_features_in_ == X.shape[1]
    # The same sample grew it, so it is the same tree but for rounding.
    assert np.array_equal(model.tree_.left, expected.tree_.left)
    assert np.array_equal(model.tree_.kind, expected.tree_.kind)
    np.testing.assert_allclose(
        model.predict(X), expected.predict(X), rtol=1e-4, atol=1e-3
    )
    np.testing.assert_allclose(
        model.predict(jnp.asarray(X)), model.predict(X), rtol=1e-4, atol=1e-3
    )
    assert np.array_equal(model.apply(jnp.asarray(X[:50])), model.apply(X[:50]))
    X, y = X[:800].copy(), y[:800]
    X[::9, 2] = np.nan  # these are read on the host
    on_host = SecretRegressor(**SMALL).fit(X, y).predict(X)
    model = SecretRegressor(**SMALL).fit(jnp.asarray(X), y)
    np.testing.assert_allclose(model.predict(jnp.asarray(X)), on_host, rtol=1e-5)


@pytest.mark.parametrize("dtype", [bool, np.complex64])
def test_a_device_array_that_holds_no_numbers_is_refused(data, resident, dtype):
    X = jnp.asarray(data[0]).astype(dtype)
    with pytest.raises(
        ValueError, match=r"device array of dtype .*astype\('float32'\)"
    ):
        SecretRegressor(**SMALL).fit(X, data[1])


@pytest.mark.parametrize("n_outputs", [1, 2])
def test_predictions_stay_where_the_rows_lie(n_outputs):
    X, y = make_fried(600, random_state=0)
    targets = y if n_outputs == 1 else np.stack([y, X[:, 0] - X[:, 1]], axis=1)
    model = SecretRegressor(max_depth=2, prune=None).fit(X, targets)
    there = jax.device_put(X.astype(np.float32))
    found = model.predict(there)
    assert isinstance(found, jax.Array)
    assert found.devices() == there.devices()
    np.testing.assert_allclose(found, model.predict(X), atol=1e-5 * targets.std())


def test_predictions_of_many_rows_are_made_in_blocks(resident, monkeypatch):
    X, y = make_fried(3000, random_state=0)
    model = SecretRegressor(max_depth=2, prune=None).fit(X[:300], y[:300])
    there, sizes = jnp.asarray(X, np.float32), []
    expected, predicted = model.predict(there), routing._predicted

    def noted(x, *arguments, **static):
        sizes.append(len(x))
        return predicted(x, *arguments, **static)

    monkeypatch.setattr(routing, "_predicted", noted)
    monkeypatch.setattr(shards, "rows_at_once", lambda *_: 1024)
    np.testing.assert_allclose(model.predict(there), expected, rtol=1e-6)
    assert sizes == [1024] * 3


def test_predictions_of_all_kinds_stay_where_the_rows_lie(resident, monkeypatch):
    X, y = make_fried(300, random_state=0)
    there = jnp.asarray(X, np.float32)
    gates = SecretRegressor(max_leaf_nodes=4, refine="blend", distill=False)
    booster = SecretBoostingClassifier(max_iter=1, n_folds=2, max_leaf_nodes=4)
    counts = SecretRegressor(max_depth=1, prune=None, loss="poisson")
    ways = (
        gates.fit(X, y).predict,
        booster.fit(X, y > 15).predict_proba,
        counts.fit(X, np.floor(np.abs(y))).predict,
    )
    expected = [predict(X) for predict in ways]
    monkeypatch.setattr(routing, "_computed", None)
    monkeypatch.setattr(routing, "_by_rows", None)
    for predict, values in zip(ways, expected, strict=True):
        found = predict(there)
        assert isinstance(found, jax.Array)
        np.testing.assert_allclose(found, values, atol=1e-5 * values.std())
