"""Labels that are no classes, and weights of rows by their classes."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.model_selection import KFold, cross_val_score
from sklearn.utils.class_weight import compute_sample_weight

from secret_jax import (
    KernelTreeClassifier,
    SecretBoostingClassifier,
    SecretClassifier,
    SecretOrdinalClassifier,
)
from secret_jax.data.labels import (
    MOST_CLASSES,
    class_weights,
    classes_of,
    validated_labels,
)

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


def test_rows_of_classes_without_weight_are_no_rows_and_enormous_weights_stay():
    found = class_weights(LABELS, CLASSES, ONES, {"low": 7, "high": 0}, None)
    np.testing.assert_allclose(found, LABELS == "low")
    weight = np.full(len(LABELS), 1e308)
    assert class_weights(LABELS, CLASSES, weight, None, None) is weight


def test_a_class_that_a_fold_lacks_has_a_weight_without_effect():
    given = {"low": 7, "middle": 3, "high": 2}
    with pytest.warns(UserWarning, match="'middle', which these rows do not hold"):
        found = class_weights(LABELS, CLASSES, ONES, given, None)
    np.testing.assert_allclose(found[LABELS == "low"], 3.5 * found[1])
    X, y = np.arange(40.0)[:, None] % 7, np.repeat(["a", "b"], 20)
    y[3] = "c"  # of one row, which a fold leaves out
    model = SecretClassifier(max_leaf_nodes=1, class_weight={"c": 2}, prune=None)
    folds = KFold(4, shuffle=True, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        assert np.isfinite(cross_val_score(model, X, y, cv=folds)).all()


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


def checked(y):
    labels = validated_labels(y, np.zeros((len(y), 1)), "Classifier")
    return classes_of(labels, np.ones(len(y)), "Classifier", y)


@pytest.mark.parametrize(
    "y",
    [
        pd.array(["a", "b", None] * 9, dtype="string"),
        pd.array([True, False, None] * 9, dtype="boolean"),
        pd.array([1, 2, None] * 9, dtype="Int64"),
        pd.Series(["a", "b", pd.NA] * 9, dtype=object),
        pd.Categorical(["a", "b", None] * 9),
        pl.Series(["a", "b", None] * 9),
        ["a", "b", pd.NA] * 9,
        ["a", "b", float("nan")] * 9,  # an array of such a list holds the text "nan"
        [1, 2, pd.NA] * 9,
    ],
    ids=lambda y: type(getattr(y, "dtype", y)).__name__,
)
def test_missing_labels_are_named_whatever_stands_for_them(y):
    with pytest.raises(ValueError, match="contains NaN: the class of row 2 is missing"):
        checked(y)


@pytest.mark.parametrize(
    ("y", "types"),
    [
        (np.array(["a", 1, 2.5] * 9, object), "int, str.*'a' in row 0 and 1 in row 1"),
        (["a", 1, 2] * 9, "int, str"),
        (pd.Series(["a", True] * 9), "bool, str"),
        (pd.Series([True, 2, 3] * 9, dtype=object), "bool, int"),
        (pd.Categorical(["a", 1, 2] * 9), "int, str"),
    ],
)
def test_labels_of_several_types_are_told_apart(y, types):
    match = rf"of several types: {types}.*y\.astype\(str\)"
    with pytest.raises(ValueError, match=match):
        checked(y)


def test_objects_of_one_type_are_labels_of_it():
    assert checked(np.array([2, 1] * 9, object)).tolist() == [1, 2]
    assert checked(pd.array([True, False] * 9, dtype="boolean")).dtype == bool
    assert len(checked(np.arange(4 * MOST_CLASSES) % MOST_CLASSES)) == MOST_CLASSES


@pytest.mark.parametrize(
    "model",
    [
        SecretClassifier(),
        SecretBoostingClassifier(),
        KernelTreeClassifier(),
        SecretOrdinalClassifier(),
    ],
    ids=lambda model: type(model).__name__,
)
def test_many_classes_are_refused_before_anything_is_fitted(model):
    X = np.random.default_rng(0).normal(size=(400, 5))
    age = pd.Series(np.arange(400) % 100, name="age")
    with pytest.raises(ValueError, match=r"'age' holds 100 .*SecretRegressor.*pd\.cut"):
        model.fit(X, age)
    with pytest.raises(
        ValueError, match=r"400 rows, .*at most 50.* join the rare ones"
    ):
        model.fit(X, [f"id {i % 100}" for i in range(400)])


def test_what_is_scored_is_checked_like_what_is_fitted():
    X = np.arange(40.0)[:, None]
    y = np.where(X[:, 0] > 19, "b", "a")
    model = SecretClassifier.literature("cart", max_depth=1).fit(X, y)
    assert model.score(X, pd.Series(y, dtype="string")) == 1.0
    with pytest.raises(ValueError, match="the class of row 0 is missing"):
        model.score(X, pd.Series([pd.NA, *y[1:]], dtype="string"))
