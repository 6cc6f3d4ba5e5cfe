"""One split for several outputs: it saves the sum of what it saves of each."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from levels import N_NODES, N_ROWS, found_in, mixed_level, with_targets

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


def sides(level, found):
    """Which rows go left, shape (n_nodes, n_rows); the first row's side is left."""
    left = []
    for k, (x, codes) in enumerate(
        zip(*map(by_node, (level.x, level.codes)), strict=True)
    ):
        if found.kind[k] == SplitKind.DISCRETE:
            here = found.goes_left[k][codes[:, found.attribute[k]]]
        else:
            here = x @ found.direction[k] <= found.threshold[k]
        left.append(here == here[0])
    return np.array(left)


def by_node(values):
    """(n_nodes, n_rows, n) of what is known of the rows."""
    return values.T.reshape(N_NODES, N_ROWS, -1)


def assert_like(level, found, other, factor):
    """The same split but for rounding, and a gain that is so many times as large."""
    assert np.array_equal(found.kind, other.kind)
    assert np.array_equal(found.attribute, other.attribute)
    # An oblique cut that was turned a little by rounding may pass by a row.
    moved = (sides(level, found) != sides(level, other)).sum(axis=1)
    assert (moved <= np.where(found.kind == SplitKind.OBLIQUE, 2, 0)).all()
    np.testing.assert_allclose(other.gain, factor * found.gain, rtol=2e-3)
    assert np.array_equal(found.pure, other.pure)


@every_finder
def test_two_identical_outputs_are_split_as_one(finder, oblique):
    level = mixed_level(finder, oblique=oblique)
    twice = with_targets(level, np.repeat(level.targets, 2, axis=0))
    found, other = found_in(level, finder), found_in(twice, finder)
    linear = SplitKind.OBLIQUE if oblique else SplitKind.AXIS
    assert set(found.kind) >= {SplitKind.DISCRETE, linear}
    # The paper's gain is that of two classes of rows, whatever the outputs are.
    squares = not isinstance(finder, SecretSplits)
    assert_like(level, found, other, 2.0 if squares else 1.0)
    chance = 2 * found.chance_gain
    np.testing.assert_allclose(other.chance_gain, chance, rtol=1e-4)


@every_finder
def test_a_constant_output_changes_nothing(finder, oblique):
    level = mixed_level(finder, oblique=oblique)
    both = [np.zeros_like(level.targets), level.targets]
    more = with_targets(level, np.concatenate(both))
    found, other = found_in(level, finder), found_in(more, finder)
    assert_like(level, found, other, 1.0)
    np.testing.assert_allclose(other.chance_gain, found.chance_gain, rtol=1e-4)


@every_finder
def test_the_order_of_the_outputs_does_not_matter(finder, oblique):
    level = mixed_level(finder, oblique=oblique)
    both = [level.targets, np.sin(2 * level.x[:1]) / 4]
    one, other = (
        with_targets(level, np.concatenate(pair)) for pair in (both, both[::-1])
    )
    assert_like(level, found_in(one, finder), found_in(other, finder), 1.0)


@every_finder
def test_only_what_is_pure_in_all_outputs_is_pure(finder, oblique):
    level = mixed_level(finder, oblique=oblique)
    nothing = np.zeros_like(level.targets)
    half = np.concatenate([nothing, level.targets])
    assert not found_in(with_targets(level, half), finder).pure.any()
    both = np.concatenate([nothing, nothing])
    found = found_in(with_targets(level, both), finder)
    assert found.pure.all()
    assert (found.kind == SplitKind.LEAF).all()


@pytest.mark.parametrize(
    "finder", [RSS, CartSplits(), GuideSplits()], ids=["rss", "cart", "guide"]
)
def test_each_output_asks_for_its_own_split(finder):
    """What one output says nothing of, the other decides, wherever it stands."""
    level = mixed_level(finder, oblique=False)
    a, c = level.x[0], level.x[2]
    loud = np.where(c > 0.3, 3 + a, -3 - a)
    rng = np.random.default_rng(3)
    faint = np.where(a > 0, 0.3, -0.3) + 0.1 * rng.normal(size=len(a))
    for pair in ((loud, faint), (faint, loud)):
        found = found_in(with_targets(level, np.stack(pair)), finder)
        assert (found.kind == SplitKind.AXIS).all()
        assert (found.attribute == 2).all()


def test_the_gain_of_several_outputs_is_the_sum_of_their_ridge_gains():
    finder = replace(RSS, ridge=1e-3)
    level = mixed_level(finder, oblique=False)
    rng = np.random.default_rng(4)
    other = np.abs(level.x[1:2]) + 0.1 * rng.normal(size=level.targets.shape)
    targets = np.concatenate([level.targets, other])
    targets = by_node(targets) - by_node(targets).mean(axis=1, keepdims=True)
    targets = targets.reshape(-1, 2).T
    found = found_in(with_targets(level, targets), finder)
    left = sides(level, found)
    for k in range(N_NODES):
        x = by_node(level.x)[k].astype(float)
        x = (x - x.mean(axis=0)) / x.std(axis=0)
        design = np.c_[np.ones(N_ROWS), x]
        explained = 0.0
        for side in (left[k], ~left[k]):
            penalty = side.sum() * 1e-3 * np.diag([0, 1, 1, 1])
            moment = design[side].T @ by_node(targets)[k][side].astype(float)
            matrix = design[side].T @ design[side] + penalty
            explained += np.sum(moment * np.linalg.solve(matrix, moment))
        assert found.gain[k] == pytest.approx(explained, rel=1e-3)


@pytest.mark.parametrize("first", [False, True])
def test_implied_models_of_an_output_that_follows_from_the_others(first):
    level = mixed_level(SECRET)
    sum_of_both = 2 * level.targets + 0.5 * level.x[1:2]
    pair = (sum_of_both, level.targets)[:: 1 if first else -1]
    found = found_in(with_targets(level, np.concatenate(pair)), SECRET)
    assert (found.kind != SplitKind.LEAF).all()
    models = found.child_models[:, :, ::-1] if first else found.child_models
    expected = 2 * models[:, :, 0] + np.array([0, 0, 0.5, 0])
    np.testing.assert_allclose(models[:, :, 1], expected, atol=5e-3)
    assert np.abs(models[1, 0] - models[1, 1]).max() > 0.5
