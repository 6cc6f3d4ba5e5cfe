"""Weights have no unit and are no counts, and copies of rows are one observation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from sklearn.base import clone

from secret_jax import (
    KernelTreeRegressor,
    SecretBoostingRegressor,
    SecretClassifier,
    SecretForestRegressor,
    SecretRegressor,
)


class Rows(NamedTuple):
    x: np.ndarray
    y: np.ndarray

    def take(self, index: np.ndarray) -> Rows:
        return Rows(self.x[index], self.y[index])


def rows(n: int, seed: int) -> Rows:
    """Rows of a hinge with much noise, which a tree easily takes for structure."""
    random = np.random.default_rng(seed)
    x = random.normal(size=(n, 3))
    y = 2 * x[:, 0] + 3 * np.maximum(x[:, 1], 0) + 1.5 * random.normal(size=n)
    return Rows(x, y)


def fitted(model: Any, given: Rows, weight: np.ndarray | None = None) -> Any:
    return model.fit(given.x, given.y, sample_weight=weight)


def of_classes(model: Any, given: Rows, weight: np.ndarray | None = None) -> Any:
    return model.fit(given.x, given.y > 0, sample_weight=weight)


def of_stream(model: Any, given: Rows, weight: np.ndarray | None = None) -> Any:
    weight = np.ones(len(given.y)) if weight is None else weight
    parts = np.array_split(np.arange(len(given.y)), 3)
    several = [(given.x[part], given.y[part], weight[part]) for part in parts]
    return model.fit_stream(several)


WAYS: dict[str, tuple[Any, Callable]] = {
    "tree": (SecretRegressor(), fitted),
    "accurate": (SecretRegressor.accurate(gates=False), fitted),
    "paper": (SecretRegressor.paper(random_state=0), fitted),
    "cart": (SecretRegressor.literature("cart"), fitted),
    "guide": (SecretRegressor.literature("guide"), fitted),
    "counts": (SecretRegressor(loss="poisson"), fitted),
    "classes": (SecretClassifier(), of_classes),
    "forest": (SecretForestRegressor(n_estimators=10), fitted),
    "booster": (SecretBoostingRegressor(max_leaf_nodes=4, max_iter=30), fitted),
    "kernels": (KernelTreeRegressor(), fitted),
    "stream": (SecretRegressor(), of_stream),
}
NOT_OF_COPIES = ("accurate", "counts", "classes", "forest")
TRAINING, OTHERS = rows(500, 5), rows(2000, 6)


def said(name: str, given: Rows, weight: np.ndarray | None = None) -> np.ndarray:
    model, fit = WAYS[name]
    if name == "counts":
        given = given._replace(y=np.maximum(np.rint(given.y), 0))
    model = fit(clone(model), given, weight)
    if name == "classes":
        return model.predict_proba(OTHERS.x)[:, 1]
    return model.predict(OTHERS.x)


@pytest.mark.parametrize("name", WAYS)
def test_the_unit_of_weights_does_not_matter(name):
    weight = np.random.default_rng(0).lognormal(size=500)
    for base in (np.ones(500), weight, np.rint(10 * weight) + 1):
        expected = said(name, TRAINING, base)
        for unit in (30, 1.1e6):
            found = said(name, TRAINING, unit * base)
            np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", WAYS)
def test_no_weights_are_weights_of_one(name):
    expected = said(name, TRAINING)
    np.testing.assert_array_equal(said(name, TRAINING, np.ones(500)), expected)


@pytest.mark.parametrize("splits", ["rss", "secret"])
def test_rows_of_weight_zero_are_left_out(splits):
    weight = np.random.default_rng(3).integers(0, 3, 500)
    model, used = SecretRegressor(splits=splits, random_state=0), np.flatnonzero(weight)
    found = fitted(clone(model), TRAINING, weight).predict(OTHERS.x)
    few = fitted(clone(model), TRAINING.take(used), weight[used])
    np.testing.assert_array_equal(found, few.predict(OTHERS.x))


@pytest.mark.parametrize("name", WAYS)
def test_a_table_of_which_every_row_is_repeated_is_the_table(name):
    expected = said(name, TRAINING)
    for times in (2, 3):
        several = np.tile(np.arange(500), times)
        found = said(name, TRAINING.take(several))
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", [each for each in WAYS if each not in NOT_OF_COPIES])
def test_copies_are_rows_of_their_common_weight(name):
    drawn = np.random.default_rng(1).integers(0, 500, 500)
    weight = np.bincount(drawn, minlength=500)
    found = said(name, TRAINING.take(drawn))
    expected = said(name, TRAINING, weight)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_whole_numbers_do_not_grow_trees_that_know_their_rows():
    few = SecretRegressor().fit(*TRAINING).n_leaves_
    for weight in (np.full(500, 2), np.where(np.arange(500) % 2, 10, 1)):
        model = SecretRegressor().fit(*TRAINING, sample_weight=weight)
        assert model.n_leaves_ <= few + 1
        assert model.score(*OTHERS) > 0.74


@pytest.mark.parametrize("name", ["tree", "accurate", "classes", "forest", "booster"])
def test_weights_of_a_survey_may_be_rounded(name):
    weight = np.random.default_rng(0).lognormal(size=500)
    exact, rounded = (
        said(name, TRAINING, each) for each in (weight, np.rint(10 * weight) + 1)
    )
    target = OTHERS.y > 0 if name == "classes" else OTHERS.y
    errors = [np.mean((each - target) ** 2) for each in (exact, rounded)]
    assert abs(errors[0] - errors[1]) < 0.02 * target.var()


@pytest.mark.parametrize(("n_rows", "share"), [(300, 0.07), (2000, 0.15)])
@pytest.mark.parametrize("splits", ["default", "conjunctive", "secret", "cart"])
def test_a_side_may_weigh_just_the_least(splits, n_rows, share):
    model = SecretRegressor(oblique=False, leaf="constant", prune=None, max_depth=1)
    if splits != "default":
        model.set_params(splits=splits)
    for seed in range(12):
        rng = np.random.default_rng(seed)
        side = rng.random(n_rows) < share
        weight = rng.choice([0.1, 0.2, 0.3, 0.7, 1.1], n_rows)
        y = 10.0 * side + 0.01 * rng.normal(size=n_rows)
        model.set_params(min_samples_leaf=weight[side].sum() / weight.sum())
        assert model.fit(1.0 * side[:, None], y, weight).n_leaves_ == 2, seed


@pytest.mark.parametrize("splits", ["default", "secret", "cart"])
def test_a_side_may_not_lack_a_row_of_the_least(splits):
    """The second best split is taken where the best leaves a row too few."""
    model = SecretRegressor(oblique=False, leaf="constant", prune=None, max_depth=1)
    rng = np.random.default_rng(0)
    X = np.zeros((2000, 2))
    X[:399, 0], X[500:1000, 1] = 1.0, 1.0
    y = 10.0 * X[:, 0] + X[:, 1] + 0.01 * rng.normal(size=2000)
    if splits != "default":
        model.set_params(splits=splits)
    for least, attribute in ((399, 0), (400, 1)):
        model.set_params(min_samples_leaf=least).fit(X, y)
        assert model.tree_.attribute[0] == attribute
