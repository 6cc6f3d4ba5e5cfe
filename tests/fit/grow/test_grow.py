"""Growing: what every tree keeps, why nodes stop, and where training rows end up."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from configurations import crease, regressor, shop, tree_bytes

from secret_jax import SecretRegressor
from secret_jax.fit.alternatives import fit_tree
from secret_jax.fit.grow import on_host
from secret_jax.runtime import programs
from secret_jax.tree.structure import SplitKind, StopReason, Tree

TABLES = {"numbers": crease, "with a colour": shop}
every_configuration = pytest.mark.parametrize("configuration", ["default", "paper"])
every_table = pytest.mark.parametrize("table", TABLES)


def grown(configuration, table="numbers", n_rows=128, **changes):
    X, y = TABLES[table](n_rows)
    return regressor(configuration, prune=None, **changes).fit(X, y)


def reasons(tree: Tree) -> set[StopReason]:
    return {StopReason(reason) for reason in tree.stop_reason[tree.is_leaf]}


def leaves_stopped_by(tree: Tree, reason: StopReason) -> np.ndarray:
    return np.flatnonzero(tree.is_leaf & (tree.stop_reason == reason))


@every_table
@every_configuration
def test_links_kinds_and_weights_of_a_grown_tree_fit_together(configuration, table):
    tree = grown(configuration, table).tree_
    node = np.arange(tree.n_nodes)
    inner, leaf = ~tree.is_leaf, tree.is_leaf
    assert inner.any()
    assert (tree.right[leaf] == -1).all()
    assert (tree.parent[1:] < node[1:]).all()
    assert (tree.parent[0], tree.depth[0]) == (-1, 0)
    for child in (tree.left, tree.right):
        assert np.array_equal(tree.parent[child[inner]], node[inner])
        assert np.array_equal(tree.depth[child[inner]], tree.depth[inner] + 1)
    children = tree.weight[tree.left[inner]] + tree.weight[tree.right[inner]]
    np.testing.assert_allclose(children, tree.weight[inner])
    larger = tree.weight[tree.left[inner]] >= tree.weight[tree.right[inner]]
    assert np.array_equal(larger, tree.larger_left[inner])

    assert np.array_equal(tree.kind == SplitKind.LEAF, leaf)
    assert np.array_equal(tree.stop_reason == StopReason.SPLIT, inner)
    assert (tree.gain[inner] > 0).all()
    assert (tree.gain[leaf] == 0).all()
    axis = tree.kind == SplitKind.AXIS
    one_hot = np.eye(tree.direction.shape[1])[tree.attribute[axis]]
    assert np.array_equal(tree.direction[axis], one_hot)
    oblique = tree.kind == SplitKind.OBLIQUE
    assert (tree.attribute[oblique | leaf] == -1).all()
    np.testing.assert_allclose(
        np.linalg.norm(tree.direction[oblique], axis=1), 1, rtol=1e-5
    )
    neither = leaf | (tree.kind == SplitKind.DISCRETE)
    assert not tree.direction[neither].any()
    assert not tree.goes_left[tree.kind != SplitKind.DISCRETE].any()


@every_configuration
def test_without_oblique_splits_all_are_parallel_to_an_axis(configuration):
    assert SplitKind.OBLIQUE in grown(configuration, oblique=True).tree_.kind
    tree = grown(configuration, oblique=False, max_depth=1).tree_
    assert set(tree.kind) == {SplitKind.LEAF, SplitKind.AXIS}


@every_table
@every_configuration
def test_least_rows_hold_and_stop_nodes_as_a_count_or_a_share(configuration, table):
    tree = grown(configuration, table, min_samples_split=60).tree_
    stopped = leaves_stopped_by(tree, StopReason.MIN_SAMPLES_SPLIT)
    assert len(stopped) > 0
    assert (tree.weight[stopped] < 60).all()
    assert (tree.weight[~tree.is_leaf] >= 60).all()
    # The root holds 128 rows.
    assert grown(configuration, table, min_samples_split=128).n_leaves_ == 2
    assert grown(configuration, table, min_samples_split=129).n_leaves_ == 1
    tree = grown(configuration, table, min_samples_leaf=20).tree_
    assert tree.n_leaves > 1
    assert tree.weight.min() >= 20
    stopped = leaves_stopped_by(tree, StopReason.MIN_SAMPLES_LEAF)
    assert len(stopped) > 0
    assert (tree.weight[stopped] < 40).all()
    for name in ("min_samples_split", "min_samples_leaf"):
        both = [grown(configuration, table, **{name: least}) for least in (32, 0.25)]
        assert tree_bytes(both[0].tree_) == tree_bytes(both[1].tree_)


@every_configuration
def test_min_samples_leaf_holds_where_the_split_saw_a_sample_only(configuration):
    for seed in range(3):
        X, _ = crease(seed=seed)
        # One side holds about 20 rows.
        y = np.where(X[:, 0] > 1, 5 * X[:, 1], -3 * X[:, 1]) + X[:, 2] / 8
        options = {"prune": None, "splits__max_samples": 64, "min_samples_leaf": 20}
        tree = regressor(configuration, **options).fit(X, y).tree_
        assert tree.weight.min() >= 20


@every_configuration
def test_most_levels_and_leaves(configuration):
    for depth in (0, 1, 2):
        model = grown(configuration, max_depth=depth)
        assert model.depth_ == depth
        at_limit = leaves_stopped_by(model.tree_, StopReason.MAX_DEPTH)
        assert len(at_limit) > 0
        assert (model.tree_.depth[at_limit] == depth).all()
    free = grown(configuration).n_leaves_
    for limit in (1, 2, 3, free):
        model = grown(configuration, max_leaf_nodes=limit)
        assert model.n_leaves_ == limit
        stopped = StopReason.MAX_LEAF_NODES in reasons(model.tree_)
        assert stopped == (limit < free)


@every_configuration
def test_constant_and_exactly_linear_targets_are_pure(configuration):
    X, _ = crease()
    for y in (np.full(len(X), 1e6), X @ [1.0, -2.0, 0.5] + 1):
        model = regressor(configuration, prune=None).fit(X, y)
        assert model.n_leaves_ == 1
        assert reasons(model.tree_) == {StopReason.PURE}
        np.testing.assert_allclose(model.predict(X), y, rtol=1e-4, atol=1e-3)
        assert y[0] != 1e6 or (model.predict(100 * X) == 1e6).all()


@every_table
@every_configuration
def test_training_rows_end_in_the_leaf_in_which_they_were_counted(
    configuration, table, monkeypatch
):
    counts = []
    partition = on_host.partition

    def spy(order, starts, stops, go_left):
        middle = partition(order, starts, stops, go_left)
        counts.append(np.stack([middle - starts, stops - middle], axis=1))
        return middle

    monkeypatch.setattr(on_host, "partition", spy)
    X, y = TABLES[table]()
    # Ties on a coarse grid put rows on the very threshold.
    if table == "numbers":
        X = np.round(X * 2) / 2
    model = regressor(configuration, prune=None, oblique=True).fit(X, y)
    tree = model.tree_
    inner = np.flatnonzero(~tree.is_leaf)
    in_growth = np.concatenate(counts)
    assert np.array_equal(in_growth[:, 0], tree.weight[tree.left[inner]])
    assert np.array_equal(in_growth[:, 1], tree.weight[tree.right[inner]])
    leaf = model.apply(X)
    assert tree.is_leaf[leaf].all()
    at_leaf = np.bincount(leaf, minlength=tree.n_nodes)
    assert np.array_equal(at_leaf[tree.is_leaf], tree.weight[tree.is_leaf])


def test_growing_tells_how_far_it_has_come_and_the_models_of_all_nodes():
    model = regressor("paper", prune=None)
    heard: list = []
    plan = replace(model._plan(), progress=heard.append)
    tree = fit_tree(plan, model._given(*crease(128), None), None).tree
    growing = [step for step in heard if step.stage == "growing"]
    assert {step.detail for step in growing} == {
        f"level {depth + 1}" for depth in range(tree.max_depth + 1)
    }
    models = [step for step in heard if step.stage == "fitting models"]
    assert (models[-1].done, models[-1].total) == (tree.n_nodes, tree.n_nodes)


@pytest.mark.parametrize("splits", ["rss", "secret", "cart", "guide"])
def test_processors_compile_nothing(splits):
    def n_compiled():
        return sum(program.n_compiled for program in programs._PROGRAMS)

    before = n_compiled()
    X, y = crease(160)
    SecretRegressor(splits=splits, max_depth=2).fit(X, y).predict(X)
    assert n_compiled() == before


@pytest.mark.parametrize("splits", ["rss", "secret"])
def test_many_identical_rows_do_not_hide_the_others(splits):
    """Three binary columns, a binary target: few distinct rows, many copies."""
    rng = np.random.default_rng(8)
    X = rng.integers(0, 2, (8000, 3)).astype(float)
    y = (rng.random(8000) < 0.2 + 0.5 * X[:, 0] * X[:, 1]).astype(float)
    model = SecretRegressor(splits=splits, prune=None, random_state=0).fit(X, y)
    cells = 4 * X[:, 0] + 2 * X[:, 1] + X[:, 2]
    mean = np.bincount(cells.astype(int), y) / np.bincount(cells.astype(int))
    best = np.mean((y - mean[cells.astype(int)]) ** 2)
    assert np.mean((model.predict(X) - y) ** 2) < 1.02 * best
