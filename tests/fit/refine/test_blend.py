"""Blended gates: one relative width for all splits, where it pays."""

from __future__ import annotations

import numpy as np
import pytest
from handmade import BUSHY, build_tree, rows

from secret_jax import SecretRegressor
from secret_jax.data.rows import Rows
from secret_jax.fit.interface import deviations, with_widths
from secret_jax.fit.refine.gates import Blend
from secret_jax.tree.routing import paths_of
from secret_jax.tree.structure import SplitKind


def fit(refine, X, y, **changes):
    model = SecretRegressor(
        refine=refine, random_state=0, min_samples_split=0.05, prune="holdout"
    )
    return model.set_params(**changes).fit(X, y)


def test_deviations_are_those_of_the_rows_in_the_node():
    tree = build_tree(BUSHY, seed=1)
    random = np.random.default_rng(0)
    targets, weight = random.normal(size=(200, 1)), random.uniform(1, 2, 200)
    part = Rows(rows(200), targets, weight)
    found = deviations(tree, part)
    path = paths_of(tree, part.table)
    for node in np.flatnonzero(~tree.is_leaf & (tree.kind != SplitKind.DISCRETE)):
        inside = (path == node).any(axis=0)
        value = part.table.x[inside] @ tree.direction[node]
        mean = np.average(value, weights=part.weight[inside])
        variance = np.average((value - mean) ** 2, weights=part.weight[inside])
        assert found[node] == pytest.approx(np.sqrt(variance), rel=1e-4)
    assert not with_widths(tree, 0.0, found).is_soft


def test_no_width_wins_at_a_step_between_whole_numbers():
    random = np.random.default_rng(0)
    X = random.integers(0, 6, (400, 2)).astype(float)
    y = np.where(X[:, 0] <= 2, 5.0, -5.0)
    model = fit("blend", X, y, oblique=False)
    assert model.n_leaves_ > 1
    assert not model.tree_.is_soft
    assert np.array_equal(model.predict(X), fit(None, X, y, oblique=False).predict(X))


def test_gates_on_truth_values_lie_between_them():
    random = np.random.default_rng(0)
    X = random.integers(0, 2, (400, 3)).astype(float)
    y = 3.0 * X[:, 0] * X[:, 1] + X[:, 2] + 0.1 * random.normal(size=400)
    soft = fit(Blend(widths=(0.1,)), X, y, oblique=False, min_samples_split="auto")
    hard = fit(None, X, y, oblique=False, min_samples_split="auto")
    assert soft.tree_.is_soft
    assert "x0 <= 0.5 (soft" in soft.export_text()
    assert "x0 <= 0\n" in hard.export_text()
    # No row is near a gate: nothing is left of the mixing.
    np.testing.assert_allclose(soft.predict(X), hard.predict(X), atol=0.05)


def test_widths_that_are_given_are_tried_and_blended_gates_lower_the_error():
    random = np.random.default_rng(0)
    X = random.uniform(-3, 3, (1200, 2))
    y = np.sin(X[:, 0]) * np.sin(X[:, 1])
    X, y, unseen, actual = X[:600], y[:600], X[600:], y[600:]
    hard, soft = fit(None, X, y), fit("blend", X, y)
    assert soft.tree_.is_soft
    errors = [np.mean((m.predict(unseen) - actual) ** 2) for m in (hard, soft)]
    assert errors[1] < errors[0]
    assert soft.n_refine_steps_ == 0
    assert min(Blend().widths) == Blend().widths[0] == 0  # the hard tree wins ties
    assert not fit(Blend(widths=(0.0,)), X, y).tree_.is_soft
    soft = fit(Blend(widths=(0.2,)), X, y)
    assert np.array_equal(soft.apply(X), hard.apply(X))
    gate = soft.tree_.gate_width > 0
    linear = ~soft.tree_.is_leaf & (soft.tree_.kind != SplitKind.DISCRETE)
    assert np.array_equal(gate, linear)
