"""Least squares against `numpy.linalg.lstsq`, added statistics against direct ones."""

from __future__ import annotations

import dataclasses

import chex
import numpy as np
import pytest
from handmade import LEAF, build_tree
from statistics_by_hand import statistics_of

from secret_jax.models.linear import (
    Constant,
    LeastSquares,
    MixtureLeaf,
    least_squares,
)
from secret_jax.models.statistics import (
    NodeStatistics,
    accumulate_to_root,
    mean_squared_errors,
)

P = 4
# Node 0 splits into 1 and 2, node 2 into 3 and 4, node 4 into 5 and 6.
LINKS = [(1, 2), LEAF, (3, 4), LEAF, (5, 6), LEAF, LEAF]
PARENT = np.array([-1, 0, 0, 2, 2, 4, 4])
DEPTH = np.array([0, 1, 1, 2, 2, 3, 3])
LEAVES = np.array([1, 3, 5, 6])
BELOW = {0: [1, 3, 5, 6], 2: [3, 5, 6], 4: [5, 6], 1: [1], 3: [3], 5: [5], 6: [6]}


def node_statistics(x, targets, weight, leaf, parent, depth) -> NodeStatistics:
    """Of all nodes, from the leaf of every row."""
    statistics = statistics_of(x, targets, weight, leaf, len(parent))
    accumulate_to_root(statistics, parent, depth)
    return statistics


def predict(model, x):
    """What a model of one output predicts."""
    return model[0] + x @ model[1:]


def minimum_norm(x, y, weight):
    """Intercept and slopes of least norm in units of the regressors' deviations."""
    mean = np.average(x, axis=0, weights=weight)
    deviation = np.sqrt(np.average((x - mean) ** 2, axis=0, weights=weight))
    scale = np.where(deviation > 1e-8, deviation, np.inf)
    root = np.sqrt(weight)
    centred = root[:, None] * (x - mean) / scale
    output = y - np.average(y, weights=weight)
    slopes = np.linalg.lstsq(centred, root * output, rcond=1e-6)[0] / scale
    return np.append(np.average(y, weights=weight) - slopes @ mean, slopes)


@pytest.fixture
def rows(rng):
    n = 300
    x = rng.normal(size=(n, P)) @ np.triu(rng.normal(size=(P, P)) + 2 * np.eye(P))
    y = x @ [1.0, -2.0, 0.5, 0.0] + np.sin(3 * x[:, 0]) + 0.1 * rng.normal(size=n)
    return x, y, rng.uniform(0.5, 3.0, n), rng.choice(LEAVES, n)


FAR = np.array([1e6, -1e6, 0.0, 1e6])
DESIGNS = {
    "regular": lambda x: x,
    "constant column": lambda x: np.where(np.arange(P) == 1, 0.1, x),
    "all columns constant": lambda x: np.full_like(x, -3.7),
    "duplicated column": lambda x: x[:, [0, 1, 2, 0]],
    "opposite column of another scale": lambda x: x[:, [0, 1, 2, 0]] * [1, 1, 1, -1e3],
    "sum of two": lambda x: np.column_stack([x[:, :3], x[:, 0] + x[:, 1]]),
    "rank one": lambda x: x[:, :1] * [1.0, 2.0, -3.0, 0.01],
    "far from zero": lambda x: x + FAR,
    "far from zero, duplicated": lambda x: x[:, [0, 1, 2, 0]] + FAR,
}


@pytest.mark.parametrize("design", DESIGNS.values(), ids=DESIGNS.keys())
@pytest.mark.parametrize("n_rows", [1, 2, 3, P, P + 1, 40])
def test_least_squares_is_the_solution_of_least_norm(rows, rng, design, n_rows):
    x, y, weight, _ = rows
    x, y, weight = design(x)[:n_rows], y[:n_rows], weight[:n_rows]
    model = least_squares(statistics_of(x, y, weight))[0, 0]
    expected = minimum_norm(x, y, weight)
    np.testing.assert_allclose(model[1:], expected[1:], rtol=1e-6, atol=1e-7)
    # Elsewhere too: only the solution of least norm predicts the same there.
    elsewhere = x.mean(axis=0) + x.std(axis=0) * rng.normal(size=(20, P))
    np.testing.assert_allclose(
        predict(model, elsewhere), predict(expected, elsewhere), rtol=1e-6, atol=1e-6
    )


