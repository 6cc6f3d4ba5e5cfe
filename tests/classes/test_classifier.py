"""The classifier: what it predicts, what it refuses, what is read of it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from secret_jax import SecretClassifier, SoftGates
from secret_jax.models.glm import ClassFrequencies

CHEAP = {"splits": "cart", "prune": None, "distill": False, "max_depth": 2}


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True, as_frame=True)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    return train_test_split(X, names, test_size=0.4, random_state=0, stratify=names)


@pytest.fixture(scope="module")
def several(iris):
    return SecretClassifier(**CHEAP).fit(iris[0], iris[2])


@pytest.fixture(scope="module")
def two(iris):
    label = np.where(iris[2] == "virginica", "yes", "no")
    return SecretClassifier(**CHEAP).fit(iris[0], label)


def test_the_default_predicts_rows_that_it_has_not_seen(iris):
    X, new, y, expected = iris
    model = SecretClassifier(oblique=False).fit(X, y)
    assert model.score(new, expected) > 0.93
    assert log_loss(expected, model.predict_proba(new)) < 0.2


@pytest.mark.parametrize(
    "labels",
    [
        np.array([-0.0, 1.0, 2.0]),
        np.array(["a", "b", "c"], object),
        pd.Categorical(["low", "high", "other"]),
        np.array([False, True, True]),
    ],
    ids=repr,
)
def test_labels_of_any_type_come_back(labels, iris):
    X, _, y, _ = iris
    _, place = np.unique(y, return_inverse=True)
    given = labels[place] if not hasattr(labels, "iloc") else labels.iloc[place]
    model = SecretClassifier(**CHEAP).fit(X, given)
    found = model.predict(X)
    assert found.dtype == model.classes_.dtype
    assert (found == np.asarray(given)).mean() > 0.9
    assert model.predict_proba(X).sum(axis=1) == pytest.approx(np.ones(len(X)))


def test_costs_move_the_decision_and_not_the_tree(two, iris):
    X = iris[0]
    careful = clone(two).set_params(costs=[[0, 1], [100, 0]])
    careful.fit(X, np.where(iris[2] == "virginica", "yes", "no"))
    probability = two.predict_proba(X)
    np.testing.assert_array_equal(careful.predict_proba(X), probability)
    expected = np.where(100 * probability[:, 1] > probability[:, 0], "yes", "no")
    np.testing.assert_array_equal(careful.predict(X), expected)
    assert (careful.predict(X) == "yes").sum() > (two.predict(X) == "yes").sum()


def test_decisions_are_the_logarithms_of_odds(two, several, iris):
    X = iris[1]
    odds = two.predict_proba(X)
    found = two.decision_function(X)
    np.testing.assert_allclose(found, np.log(odds[:, 1] / odds[:, 0]), rtol=1e-4)
    value = several.decision_function(X)
    shares = np.exp(value - value.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(several.predict_proba(X), shares, atol=1e-6)
    np.testing.assert_allclose(
        several.predict_log_proba(X), np.log(several.predict_proba(X))
    )


@pytest.mark.parametrize("refine", [None, "blend", "tao"])
def test_a_pruning_set_has_the_same_classes(iris, refine):
    X, new, y, expected = iris
    model = SecretClassifier(splits="cart", prune="holdout", refine=refine)
    model.fit(X, y, eval_set=(new, expected))
    assert model.score(X, y) > 0.9
    with pytest.raises(ValueError, match="In eval_set: its y holds the class 'rose'"):
        model.fit(
            X, y, eval_set=(new, np.where(expected == "setosa", "rose", expected))
        )


def refused(message, X, y, **parameters):
    with pytest.raises(ValueError, match=message):
        SecretClassifier(**CHEAP | parameters).fit(X, y)


@pytest.mark.parametrize("labels", ["datetime64[ns]", "datetime64[D]", object])
def test_labels_that_no_file_could_keep_are_refused_at_once(labels):
    y = np.array(["2024-01-01", "2024-01-02"] * 20, "datetime64[D]").astype(labels)
    refused("classes are text, whole numbers or truth values", np.eye(40), y)


def test_what_are_no_classes_is_refused_and_leaves_the_model_as_it_was(iris):
    X, _, y, _ = iris
    refused("Unknown label type.*use SecretRegressor", X, np.linspace(0, 1, len(X)))
    refused("at least two classes.*only one class: 'a'", X, ["a"] * len(X))
    refused("y has 2 columns", X, np.stack([y, y], axis=1))
    model = SecretClassifier(**CHEAP).fit(X, y)
    before = model.predict_proba(X)
    with pytest.raises(ValueError, match="only one class: 'setosa'"):
        model.fit(X.iloc[:, :1], y, sample_weight=(y == "setosa").astype(float))
    np.testing.assert_array_equal(model.predict_proba(X), before)
    assert model.classes_.tolist() == ["setosa", "versicolor", "virginica"]


@pytest.mark.parametrize("bad", [-0.1, np.nan, np.inf, "2", None, True])
@pytest.mark.parametrize("name", ["class_weight", "priors"])
def test_shares_of_classes_are_numbers_that_are_not_negative(name, bad, iris):
    shares = {"setosa": 0.5, "versicolor": 0.5, "virginica": bad}
    message = (
        rf"{name} must be finite and .*but that of the class 'virginica' is {bad!r}"
    )
    refused(message, iris[0], iris[2], **{name: shares})


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("priors", [0.5, 0.5], "priors must hold one number for each of the 3"),
        ("priors", "many", "priors must hold one number for each .*many"),
        ("priors", [0.5, -0.1, 0.6], "that of the class 'versicolor' is -0.1"),
        ("priors", [1.0, 0.0, 0.0], "positive for two classes or more"),
        ("priors", {"a": 1.0}, "priors names the class 'a', which y does not hold"),
        ("costs", [[0, 1, 1], [1, 0, 1], [np.nan, 1, 0]], "for 'setosa' costs nan"),
        ("costs", [[0, 1], [1, 0]], "costs must be a table of numbers with 3 rows"),
        ("costs", [[0, 1, 1], [1, 0, -2], [1, 1, 0]], "for 'virginica' costs -2"),
        ("class_weight", "heavy", "'class_weight' parameter"),
        ("leaf", "ridge", "'leaf' parameter"),
    ],
)
def test_priors_costs_and_weights_that_mean_nothing_are_refused(
    name, value, message, iris
):
    refused(message, iris[0], iris[2], **{name: value})


def test_a_class_of_one_row_is_told_of_and_one_of_none_is_wrong(several, iris):
    X, y = iris[0], iris[2].astype(object)
    y[0] = "rose"
    assert several.score(X, y) < several.score(X, iris[2])
    with pytest.warns(UserWarning, match="'rose' has a single row"):
        SecretClassifier(**CHEAP).fit(X, y.astype(str))


def noisy_rings(n_rows, seed):
    """Classes by the distance from the center, which single splits cut badly."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n_rows, 2))
    radius = np.hypot(*X.T) + 0.2 * random.normal(size=n_rows)
    return X, np.digitize(radius, [0.9, 1.6])


