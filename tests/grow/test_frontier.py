"""The order of the rows: every node a slice, its rows in their order."""

from __future__ import annotations

import numpy as np
import pytest

from secret_jax.grow.frontier import partition, slice_positions


def test_partition_is_stable_and_stays_in_the_nodes(rng):
    order = rng.permutation(100)
    before = order.copy()
    starts, stops = np.array([60, 5, 30, 90]), np.array([80, 30, 31, 90])
    goes_left = rng.random(100) < 0.4  # by row id
    go_left = goes_left[order[slice_positions(starts, stops)]]
    middle = partition(order, starts, stops, go_left)
    for start, cut, stop in zip(starts, middle, stops, strict=True):
        rows = before[start:stop]
        left, right = rows[goes_left[rows]], rows[~goes_left[rows]]
        assert np.array_equal(order[start:cut], left)
        assert np.array_equal(order[cut:stop], right)
    outside = np.setdiff1d(np.arange(100), slice_positions(starts, stops))
    assert np.array_equal(order[outside], before[outside])


@pytest.mark.parametrize("side", [True, False])
def test_partition_to_one_side(side):
    order = np.arange(10)[::-1].copy()
    starts, stops = np.array([2, 6]), np.array([6, 9])
    middle = partition(order, starts, stops, np.full(7, side))
    assert np.array_equal(middle, stops if side else starts)
    assert np.array_equal(order, np.arange(10)[::-1])


def test_partition_of_nothing():
    order = np.arange(4)
    nothing = np.empty(0, int)
    assert len(partition(order, nothing, nothing, np.empty(0, bool))) == 0
    assert np.array_equal(order, np.arange(4))


def test_slice_positions():
    starts, stops = np.array([4, 0, 9, 7]), np.array([6, 0, 12, 8])
    parts = [np.arange(a, b) for a, b in zip(starts, stops, strict=True)]
    expected = np.concatenate(parts)
    assert np.array_equal(slice_positions(starts, stops), expected)