def test_no_rows_and_no_regressors(rows):
    _, y, weight, _ = rows
    empty = statistics_of(np.empty((0, P)), np.empty(0), np.empty(0))
    assert not least_squares(empty).any()
    assert mean_squared_errors(empty, least_squares(empty)) == 0
    model = least_squares(statistics_of(np.empty((len(y), 0)), y, weight))
    assert model.shape == (1, 1, 1)
    assert model == pytest.approx(np.average(y, weights=weight))


@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_inner_nodes_add_up(rows, offset):
    x, y, weight, leaf = rows
    x, y = x + offset, y - offset
    got = node_statistics(x, y, weight, leaf, PARENT, DEPTH)
    models = least_squares(got)
    for node, below in BELOW.items():
        inside = np.isin(leaf, below)
        direct = statistics_of(x[inside], y[inside], weight[inside])
        # Sums of products of size 1e2 to 1e4; nothing is lost to the offset.
        found = got.take(np.array([node]))
        chex.assert_trees_all_close(found, direct, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(found.mean, direct.mean, rtol=1e-12, atol=1e-12)
        is_inner = len(below) > 1
        assert np.array_equal(got.scatter[node], got.scatter[node].T) or not is_inner
        expected = minimum_norm(x[inside], y[inside], weight[inside])
        np.testing.assert_allclose(
            models[node, 0, 1:], expected[1:], rtol=1e-6, atol=1e-8
        )


@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_squared_errors_on_other_rows(rows, rng, offset):
    x, y, weight, leaf = rows
    x, y = x + offset, y + offset
    half = rng.random(len(y)) < 0.5
    train, other = (
        node_statistics(*(a[part] for a in (x, y, weight, leaf)), PARENT, DEPTH)
        for part in (half, ~half)
    )
    models = least_squares(train)
    errors = mean_squared_errors(other, models)
    for node, below in BELOW.items():
        inside = ~half & np.isin(leaf, below)
        residual = y[inside] - predict(models[node, 0], x[inside])
        mean = np.average(residual**2, weights=weight[inside])
        assert errors[node, 0] == pytest.approx(mean, rel=1e-6)
    # An exact fit has no negative error.
    exact = statistics_of(rows[0], rows[0] @ np.ones(P), weight)
    error = mean_squared_errors(exact, least_squares(exact))
    variance = exact.scatter[0, -1, -1] / exact.weight[0]
    assert 0 <= error[0, 0] < 1e-15 * variance


def test_implied_models_are_those_of_growing_but_the_root(rows):
    x, y, weight, leaf = rows
    targets = np.column_stack([y, np.cos(x[:, 1]) - 100 * x[:, 2]])
    statistics = node_statistics(x, targets, weight, leaf, PARENT, DEPTH)
    tree = build_tree(LINKS, seed=0, n_outputs=2)
    grown = np.random.default_rng(0).normal(size=(7, 2, 1 + P))
    tree = dataclasses.replace(tree, coefficient=grown)
    models = MixtureLeaf().fit_tree(tree, statistics, lambda: iter(()))
    assert np.array_equal(models.coefficient[1:], grown[1:])
    expected = least_squares(statistics)[0]
    np.testing.assert_allclose(models.coefficient[0], expected, rtol=1e-9, atol=1e-9)


def test_degrees_are_those_of_the_rows_or_of_the_coefficients(rows):
    x, y, *_ = rows
    for n_rows in (2, 40):
        statistics = statistics_of(x[:n_rows], y[:n_rows], np.ones(n_rows))
        base = np.zeros((1, 1, 1 + P))
        assert LeastSquares().fit(statistics, base).degrees == min(n_rows, 1 + P)
        constant = Constant().fit(statistics, base + 1)
        assert constant.degrees == 1
        expected = [[[y[:n_rows].mean(), *np.zeros(P)]]]
        np.testing.assert_allclose(constant.coefficient, expected)
