"""What boosters tell: importances, curves, programs."""

from __future__ import annotations

import numpy as np
import pytest
from configurations import refusal, shop
from exported_code import records, run_onnx, run_python
from sklearn.inspection import PartialDependenceDisplay

from secret_jax import SecretBoostingRegressor, SecretForestRegressor


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


def test_scikit_learn_draws_partial_dependence(model):
    frame, _ = shop(60, seed=2)
    columns = ["width", "colour", ("width", "height")]
    drawn = PartialDependenceDisplay.from_estimator(
        model, frame, columns, categorical_features=["colour"], grid_resolution=4
    )
    for name, found in zip(["width", "colour"], drawn.pd_results, strict=False):
        (values,) = found["grid_values"]
        assert len(values) == 4
        means = [model.predict(frame.assign(**{name: v})).mean() for v in values]
        np.testing.assert_allclose(found["average"][0], means, rtol=1e-4)
    assert drawn.pd_results[2]["average"].shape == (1, 4, 4)


def test_a_default_booster_is_a_program():
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
