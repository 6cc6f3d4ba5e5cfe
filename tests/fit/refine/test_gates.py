"""Gates: blended and trained ones, and what happens when they do not pay."""

from __future__ import annotations

import dataclasses
import inspect
import warnings

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from configurations import FEW, crease
from handmade import BUSHY, SHAPES, build_tree, rows
from random_trees import with_gates

from secret_jax import RefinementWarning, Ridge, SecretRegressor, SoftGates
from secret_jax.data.rows import Rows
from secret_jax.fit.alternatives import fit_tree
from secret_jax.fit.pipeline import refine
from secret_jax.fit.refine import training
from secret_jax.fit.refine.gates import Blend
from secret_jax.fit.refine.training import (
    Judges,
    TrainingRows,
    TrainingState,
    minibatches,
    objective,
    to_tree,
    train_chunk,
    trainable,
)
from secret_jax.fit.refine.widths import deviations, with_widths
from secret_jax.losses.classes import CrossEntropy
from secret_jax.losses.numbers import SQUARED_ERROR
from secret_jax.runtime.programs import program
from secret_jax.tree.routing import paths_of, predict, values
from secret_jax.tree.soft import mixed
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


def waves(n_rows):
    X = np.random.default_rng(0).uniform(-3, 3, (n_rows, 2))
    return X, np.sin(X[:, 0]) * np.sin(X[:, 1])


BRIEF = SoftGates(max_steps=256, chunk=32)  # long enough for waves


def gated(shape="bushy", seed=1, n_outputs=1):
    """A tree whose linear splits are all gates."""
    hard = build_tree(SHAPES[shape], seed, n_outputs=n_outputs)
    return with_gates(hard, seed, hard_share=0.0)


def labelled_rows(n_rows: int = 64, seed: int = 0, n_outputs: int = 1) -> Rows:
    random = np.random.default_rng(seed)
    targets = random.normal(size=(n_rows, n_outputs))
    return Rows(rows(n_rows, seed), targets, random.uniform(1, 2, n_rows))


COST = jax.jit(objective, static_argnums=3)
every_number_of_outputs = pytest.mark.parametrize("n_outputs", [1, 2])


@pytest.mark.parametrize("shape", SHAPES)
@every_number_of_outputs
def test_what_is_trained_predicts_as_the_tree_and_goes_back_to_it(shape, n_outputs):
    table = rows()
    for seed in range(3):
        tree = gated(shape, seed, n_outputs)
        structure = trainable(tree, oblique=True, n_leaves=16)
        start = structure.start()
        found = jax.jit(mixed, static_argnums=3)(structure.routed(start), *table, jnp)
        chex.assert_trees_all_close(found.T, values(tree, table), rtol=1e-4, atol=1e-4)
        same = to_tree(tree, start)
        chex.assert_trees_all_close(
            predict(same, table), predict(tree, table), rtol=1e-4
        )
        assert np.array_equal(same.kind == SplitKind.DISCRETE, tree.kind == 3)
        gate = same.gate_width > 0
        length = np.linalg.norm(same.direction[gate], axis=1)
        np.testing.assert_allclose(length, 1, 1e-6)


def batch_of(part: Rows) -> TrainingRows:
    return TrainingRows(
        *part.table, part.targets.astype(np.float32), part.weight.astype(np.float32)
    )


def chunk_of(part: Rows, drawn: np.ndarray) -> tuple[TrainingRows, Judges]:
    """Minibatches, and two folds that both hold all rows."""
    batch, n_outputs = batch_of(part), part.targets.shape[1]
    far = np.full(n_outputs, 1e3, np.float32)
    judges = Judges(batch, np.stack([batch.weight] * 2), -far, far)
    return TrainingRows(*(array[drawn] for array in batch)), judges


def one_start(tree, oblique=True):
    structure = trainable(tree, oblique=oblique, n_leaves=16)
    both = TrainingState.initial(structure.start()), structure
    return jax.tree.map(lambda array: jnp.asarray(array)[None], both)


def alone(batched):
    return jax.tree.map(lambda array: array[0], batched)


def test_gates_and_leaves_have_rates_of_their_own_and_are_averaged():
    drawn = minibatches(np.random.default_rng(0), 64, 5, 16)
    batches, judges = chunk_of(labelled_rows(), drawn)
    state, structure = one_start(gated())
    found, _ = train_chunk(state, structure, batches, judges, loss=SQUARED_ERROR)
    structure = alone(structure)
    derivative = jax.jit(jax.grad(objective), static_argnums=3)
    rates = [optax.adam(rate) for rate in (0.01, 0.01, 0.005)]
    average = values = jax.tree.map(jnp.asarray, structure.start())
    states = [rate.init(each) for rate, each in zip(rates, values, strict=True)]
    for step in range(5):
        batch = TrainingRows(*(array[step] for array in batches))
        gradient = derivative(values, structure, batch, SQUARED_ERROR)
        with jax.numpy_dtype_promotion("standard"):
            parts = zip(rates, gradient, states, strict=True)
            moves, states = zip(*(r.update(g, s) for r, g, s in parts), strict=True)
        values = type(values)(*(v + m for v, m in zip(values, moves, strict=True)))
        average = jax.tree.map(lambda a, v: 0.98 * a + 0.02 * v, average, values)
    chex.assert_trees_all_close(alone(found.parameters), values, atol=2e-5)
    chex.assert_trees_all_close(alone(found.average), average, atol=2e-5)


