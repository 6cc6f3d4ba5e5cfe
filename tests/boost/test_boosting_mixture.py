"""Boosters of linear models and of constants that predict together."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import secret_jax.ensemble.base as boost_base
from secret_jax import SecretBoostingClassifier, SecretBoostingRegressor, TreeSize
from secret_jax.data.encoding import encode
from secret_jax.tree import routing

LINES = TreeSize(max_leaf_nodes=4)
CONSTANTS = TreeSize(max_leaf_nodes=4, leaf="constant")


def steps(seed=0, n_rows=400):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n_rows, 3))
    y = np.round(3 * X[:, 0]) + 2 * (X[:, 2] > 0.3) + 0.5 * X[:, 1]
    return X, y + 0.1 * rng.normal(size=n_rows)


@pytest.fixture(scope="module", autouse=True)
def _two_sizes():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(boost_base, "SIZES", (LINES, CONSTANTS))
        yield


def booster(**parameters):
    options = {
        "learning_rate": 0.5,
        "max_iter": 6,
        "early_stopping": False,
        "n_folds": 2,
        "warm_start": True,
    }
    return SecretBoostingRegressor(**options | parameters)


def told(trees, table, rate=0.5):
    """What a booster says, tree by tree."""
    values = [routing.values(tree, table)[:, 0] for tree in trees]
    return values[0] + rate * np.sum(values[1:], axis=0)


def has_slopes(tree):
    return bool(tree.coefficient[:, :, 1:].any())


@pytest.fixture(scope="module")
def mixed():
    return booster().fit(*steps())


def test_the_two_kinds_are_weighted_by_least_squares_on_unseen_rows(mixed):
    boosted, rows = mixed._boosted, mixed._rows
    assert [member.size for member in boosted.members] == [LINES, CONSTANTS]
    unseen = np.zeros((2, rows.n_rows))
    for own, member in zip(unseen, boosted.members, strict=True):
        for part, trees in zip(boosted.parts, member.folds, strict=True):
            own[part] = told(trees, rows.table)[part]
    missed, change = rows.targets[:, 0] - unseen[0], unseen[1] - unseen[0]
    share = rows.weight @ (change * missed) / (rows.weight @ change**2)
    assert 0.05 < share < 0.5
    assert mixed.shares_[1] == [CONSTANTS, pytest.approx(share, abs=1e-4)]
    error = rows.weight @ (missed - share * change) ** 2 / rows.weight.sum()
    assert mixed.validation_error_ == pytest.approx(error, rel=1e-4)
    assert mixed.validation_error_ < mixed.validation_errors_[-1]
    slopes = [has_slopes(tree) for tree in boosted.members[1].whole]
    assert not any(slopes)  # the first of them is the mean


def test_a_mixture_predicts_the_weighted_mean_and_survives_a_file(mixed, tmp_path):
    X, _ = steps(seed=3)
    # Boosters of unequal lengths.
    boosted = mixed._boosted
    short = [
        replace(member, folds=tuple(trees[:4] for trees in member.folds))
        for member in boosted.members[1:]
    ]
    short = [replace(each, whole=each.whole[:4]) for each in short]
    boosted = replace(boosted, members=(boosted.members[0], *short))
    ensemble, expected = boosted.ensemble, 0.0
    table = encode(ensemble.schema, X)
    for member in boosted.members:
        for trees in [*member.folds, member.whole]:
            expected = expected + member.share * told(trees, table) / 3
    expected = ensemble.schema.restore_target(expected)
    other = booster()
    vars(other).update(vars(mixed))
    other.ensemble_ = ensemble
    np.testing.assert_allclose(other.predict(X), expected, atol=1e-5)
    stages = list(other.staged_predict(X))
    assert len(stages) == 7
    np.testing.assert_allclose(stages[-1], expected, atol=1e-5)
    other.save(tmp_path / "mixed.model")
    again = SecretBoostingRegressor.load(tmp_path / "mixed.model")
    np.testing.assert_array_equal(again.predict(X), other.predict(X))
    assert again.shares_ == mixed.shares_
    assert again.n_trees_ == 3 * (6 + 3)


def test_warm_start_goes_on_with_both(mixed):
    X, y = steps()
    going = booster(max_iter=3, early_stopping=False).fit(X, y)
    assert len(going._boosted.members) == 2
    going.set_params(max_iter=6, early_stopping=False).fit(X, y)
    np.testing.assert_allclose(going.predict(X), mixed.predict(X), atol=1e-5)
    same = going.validation_error_
    assert going.fit(X, y).validation_error_ == pytest.approx(same)
    assert going.shares_[1] == [CONSTANTS, pytest.approx(going.shares_[1][1])]


def test_constants_leave_where_a_mixture_saves_nothing():
    X, _ = steps()
    y = X @ [1.0, 2.0, 3.0] + np.sin(3 * X[:, 0])
    model = booster(max_iter=60, early_stopping=True).fit(X, y)
    assert [size for size, _ in model.shares_] == [LINES]
    # They have not run as long as the others.
    constant = dict((str(size), error) for size, error in model.size_errors_)
    assert constant[str(CONSTANTS)] > model.validation_error_


def test_constants_of_classes_take_a_share():
    X, y = steps()
    labels = (y > 0.5).astype(int)
    model = SecretBoostingClassifier(
        learning_rate=0.5, max_iter=4, early_stopping=False, n_folds=2
    )
    model.fit(X, labels)
    rows, shares = model._rows, [member.share for member in model._boosted.members]
    assert sum(shares) == pytest.approx(1.0)
    scores = sum(
        share
        * np.mean([told(t, rows.table) for t in [*each.folds, each.whole]], axis=0)
        for each, share in zip(model._boosted.members, shares, strict=True)
    )
    # The rows are in another order.
    expected = np.sort(1 / (1 + np.exp(-scores)))
    found = np.sort(model.predict_proba(X)[:, 1])
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert model.validation_error_ <= model.validation_errors_[-1]


def test_a_tree_learns_from_a_mixture(mixed):
    tree = mixed.distill(max_leaf_nodes=4)
    assert tree.distillation_["booster_error"] == mixed.validation_error_
    assert tree.distillation_["fidelity"] > 0.6


def test_constants_do_not_split_obliquely():
    size = TreeSize(leaf="constant", oblique=True)
    with pytest.raises(ValueError, match="set oblique=False"):
        SecretBoostingRegressor(max_leaf_nodes=size).fit(*steps())
