"""Curves fitted to rows: against least squares of one's own, and known sums."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sum_of_effects import sum_of_effects

from secret_jax.additive.basis import curve_terms, design
from secret_jax.additive.fit import Sums, residuals, ridge, with_penalty
from secret_jax.additive.options import Additive
from secret_jax.additive.shorten import kept_points
from secret_jax.data.columns import read_columns
from secret_jax.data.encoding import encode
from secret_jax.data.learning import learn_schema
from secret_jax.data.roles import ColumnOptions
from secret_jax.data.rows import Rows
from secret_jax.prune.cross_validation import parts_of


def encoded(X, y, weight=None):
    weight = np.ones(len(y)) if weight is None else weight
    options = ColumnOptions(missing="learn")
    schema = learn_schema(read_columns(X), y[:, None], weight, options)
    return schema, Rows(encode(schema, X), schema.scale_targets(y[:, None]), weight)


@pytest.fixture(scope="module")
def mixed():
    n = 600
    X, effect, random = sum_of_effects(n, 0)
    y = effect.to_numpy() + 0.1 * random.normal(size=n)
    weight = random.integers(1, 4, n).astype(float)
    return X, y, effect.to_numpy(), weight


def test_ridge_is_that_of_augmented_least_squares(mixed):
    X, y, _, weight = mixed
    schema, rows = encoded(X, y, weight)
    curves = curve_terms(schema, rows.table, weight, Additive())
    terms = design(curves, rows.table)
    n_terms, target = terms.shape[1], rows.targets[:, 0]
    intercept, slopes = with_penalty(Sums.of(terms, target, weight), 3.0)
    # The penalty as further rows of zeros, in plain least squares.
    root = np.sqrt(weight)[:, None]
    above = np.c_[root, root * terms]
    below = np.c_[np.zeros(n_terms), np.sqrt(3.0) * np.eye(n_terms)]
    right = np.r_[root[:, 0] * target, np.zeros(n_terms)]
    expected = np.linalg.lstsq(np.r_[above, below], right, rcond=None)[0]
    np.testing.assert_allclose(np.r_[intercept, slopes], expected, atol=1e-7)


def test_penalty_has_the_least_generalised_error(mixed):
    X, y, _, _ = mixed
    schema, rows = encoded(X, y)
    curves = curve_terms(schema, rows.table, rows.weight, Additive())
    terms = design(curves, rows.table)
    target, n = rows.targets[:, 0], rows.n_rows
    sums = Sums.of(terms, target, rows.weight)
    found = ridge(sums, 1.0)

    def gcv(penalty):
        centred = terms - terms.mean(axis=0)
        inverse = np.linalg.inv(
            centred.T @ centred + penalty * np.eye(centred.shape[1])
        )
        hat = centred @ inverse @ centred.T + 1 / n
        return np.sum((target - hat @ target) ** 2) / (n - np.trace(hat)) ** 2

    at_it = gcv(found.penalty)
    assert at_it <= min(gcv(found.penalty * f) for f in (0.25, 0.5, 2.0, 4.0)) + 1e-12


def test_a_known_sum_is_recovered(mixed):
    X, y, effect, weight = mixed
    schema, rows = encoded(X, y, weight)
    found = residuals(rows, schema, Additive(), [], equation_tolerance=0.03)
    said = schema.restore_targets(found.stage.predict(rows.table)[:, None])
    assert np.mean((said - effect) ** 2) < 0.01 * np.var(effect)
    # Curves are about the mean, and each is the effect of its own column.
    each = found.stage.contributions(rows.table)
    np.testing.assert_allclose(weight @ each / weight.sum(), 0.0, atol=1e-9)
    np.testing.assert_allclose(
        each.sum(axis=1) + found.stage.intercept, found.stage.predict(rows.table)
    )
    labels = [schema.labels[c] if c >= 0 else "kind" for c in found.stage.column]
    kind = each[:, labels.index("kind")] * schema.target_scale
    own = X["kind"].map({"a": 0.0, "b": 1.0, "c": -1.0}).to_numpy(float)
    assert np.std(kind - own) < 0.1
    assert "day (weekday)" in labels


def test_folds_have_not_seen_their_rows(mixed):
    X, y, _, _ = mixed
    schema, rows = encoded(X, y)
    options = Additive(gcv_factor=1.0)
    parts = parts_of(rows.weight, 3)
    found = residuals(rows, schema, options, [parts])
    terms = design(curve_terms(schema, rows.table, rows.weight, options), rows.table)
    target = rows.targets[:, 0]

    def said(part, at, penalty=None):
        sums = Sums.of(terms[part], target[part], rows.weight[part])
        fitted = ridge(sums, 1.0)
        if penalty is None:
            return fitted.predict(terms[at]), fitted.penalty
        intercept, slopes = with_penalty(sums, penalty)
        return intercept + terms[at] @ slopes, penalty

    first, second, third = parts
    value, penalty = said(~first, first)
    np.testing.assert_allclose(found.unseen[0][:, 0], target[first] - value, atol=1e-8)
    np.testing.assert_allclose(found.whole[first, 0], target[first] - value, atol=1e-8)
    # Rows of the second part, in the fold without the first: from the third alone.
    value, _ = said(third, second, penalty)
    inside = found.folds[0][second[~first], 0]
    np.testing.assert_allclose(inside, target[second] - value, atol=1e-7)


def test_of_two_parts_each_is_halved_for_the_other(mixed):
    X, y, _, _ = mixed
    schema, rows = encoded(X, y)
    options, target = Additive(), rows.targets[:, 0]
    first, second = parts_of(rows.weight, 2)
    found = residuals(rows, schema, options, [[first, second]])
    terms = design(curve_terms(schema, rows.table, rows.weight, options), rows.table)
    outside = np.flatnonzero(second)
    whole = Sums.of(terms[outside], target[outside], np.ones(len(outside)))
    penalty = ridge(whole, options.gcv_factor).penalty
    for inner, others in (
        (slice(0, None, 2), slice(1, None, 2)),
        (slice(1, None, 2), slice(0, None, 2)),
    ):
        at, rest = outside[inner], outside[others]
        sums = Sums.of(terms[rest], target[rest], np.ones(len(rest)))
        intercept, slopes = with_penalty(sums, penalty)
        value = target[at] - intercept - terms[at] @ slopes
        np.testing.assert_allclose(found.folds[0][inner, 0], value, atol=1e-7)


def test_no_penalty_without_degrees_is_chosen():
    random = np.random.default_rng(0)
    terms, target = random.normal(size=(20, 40)), random.normal(size=20)
    sums = Sums.of(terms, target, np.ones(20))
    # Where ten count for each no penalty leaves any: then the greatest.
    assert ridge(sums, 10.0).penalty == pytest.approx(200.0)
    assert ridge(sums, 1.2).degrees < 20 / 1.2


def test_terms_are_few_however_wide_the_table():
    random = np.random.default_rng(0)
    numbers = random.integers(0, 30, size=(2000, 200))
    X = pd.DataFrame(numbers, columns=[f"n{i}" for i in range(200)])
    X["kind"] = [f"k{i}" for i in np.minimum(random.geometric(0.002, 2000), 1500)]
    schema, rows = encoded(X, random.normal(size=2000))
    curves = curve_terms(schema, rows.table, rows.weight, Additive())
    assert sum(each.n_terms for each in curves if each.column >= 0) <= 768
    assert len(curves) == 201
    codes, count = np.unique(rows.table.codes[:, 0], return_counts=True)
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
    schema, rows = encoded(np.c_[np.ones(200), np.arange(200.0)], y)
    stage = residuals(rows, schema, Additive(), []).stage
    assert stage.column.tolist() == [1]
    said = schema.restore_targets(stage.predict(rows.table)[:, None])
    np.testing.assert_allclose(said, y, atol=0.5)
