"""Leaf models of losses against references in NumPy and scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from secret_jax import Logistic, SecretClassifier
from secret_jax.data.rows import Rows, Table
from secret_jax.losses.classes import CrossEntropy
from secret_jax.models.glm import ClassFrequencies, penalised_models
from secret_jax.models.interface import groups_of_levels


def blobs(n_classes, n=300, seed=0):
    """Overlapping classes of two columns, and a third that says nothing."""
    random = np.random.default_rng(seed)
    label = random.integers(0, n_classes, n)
    angle = 2 * np.pi * label / n_classes
    X = random.normal(size=(n, 3))
    X[:, 0] += 1.2 * np.cos(angle)
    X[:, 1] += 1.2 * np.sin(angle)
    return X, label


@pytest.mark.parametrize("n_classes", [2, 4])
def test_without_penalty_a_root_is_scikit_learns_logistic_regression(n_classes):
    X, label = blobs(n_classes)
    # So many degrees of freedom for nothing choose the weakest ridge.
    leaf = Logistic(prior=0.0, gcv_factor=0.0, n_steps=100, clip_margin=None)
    ours = SecretClassifier(
        splits="cart", leaf=leaf, max_depth=0, equation_tolerance=0.0, prune=None
    ).fit(X, label)
    theirs = LogisticRegression(C=1e8, tol=1e-9, max_iter=1000).fit(X, label)
    found, expected = ours.predict_proba(X), theirs.predict_proba(X)
    np.testing.assert_allclose(found, expected, atol=2e-4)


def test_what_is_penalised_is_the_correction_of_the_parents_model():
    # By an optimiser of the objective: the loss, with the parent's mean opinion as one
    # row more in the middle, and a price for slopes that differ from the parent's, in
    # units of the curvature: first where the parent stands, then where that led to.
    X, label = blobs(2, n=120, seed=3)
    targets = (label == 1).astype(float)[:, None]
    weight = np.random.default_rng(0).integers(1, 4, len(label)).astype(float)
    model = SecretClassifier(splits="cart", max_depth=0, prune=None).fit(X, label)
    tree = model.tree_
    rows = Rows(Table(X.astype(np.float32), np.zeros((120, 0), int)), targets, weight)
    (group,) = groups_of_levels(tree, rows)
    base = np.array([[[0.2, 0.5, -0.1, 0.3]]])
    loss = CrossEntropy()
    with_prior = group.with_centers(loss.prediction(group.values(base)), 1.0)
    models = penalised_models(loss, with_prior, base, Logistic().gcv_factor, 50)
    coefficient = models.coefficient[0, 0]

    parent = 1 / (1 + np.exp(-(base[0, 0, 0] + group.x @ base[0, 0, 1:])))
    x = np.vstack([group.x, weight @ group.x / weight.sum()])
    opinion = np.append(targets[:, 0], weight @ parent / weight.sum())
    counted = np.append(weight, 1.0)

    def spread(beta):
        value = beta[0] + x @ beta[1:]
        h = counted / (2 + np.exp(value) + np.exp(-value))
        return h @ (x - h @ x / h.sum()) ** 2

    def objective(beta, price):
        value = beta[0] + x @ beta[1:]
        loss = counted @ (np.logaddexp(0, value) - opinion * value)
        return loss + 0.5 * price @ (beta[1:] - base[0, 0, 1:]) ** 2

    def least(strength):
        at_parent = spread(base[0, 0])
        first = minimize(objective, base[0, 0], args=(strength * at_parent,), tol=1e-10)
        left = np.clip(spread(first.x), 0.1 * at_parent, at_parent)
        return minimize(objective, first.x, args=(strength * left,), tol=1e-10).x

    found = [least(strength) for strength in np.logspace(-6, 2.5, 18)]
    distance = [np.abs(beta - coefficient).max() for beta in found]
    best = int(np.argmin(distance))
    assert 0 < best < 17
    np.testing.assert_allclose(coefficient, found[best], atol=1e-3)


def test_nearly_constant_leaves_stay_away_from_certainty():
    X, label = blobs(3)
    label = np.where(X[:, 0] > 0, 1, 2 * (label > 0))  # pure on one side
    leaf = ClassFrequencies(prior=1.0)
    model = SecretClassifier(splits="cart", leaf=leaf, max_depth=1, prune=None)
    probability = model.fit(X, label).predict_proba(X)
    tree = model.tree_
    (pure,) = (node for node in (1, 2) if tree.mean[node].max() == pytest.approx(1.0))
    # One row of the root's shares more.
    n, share = tree.weight[pure], tree.mean[0]
    expected = (n * np.eye(3)[1] + share) / (n + 1)
    inside = model.apply(X) == pure
    np.testing.assert_allclose(
        probability[inside], np.tile(expected, (inside.sum(), 1)), rtol=1e-5
    )


def test_a_steep_slope_is_not_held_back():
    random = np.random.default_rng(0)
    X = random.normal(size=(6000, 3))
    chance = 1 / (1 + np.exp(-20 * (X @ [1, -1, 0.5]) - 1))
    label = random.random(6000) < chance
    model = SecretClassifier(
        splits="cart", max_depth=0, equation_tolerance=0.0, prune=None
    )
    model.fit(X[:3000], label[:3000])
    theirs = LogisticRegression(C=1e8, max_iter=1000).fit(X[:3000], label[:3000])
    ours, best = (
        log_loss(label[3000:], each.predict_proba(X[3000:])) for each in (model, theirs)
    )
    assert ours < 1.1 * best
