"""Fits to data that nobody tuned anything on: finite, and sane on held-out rows.

The yardstick is the mean of the training target. Each case says how many times its
error a fit may have: well below one where there is something to learn, a little above
one where there is nothing. Absolute errors are compared, so that a single row of a
heavy tail does not decide; one test asks for squared errors.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from sklearn import datasets

from benchmarks.accuracy.hard_sets import GENERATORS
from secret_jax import SecretRegressor

Columns = tuple[np.ndarray, np.ndarray]
N_ROWS = 400
_FAR = [1e6, -1e5, 0, 0, 1e4]


def bent(rng: np.random.Generator) -> Columns:
    """Five columns and a target with one bend in it; noise of deviation 0.3."""
    X = rng.normal(size=(N_ROWS, 5))
    level = X @ np.arange(5) + np.where(X[:, 0] > 0, 3 * X[:, 1], 0)
    return X, level + 0.3 * rng.normal(size=N_ROWS)


def generated(name: str, without: str | None = None) -> Callable[..., Columns]:
    """A set of the benchmarks; five columns of numbers share compiled programs."""

    def make(rng):
        X, y = GENERATORS[name](N_ROWS, rng)
        return (X if without is None else X.drop(columns=without)), y

    return make


def diabetes(rng: np.random.Generator) -> Columns:
    X, y = datasets.load_diabetes(return_X_y=True)
    order = rng.permutation(len(y))
    return X[order], y[order]


def spikes(X, y, rng):
    return np.where(rng.uniform(size=X.shape) < 0.003, 1e4 * X, X), y


def redundant(X, y, rng):
    one, two = X[:, 0], X[:, 1]
    constant = 1 + 1e-9 * rng.normal(size=N_ROWS)
    level = one + np.where(one > 0, 3 * two, 0)
    columns = np.column_stack([one, two, one, one - two, constant])
    return columns, level + 0.3 * rng.normal(size=N_ROWS)


def copies(X, y, rng):
    row = rng.integers(0, 20, N_ROWS)
    return X[row], y[row] + 0.5 * rng.normal(size=N_ROWS)


def bent_then(change: Callable[..., Columns]) -> Callable[..., Columns]:
    return lambda rng: change(*bent(rng), rng)


# What is made, and the error that is allowed, in units of the mean predictor's.
CASES: dict[str, tuple[Callable[..., Columns], float]] = {
    name: (bent_then(change), limit)
    for name, change, limit in (
        ("target of order 1e-4", lambda X, y, r: (X, 1e-4 * y), 0.25),
        ("target of order 1e9", lambda X, y, r: (X, 3e9 + 1e9 * y), 0.25),
        ("columns far away", lambda X, y, r: (np.add(X, _FAR), y), 0.25),
        ("all scales", lambda X, y, r: (X * [1e-8, 1e8, 1, 1e3, 1e-3], y), 0.25),
        ("repeated and constant columns", redundant, 0.25),
        ("gross errors in the columns", spikes, 0.5),
        ("skewed columns", lambda X, y, r: (np.exp(2 * X), X.sum(axis=1)), 0.75),
        ("whole numbers", lambda X, y, r: (X, np.round(y)), 0.25),
        ("zeros and ones", lambda X, y, r: (X, (y > 0) * 1.0), 0.7),
        ("repeated rows", copies, 0.3),
        ("one column", lambda X, y, r: (X[:, :1], np.abs(X[:, 0]) + 0.01 * y), 0.3),
        ("two degrees", lambda X, y, r: (X, y + r.standard_t(2, N_ROWS)), 0.6),
        ("one degree", lambda X, y, r: (X, y + r.standard_cauchy(N_ROWS)), 1.1),
        ("nothing to learn", lambda X, y, r: (X, r.normal(size=N_ROWS)), 1.15),
    )
} | {
    "lognormal target": (generated("lognormal", without="x6"), 1.05),
    "diabetes": (diabetes, 0.85),
    "houses": (generated("houses", without="people"), 0.8),
    "counts": (generated("counts"), 1.1),
    "many levels": (generated("many_levels"), 1.1),
}


def halves(X, y):
    half = len(y) // 2
    if isinstance(X, pd.DataFrame):
        return (X.iloc[:half], y[:half]), (X.iloc[half:], y[half:])
    return (X[:half], y[:half]), (X[half:], y[half:])


def errors(make, seed, power=1, **options) -> tuple[float, float]:
    """Mean error of a fit to half of the rows on the others, and the mean's."""
    train, (X_test, y_test) = halves(*make(np.random.default_rng(seed)))
    model = SecretRegressor(random_state=seed, **options).fit(*train)
    predicted = model.predict(X_test)
    assert predicted.shape == y_test.shape
    assert np.isfinite(predicted).all()
    ours = np.mean(np.abs(predicted - y_test) ** power)
    return float(ours), float(np.mean(np.abs(train[1].mean() - y_test) ** power))


@pytest.mark.filterwarnings("ignore::secret_jax.UnseenCategoryWarning")
@pytest.mark.parametrize("name", list(CASES))
def test_held_out_error_is_sane(name):
    make, limit = CASES[name]
    ours, mean = errors(make, 0)
    assert ours <= limit * mean


def test_squared_error_with_infinite_variance_is_bounded():
    make, _ = CASES["two degrees"]
    ours, mean = np.sum([errors(make, seed, power=2) for seed in range(3)], axis=0)
    assert ours <= 1.1 * mean


@pytest.mark.parametrize(
    ("n_columns", "options"),
    [(24, {"oblique": False}), (300, {"max_depth": 0})],  # deeper, 300 take minutes
)
def test_more_columns_than_rows(n_columns, options):
    def make(rng):
        X = rng.normal(size=(80, n_columns))
        return X, 3 * X[:, 0] + 0.1 * rng.normal(size=80)

    ours, mean = errors(make, 0, **options)
    assert ours <= 1.1 * mean


def test_a_single_row_of_another_value_is_no_leaf():
    rng = np.random.default_rng(0)
    X, _ = bent(rng)
    y = np.zeros(N_ROWS)
    y[17] = 1.0
    model = SecretRegressor(random_state=0).fit(X, y)
    assert np.mean(model.predict(rng.normal(size=(1000, 5))) ** 2) < 0.01
