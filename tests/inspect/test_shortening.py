"""The line that says what short equations cost."""

from __future__ import annotations

import re

import numpy as np

from secret_jax import SecretRegressor


def test_the_text_says_what_short_equations_cost(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 6))
    y = X @ [0.3, 0.2, 0.1, 0.1, 0.1, 0.1] + rng.normal(size=600)
    model = SecretRegressor(equation_tolerance=0.5, max_depth=0).fit(X, y)
    full = SecretRegressor(equation_tolerance=0, max_depth=0).fit(X, y)
    text = model.export_text()
    (line,) = re.findall(
        r"R² on the training rows: (\S+) with these .*, (\S+) with full", text
    )
    expected = (model.score(X, y), full.score(X, y))
    np.testing.assert_allclose([float(part) for part in line], expected, rtol=6e-3)
    assert "short equations" not in full.export_text()
    assert "with these short equations" in model.to_html()
    path = tmp_path / "short.model"
    model.save(path)
    assert SecretRegressor.load(path).export_text() == text
