"""One pass over many rows: the statistics of groups against sums in float64."""

from __future__ import annotations

import numpy as np
import pytest

from secret_jax.models import leaves
from secret_jax.models import statistics as grams
from secret_jax.models.statistics import group_statistics


def reference(x, y, weight, group, n_groups):
    found = grams.no_statistics(n_groups, x.shape[1])
    for g in range(n_groups):
        rows = group == g
        if not rows.any():
            continue
        joint = np.column_stack([x, y])[rows].astype(np.float64)
        found.weight[g] = weight[rows].sum()
        found.mean[g] = np.average(joint, axis=0, weights=weight[rows])
        offset = joint - found.mean[g]
        found.scatter[g] = (weight[rows, None] * offset).T @ offset
        found.lower[g], found.upper[g] = y[rows].min(), y[rows].max()
    return found


@pytest.mark.parametrize(("n_rows", "n_groups"), [(40_000, 7), (17_000, 300), (50, 1)])
def test_group_statistics(rng, n_rows, n_groups):
    x = rng.normal(size=(n_rows, 3)).astype(np.float32)
    y, weight = rng.normal(size=n_rows), rng.uniform(0.5, 2.0, n_rows)
    # Very unequal groups, one of them empty, and in no order.
    group = (n_groups * rng.uniform(size=n_rows) ** 3).astype(int)
    group[group == n_groups // 2 + 1] = 0
    got = group_statistics(x, y, weight, group, n_groups)
    want = reference(x, y, weight, group, n_groups)
    for name, expected in want._asdict().items():
        close = 1e-12 if name in ("lower", "upper") else 2e-6
        np.testing.assert_allclose(
            getattr(got, name), expected, rtol=close, atol=2e-5, err_msg=name
        )


def test_a_group_far_from_the_origin_keeps_its_digits(rng):
    # Raw moments in float32 would be wrong by more than the scatter itself.
    n_rows = 40_000
    group = rng.integers(0, 2, n_rows)
    x = (100.0 * group[:, None] + 0.01 * rng.normal(size=(n_rows, 2))).astype("f4")
    y = 50.0 * group + 0.01 * rng.normal(size=n_rows)
    got = group_statistics(x, y, np.ones(n_rows), group, 2)
    want = reference(x, y, np.ones(n_rows), group, 2)
    deviation = np.sqrt(want.scatter[1].diagonal())
    error = np.abs(got.scatter - want.scatter) / np.outer(deviation, deviation)
    assert error.max() < 2e-3


def test_many_rows_give_the_models_of_few(rng, monkeypatch):
    n_rows = 5000
    x = rng.normal(size=(n_rows, 4)).astype(np.float32)
    y, weight = x @ [1.0, 2.0, 0.0, -1.0] + rng.normal(size=n_rows), np.ones(n_rows)
    leaf = 1 + (x[:, 0] > 0)
    parent, depth = np.array([-1, 0, 0]), np.array([0, 1, 1])
    few = leaves.node_statistics(x, y, weight, leaf, parent, depth)
    monkeypatch.setattr(leaves, "_FLOAT64_ROWS", 100)
    many = leaves.node_statistics(x, y, weight, leaf, parent, depth)
    np.testing.assert_allclose(
        leaves.least_squares(many), leaves.least_squares(few), atol=1e-5
    )