def test_gates_are_trained_by_cross_entropy(tmp_path):
    (X, y), (new, expected) = noisy_rings(500, 0), noisy_rings(2000, 1)
    gates = SoftGates(max_steps=512, widths=(0.3,))
    options = {"splits": "cart", "prune": "holdout", "oblique": False}
    hard = SecretClassifier(**options).fit(X, y)
    soft = SecretClassifier(**options, refine=gates).fit(X, y)
    assert soft.tree_.is_soft
    assert soft.n_refine_steps_ > 0
    losses = [log_loss(expected, m.predict_proba(new)) for m in (soft, hard)]
    assert losses[0] < 0.95 * losses[1]
    assert soft.predict_proba(new).sum(axis=1) == pytest.approx(np.ones(2000))
    # Errors of the nodes are those of the mixture on its training rows.
    tree = soft.tree_
    error = (tree.weight[:, None] * tree.train_error)[tree.is_leaf].sum() / 500
    assert error == pytest.approx(log_loss(y, soft.predict_proba(X)), rel=1e-3)
    assert "what the leaves say is mixed by these shares" in soft.export_text()
    soft.save(tmp_path / "soft")
    again = SecretClassifier.load(tmp_path / "soft")
    np.testing.assert_array_equal(again.predict_proba(new), soft.predict_proba(new))


def test_gates_are_refused_where_shares_are_the_models(iris):
    options = {"refine": "soft", "prune": "holdout"}
    leaf = ClassFrequencies(impurity="gini")
    refused("not defined for Brier", iris[0], iris[2], leaf=leaf, **options)
