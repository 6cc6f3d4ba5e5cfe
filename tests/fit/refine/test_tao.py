"""Alternating optimisation: the objective never rises, and broken splits are mended."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from configurations import assert_same_tree, crease, planes, regressor, shop

from secret_jax import CrossValidation, HoldOut, RssSplits, SecretRegressor
from secret_jax.data.encoding import encode
from secret_jax.data.rows import Rows
from secret_jax.datasets import make_3dsin, make_fried
from secret_jax.estimators.parameters import value_of
from secret_jax.fit.grow.execution import GrowOptions
from secret_jax.fit.grow.trees import Recipe
from secret_jax.fit.refine import tao as tao_module
from secret_jax.fit.refine.tao import Tao, improve, subtree_costs
from secret_jax.models.fitting import fit_models
from secret_jax.tree.routing import apply
from secret_jax.tree.structure import SplitKind

EAGER = Tao(penalty=0.0, margin=0.0)


def noise(n_rows=128):
    return crease(n_rows)[0], np.random.default_rng(1).normal(size=n_rows)


TABLES = {
    "crease": crease,
    "shop": shop,
    "planes": planes,
    "noise": noise,
    "3dsin": lambda: make_3dsin(400, random_state=0),
    "fried": lambda: make_fried(300, random_state=0),
    "two outputs": lambda: two_outputs(),
}


def two_outputs():
    X, y = make_3dsin(500, random_state=0)
    return X, np.stack([y, X[:, 0] * X[:, 1] / 3], axis=1)


def recipe_of(tree, leaf):
    return Recipe(
        schema=tree.schema,
        options=GrowOptions(finder=RssSplits()),
        leaf=value_of("leaf", leaf),
        min_split_weight=12.0,
        min_leaf_weight=6.0,
        oblique=True,
        seed=0,
    )


def grown(table, leaf="ridge", **changes):
    """A grown tree, its rows, as `fit` would hand them on, and its recipe."""
    X, y = TABLES[table]()
    options = {"prune": None, "min_samples_leaf": 6, "oblique": True} | changes
    tree = regressor("default", leaf=leaf, **options).fit(X, y).tree_
    targets = tree.schema.scale_targets(np.reshape(y, (len(y), -1)))
    order = np.random.default_rng(0).permutation(len(y))
    training = Rows(encode(tree.schema, X), targets, np.ones(len(y))).take(order)
    recipe = recipe_of(tree, leaf)
    return fit_models([tree], [training], recipe.leaf)[0], training, recipe


@pytest.fixture
def objectives(monkeypatch):
    """The objective at the start and after every level of every pass."""
    seen, improved = [], tao_module._improve_level

    def watched(tree, *others):
        found = improved(tree, *others)
        costs = [float(subtree_costs(each)[0]) for each in (tree, found)]
        seen.extend(costs[bool(seen) :])
        return found

    monkeypatch.setattr(tao_module, "_improve_level", watched)
    return seen


@pytest.mark.parametrize(
    ("table", "leaf"),
    [
        *(("crease", leaf) for leaf in ("ridge", "linear", "constant")),
        *(("shop", "ridge"), ("planes", "linear"), ("noise", "constant")),
        *(("3dsin", "ridge"), ("fried", "linear")),
        *(("two outputs", "ridge"), ("two outputs", "linear")),
    ],
)
def test_the_objective_never_rises(table, leaf, objectives):
    tree, training, recipe = grown(table, leaf)
    found = improve(tree, training, training, recipe, EAGER)
    assert len(objectives) > 1
    assert (np.diff(objectives) <= 0).all()
    assert objectives[0] == subtree_costs(tree)[0]
    each = [subtree_costs(tree.output(i))[0] for i in range(tree.n_outputs)]
    assert objectives[0] == pytest.approx(sum(each))
    reached = subtree_costs(found.tree)[0]  # after the pass that the rows chose
    assert np.isclose(objectives, reached, rtol=1e-6).any()
    if tree.n_outputs > 1:
        assert reached == pytest.approx(objectives[-1])
        assert objectives[-1] < objectives[0]
        again = fit_models([found.tree], [training], recipe.leaf)[0]
        assert_same_tree(again, found.tree)


@pytest.mark.parametrize("table", ["crease", "shop", "fried"])
def test_what_stays_as_it_is(table):
    tree, training, recipe = grown(table)
    found = improve(tree, training, training, recipe, EAGER).tree
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
    again = fit_models([found], [training], recipe.leaf)[0]
    assert_same_tree(again, found)


def test_the_objective_is_a_sum_over_the_leaves():
    tree, training, _ = grown("fried", "linear")
    costs = subtree_costs(tree)
    leaf = apply(tree, training.table)
    width = 1 + tree.schema.n_regressors
    expected = 0.0
    for node in np.flatnonzero(tree.is_leaf):
        mine = leaf == node
        x = training.table.x[mine, : tree.schema.n_regressors].astype(float)
        design = np.column_stack([np.ones(mine.sum()), x])
        own = training.targets[mine, 0]
        residual = own - design @ np.linalg.lstsq(design, own)[0]
        spare = max(1 - 1.2 * min(width, mine.sum()) / mine.sum(), 0.1)
        expected += residual @ residual / spare**2
    assert costs[0] == pytest.approx(expected, rel=1e-5)


def test_a_split_that_was_spoilt_is_mended():
    tree, training, recipe = grown("planes", max_depth=1)
    good = subtree_costs(tree)[0]
    assert tree.n_leaves == 2
    turned = tree.direction.copy()
    turned[0, 1] += 0.7 * np.abs(turned[0]).max()
    for spoilt in ({"threshold": tree.threshold + 0.6}, {"direction": turned}):
        kind = np.where(tree.is_leaf, tree.kind, SplitKind.OBLIQUE).astype(np.int32)
        start = dataclasses.replace(tree, kind=kind, **spoilt)
        start = fit_models([start], [training], recipe.leaf)[0]
        assert subtree_costs(start)[0] > 10 * good + 1
        mended = improve(start, training, training, recipe, EAGER)
        assert mended.n_steps > 0
        assert subtree_costs(mended.tree)[0] < 0.2 * subtree_costs(start)[0]


def test_what_does_not_help_rows_kept_aside_is_undone():
    tree, training, recipe = grown("noise", max_depth=3)
    assert tree.n_leaves > 2
    found = improve(tree, training, None, recipe, Tao())
    assert found.n_steps == 0
    assert found.tree is tree
    X, y = noise(256)
    targets = tree.schema.scale_targets(y[:, None])
    check = Rows(encode(tree.schema, X), targets, np.ones(256))
    assert improve(tree, training, check, recipe, Tao()).tree is tree


def test_a_prefix_of_the_rows_is_enough(monkeypatch):
    tree, training, recipe = grown("3dsin", max_depth=3)
    monkeypatch.setattr("secret_jax.fit.refine.tao.MOST_ROWS", 300)
    found = improve(tree, training, training, recipe, EAGER)
    assert found.tree.weight[0] == training.n_rows
    before, after = (subtree_costs(t)[0] for t in (tree, found.tree))
    assert after <= before
    assert found.n_steps > 0


def test_refinement_helps_where_there_is_no_noise():
    X, y = make_3dsin(3000, random_state=1)
    errors = []
    for refine in (None, "tao"):
        model = SecretRegressor(random_state=0, refine=refine, max_leaf_nodes=24)
        model.fit(X[:1000], y[:1000])
        errors.append(np.mean((model.predict(X[1000:]) - y[1000:]) ** 2))
    assert errors[1] < 0.9 * errors[0]


@pytest.mark.parametrize(
    "prune", [HoldOut(refit=False), CrossValidation(n_folds=2), None], ids=str
)
def test_every_way_of_pruning_can_be_refined(prune):
    X, y = shop(256)
    weight = np.random.default_rng(0).integers(1, 3, len(y))
    options = {"prune": prune, "oblique": True}
    plain = regressor("default", **options).fit(X, y, weight)
    model = regressor("default", refine="tao", **options).fit(X, y, weight)
    assert model.n_leaves_ == plain.n_leaves_
    assert model.tree_.weight[0] == plain.tree_.weight[0]
    order = np.random.default_rng(1).permutation(np.repeat(np.arange(len(y)), weight))
    again = regressor("default", refine="tao", **options)
    again.fit(X.iloc[order].reset_index(drop=True), y.iloc[order].to_numpy())
    assert_same_tree(again.tree_, model.tree_, skip=("n_rows",))


@pytest.mark.parametrize(("n_rows", "options"), [(128, {"max_depth": 0}), (1, {})])
def test_single_leaves_and_single_rows_are_refined(n_rows, options):
    X, y = crease(128)
    model = regressor("default", refine="tao", **options).fit(X[:n_rows], y[:n_rows])
    assert model.n_leaves_ == 1
    assert np.isfinite(model.predict(X)).all()
