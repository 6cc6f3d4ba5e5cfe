"""What boosters tell: importances, curves, interactions, programs."""

from __future__ import annotations

import re

import numpy as np
import pytest
from configurations import refusal, shop
from exported_code import records, run_onnx, run_python

from secret_jax import SecretBoostingRegressor, SecretForestRegressor
from secret_jax.inspect.plot.picture import Picture


def holes(n_rows=300, seed=0):
    frame, price = shop(n_rows, seed)
    frame.loc[::7, "width"] = np.nan
    frame.loc[::11, "colour"] = None
    return frame, price


@pytest.fixture(scope="module")
def model():
    return SecretBoostingRegressor(
        max_leaf_nodes=4, max_iter=4, early_stopping=False, n_folds=2
    ).fit(*holes())


def test_importances_are_shares_of_what_is_explained(model):
    shares = dict(zip(model.feature_names_in_, model.feature_importances_, strict=True))
    assert sum(shares.values()) == pytest.approx(1.0)
    assert min(shares.values()) > 0
    # The price depends on width times colour, and a little on the height.
    assert shares["colour"] > shares["height"]


@pytest.mark.parametrize("column", ["width", "colour"])
def test_a_curve_is_the_mean_prediction(column, model):
    frame, _ = holes()
    curve = model.effect(column, n_points=5)
    assert curve.is_category == (column == "colour")
    assert len(curve.values) == 5
    for value, mean in zip(curve.values, curve.mean, strict=True):
        changed = frame.assign(**{column: value})
        changed[column] = changed[column].astype(frame[column].dtype)
        assert model.predict(changed).mean() == pytest.approx(mean, abs=1e-4)
    given = model.effect(column, frame, n_points=5)
    np.testing.assert_allclose(given.mean, curve.mean, atol=1e-6)
    by_position = model.effect(list(frame).index(column), n_points=5)
    assert by_position.name == column
    assert np.array_equal(by_position.mean, curve.mean)


def test_curves_of_columns_that_are_not_there_are_refused(model):
    with refusal("'depth'", "'width'"):
        model.effect("depth")
    with refusal("n_points"):
        model.effect("width", n_points=1)


def test_columns_that_interact_are_found_and_drawn(model):
    first = model.interactions(n_rows=30)[0]
    assert {first.first, first.second} == {"width", "colour"}
    assert 0.05 < first.share < 1
    figure = model.plot_effects(n_points=3)
    labels = [axis.get_xlabel() for axis in figure.axes]
    assert set(labels) >= {"width", "colour", "height"}
    bars = figure.axes[3]
    assert len(bars.patches) == 3
    # Ticks below a curve are rows, categories have their numbers, and no place is left.
    _, ticks = figure.axes[labels.index("width")].lines
    assert len(ticks.get_xdata()) > 100
    words = figure.axes[labels.index("colour")].get_xticklabels()
    assert all(re.search(r"\n[\d,]+ rows$", word.get_text()) for word in words)
    grid = bars.get_subplotspec().get_gridspec()
    covered = sum(
        (spec.rowspan.stop - spec.rowspan.start)
        * (spec.colspan.stop - spec.colspan.start)
        for spec in (axis.get_subplotspec() for axis in figure.axes)
    )
    assert covered == grid.nrows * grid.ncols
    assert isinstance(figure, Picture)


def test_a_sum_has_no_interactions():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(300, 3))
    model = SecretBoostingRegressor(
        max_leaf_nodes=4, max_iter=0, early_stopping=False, n_folds=2
    ).fit(X, X.sum(axis=1))
    for pair in model.interactions(n_rows=20):
        assert pair.share < 1e-8


def test_a_default_booster_is_a_program():
    """Also where leaves that are constants, and clip nothing, stand beside others."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(300, 3))
    y = X[:, 1] + np.where(X[:, 0] > 0.5, 3.0, 0.0) + rng.normal(size=300)
    model = SecretBoostingRegressor(max_iter=3).fit(X, y)
    scope: dict = {}
    exec(model.export_code(), scope)
    found = [scope["predict"](x0=a, x1=b, x2=c) for a, b, c in X]
    close = {"rtol": 0, "atol": 1e-4 * model.ensemble_.schema.target_scale}
    np.testing.assert_allclose(found, model.predict(X), **close)


def test_exported_programs_predict_the_same(model):
    frame, _ = holes(150, seed=3)
    frame.loc[0, "colour"] = "violet"
    with pytest.warns(UserWarning, match="violet"):
        expected = model.predict(frame)
    close = {"rtol": 0, "atol": 1e-4 * model.ensemble_.schema.target_scale}
    found = run_python(model.export_code(), records(frame))
    np.testing.assert_allclose(found, expected, **close)
    (found,) = run_onnx(model.to_onnx(), frame)
    np.testing.assert_allclose(found, expected, **close)
    with refusal("not exported to 'sql'", "distill()"):
        model.export_code("sql")


def test_a_sum_of_one_tree_begins_at_its_constant():
    X, y = shop(128)
    y = y + 50.0
    for model in (
        SecretForestRegressor(n_estimators=1),
        SecretBoostingRegressor(max_iter=0, ensemble=False, max_leaf_nodes=4),
    ):
        found = run_python(model.fit(X, y).export_code(), records(X))
        np.testing.assert_allclose(found, model.predict(X), atol=1e-4 * np.std(y))
