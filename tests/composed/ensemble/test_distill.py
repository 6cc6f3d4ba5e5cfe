"""One tree that has learned what boosters say."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from configurations import refusal
from ensemble_tables import rings, wave
from sklearn.metrics import log_loss

from secret_jax import (
    SecretBoostingClassifier,
    SecretBoostingRegressor,
    SecretClassifier,
    SecretRegressor,
)
from secret_jax.composed.ensemble.distill import teacher_of
from secret_jax.fit.refine.distillation import Distillation, student_rows
from secret_jax.losses.numbers import SQUARED_ERROR


@pytest.fixture(scope="module")
def booster():
    return SecretBoostingRegressor(
        max_leaf_nodes=4, max_iter=12, early_stopping=False, n_folds=2
    ).fit(*wave(noise=0.3))


def test_the_student_says_what_the_boosters_say(booster, tmp_path):
    X, y = wave(1000, seed=1, noise=0.3)
    tree = booster.distill(max_leaf_nodes=8)
    assert isinstance(tree, SecretRegressor)
    assert tree.n_leaves_ <= 8
    told = tree.distillation_
    teaching, learned = booster.predict(X), tree.predict(X)
    fidelity = 1 - np.var(teaching - learned) / np.var(teaching)
    assert abs(fidelity - told["fidelity"]) < 0.1
    error = np.mean((learned - y) ** 2) / np.var(y)
    assert abs(error - told["error"]) < 0.1
    expected = booster.validation_errors_[-1]
    assert told["booster_error"] == pytest.approx(expected) == booster.validation_error_
    assert told["numbers"] == tree.reading_cost_
    # Training rows measured it.
    assert tree.tree_.weight[0] == 300
    path = tmp_path / "student.model"
    tree.save(path)
    again = SecretRegressor.load(path)
    assert again.distillation_ == told
    np.testing.assert_array_equal(again.predict(X), learned)
    assert "x0" in tree.export_text()


def test_labels_at_the_rows_are_half_those_of_boosters_that_have_not_seen_them(booster):
    rows, boosted = booster._rows, booster._boosted
    teacher = teacher_of(booster.ensemble_, boosted, SQUARED_ERROR)
    schema = booster.ensemble_.schema
    learned, _ = student_rows(teacher, rows, schema, Distillation())
    n_rows = rows.n_rows
    for part, said in zip(teacher.parts, teacher.folds, strict=True):
        expected = 0.5 * rows.targets + 0.5 * said(rows.table)
        found = learned.targets[:n_rows]
        np.testing.assert_allclose(found[part], expected[part], atol=1e-5)
    points = learned.take(slice(n_rows, None))
    np.testing.assert_allclose(points.targets, teacher.predict(points.table), atol=1e-5)
    assert points.weight.sum() == pytest.approx(rows.weight.sum())


def test_a_model_from_a_file_asks_for_rows(booster, tmp_path):
    path = tmp_path / "booster.model"
    booster.save(path)
    again = SecretBoostingRegressor.load(path)
    with refusal("file", "X"):
        again.distill()
    free = booster.distill()  # its folds choose the size
    assert 2 <= free.n_leaves_ <= free.n_leaves_grown_
    assert np.isfinite(free.distillation_["error"])
    X, y = wave(noise=0.3)
    tree = again.distill(X, y, max_leaf_nodes=5)
    assert tree.n_leaves_ == 5
    assert np.isnan(tree.distillation_["error"])
    assert tree.score(X, y) > 0.5


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_tree_of_classes_learns_probabilities(n_classes):
    options = {"max_iter": 6, "early_stopping": False, "n_folds": 2}
    booster = SecretBoostingClassifier(max_leaf_nodes=4, **options)
    booster.fit(*rings(300, 0, n_classes))
    tree = booster.distill(max_leaf_nodes=6)
    assert isinstance(tree, SecretClassifier)
    assert 1 < tree.n_leaves_ <= 6
    X, y = rings(1000, 1, n_classes)
    told, learned = tree.distillation_, tree.predict_proba(X)
    teaching = booster.predict_proba(X)
    assert log_loss(y, learned) == pytest.approx(told["error"], abs=0.1)
    assert told["booster_error"] == booster.validation_error_
    spread = np.square(teaching - teaching.mean(axis=0)).sum()
    fidelity = 1 - np.square(teaching - learned).sum() / spread
    assert 0.6 < fidelity == pytest.approx(told["fidelity"], abs=0.15)
    assert booster.distill(X, y, max_leaf_nodes=3).score(X, y) > 0.5


def test_a_table_of_rare_categories_alone_is_distilled():
    code = np.random.default_rng(0).integers(0, 50, 150)
    X, y = pd.DataFrame({"word": [f"w{i}" for i in code]}), (code % 5).astype(float)
    model = SecretBoostingRegressor(max_iter=3, n_folds=3, random_state=1).fit(X, y)
    assert np.corrcoef(model.distill().predict(X), y)[0, 1] > 0.1
