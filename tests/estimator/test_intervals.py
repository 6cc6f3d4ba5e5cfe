"""Standard deviations of predictions, and conformal intervals with their coverage."""

import dataclasses
import math

import numpy as np
import pytest
from configurations import crease, refusal, regressor, shop
from handmade import SHAPES, build_tree
from sklearn.exceptions import NotFittedError

from secret_jax import SecretRegressor
from secret_jax.estimators.conformal import (
    ConformalMixin,
    conformal_factor,
    node_deviations,
)

BORROWED = 30.0


def with_statistics(shape, seed=0):
    """A handmade tree with weights that add up, errors and degrees."""
    tree, rng = build_tree(SHAPES[shape], seed), np.random.default_rng(seed)
    weight = np.where(tree.is_leaf, rng.integers(3, 60, tree.n_nodes), 0).astype(float)
    for node in range(tree.n_nodes - 1, 0, -1):
        weight[tree.parent[node]] += weight[node]
    return dataclasses.replace(
        tree,
        weight=weight,
        train_error=rng.uniform(0.1, 2, (tree.n_nodes, 1)),
        degrees=np.full(tree.n_nodes, 2.0),  # least squares: intercept and one slope
    )


def reference_noise(tree, node):
    """By recursion and by listing the leaves below, unlike the code under test."""

    def leaves(top):
        if tree.left[top] < 0:
            return [top]
        return leaves(tree.left[top]) + leaves(tree.right[top])

    error = sum(tree.train_error[t, 0] * tree.weight[t] for t in leaves(node))
    free = sum(tree.weight[t] - 2 for t in leaves(node))
    if node == 0:
        return error / free
    above = reference_noise(tree, tree.parent[node])
    return math.exp(
        (free * math.log(error / free) + BORROWED * math.log(above)) / (free + BORROWED)
    )


@pytest.mark.parametrize("shape", SHAPES)
def test_deviations_equal_their_definition(shape):
    tree = with_statistics(shape)
    expected = [
        2.0 * math.sqrt(reference_noise(tree, t) * (1 + 2 / tree.weight[t]))
        for t in range(tree.n_nodes)
    ]
    np.testing.assert_allclose(node_deviations(tree), expected)


def test_a_line_with_noise_has_the_textbook_deviation():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 1))
    y = 3 * x[:, 0] + 2 * rng.normal(size=200)
    model = SecretRegressor.paper(oblique=False, random_state=0)
    model.set_params(max_depth=0, prune=None).fit(x, y)
    _, deviation = model.predict(x, return_std=True)
    design = np.column_stack([np.ones(200), x])
    residual = y - design @ np.linalg.lstsq(design, y)[0]
    expected = math.sqrt(residual @ residual / 198 * (1 + 2 / 200))
    np.testing.assert_allclose(deviation, expected, rtol=1e-5)


def conformity_scores(residual, deviation, weight):
    model = ConformalMixin()
    model._calibrate(residual, deviation, weight)
    return model.conformity_scores_, model.conformity_weight_


@pytest.mark.parametrize("coverage", [0.1, 0.5, 0.8, 0.9, 0.95])
def test_the_factor_is_a_rank_of_the_scores_and_weight_two_is_two_rows(coverage, rng):
    residual, deviation = rng.normal(size=57), rng.uniform(1, 2, 57)
    scores = conformity_scores(residual, deviation, np.ones(57))
    rank = math.ceil(58 * coverage)
    expected = sorted(abs(residual) / deviation)[rank - 1]
    assert conformal_factor(*scores, coverage) == expected
    weight = rng.integers(0, 4, 57)
    row = np.repeat(np.arange(57), weight)
    weighted = conformity_scores(residual, deviation, weight.astype(float))
    repeated = conformity_scores(residual[row], deviation[row], np.ones(len(row)))
    found = conformal_factor(*weighted, coverage)
    assert found == conformal_factor(*repeated, coverage)


