"""Refinement: blended gates, the soft tree, and what happens when they do not pay."""

from __future__ import annotations

import dataclasses
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from configurations import crease, refusal, shop
from handmade import BUSHY, SHAPES, build_tree, rows
from test_soft_prediction import with_gates

import secret_jax.refine.refine
from secret_jax import RefinementWarning, SecretRegressor
from secret_jax.fitting import Rows
from secret_jax.options import BlendOptions, SoftOptions
from secret_jax.prune.reduced_error import penalised
from secret_jax.refine.refine import trainer as trainer_module
from secret_jax.refine.soft.parameters import (
    deviations,
    forward,
    to_parameters,
    to_tree,
    with_widths,
)
from secret_jax.refine.soft.steps import (
    Rates,
    TrainingData,
    initial_state,
    loss,
    minibatches,
    train_chunk,
)
from secret_jax.tree.routing import predict, walk
from secret_jax.tree.structure import SplitKind

FEW = SoftOptions(
    max_steps=64,
    chunk=8,
    screen_steps=16,
    n_kept=2,
    n_committee=2,
    distil_steps=32,
    patience_steps=(64, 64),
    batch_size=16,
)


@pytest.fixture
def few_steps(monkeypatch):
    monkeypatch.setattr(secret_jax.refine.refine, "SoftOptions", lambda: FEW)


def fit(refine, X=None, y=None, **changes):
    if X is None:
        X, y = crease(256)
    model = SecretRegressor(
        refine=refine, random_state=0, min_samples_split=0.05, prune="holdout"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RefinementWarning)
        return model.set_params(**changes).fit(X, y)


def gated(shape="bushy", seed=1):
    """A tree whose linear splits are all gates, and rows for it."""
    return with_gates(build_tree(SHAPES[shape], seed), seed, hard_share=0.0)


def labelled_rows(n_rows: int = 64, seed: int = 0) -> Rows:
    table = rows(n_rows, seed)
    random = np.random.default_rng(seed)
    return Rows(table, random.normal(size=n_rows), random.uniform(1, 2, n_rows))


@pytest.mark.parametrize("shape", SHAPES)
def test_the_forward_pass_is_the_prediction_of_the_tree(shape):
    table = rows()
    for seed in range(3):
        tree = gated(shape, seed)
        parameters, structure = to_parameters(
            tree, oblique=True, n_inner=16, n_leaves=16
        )
        found = forward(parameters, structure, table.x, table.codes)
        expected = tree.schema.scale_target(predict(tree, table))
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_a_tree_survives_the_way_to_parameters_and_back():
    tree, table = gated(), rows()
    parameters, _ = to_parameters(tree, oblique=True, n_inner=16, n_leaves=16)
    same = to_tree(tree, parameters)
    np.testing.assert_allclose(predict(same, table), predict(tree, table), rtol=1e-4)
    assert np.array_equal(same.kind == SplitKind.DISCRETE, tree.kind == 3)
    gate = same.gate_width > 0
    np.testing.assert_allclose(np.linalg.norm(same.direction[gate], axis=1), 1, 1e-6)


def data_of(part: Rows) -> TrainingData:
    everything = np.arange(len(part.y))
    return TrainingData(
        x=part.table.x,
        codes=part.table.codes,
        y=part.y.astype(np.float32),
        weight=part.weight.astype(np.float32),
        validation=everything.astype(np.int32),
        fold=np.stack([part.weight, part.weight]).astype(np.float32),
        low=np.float32(-1e3),
        high=np.float32(1e3),
    )


def state_of(tree, oblique=True):
    parameters, structure = to_parameters(
        tree, oblique=oblique, n_inner=16, n_leaves=16
    )
    both = initial_state(parameters), structure
    return jax.tree.map(lambda array: jnp.asarray(array)[None], both)


RATES = Rates(*map(np.float32, (0.01, 0.005, 1e-3, 0.0)))


def test_a_chunk_of_steps_lowers_the_loss_and_reports_the_error():
    part = labelled_rows()
    data = data_of(part)
    state, structure = state_of(gated())
    everything = np.tile(np.arange(64, dtype=np.int32), (30, 1))

    def loss_of(state):
        first = jax.tree.map(lambda array: array[0], (state.parameters, structure))
        return float(loss(*first, data, everything[0], 1e-3))

    before = loss_of(state)
    state, error = train_chunk(state, structure, data, everything, RATES)
    assert loss_of(state) < 0.9 * before
    # Without averaging the parameters are the average; both folds hold all rows.
    found = to_tree(gated(), jax.tree.map(lambda array: array[0], state.parameters))
    residual = found.schema.scale_target(predict(found, part.table)) - part.y
    expected = part.weight @ residual**2
    np.testing.assert_allclose(error, [[expected, expected]], rtol=1e-3)


