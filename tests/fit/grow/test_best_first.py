"""Growth with a most number of leaves stops early, and makes the same trees."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from configurations import encoded, grow

from secret_jax import RssSplits
from secret_jax.fit.grow import on_host
from secret_jax.fit.grow.execution import GrowOptions
from secret_jax.fit.grow.frontier import Root
from secret_jax.fit.grow.grower import grown
from secret_jax.fit.grow.trees import with_leaf_models
from secret_jax.learners import CartSplits
from secret_jax.models.fitting import fit_models
from secret_jax.models.ridge import Ridge
from secret_jax.tree.walk import descend

N_ROWS = 400
OPTIONS = GrowOptions(finder=CartSplits(), min_gain=0.0)


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(3)
    X = rng.uniform(size=(N_ROWS, 3))
    y = np.sin(9 * X[:, 0]) * X[:, 1] + rng.normal(size=N_ROWS)
    return encoded(X, y)


def root(**changes):
    options = {"rows": np.arange(N_ROWS), "min_split_weight": 8, "min_leaf_weight": 4}
    return Root(**(options | changes))


def best_part(tree, most, near):
    """Gain, kind and threshold of the splits of best-first growth to some leaves.

    Those that gain nearly as much as the best one are made together.
    """
    waiting, made = [0], []
    while waiting and len(made) < most - 1:
        best = sorted(waiting, key=lambda node: -tree.gain[node])
        batch = [node for node in best if tree.gain[node] >= near * tree.gain[best[0]]]
        for node in batch[: most - 1 - len(made)]:
            made.append((tree.gain[node], tree.kind[node], tree.threshold[node]))
            waiting.remove(node)
            both = tree.left[node], tree.right[node]
            waiting += [child for child in both if tree.left[child] >= 0]
    return sorted(made)


@pytest.mark.parametrize("in_batches", [False, True])
@pytest.mark.parametrize("most", [1, 2, 5, 12])
def test_the_tree_is_the_best_part_of_the_whole(most, in_batches, table, monkeypatch):
    rows, schema = table
    whole, other = grow(rows, schema, OPTIONS, [root(), root(max_leaf_nodes=3)])
    assert other.n_leaves == 3
    assert whole.n_leaves > 30
    searched, find = [], on_host.OnHost.find

    def counted(self, level, *given, **more):
        searched.append(len(level.node))
        return find(self, level, *given, **more)

    monkeypatch.setattr(on_host.OnHost, "find", counted)
    options = replace(OPTIONS, in_batches=in_batches)
    (small,) = grow(rows, schema, options, [root(max_leaf_nodes=most)])
    assert small.n_leaves == most
    inner = ~small.is_leaf
    columns = small.gain[inner], small.kind[inner], small.threshold[inner]
    expected = best_part(whole, most, 0.4 if in_batches else 1.0)
    assert sorted(zip(*columns, strict=True)) == expected
    assert (most > 1) <= sum(searched) < whole.n_nodes / 2


@pytest.mark.parametrize("finder", [CartSplits(), RssSplits()])
def test_rows_know_their_leaves_and_models_need_no_routing(finder, table):
    rows, schema = table
    half = np.arange(0, N_ROWS, 2)
    roots = [root(max_leaf_nodes=6), root(rows=half, max_leaf_nodes=9)]
    options = GrowOptions(finder=finder, min_gain=0.0)
    found = grown(rows, schema, options, roots)
    parts = [rows.take(each.rows) for each in roots]
    for each, part in zip(found, parts, strict=True):
        start = np.zeros(part.n_rows, int)
        expected = descend(each.tree, part.table, start, each.tree.max_depth)
        np.testing.assert_array_equal(each.leaf, expected)
        # The search of the second finder has fitted the models itself.
        assert (each.fitted is not None) == (finder.node_model is not None)
    trees, leaves = [each.tree for each in found], [each.leaf for each in found]
    routed = fit_models(trees, parts, Ridge())
    without = [found[0]._replace(fitted=None), found[1]]
    for known in (
        fit_models(trees, parts, Ridge(), leaves=leaves),
        with_leaf_models(found, rows, roots, Ridge(), finder.node_model),
        with_leaf_models(without, rows, roots, Ridge(), finder.node_model),
    ):
        for one, other in zip(routed, known, strict=True):
            np.testing.assert_array_equal(one.left, other.left)
            for name in ("coefficient", "weight", "train_error", "lower", "degrees"):
                np.testing.assert_allclose(
                    getattr(one, name), getattr(other, name), atol=2e-5, err_msg=name
                )
