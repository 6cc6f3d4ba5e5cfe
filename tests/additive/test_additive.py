"""Trees behind curves: what they predict, say, keep and refuse."""

from __future__ import annotations

import pickle
import re

import numpy as np
import pytest
from sklearn.base import clone
from sum_of_effects import sum_of_effects

from secret_jax import Additive, Quantile, SecretRegressor
from secret_jax.additive.stage import StageError
from secret_jax.inspect.cost import reading_cost
from secret_jax.inspect.equations import model_in_original_units
from secret_jax.inspect.rest import rest_of
from secret_jax.tree.routing import predict


def with_an_interaction(n, seed):
    """A sum of effects with one interaction, of columns of all kinds."""
    X, y, random = sum_of_effects(n, seed)
    y += 2.0 * (X["number"] > 0) * X["gaps"].fillna(0)
    return X, (y + 0.1 * random.normal(size=n)).rename("effect")


@pytest.fixture(scope="module")
def rows():
    return with_an_interaction(500, 0)


@pytest.fixture(scope="module")
def model(rows):
    return SecretRegressor(additive=Additive(), oblique=False).fit(*rows)


def test_prediction_is_the_curves_and_the_tree(rows, model):
    X, _ = rows
    table = model._tree_and_rows(X)[1].on_host()
    schema, stage = model.tree_.schema, model.additive_
    # The curves by hand: straight between their points.
    said = np.full(len(X), stage.intercept)
    for curve in stage.curves:
        if curve.attribute >= 0:
            by_code = dict(zip(curve.at, curve.value, strict=True))
            said += [by_code[code] for code in table.codes[:, curve.attribute]]
            continue
        x = table.x[:, curve.column]
        value = np.interp(x, curve.at, curve.value)
        if curve.indicator >= 0:
            value[table.x[:, curve.indicator] > 0] = curve.missing
        said += value
    rest = predict(rest_of(model.tree_), table)
    curves = said * schema.target_scale + schema.target_center
    found = model.predict(X)
    np.testing.assert_allclose(found, curves + rest, atol=1e-5)
    one = [model.predict(X[i : i + 1])[0] for i in range(20)]
    np.testing.assert_allclose(one, found[:20], atol=1e-5)


def test_a_plain_row_is_predicted_with_the_curves():
    X = np.random.default_rng(0).normal(size=(300, 2))
    y = np.abs(X[:, 0]) + X[:, 1]
    model = SecretRegressor(additive=Additive(), max_depth=1, oblique=False).fit(X, y)
    one = [model.predict(X[i : i + 1])[0] for i in range(20)]
    np.testing.assert_allclose(one, model.predict(X)[:20], atol=1e-5)
    np.testing.assert_allclose(one, y[:20], atol=0.3)


def test_curves_are_taken_where_they_pay(rows, model):
    X, y = rows
    others, truth = with_an_interaction(2000, 1)
    plain = SecretRegressor(oblique=False).fit(X, y)
    chosen = SecretRegressor(oblique=False, additive="auto").fit(X, y)
    error = [np.mean((m.predict(others) - truth) ** 2) for m in (plain, chosen, model)]
    assert chosen.additive_ is not None
    assert error[1] == error[2]  # what is chosen is what there would have been
    assert error[1] < 0.7 * error[0]
    # A product of two signs is no sum of anything: cross-validation says no.
    Z = np.random.default_rng(2).uniform(-1, 1, size=(500, 3))
    product = np.sign(Z[:, 0] * Z[:, 1]) * (1 + Z[:, 2])
    model = SecretRegressor(oblique=False, additive="auto").fit(Z, product)
    assert model.additive_ is None
    same = SecretRegressor(oblique=False).fit(Z, product)
    assert (model.predict(Z) == same.predict(Z)).all()


@pytest.mark.parametrize("prune", ["holdout", "guide", None])
def test_every_way_of_pruning(rows, prune):
    X, y = rows
    others, truth = with_an_interaction(2000, 1)
    options = {"prune": prune, "oblique": False, "max_leaf_nodes": 8}
    plain = SecretRegressor(**options).fit(X, y)
    model = SecretRegressor(additive=Additive(), **options).fit(X, y)
    error, usual = (np.mean((m.predict(others) - truth) ** 2) for m in (model, plain))
    assert error < 0.8 * usual


def test_samples_and_their_source():
    X, y = with_an_interaction(1500, 3)
    options = {"max_split_samples": 16, "oblique": False, "max_leaf_nodes": 8}
    model = SecretRegressor(additive=Additive(), **options).fit(X, y)
    assert model.tree_.weight[0] == 1500  # all rows, less the curves, give the models
    rest = (
        y - model.predict(X) + predict(rest_of(model.tree_), model._tree_and_rows(X)[1])
    )
    scale = model.tree_.schema.target_scale
    np.testing.assert_allclose(model.tree_.mean[0, 0] * scale, rest.mean(), atol=1e-4)


