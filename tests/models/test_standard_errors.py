"""Standard errors of models that are fitted to a loss, by hand and by simulation."""

from __future__ import annotations

import numpy as np
import pytest

from secret_jax import Quantile, SecretClassifier, SecretRegressor
from secret_jax.models.short_models import _errors

ROOT = {"splits": "cart", "max_depth": 0, "prune": None}


def draw(seed: int, n_rows: int = 800) -> tuple[np.ndarray, np.random.Generator]:
    random = np.random.default_rng(seed)
    return random.normal(size=(n_rows, 3)), random


def by_columns(model):
    return model.coefficients(0).set_index("column")


def error_by_hand(X, curvature, squares=None):
    """Of the value at the center and the slopes: the information, or the sandwich."""
    design = np.column_stack([np.ones(len(X)), X - X.mean(axis=0)])
    inverse = np.linalg.inv((curvature[:, None] * design).T @ design)
    if squares is not None:
        inverse = inverse @ ((squares[:, None] * design).T @ design) @ inverse
    return np.sqrt(np.diag(inverse))


@pytest.mark.parametrize("slope", [0.5, 4.0])
def test_of_two_classes_they_are_those_of_the_information(slope):
    X, random = draw(0)
    chance = 1 / (1 + np.exp(-slope * (X[:, 0] - X[:, 1] + 0.5 * X[:, 2])))
    model = SecretClassifier(equation_tolerance=0.0, **ROOT).fit(
        X, random.random(len(X)) < chance
    )
    share = model.predict_proba(X)[:, 1]
    expected = error_by_hand(X, share * (1 - share))
    np.testing.assert_allclose(
        model.coefficients(0)["standard_error"].iloc[0], expected[0], rtol=0.01
    )
    found = by_columns(model).standard_error[["x0", "x1", "x2"]]
    np.testing.assert_allclose(found, expected[1:], rtol=0.01)


def test_of_amounts_they_are_those_of_the_sandwich_and_so_of_counts():
    X, random = draw(2)
    y = np.exp(X @ [0.5, -0.3, 0.2]) * random.gamma(2.0, 0.5 + (X[:, 0] > 0), len(X))
    counts = random.poisson(np.exp(0.5 + X @ [0.5, -0.3, 0.2]))
    for loss, target in (("gamma", y), ("poisson", counts), ("poisson", 1e-6 * counts)):
        model = SecretRegressor(loss=loss, equation_tolerance=0.0, **ROOT)
        mean = model.fit(X, target).predict(X)
        squares = (
            (target / mean - 1.0) ** 2 if loss == "gamma" else (target - mean) ** 2
        )
        curvature = target / mean if loss == "gamma" else mean
        expected = error_by_hand(X, curvature, squares)
        found = by_columns(model).standard_error[["x0", "x1", "x2"]]
        np.testing.assert_allclose(found, expected[1:], rtol=0.02)


@pytest.mark.parametrize("level", [0.5, 0.9])
def test_intervals_of_quantiles_hold_the_truth_as_often_as_they_say(level):
    inside = []
    for seed in range(20):
        X, random = draw(seed)
        y = X @ [1.0, -1.0, 0.5] + random.normal(size=len(X))
        model = SecretRegressor(
            loss=Quantile(level=level), equation_tolerance=0.0, **ROOT
        ).fit(X, y)
        found = by_columns(model).loc[["x0", "x1", "x2"]]
        inside.append((found.low <= [1, -1, 0.5]) & (found.high >= [1, -1, 0.5]))
    assert 0.88 <= np.mean(inside) <= 0.99


def test_there_are_none_where_few_rows_tell_or_scores_are_not_fixed():
    X, random = draw(3, 300)
    y = X[:, 0] + random.normal(size=300)
    far = SecretRegressor(
        loss=Quantile(level=0.99), equation_tolerance=0.0, **ROOT
    ).fit(X, y)
    assert far.coefficients(0)["standard_error"].isna().all()
    labels = np.argmax(X + random.gumbel(size=X.shape), axis=1)
    several = SecretClassifier(**ROOT).fit(X, labels)
    assert np.isnan(several.tree_.standard_error).all()
    flat = np.full(300, 1e-200), np.full(300, 0.25)  # hardly any curvature
    assert np.isnan(_errors(Quantile(), X, np.eye(3), *flat)).all()


def test_columns_without_a_term_and_copies_are_no_trouble():
    X, random = draw(4)
    X[:, 2] = X[:, 0]
    labels = random.random(len(X)) < 1 / (1 + np.exp(-2 * X[:, 0]))
    full = SecretClassifier(equation_tolerance=0.0, **ROOT).fit(X, labels)
    assert np.isnan(full.tree_.standard_error[0, 0, [1, 3]]).sum() == 1
    nothing = SecretClassifier(leaf="constant", **ROOT).fit(X, labels)
    share = labels.mean()
    expected = 1 / np.sqrt(len(X) * share * (1 - share))
    assert nothing.tree_.standard_error[0, 0, 0] == pytest.approx(expected, rel=1e-2)
