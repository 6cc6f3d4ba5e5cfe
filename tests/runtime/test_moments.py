"""Moments of parts, added up, against moments of all rows in float64."""

from __future__ import annotations

import numpy as np
import pytest

from secret_jax.runtime.moments import Moments, added_up, grouped


def direct(values: np.ndarray, weight: np.ndarray, *, products: bool) -> Moments:
    """Moments of rows, by their definition; zero for no rows."""
    total = weight.sum(axis=0)
    share = weight if weight.ndim == 2 else weight[:, None]
    mass = np.where(total > 0, total, 1.0)
    mean = (share * values).sum(axis=0) / mass
    offset = values - mean
    if products:
        return Moments(total, mean, (share * offset).T @ offset)
    return Moments(total, mean, (share * offset**2).sum(axis=0))


def stacked(parts: list[Moments]) -> Moments:
    return Moments(*(np.stack(arrays) for arrays in zip(*parts, strict=True)))


def assert_close(found: Moments, expected: Moments, scatter: float = 1e-9) -> None:
    np.testing.assert_allclose(found.weight, expected.weight, rtol=1e-13)
    np.testing.assert_allclose(found.mean, expected.mean, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(
        found.scatter, expected.scatter, rtol=scatter, atol=scatter
    )


# Some parts have a single row, some none.
SIZES = [1, 40, 0, 7, 0, 0, 25, 3, 1, 60]
KINDS = {
    "products": (True, False),
    "squares": (False, False),
    "squares, a weight for each column": (False, True),
}


@pytest.fixture(params=KINDS)
def parts(request, rng):
    """Rows and weights of parts, what they are called for, and moments of each."""
    products, by_column = KINDS[request.param]
    n_rows = sum(SIZES)
    values = rng.normal([0, 5, -100], [1, 10, 0.1], (n_rows, 3))
    weight = rng.uniform(0.1, 4.0, (n_rows, 3) if by_column else n_rows)
    which = np.repeat(np.arange(len(SIZES)), SIZES)
    found = [
        direct(values[which == part], weight[which == part], products=products)
        for part in range(len(SIZES))
    ]
    return values, weight, which, products, stacked(found)


@pytest.mark.parametrize("first", [[0], [0, 1, 2, 5, 9], list(range(len(SIZES)))])
def test_runs_of_parts_have_the_moments_of_their_rows(parts, first):
    values, weight, which, products, each = parts
    run = np.searchsorted(first, which, side="right") - 1
    expected = [
        direct(values[run == r], weight[run == r], products=products)
        for r in range(len(first))
    ]
    assert_close(added_up(each, np.array(first)), stacked(expected))


def test_groups_of_parts_in_no_order_have_the_moments_of_their_rows(parts):
    values, weight, which, products, each = parts
    group = np.array([7, 2, 2, 40, 7, 11, 2, 40, 7, 7])
    present, found = grouped(each, group)
    assert present.tolist() == [2, 7, 11, 40]
    expected = [
        direct(values[group[which] == g], weight[group[which] == g], products=products)
        for g in present
    ]
    assert_close(found, stacked(expected))
    # The group of empty parts alone.
    assert not any(array[2].any() for array in found)


def test_an_offset_costs_no_digits_but_those_of_the_numbers(rng):
    """Sums of squares less squares of sums would lose all digits of the scatter."""
    values, which = rng.normal(1e8, 1.0, (400, 2)), np.repeat(np.arange(40), 10)
    weight = rng.uniform(0.5, 2.0, 400)
    each = [
        direct(values[which == part], weight[which == part], products=True)
        for part in range(40)
    ]
    expected = direct(values - 1e8, weight, products=True)
    found = added_up(stacked(each), np.array([0]))
    np.testing.assert_allclose(found.mean[0] - 1e8, expected.mean, atol=1e-6)
    np.testing.assert_allclose(found.scatter[0], expected.scatter, rtol=1e-5, atol=1e-4)


def test_the_order_of_the_parts_does_not_matter(parts, rng):
    *_, each = parts
    shuffle = rng.permutation(len(SIZES))
    other = Moments(*(array[shuffle] for array in each))
    start = np.array([0])
    assert_close(added_up(other, start), added_up(each, start))
