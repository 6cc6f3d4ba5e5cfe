"""Classes over the regions of a tree: optimal scores, and classes in order."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from secret_jax import KernelTreeClassifier, SecretClassifier
from secret_jax.composed.kernel import GreedySearch
from secret_jax.composed.kernel.scoring import CumulativeScores, OptimalScores
from secret_jax.data.labels import at_least, from_at_least, rank_error
from secret_jax.tree.file import ModelFileError

X, Y = load_iris(return_X_y=True)
TREE = SecretClassifier(splits="cart", oblique=False, prune=None, leaf="constant")
TREE.set_params(max_leaf_nodes=4)
HEADS = ["kernel", "local", "rbf", "gp"]


def regressed(target):
    design = np.column_stack([np.ones(len(X)), X])
    return design @ np.linalg.lstsq(design, target, rcond=None)[0]


def test_optimal_scores_of_a_linear_regression_are_linear_discriminants():
    member = np.eye(3)[Y]
    rows = np.r_[0:150, 0:30]  # classes of different shares
    fitted = regressed(member)
    scores = OptimalScores.of(fitted, member, np.bincount(rows, minlength=150) * 1.0)
    # The regression is of all rows once, so compare in the space of its predictions.
    peer = LinearDiscriminantAnalysis(solver="eigen", n_components=2)
    plane = np.linalg.svd(fitted - fitted.mean(axis=0), full_matrices=False)[0][:, :2]
    expected = peer.fit(plane[rows], Y[rows]).predict_proba(plane)
    np.testing.assert_allclose(scores.probability(fitted), expected, atol=1e-6)
    plain = OptimalScores.of(fitted, member, np.ones(150)).probability(fitted)
    lda = LinearDiscriminantAnalysis(solver="eigen").fit(X, Y).predict_proba(X)
    np.testing.assert_allclose(plain, lda, atol=1e-6)


def test_reached_classes_are_one_dichotomy_after_the_other():
    member = np.eye(3)[Y]
    reached = at_least(member)
    np.testing.assert_array_equal(1 - reached, np.cumsum(member, axis=1)[:, :-1])  # 6.8
    np.testing.assert_allclose(from_at_least(reached), member)
    fitted = regressed(reached)
    found = CumulativeScores.of(fitted, reached, np.ones(150)).probability(fitted)
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    assert (found >= 0).all()
    peers = [LinearDiscriminantAnalysis(solver="eigen").fit(X, j < Y) for j in (0, 1)]
    said = np.stack([peer.predict_proba(X)[:, 1] for peer in peers], axis=1)
    in_order = said[:, 0] >= said[:, 1]
    assert in_order.sum() > 90
    np.testing.assert_allclose(at_least(found)[in_order], said[in_order], atol=1e-6)
    mean = said[~in_order].mean(axis=1, keepdims=True)
    np.testing.assert_allclose(at_least(found)[~in_order] - mean, 0.0, atol=1e-6)


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("ordinal", [False, True])
def test_classes_are_predicted_and_files_keep_them(head, ordinal, tmp_path):
    names = np.array(["small", "middling", "large"])
    labels = pd.Series(
        pd.Categorical(names[Y], [*names[:2], "never seen", names[2]], ordered=True)
    )
    model = KernelTreeClassifier(TREE, head=head, ordinal=ordinal)
    model.fit(X[::2], labels[::2])
    assert model.classes_.tolist() == model.tree_.classes_.tolist() == names.tolist()
    probability = model.predict_proba(X[1::2])
    np.testing.assert_allclose(probability.sum(axis=1), 1.0)
    assert (probability >= 0).all()
    assert model.score(X[1::2], np.asarray(labels)[1::2]) > 0.9
    model.save(tmp_path / "model")
    again = KernelTreeClassifier.load(tmp_path / "model")
    assert np.array_equal(again.predict_proba(X), model.predict_proba(X))
    assert again.predict(X).tolist() == model.predict(X).tolist()
    with pytest.raises(ModelFileError, match="holds a KernelTreeClassifier"):
        SecretClassifier.load(tmp_path / "model")


@pytest.mark.parametrize("head", HEADS)
def test_pure_leaves_and_single_rows_of_a_class(head):
    few = np.r_[0:20, 50:70, 100]
    tree = SecretClassifier(splits="cart", oblique=False, prune=None, leaf="constant")
    tree.set_params(min_samples_leaf=1, min_samples_split=2)
    with pytest.warns(UserWarning, match="single row"):
        model = KernelTreeClassifier(tree, head=head).fit(X[few], Y[few])
    assert np.isfinite(model.predict_proba(1e3 * X)).all()
    with pytest.raises(ValueError, match="at least two classes"):
        model.fit(X[:20], Y[:20])


@pytest.mark.parametrize("head", [*HEADS, "auto"])
@pytest.mark.parametrize("search", [None, "greedy"])
def test_awkward_classes(head, search):
    """More columns than rows in leaves, copies, a class that has no rows."""
    rng = np.random.default_rng(0)
    x = np.tile(rng.normal(size=(30, 12)) * (np.arange(12) != 3), (2, 1))
    x[:, 5] = x[:, 4]
    names = np.array(["a", "b", "d"])[np.digitize(x[:, 0], [-0.5, 0.5])]
    y = pd.Series(pd.Categorical(names, ["a", "b", "c", "d"], ordered=True))
    some = search and GreedySearch(max_rows=30)
    model = KernelTreeClassifier(TREE, head=head, ordinal=True, search=some)
    probability = model.fit(x, y).predict_proba(np.concatenate([x, 1e3 * x]))
    assert model.classes_.tolist() == ["a", "b", "d"]
    np.testing.assert_allclose(probability.sum(axis=1), 1.0)
    assert model.score(x, names) > 0.8
    assert search is None or model.head_ == model.search_.head


def test_rank_errors_count_places():
    assert rank_error([1, 2, 3, 3], [1, 3, 1, 3], [1, 2, 3]) == 0.75
    with pytest.raises(ValueError, match="7 is none of the classes '1', '2'"):
        rank_error([1, 7], [1, 2], [1, 2])
