"""One split for several outputs: it saves the sum of what it saves of each."""

from __future__ import annotations

import numpy as np
import pytest
from level_batches import find, goes_left, mixed_level, node_rows, with_rows

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


def with_targets(level, targets_of):
    """The same nodes with outputs that a function makes of a node's rows."""
    rows = [node_rows(level, node) for node in range(level.n_nodes)]
    return with_rows(level, [each._replace(targets=targets_of(each)) for each in rows])


def beside(*outputs):
    """Outputs side by side."""
    return lambda rows: np.concatenate([each(rows) for each in outputs], axis=1)


def own(rows):
    return rows.targets


def nothing(rows):
    return 0 * rows.targets


def sides(level, found):
    """Which rows go left, node by node; the first row's side is left."""
    left = [
        goes_left(node_rows(level, node), found, node) for node in range(level.n_nodes)
    ]
    return [each == each[0] for each in left]


def assert_like(level, found, other, factor):
    """The same split but for rounding, and a gain that is so many times as large."""
    assert np.array_equal(found.kind, other.kind)
    assert np.array_equal(found.attribute, other.attribute)
    # An oblique cut that was turned a little by rounding may pass by a row.
    pairs = zip(sides(level, found), sides(level, other), strict=True)
    moved = np.array([np.sum(one != another) for one, another in pairs])
    assert (moved <= np.where(found.kind == SplitKind.OBLIQUE, 2, 0)).all()
    np.testing.assert_allclose(other.gain, factor * found.gain, rtol=2e-3)
    assert np.array_equal(found.pure, other.pure)


@every_finder
def test_two_identical_outputs_are_split_as_one(finder, oblique):
    level = mixed_level(finder, oblique=oblique)
    twice = with_targets(level, beside(own, own))
    found, other = find(level, finder), find(twice, finder)
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
    more = with_targets(level, beside(nothing, own))
    found, other = find(level, finder), find(more, finder)
    assert_like(level, found, other, 1.0)
    np.testing.assert_allclose(other.chance_gain, found.chance_gain, rtol=1e-4)


@every_finder
def test_the_order_of_the_outputs_does_not_matter(finder, oblique):
    level = mixed_level(finder, oblique=oblique)

    def wave(rows):
        return np.sin(2 * rows.x[:, :1]) / 4

    one = with_targets(level, beside(own, wave))
    other = with_targets(level, beside(wave, own))
    assert_like(level, find(one, finder), find(other, finder), 1.0)


@every_finder
def test_only_what_is_pure_in_all_outputs_is_pure(finder, oblique):
    level = mixed_level(finder, oblique=oblique)
    half = with_targets(level, beside(nothing, own))
    assert not find(half, finder).pure.any()
    found = find(with_targets(level, beside(nothing, nothing)), finder)
    assert found.pure.all()
    assert (found.kind == SplitKind.LEAF).all()


@pytest.mark.parametrize(
    "finder", [RSS, CartSplits(), GuideSplits()], ids=["rss", "cart", "guide"]
)
def test_each_output_asks_for_its_own_split(finder):
    """What one output says nothing of, the other decides, wherever it stands."""
    level = mixed_level(finder, oblique=False)
    rng = np.random.default_rng(3)

    def loud(rows):
        a, c = rows.x[:, :1], rows.x[:, 2:]
        return np.where(c > 0.3, 3 + a, -3 - a)

    def faint(rows):
        a = rows.x[:, :1]
        return np.where(a > 0, 0.3, -0.3) + 0.1 * rng.normal(size=a.shape)

    for pair in ((loud, faint), (faint, loud)):
        found = find(with_targets(level, beside(*pair)), finder)
        assert (found.kind == SplitKind.AXIS).all()
        assert (found.attribute == 2).all()


@pytest.mark.parametrize("first", [False, True])
def test_implied_models_of_an_output_that_follows_from_the_others(first):
    level = mixed_level(SECRET)

    def sum_of_both(rows):
        return 2 * rows.targets + 0.5 * rows.x[:, 1:2]

    pair = (sum_of_both, own) if first else (own, sum_of_both)
    found = find(with_targets(level, beside(*pair)), SECRET)
    assert (found.kind != SplitKind.LEAF).all()
    models = found.child_models[:, :, ::-1] if first else found.child_models
    expected = 2 * models[:, :, 0] + np.array([0, 0, 0.5, 0])
    np.testing.assert_allclose(models[:, :, 1], expected, atol=5e-3)
    assert np.abs(models[1, 0] - models[1, 1]).max() > 0.5
