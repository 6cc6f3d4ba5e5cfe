"""Weights of rows by their classes."""

import numpy as np
import pytest
from sklearn.utils.class_weight import compute_sample_weight

from secret_jax import SecretClassifier
from secret_jax.data.labels import class_weights

CLASSES = np.array(["high", "low"])
LABELS = np.array(["low", "high", "low", "low", "high", "low"])
ONES = np.ones(len(LABELS))


def test_weights_are_in_proportion_to_those_of_scikit_learn_and_keep_their_sum():
    for given in ("balanced", {"low": 3, "high": 0.5}, {"high": 4.0}):
        found = class_weights(LABELS, CLASSES, ONES, given, None)
        expected = compute_sample_weight(given, LABELS)
        np.testing.assert_allclose(found, expected * len(LABELS) / expected.sum())


@pytest.mark.parametrize("given", ["balanced", {"low": 3, "high": 0.5}])
@pytest.mark.parametrize("priors", [None, np.array([0.7, 0.3])])
def test_a_row_of_weight_two_is_two_rows(given, priors):
    count = np.array([1, 3, 2, 1, 1, 0])
    found = class_weights(LABELS, CLASSES, count.astype(float), given, priors)
    several = np.repeat(LABELS, count)
    each = class_weights(several, CLASSES, np.ones(len(several)), given, priors)
    first = np.r_[0, np.cumsum(count)[:-1]][count > 0]
    np.testing.assert_allclose(found[count > 0], (count[count > 0] * each[first]))
    assert found.sum() == pytest.approx(count.sum())


def test_rows_of_classes_without_weight_are_no_rows():
    found = class_weights(LABELS, CLASSES, ONES, {"low": 7, "high": 0}, None)
    np.testing.assert_allclose(found, LABELS == "low")


def test_enormous_weights_stay_as_they_are():
    weight = np.full(len(LABELS), 1e308)
    assert class_weights(LABELS, CLASSES, weight, None, None) is weight


def test_a_factor_of_all_classes_changes_no_tree():
    random = np.random.default_rng(0)
    X = random.normal(size=(300, 2))
    y = np.where(random.random(300) < 1 / (1 + np.exp(-3 * X[:, 0])), "a", "b")
    fitted = [
        SecretClassifier(oblique=False, prune="bic", class_weight=each).fit(X, y)
        for each in (None, {"a": 50, "b": 50})
    ]
    assert fitted[1].tree_.weight[0] == 300
    found, expected = (model.predict_proba(X) for model in fitted)
    np.testing.assert_array_equal(found, expected)
