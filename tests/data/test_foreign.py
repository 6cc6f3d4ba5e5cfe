"""Arrays of other libraries, and results of the kind of X."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

from secret_jax import SecretBoostingRegressor, SecretClassifier, SecretRegressor
from secret_jax.data.foreign import taken
from secret_jax.data.shards import shard_rows

CUDA = (2, 0)


class Exported:
    """Array of a library that knows DLPack and nothing of NumPy."""

    def __init__(self, array):
        self.array = array

    def __len__(self):
        return len(self.array)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)


class OnCuda(Exported):
    """Array like one of CuPy, in memory that JAX does not see here."""

    def __array__(self, *_, **__):
        raise TypeError("Implicit conversion to a NumPy array is not allowed.")

    def __dlpack_device__(self):
        return CUDA

    def __dlpack__(self, **options):
        raise BufferError("this memory is not of the host")

    def get(self):
        return self.array


class Unreadable(OnCuda):
    get = property()  # pyright: ignore

    def __dlpack_device__(self):
        return (1, 0)


@pytest.fixture(scope="module")
def data():
    X = np.random.default_rng(0).normal(size=(300, 3))
    return X, np.abs(X[:, 0]) + X[:, 1], np.where(X[:, 2] > 0, 2.0, 1.0)


@pytest.fixture(scope="module")
def model(data):
    return SecretRegressor(max_depth=2, prune=None).fit(*data)


def of_torch(array):
    torch = pytest.importorskip("torch", reason="arrays of PyTorch need it")
    return torch.from_numpy(array)


@pytest.mark.parametrize("kind", [Exported, OnCuda, of_torch])
def test_arrays_of_other_libraries_are_read(kind, data, model):
    own = [kind(array) for array in data]
    found = SecretRegressor(max_depth=2, prune=None).fit(*own)
    prediction = found.predict(own[0])
    assert type(prediction) is np.ndarray
    assert np.array_equal(prediction, model.predict(data[0]))
    labels = (data[1] > 1).astype(np.int64)
    classes = SecretClassifier(max_depth=1, prune=None)
    expected = classes.fit(data[0], labels).predict(data[0])
    found = classes.fit(own[0], kind(labels)).predict(own[0])
    assert np.array_equal(found, expected)


def test_an_array_of_jax_in_dlpack_is_one(data):
    assert isinstance(taken(Exported(jnp.asarray(data[0]))), np.ndarray)
    assert np.array_equal(taken(Exported(data[0])), data[0])


def test_memory_that_jax_sees_is_not_copied(data, monkeypatch):
    there = jnp.asarray(data[0])
    monkeypatch.setattr(jax.dlpack, "from_dlpack", lambda array: there)
    assert taken(OnCuda(data[0])) is there


def test_an_array_that_cannot_be_read_says_why(data):
    with pytest.raises(TypeError, match=r"not allowed.*tensor.detach\(\).cpu\(\)"):
        SecretRegressor().fit(Unreadable(data[0]), data[1])


def test_results_are_of_the_kind_of_x(data, model):
    X, y, _ = data
    expected, there = model.predict(X), jnp.asarray(X)
    booster = SecretBoostingRegressor(max_iter=1, n_folds=2).fit(X, y)
    classes = SecretClassifier(max_depth=1, prune=None).fit(X, y > 1)
    for method in (
        model.predict,
        booster.predict,
        booster.predict_interval,
        classes.predict,
        classes.predict_proba,
        classes.predict_log_proba,
        classes.decision_function,
        model.encode,
    ):
        plain, found = method(X), method(there)
        for one, other in zip(*map(jax.tree.leaves, (plain, found)), strict=True):
            assert type(one) is np.ndarray
            assert isinstance(other, jax.Array)
            assert other.devices() == there.devices()
            np.testing.assert_allclose(other, one, rtol=1e-4, atol=1e-4)
    deviations = model.predict(there, return_std=True)
    assert all(isinstance(part, jax.Array) for part in deviations)
    assert model.score(there, y) == pytest.approx(model.score(X, y))
    assert type(model.predict(pd.DataFrame(X))) is np.ndarray
    found = model.predict(shard_rows(X))
    assert isinstance(found, jax.Array)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    text = SecretClassifier(max_depth=1, prune=None).fit(X, np.where(y > 1, "a", "b"))
    assert np.array_equal(text.predict(there), text.predict(X))


@pytest.mark.parametrize("how", [jax.jit, jax.grad, jax.vmap])
def test_within_a_trace_the_error_names_the_function(how, data, model):
    with pytest.raises(TypeError, match=r"to_jax\(\).*encode\(X\)"):
        how(model.predict)(data[0])
