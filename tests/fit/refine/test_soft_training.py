"""The soft tree: its training, and what happens when it does not pay."""

from __future__ import annotations

import dataclasses
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from configurations import FEW, crease
from handmade import SHAPES, build_tree, rows
from random_trees import with_gates

from secret_jax import RefinementWarning, Ridge, SecretRegressor, SoftGates
from secret_jax.data.rows import Rows
from secret_jax.fit.refine.soft import starts as starts_module
from secret_jax.fit.refine.soft.parameters import (
    Parameters,
    forward,
    parted,
    to_parameters,
    to_tree,
)
from secret_jax.fit.refine.soft.steps import (
    Batch,
    Rates,
    TrainingData,
    initial_state,
    minibatches,
    objective_gradient,
    train_chunk,
    train_start,
)
from secret_jax.losses.classes import CrossEntropy
from secret_jax.losses.numbers import SQUARED_ERROR, SquaredError
from secret_jax.tree.routing import predict, values
from secret_jax.tree.structure import SplitKind


def fit(refine, X=None, y=None, **changes):
    if X is None:
        X, y = crease(256)
    model = SecretRegressor(
        refine=refine, random_state=0, min_samples_split=0.05, prune="holdout"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RefinementWarning)
        return model.set_params(**changes).fit(X, y)


def gated(shape="bushy", seed=1, n_outputs=1):
    """A tree whose linear splits are all gates."""
    hard = build_tree(SHAPES[shape], seed, n_outputs=n_outputs)
    return with_gates(hard, seed, hard_share=0.0)


def labelled_rows(n_rows: int = 64, seed: int = 0, n_outputs: int = 1) -> Rows:
    random = np.random.default_rng(seed)
    targets = random.normal(size=(n_rows, n_outputs))
    return Rows(rows(n_rows, seed), targets, random.uniform(1, 2, n_rows))


every_number_of_outputs = pytest.mark.parametrize("n_outputs", [1, 2])


@pytest.mark.parametrize("shape", SHAPES)
@every_number_of_outputs
def test_the_forward_pass_is_the_prediction_of_the_tree(shape, n_outputs):
    table = rows()
    for seed in range(3):
        tree = gated(shape, seed, n_outputs)
        parameters, structure = to_parameters(
            tree, oblique=True, n_inner=16, n_leaves=16
        )
        found = jax.jit(forward)(parameters, structure, *table)
        np.testing.assert_allclose(found, values(tree, table), rtol=1e-4, atol=1e-4)


@every_number_of_outputs
def test_a_tree_survives_the_way_to_parameters_and_back(n_outputs):
    tree, table = gated(n_outputs=n_outputs), rows()
    parameters, _ = to_parameters(tree, oblique=True, n_inner=16, n_leaves=16)
    same = to_tree(tree, parameters)
    np.testing.assert_allclose(predict(same, table), predict(tree, table), rtol=1e-4)
    assert np.array_equal(same.kind == SplitKind.DISCRETE, tree.kind == 3)
    gate = same.gate_width > 0
    np.testing.assert_allclose(np.linalg.norm(same.direction[gate], axis=1), 1, 1e-6)


def data_of(part: Rows) -> TrainingData:
    everything = np.arange(part.n_rows)
    n_outputs = part.targets.shape[1]
    data = TrainingData(
        x=part.table.x,
        codes=part.table.codes,
        targets=part.targets.astype(np.float32),
        weight=part.weight.astype(np.float32),
        validation=everything.astype(np.int32),
        fold=np.stack([part.weight, part.weight]).astype(np.float32),
        low=np.full(n_outputs, -1e3, np.float32),
        high=np.full(n_outputs, 1e3, np.float32),
    )
    return jax.tree.map(jnp.asarray, data)


def state_of(tree, oblique=True):
    parameters, structure = to_parameters(
        tree, oblique=oblique, n_inner=16, n_leaves=16
    )
    both = initial_state(parameters), structure
    return jax.tree.map(lambda array: jnp.asarray(array)[None], both)


RATES = Rates(*map(np.float32, (0.01, 0.005, 1e-3, 0.0)))


def objective(parameters, structure, data, row, l2, kind=SQUARED_ERROR):
    """Mean loss of a minibatch, and the penalty: what a step goes down."""
    value = forward(parameters, structure, data.x[row], data.codes[row])
    losses = kind.row_losses(value, data.targets[row], jnp)
    change = parameters.coefficient - structure.start.coefficient
    absent = structure.along.absent[:, None, None] < 0
    squares = jnp.where(absent, 0.0, change**2)[:, :, 1:]
    n_slopes = (jnp.sum(~absent) * squares.shape[2]).astype(jnp.float32)
    return jnp.mean(data.weight[row] * losses) + l2 * jnp.sum(squares) / n_slopes


