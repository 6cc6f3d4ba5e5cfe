"""Gini gain against its definition, discrete splits against all subsets."""

from __future__ import annotations

import jax
import numpy as np
import pandas as pd
import pytest
import reference

from secret_jax import LeastSquares, SecretRegressor
from secret_jax.splits.labelled import best_subset, gini_gain
from secret_jax.tree.structure import SplitKind

K = 6
N_CASES = 200
SUBSETS = reference.all_subsets(K)


def gain_of(joint):
    """The package's gain of a table of classes by sides."""
    joint = np.asarray(joint) / np.sum(joint)
    args = joint[0].sum(), joint[:, 0].sum(), joint[0, 0]
    return float(gini_gain(*(np.full(1, a, np.float32) for a in args))[0])


def test_gini_gain_is_its_definition(rng):
    # Perfect splits, independent sides, all rows one way, and one class.
    special = [[[1, 0], [0, 1]], [[1, 0], [0, 3]], [[2, 4], [1, 2]], [[1, 0], [2, 0]]]
    special += [[[0, 1], [0, 2]], [[2, 3], [0, 0]]]
    gains = [0.5, 0.375, 0.0, 0.0, 0.0, 0.0]
    for joint, gain in zip(np.array(special, float), gains, strict=True):
        for same in (joint, joint[:, ::-1], joint[::-1]):
            assert gain_of(same) == pytest.approx(gain, abs=1e-7)
    for joint in rng.uniform(0, 1, (50, 2, 2)):
        assert gain_of(joint) == pytest.approx(reference.gini_gain(joint), abs=1e-6)


@pytest.fixture
def counts(rng):
    """Weights of two classes in six categories, some of them absent or of one class."""
    present = rng.choice([False, True, True], (N_CASES, 1, K))
    one_class = rng.random((N_CASES, 2, 1)) < 0.05
    counts = rng.integers(0, 9, (N_CASES, 2, K))
    return np.where(present & ~one_class, counts, 0) * 0.75


def find(counts, min_weight):
    """Of many attributes at once; compiled and not they are the same."""
    counts = counts.astype(np.float32)
    least = np.full(len(counts), min_weight, np.float32)
    split = best_subset(counts, least)
    traced = jax.jit(best_subset)(counts, least)
    np.testing.assert_allclose(split.gain, traced.gain, atol=1e-6)
    ties = np.sum(split.goes_left != traced.goes_left, axis=1) > 0
    assert ties.mean() < 0.05
    return split


def joint_of(counts, subset):
    return np.stack([counts[:, subset].sum(axis=1), counts[:, ~subset].sum(axis=1)], 1)


def test_best_of_all_subsets(counts):
    gain, goes_left = find(counts, 0.0)
    for case, found, subset in zip(counts, gain, goes_left, strict=True):
        joints = [joint_of(case, s) for s in SUBSETS]
        usable = [j for j in joints if j.sum() > 0 and (j.sum(axis=0) > 0).all()]
        if not usable:  # fewer than two categories are present
            assert found == -np.inf
            continue
        wanted = max(reference.gini_gain(joint) for joint in usable)
        assert found == pytest.approx(wanted, abs=1e-6)
        joint = joint_of(case, subset)
        assert reference.gini_gain(joint) == pytest.approx(wanted, abs=1e-6)


@pytest.mark.parametrize("min_weight", [4.0, 12.0])
def test_min_weight(counts, min_weight):
    """Of the prefixes of the order that leave enough on both sides, the best."""
    gain, goes_left = find(counts, min_weight)
    assert (gain == -np.inf).any()
    for case, found, subset in zip(counts, gain, goes_left, strict=True):
        weight = case.sum(axis=0)
        share = case[0] / np.where(weight > 0, weight, 1)
        order = sorted(np.flatnonzero(weight), key=lambda category: -share[category])
        prefixes = [np.isin(np.arange(K), order[:n]) for n in range(1, len(order))]
        joints = [joint_of(case, prefix) for prefix in prefixes]
        allowed = [j for j in joints if j.sum(axis=0).min() >= min_weight]
        if not allowed:
            assert found == -np.inf
            continue
        wanted = max(reference.gini_gain(joint) for joint in allowed)
        assert found == pytest.approx(wanted, abs=1e-6)
        assert joint_of(case, subset).sum(axis=0).min() >= min_weight


def test_min_weight_is_inclusive_and_infinity_forbids_all():
    counts = np.zeros((N_CASES, 2, K))
    counts[:, 0, 0] = counts[:, 1, 1] = 4.0
    for min_weight, allowed in ((4.0, True), (4.001, False), (np.inf, False)):
        gain, _ = find(counts, min_weight)
        assert (np.isfinite(gain) == allowed).all()


def test_absent_categories_follow_the_larger_side(counts):
    gain, goes_left = find(counts, 0.0)
    weight = counts.sum(axis=1)
    present = weight > 0
    left = np.sum(weight * goes_left, axis=1)
    right = weight.sum(axis=1) - left
    clear = np.isfinite(gain) & (left != right) & ~present.all(axis=1)
    sides = (left > right)[:, None] == goes_left
    assert {True, False} <= set((left > right)[clear].tolist())
    assert sides[clear][~present[clear]].all()


@pytest.mark.parametrize("prune", ["cross-validation", "holdout"])
def test_categories_that_only_pruning_rows_have_follow_the_larger_side(prune):
    rng = np.random.default_rng(0)
    letters = rng.choice(list("aab"), 400)
    y = np.where(letters == "a", 1.0, -3.0) + 0.1 * rng.normal(size=400)
    X = pd.DataFrame({"letter": letters})
    other = pd.DataFrame({"letter": ["c"] * 20 + ["a"] * 40 + ["b"] * 20})
    target = np.repeat([1.0, 1.0, -3.0], [20, 40, 20])
    prune = "auto" if prune == "cross-validation" else prune  # few rows: the same
    model = SecretRegressor(prune=prune, random_state=0)
    model.fit(X, y, eval_set=(other, target))
    np.testing.assert_allclose(model.predict(other), target, atol=0.1)
    assert model.tree_.weight[model.tree_.is_leaf].sum() == 480


@pytest.mark.parametrize(
    ("splits", "leaf"),
    [
        *(("cart", "constant"), ("m5", "constant"), ("rss", "linear")),
        *(("retis", "linear"), ("support", "linear"), ("phd", "linear")),
    ],
)
def test_finders_divide_categories_by_their_levels(splits, leaf):
    random = np.random.default_rng(0)
    code, x = random.integers(0, 6, 400), random.normal(size=(400, 2))
    level = np.array([0.0, 5.0, 0.1, 5.2, -0.2, 4.9])
    y = level[code] + 0.1 * random.normal(size=400)
    if leaf == "linear":  # then they are divided by what the equation leaves
        y += x @ [2.0, -1.0]
        leaf = LeastSquares(indicators=False)
    model = SecretRegressor(
        splits=splits, leaf=leaf, oblique=splits == "phd", max_depth=1, prune=None
    )
    model.set_params(categorical_features=[0], distill=False)
    tree = model.fit(np.column_stack([code, x]), y).tree_
    assert tree.kind[0] == SplitKind.DISCRETE
    assert set(np.flatnonzero(tree.goes_left[0])) in ({0, 2, 4}, {1, 3, 5})
