"""Alternating optimisation: the objective never rises, and broken splits are mended."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from configurations import assert_same_tree, crease, planes, regressor, shop, tree_bytes
from handmade import SHAPES, build_tree, rows

from secret_jax import SecretRegressor
from secret_jax.datasets import make_3dsin, make_fried
from secret_jax.fitting import LeafOptions, Rows, with_models
from secret_jax.options import AlternatingOptions
from secret_jax.refine.hyperplanes import Preferences, propose
from secret_jax.refine.proposals import descend
from secret_jax.refine.refine import alternating
from secret_jax.refine.tao import alternate, improve, subtree_costs
from secret_jax.tree.routing import apply, predict
from secret_jax.tree.structure import SplitKind

EAGER = AlternatingOptions(price=0.0, margin=0.0)


def noise(n_rows=128):
    return crease(n_rows)[0], np.random.default_rng(1).normal(size=n_rows)


TABLES = {
    "crease": crease,
    "shop": shop,
    "planes": planes,
    "noise": noise,
    "3dsin": lambda: make_3dsin(500, random_state=0),
    "fried": lambda: make_fried(500, random_state=0),
}
every_table = pytest.mark.parametrize("table", TABLES)


def grown(table, leaf="shrunken", **changes):
    """A grown tree and its rows, as `fit` would hand them on."""
    X, y = TABLES[table]()
    options = {"prune": None, "min_samples_leaf": 6, "oblique": True} | changes
    model = regressor("default", leaf=leaf, **options).fit(X, y)
    tree = model.tree_
    y = tree.schema.scale_target(np.asarray(y))
    order = np.random.default_rng(0).permutation(len(y))
    training = Rows(tree.schema.encode(X), y, np.ones(len(y))).take(order)
    leaf = LeafOptions(kind=leaf)
    return with_models(tree, training, tree.schema, leaf), training, leaf


@every_table
@pytest.mark.parametrize("leaf", ["shrunken", "linear", "constant"])
def test_the_objective_never_rises(table, leaf):
    tree, training, leaf = grown(table, leaf)
    found = alternate(tree, training, None, leaf, 6.0, EAGER)
    assert len(found.objectives) > 1
    assert (np.diff(found.objectives) <= 0).all()
    assert found.objectives[0] == subtree_costs(tree, LeafOptions().gcv_factor)[0]
    reached = subtree_costs(found.tree, LeafOptions().gcv_factor)[0]
    assert reached == pytest.approx(found.objectives[-1])


@every_table
def test_what_stays_as_it_is(table):
    tree, training, leaf = grown(table)
    found = alternate(tree, training, None, leaf, 6.0, EAGER).tree
    for name in ("parent", "depth", "kind", "goes_left", "stop_reason"):
        assert np.array_equal(getattr(found, name), getattr(tree, name)), name
    axis = found.kind == SplitKind.AXIS
    expected = np.eye(tree.direction.shape[1])[found.attribute[axis]]
    assert np.array_equal(found.direction[axis], expected)
    assert found.weight.min() >= 6
    inner = np.flatnonzero(~found.is_leaf)
    children = np.sort(np.stack([found.left, found.right])[:, inner], axis=0)
    assert np.array_equal(children, np.stack([tree.left, tree.right])[:, inner])
    assert (found.parent[found.left[inner]] == inner).all()
    # The models are those that the rule of the leaves gives for these splits.
    again = with_models(found, training, tree.schema, leaf)
    assert_same_tree(again, found)


def test_the_objective_is_a_sum_over_the_leaves():
    tree, training, _ = grown("fried", "linear")
    costs = subtree_costs(tree, 1.2)
    leaf = apply(tree, training.table)
    width = 1 + tree.schema.n_regressors
    expected = 0.0
    for node in np.flatnonzero(tree.is_leaf):
        mine = leaf == node
        x = training.table.x[mine, : tree.schema.n_regressors].astype(float)
        design = np.column_stack([np.ones(mine.sum()), x])
        residual = (
            training.y[mine] - design @ np.linalg.lstsq(design, training.y[mine])[0]
        )
        spare = max(1 - 1.2 * min(width, mine.sum()) / mine.sum(), 0.1)
        expected += residual @ residual / spare**2
    assert costs[0] == pytest.approx(expected, rel=1e-5)


def test_a_split_that_was_spoilt_is_mended():
    tree, training, leaf = grown("planes", max_depth=1)
    good = subtree_costs(tree, 0.0)[0]
    assert tree.n_leaves == 2
    for change in ({"threshold": tree.threshold + 0.6}, {"turned": 0.7}):
        spoilt = dict(change)
        if "turned" in change:
            direction = tree.direction.copy()
            direction[0, 1] += change["turned"] * np.abs(direction[0]).max()
            spoilt = {"direction": direction}
        kind = np.where(tree.is_leaf, tree.kind, SplitKind.OBLIQUE).astype(np.int32)
        start = dataclasses.replace(tree, kind=kind, **spoilt)
        start = with_models(start, training, tree.schema, leaf)
        assert subtree_costs(start, 0.0)[0] > 10 * good + 1
        mended = alternate(start, training, None, leaf, 6.0, EAGER)
        assert mended.n_sweeps > 0
        assert subtree_costs(mended.tree, 0.0)[0] < 0.2 * subtree_costs(start, 0.0)[0]


def preferences(rng, n_nodes=3, n_rows=64, n_columns=4, axis=True):
    weight = rng.integers(0, 3, (n_nodes, n_rows)).astype(np.float32)
    saving = rng.normal(size=weight.shape).astype(np.float32) * weight
    direction = np.zeros((n_nodes, n_columns), np.float32)
    direction[:, 0] = 1
    if not axis:
        direction[:] = rng.normal(size=direction.shape)
        direction[:, 3] = 0
    return Preferences(
        x=rng.integers(-8, 8, (n_nodes, n_rows, n_columns)).astype(np.float32),
        saving=saving,
        weight=weight,
        least=np.full(n_nodes, 9, np.float32),
        direction=direction,
        threshold=np.zeros(n_nodes, np.float32),
        axis=np.full(n_nodes, axis),
    )


def test_an_axis_split_is_the_best_of_all(rng):
    nodes = preferences(rng)
    found = propose(nodes, len(nodes.x), axis_only=True, together=False)
    for k in range(3):
        best = -np.inf
        x, saving, weight = nodes.x[k], nodes.saving[k], nodes.weight[k]
        for attribute in range(4):
            for cut in np.unique(x[:, attribute]):
                left = x[:, attribute] <= cut
                for side in (left, ~left):
                    if min(weight[side].sum(), weight[~side].sum()) >= 9:
                        best = max(best, saving[side].sum())
        now = saving[x[:, 0] <= 0].sum()
        assert found.gain[k] == pytest.approx(best - now, rel=1e-4)
        left = x @ np.asarray(found.direction[k]) <= found.threshold[k]
        chosen = ~left if found.swapped[k] else left
        assert saving[chosen].sum() == pytest.approx(best, rel=1e-4)


def test_an_oblique_split_does_what_it_says_and_keeps_to_its_attributes(rng):
    nodes = preferences(rng, axis=False)
    found = propose(nodes, len(nodes.x), axis_only=False, together=False)
    assert not np.asarray(found.swapped).any()
    assert (np.asarray(found.direction)[:, 3] == 0).all()
    for k in range(3):
        left = nodes.x[k] @ np.asarray(found.direction[k]) <= found.threshold[k]
        now = nodes.x[k] @ nodes.direction[k] <= nodes.threshold[k]
        gain = nodes.saving[k][left].sum() - nodes.saving[k][now].sum()
        assert found.gain[k] == pytest.approx(gain, abs=1e-4)


def test_a_hyperplane_that_parts_the_rows_is_found(rng):
    nodes = preferences(rng, axis=False, n_rows=256)
    truth = np.array([1.0, -2.0, 0.5, 0.0])
    x = rng.normal(size=nodes.x.shape).astype(np.float32)
    wish = np.where(x @ truth < 0.3, 1, -1) * rng.uniform(0.5, 1.5, x.shape[:2])
    nodes = nodes._replace(
        x=x, saving=wish.astype(np.float32), weight=np.ones_like(nodes.weight)
    )
    found = propose(nodes, len(nodes.x), axis_only=False, together=False)
    for k in range(3):
        left = x[k] @ np.asarray(found.direction[k]) <= found.threshold[k]
        assert wish[k][left].sum() > 0.97 * wish[k][wish[k] > 0].sum()


@pytest.mark.parametrize("shape", SHAPES)
def test_descending_from_the_root_reaches_the_leaf(shape):
    tree, table = build_tree(SHAPES[shape], 0), rows()
    start = np.zeros(len(table.x), np.int64)
    assert np.array_equal(descend(tree, table, start, 10), apply(tree, table))
    if tree.n_nodes > 1:
        # The children of the root, and from there on: the same leaf.
        first = descend(tree, table, start, 1)
        assert set(first) <= {tree.left[0], tree.right[0]}
        assert np.array_equal(descend(tree, table, first, 9), apply(tree, table))


def test_what_does_not_help_rows_kept_aside_is_undone():
    tree, training, leaf = grown("noise", max_depth=3)
    assert tree.n_leaves > 2
    found = improve(tree, training, None, leaf, 6.0, AlternatingOptions())
    assert found.n_sweeps == 0
    assert found.tree is tree
    X, y = noise(256)
    check = Rows(tree.schema.encode(X), tree.schema.scale_target(y), np.ones(256))
    assert improve(tree, training, check, leaf, 6.0, AlternatingOptions()).tree is tree


def test_a_prefix_of_the_rows_is_enough():
    tree, training, leaf = grown("3dsin", max_depth=3)
    options = dataclasses.replace(EAGER, most_rows=300)
    found = alternate(tree, training, None, leaf, 6.0, options)
    assert found.tree.weight[0] == len(training.y)
    before, after = (subtree_costs(t, 1.2)[0] for t in (tree, found.tree))
    assert after <= before
    assert found.n_sweeps > 0


def test_refinement_helps_where_there_is_no_noise():
    X, y = make_3dsin(6000, random_state=1)
    errors = []
    for refine in (None, "hard"):
        model = SecretRegressor(random_state=0, refine=refine, max_leaf_nodes=24)
        model.fit(X[:3000], y[:3000])
        errors.append(np.mean((model.predict(X[3000:]) - y[3000:]) ** 2))
    assert errors[1] < 0.9 * errors[0]


@pytest.mark.parametrize("prune", ["holdout", "cross-validation", "bic", None])
@pytest.mark.parametrize("refit", [True, False])
def test_every_way_of_pruning_can_be_refined(prune, refit):
    X, y = shop(256)
    weight = np.random.default_rng(0).integers(1, 3, len(y))
    options = {"prune": prune, "refit": refit, "oblique": True}
    plain = regressor("default", **options).fit(X, y, weight)
    model = regressor("default", refine="hard", **options).fit(X, y, weight)
    assert model.n_leaves_ == plain.n_leaves_
    assert model.tree_.weight[0] == plain.tree_.weight[0]
    order = np.random.default_rng(1).permutation(np.repeat(np.arange(len(y)), weight))
    again = regressor("default", refine="hard", **options)
    again.fit(X.iloc[order].reset_index(drop=True), y.iloc[order].to_numpy())
    assert_same_tree(again.tree_, model.tree_)


@pytest.mark.parametrize("configuration", ["gini", "paper"])
def test_trees_of_the_paper_can_be_refined(configuration):
    X, y = crease(256)
    model = regressor(configuration, refine="hard").fit(X, y)
    assert model.score(X, y) > 0.8


def test_an_interruption_leaves_the_tree_as_it_was(monkeypatch):
    X, y = crease()
    plain = regressor("default").fit(X, y)

    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(alternating, "_improve_level", interrupted)
    model = regressor("default", refine="hard")
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert tree_bytes(model.tree_) == tree_bytes(plain.tree_)
    assert np.array_equal(model.predict(X), plain.predict(X))
    assert model.n_features_in_ == 3


def test_a_single_leaf_and_a_single_row():
    X, y = crease()
    for part, options in ((X, {"max_depth": 0}), (X[:1], {})):
        model = regressor("default", refine="hard", **options).fit(part, y[: len(part)])
        assert model.n_leaves_ == 1
        assert np.isfinite(predict(model.tree_, model.tree_.schema.encode(X))).all()
