"""Boosters: sums of trees that each learned what the sum before them missed."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from configurations import refusal, shop, tree_bytes
from ensemble_tables import SMALL, gaps, wave
from exported_code import records, run_onnx, run_python
from sklearn.inspection import PartialDependenceDisplay
from traceable_finder import VarianceSplits

from benchmarks.device.counting import as_on_accelerator, counted
from secret_jax import SecretBoostingRegressor, SecretForestRegressor, SecretRegressor
from secret_jax.composed.ensemble import forest, growth
from secret_jax.data.encoding import encode
from secret_jax.datasets import make_fried
from secret_jax.fit.grow import on_device
from secret_jax.fit.prepare import parts_of
from secret_jax.tree import routing
from secret_jax.tree.file import ModelFileError


@pytest.fixture(scope="module")
def model():
    return SecretBoostingRegressor(**SMALL).fit(*wave())


@pytest.fixture(scope="module")
def holed():
    return SecretBoostingRegressor(**SMALL).fit(*gaps())


def test_a_column_of_a_single_category_does_no_harm():
    X, y = wave(100)
    table = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "only": "one"})
    forest = SecretForestRegressor(n_estimators=2)
    for model in (SecretBoostingRegressor(**SMALL), forest):
        model.fit(table, y)
        assert model.feature_importances_[2] == 0
        assert model.score(table, y) > 0.3


def test_the_prediction_is_the_mean_of_sums_of_trees(model):
    X, _ = wave(500, seed=1)
    ensemble = model.ensemble_
    assert (len(ensemble.boosters), model.n_iter_, model.n_trees_) == (3, 4, 12)
    table = encode(ensemble.schema, X)
    each = []
    for booster in ensemble.boosters:
        assert [tree.n_leaves for tree in booster] == [1, 4, 4, 4, 4]
        seen = round(0.7 * booster[0].weight[0])
        assert [tree.weight[0] for tree in booster[1:]] == [seen] * 4
        values = [routing.values(tree, table)[:, 0] for tree in booster]
        each.append(values[0] + model.learning_rate * np.sum(values[1:], axis=0))
    expected = ensemble.schema.restore_target(np.mean(each, axis=0))
    np.testing.assert_allclose(model.predict(X), expected, atol=1e-5)
    few = model.predict(X[:50])  # a way of their own
    np.testing.assert_allclose(few, expected[:50], atol=1e-5)
    stages = list(model.staged_predict(X))
    assert len(stages) == 5
    np.testing.assert_allclose(stages[-1], expected, atol=1e-5)


def test_every_tree_learns_what_the_sum_before_it_misses():
    one = {"subsample": 1.0, "ensemble": False}
    model = SecretBoostingRegressor(**SMALL | one).fit(*wave())
    rows, ((first, *trees),) = model._rows, model.ensemble_.boosters
    missed = rows.targets - routing.values(first, rows.table)
    for tree in trees:
        np.testing.assert_allclose(tree.deviation[0], missed.std(axis=0), rtol=1e-4)
        missed -= model.learning_rate * routing.values(tree, rows.table)


def test_the_validation_error_is_that_of_rows_left_out(model):
    rows = model._rows
    squared = 0.0
    parts = parts_of(rows.weight, 2)
    for part, trees in zip(parts, model.ensemble_.boosters, strict=False):
        values = [routing.values(tree, rows.table) for tree in trees]
        total = values[0] + model.learning_rate * np.sum(values[1:], axis=0)
        squared += float(((rows.targets - total)[part] ** 2).sum())
    error = model.validation_errors_[-1]
    np.testing.assert_allclose(error, squared / rows.n_rows, rtol=1e-4)
    expected = np.sqrt(error) * model.ensemble_.schema.target_scale
    np.testing.assert_allclose(model.deviation_, expected, rtol=1e-4)
    assert (np.diff(model.validation_errors_) < 0).all()


def test_rounds_are_chosen_by_rows_left_out():
    X, y = wave()
    model = SecretBoostingRegressor(
        max_leaf_nodes=4, learning_rate=0.5, n_folds=2, n_iter_no_change=3, max_iter=30
    ).fit(X, y)
    errors = model.validation_errors_
    assert model.n_iter_ == errors.argmin() == len(errors) - 4
    assert model.validation_error_ == errors.min()
    # What was grown after the round that predicts is no part of what is unseen.
    rows, unseen = model._rows, model._boosted.unseen
    for part, fold in zip(model._boosted.parts, model._boosted.folds, strict=True):
        said = fold.values(rows.table.take(part))
        np.testing.assert_allclose(unseen[part], said, atol=1e-5)


def test_an_interrupted_fit_changes_nothing(monkeypatch):
    X, y = wave()
    model = SecretBoostingRegressor(**SMALL).fit(X[:, :2], y)
    before, state = model.predict(X[:, :2]), dict(vars(model))

    def interrupted(*_):
        raise KeyboardInterrupt

    # While trees grow, and while errors of the new trees are measured.
    last = "boosters.SecretBoostingRegressor._calibrate"
    for place in ("growth.Boosting.add_round", last):
        with monkeypatch.context() as patch:
            patch.setattr(f"secret_jax.composed.ensemble.{place}", interrupted)
            with pytest.raises(KeyboardInterrupt):
                model.fit(X, y)
        assert vars(model) == state
    np.testing.assert_array_equal(model.predict(X[:, :2]), before)


def test_an_evaluation_set_says_when_to_stop(model):
    X, y = wave()
    more, its = wave(200, seed=9)
    alone = SecretBoostingRegressor(max_leaf_nodes=4, n_iter_no_change=2, max_iter=12)
    alone.fit(X, y, eval_set=(more, its))
    assert len(alone.ensemble_.boosters) == 1
    scale = alone.ensemble_.schema.target_scale
    error = np.mean((alone.predict(more) - its) ** 2) / scale**2
    np.testing.assert_allclose(alone.validation_errors_.min(), error, rtol=1e-3)
    # None of its rows train the trees.
    fixed = SecretBoostingRegressor(
        max_leaf_nodes=4, max_iter=alone.n_iter_, early_stopping=False, ensemble=False
    )
    np.testing.assert_allclose(fixed.fit(X, y).predict(X), alone.predict(X), atol=1e-5)
    for bad in ((more,), "rows", (more[:, :2], its), (more, its[:5])):
        with refusal("eval_set"):
            alone.fit(X, y, eval_set=bad)


def test_an_evaluation_set_may_have_new_categories(holed):
    frame, price = gaps()
    more, its = gaps(60, seed=5)
    more["colour"] = "violet"
    model = SecretBoostingRegressor(max_leaf_nodes=4, max_iter=2, early_stopping=False)
    with pytest.warns(UserWarning, match="violet"):
        model.fit(frame, price, eval_set=(more, its))
    with refusal("eval_set", "unknown 'depth'"):
        model.fit(frame, price, eval_set=(more.assign(depth=1.0), its))


def test_rows_that_say_nothing():
    X, _ = wave(20)
    constant = SecretBoostingRegressor(**SMALL).fit(X, np.full(20, 7.0))
    np.testing.assert_allclose(constant.predict(X), 7.0, rtol=1e-6)
    one = SecretBoostingRegressor(max_leaf_nodes=4).fit(X[:1], [3.0])
    assert one.n_iter_ == 0
    assert np.isnan(one.validation_error_)
    np.testing.assert_allclose(one.predict(X), 3.0)
    missing = np.full((20, 1), np.nan)
    unknown = SecretBoostingRegressor(**SMALL).fit(missing, np.arange(20.0))
    # Trees of some of the rows see another mean.
    np.testing.assert_allclose(unknown.predict(missing), 9.5, atol=1.0)
    X, y = wave()
    linear = SecretBoostingRegressor(
        max_iter=0, early_stopping=False, ensemble=False, max_leaf_nodes=4
    ).fit(X, y)
    leaf = SecretRegressor(max_depth=0, equation_tolerance=0.0, prune=None).fit(X, y)
    np.testing.assert_allclose(linear.predict(X), leaf.predict(X), atol=1e-5)


def test_parameters_that_mean_nothing_are_refused():
    bad = {"max_leaf_nodes": "auto", "learning_rate": 0.0, "max_iter": -1}
    bad |= {"subsample": 1.5, "n_folds": 1, "ensemble": "mean"}
    for name, value in bad.items():
        with refusal(name):
            SecretBoostingRegressor(**{name: value}).fit(*wave(20))


def test_files_bring_the_model_back(holed, tmp_path):
    frame, _ = gaps(200, seed=2)
    path = tmp_path / "booster.model"
    holed.save(path)
    again = SecretBoostingRegressor.load(path)
    pair = (each.predict_interval(frame) for each in (again, holed))
    np.testing.assert_array_equal(*pair)
    assert again.get_params() == holed.get_params()
    found, given = (
        [[tree_bytes(tree) for tree in booster] for booster in each.ensemble_.boosters]
        for each in (again, holed)
    )
    assert found == given
    with pytest.raises(ModelFileError, match=r"Read it with SecretBoosting"):
        SecretRegressor.load(path)
    tree = tmp_path / "tree.model"
    SecretRegressor(max_depth=0, prune=None).fit(*gaps()).save(tree)
    with pytest.raises(ModelFileError, match="holds a SecretRegressor"):
        SecretBoostingRegressor.load(tree)


def test_intervals_hold_what_they_promise():
    X, y = wave(600)
    model = SecretBoostingRegressor(**SMALL).fit(X[:300], y[:300])
    for _ in range(2):
        lower, upper = model.predict_interval(X[450:], coverage=0.8)
        inside = ((lower <= y[450:]) & (y[450:] <= upper)).mean()
        assert 0.65 < inside < 0.93
        model.conformalize(X[300:450], y[300:450])
    same = model.predict_interval(X[:5], coverage=Fraction(4, 5))
    np.testing.assert_array_equal(same, model.predict_interval(X[:5], coverage=0.8))
    for bad in (1, True, "most", np.float32(0)):
        with refusal("coverage", repr(bad)):
            model.predict_interval(X, coverage=bad)


def test_a_file_of_boosters_that_do_not_add_up_is_refused(holed, tmp_path, monkeypatch):
    short, *others = holed.ensemble_.boosters
    wrong = replace(holed.ensemble_, boosters=(short[:-1], *others))
    monkeypatch.setattr(holed, "ensemble_", wrong)
    holed.save(tmp_path / "none.model")
    with pytest.raises(ModelFileError, match="equal boosters"):
        SecretBoostingRegressor.load(tmp_path / "none.model")


def test_several_outputs():
    X, y = wave()
    both = np.stack([y, 100 * X[:, 0] ** 2], axis=1)
    model = SecretBoostingRegressor(**SMALL).fit(X, both)
    assert model.predict(X).shape == both.shape
    assert model.score(X, both) > 0.6
    shares = model.feature_importances_
    assert shares.sum() == pytest.approx(1.0)
    assert shares[2] == shares.min() > 0
    with refusal("output"):
        model.export_code()
    scope: dict = {}
    exec(model.export_code(output=1), scope)
    found = [scope["predict"](x0=a, x1=b, x2=c) for a, b, c in X[:9]]
    np.testing.assert_allclose(found, model.predict(X[:9])[:, 1], rtol=1e-4)


def test_exported_programs_predict_the_same(holed):
    frame, _ = gaps(150, seed=3)
    frame.loc[0, "colour"] = "violet"
    with pytest.warns(UserWarning, match="violet"):
        expected = holed.predict(frame)
    close = {"rtol": 0, "atol": 1e-4 * holed.ensemble_.schema.target_scale}
    found = run_python(holed.export_code(), records(frame))
    np.testing.assert_allclose(found, expected, **close)
    (found,) = run_onnx(holed.export_code("onnx"), frame)
    np.testing.assert_allclose(found, expected, **close)
    for language, reason in (("sql", "databases too long"), ("dot", "long to draw")):
        with refusal(f"not exported to '{language}'", f"{reason}. distill()"):
            holed.export_code(language)


def test_scikit_learn_draws_partial_dependence(holed):
    frame, _ = shop(60, seed=2)
    options = {"categorical_features": ["colour"], "grid_resolution": 4}
    names = ["width", "colour"]
    drawn = PartialDependenceDisplay.from_estimator(holed, frame, names, **options)
    for name, found in zip(names, drawn.pd_results, strict=True):
        (values,) = found["grid_values"]
        means = [holed.predict(frame.assign(**{name: v})).mean() for v in values]
        np.testing.assert_allclose(found["average"][0], means, rtol=1e-4)


def test_a_sum_of_one_tree_begins_at_its_constant():
    X, y = shop(128)
    y, forest = y + 50.0, SecretForestRegressor(n_estimators=1)
    one = SecretBoostingRegressor(max_iter=0, ensemble=False)
    for model in (forest, one, SecretBoostingRegressor(max_iter=3)):
        found = run_python(model.fit(X, y).export_code(), records(X))
        np.testing.assert_allclose(found, model.predict(X), atol=1e-4 * np.std(y))


@pytest.mark.parametrize("kind", ["booster", "forest"])
def test_the_table_goes_to_an_accelerator_once(kind, monkeypatch):
    """Trees take their rows, targets and weights there, four bytes each."""
    X, y = make_fried(1500, n_features=20, random_state=0)
    monkeypatch.setattr(forest, "SPLITS", VarianceSplits())
    monkeypatch.setattr(growth, "_BOOSTER_SPLITS", VarianceSplits())
    for name, few in {"_NODES": 4, "_FEWEST_NODES": 4, "_FEWEST_ROWS": 1 << 10}.items():
        monkeypatch.setattr(on_device, name, few)
    monkeypatch.setattr(forest, "_MOST_PLACES", 1)  # one tree at a time
    of_table, sent = 4 * 2048 * 20, []
    for n_trees in (1, 4):
        if kind == "forest":
            model = SecretForestRegressor(n_estimators=n_trees, max_leaf_nodes=4)
            model.set_params(bootstrap=False)
        else:
            options = {"max_leaf_nodes": 4, "max_iter": n_trees, "ensemble": False}
            model = SecretBoostingRegressor(early_stopping=False, **options)
        with counted() as demands:
            model.fit(X, y)
        assert demands.starts_of("laid_out") >= n_trees
        sent.append(demands.bytes_to_device)
    assert of_table < sent[0]
    assert (sent[1] - sent[0]) / 3 < 0.5 * of_table


@pytest.mark.parametrize("folds", [True, False])
def test_boosters_on_an_accelerator_are_those_of_the_host(folds, monkeypatch):
    """Predictions of rows stay there; what is asked of them is the same."""
    X, y = make_fried(1500, n_features=5, random_state=0)
    monkeypatch.setattr(growth, "_BOOSTER_SPLITS", VarianceSplits())
    if not folds:
        monkeypatch.setattr(growth, "_MOST_FOLDED", 1000)
    for name, few in {"_NODES": 4, "_FEWEST_NODES": 4, "_FEWEST_ROWS": 1 << 10}.items():
        monkeypatch.setattr(on_device, name, few)
    options = {"max_leaf_nodes": 4, "max_iter": 5, "n_folds": 2, "random_state": 0}
    model = SecretBoostingRegressor(**options)
    expected = model.fit(X, y).predict(X), model.validation_errors_, model.deviation_
    with as_on_accelerator():
        model.fit(X, y)
    found = model.predict(X), model.validation_errors_, model.deviation_
    assert len(model.ensemble_.boosters) == (3 if folds else 1)
    for own, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(own, other, rtol=1e-4, atol=1e-4)
