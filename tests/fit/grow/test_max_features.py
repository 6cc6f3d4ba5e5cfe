"""Attributes that nodes draw at random, as random forests draw them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from configurations import encoded, grow, tree_bytes
from scipy import stats
from sklearn.tree import DecisionTreeRegressor

from secret_jax.composed.ensemble.forest import features_of_node
from secret_jax.fit.grow.execution import GrowOptions
from secret_jax.fit.grow.frontier import Frontier, Places, Root
from secret_jax.fit.grow.grower import AttributeDraw, n_inputs
from secret_jax.learners import CartSplits

N_ROWS = 120
N_TREES = 240


def table_of(X):
    y = np.asarray(X)[:, 0].astype(float) ** 3
    y = y + 0.1 * np.random.default_rng(1).normal(size=len(y))
    options = {"missing_indicators": True, "category_indicators": True}
    return encoded(X, y, missing="learn", **options)


def root_of(key, **more):
    rows = np.arange(N_ROWS)
    return Root(rows=rows, min_split_weight=2.0, min_leaf_weight=1.0, key=key, **more)


def stumps(rows, schema, n_trees=N_TREES, **options):
    options = {"max_depth": 1, "min_gain": 0.0} | options
    roots = [root_of(key) for key in range(n_trees)]
    return grow(rows, schema, GrowOptions(finder=CartSplits(), **options), roots)


@pytest.fixture(scope="module")
def table():
    """Only the first of four columns says something about the target."""
    return table_of(np.random.default_rng(0).normal(size=(N_ROWS, 4)))


def test_every_attribute_is_drawn_as_often(table):
    used = [int(tree.attribute[0]) for tree in stumps(*table, max_features=1)]
    assert stats.chisquare(np.bincount(used, minlength=4)).pvalue > 0.001


def test_the_best_of_the_drawn_ones_is_taken(table):
    alone = stumps(*table, max_features=1)
    gain = {int(tree.attribute[0]): float(tree.gain[0]) for tree in alone}
    assert max(gain, key=gain.__getitem__) == 0
    used = [int(tree.attribute[0]) for tree in stumps(*table, max_features=2)]
    # Of the six pairs three hold the best one, two more the next, one neither.
    ranked = sorted(gain, key=gain.__getitem__, reverse=True)
    counts = np.bincount(used, minlength=4)[ranked]
    assert counts[3] == 0
    expected = np.array([3, 2, 1]) / 6 * N_TREES
    assert stats.chisquare(counts[:3], expected).pvalue > 0.001


def test_draws_are_new_in_every_node_and_all_is_no_draw(table):
    (deep,) = stumps(*table, n_trees=1, max_features=1, max_depth=6)
    assert set(deep.attribute[~deep.is_leaf].tolist()) == {0, 1, 2, 3}
    everything = [
        stumps(*table, n_trees=1, max_features=most, max_depth=6)[0]
        for most in (None, 4, 9)
    ]
    assert len({tuple(tree_bytes(tree).values()) for tree in everything}) == 1


def test_where_the_drawn_ones_give_no_split_others_are_drawn():
    X = np.zeros((N_ROWS, 4))
    X[:, 2] = np.random.default_rng(0).normal(size=N_ROWS)
    for tree in stumps(*table_of(X), n_trees=20, max_features=1):
        assert int(tree.attribute[0]) == 2
        assert tree.n_leaves == 2


def test_what_belongs_to_a_column_is_drawn_with_it():
    random = np.random.default_rng(0)
    holes = np.where(random.uniform(size=N_ROWS) < 0.4, np.nan, 1.0)
    X = pd.DataFrame(
        {
            "a": random.normal(size=N_ROWS),
            "b": random.normal(size=N_ROWS) * holes,
            "colour": random.choice(["red", "blue"], N_ROWS),
        }
    )
    rows, schema = table_of(X)
    assert schema.n_columns == 4  # with indicators of a hole and of a colour
    assert n_inputs(schema) == 3
    allowed = np.ones(5, bool)
    allowed[schema.continuous_positions[0]] = False
    roots = [root_of(key, allowed=allowed if key % 2 else None) for key in range(200)]
    seen = []

    class Recorder:
        def find(self, level, **more):
            seen.append(level.allowed)
            raise StopIteration

    level = Frontier.of(roots, Places.of(rows, roots), schema)
    with pytest.raises(StopIteration):
        AttributeDraw(Recorder(), schema, 1).find(level)
    inputs = np.array([*schema.input_columns, *schema.discrete])
    for which, mask in enumerate(seen[0]):
        (column,) = np.unique(inputs[mask])
        whole = inputs == column
        np.testing.assert_array_equal(mask, whole)
        assert not which % 2 or column != 0
    drawn = [int(inputs[mask][0]) for mask in seen[0][::2]]
    assert stats.chisquare(np.bincount(drawn, minlength=3)).pvalue > 0.001


@pytest.mark.parametrize("most", [3, 0.5, 0.04, 1.0, "sqrt", "log2", None])
@pytest.mark.parametrize("n_features", [3, 10, 17])
def test_numbers_of_attributes_are_those_of_scikit_learn(most, n_features):
    X = np.random.default_rng(0).normal(size=(10, n_features))
    expected = DecisionTreeRegressor(max_features=most).fit(X, X[:, 0]).max_features_
    found = features_of_node(most, n_features)
    assert min(n_features, found or n_features) == expected
