"""Predictions do not cross zero where no target does."""

from __future__ import annotations

import numpy as np
import pytest

from secret_jax import LeastSquares, SecretRegressor

OPTIONS = {"splits": "cart", "max_depth": 1, "prune": None}


def hours(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Many zeros, and none below."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(300, 2))
    level = X @ [2.0, 1.0] + 0.3 * random.normal(size=300)
    return X, 100.0 * np.maximum(level, 0.0) + 0.1


@pytest.mark.parametrize("loss", ["squared", "absolute"])
def test_what_is_never_negative_is_not_predicted_to_be(loss, tmp_path):
    X, y = hours()
    far = 5.0 * np.random.default_rng(1).normal(size=(2000, 2))
    model = SecretRegressor(loss=loss, leaf="linear", **OPTIONS).fit(X, y)
    predicted = model.predict(far)
    assert 0 <= predicted.min() < 1e-2
    one_by_one = [model.predict(row[None])[0] for row in far[predicted < 1e-2][:5]]
    assert min(one_by_one) >= 0
    assert "clipped to [0, " in model.export_text()
    mirrored = SecretRegressor(loss=loss, leaf="linear", **OPTIONS).fit(X, -y)
    assert -1e-2 < mirrored.predict(far).max() <= 0
    model.save(tmp_path / "hours")
    again = SecretRegressor.load(tmp_path / "hours")
    np.testing.assert_array_equal(again.predict(far), predicted)


def test_mixtures_have_bounds_and_targets_of_both_signs_or_no_clipping_none():
    X, y = hours()
    soft = SecretRegressor(leaf="linear", refine="soft", **OPTIONS).fit(X, y)
    assert "shares, clipped to [0, " in soft.export_text()
    assert SecretRegressor(**OPTIONS).fit(X, y - 50.0).tree_.bounds is None
    both = SecretRegressor(leaf="linear", **OPTIONS)
    predicted = both.fit(X, np.column_stack([y, y - 50.0])).predict(5.0 * X)
    assert predicted[:, 0].min() >= 0 > predicted[:, 1].min()
    assert "clipped to [0, " in both.export_text(output=0)
    assert "clipped to [0, " not in both.export_text(output=1)
    free = SecretRegressor(leaf=LeastSquares(clip_margin=None), **OPTIONS)
    assert free.fit(X, y).predict(10.0 * X).min() < 0
