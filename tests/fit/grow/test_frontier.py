"""The order of the rows: every node a slice, its rows in their order."""

from __future__ import annotations

import numpy as np

from secret_jax.fit.grow.frontier import partition
from secret_jax.runtime.shapes import slice_positions


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