@pytest.mark.parametrize("kind", [SquaredError(), CrossEntropy()])
@every_number_of_outputs
def test_gradients_are_those_of_the_objective(kind, n_outputs):
    part = labelled_rows(n_outputs=n_outputs)
    share = np.exp(part.targets) / (1 + np.exp(part.targets).sum(axis=1)[:, None])
    data = data_of(part._replace(targets=share))
    start, structure = to_parameters(
        gated(n_outputs=n_outputs), oblique=True, n_inner=16, n_leaves=16
    )
    random = np.random.default_rng(0)
    moved = Parameters(
        *(
            a + (0.3 * random.normal(size=a.shape) * (a != 0)).astype("f4")
            for a in start
        )
    )
    row = np.arange(0, 64, 2)
    derivative = jax.jit(jax.grad(objective), static_argnames="kind")
    want = derivative(moved, structure, data, row, 0.1, kind=kind)
    want = want._replace(direction=want.direction * structure.free)
    on_host = jax.tree.map(np.asarray, data)
    batch = Batch(*(array[row] for array in on_host[:4]))
    found = objective_gradient(moved, structure, batch, 0.1, kind, np)
    for own, expected in zip(found, want, strict=True):
        np.testing.assert_allclose(own, expected, rtol=2e-3, atol=2e-5)


def test_steps_are_those_of_adam():
    data, rate = data_of(labelled_rows()), np.float32(0.01)
    start, structure = to_parameters(gated(), oblique=True, n_inner=16, n_leaves=16)
    batches = minibatches(np.random.default_rng(0), 64, 5, 16)
    expected, adam = jax.tree.map(jnp.asarray, start), optax.adam(float(rate))
    inner = adam.init(expected)
    derivative = jax.jit(jax.grad(objective))
    with jax.numpy_dtype_promotion("standard"):
        for row in batches:
            gradient = derivative(expected, structure, data, row, 1e-3)
            update, inner = adam.update(gradient, inner)
            update = update._replace(direction=update.direction * structure.free)
            expected = optax.apply_updates(expected, update)
    state, rates = initial_state(start), Rates(rate, rate, np.float32(1e-3), rate)
    host = jax.tree.map(np.asarray, data)
    found, _ = train_start(state, structure, host, batches, rates)
    for own, other in zip(parted(found.values, start), expected, strict=True):
        np.testing.assert_allclose(own, other, atol=2e-4)


@every_number_of_outputs
def test_processors_take_the_steps_of_accelerators_down_the_loss(n_outputs):
    part, start = labelled_rows(n_outputs=n_outputs), gated(n_outputs=n_outputs)
    data, (state, structure) = data_of(part), state_of(start)
    batches = np.tile(np.arange(64, dtype=np.int32), (30, 1))
    there, error = train_chunk(state, structure, data, batches, RATES)
    host = jax.tree.map(np.asarray, (state, structure, data))
    own = jax.tree.map(lambda array: array[0], host[:2])
    here, own_error = train_start(*own, host[2], batches, RATES)
    np.testing.assert_allclose(here.values, there.values[0], rtol=2e-3, atol=2e-4)
    np.testing.assert_allclose(own_error, error[0], rtol=1e-3)

    def found(state):
        return parted(state.values[0], own[1].start)

    cost = jax.jit(objective)
    before, after = (
        float(cost(found(one), own[1], data, batches[0], 1e-3))
        for one in (state, there)
    )
    assert after < 0.9 * before
    # Without averaging the parameters are the average; both folds hold all rows.
    tree = to_tree(start, found(there))
    residual = values(tree, part.table) - part.targets
    expected = part.weight @ (residual**2).sum(axis=1)
    np.testing.assert_allclose(error, [[expected, expected]], rtol=1e-3)


def test_without_oblique_splits_directions_keep_to_their_attribute():
    tree = gated()
    state, structure = state_of(tree, oblique=False)
    batches = minibatches(np.random.default_rng(0), 64, 10, 16)
    state, _ = train_chunk(state, structure, data_of(labelled_rows()), batches, RATES)
    inner = ~tree.is_leaf
    start = jax.tree.map(lambda array: array[0], structure.start)
    moved = np.asarray(parted(state.values[0], start).direction)[: inner.sum()]
    assert np.array_equal(moved != 0, tree.direction[inner] != 0)
    assert not np.allclose(moved, np.asarray(start.direction)[: len(moved)])


def test_minibatches_go_through_all_rows_before_they_come_again():
    batches = minibatches(np.random.default_rng(0), 40, 10, 8)
    assert batches.dtype == np.int32
    assert sorted(batches[:5].ravel()) == list(range(40))
    assert sorted(batches[5:].ravel()) == list(range(40))


