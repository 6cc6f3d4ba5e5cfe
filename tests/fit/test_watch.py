"""Growth ends where pruning has long chosen, and pruning chooses the same."""

from __future__ import annotations

import numpy as np
import pytest

from secret_jax import SecretRegressor
from secret_jax.datasets import make_fried
from secret_jax.fit import kinds
from secret_jax.fit.prune.interface import Pruned
from secret_jax.splits.rss import RssSplits
from secret_jax.tree.structure import Tree

SMALL = {"oblique": False, "distill": False}


@pytest.fixture(scope="module")
def step():
    """Two leaves say all, and splits below them find noise."""
    X, _ = make_fried(1200, random_state=0)
    noise = np.random.default_rng(0).normal(size=len(X))
    return X[:, :4], np.where(X[:, 0] > 0.4, 3.0 + X[:, 1], -X[:, 2]) + 0.3 * noise


def test_the_tree_is_that_of_full_growth(step, monkeypatch):
    ended = SecretRegressor(**SMALL, splits=RssSplits(min_gain=0.1)).fit(*step)
    monkeypatch.setattr(kinds, "LEVELS_BELOW", 99)
    whole = SecretRegressor(**SMALL, splits=RssSplits(min_gain=0.1)).fit(*step)
    assert ended.n_leaves_ == whole.n_leaves_
    np.testing.assert_array_equal(ended.tree_.threshold, whole.tree_.threshold)
    np.testing.assert_allclose(ended.predict(step[0]), whole.predict(step[0]))
    assert ended.n_leaves_grown_ < whole.n_leaves_grown_


class Kept:
    """A tree of which only the depth is looked at."""

    def __init__(self, max_depth: int):
        self.max_depth = max_depth


def looks(kept_depth, values=(0.0, 0.0), n_kinds=2):
    """At which depths kinds are looked at, and when they end; growth to depth 12."""
    looked, ended = [], {}

    def judge(kind, trees):
        assert list(trees) == [f"tree {i}" for i in range(6)][kind::n_kinds]
        looked.append((kind, depth))
        kept: Tree = Kept(kept_depth[kind](depth))  # pyright: ignore
        return kinds.Kind((trees[0],), Pruned(kept, values[kind]), False)

    ends = kinds.Watch(judge, n_kinds)
    for depth in range(1, 13):
        for tree in ends(depth, lambda: [f"tree {i}" for i in range(6)]):  # pyright: ignore
            ended[tree] = depth
    return looked, ended, ends.judged


def test_a_kind_ends_two_levels_below_what_is_kept():
    looked, ended, found = looks([lambda depth: min(depth, 2), lambda depth: depth])
    # The first kind keeps two levels; the second always wants more.
    assert [depth for kind, depth in looked if kind == 0] == [4]
    assert [depth for kind, depth in looked if kind == 1] == [4, 6, 8, 10, 12]
    assert ended == {0: 4, 2: 4, 4: 4}
    assert list(found) == [0]
    assert found[0].pruned.tree.max_depth == 2


def test_a_kind_ends_when_another_errs_far_less():
    kept = [lambda depth: depth, lambda depth: depth]
    for value, end in ((1.12, {0: 4, 2: 4, 4: 4}), (1.08, {})):
        looked, ended, found = looks(kept, values=(value, 1.0))
        assert ended == end
        assert list(found) == sorted({tree % 2 for tree in end})
        assert [depth for kind, depth in looked if kind == 1] == [4, 6, 8, 10, 12]
