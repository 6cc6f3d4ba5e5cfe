"""Curves fitted to rows: against least squares of one's own, and known sums."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sum_of_effects import sum_of_effects

from secret_jax.composed.additive.basis import curve_terms, design
from secret_jax.composed.additive.curve import kept_points
from secret_jax.composed.additive.fit import fit_curves, gram_of, ridge
from secret_jax.data.columns import read_columns
from secret_jax.data.encoding import encode
from secret_jax.data.learning import learn_schema
from secret_jax.data.roles import ColumnOptions


def encoded(X, weight=None):
    weight = np.ones(len(X)) if weight is None else weight
    nothing = np.zeros((len(X), 1))
    options = ColumnOptions(missing="learn")
    schema = learn_schema(read_columns(X), nothing, weight, options)
    return schema, encode(schema, X)


def fitted(X, y, *, weight=None, fold=None, tolerance=0.03):
    """Terms, table and what `fit_curves` gives for them."""
    weight = np.ones(len(y)) if weight is None else weight
    schema, table = encoded(X, weight)
    terms = curve_terms(schema, table, weight, 10)
    fold = np.zeros(len(y), int) if fold is None else fold
    return terms, table, fit_curves(terms, table, y, weight, fold, tolerance)


@pytest.fixture(scope="module")
def mixed():
    X, effect, random = sum_of_effects(600, 0)
    y = effect.to_numpy() + 0.1 * random.normal(size=600)
    return X, y, effect.to_numpy(), random.integers(1, 4, 600).astype(float)


def test_ridge_is_that_of_augmented_least_squares_of_least_generalised_error(mixed):
    X, y, _, weight = mixed
    schema, table = encoded(X, weight)
    terms = design(curve_terms(schema, table, weight, 10), table)
    found = ridge(gram_of(terms, y, weight), 1.0)
    # The penalty as further rows of zeros, in plain least squares.
    root, n_terms = np.sqrt(weight)[:, None], terms.shape[1]
    above = np.c_[root, root * terms]
    below = np.c_[np.zeros(n_terms), np.sqrt(found.penalty) * np.eye(n_terms)]
    right = np.r_[root[:, 0] * y, np.zeros(n_terms)]
    expected = np.linalg.lstsq(np.r_[above, below], right, rcond=None)[0]
    np.testing.assert_allclose(
        np.r_[found.intercept, found.slopes], expected, atol=1e-6
    )

    def gcv(penalty):
        centred = root * (terms - weight @ terms / weight.sum())
        inverse = np.linalg.inv(centred.T @ centred + penalty * np.eye(n_terms))
        degrees = 1 + np.trace(inverse @ centred.T @ centred)
        target = root[:, 0] * (y - weight @ y / weight.sum())
        left = target - centred @ (inverse @ (centred.T @ target))
        return left @ left / (weight.sum() - degrees) ** 2

    others = [gcv(found.penalty * factor) for factor in (0.25, 0.5, 2.0, 4.0)]
    assert gcv(found.penalty) <= min(others) + 1e-12


def test_a_known_sum_is_recovered(mixed):
    X, y, effect, weight = mixed
    terms, table, (intercept, curves, _) = fitted(X, y, weight=weight)
    columns = np.stack([curve.of_rows(table) for curve in curves], axis=1)
    total = intercept + columns.sum(axis=1)
    assert np.mean((total - effect) ** 2) < 0.01 * np.var(effect)
    # Curves are about the mean, and each is the effect of its own column.
    np.testing.assert_allclose(weight @ columns / weight.sum(), 0.0, atol=1e-9)
    deviation = [curve.deviation for curve in curves]
    spread = np.sqrt(weight @ columns**2 / weight.sum())
    np.testing.assert_allclose(deviation, spread)
    (kind,) = (i for i, curve in enumerate(curves) if curve.terms.attribute >= 0)
    own = X["kind"].map({"a": 0.0, "b": 1.0, "c": -1.0}).to_numpy(float)
    assert np.std(columns[:, kind] - own) < 0.1
    assert sum(len(curve.terms.at) for curve in curves) < sum(len(t.at) for t in terms)


def test_residuals_are_from_curves_that_have_not_seen_the_fold(mixed):
    X, y, _, weight = mixed
    fold = np.arange(len(y)) % 3
    curves, table, (*_, residual) = fitted(X, y, weight=weight, fold=fold)
    terms = design(curves, table)
    seen = fold != 1
    found = ridge(gram_of(terms[seen], y[seen], weight[seen]))
    rest = y - found.intercept - terms @ found.slopes
    np.testing.assert_allclose(residual[~seen], rest[~seen], atol=1e-7)


def test_no_penalty_without_degrees_is_chosen():
    random = np.random.default_rng(0)
    gram = gram_of(random.normal(size=(20, 40)), random.normal(size=20), np.ones(20))
    # Where ten count for each no penalty leaves any: then the greatest.
    assert ridge(gram, 10.0).penalty == pytest.approx(200.0)
    assert np.isfinite(ridge(gram).slopes).all()


def test_terms_are_few_however_wide_the_table():
    random = np.random.default_rng(0)
    numbers = random.integers(0, 30, size=(2000, 200))
    X = pd.DataFrame(numbers, columns=[f"n{i}" for i in range(200)])
    X["kind"] = [f"k{i}" for i in np.minimum(random.geometric(0.002, 2000), 1500)]
    schema, table = encoded(X)
    curves = curve_terms(schema, table, np.ones(2000), 10)
    assert sum(each.n_terms for each in curves if each.column >= 0) <= 768
    assert len(curves) == 201
    codes, count = np.unique(table.codes[:, 0], return_counts=True)
    least = count[np.isin(codes, curves[-1].at)].min()
    assert len(curves[-1].at) <= 768
    assert count[~np.isin(codes, curves[-1].at)].max() <= least


def test_points_on_a_line_are_left_out():
    at = np.linspace(0.0, 1.0, 11)
    value = np.minimum(at, 0.5) + 1e-3 * np.cos(20 * at)
    chosen = kept_points(at, value, np.full(11, 1 / 11), 1e-5)
    assert len(chosen) == 3
    assert np.mean((np.interp(at, at[chosen], value[chosen]) - value) ** 2) <= 1e-5
    assert len(kept_points(at, value, np.full(11, 1 / 11), 0.0)) == 11


def test_a_constant_column_has_no_curve():
    y = np.arange(200.0)
    _, table, (intercept, curves, _) = fitted(np.c_[np.ones(200), y], y)
    assert [curve.terms.column for curve in curves] == [1]
    np.testing.assert_allclose(intercept + curves[0].of_rows(table), y, atol=0.5)