def test_gates_are_of_the_rest(rows):
    X, y = rows
    model = SecretRegressor(additive=Additive(), oblique=False, refine="blend")
    model = model.fit(X, y)
    assert model.additive_ is not None
    assert np.mean((model.predict(X) - y) ** 2) < 0.1 * np.var(y)


def test_the_text_tells_the_curves_first(model):
    text = model.export_text()
    first, _, tree = text.partition("\n\nrest of effect: ")
    assert first.startswith("effect = ")
    assert "kind (+- " in first
    assert "day (weekday) (+- " in first
    assert "missing: +" in first
    assert "rest of effect = " in tree
    assert "\neffect = " not in tree
    cost = reading_cost(model.tree_)
    assert f"{cost.curves} numbers to read" in " ".join(first.split())
    assert model.reading_cost_ == cost.splits + cost.leaves + cost.curves
    # One constant, two numbers a point, one a category or a gap.
    points = len(re.findall(r"[^)]: [+-]", first))
    alone = 3 + first.count("missing: ")
    assert cost.curves == 1 + 2 * points - alone


def test_a_node_alone_has_no_equation_of_the_target(model):
    with pytest.raises(StageError, match="rest_of"):
        model_in_original_units(model.tree_, 0)
    assert set(model.to_dataframe(backend="pandas")["node"]) >= {0}


def test_explanations_add_up(rows, model):
    X, _ = rows
    for background in (None, X[:20]):
        why = model.explain(X[:40], background=background)
        total = why.baseline + why.contributions.sum(axis=1) + why.clipping
        np.testing.assert_allclose(total, model.predict(X[:40]), atol=1e-5)
    weekend = X["day"].dt.day_of_week.to_numpy()[:40] >= 5
    at = list(why.names).index("day (weekday)")
    assert why.contributions[weekend, at].max() < why.contributions[~weekend, at].min()
    assert model.feature_importances_.sum() == pytest.approx(1.0)
    assert (model.feature_importances_ > 0.02).all()


def test_files_and_copies(rows, model, tmp_path):
    X, _ = rows
    model.save(tmp_path / "model")
    for again in (
        SecretRegressor.load(tmp_path / "model"),
        pickle.loads(pickle.dumps(model)),
    ):
        assert (again.predict(X) == model.predict(X)).all()
        assert again.export_text() == model.export_text()
    assert clone(model).additive == Additive()
    auto = SecretRegressor(additive="auto").set_params(additive__n_knots=4)
    assert auto.additive == Additive(n_knots=4, only_if_better=True)


def test_pictures_and_pages(rows, model):
    pytest.importorskip("matplotlib").use("Agg")
    X, y = rows
    axes = model.plot_additive().axes
    assert len(axes) == model.additive_.n_curves
    top = max(model.additive_.curves, key=lambda curve: np.ptp(curve.value))
    heights = [ax.get_ylim() for ax in axes]
    scale = model.tree_.schema.target_scale
    assert min(low for low, _ in heights) <= top.value.min() * scale
    texts = [text.get_text() for text in model.plot_tree().ax.texts]
    assert any(f"behind {len(axes)} curves" in text for text in texts)
    page = model.to_html(X, y)
    assert "drawn by plot_additive" in page
    assert "rest of effect" in page
    explained = model.score(X, y)  # of the target, not of what the curves leave
    assert f"{explained:.3f}" in page
    assert "rest of effect" in model._repr_html_()
    assert "rest of effect" in model.export_dot()
    plain = SecretRegressor(max_depth=0).fit(X, y)
    with pytest.raises(ValueError, match="additive=Additive"):
        plain.plot_additive()


def test_intervals_hold_their_share(rows, model):
    X, y = rows
    others, truth = with_an_interaction(1000, 5)
    calibrated = clone(model).fit(X, y).conformalize(others[:500], truth[:500])
    low, high = calibrated.predict_interval(others[500:], coverage=0.8)
    inside = (low <= truth[500:]) & (truth[500:] <= high)
    assert 0.7 < inside.mean() < 0.9


@pytest.mark.parametrize(
    "options",
    [
        {"loss": Quantile()},
        {"prune": None, "additive": "auto"},
        {"prune": "aic", "additive": "auto"},
    ],
)
def test_what_does_not_know_curves_is_refused(rows, options):
    model = SecretRegressor(**{"additive": Additive(), **options})
    with pytest.raises(ValueError, match="'additive' parameter"):
        model.fit(*rows)


def test_other_refusals_say_what_to_do(rows):
    X, y = rows
    model = SecretRegressor(additive=Additive())
    with pytest.raises(ValueError, match=r"additive=.* single output"):
        model.fit(X, np.c_[y, y])
    with pytest.raises(ValueError, match="'additive' parameter"):
        model.fit_stream([(X, y)])
    with pytest.raises(ValueError, match="additive=None"):
        model.cost_complexity_pruning_path(X, y)