@pytest.mark.parametrize("loss", [SQUARED_ERROR, CrossEntropy()])
@every_number_of_outputs
def test_gradients_are_differences_of_the_objective(loss, n_outputs):
    part = labelled_rows(n_outputs=n_outputs)
    share = np.exp(part.targets) / (1 + np.exp(part.targets).sum(axis=1)[:, None])
    structure = trainable(gated(n_outputs=n_outputs), oblique=True, n_leaves=16)
    random = np.random.default_rng(0)
    start = jax.tree.map(
        lambda array: array + 0.3 * random.normal(size=array.shape) * (array != 0),
        structure.start(),
    )
    with jax.enable_x64(True), jax.numpy_dtype_promotion("standard"):
        given = structure, batch_of(part._replace(targets=share)), loss
        gradient = jax.jit(jax.grad(objective), static_argnums=3)(start, *given)
        for name, array in start._asdict().items():
            along = random.normal(size=array.shape) * (array != 0)
            above, below = (
                float(COST(start._replace(**{name: array + step * along}), *given))
                for step in (1e-4, -1e-4)
            )
            slope = float(np.sum(along * getattr(gradient, name)))
            assert slope == pytest.approx((above - below) / 2e-4, rel=1e-3, abs=1e-6)


@every_number_of_outputs
def test_a_chunk_of_steps_lowers_the_loss_and_reports_the_error(n_outputs):
    part = labelled_rows(n_outputs=n_outputs)
    start = gated(n_outputs=n_outputs)
    state, structure = one_start(start)
    everything = np.tile(np.arange(64, dtype=np.int32), (60, 1))
    batches, judges = chunk_of(part, everything)

    def loss_of(state):
        given = alone(structure), batch_of(part), SQUARED_ERROR
        return float(COST(alone(state.parameters), *given))

    before = loss_of(state)
    state, error = train_chunk(state, structure, batches, judges, loss=SQUARED_ERROR)
    assert loss_of(state) < 0.9 * before
    found = to_tree(start, alone(state.average))
    residual = values(found, part.table) - part.targets
    expected = part.weight @ (residual**2).sum(axis=1)
    np.testing.assert_allclose(error, [[expected, expected]], rtol=1e-3)


def test_a_weight_of_two_is_a_row_twice():
    part = labelled_rows(32)
    weight = np.where(np.arange(32) < 16, 2.0, 1.0)
    twice = np.r_[np.arange(32), np.arange(16)]
    one = batch_of(part._replace(weight=weight))
    two = batch_of(part.take(twice)._replace(weight=np.ones(48)))
    structure = trainable(gated(), oblique=True, n_leaves=16)
    once, again = (
        len(batch.x) * float(COST(structure.start(), structure, batch, SQUARED_ERROR))
        for batch in (one, two)
    )
    assert once == pytest.approx(again, rel=1e-5)


def test_without_oblique_splits_directions_keep_to_their_attribute():
    tree = gated()
    state, structure = one_start(tree, oblique=False)
    batches = minibatches(np.random.default_rng(0), 64, 10, 16)
    chunk = chunk_of(labelled_rows(), batches)
    state, _ = train_chunk(state, structure, *chunk, loss=SQUARED_ERROR)
    assert batches.dtype == np.int32
    assert sorted(batches[:4].ravel()) == sorted(batches[4:8].ravel()) == [*range(64)]
    inner = ~tree.is_leaf
    moved = np.asarray(alone(state.parameters).direction)[: inner.sum()]
    assert np.array_equal(moved != 0, tree.direction[inner] != 0)
    before = alone(structure).start().direction[: len(moved)]
    assert not np.allclose(moved, before)


def test_all_starts_of_a_fit_are_one_program(monkeypatch):
    once = chex.assert_max_traces(inspect.unwrap(train_chunk), n=1)
    counted = program(static_argnames=("loss",), small_steps=True)(once)
    monkeypatch.setattr(training, "train_chunk", counted)
    heard: list = []
    model = SecretRegressor(refine=BRIEF, random_state=0, prune="holdout")
    plan = dataclasses.replace(model._plan(), progress=heard.append)
    refine(fit_tree(plan, model._given(*waves(256), None), None))
    assert {step.stage for step in heard} >= {"training gates", "training again"}
    told = [step for step in heard if step.stage == "training gates"]
    done = [BRIEF.chunk * (1 + i) for i in range(len(told))]
    assert [step.done for step in told] == done
    assert {step.total for step in told} == {BRIEF.max_steps}
    assert counted.n_compiled == 1


