"""Fits side by side are the fits by themselves, tree for tree."""

from __future__ import annotations

import _thread
import signal
import threading
import time

import jax
import numpy as np
import pytest
from configurations import refusal, shop, tree_bytes

import secret_jax.grow.together as together
from secret_jax import (
    CartSplits,
    SecretBoostingRegressor,
    SecretRegressor,
    fit_many,
)
from secret_jax.runtime.devices import memory_limit


def wave(n_rows=400, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n_rows, 3))
    y = np.sin(4 * X[:, 0]) + X[:, 1] * (X[:, 2] > 0) + 0.1 * rng.normal(size=n_rows)
    return X, y


def grown_at_once(monkeypatch):
    """How many requests each frontier served."""
    sizes, grow = [], together._grow_alike

    def counted(requests):
        sizes.append(len(requests))
        grow(requests)

    monkeypatch.setattr(together, "_grow_alike", counted)
    return sizes


def test_repeats_are_the_single_fits(monkeypatch):
    X, y = wave()
    rng = np.random.default_rng(0)
    parts = [rng.permutation(400)[: 240 + 10 * i] for i in range(4)]
    model = SecretRegressor(oblique=False)
    alone = [model.fit(X[part], y[part]).tree_ for part in parts]
    sizes = grown_at_once(monkeypatch)
    found = fit_many(model, X, y, rows=parts, together=3)
    assert [tree_bytes(each.tree_) for each in found] == list(map(tree_bytes, alone))
    assert sizes[0] == 3
    assert len({each.n_leaves_ for each in found}) > 1


def test_models_of_several_kinds_with_pruning_rows_and_weights(monkeypatch):
    frame, price = shop(300, 0)
    weight = np.random.default_rng(1).integers(1, 3, 300)
    train, others = np.arange(200), np.arange(200, 300)
    models = [
        SecretRegressor.paper(random_state=0),
        SecretRegressor.paper(random_state=1),
        SecretRegressor(oblique=False, max_depth=2),
        SecretBoostingRegressor(size=4, n_rounds=1, average=False),
    ]
    sizes = grown_at_once(monkeypatch)
    given = {"rows": 3 * [train], "prune_rows": 3 * [others]}
    found = fit_many(models[:3], frame, price, weight, **given)
    assert max(sizes) == 2
    pair = (frame.iloc[others], price[others], weight[others])
    for model, own in zip(models[:3], found, strict=True):
        model.fit(frame.iloc[train], price[train], weight[train], prune_set=pair)
        assert tree_bytes(model.tree_) == tree_bytes(own.tree_)
    (booster,) = fit_many(models[3:], frame, price)
    expected = models[3].fit(frame, price).predict(frame)
    np.testing.assert_array_equal(booster.predict(frame), expected)


def test_an_error_in_one_fit_ends_all_and_is_told():
    X, y = wave(100)
    models = [SecretRegressor(max_depth=1), SecretRegressor(max_depth=-1)]
    with refusal("max_depth"):
        fit_many(models, X, y)
    with refusal("rows has 1 parts", "2 fits"):
        fit_many(models, X, y, rows=[np.arange(50)])
    with refusal("together"):
        fit_many(models[0], X, y, together=0)


def test_an_interruption_is_passed_on(monkeypatch):
    def interrupted(requests):
        raise KeyboardInterrupt

    monkeypatch.setattr(together, "_grow_alike", interrupted)
    X, y = wave(100)
    with pytest.raises(KeyboardInterrupt):
        fit_many(SecretRegressor(), X, y, rows=2 * [np.arange(100)])


def test_trees_grow_where_their_fit_computes_and_by_its_bound_on_memory(monkeypatch):
    seen, grow = [], together._grow_alike

    def watched(requests):
        seen.append((memory_limit(), len(requests), threading.current_thread()))
        grow(requests)

    monkeypatch.setattr(together, "_grow_alike", watched)
    X, y = wave(100)
    bounds = (64, 64, 128, None)
    fit_many([SecretRegressor.cart(max_depth=1, max_memory=b) for b in bounds], X, y)
    main = threading.main_thread()
    assert seen[:3] == [(64, 2, main), (128, 1, main), (None, 1, main)]

    def job():
        seen.append(jax.config.jax_default_device)  # pyright: ignore

    with jax.default_device(jax.devices()[0]):
        together.Together([job]).run()
    assert seen[-1] is jax.devices()[0]


class Unhashable(CartSplits):
    __hash__ = None  # pyright: ignore


def test_a_finder_that_cannot_be_hashed_does_not_make_the_others_wait():
    X, y = wave(100)
    model = SecretRegressor.cart(max_depth=1).set_params(splits=Unhashable())
    # The other one ends while the first one waits.
    with pytest.raises(TypeError, match="hash"):
        together.Together([lambda: model.fit(X, y), lambda: None]).run()


def test_ctrl_c_is_heard_while_trees_grow(monkeypatch):
    finished = []

    def long(requests):
        _thread.interrupt_main()
        for _ in range(150):
            time.sleep(0.02)
        finished.append(len(requests))

    monkeypatch.setattr(together, "_grow_alike", long)
    n_threads = threading.active_count()
    X, y = wave(100)
    # What a shell starts in the background ignores the signal.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            fit_many(SecretRegressor(), X, y, rows=2 * [np.arange(100)])
    finally:
        signal.signal(signal.SIGINT, before)
    assert not finished
    assert threading.active_count() == n_threads
