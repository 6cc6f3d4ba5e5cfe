"""Trees that are changed by hand: fewer leaves, merged nodes, equations of new rows."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from configurations import refusal, shop
from random_trees import with_gates

from secret_jax import SecretClassifier, SecretRegressor
from secret_jax.losses.numbers import Poisson, QuasiPoisson
from secret_jax.tree.totals import leaves_below

OPTIONS = {"oblique": False, "prune": None, "max_leaf_nodes": 6, "distill": False}


@pytest.fixture(scope="module")
def model():
    return SecretRegressor(**OPTIONS).fit(*shop(128))


def test_a_smaller_tree_predicts_as_the_nodes_that_are_left(model):
    X, _ = shop(128)
    paths = model.decision_path(X)
    for n_leaves in range(1, model.n_leaves_ + 1):
        cut = model.smaller(n_leaves)
        assert cut.n_leaves_ <= n_leaves
        groups = cut.apply(X)
        # Every leaf of the smaller tree is one node of the larger one.
        for leaf in np.unique(groups):
            shared = set.intersection(*map(set, paths[groups == leaf].tolist()))
            assert shared - {-1}
    assert model.smaller(99).n_leaves_ == model.n_leaves_
    with refusal("n_leaves", "at least 1"):
        model.smaller(0)


def test_a_merged_node_is_a_leaf_with_its_equation(model):
    X, _ = shop(128)
    tree = model.tree_
    node = int(np.flatnonzero(~tree.is_leaf)[1])
    merged = model.smaller(at=[node])
    assert merged.n_leaves_ == model.n_leaves_ - leaves_below(tree)[node] + 1
    inside = (model.decision_path(X) == node).any(axis=1)
    assert 0 < inside.sum() < len(X)
    assert (merged.predict(X) == model.predict(X))[~inside].all()
    assert len(np.unique(merged.apply(X)[inside])) == 1
    leaf = int(merged.apply(X)[inside][0])
    np.testing.assert_array_equal(
        merged.tree_.coefficient[leaf], tree.coefficient[node]
    )
    with refusal("is a leaf"):
        model.smaller(at=[int(np.flatnonzero(tree.is_leaf)[0])])


def test_refit_on_the_same_rows_gives_the_same_equations(model):
    X, y = shop(128)
    again = model.refit(X, y)
    close = {"rtol": 0, "atol": 1e-5 * y.std()}
    np.testing.assert_allclose(again.predict(X), model.predict(X), **close)


def test_refit_is_least_squares_on_the_new_rows_of_a_leaf():
    X, y = shop(128)
    options = OPTIONS | {"leaf": "linear", "equation_tolerance": 0.0}
    numbers = X[["width", "height"]]
    model = SecretRegressor(**options, max_depth=1).fit(numbers, y)
    new, its = shop(400, 5)
    again = model.refit(new[["width", "height"]], its)
    group = again.apply(new[["width", "height"]])
    assert (group == model.apply(new[["width", "height"]])).all()
    for leaf in np.unique(group):
        here = group == leaf
        design = np.c_[np.ones(here.sum()), new.loc[here, ["width", "height"]]]
        slopes = np.linalg.lstsq(design, its[here], rcond=None)[0]
        table = again.coefficients(int(leaf))
        found = table.set_index("column")["coefficient"][["width", "height"]]
        np.testing.assert_allclose(found, slopes[1:], rtol=1e-3)


@pytest.mark.parametrize("loss", ["poisson", "auto"])
def test_refit_keeps_the_loss_of_the_tree(loss):
    random = np.random.default_rng(0)
    X = random.normal(size=(256, 2))
    y = np.exp(X[:, 0] + 0.1 * random.normal(size=256))
    model = SecretRegressor(**OPTIONS, loss=loss).fit(X, y)
    expected = {"poisson": Poisson(), "auto": QuasiPoisson()}[loss]
    assert model.tree_.loss == expected
    again = model.set_params(loss="auto").refit(X, 2.0 * y)
    assert again.tree_.loss == expected
    np.testing.assert_allclose(again.predict(X), 2.0 * model.predict(X), rtol=1e-3)
    with refusal("no negative numbers"):
        model.refit(X, -y)


@pytest.mark.parametrize("loss", ["squared", "gamma", "poisson"])
@pytest.mark.parametrize("first", ["squared", "gamma"])
def test_refit_with_another_loss_is_a_fit_with_it(first, loss):
    X, y = shop(128)
    y = np.exp(y / 100.0) + 3.0
    expected = SecretRegressor(loss=loss, max_depth=0).fit(X, y).predict(X)
    model = SecretRegressor(loss=first, max_depth=0).fit(X, y)
    again = model.set_params(loss=loss).refit(X, y)
    assert again.tree_.loss == SecretRegressor(loss=loss).fit(X, y).tree_.loss
    np.testing.assert_allclose(again.predict(X), expected, rtol=0.01)  # tails differ


def test_constraints_hold_in_changed_trees():
    X, y = shop(128)
    model = SecretRegressor(**OPTIONS, monotonic_cst={"width": 1}).fit(X, y)
    new, its = shop(300, 3)
    node = int(np.flatnonzero(~model.tree_.is_leaf)[-1])
    for changed in (model.refit(new, -its), model.smaller(3), model.smaller(at=[node])):
        last = np.full(len(new), -np.inf)
        for width in np.linspace(new["width"].min(), new["width"].max(), 30):
            found = changed.predict(new.assign(width=width))
            assert (found >= last - 1e-6 * y.std()).all()
            last = found


def test_refit_knows_the_classes_and_refuses_gates(model):
    X, y = shop(128)
    labels = np.where(y > np.median(y), "high", "low")
    classifier = SecretClassifier(max_depth=1, prune=None, distill=False)
    classifier.fit(X, labels)
    again = classifier.refit(X[:100], labels[:100])
    assert again.classes_.tolist() == ["high", "low"]
    assert again.score(X, labels) > 0.6
    with refusal("class"):
        classifier.refit(X, np.where(labels == "high", "very high", "low"))
    soft = copy.copy(model)
    soft.tree_ = with_gates(model.tree_)
    with refusal("gates", "gates=False"):
        soft.refit(X, y)
    assert not soft.smaller(gates=False).refit(X, y).tree_.is_soft
