"""Rows that repeat others: observations, or copies of one."""

import numpy as np
import pytest

from secret_jax.data.sampling import repeats_of


def number_of(x, y, codes=None, **more) -> np.ndarray | None:
    """Observations that every given row stands for, or None if no row repeats."""
    codes = np.zeros((len(y), 0), np.int32) if codes is None else codes
    found = repeats_of([*x.T], codes, y.reshape(len(y), -1), **more)
    if found is None:
        return None
    rows = np.column_stack([x, codes, y])
    np.testing.assert_array_equal(rows[found.first][found.member], rows)
    assert (np.diff(found.first) > 0).all()
    return found.number[found.member]


def measured(rng, n: int) -> tuple[np.ndarray, np.ndarray]:
    x = rng.normal(size=(n, 3))
    return x, x[:, 0] + rng.normal(size=n)


def test_measurements_are_copies_of_one_however_they_come_to_repeat(rng):
    x, y = measured(rng, 300)
    assert number_of(x, y) is None
    bootstrap = rng.integers(0, 300, 300)
    oversampled = np.r_[np.arange(300), np.flatnonzero(y > 1).repeat(4)]
    for rows in (bootstrap, oversampled, np.r_[np.arange(300), 7]):
        assert (number_of(x[rows], y[rows]) == 1).all()
        assert (number_of(x[rows], (y > 0)[rows]) == 1).all()  # classes


@pytest.mark.parametrize("noise", [0.0, 0.1])
@pytest.mark.parametrize("kind", ["truths", "categories", "counts"])
def test_truths_categories_and_counts_are_observations(rng, noise, kind):
    levels = {"truths": 2, "categories": 30, "counts": 8}[kind]
    x = rng.integers(0, levels, (5000, 2))
    y = (x[:, 0] > x[:, 1]) ^ (rng.random(5000) < noise)
    none = np.zeros((5000, 0))
    found = number_of(none, y, x) if kind == "categories" else number_of(x, y)
    _, where, seen = np.unique(
        np.c_[x, y], axis=0, return_inverse=True, return_counts=True
    )
    np.testing.assert_array_equal(found, seen[where.ravel()])


def test_numbers_of_many_values_that_meet_with_several_y_are_observations(rng):
    hour = np.round(rng.uniform(0, 24, 5000), 1)[:, None]
    y = rng.poisson(1 + hour[:, 0] / 12)
    found = number_of(hour, y)
    assert found.max() > 5


def test_a_few_that_meet_by_chance_do_not_make_copies_observations(rng):
    x, y = measured(rng, 400)
    x[1::40] = x[::40]  # ten pairs of other targets
    rows = rng.integers(0, 400, 400)
    assert (number_of(x[rows], y[rows]) == 1).all()


@pytest.mark.parametrize("times", [2, 3])
def test_a_table_of_which_every_row_is_repeated_is_the_table(rng, times):
    x, y = rng.integers(0, 3, (2000, 5)), rng.integers(0, 4, 2000)
    once = number_of(x, y)
    rows = rng.permutation(np.tile(np.arange(2000), times))
    np.testing.assert_array_equal(number_of(x[rows], y[rows]), once[rows])
    given = np.full(2000, times)
    np.testing.assert_array_equal(number_of(x, y, times=given), once)
    # Of few cells all may be seen as often as the others.
    few = np.tile([[0, 0], [0, 1], [1, 0], [1, 1]], (100, 1))
    assert (number_of(few, few[:, 0] != few[:, 1]) == 100).all()


def test_equal_rows_of_two_groups_are_two(rng):
    x, y = measured(rng, 50)
    group = np.repeat([0.0, 1.0], 50)
    assert number_of(np.tile(x, (2, 1)), np.tile(y, 2), group=group) is None
