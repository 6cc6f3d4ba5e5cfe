"""Attributes that a node may not be split on."""

from __future__ import annotations

from dataclasses import replace

import jax
import numpy as np
import pytest
from level_batches import N_COLUMNS, N_DISCRETE, find, mixed_level

from secret_jax import RssSplits, SecretSplits
from secret_jax.learners import (
    CartSplits,
    ConjunctiveSplits,
    GuideSplits,
    M5Splits,
    PhdSplits,
    RetisSplits,
    SupportSplits,
)
from secret_jax.tree.structure import SplitKind


def outward(rows, coordinates, residual, weight):
    """A proposal that cares for no attribute."""
    n = coordinates.shape[-2]
    return rows.xp.broadcast_to(np.eye(n, dtype=np.float32), (rows.n_nodes, n, n))


FINDERS = {
    "rss": RssSplits(),
    "rss of few": RssSplits(max_split_features=3),
    "rss of many": RssSplits(most_regressors=2, proposals=(outward,)),
    "secret": SecretSplits(n_starts=2),
    "cart": CartSplits(),
    "guide": GuideSplits(),
    "m5": M5Splits(),
    "retis": RetisSplits(),
    "support": SupportSplits(),
    "phd": PhdSplits(),
    "conjunctive": ConjunctiveSplits(),
}
every_finder = pytest.mark.parametrize("finder", FINDERS.values(), ids=FINDERS)


def allowing(level, *attributes):
    allowed = np.zeros((level.n_nodes, N_COLUMNS + N_DISCRETE), bool)
    allowed[:, attributes] = True
    return replace(level, allowed=allowed)


def used(found, k):
    """Attributes of a split, discrete ones after the columns."""
    attributes = set()
    for one in found.comparisons:
        if one.kind[k] == SplitKind.DISCRETE:
            attributes.add(N_COLUMNS + int(one.attribute[k]))
        attributes |= set(np.flatnonzero(one.direction[k]).tolist())
    return attributes


@pytest.mark.parametrize(
    ("finder", "oblique"),
    [
        pytest.param(finder, oblique, id=f"{name}, {'oblique' if oblique else 'axis'}")
        for name, finder in FINDERS.items()
        for oblique in {False, finder.max_attributes != 1}
    ],
)
def test_splits_keep_to_what_is_allowed(finder, oblique):
    level = mixed_level(finder, oblique=oblique)
    # Columns that say nearly the same: a model of one could lean on the other.
    x = level.x.copy()
    x[2] = 0.7 * x[0] + 0.7 * x[2]
    level = replace(level, x=x)
    everything = range(N_COLUMNS + N_DISCRETE)
    free = find(level, finder)
    choices = [(0, 1), (1, 2), (0, 3), (1, 4), *((one,) for one in everything)]
    for attributes in choices:
        found = find(allowing(level, *attributes), finder)
        for k in range(level.n_nodes):
            assert used(found, k) <= set(attributes)
        usable = found.kind != SplitKind.LEAF
        assert usable.any()
        assert (found.gain[usable] > 0).all()
    nothing = find(allowing(level), finder)
    assert (nothing.kind == SplitKind.LEAF).all()
    assert not nothing.pure.any()
    whole = find(allowing(level, *everything), finder)
    for one, other in zip(jax.tree.leaves(whole), jax.tree.leaves(free), strict=True):
        assert one.tobytes() == other.tobytes()


@every_finder
def test_what_matters_and_is_not_allowed_gives_way_to_the_next(finder):
    level = mixed_level(finder, oblique=False)
    free = find(level, finder)
    assert used(free, 1) == {N_COLUMNS + 1}
    assert used(free, 2) == {2}
    others = [i for i in range(N_COLUMNS + N_DISCRETE) if i not in (2, N_COLUMNS + 1)]
    found = find(allowing(level, *others), finder)
    for k in (1, 2):
        assert used(found, k) <= set(others)
        assert found.kind[k] == SplitKind.LEAF or found.gain[k] < 0.9 * free.gain[k]


@every_finder
def test_nodes_of_a_level_may_be_allowed_different_attributes(finder):
    level = mixed_level(finder)
    allowed = np.ones_like(level.allowed)
    allowed[1] = np.arange(N_COLUMNS + N_DISCRETE) == 0
    found, free = find(replace(level, allowed=allowed), finder), find(level, finder)
    assert used(found, 1) <= {0}
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(free), strict=True):
        assert one[[0, 2]].tobytes() == other[[0, 2]].tobytes()
