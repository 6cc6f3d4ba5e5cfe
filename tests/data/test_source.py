"""Of many rows a sample grows the tree: which rows, and what they stand for."""

from __future__ import annotations

import numpy as np
import pytest

from secret_jax import SecretRegressor
from secret_jax.data.rows import sampling_hash
from secret_jax.data.table import Table
from secret_jax.datasets import make_fried
from secret_jax.fitting import Rows, sampled

SMALL = {"em_sample": 64, "min_samples_split": 0.1, "random_state": 0}


def rows_of(x, y):
    table = Table(np.asarray(x, np.float32), np.zeros((len(x), 0), np.int32))
    return Rows(table, np.asarray(y, np.float64), np.ones(len(x)))


@pytest.mark.parametrize("kind", ["normal", "heavy", "whole numbers"])
def test_a_sample_has_about_the_size_asked_for_and_no_slant(rng, kind):
    n_rows = 20_000
    x = {
        "normal": rng.normal(size=(n_rows, 3)),
        # All but a few rows lie within a thousandth of the deviation.
        "heavy": rng.standard_cauchy(size=(n_rows, 3)) ** 5 / 1e12,
        "whole numbers": rng.integers(0, 50, (n_rows, 3)),
    }[kind]
    y = rng.normal(size=n_rows)
    found = sampled(rows_of(x, y), 5000, seed=3)
    assert found is not None
    # Five standard errors of a binomial share, and of a mean.
    assert abs(len(found[0].y) - 5000) < 5 * np.sqrt(20_000 * 0.25 * 0.75)
    assert abs(found[0].y.mean() - y.mean()) < 5 / np.sqrt(5000)


def test_the_order_of_the_rows_does_not_matter_and_the_seed_does(rng):
    x, y = rng.normal(size=(4000, 2)), rng.normal(size=4000)
    other = rng.permutation(4000)
    first, second, third = (
        sampled(rows_of(x[order], y[order]), 1000, seed)
        for order, seed in ((slice(None), 1), (other, 1), (other, 2))
    )
    assert np.array_equal(first[0].table.x, second[0].table.x)
    assert not np.array_equal(first[0].y[:50], third[0].y[:50])


def test_zero_has_one_hash_whatever_its_sign():
    x = np.array([[0.0, 1.0], [-0.0, 1.0]], np.float32)
    first, second = sampling_hash(x, [np.zeros(2)], 0)
    assert first == second


@pytest.mark.parametrize("n_distinct", [1, 3, 40, 400])
def test_copies_of_few_rows_are_no_sample(rng, n_distinct):
    x = np.repeat(rng.normal(size=(n_distinct, 2)), 8000 // n_distinct, axis=0)
    assert sampled(rows_of(x, x[:, 0]), 2000, seed=0) is None


def test_many_copies_of_few_rows_give_the_tree_of_weights():
    X, y = make_fried(300, random_state=0)
    copies = SecretRegressor(**SMALL).fit(np.repeat(X, 10, axis=0), np.repeat(y, 10))
    weighted = SecretRegressor(**SMALL).fit(X, y, np.full(300, 10))
    np.testing.assert_allclose(copies.predict(X), weighted.predict(X), rtol=1e-6)


def test_all_rows_give_the_models_of_a_tree_that_a_sample_grew():
    X, y = make_fried(6000, random_state=0)
    model = SecretRegressor(prune=None, leaf="linear", clip_margin=None, **SMALL)
    tree = model.fit(X, y).tree_
    assert tree.weight[0] == 6000
    leaf = model.apply(X)
    for node in np.unique(leaf)[:4]:
        inside = leaf == node
        design = np.column_stack([np.ones(inside.sum()), X[inside]])
        fitted = design @ np.linalg.lstsq(design, y[inside], rcond=None)[0]
        np.testing.assert_allclose(model.predict(X[inside]), fitted, atol=2e-3)


def test_numbers_of_rows_are_of_all_rows():
    X, y = make_fried(6000, random_state=0)
    options = SMALL | {"min_samples_split": 1500, "min_samples_leaf": 700}
    model = SecretRegressor(prune=None, **options).fit(X, y)
    assert 1 < model.n_leaves_ <= 8
    assert np.bincount(model.apply(X))[np.unique(model.apply(X))].min() > 500
