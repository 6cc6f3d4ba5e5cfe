"""Regressors that held-out rows speak against are left to the splits."""

from __future__ import annotations

import jax
import numpy as np
import pandas as pd
import pytest

from secret_jax import KernelTreeRegressor, Ridge, SecretClassifier, SecretRegressor
from secret_jax.data.rows import Table
from secret_jax.data.schema import Role
from secret_jax.data.shards import shard_rows
from secret_jax.fit.alternatives import loss_without
from secret_jax.fit.grow.trees import Recipe
from secret_jax.fit.pipeline import grow_and_prune
from secret_jax.fit.prepare import prepare
from secret_jax.models.fitting import total_error

N_USEFUL, N_USELESS = 3, 15


def table(n=240, seed=0):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, N_USEFUL + N_USELESS))
    y = np.where(X[:, 0] > 0, 2.0 * X[:, 1], -X[:, 1]) + np.abs(X[:, 2])
    return X, y + 0.1 * random.normal(size=n)


def regressor(**options):
    """Of splits along axes, which take half as long; one test has those of sums."""
    return SecretRegressor(oblique=False, **options)


def regressors_of(model):
    return [*model.tree_.schema.of_role(Role.REGRESSOR)]


def test_useless_columns_leave_the_equations_and_trees_err_less():
    errors, fewer = [], []
    for seed in range(8):
        X, y = table(500, seed)
        unseen, actual = table(2000, seed + 1)
        for drops in (True, False):
            model = regressor(leaf=Ridge(drops_regressors=drops)).fit(X, y)
            errors.append(np.mean((model.predict(unseen) - actual) ** 2))
            useful = set(regressors_of(model)) & {1, 2}
            assert useful == {1, 2}
            n = len(regressors_of(model))
            if drops:
                fewer.append(n < 13)
            else:
                assert n == N_USEFUL + N_USELESS
    without, whole = np.reshape(errors, (8, 2)).T
    assert sum(fewer) >= 4
    assert without[fewer].sum() < 0.8 * whole[fewer].sum()
    assert without.sum() < 0.9 * whole.sum()


def test_what_is_overtaken_is_not_grown_to_its_end(monkeypatch):
    begun, ended, grow = [], [], Recipe.grow

    def recorded(recipe, *arguments, **options):
        begun.append(recipe.schema.n_regressors)
        found = grow(recipe, *arguments, **options)
        ended.append(recipe.schema.n_regressors)
        return found

    monkeypatch.setattr(Recipe, "grow", recorded)
    model = regressor().fit(*table(4000, 6))  # which alone is distilled
    assert begun[0] == N_USEFUL + N_USELESS
    assert len({*begun}) > 1
    assert {*ended} == {len(regressors_of(model))}


def test_useful_columns_all_stay_and_exact_targets_leave_nothing_to_judge():
    X, y = table()
    exact = X[:, 0] + 2.0 * X[:, 1]
    assert len(regressors_of(regressor().fit(X, exact))) == X.shape[1]
    X = X[:, :N_USEFUL]
    leaves = (Ridge(drops_regressors=drops) for drops in (True, False))
    trees = [regressor(leaf=leaf).fit(X, y) for leaf in leaves]
    assert regressors_of(trees[0]) == [0, 1, 2]
    np.testing.assert_array_equal(*(tree.predict(X) for tree in trees))


def test_errors_without_a_column_are_those_at_its_mean():
    X, y = table()
    model = SecretRegressor(max_depth=0)
    plan, given = model._plan(), model._given(X, y, None)
    fold = grow_and_prune(plan, prepare(plan, given, None)).fitted.folds[0]
    tree, rows = fold.tree, fold.held_out
    x = rows.table.on_host().x.copy()
    x[:, [1, 4]] = tree.center[0, [1, 4]]
    changed = rows._replace(table=Table(x, rows.table.on_host().codes))
    for columns, others in (([1, 4], changed), ([], rows)):
        found = loss_without(fold)(columns)
        np.testing.assert_allclose(found, total_error(tree, others), rtol=1e-5)