def test_a_weight_of_two_is_a_row_twice():
    part = labelled_rows(32)
    weight = np.where(np.arange(32) < 16, 2.0, 1.0)
    twice = np.r_[np.arange(32), np.arange(16)]
    one = data_of(part._replace(weight=weight))
    two = data_of(part.take(twice)._replace(weight=np.ones(48)))
    parameters, structure = to_parameters(
        gated(), oblique=True, n_inner=16, n_leaves=16
    )
    once = 32 * loss(parameters, structure, one, jnp.arange(32), 0.0)
    again = 48 * loss(parameters, structure, two, jnp.arange(48), 0.0)
    assert float(once) == pytest.approx(float(again), rel=1e-5)


def test_without_oblique_splits_directions_keep_to_their_attribute():
    tree = gated()
    state, structure = state_of(tree, oblique=False)
    batches = minibatches(np.random.default_rng(0), 64, 10, 16)
    state, _ = train_chunk(state, structure, data_of(labelled_rows()), batches, RATES)
    inner = ~tree.is_leaf
    moved = np.asarray(state.parameters.direction)[0, : inner.sum()]
    assert np.array_equal(moved != 0, tree.direction[inner] != 0)
    assert not np.allclose(
        moved, np.asarray(structure.start.direction)[0, : len(moved)]
    )


def test_minibatches_go_through_all_rows_before_they_come_again():
    batches = minibatches(np.random.default_rng(0), 40, 10, 8)
    assert batches.dtype == np.int32
    assert sorted(batches[:5].ravel()) == list(range(40))
    assert sorted(batches[5:].ravel()) == list(range(40))


def test_deviations_are_those_of_the_rows_in_the_node():
    tree, part = gated(), labelled_rows(200)
    found = deviations(tree, part)
    path, _ = walk(tree, part.table)
    for node in np.flatnonzero(~tree.is_leaf & (tree.kind != SplitKind.DISCRETE)):
        inside = (path == node).any(axis=0)
        value = part.table.x[inside] @ tree.direction[node]
        mean = np.average(value, weights=part.weight[inside])
        variance = np.average((value - mean) ** 2, weights=part.weight[inside])
        assert found[node] == pytest.approx(np.sqrt(variance), rel=1e-4)
    assert not with_widths(tree, 0.0, found).is_soft


def best_subtree_cost(tree, node, noise, price):
    own = (
        tree.weight[node] * tree.train_error[node] + price * noise * tree.degrees[node]
    )
    if tree.left[node] < 0:
        return own
    below = sum(
        best_subtree_cost(tree, int(side[node]), noise, price)
        for side in (tree.left, tree.right)
    )
    return min(own, below + price * noise)


@pytest.mark.parametrize("price", [0.0, 0.5, 2.0, 1e6])
def test_the_penalised_tree_is_the_cheapest_subtree(price):
    random = np.random.default_rng(3)
    tree = build_tree(BUSHY, seed=0)
    weight = np.zeros(tree.n_nodes)
    weight[tree.is_leaf] = 20.0
    for node in range(tree.n_nodes - 1, 0, -1):
        weight[tree.parent[node]] += weight[node]
    tree = dataclasses.replace(
        tree,
        weight=weight,
        degrees=random.uniform(1, 2, tree.n_nodes),
        train_error=random.uniform(0.9, 1.1, tree.n_nodes) + 0.1 / (1 + tree.depth),
    )
    leaf = tree.is_leaf
    spent = tree.degrees[leaf].sum() + tree.n_leaves - 1
    noise = (weight * tree.train_error)[leaf].sum() / (weight[0] - spent)
    cut = penalised(tree, price)
    left = cut.is_leaf
    cost = (cut.weight * cut.train_error + price * noise * cut.degrees)[left].sum()
    cost += price * noise * (cut.n_leaves - 1)
    assert cost == pytest.approx(best_subtree_cost(tree, 0, noise, price))
    assert price < 1e6 or cut.n_leaves == 1


