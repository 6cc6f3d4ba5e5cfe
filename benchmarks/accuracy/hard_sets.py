"""Synthetic data sets that are awkward on purpose, besides the paper's three.

Each is a function of the number of rows and a random generator, and gives a DataFrame
and the target. The noise has a variance that is written beside it, so that the lowest
error that can be reached is known.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas
from sklearn import datasets as sklearn_datasets

from secret_jax.datasets import make_3dsin, make_cart, make_fried

Generator = Callable[[int, np.random.Generator], tuple[Any, np.ndarray]]


def _frame(X: np.ndarray) -> Any:
    return pandas.DataFrame(X, columns=[f"x{i}" for i in range(1, X.shape[1] + 1)])


def _of(make: Callable[..., Any], n_noise: int = 0, **options: Any) -> Generator:
    """Of a function of this package or of scikit-learn, with columns of noise."""

    def generate(n_rows: int, random: np.random.Generator) -> tuple[Any, np.ndarray]:
        own = make.__module__.startswith("secret_jax")
        seed = random if own else _seed(random)
        X, y = make(n_rows, random_state=seed, **options)
        noise = random.normal(size=(n_rows, n_noise))
        return _frame(np.column_stack([X, noise])), y

    return generate


def _cart(n_rows: int, random: np.random.Generator) -> tuple[Any, np.ndarray]:
    X, y = make_cart(n_rows, random_state=random)
    return _frame(X).astype(str), y  # all its attributes are discrete


def houses(n_rows: int, random: np.random.Generator) -> tuple[Any, np.ndarray]:
    """House values on a map, skewed attributes, a ceiling on the target."""
    place = random.uniform(size=(n_rows, 2))
    centers = np.array([[0.2, 0.7], [0.6, 0.3], [0.65, 0.8]])
    distance = np.linalg.norm(place[:, None] - centers, axis=2).min(axis=1)
    income = random.lognormal(1.2, 0.45, n_rows)
    rooms = 5 + random.gamma(2.0, 0.5, n_rows)
    people = random.lognormal(7.0, 0.7, n_rows)
    age = random.integers(1, 53, n_rows)
    value = 0.4 * income + 3.0 * np.exp(-8 * distance) + 0.008 * age
    value *= np.exp(0.2 * random.normal(size=n_rows))
    columns = {"income": income, "rooms": rooms, "people": people, "age": age}
    columns |= {"latitude": place[:, 0], "longitude": place[:, 1]}
    return pandas.DataFrame(columns), np.minimum(value, 5.0)


def lognormal(n_rows: int, random: np.random.Generator) -> tuple[Any, np.ndarray]:
    """A target whose logarithm is piecewise linear, with noise of deviation 1/2."""
    X = random.normal(size=(n_rows, 6))
    level = X[:, 0] + np.abs(X[:, 1] + X[:, 2]) + 0.5 * random.normal(size=n_rows)
    return _frame(X), np.exp(level)


def counts(n_rows: int, random: np.random.Generator) -> tuple[Any, np.ndarray]:
    """A target of whole numbers, mostly zero, from whole-number attributes."""
    X = random.integers(0, 10, size=(n_rows, 5)).astype(float)
    rate = np.where(X[:, 0] < 3, 0.1, 0.02 * X[:, 1] * X[:, 2])
    return _frame(X), random.poisson(rate).astype(float)


def wide(n_rows: int, random: np.random.Generator) -> tuple[Any, np.ndarray]:
    """300 columns, of which three matter; noise of variance 1/4."""
    X = random.normal(size=(n_rows, 300))
    level = np.where(X[:, 0] > 0, 2 * X[:, 1], -X[:, 1] + X[:, 2])
    return _frame(X), level + 0.5 * random.normal(size=n_rows)


def many_levels(n_rows: int, random: np.random.Generator) -> tuple[Any, np.ndarray]:
    """Two discrete attributes of 200 and 40 levels; noise of variance 1/4."""
    effect = np.random.default_rng(200).normal(size=200)  # the same in every part
    # Squared, so that some levels are frequent and others have a row or two.
    shop = (200 * random.uniform(size=n_rows) ** 2).astype(int)
    day = random.integers(0, 40, n_rows)
    size = random.normal(size=n_rows)
    level = effect[shop] + np.where(day % 3 == 0, size, -size)
    frame = pandas.DataFrame(
        {"shop": [f"s{i}" for i in shop], "day": [f"d{i}" for i in day], "size": size}
    )
    return frame, level + 0.5 * random.normal(size=n_rows)


def _seed(random: np.random.Generator) -> int:
    return int(random.integers(2**31))


_friedman = {
    "friedman1": (sklearn_datasets.make_friedman1, 1.0),
    "friedman2": (sklearn_datasets.make_friedman2, 125.0),
    "friedman3": (sklearn_datasets.make_friedman3, 0.1),
}

# The paper's three come first.
GENERATORS: dict[str, Generator] = {
    "3dsin": _of(make_3dsin),
    "cart": _cart,
    "fried": _of(make_fried),
    **{f"{k}_noise": _of(f, 20, noise=level) for k, (f, level) in _friedman.items()},
    "sparse": _of(sklearn_datasets.make_sparse_uncorrelated, n_features=20),
    "houses": houses,
    "lognormal": lognormal,
    "counts": counts,
    "wide": wide,
    "many_levels": many_levels,
}
