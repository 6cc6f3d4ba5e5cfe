"""Shares of the explained variance: laws, and functions whose shares are known."""

import dataclasses

import numpy as np
import pytest
from configurations import shop
from handmade import STUMP, build_tree
from random_trees import random_tree
from sklearn.datasets import load_iris

from secret_jax import SecretClassifier, SecretRegressor
from secret_jax.datasets import make_fried
from secret_jax.inspect.explain import feature_importances, sum_variances
from secret_jax.tree.structure import SplitKind


@pytest.fixture(scope="module")
def fried():
    X, y = make_fried(1500, random_state=1)
    model = SecretRegressor(random_state=0, max_leaf_nodes=16, oblique=False)
    return model.fit(X, y), X, y


def test_irrelevant_columns_have_almost_none(fried):
    model, _, _ = fried
    importance = model.feature_importances_
    assert importance.shape == (10,)
    assert importance.dtype == np.float64
    assert (importance >= 0).all()
    assert importance.sum() == pytest.approx(1)
    assert importance[5:].max() < 0.01
    assert importance[:5].min() > 0.02


def stump_tree(root, left, right, errors, kind=SplitKind.AXIS, attribute=1):
    """Models and errors by hand; ``a`` is the regressor, ``b`` is split on."""
    tree = build_tree(STUMP, seed=0)
    direction = np.zeros((3, 2), np.float32)
    if kind == SplitKind.AXIS:
        direction[0, attribute] = 1
    return dataclasses.replace(
        tree,
        kind=np.array([kind, 0, 0], np.int32),
        attribute=np.array([attribute, -1, -1], np.int32),
        direction=direction,
        coefficient=np.array([[root], [left], [right]], float),
        weight=np.array([100.0, 50, 50]),
        train_error=np.array(errors, float)[:, None],
    )


def test_known_shares():
    # The root explains .4 by a; the split on b another .4 by the intercepts alone.
    tree = stump_tree([0, 0.6], [-1, 0.6], [1, 0.6], [0.6, 0.2, 0.2])
    np.testing.assert_allclose(feature_importances(tree), [0, 0.5, 0.5])
    # A slope that turns round with b is a matter of both.
    tree = stump_tree([0, 0], [0, -1], [0, 1], [1, 0, 0])
    np.testing.assert_allclose(feature_importances(tree), [0, 0.5, 0.5])
    # The same with the colour.
    tree = stump_tree([0, 0], [0, -1], [0, 1], [1, 0, 0], SplitKind.DISCRETE, 0)
    np.testing.assert_allclose(feature_importances(tree), [0.5, 0.5, 0])
    # A split that saves nothing is worth nothing, one that costs neither.
    tree = stump_tree([0, 0.6], [-1, 0.6], [1, 0.6], [0.6, 0.7, 0.6])
    np.testing.assert_allclose(feature_importances(tree), [0, 1, 0])


def test_a_constant_target_has_none():
    tree = stump_tree([0, 0], [0, 0], [0, 0], [1, 1, 1])
    assert not feature_importances(tree).any()


def test_an_interaction_with_a_category_is_shared_with_the_column():
    """Of y = ±3 width + 8 bright + height: 16 by colour, 9 by both, 1 by height."""
    X, y = shop(512)
    model = SecretRegressor(prune=None, max_leaf_nodes=2, min_samples_split=0.5)
    model.fit(X, y)
    np.testing.assert_allclose(
        model.feature_importances_,
        np.array([4.5, 16 + 4.5, 1]) / 26,
        atol=0.05,
    )


def test_the_indicators_of_a_column_vary_together(rng):
    """What a column of categories adds, against the variance of the rows."""
    tree = random_tree(0, 3)
    schema = dataclasses.replace(
        tree.schema,
        n_regressors=7,
        center=np.zeros(8),
        scale=np.ones(8),
        indicators=((0, 0), (0, 1), (0, 2)),
    )
    code = rng.integers(0, 3, 500)
    x = np.column_stack([rng.normal(size=(500, 4)), np.eye(3)[code]])
    spread, center = (np.tile(s, (tree.n_nodes, 1)) for s in (x.std(0), x.mean(0)))
    tree = dataclasses.replace(tree, schema=schema, center=center, spread=spread)
    for worth in ([3.0, 3.0, 3.0], [1.0, -2.0, 0.0]):
        slopes = np.array([1.0, 0.5, 0.0, -2.0, *worth])
        found = sum_variances(tree, 1, slopes)
        of_numbers = (slopes[:4] * x[:, :4].std(axis=0)) ** 2
        np.testing.assert_allclose(found[[0, 2, 3, 6]], of_numbers)
        assert found[1] == pytest.approx(np.var(x[:, 4:] @ worth), abs=1e-12)


def test_shares_add_up_to_one_if_the_equation_of_a_single_class_tells_anything():
    X, y = load_iris(return_X_y=True)
    model = SecretClassifier(max_depth=0, prune=None).fit(X, y)
    coefficient = model.tree_.coefficient.copy()
    coefficient[:, 1:, 1:] = 0.0
    model.tree_ = dataclasses.replace(model.tree_, coefficient=coefficient)
    assert model.feature_importances_.sum() == pytest.approx(1)
