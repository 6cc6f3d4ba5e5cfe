"""Forests: bags, what is said out of them, and random attributes."""

from __future__ import annotations

import numpy as np
import pytest
from configurations import persons, refusal
from ensemble_tables import gaps, wave
from sklearn.metrics import r2_score

from secret_jax import SecretForestRegressor
from secret_jax.composed.ensemble.forest import out_of_bag
from secret_jax.data.encoding import encode
from secret_jax.datasets import make_fried
from secret_jax.tree import routing

FEW = {"n_estimators": 8, "min_samples_leaf": 12, "random_state": 0}


@pytest.fixture(scope="module")
def fitted():
    """A forest, with its trees and bags in the order of its own rows."""
    drawn = []

    def keep(trees, bags, distinct):
        drawn.append((np.array(bags), distinct.rows))
        return out_of_bag(trees, bags, distinct)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("secret_jax.composed.ensemble.forest.out_of_bag", keep)
        model = SecretForestRegressor(**FEW).fit(*wave())
    return model, *drawn[0]


def test_rows_out_of_a_bag_are_predicted_by_the_trees_that_lack_them(fitted):
    model, bags, rows = fitted
    X, y = wave()
    trees = [tree for (tree,) in model.ensemble_.boosters]
    table = encode(model.ensemble_.schema, X)
    each = np.array([routing.predict(tree, table) for tree in trees])
    np.testing.assert_allclose(model.predict(X), each.mean(axis=0), atol=1e-5)
    scaled = model.ensemble_.schema.scale_targets(y[:, None])[:, 0]
    place = np.argsort(np.argsort(scaled))  # the rows are in another order
    out = bags[:, np.argsort(rows.targets[:, 0])][:, place] == 0
    unseen = out.any(axis=0)
    expected = (each * out).sum(axis=0)[unseen] / out.sum(axis=0)[unseen]
    np.testing.assert_allclose(model.oob_prediction_[unseen], expected, atol=1e-5)
    assert np.isnan(model.oob_prediction_[~unseen]).all()
    assert model.oob_score_ == pytest.approx(r2_score(y[unseen], expected), abs=1e-5)


def test_bags_are_draws_with_replacement(fitted):
    model, bags, rows = fitted
    assert (bags.sum(axis=1) == rows.n_rows).all()
    assert (bags == 0).mean() == pytest.approx(np.exp(-1), abs=0.03)
    # A node draws one of three columns: it has to split on the one that says least.
    assert 0 < model.feature_importances_.min() < 0.2
    assert len({count.tobytes() for count in bags}) == 8
    for (tree,), count in zip(model.ensemble_.boosters, bags, strict=True):
        assert tree.weight[0] == count.sum()
        assert tree.weight[tree.is_leaf].min() >= 12


@pytest.mark.parametrize("table", [wave, gaps], ids=["numbers", "mixed"])
def test_the_error_out_of_the_bag_is_that_on_other_rows(table):
    # Of few trees a row's own are fewer still, and err more.
    model = SecretForestRegressor(n_estimators=60, random_state=0).fit(*table(600))
    assert model.oob_score_ == pytest.approx(model.score(*table(4000, 1)), abs=0.03)
    assert model.oob_score_ > 0.65


def test_weights_files_and_refusals(fitted, tmp_path):
    model, *_ = fitted
    X, y = wave()
    weight = np.random.default_rng(0).integers(0, 3, len(y))
    weighted = SecretForestRegressor(**FEW).fit(X, y, weight)
    assert weighted.oob_score_ > 0.5
    assert len(weighted.oob_prediction_) == len(y)
    assert np.isnan(weighted.oob_prediction_[weight == 0]).all()
    model.save(tmp_path / "forest.model")
    again = SecretForestRegressor.load(tmp_path / "forest.model")
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    for bad in ({"n_estimators": 0}, {"max_features": 0}, {"bootstrap": "yes"}):
        with refusal(next(iter(bad))):
            SecretForestRegressor(**bad).fit(X, y)
    with refusal("SecretForestRegressor estimator requires y"):
        SecretForestRegressor().fit(X, None)


def test_copies_are_in_and_out_of_bags_together_and_weights_have_no_unit():
    X, y = wave(60)
    weight = np.random.default_rng(0).uniform(0.5, 1.5, 60)
    one, other = (
        SecretForestRegressor(**FEW).fit(X, y, unit * weight) for unit in (1.0, 1 / 64)
    )
    np.testing.assert_array_equal(one.predict(X), other.predict(X))
    expected = SecretForestRegressor(**FEW).fit(X, y)
    several = np.tile(np.arange(60), 12)
    copies = SecretForestRegressor(**FEW).fit(X[several], y[several])
    np.testing.assert_allclose(copies.predict(X), expected.predict(X), atol=1e-6)
    assert copies.oob_score_ == pytest.approx(expected.oob_score_, abs=1e-9)
    found = copies.oob_prediction_.reshape(12, 60)
    np.testing.assert_allclose(found, np.tile(expected.oob_prediction_, (12, 1)))


def test_leaves_of_many_rows_are_larger_unless_asked_otherwise():
    for n, least in ((400, 5), (1750, 7), (4000, 10)):
        X, y = make_fried(n, random_state=0)
        alike = [
            SecretForestRegressor(n_estimators=1, random_state=0, min_samples_leaf=m)
            for m in ("auto", least)
        ]
        automatic, given = (model.fit(X, y).predict(X[:50]) for model in alike)
        np.testing.assert_array_equal(automatic, given)


def test_groups_are_in_and_out_of_bags_as_a_whole():
    X, y, who = persons(noise=0.0)
    options = FEW | {"min_samples_leaf": 2, "max_features": None}
    assert SecretForestRegressor(**options).fit(X, y).oob_score_ > 0.7
    model = SecretForestRegressor(**options).fit(X, y, groups=who)
    assert model.oob_score_ < 0.1
    outside = np.isfinite(model.oob_prediction_).reshape(50, 6)
    assert (outside.all(axis=1) | ~outside.any(axis=1)).all()
    order = np.random.default_rng(1).permutation(300)
    again = SecretForestRegressor(**options).fit(X[order], y[order], groups=who[order])
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    alone = SecretForestRegressor(**options).fit(X, y, groups=np.zeros(300))
    assert np.isnan(alone.oob_prediction_).all()
