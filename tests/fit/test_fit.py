"""The way of the rows through a fit: which train, are held out, or are a sample."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from secret_jax import CostComplexity, HoldOut, SecretRegressor
from secret_jax.data.rows import Rows, Table
from secret_jax.data.validation import CheckedRows
from secret_jax.datasets import make_fried
from secret_jax.fit import early_stopping
from secret_jax.fit.grow import trees
from secret_jax.fit.grow.trees import Recipe
from secret_jax.fit.interface import Pruned, PruningRule
from secret_jax.fit.pipeline import grow_and_prune
from secret_jax.fit.prepare import divided, prepare
from secret_jax.fit.prune.rules import CrossValidation, Unpruned
from secret_jax.splits.rss import RssSplits
from secret_jax.tree.reshape import (
    compact,
    nodes_kept,
    place_in,
    remaining,
)


def plan(**parameters):
    return SecretRegressor(random_state=0, **parameters)._plan()


def checked(n, seed=0, weight=None):
    X, y = make_fried(n, random_state=seed)
    weight = np.ones(n) if weight is None else weight
    return CheckedRows(X, y[:, None], weight)


@pytest.mark.parametrize("seed", range(12))
def test_rounding_of_weights_makes_no_sample_of_all_rows(seed):
    random = np.random.default_rng(seed)
    weight = random.uniform(0.5, 1.5, 70_000)
    truths = random.integers(0, 2, (70_000, 8)).astype(float)
    given = CheckedRows(truths, truths[:, :1] != truths[:, 1:2], weight)
    found = prepare(plan(), given, None)
    assert found.rows.n_rows == 256 * 50
    assert found.sampled_share == 1.0
    assert found.source is None


def test_samples_are_said_to_be_some_of_the_rows_or_of_those_that_prune():
    found = prepare(plan(splits=RssSplits(max_samples=16)), checked(5000), None)
    assert found.sampled_share == pytest.approx(32 * 16 / 5000, rel=0.2)
    assert found.source.n_rows == 5000
    parameters = {"splits": RssSplits(max_samples=16)}
    found = prepare(plan(**parameters), checked(400), checked(3000, seed=1))
    assert found.sampled_share == 1.0
    assert found.prune_rows.n_rows < 3000
    assert found.source is not None  # all of both give the final models
    recipe = plan(**parameters).recipe(found.schema, 400.0, found.sampled_share)
    assert recipe.min_split_weight == 8.0  # two per cent, not half of a node's sample


def rows(n, first=0):
    number = np.arange(first, first + n, dtype=np.float32)[:, None]
    table = Table(number, np.zeros((n, 0), np.int32))
    return Rows(table, number.astype(float), np.ones(n))


@pytest.mark.parametrize("rule", [Unpruned(), CrossValidation(), CostComplexity()])
def test_rules_that_hold_nothing_out_train_on_all_rows(rule):
    evidence = divided(rows(100), None, rule)
    assert (evidence.training.n_rows, evidence.held_out) == (100, None)
    with_others = divided(rows(100), rows(30, first=100), rule)
    values = np.sort(with_others.training.targets[:, 0])
    np.testing.assert_array_equal(values, np.arange(130))
    assert with_others.held_out is None


def test_a_hold_out_is_the_last_part_by_hash_or_what_is_given():
    evidence = divided(rows(100), None, HoldOut(fraction=0.3))
    np.testing.assert_array_equal(evidence.training.targets[:, 0], np.arange(70))
    np.testing.assert_array_equal(evidence.held_out.targets[:, 0], np.arange(70, 100))
    evidence = divided(rows(100), rows(30, first=100), HoldOut())
    assert evidence.training.n_rows == 100
    np.testing.assert_array_equal(evidence.held_out.targets[:, 0], np.arange(100, 130))


def test_rows_that_prune_do_not_train_without_a_refit():
    X, y = make_fried(6000, random_state=0)
    other, outcome = make_fried(300, random_state=1)
    model = SecretRegressor(
        prune=HoldOut(refit=False),
        splits=RssSplits(max_samples=16),
        oblique=False,
        random_state=0,
    ).fit(X, y, eval_set=(other, outcome))
    assert model.tree_.weight[0] == 6000  # though a sample of them grew it


@pytest.mark.parametrize("crease", [False, True])
def test_only_the_better_kind_is_grown_on_further_folds(crease, monkeypatch):
    random = np.random.default_rng(5)
    X = random.uniform(-1, 1, (400, 2))
    y = np.abs(X[:, 0] - X[:, 1]) if crease else np.where(X[:, 0] > 0, X[:, 1], 2.0)
    y += 0.05 * random.normal(size=400)
    grown = []

    def recorded(recipe, rows, roots, **options):
        grown.append([root.oblique for root in roots])
        return grow(recipe, rows, roots, **options)

    grow = Recipe.grow
    monkeypatch.setattr(Recipe, "grow", recorded)
    parameters = plan(distill=False)
    found = grow_and_prune(
        parameters,
        prepare(parameters, CheckedRows(X, y[:, None], np.ones(400)), None),
    ).fitted
    assert found.candidates[0].oblique == crease
    assert grown == [[False, True] * 6, [crease] * 5]
    assert len(found.folds) == 10
    assert len(found.candidates) == 2


@pytest.mark.parametrize(
    ("n", "noise", "n_divisions"), [(2600, 0.1, 1), (2600, 3.0, 2), (2400, 0.1, 2)]
)
def test_many_rows_of_a_clear_signal_are_divided_once(n, noise, n_divisions):
    random = np.random.default_rng(1)
    X = random.uniform(-1, 1, (n, 2))
    y = 3 * np.abs(X[:, 0]) + X[:, 1] + noise * random.normal(size=n)
    parameters = plan(oblique=False)
    given = CheckedRows(X, y[:, None], np.ones(n))
    found = grow_and_prune(parameters, prepare(parameters, given, None)).fitted
    assert len(found.folds) == 5 * n_divisions


@dataclass(frozen=True, kw_only=True)
class ValuesOfKinds(PruningRule):
    """Says what kinds are worth, in the order in which they are judged."""

    values: tuple[float, ...]

    def __call__(self, tree, evidence):
        oblique = (np.count_nonzero(tree.direction, axis=1) > 1).any()
        return Pruned(tree, self.values[int(oblique)])


@pytest.mark.parametrize(("gain", "chosen"), [(1e-15, False), (1e-6, True)])
def test_rounding_does_not_choose_between_kinds_of_trees(gain, chosen):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    y = np.abs(X @ [1.0, 1.0, 0.0])
    rule = ValuesOfKinds(values=(2.0, 2.0 * (1.0 - gain)))
    model = SecretRegressor(prune=rule, distill=False).fit(X, y)
    assert model.n_leaves_ > 1
    oblique = np.count_nonzero(model.tree_.direction, axis=1) > 1
    assert oblique.any() == chosen


def test_growth_ends_early_at_the_tree_of_full_growth(monkeypatch):
    """Two leaves say all, and splits below them find noise."""
    X, _ = make_fried(1200, random_state=0)
    noise = np.random.default_rng(0).normal(size=len(X))
    X, y = X[:, :4], np.where(X[:, 0] > 0.4, 3.0 + X[:, 1], -X[:, 2]) + 0.3 * noise
    small = {"oblique": False, "distill": False, "splits": RssSplits(min_gain=0.1)}
    ended = SecretRegressor(**small).fit(X, y)
    for module in (early_stopping, trees):
        monkeypatch.setattr(module, "PATIENCE_LEVELS", 99)
    whole = SecretRegressor(**small).fit(X, y)
    assert ended.n_leaves_ == whole.n_leaves_
    np.testing.assert_array_equal(ended.tree_.threshold, whole.tree_.threshold)
    np.testing.assert_allclose(ended.predict(X), whole.predict(X))
    assert ended.n_leaves_grown_ < whole.n_leaves_grown_


@pytest.mark.parametrize("share", [0.3, 0.8])
def test_nodes_are_found_in_a_pruned_tree(share):
    X, y = make_fried(600, n_features=5, random_state=1)
    tree = SecretRegressor(oblique=False, distill=False).fit(X, y).tree_
    kept = np.random.default_rng(0).uniform(size=tree.n_nodes) < share
    kept[0] = True
    subtree, stays = compact(tree, kept), remaining(tree, kept)
    expected = np.cumsum(stays) - 1
    for node in np.flatnonzero(~stays):  # parents come first
        expected[node] = expected[tree.parent[node]]
    np.testing.assert_array_equal(place_in(tree, subtree), expected)
    np.testing.assert_array_equal(nodes_kept(tree, subtree), np.flatnonzero(stays))
    assert 1 < subtree.n_leaves < tree.n_leaves
    moved = replace(subtree, threshold=subtree.threshold + np.float32(1))
    assert nodes_kept(tree, moved) is nodes_kept(subtree, tree) is None
