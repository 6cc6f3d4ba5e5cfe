"""One pass over many rows: the statistics of groups against sums in float64."""

from __future__ import annotations

import chex
import numpy as np
import pytest

from secret_jax.data.rows import Rows, Table
from secret_jax.models import statistics as statistics_module
from secret_jax.models.statistics import (
    empty_statistics,
    group_statistics,
    merge_into,
    slice_statistics,
)


def reference(x, targets, weight, group, n_groups):
    found = empty_statistics(n_groups, x.shape[1], targets.shape[1])
    for g in range(n_groups):
        rows = group == g
        if not rows.any():
            continue
        joint = np.column_stack([x, targets])[rows].astype(np.float64)
        found.weight[g] = weight[rows].sum()
        found.mean[g] = np.average(joint, axis=0, weights=weight[rows])
        offset = joint - found.mean[g]
        found.scatter[g] = (weight[rows, None] * offset).T @ offset
        found.lower[g] = targets[rows].min(axis=0)
        found.upper[g] = targets[rows].max(axis=0)
    return found


def assert_close(got, want, tolerance=1e-10):
    """Sums of products, each in units of its group's scatter."""
    for name in ("weight", "lower", "upper"):
        np.testing.assert_allclose(getattr(got, name), getattr(want, name), rtol=1e-12)
    square = np.maximum(np.einsum("gii->gi", want.scatter), 1e-6)
    deviation = np.sqrt(square / np.maximum(want.weight, 1.0)[:, None])
    product = np.sqrt(square[:, :, None] * square[:, None, :])
    assert (np.abs(got.mean - want.mean) <= tolerance * (deviation + 1.0)).all()
    assert (np.abs(got.scatter - want.scatter) <= 5.0 * tolerance * product).all()


@pytest.mark.parametrize(
    ("n_rows", "n_groups", "block"),
    [(40_000, 7, 30_000), (17_000, 300, 8192), (5000, 40, 64), (50, 1, 50)],
)
@pytest.mark.parametrize("n_outputs", [1, 2])
def test_group_statistics_add_up_over_blocks_of_any_size(
    rng, n_rows, n_groups, block, n_outputs
):
    x = rng.normal(size=(n_rows, 4)).astype(np.float32)  # the last one is split on
    y, weight = rng.normal(size=(n_rows, n_outputs)), rng.uniform(0.5, 2.0, n_rows)
    # Very unequal groups, one of them empty, and in no order.
    group = (n_groups * rng.uniform(size=n_rows) ** 3).astype(int)
    group[group == n_groups // 2 + 1] = 0
    # Far from the origin, so that raw moments would lose eight digits.
    x[group == 0] = 100.0 + 0.01 * x[group == 0]
    rows = Rows(Table(x, np.zeros((n_rows, 0), np.int32)), y, weight)
    got = empty_statistics(n_groups, 3, n_outputs)
    for start in range(0, n_rows, block):
        part = slice(start, start + block)
        node, found = group_statistics(rows.take(part), 3, group[part], n_groups)
        assert (np.diff(node) > 0).all()
        merge_into(got, node, found)
    assert_close(got, reference(x[:, :3], y, weight, group, n_groups))


def test_more_of_one_node_may_come_several_times(rng):
    x, targets = rng.normal(size=(90, 3)), rng.normal(size=(90, 2))
    weight, part = rng.uniform(0.5, 2.0, 90), rng.integers(0, 6, 90)
    node = np.array([4, 1, 4, 0, 1, 4])  # of each part
    statistics = empty_statistics(5, 3, 2)
    parts = reference(x, targets, weight, part, 6)
    merge_into(statistics, node[:2], parts.take(np.arange(2)))
    merge_into(statistics, node[2:], parts.take(np.arange(2, 6)))
    want = reference(x, targets, weight, node[part], 5)
    chex.assert_trees_all_close(statistics, want, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("by_row", [False, True])
def test_slices_of_places(rng, by_row):
    """With rows of their own, places may repeat a row of the table."""
    x = rng.normal(size=(40, 5)).astype(np.float32)
    n_places = 100 if by_row else 40
    row = rng.integers(0, 40, n_places) if by_row else None
    targets, weight = rng.normal(size=(n_places, 2)), rng.uniform(0.5, 2, n_places)
    order = rng.permutation(n_places)
    start, stop = np.array([0, 10, 10, 31]), np.array([10, 30, 10, n_places])
    found = slice_statistics(x, row, targets, weight, 3, order, start, stop)
    assert (found.n_regressors, found.n_outputs) == (3, 2)
    group = np.full(n_places, 4)  # one place is in no slice
    for which, (first, last) in enumerate(zip(start, stop, strict=True)):
        group[order[first:last]] = which
    own = x[:, :3] if row is None else x[row, :3]
    want = reference(own, targets, weight, group, 5)
    wanted = want.take(np.arange(4))
    chex.assert_trees_all_close(found, wanted, rtol=1e-10, atol=1e-10)


def test_a_slice_of_several_pieces_far_from_zero_among_near_ones(rng):
    n_rows = 3 * statistics_module._STRETCH + 7
    x = rng.normal(size=(n_rows, 3)).astype(np.float32)
    x[5000:] += 3000.0
    targets, weight = rng.normal(size=(n_rows, 1)), rng.uniform(0.5, 2.0, n_rows)
    start, stop = np.array([0, 10, 5000]), np.array([10, 5000, n_rows])
    order = np.arange(n_rows)
    found = slice_statistics(x, None, targets, weight, 3, order, start, stop)
    want = reference(x, targets, weight, np.digitize(order, [10, 5000]), 3)
    chex.assert_trees_all_close(found, want, rtol=1e-9, atol=1e-6)
