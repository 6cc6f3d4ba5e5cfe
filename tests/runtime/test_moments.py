"""Moments of parts, added up, against moments of all rows in float64."""

from __future__ import annotations

import chex
import numpy as np
import pytest

from secret_jax.runtime.linalg import Moments, added_up


def direct(values: np.ndarray, weight: np.ndarray, *, products: bool) -> Moments:
    """Moments of rows, by their definition; zero for no rows."""
    total = weight.sum(axis=0)
    share = weight if weight.ndim == 2 else weight[:, None]
    mean = (share * values).sum(axis=0) / np.where(total > 0, total, 1.0)
    offset = values - mean
    if products:
        return Moments(total, mean, (share * offset).T @ offset)
    return Moments(total, mean, (share * offset**2).sum(axis=0))


def stacked(parts: list[Moments]) -> Moments:
    return Moments(*(np.stack(arrays) for arrays in zip(*parts, strict=True)))


# Some parts have a single row, some none.
SIZES = [1, 40, 0, 7, 0, 0, 25, 3, 1, 60]


@pytest.mark.parametrize(
    ("products", "by_column"),  # squares alone may have a weight for each column
    [(True, False), (False, False), (False, True)],
)
def test_runs_of_parts_have_the_moments_of_their_rows(rng, products, by_column):
    n_rows, n_parts = sum(SIZES), len(SIZES)
    values = rng.normal([0, 5, -100], [1, 10, 0.1], (n_rows, 3))
    weight = rng.uniform(0.1, 4.0, (n_rows, 3) if by_column else n_rows)
    which = np.repeat(np.arange(n_parts), SIZES)

    def of(group: np.ndarray, present) -> Moments:
        rows = [group == g for g in present]
        return stacked([direct(values[r], weight[r], products=products) for r in rows])

    def assert_close(found: Moments, expected: Moments) -> None:
        chex.assert_trees_all_close(found, expected, rtol=1e-9, atol=1e-9)
        chex.assert_trees_all_close(found[:2], expected[:2], rtol=1e-12, atol=1e-12)

    each = of(which, range(n_parts))
    for first in ([0], [0, 1, 2, 5, 9], list(range(n_parts))):
        run = np.searchsorted(first, which, side="right") - 1
        assert_close(added_up(each, np.array(first)), of(run, range(len(first))))
    shuffle = rng.permutation(n_parts)
    other = Moments(*(array[shuffle] for array in each))
    assert_close(added_up(other, np.array([0])), added_up(each, np.array([0])))
