"""Boosters of classes: Newton steps, probabilities, and when they stop."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from configurations import refusal
from ensemble_tables import NAMES, SMALL, rings
from scipy.optimize import approx_fprime
from scipy.special import expit, softmax
from sklearn.metrics import log_loss

from secret_jax import SecretBoostingClassifier, SecretClassifier
from secret_jax.composed.ensemble.growth import total_error
from secret_jax.data.rows import Rows, Table
from secret_jax.losses.classes import CrossEntropy


@pytest.fixture(scope="module")
def three():
    return SecretBoostingClassifier(**SMALL).fit(*rings())


@pytest.fixture(scope="module")
def two():
    return SecretBoostingClassifier(**SMALL).fit(*rings(n_classes=2))


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_steps_are_newtons_by_numerical_derivatives(n_outputs):
    """Slopes of the loss itself; curvatures no less than that in any direction."""
    rng = np.random.default_rng(n_outputs)
    n = 12
    member = np.eye(3)[rng.integers(0, 3, n)][:, -n_outputs:]
    value, weight = rng.normal(size=(n, n_outputs)), rng.uniform(0.5, 2, n)
    rows = Rows(
        Table(np.zeros((n, 1), np.float32), np.zeros((n, 0), int)), member, weight
    )
    loss = CrossEntropy()

    def total(flat):
        return total_error(loss, rows, flat.reshape(n, n_outputs))

    step, new_weight = loss.steps(member, value, weight)
    slope = approx_fprime(value.ravel(), total, 1e-7).reshape(n, n_outputs)
    curvature = -slope / (step * weight[:, None])
    for i in range(n):
        short = np.abs(step[i]) < 3.9
        own = curvature[i, short]
        np.testing.assert_allclose(own, own[:1].repeat(len(own)), rtol=1e-4)
        p = expit(value[i]) if n_outputs == 1 else softmax(value[i])
        hessian = np.diag(p) - np.outer(p, p)
        largest = np.linalg.eigvalsh(hessian).max()
        if n_outputs == 1:
            np.testing.assert_allclose(own, largest, rtol=1e-4)
        else:
            assert (own >= largest * (1 - 1e-4)).all()
    assert new_weight.sum() == pytest.approx(weight.sum())
    share = new_weight / weight
    least = share < 0.99 * share.max()
    ratio = share[least] / curvature[least].min(axis=1)  # unless cut short
    np.testing.assert_allclose(ratio, ratio[0], rtol=1e-3)


def test_scores_are_sums_and_probabilities_follow(three, two):
    X, y = rings(400, seed=1)
    scores = three.decision_function(X)
    assert scores.shape == (400, 3)
    np.testing.assert_allclose(three.predict_proba(X), softmax(scores, axis=1))
    assert three.score(X, y) > 0.75
    X, y = rings(400, seed=1, n_classes=2)
    found = two.predict_proba(X)
    np.testing.assert_allclose(found[:, 1], expit(two.decision_function(X)))
    np.testing.assert_array_equal(
        two.predict(X), NAMES[(found[:, 1] > 0.5).astype(int)]
    )
    *_, last = two.staged_predict_proba(X)
    np.testing.assert_allclose(last, found, atol=1e-5)
    assert [len(p) for p in two.staged_predict(X)] == 5 * [400]


def test_without_rounds_it_is_logistic_regression():
    X, y = rings(n_classes=2)
    alone = SecretBoostingClassifier(
        max_iter=0, early_stopping=False, ensemble=False, max_leaf_nodes=4
    ).fit(X, y)
    leaf = SecretClassifier(max_depth=0, equation_tolerance=0.0, prune=None).fit(X, y)
    np.testing.assert_allclose(alone.predict_proba(X), leaf.predict_proba(X), atol=1e-5)


def test_the_cross_entropy_says_when_to_stop():
    X, y = rings()
    more, its = rings(200, seed=9)
    model = SecretBoostingClassifier(max_leaf_nodes=4, n_iter_no_change=3, max_iter=40)
    model.fit(X, y, eval_set=(more, its))
    errors = model.validation_errors_
    assert model.n_iter_ == np.argmin(errors)
    own = log_loss(its, model.predict_proba(more), labels=model.classes_)
    np.testing.assert_allclose(errors.min(), own, rtol=1e-4)
    assert own < 0.6 * errors[0]
    with refusal("In eval_set", "'none'"):
        model.fit(X, y, eval_set=(more, np.full(200, "none")))
    assert list(model.classes_) == list(NAMES)
    unfitted = SecretBoostingClassifier()
    with refusal("In eval_set", "'none'"):
        unfitted.fit(X, y, eval_set=(more, np.full(200, "none")))
    assert not hasattr(unfitted, "classes_")


def test_weights_and_files(three, tmp_path):
    X, y = rings()
    weight = {"low": 0.5, "middle": 1, "top": 0.5}
    weighted = SecretBoostingClassifier(**SMALL, class_weight=weight).fit(X, y)
    # Weights of classes are weights of their rows, but no copies of them.
    same = 0.5 + 0.5 * (y == "middle")
    other = SecretBoostingClassifier(**SMALL).fit(X, y, sample_weight=same)
    pair = (each.predict_proba(X) for each in (weighted, other))
    np.testing.assert_allclose(*pair, atol=1e-4)
    three.save(tmp_path / "classes.model")
    again = SecretBoostingClassifier.load(tmp_path / "classes.model")
    np.testing.assert_array_equal(again.predict_proba(X), three.predict_proba(X))


def test_missing_values_and_categories():
    rng = np.random.default_rng(0)
    colour = rng.choice(["red", "blue", None], 200)
    size = np.where(rng.random(200) < 0.2, np.nan, rng.normal(size=200))
    y = (colour == "red") ^ (np.nan_to_num(size) > 0.5)
    frame = pd.DataFrame({"colour": colour, "size": size})
    model = SecretBoostingClassifier(**SMALL | {"max_iter": 12}).fit(frame, y)
    assert model.score(frame, y) > 0.85
    assert model.classes_.dtype == bool


def test_what_is_refused_and_how_ordered_categories_order_the_classes():
    X, y = rings(30)
    with refusal("SecretBoostingClassifier", "only one class", "'low'"):
        SecretBoostingClassifier(**SMALL).fit(X, np.full(30, "low"))
    with refusal("SecretBoostingClassifier", "requires y"):
        SecretBoostingClassifier(**SMALL).fit(X, None)
    X = np.linspace(-1.0, 1.0, 60)[:, None]
    names = ["low", "mid", "high"]
    y = pd.Categorical.from_codes(np.repeat([0, 1, 2], 20), names, ordered=True)
    model = SecretBoostingClassifier(max_iter=1, max_leaf_nodes=2, early_stopping=False)
    assert model.fit(X, y).classes_.tolist() == names
    assert model.predict(X[[0, -1]]).tolist() == ["low", "high"]
