"""Rows that all grow a tree stay on their accelerator, in the order of the host.

Processors stand for the accelerator: the programs are the same.
"""

import jax
import numpy as np
import pytest

from benchmarks.device.counting import as_on_accelerator
from secret_jax import SecretRegressor
from secret_jax.data.validation import CheckedRows, scaled_rows
from secret_jax.datasets import make_fried
from secret_jax.estimators.parameters import plan_of
from secret_jax.fit import prepare as preparing
from secret_jax.fit.prepare import prepare

N_ROWS = 3000


@pytest.fixture(autouse=True)
def resident(monkeypatch):
    """Arrays of JAX count as lying on an accelerator, and few rows as many."""
    for module in ("data.encoding", "data.validation"):
        target = f"secret_jax.{module}.is_resident"
        monkeypatch.setattr(target, lambda X: isinstance(X, jax.Array))
    monkeypatch.setattr(preparing, "_MANY_ROWS", 1000)


def prepared(X, y, weight=None, **parameters):
    """What a fit of `paper` learns of rows, on the host and where they lie."""
    plan = plan_of(SecretRegressor.paper(**parameters), 0)
    targets = np.asarray(y, np.float64).reshape(len(X), -1)
    weight = np.ones(len(X)) if weight is None else weight
    names = tuple(f"y{i}" for i in range(targets.shape[1]))
    on_host, there = (
        scaled_rows(CheckedRows(table, targets, weight, names))[0]
        for table in (X, jax.device_put(X))
    )
    with as_on_accelerator():
        return prepare(plan, on_host, None), prepare(plan, there, None)


def tables(rng):
    X, y = make_fried(N_ROWS, random_state=0)
    X = X.astype(np.float32)
    yield "numbers", X, y
    yield "several outputs", X, np.stack([y, X[:, 0] - y], axis=1)
    constant = X.copy()
    constant[:, 3] = 7.0
    yield "constant", constant, y
    # Most rows lie within a step of others: exact content tells them apart.
    yield (
        "far tails",
        np.exp(4 * rng.normal(size=(N_ROWS, 2))).astype("f4"),
        np.exp(5 * rng.normal(size=N_ROWS)),
    )
    yield "whole numbers", rng.integers(-3, 4, (N_ROWS, 2)).astype(np.int32), y


@pytest.mark.parametrize("weighted", [False, True])
def test_rows_are_those_of_the_host_in_its_order(rng, weighted):
    weight = rng.uniform(0.5, 2.0, N_ROWS) if weighted else None
    for name, X, y in tables(rng):
        on_host, there = prepared(X, y, weight)
        assert isinstance(there.rows.table.x, jax.Array), name
        assert len(there.rows.table.x) >= there.rows.n_rows == N_ROWS
        assert there.sampled_share == 1.0
        assert there.source is None
        for own, expected in zip(
            jax.tree.leaves(there.rows.on_host()),
            jax.tree.leaves(on_host.rows),
            strict=True,
        ):
            assert own.dtype == expected.dtype
            np.testing.assert_allclose(
                own, expected, rtol=1e-6, atol=1e-6, err_msg=name
            )
