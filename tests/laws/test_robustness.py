"""Whatever table is given: a reason for a refusal, or a tree with finite predictions.

Other parameters and estimators are those of `tests.fuzz`.
"""

from __future__ import annotations

import pickle
import tempfile
from typing import Any

import numpy as np
import pandas as pd
import pytest
from configurations import tree_bytes
from random_tables import COLUMNS, Data, strange_data
from refusals import assert_meant, only_deserved_warnings

from secret_jax import SecretRegressor

OPTIONS: dict[str, list[Any]] = {
    "oblique": ["auto", False],
    "leaf": ["ridge", "linear"],
    "prune": ["auto", None, "icomp"],
    "missing_values": ["learn", "mean", "error"],
    "leaf__clip_margin": [0.1, 0.0, None],
    "min_samples_leaf": ["auto", 1, 0.2],
    "max_depth": [0, 1],
    "random_state": [0],
}


def fitted(case: Data, chosen: dict[str, Any]) -> SecretRegressor | None:
    """A fitted model, or None after a refusal with a reason."""
    model = SecretRegressor().set_params(**chosen)
    try:
        return model.fit(case.X, case.y, case.weight)
    except Exception as error:
        assert_meant(error)
        assert vars(model) == model.get_params(deep=False)  # as if nothing had happened
        return None


def exaggerated(X: Any) -> Any:
    """The rows with numbers far outside of what was seen, in the same container."""

    def grown(column: Any) -> Any:
        values = np.asarray(column)
        if values.dtype.kind != "f":
            return column
        return np.clip(values.astype(float), -1e300, 1e300) * 1e3 - 1e4

    if isinstance(X, pd.DataFrame) and X.columns.dtype != int:
        return X.assign(**{name: grown(X[name]) for name in X.columns})
    if isinstance(X, np.ndarray):
        return grown(X)
    return X


@pytest.mark.parametrize("kind", COLUMNS)
def test_a_fit_is_finite_or_refused_with_a_reason(kind):
    case, rng = strange_data(kind), np.random.default_rng([*kind.encode()])
    chosen = {
        name: some[rng.integers(len(some))]
        for name, some in OPTIONS.items()
        if rng.random() < 0.5
    }
    with only_deserved_warnings():
        model = fitted(case, chosen)
        if model is None:
            return
        tree = model.tree_
        try:
            prediction, deviation = model.predict(case.X, return_std=True)
        except ValueError as error:  # gaps in rows without weight, which no fit sees
            assert chosen.get("missing_values") == "error"
            assert_meant(error)
            return
        assert prediction.shape == deviation.shape == (len(case.X),)
        assert prediction.dtype == deviation.dtype == np.float64
        assert np.isfinite(prediction).all()
        assert np.isfinite(deviation).all()
        assert (deviation >= 0).all()
        assert np.isfinite(model.predict(exaggerated(case.X))).all()
        leaf = model.apply(case.X)
        assert tree.is_leaf[leaf].all()
        inner = np.flatnonzero(~tree.is_leaf)
        below = tree.weight[tree.left[inner]] + tree.weight[tree.right[inner]]
        np.testing.assert_allclose(tree.weight[inner], below, rtol=1e-6)
        for name in ("coefficient", "threshold", "direction", "lower", "upper", "gain"):
            assert np.isfinite(getattr(tree, name)).all(), name
        assert np.isfinite(model.feature_importances_).all()
        if chosen.get("leaf__clip_margin", 0.1) is not None:
            y = np.asarray(case.y, np.float64).ravel()
            if case.weight is not None:  # rows without weight are not seen
                y = y[np.broadcast_to(np.asarray(case.weight) > 0, y.shape)]
            reach = (
                chosen.get("leaf__clip_margin", 0.1) * np.ptp(y)
                + 1e-6 * np.abs(y).max()
            )
            assert prediction.min() >= y.min() - reach
            assert prediction.max() <= y.max() + reach
        scale = np.abs(prediction).max() + tree.schema.target_scale
        why = model.explain(case.X)
        total = why.baseline + why.contributions.sum(axis=1) + why.clipping
        np.testing.assert_allclose(total, prediction, rtol=0, atol=1e-6 * scale)
        assert model.export_text()
        assert model.export_code("dot")
        assert len(model.to_dataframe()) == tree.n_nodes
        for i in range(min(len(case.X), 5)):  # alone as among others
            (alone,) = model.predict(case.X[i : i + 1])
            assert abs(alone - prediction[i]) <= 1e-6 * scale
        try:
            found = pickle.loads(pickle.dumps(model)).predict(case.X)
            with tempfile.NamedTemporaryFile() as file:
                model.save(file.name)
                again = SecretRegressor.load(file.name).predict(case.X)
        except ValueError as error:
            assert_meant(error)
        else:
            assert np.array_equal(found, prediction)
            assert np.array_equal(again, prediction)
        if "random_state" in chosen:
            again = fitted(case, chosen)
            assert again is not None
            assert tree_bytes(again.tree_) == tree_bytes(tree)


_EXACT = ["normal", "steps", "two values", "constant", "skewed"]
_EXACT += ["heavy tails", "rising"]


@pytest.mark.parametrize("seed", range(4))
def test_powers_of_two_as_units_change_no_bit(seed):
    rng = np.random.default_rng(seed)
    kinds, powers = rng.choice(_EXACT, 3), rng.integers(-30, 31, 4)
    X = np.column_stack([COLUMNS[kind](rng, 100) for kind in kinds]).astype(float)
    y = np.abs(np.clip(X[:, 0], -9, 9)) + rng.normal(size=100)
    *units, unit = 2.0**powers
    options = {"random_state": 0, "min_samples_split": 0.1}
    model = SecretRegressor(**options).fit(X, y)
    other = SecretRegressor(**options).fit(X * units, y * unit)
    # Plain numbers are plain in units of the data: only these may differ, and no row
    # changes its side.
    found, expected = tree_bytes(other.tree_), tree_bytes(model.tree_)
    for changed in ("threshold", "direction"):
        found[changed] = expected[changed]
    assert found == expected
    assert np.array_equal(other.predict(X * units), unit * model.predict(X))


def test_far_tails_of_numbers_whose_squares_vanish(rng):
    X = np.column_stack([rng.normal(size=200), 1e-200 * rng.standard_cauchy(200)])
    y = X[:, 0] + 0.1 * rng.normal(size=200)
    assert SecretRegressor().fit(X, y).score(X, y) > 0.9