def test_starts_that_accelerators_train_abreast_are_trained_as_alone(monkeypatch):
    alone = fit(BRIEF, *waves(256))
    monkeypatch.setattr(training, "on_accelerator", lambda: True)
    abreast = fit(BRIEF, *waves(256))
    assert abreast.tree_.is_soft
    assert abreast.n_refine_steps_ == alone.n_refine_steps_
    found, expected = (model.predict(waves(256)[0]) for model in (abreast, alone))
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3)


def test_the_soft_tree_beats_the_hard_one_on_a_smooth_surface():
    X, y = waves(1200)
    few = SoftGates(max_steps=512)
    hard, soft = (fit(refine, X[:600], y[:600]) for refine in (None, few))
    assert soft.tree_.is_soft
    assert soft.n_refine_steps_ > 0
    errors = [np.mean((m.predict(X[600:]) - y[600:]) ** 2) for m in (hard, soft)]
    assert errors[1] < 0.5 * errors[0]
    text = soft.export_text()
    assert "(soft, width" in text
    hardened = soft.smaller(gates=False)
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


def test_a_training_that_diverges_leaves_the_hard_tree(monkeypatch):
    rates = training.optax.partition(
        {"gates": training.optax.sgd(1e25), "leaves": training.optax.sgd(1e25)},
        training.Parameters("gates", "gates", "leaves"),
    )
    wild = program(static_argnames=("loss",))(inspect.unwrap(train_chunk))
    monkeypatch.setattr(training, "ADAM", rates)
    monkeypatch.setattr(training, "train_chunk", wild)
    model = SecretRegressor(refine=FEW, random_state=0, min_samples_split=0.05)
    kept_hard(model, "every training of the soft tree diverged")


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
    found = CrossEntropy().row_losses(jnp.asarray(value), jnp.asarray(targets))
    expected = CrossEntropy().losses(targets, value).sum(axis=1)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_deviations_are_those_of_the_rows_in_the_node():
    tree = build_tree(BUSHY, seed=1)
    random = np.random.default_rng(0)
    targets, weight = random.normal(size=(200, 1)), random.uniform(1, 2, 200)
    part = Rows(rows(200), targets, weight)
    found = deviations(tree, part)
    path = paths_of(tree, part.table)
    for node in np.flatnonzero(~tree.is_leaf & (tree.kind != SplitKind.DISCRETE)):
        inside = (path == node).any(axis=0)
        value = part.table.x[inside] @ tree.direction[node]
        mean = np.average(value, weights=part.weight[inside])
        variance = np.average((value - mean) ** 2, weights=part.weight[inside])
        assert found[node] == pytest.approx(np.sqrt(variance), rel=1e-4)
    assert not with_widths(tree, 0.0, found).is_soft


def test_no_width_wins_at_a_step_between_whole_numbers():
    random = np.random.default_rng(0)
    X = random.integers(0, 6, (400, 2)).astype(float)
    y = np.where(X[:, 0] <= 2, 5.0, -5.0)
    model = fit("blend", X, y, oblique=False)
    assert model.n_leaves_ > 1
    assert not model.tree_.is_soft
    assert np.array_equal(model.predict(X), fit(None, X, y, oblique=False).predict(X))


def test_gates_on_truth_values_lie_between_them():
    random = np.random.default_rng(0)
    X = random.integers(0, 2, (400, 3)).astype(float)
    y = 3.0 * X[:, 0] * X[:, 1] + X[:, 2] + 0.1 * random.normal(size=400)
    soft = fit(Blend(widths=(0.1,)), X, y, oblique=False, min_samples_split="auto")
    hard = fit(None, X, y, oblique=False, min_samples_split="auto")
    assert soft.tree_.is_soft
    assert "x0 <= 0.5 (soft" in soft.export_text()
    assert "x0 <= 0\n" in hard.export_text()
    # No row is near a gate: nothing is left of the mixing.
    np.testing.assert_allclose(soft.predict(X), hard.predict(X), atol=0.05)


def test_widths_that_are_given_are_tried_and_blended_gates_lower_the_error():
    X, y = waves(1200)
    X, y, unseen, actual = X[:600], y[:600], X[600:], y[600:]
    hard, soft = fit(None, X, y), fit("blend", X, y)
    assert soft.tree_.is_soft
    errors = [np.mean((m.predict(unseen) - actual) ** 2) for m in (hard, soft)]
    assert errors[1] < errors[0]
    assert soft.n_refine_steps_ == 0
    assert min(Blend().widths) == Blend().widths[0] == 0  # the hard tree wins ties
    assert not fit(Blend(widths=(0.0,)), X, y).tree_.is_soft
    soft = fit(Blend(widths=(0.2,)), X, y)
    assert np.array_equal(soft.apply(X), hard.apply(X))
    gate = soft.tree_.gate_width > 0
    linear = ~soft.tree_.is_leaf & (soft.tree_.kind != SplitKind.DISCRETE)
    assert np.array_equal(gate, linear)