@pytest.mark.parametrize(
    ("coverage", "needed"), [(0.5, 1), (0.8, 4), (0.9, 9), (0.95, 19), (0.99, 99)]
)
def test_the_fewest_rows_for_a_coverage(coverage, needed):
    scores = np.arange(1.0, needed + 1)
    assert conformal_factor(scores, np.ones(needed), coverage) == needed
    with refusal(f"coverage={coverage}", f"at least {needed}", f"saw {needed - 1}"):
        conformal_factor(scores[1:], np.ones(needed - 1), coverage)


@pytest.mark.parametrize("refine", [None, "blend"])
def test_intervals_through_the_estimator(refine):
    X, y = shop(256)
    model = regressor("default", refine=refine, max_leaf_nodes=4)
    model.fit(X[:128], y[:128])
    assert model.conformalize(X[128:], y[128:]) is model
    prediction, deviation = model.predict(X, return_std=True)
    score = np.sort(np.abs(y - prediction)[128:] / deviation[128:])
    for coverage in (0.1, 0.8, 0.99):
        lower, upper = model.predict_interval(X, coverage)
        factor = score[math.ceil(129 * coverage) - 1]
        # Few rows and many are predicted in numbers of other widths.
        np.testing.assert_allclose(upper - lower, 2 * factor * deviation, rtol=1e-4)
        np.testing.assert_allclose((upper + lower) / 2, prediction, rtol=1e-6)
    if refine is None:
        again = regressor("default", max_leaf_nodes=4).fit(X[:128], 8 * y[:128])
        _, eight = again.predict(X, return_std=True)
        np.testing.assert_allclose(eight, 8 * deviation, rtol=1e-6)


def test_calibration_survives_a_file_and_no_new_fit(tmp_path):
    X, y = crease(256)
    model = regressor("paper").fit(X[:128], y[:128])
    weight = np.random.default_rng(0).integers(0, 3, 128)
    model.conformalize(X[128:], y[128:], weight)
    model.save(tmp_path / "a.model")
    again = SecretRegressor.load(tmp_path / "a.model")
    for found, expected in zip(
        again.predict_interval(X), model.predict_interval(X), strict=True
    ):
        assert np.array_equal(found, expected)
    model.fit(X, y)
    assert not hasattr(model, "conformity_scores_")
    with pytest.raises(NotFittedError, match="conformalize"):
        model.predict_interval(X)


def test_what_intervals_refuse():
    X, y = crease()
    model = SecretRegressor.paper(random_state=0)
    for use in (model.conformalize, model.predict_interval):
        with pytest.raises(NotFittedError, match="not fitted yet"):
            use(X, *([y] if use == model.conformalize else []))
    model.set_params(max_depth=0).fit(X, y)
    with pytest.raises(NotFittedError, match=r"Call conformalize\(X, y\)"):
        model.predict_interval(X)
    model.conformalize(X[:8], y[:8] + 1.0)
    for coverage in (0, 1, -0.5, 1.5, np.nan, "0.9", True):
        with refusal("coverage must be a float in (0, 1)", repr(coverage)):
            model.predict_interval(X, coverage)
    with refusal("at least 9 calibration rows", "saw 8"):
        model.predict_interval(X, 0.9)
    with refusal("inconsistent numbers of samples"):
        model.conformalize(X, y[:-1])


def test_intervals_of_amounts_are_never_negative(rng):
    X = rng.uniform(size=(300, 2))
    y = rng.gamma(0.5, 4 * X[:, 0])
    model = SecretRegressor(loss="gamma", oblique=False).fit(X[:200], y[:200])
    lower, upper = model.conformalize(X[200:], y[200:]).predict_interval(X)
    assert 0 == lower.min() < upper.min()
    inside = np.mean((lower[200:] <= y[200:]) & (y[200:] <= upper[200:]))
    assert inside >= 0.9
