"""New splits for given subtrees: the best of all on an axis, sound obliquely."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from secret_jax.fit.refine.hyperplanes import PreferenceSplits
from secret_jax.grow.program import find_splits
from secret_jax.splits.interface import Columns, Node
from secret_jax.tree.structure import SplitKind


def preferences(rng, n_nodes=3, n_rows=64, n_columns=4, axis=True):
    weight = rng.integers(0, 3, (n_nodes, n_rows)).astype(np.float32)
    saving = rng.normal(size=weight.shape).astype(np.float32) * weight
    direction = np.zeros((n_nodes, n_columns), np.float32)
    direction[:, 0] = 1
    if not axis:
        direction[:] = rng.normal(size=direction.shape)
        direction[:, 3] = 0
    return Node(
        x=rng.integers(-8, 8, (n_nodes, n_rows, n_columns)).astype(np.float32),
        codes=np.zeros((n_nodes, n_rows, 0), np.int32),
        targets=saving[:, :, None],
        weight=weight,
        min_weight=np.full(n_nodes, 9, np.float32),
        random=np.zeros((n_nodes, 0), np.float32),
        coefficient=np.zeros((n_nodes, 1, 1 + n_columns), np.float32),
        degrees=np.zeros(n_nodes, np.float32),
        oblique=np.full(n_nodes, not axis),
        allowed=np.ones((n_nodes, n_columns), bool),
        extra={"direction": direction, "threshold": np.zeros(n_nodes, np.float32)},
        columns=Columns(n_regressors=n_columns, oblique=not axis),
    )


def propose(nodes, together=False):
    n_nodes = len(nodes.x)
    return find_splits(nodes, n_nodes, finder=PreferenceSplits(), together=together)


def test_an_axis_split_is_the_best_of_all(rng):
    nodes = preferences(rng)
    found = propose(nodes)
    exchanged = np.asarray(found.direction).min(axis=1) < 0
    assert (np.asarray(found.kind) == SplitKind.AXIS).all()
    for k in range(3):
        best = -np.inf
        x, saving, weight = nodes.x[k], nodes.targets[k, :, 0], nodes.weight[k]
        for attribute in range(4):
            for cut in np.unique(x[:, attribute]):
                left = x[:, attribute] <= cut
                for side in (left, ~left):
                    if min(weight[side].sum(), weight[~side].sum()) >= 9:
                        best = max(best, saving[side].sum())
        now = saving[x[:, 0] <= 0].sum()
        assert found.gain[k] == pytest.approx(best - now, rel=1e-4)
        direction = np.abs(np.asarray(found.direction[k]))
        assert np.array_equal(direction, np.eye(4)[found.attribute[k]])
        left = x @ direction <= found.threshold[k]
        chosen = ~left if exchanged[k] else left
        assert saving[chosen].sum() == pytest.approx(best, rel=1e-4)


def test_an_oblique_split_does_what_it_says_and_keeps_to_its_attributes(rng):
    nodes = preferences(rng, axis=False)
    found = propose(nodes)
    assert (np.asarray(found.kind) == SplitKind.OBLIQUE).all()
    assert (np.asarray(found.attribute) == -1).all()
    assert (np.asarray(found.direction)[:, 3] == 0).all()
    for k in range(3):
        saving, before = nodes.targets[k, :, 0], nodes.extra["direction"][k]
        left = nodes.x[k] @ np.asarray(found.direction[k]) <= found.threshold[k]
        now = nodes.x[k] @ before <= nodes.extra["threshold"][k]
        gain = saving[left].sum() - saving[now].sum()
        assert found.gain[k] == pytest.approx(gain, abs=1e-4)


def test_a_hyperplane_that_parts_the_rows_is_found(rng):
    nodes = preferences(rng, axis=False, n_rows=256)
    truth = np.array([1.0, -2.0, 0.5, 0.0])
    x = rng.normal(size=nodes.x.shape).astype(np.float32)
    wish = np.where(x @ truth < 0.3, 1, -1) * rng.uniform(0.5, 1.5, x.shape[:2])
    nodes = replace(
        nodes,
        x=x,
        targets=wish.astype(np.float32)[:, :, None],
        weight=np.ones_like(nodes.weight),
    )
    found = propose(nodes)
    for k in range(3):
        left = x[k] @ np.asarray(found.direction[k]) <= found.threshold[k]
        assert wish[k][left].sum() > 0.97 * wish[k][wish[k] > 0].sum()


def test_axis_and_oblique_nodes_may_share_a_batch(rng):
    nodes = preferences(rng, axis=False)
    alone = propose(nodes)
    mixed = propose(replace(nodes, oblique=np.array([True, False, True])))
    assert mixed.kind.tolist() == [
        SplitKind.OBLIQUE,
        SplitKind.AXIS,
        SplitKind.OBLIQUE,
    ]
    for name in ("direction", "threshold", "gain"):
        one, other = (np.asarray(getattr(f, name)) for f in (mixed, alone))
        assert np.array_equal(one[[0, 2]], other[[0, 2]])


def test_where_no_other_split_is_possible_nothing_is_gained(rng):
    nodes = preferences(rng)
    nodes = replace(nodes, min_weight=nodes.weight.sum(axis=1))
    assert (np.asarray(propose(nodes).gain) == -np.inf).all()
