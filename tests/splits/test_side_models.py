"""The best of all thresholds, found without a model for each, beside all models."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from level_batches import NodeRows, level_of

from secret_jax.learners import RetisSplits
from secret_jax.learners.residuals import _Search
from secret_jax.learners.thresholds import moments, ranked, tried_cuts
from secret_jax.splits.axis import attributes


def level_with(n_outputs, weights, digits, seed):
    """Nodes of all sizes; ties where there are few digits."""
    rng = np.random.default_rng(seed)
    nodes = []
    for n in (700, 30, 130):
        x = rng.normal(size=(n, 3)).round(digits)
        y = np.abs(x[:, :1]) + x[:, 1:2] * (x[:, :1] > 0.5)
        y = y + rng.normal(size=(n, n_outputs))
        weight = rng.integers(0, 4, n) if weights else None
        nodes.append(NodeRows(x, y, rng.integers(0, 5, (n, 1)), weight))
    return level_of(RetisSplits(), nodes, n_categories=5)


def saved_by_all(level, left, order, values):
    """What the models of both sides save, one threshold after the other."""
    found = np.full(order.cut.shape, -np.inf)
    n = left.models.penalty.shape[1]
    for which, place in np.argwhere(order.cut):
        node = level.rows.slot[place]
        own = level.rows.slot == node
        below = values[which, own] <= order.value[which, place]
        design, saved = left.models.design[:, own], 0.0
        for side in (below, ~below):
            weight = level.weight[own] * side
            penalty = weight.sum() * np.diag(left.models.penalty[node])
            matrix = (weight * design[:n]) @ design[:n].T + penalty
            moment = (weight * design[:n]) @ design[n:].T
            saved += np.sum(moment * np.linalg.solve(matrix, moment))
        found[which, place] = saved
    return found


@pytest.mark.parametrize(
    ("n_outputs", "weights", "digits"), [(1, False, 6), (2, False, 1), (1, True, 1)]
)
def test_the_best_threshold_is_that_of_all_models(n_outputs, weights, digits):
    level = level_with(n_outputs, weights, digits, seed=n_outputs + weights)
    left = RetisSplits(ridge=1e-3).residuals(level)
    axis = attributes(level, left.leading)
    order = ranked(level, axis.projection, left.least)
    gain, threshold = left.models.best(order, order.cut)
    every = saved_by_all(level, left, order, axis.projection)
    for node, first in enumerate(level.rows.first):
        own = every[:, first : first + level.rows.length[node]]
        best = gain[node].argmax()
        np.testing.assert_allclose(gain[node, best], own.max(), rtol=1e-4)
        which, place = np.unravel_index(own.argmax(), own.shape)
        assert best == which
        assert threshold[node, best] == order.value[which, first + place]


@pytest.mark.parametrize("held", [True, False])
def test_sums_over_many_rows_keep_their_digits(held, monkeypatch):
    """As those in float64, whether products are held or made when they are added up."""
    monkeypatch.setattr("secret_jax.learners.residuals._MOST_HELD", held << 25)
    rng, n = np.random.default_rng(0), 200_000
    nodes = [NodeRows(rng.normal(size=(n, 3)), rng.normal(size=(n, 1)) + 0.1)]
    level = level_of(RetisSplits(), nodes)
    left = RetisSplits(ridge=1e-3).residuals(level)
    x, ends = level.x[:1], np.array([120_000, 120_003, 199_000])
    order = ranked(level, x, left.least)
    search = _Search(left.models, slice(0, n), order.order, order.cut)
    found = search.added(search.order, ends)
    design = left.models.design[:, order.order[0]]
    one, other = np.triu_indices(4, m=5)
    products = np.concatenate([design[one] * design[other], design[4:] ** 2])
    for sums, part in zip(found, np.split(products, ends, axis=1), strict=False):
        bound = 2e-6 * np.abs(part).sum(axis=1)
        assert np.all(np.abs(sums - part.sum(axis=1)) <= bound)


def test_moments_are_those_of_each_node(rng):
    level = level_with(1, True, 3, seed=0)
    values = rng.normal(size=(2, len(level.weight))) + 1e3
    centred, deviation = moments(level, values)
    for node in range(level.n_nodes):
        own = level.rows.slot == node
        weight, part = level.weight[own], values[:, own]
        mean = np.average(part, axis=1, weights=weight)[:, None]
        expected = np.where(weight > 0, part - mean, 0.0)
        np.testing.assert_allclose(centred[:, own], expected, atol=1e-9)
        square = np.average(expected**2, axis=1, weights=weight)
        np.testing.assert_allclose(deviation[node], np.sqrt(square))


def test_memory_of_a_large_node_is_bounded(rng):
    """All products of its rows would take 200 MB in float32, or 400 in float64."""
    x = rng.normal(size=(200_000, 20))
    y = np.abs(x[:, :1]) + rng.normal(size=(len(x), 1))
    level = level_of(RetisSplits(), [NodeRows(x, y)])
    left = RetisSplits(ridge=1e-3).residuals(level)
    axis = attributes(level, left.leading)
    order = ranked(level, axis.projection[:2], left.least)
    tried = tried_cuts(level, order, 32, left.least)
    tracemalloc.start()
    left.models.best(order, tried)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 150e6