def test_the_soft_tree_beats_the_hard_one_on_a_smooth_surface():
    random = np.random.default_rng(0)
    X = random.uniform(-3, 3, (1200, 2))
    y = np.sin(X[:, 0]) * np.sin(X[:, 1])
    few = SoftGates(max_steps=512, screen_steps=128, n_kept=2, n_committee=1)
    hard, soft = (fit(refine, X[:600], y[:600]) for refine in (None, few))
    assert soft.tree_.is_soft
    assert soft.n_refine_steps_ > 0
    errors = [np.mean((m.predict(X[600:]) - y[600:]) ** 2) for m in (hard, soft)]
    assert errors[1] < 0.5 * errors[0]
    text = soft.export_text()
    assert "(soft, width" in text
    hardened = soft.harden()
    assert soft.tree_.is_soft
    assert not hardened.tree_.is_soft
    assert "soft" not in hardened.export_text()
    assert np.array_equal(hardened.apply(X), soft.apply(X))


def kept_hard(model, reason):
    hard = SecretRegressor(**model.get_params(deep=False))
    hard.set_params(refine=None)
    with pytest.warns(RefinementWarning, match=reason):
        model.fit(*crease(256))
    hard.fit(*crease(256))
    assert not model.tree_.is_soft
    assert model.n_refine_steps_ == 0
    assert np.array_equal(model.predict(crease()[0]), hard.predict(crease()[0]))


def test_a_student_of_few_points_learns_from_a_committee_of_more_rows():
    random = np.random.default_rng(0)
    X = random.normal(size=(400, 2))
    y = np.tanh(X[:, 0]) * np.sin(X[:, 1]) + 0.02 * random.normal(size=400)
    few = SoftGates(  # a student sees 8 * 2 * 16 points at a time
        chunk=2,
        batch_size=16,
        max_steps=1000,
        screen_steps=64,
        distil_steps=20,
        n_committee=2,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error", RefinementWarning)  # the soft tree is kept
        model = SecretRegressor(refine=few, random_state=0).fit(X, y)
    assert model.tree_.is_soft


def test_a_training_that_diverges_leaves_the_hard_tree(monkeypatch):
    rate = np.float32(1e25)
    wild = starts_module.RATES._replace(leaf_rate=rate, gate_rate=rate)
    monkeypatch.setattr(starts_module, "RATES", wild)
    model = SecretRegressor(refine=FEW, random_state=0, min_samples_split=0.05)
    kept_hard(model, "diverged|on rows that did not choose it")


@pytest.mark.parametrize("prune", ["auto", "bic"])
def test_a_soft_tree_that_does_not_pay_is_not_kept(prune):
    """Gates hold rows out themselves where pruning needs none."""
    useless = dataclasses.replace(FEW, max_steps=16, widths=(50.0,))
    model = SecretRegressor(refine=useless, prune=prune, min_samples_split=0.05)
    kept_hard(model, "on rows that did not choose it")


def test_one_leaf_has_nothing_to_soften():
    X = np.random.default_rng(0).normal(size=(128, 3))
    y = X @ [1.0, 2.0, 3.0]
    model = SecretRegressor(refine="soft", random_state=0)
    with pytest.warns(RefinementWarning, match="no tree that was grown has a split"):
        model.fit(X, y)
    assert model.n_leaves_ == 1
    np.testing.assert_allclose(model.predict(X), y, atol=0.5)
    assert fit("blend", X, y).n_leaves_ == 1


@pytest.mark.parametrize(
    ("refine", "prune"), [("blend", "holdout"), ("tao", "auto"), ("soft", "holdout")]
)
def test_a_table_of_nothing_but_categories(refine, prune):
    """Splits on categories are no gates, so there is nothing to blend or to train."""
    rng = np.random.default_rng(0)
    X = rng.choice(["a", "b", "c", "d"], (128, 2)).astype(object)
    y = 3.0 * (X[:, 0] == "a") + 2.0 * np.isin(X[:, 1], ["b", "c"])
    y = y + 0.1 * rng.normal(size=128)
    model = SecretRegressor(refine=refine, prune=prune, leaf=Ridge(indicators=False))
    told = warnings.catch_warnings()
    if refine == "soft":
        told = pytest.warns(RefinementWarning, match="no tree .* has a split to soften")
    with told:
        model.fit(X, y)
    assert model.tree_.schema.n_columns == 0
    assert set(model.tree_.kind) == {SplitKind.LEAF, SplitKind.DISCRETE}
    assert not model.tree_.is_soft
    assert model.score(X, y) > 0.95


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_losses_of_classes_are_the_cross_entropy(n_outputs):
    random = np.random.default_rng(0)
    value = 3.0 * random.normal(size=(20, n_outputs))
    targets = random.dirichlet(np.ones(max(n_outputs, 2)), 20)[:, :n_outputs]
    found = CrossEntropy().row_losses(jnp.asarray(value), jnp.asarray(targets), jnp)
    expected = CrossEntropy().losses(targets, value).sum(axis=1)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