@pytest.mark.parametrize(
    ("given", "chosen"),
    [
        *((None, set()), (4, {4}), (["a3", "a4"], {3, 4})),
        ([False] * 4 + [True] * 14, {*range(4, 18)}),
    ],
    ids=str,
)
def test_columns_that_are_split_only_anyway_stay_so(given, chosen):
    X, y = table()
    frame = pd.DataFrame(X).add_prefix("a")
    model = regressor(split_features=given).fit(frame, y)
    assert not chosen & set(regressors_of(model))
    assert {1, 2} <= set(regressors_of(model))


def test_dates_gaps_and_weights_go_with_it():
    X, y = table()
    frame = pd.DataFrame(X).add_prefix("a").mask(X > 2.2)
    frame["day"] = pd.date_range("2024-01-01", periods=len(X), freq="h")
    weight = np.random.default_rng(0).uniform(0.5, 2.0, len(X))
    model = regressor().fit(frame, y, sample_weight=weight)
    left = {model.tree_.schema.names[i] for i in regressors_of(model)}
    assert {"a1", "a2"} <= left
    assert len(left) < 12
    again = regressor().fit(frame, y, sample_weight=weight)
    np.testing.assert_array_equal(again.predict(frame), model.predict(frame))
    assert "day (month)" in model.tree_.schema.names


def test_all_ways_of_predicting_know_the_order_of_the_columns():
    X, y = table(500, seed=2)
    X = X[:, ::-1].copy()  # the useless columns come first
    model = regressor().fit(X, y)
    n_regressors = len(regressors_of(model))
    assert n_regressors < 13
    expected = model.predict(pd.DataFrame(X).to_numpy(object))
    np.testing.assert_allclose(model.predict(X), expected, rtol=1e-5)
    on_device = jax.device_put(X.astype(np.float32))
    for found in (
        model.predict(on_device),
        model.predict(shard_rows(X.astype(np.float32))),
    ):
        np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-3, atol=1e-3)


def test_streams_and_trees_under_kernels_keep_all_columns():
    X, y = table(500)
    assert len(regressors_of(regressor().fit(X, y))) < 13
    streamed = regressor().fit_stream((X, y))
    kept = regressor(leaf=Ridge(drops_regressors=False)).fit(X, y)
    np.testing.assert_array_equal(streamed.predict(X), kept.predict(X))
    kernels = KernelTreeRegressor(head="kernel").fit(X, y)
    assert regressors_of(kernels.tree_) == [*range(X.shape[1])]


def test_one_regressor_is_left_where_all_of_them_harm():
    random = np.random.default_rng(2)
    for _ in range(20):
        X = random.normal(size=(120, 6))
        y = np.sign(X[:, 0] * X[:, 1]) + random.normal(size=len(X))
        kept = regressors_of(regressor(pruning_tolerance=0.0).fit(X, y))
        if len(kept) == 1:
            return
    raise AssertionError("in no table all columns but one were left out")


def test_classes_and_other_losses_as_well_but_not_learners_of_the_literature():
    presets = map(SecretRegressor.literature, ("guide", "m5", "retis", "support"))
    for learner in (SecretRegressor.paper(), *presets):
        assert not learner.leaf.drops_regressors
    X, y = table(seed=1)
    labels = np.where(y > 0.5, "high", "low")
    classes = SecretClassifier(oblique=False).fit(X, labels)
    assert len(regressors_of(classes)) < N_USEFUL + N_USELESS
    counts = np.random.default_rng(3).poisson(np.exp(0.5 * X[:, 1]))
    model = regressor(loss="poisson").fit(X, counts)
    assert 1 in regressors_of(model)
    assert len(regressors_of(model)) < N_USEFUL + N_USELESS
