"""One split for several outputs: it saves the sum of what it saves of each."""

from __future__ import annotations

from dataclasses import replace

import jax
import numpy as np
import pytest
from node_batches import N_NODES, N_ROWS, mixed_nodes, with_targets
from secret_jax.grow.program import find_splits

from secret_jax import RssSplits, SecretSplits
from secret_jax.learners import CartSplits, GuideSplits
from secret_jax.tree.structure import SplitKind

# Without random starts, and versions in fewer attributes of which a threshold of the
# gain decides, all that is left of randomness is rounding.
RSS = RssSplits(sparse_terms=())
SECRET = SecretSplits(start="rows", n_starts=2, max_iter=200)
EACH = {
    "rss": (RSS, True),
    "rss along axes": (RSS, False),
    "secret": (SECRET, True),
    "cart": (CartSplits(), False),
    "guide": (GuideSplits(), False),
}
every_finder = pytest.mark.parametrize(("finder", "oblique"), EACH.values(), ids=EACH)


def find(nodes, finder):
    if not finder.needs_program:
        with np.errstate(all="ignore"):
            return finder(nodes)
    found = find_splits(nodes, N_NODES, finder=finder, together=False)
    return jax.tree.map(np.asarray, found)


def sides(nodes, found):
    """Which rows go left, shape (n_nodes, n_rows); the first row's side is left."""
    left = []
    for k in range(N_NODES):
        if found.kind[k] == SplitKind.DISCRETE:
            here = found.goes_left[k][nodes.codes[k][:, found.attribute[k]]]
        else:
            here = nodes.x[k] @ found.direction[k] <= found.threshold[k]
        left.append(here == here[0])
    return np.array(left)


def assert_like(nodes, found, other, factor):
    """The same split but for rounding, and a gain that is so many times as large."""
    assert np.array_equal(found.kind, other.kind)
    assert np.array_equal(found.attribute, other.attribute)
    # An oblique cut that was turned a little by rounding may pass by a row.
    moved = (sides(nodes, found) != sides(nodes, other)).sum(axis=1)
    assert (moved <= np.where(found.kind == SplitKind.OBLIQUE, 2, 0)).all()
    np.testing.assert_allclose(other.gain, factor * found.gain, rtol=2e-3)
    assert np.array_equal(found.pure, other.pure)


@every_finder
def test_two_identical_outputs_are_split_as_one(finder, oblique):
    nodes = mixed_nodes(finder, oblique=oblique)
    twice = with_targets(nodes, np.repeat(nodes.targets, 2, axis=2))
    found, other = find(nodes, finder), find(twice, finder)
    linear = SplitKind.OBLIQUE if oblique else SplitKind.AXIS
    assert set(found.kind) >= {SplitKind.DISCRETE, linear}
    # The paper's gain is that of two classes of rows, whatever the outputs are.
    squares = not isinstance(finder, SecretSplits)
    assert_like(nodes, found, other, 2.0 if squares else 1.0)
    chance = 2 * found.chance_gain
    np.testing.assert_allclose(other.chance_gain, chance, rtol=1e-4)


@every_finder
def test_a_constant_output_changes_nothing(finder, oblique):
    nodes = mixed_nodes(finder, oblique=oblique)
    both = [np.zeros_like(nodes.targets), nodes.targets]
    more = with_targets(nodes, np.concatenate(both, axis=2))
    found, other = find(nodes, finder), find(more, finder)
    assert_like(nodes, found, other, 1.0)
    np.testing.assert_allclose(other.chance_gain, found.chance_gain, rtol=1e-4)


@every_finder
def test_the_order_of_the_outputs_does_not_matter(finder, oblique):
    nodes = mixed_nodes(finder, oblique=oblique)
    wave = np.sin(2 * nodes.x[:, :, :1]) / 4
    both = [nodes.targets, wave]
    one, other = (
        with_targets(nodes, np.concatenate(pair, axis=2)) for pair in (both, both[::-1])
    )
    assert_like(nodes, find(one, finder), find(other, finder), 1.0)


@every_finder
def test_only_what_is_pure_in_all_outputs_is_pure(finder, oblique):
    nodes = mixed_nodes(finder, oblique=oblique)
    nothing = np.zeros_like(nodes.targets)
    half = np.concatenate([nothing, nodes.targets], axis=2)
    assert not find(with_targets(nodes, half), finder).pure.any()
    both = np.concatenate([nothing, nothing], axis=2)
    found = find(with_targets(nodes, both), finder)
    assert found.pure.all()
    assert (found.kind == SplitKind.LEAF).all()


@pytest.mark.parametrize(
    "finder", [RSS, CartSplits(), GuideSplits()], ids=["rss", "cart", "guide"]
)
def test_each_output_asks_for_its_own_split(finder):
    """What one output says nothing of, the other decides, wherever it stands."""
    nodes = mixed_nodes(finder, oblique=False)
    a, c = nodes.x[:, :, 0], nodes.x[:, :, 2]
    loud = np.where(c > 0.3, 3 + a, -3 - a)
    rng = np.random.default_rng(3)
    faint = np.where(a > 0, 0.3, -0.3) + 0.1 * rng.normal(size=(N_NODES, N_ROWS))
    for pair in ((loud, faint), (faint, loud)):
        found = find(with_targets(nodes, np.stack(pair, axis=2)), finder)
        assert (found.kind == SplitKind.AXIS).all()
        assert (found.attribute == 2).all()


def test_the_gain_of_several_outputs_is_the_sum_of_their_ridge_gains():
    finder = replace(RSS, ridge=1e-3)
    nodes = mixed_nodes(finder, oblique=False)
    rng = np.random.default_rng(4)
    other = np.abs(nodes.x[:, :, 1:2]) + 0.1 * rng.normal(size=nodes.targets.shape)
    other -= other.mean(axis=1, keepdims=True)
    targets = np.concatenate([nodes.targets, other], axis=2)
    found = find(with_targets(nodes, targets), finder)
    left = sides(nodes, found)
    for k in range(N_NODES):
        x = nodes.x[k].astype(float)
        x = (x - x.mean(axis=0)) / x.std(axis=0)
        design = np.c_[np.ones(N_ROWS), x]
        explained = 0.0
        for side in (left[k], ~left[k]):
            penalty = side.sum() * 1e-3 * np.diag([0, 1, 1, 1])
            moment = design[side].T @ targets[k][side].astype(float)
            matrix = design[side].T @ design[side] + penalty
            explained += np.sum(moment * np.linalg.solve(matrix, moment))
        assert found.gain[k] == pytest.approx(explained, rel=1e-3)


@pytest.mark.parametrize("first", [False, True])
def test_implied_models_of_an_output_that_follows_from_the_others(first):
    nodes = mixed_nodes(SECRET)
    y, x = nodes.targets, nodes.x
    sum_of_both = 2 * y + 0.5 * x[:, :, 1:2]
    pair = (sum_of_both, y) if first else (y, sum_of_both)
    found = find(with_targets(nodes, np.concatenate(pair, axis=2)), SECRET)
    assert (found.kind != SplitKind.LEAF).all()
    models = found.child_models[:, :, ::-1] if first else found.child_models
    expected = 2 * models[:, :, 0] + np.array([0, 0, 0.5, 0])
    np.testing.assert_allclose(models[:, :, 1], expected, atol=5e-3)
    assert np.abs(models[1, 0] - models[1, 1]).max() > 0.5
