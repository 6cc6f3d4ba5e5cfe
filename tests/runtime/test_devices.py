"""Devices by name, a bound on memory, 32 bits, and the caller's settings in threads."""

from __future__ import annotations

from contextlib import nullcontext
from unittest import mock

import jax
import numpy as np
import pytest
from sklearn import config_context

from benchmarks.device.counting import as_on_accelerator
from secret_jax import SecretRegressor
from secret_jax.data.shards import computing_for
from secret_jax.datasets import make_fried
from secret_jax.fit.grow import on_device
from secret_jax.runtime import devices
from secret_jax.runtime.devices import (
    carried,
    computing_on,
    in_32_bits,
    rows_at_once,
)
from secret_jax.runtime.parallel import in_blocks
from secret_jax.splits.rss import RssSplits

SMALL = {
    "splits": RssSplits(max_samples=64),
    "min_samples_split": 0.1,
    "random_state": 0,
}


@pytest.fixture(scope="module")
def data():
    return make_fried(6000, random_state=0)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("gpu:7", r"device='gpu:7' does not exist here: JAX sees .*device=None"),
        ("cpu:99", r"device='cpu:99' .*: JAX sees cpu:0.* Name one.*device=None"),
        ("toaster", r"device='toaster' names no device\. Name one of cpu, gpu"),
        ("cpu:one", r"device='cpu:one' names no device"),
    ],
)
def test_a_device_that_does_not_exist_is_refused(data, name, message):
    model = SecretRegressor(**SMALL)
    with pytest.raises(ValueError, match=message):
        model.set_params(device=name).fit(*data)
    assert not hasattr(model, "tree_")
    assert not hasattr(model, "n_features_in_")


def test_what_to_do_depends_on_whether_there_is_such_a_device(monkeypatch):
    def local_devices(backend="cpu"):
        if backend not in there:
            raise RuntimeError(f"Unknown backend {backend}")
        return [mock.Mock(platform=backend) for _ in range(2)]

    monkeypatch.setattr(jax, "local_devices", local_devices)
    there = {"cpu"}
    absent = r"sees cpu:0, cpu:1\. Install JAX .*secret-jax\[cuda13.*JAX_PLATFORMS"
    with pytest.raises(ValueError, match=absent):
        devices.device_named("gpu")
    there = {"cpu", "gpu"}
    with pytest.raises(ValueError, match=r"sees gpu:0, gpu:1\. Name one of these"):
        devices.device_named("gpu:3")


def test_a_model_predicts_where_its_device_is_gone(data):
    X, y = data
    model = SecretRegressor(device="cpu", **SMALL).fit(X, y)
    expected = model.predict(X)
    assert np.array_equal(model.set_params(device="tpu:5").predict(X), expected)
    other = SecretRegressor(**SMALL).fit(X, y)
    assert np.array_equal(other.predict(X), expected)


def test_threads_compute_on_the_device_of_the_caller():
    def where(rows):
        return jax.jit(lambda x: x + 1)(np.ones(2)).devices()

    device = jax.devices()[-1]
    with computing_on(f"cpu:{device.id}"):
        found = list(in_blocks(where, 10, 3))
        assert carried(where)(None) == {device}
    assert found == [{device}] * 4


def test_programs_have_32_bits_whatever_the_caller_has():
    def kind(_):
        return jax.jit(lambda x: x + 1)(np.ones(2)).dtype

    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)  # in every thread
    try:
        assert kind(None) == np.float64
        assert set(in_blocks(kind, 10, 3)) == {np.dtype(np.float32)}
        assert carried(kind)(None) == np.float32
        for bits in (in_32_bits(), computing_on(None)):
            with bits:
                assert kind(None) == np.float32
        assert kind(None) == np.float64
    finally:
        jax.config.update("jax_enable_x64", before)


def predictions(where):
    """Of a default tree and the paper's, grown as on processors or accelerators."""
    X, y = make_fried(300, n_features=5, random_state=0)
    default = SecretRegressor(max_depth=2, prune=None, oblique=True, random_state=0)
    few = mock.patch.multiple(on_device, _NODES=8, _FEWEST_ROWS=1 << 10)
    with few, as_on_accelerator() if where == "accelerator" else nullcontext():
        paper = SecretRegressor.paper(random_state=0)
        models = [model.fit(X, y) for model in (default, paper)]
    return np.stack([model.predict(X) for model in models])


SETTINGS = {
    "jax_enable_x64": True,
    "jax_disable_jit": True,
    "jax_debug_nans": True,
    "jax_debug_infs": True,
    "jax_numpy_dtype_promotion": "strict",
    "jax_numpy_rank_promotion": "raise",
    "jax_transfer_guard": "disallow",
    "jax_default_matmul_precision": "bfloat16",
    "jax_default_prng_impl": "rbg",
}


@pytest.mark.parametrize(
    "where", ["host", pytest.param("accelerator", marks=pytest.mark.device)]
)
def test_the_settings_of_others_change_no_tree(where):
    expected = predictions(where)
    for name, value in SETTINGS.items():
        before = getattr(jax.config, name)
        jax.config.update(name, value)  # in every thread
        try:
            found = predictions(where)
            assert getattr(jax.config, name) == value
        finally:
            jax.config.update(name, before)
        np.testing.assert_array_equal(found, expected, err_msg=name)


def test_a_bound_says_how_many_rows_go_through_at_once():
    with config_context(working_memory=4):
        assert rows_at_once(1024, 1 << 14) == 4096
        assert rows_at_once(16, 1 << 14) == 1 << 14
        assert rows_at_once(1 << 20, 1 << 14) == 1024  # never fewer


def test_few_rows_of_the_host_are_left_to_the_processor(monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    processor = jax.devices("cpu")[0]
    for n_rows, expected in ((10, processor), (1 << 17, processor), (1 << 18, None)):
        with computing_on(None, n_rows=n_rows):
            assert jax.config.jax_default_device is expected
    with computing_on(None):
        assert jax.config.jax_default_device is None
    with jax.default_device(processor), computing_on(None, n_rows=1 << 20):
        assert jax.config.jax_default_device is processor  # the caller has chosen


def test_out_of_memory_names_the_table_and_what_to_change():
    named = r"2,000 rows of 3 columns.*fewer rows.*working_memory.*device='cpu'"
    with (
        pytest.raises(MemoryError, match=named),
        computing_for(np.zeros((2000, 3)), "cpu"),
    ):
        raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: 1 GB")


def test_rows_that_lie_on_a_device_are_to_be_taken_from_it(monkeypatch):
    # Naming another device would not move them.
    monkeypatch.setattr("secret_jax.data.shards.is_resident", lambda X: True)
    named = r"2,000 rows of 3 columns.*fewer rows.*from the host \(np\.asarray"
    with (
        pytest.raises(MemoryError, match=named),
        computing_for(jax.numpy.zeros((2000, 3)), "cpu"),
    ):
        raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: 1 GB")


def test_out_of_memory_of_a_stream_names_its_rows():
    with (
        pytest.raises(MemoryError, match=r"for 2,000 rows \("),
        computing_on(None, n_rows=2000),
    ):
        raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: 1 GB")


@pytest.mark.gpu
def test_a_gpu_gives_the_tree_of_the_processor(data):
    X, y = data
    if not devices.on_accelerator():
        pytest.skip("JAX sees no accelerator")
    model = SecretRegressor(device="gpu", **SMALL).fit(X, y)
    expected = SecretRegressor(device="cpu", **SMALL).fit(X, y)
    np.testing.assert_allclose(model.score(X, y), expected.score(X, y), atol=0.02)