def test_no_width_wins_at_a_step_between_whole_numbers():
    random = np.random.default_rng(0)
    X = random.integers(0, 6, (400, 2)).astype(float)
    y = np.where(X[:, 0] <= 2, 5.0, -5.0)
    model = fit("blend", X, y, oblique=False)
    assert model.n_leaves_ > 1
    assert not model.tree_.is_soft
    assert np.array_equal(model.predict(X), fit(None, X, y, oblique=False).predict(X))


def test_blended_gates_are_one_relative_width_and_lower_the_error():
    random = np.random.default_rng(0)
    X = random.uniform(-3, 3, (1200, 2))
    y = np.sin(X[:, 0]) * np.sin(X[:, 1])
    hard = fit(None, X[:600], y[:600])
    soft = fit("blend", X[:600], y[:600])
    assert soft.tree_.is_soft
    errors = [np.mean((m.predict(X[600:]) - y[600:]) ** 2) for m in (hard, soft)]
    assert errors[1] < errors[0]
    assert soft.n_refine_steps_ == 0
    assert all(w >= 0 for w in BlendOptions().widths)
    assert BlendOptions().widths[0] == 0  # the hard tree wins ties


def test_the_soft_tree_beats_the_hard_one_on_a_smooth_surface():
    random = np.random.default_rng(0)
    X = random.uniform(-3, 3, (1200, 2))
    y = np.sin(X[:, 0]) * np.sin(X[:, 1])
    hard, soft = (fit(refine, X[:600], y[:600]) for refine in (None, "soft"))
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


@pytest.mark.parametrize("refine", ["blend", "soft"])
def test_the_same_seed_gives_the_same_tree_and_files_keep_it(
    refine, few_steps, tmp_path
):
    X, y = shop(256)
    first, second = fit(refine, X, y), fit(refine, X, y)
    assert np.array_equal(first.predict(X), second.predict(X))
    first.save(tmp_path / "model")
    loaded = SecretRegressor.load(tmp_path / "model")
    assert np.array_equal(loaded.predict(X), first.predict(X))
    assert loaded.n_refine_steps_ == first.n_refine_steps_


def kept_hard(model, reason):
    hard = SecretRegressor(**model.get_params())
    hard.set_params(refine=None)
    with pytest.warns(RefinementWarning, match=reason):
        model.fit(*crease(256))
    hard.fit(*crease(256))
    assert not model.tree_.is_soft
    assert model.n_refine_steps_ == 0
    assert np.array_equal(model.predict(crease()[0]), hard.predict(crease()[0]))


def test_a_training_that_diverges_leaves_the_hard_tree(monkeypatch):
    wild = dataclasses.replace(FEW, leaf_rate=1e25, gate_rate=1e25)
    monkeypatch.setattr(secret_jax.refine.refine, "SoftOptions", lambda: wild)
    model = SecretRegressor(refine="soft", random_state=0, min_samples_split=0.05)
    kept_hard(model, "diverged|on rows that did not choose it")


def test_a_soft_tree_that_does_not_pay_is_not_kept(monkeypatch):
    useless = dataclasses.replace(FEW, max_steps=16, widths=(50.0,))
    monkeypatch.setattr(secret_jax.refine.refine, "SoftOptions", lambda: useless)
    model = SecretRegressor(refine="soft", random_state=0, min_samples_split=0.05)
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


def test_an_interrupted_refinement_leaves_the_hard_tree(monkeypatch, few_steps):
    def interrupt(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(trainer_module, "train_chunk", interrupt)
    X, y = crease(256)
    model = SecretRegressor(refine="soft", random_state=0, min_samples_split=0.05)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    hard = SecretRegressor(random_state=0, min_samples_split=0.05).fit(X, y)
    assert np.array_equal(model.predict(X), hard.predict(X))
    assert model.n_leaves_grown_ == hard.n_leaves_grown_
    assert "soft" not in model.export_text()


def test_refinement_without_pruning_rows_is_refused():
    for refine in ("blend", "soft"):
        with refusal("'refine'", "prune='auto', 'holdout' or 'cross-validation'"):
            SecretRegressor(refine=refine, prune=None).fit(*crease())


def test_progress_is_told(few_steps, capsys):
    fit("soft", verbose=1)
    told = capsys.readouterr().err
    assert "starts in training" in told
    assert "on rows that did not choose it" in told
