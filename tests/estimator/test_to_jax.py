"""Fitted models as functions of JAX, beside `predict` and finite differences."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pandas as pd
import pytest

from secret_jax import (
    Poisson,
    SecretBoostingRegressor,
    SecretClassifier,
    SecretForestRegressor,
    SecretRegressor,
)
from secret_jax.losses.numbers import SquaredError

GROWN = {"max_leaf_nodes": 5, "prune": None}
MODELS = {
    "oblique": SecretRegressor(**GROWN, oblique=True),
    "gates": SecretRegressor(max_leaf_nodes=5, refine="blend", distill=False),
    "booster": SecretBoostingRegressor(max_iter=2, max_leaf_nodes=4, n_folds=2),
    "forest": SecretForestRegressor(n_estimators=3, max_leaf_nodes=8),
    "classes": SecretClassifier(**GROWN),
}


def table(n_rows=400):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(n_rows, 3)).astype(np.float32)
    return X, 50.0 + np.abs(X[:, 0] + X[:, 1]) - 2.0 * X[:, 2]


def said(model, X):
    return model.predict_proba(X) if hasattr(model, "classes_") else model.predict(X)


@pytest.fixture(scope="module", params=MODELS)
def model(request):
    X, y = table()
    if request.param == "classes":
        y = np.digitize(y, [49.5, 51.0])
    elif request.param in ("oblique", "forest"):
        y = np.stack([y, np.abs(X[:, 0]) * 3.0], axis=1)
    return MODELS[request.param].fit(X, y)


def test_functions_say_what_predict_says(model):
    X, _ = table()
    function, parameters = model.to_jax()
    rows, expected = model.encode(X), said(model, X)
    assert rows.dtype == np.float32
    every = jax.jit(jax.vmap(function, (None, 0)))
    found = jax.export.export(every)(parameters, rows).call(parameters, rows)
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, atol=1e-5 * expected.std())


@pytest.mark.parametrize(
    "model",
    [
        SecretRegressor(max_leaf_nodes=3, prune=None, loss=Poisson()),
        SecretClassifier(max_leaf_nodes=3, prune=None),
        SecretClassifier(max_leaf_nodes=3, prune=None, splits="cart", leaf="constant"),
    ],
)
def test_functions_know_the_links(model):
    X, y = table()
    model.fit(X, y > 50 if isinstance(model, SecretClassifier) else np.floor(y))
    function, parameters = model.to_jax()
    expected, found = said(model, X), jax.jit(function)(parameters, model.encode(X))
    np.testing.assert_allclose(found, expected, atol=1e-5 * expected.std())


def test_slopes_are_finite_differences(model):
    X, _ = table()
    function, parameters = model.to_jax()
    rng = np.random.default_rng(0)
    with jax.enable_x64(True):
        known = jax.tree.map(lambda array: array.astype(np.float64), parameters)
        at = known, model.encode(X[:40]).astype(np.float64)
        target = rng.normal(size=said(model, X[:40]).shape)

        def loss(parameters, rows):
            return jnp.sum(target * function(parameters, rows) ** 2)

        along = jax.tree.map(lambda array: rng.normal(size=array.shape), at)
        for end in along[0].keys() & {"low", "high", "lowest", "highest"}:
            along[0][end] *= 0.0  # where values lie at ends there is no derivative
        with_slopes = jax.jit(jax.value_and_grad(loss, argnums=(0, 1)))
        _, slopes = with_slopes(*at)
        for part in (0, 1):  # parameters, rows

            def moved(step, part=part):
                own = list(at)
                own[part] = jax.tree.map(
                    lambda array, to: array + step * to, at[part], along[part]
                )
                return float(with_slopes(*own)[0])

            found = jax.tree.map(lambda slope, to: (slope * to).sum(), slopes, along)
            found = sum(map(float, jax.tree.leaves(found[part])))
            difference = (moved(1e-6) - moved(-1e-6)) / 2e-6
            assert difference != 0.0
            assert found == pytest.approx(difference, rel=1e-5)


def test_tables_of_text_dates_and_gaps_are_encoded():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {
            "size": rng.normal(100.0, 20.0, 300),
            "city": rng.choice(["Paris", "Rome", "Oslo"], 300),
            "sold": pd.to_datetime("2024-01-01")
            + pd.to_timedelta(rng.integers(0, 700, 300), "D"),
        }
    )
    X.loc[::7, "size"] = np.nan
    y = X["size"].fillna(60.0) * (1.0 + (X["city"] == "Rome"))
    model = SecretRegressor(**GROWN).fit(X, y)
    function, parameters = model.to_jax()
    found, expected = jax.jit(function)(parameters, model.encode(X)), model.predict(X)
    np.testing.assert_allclose(found, expected, atol=1e-5 * expected.std())
    with pytest.raises(ValueError, match="Call encode before"):
        jax.jit(model.encode)(np.zeros((2, 3), np.float32))
    with pytest.raises(ValueError, match=r"of shape \(2, 3\).*encode\(X\)"):
        function(parameters, np.zeros((2, 3)))


def test_gates_train_on_a_loss_of_ones_own():
    X, y = table()
    model = SecretRegressor(max_leaf_nodes=5, refine="blend", distill=False).fit(X, y)
    function, parameters = model.to_jax()
    rows = model.encode(X)

    @jax.value_and_grad
    def loss(parameters):
        return jnp.mean(jnp.abs(function(parameters, rows) - y.astype(np.float32)))

    optimizer = optax.adam(1e-3)

    @jax.jit
    def step(parameters, state):
        value, slope = loss(parameters)
        with jax.numpy_dtype_promotion("standard"):  # which optax relies on
            updates, state = optimizer.update(slope, state)
        return optax.apply_updates(parameters, updates), state, value

    state, losses = optimizer.init(parameters), []
    for _ in range(30):
        parameters, state, value = step(parameters, state)
        losses.append(value)
    assert losses[-1] < 0.97 * losses[0]


def test_derivatives_are_in_units_of_the_data():
    X, y = table()
    model = SecretRegressor(max_depth=0).fit(1e6 + 10.0 * X, y)
    function, parameters = model.to_jax()
    price = jax.jit(jax.grad(lambda x: function(parameters, model.encode(x))))
    slope = price(1e6 + 10.0 * X[0])
    for column in range(3):
        ahead, behind = (1e6 + 10.0 * X[:1].astype(float) for _ in range(2))
        ahead[0, column] += 0.5
        behind[0, column] -= 0.5
        (difference,) = model.predict(ahead) - model.predict(behind)
        assert slope[column] == pytest.approx(difference, abs=1e-5)


def test_a_loss_without_a_link_is_refused():
    class Linkless(SquaredError):
        link = None

    X, y = table(60)
    model = SecretRegressor(max_depth=0).fit(X, y)
    vars(model.tree_)["loss"] = Linkless()
    with pytest.raises(ValueError, match="Linkless has no link"):
        model.to_jax()
