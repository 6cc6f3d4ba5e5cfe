"""GUIDE on the common driver: its tests against SciPy, and no bias in selection."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from secret_jax import GuideSplits, SecretRegressor
from secret_jax.splits.guide import _normal_score
from secret_jax.tree.structure import SplitKind


@pytest.mark.parametrize("n_groups", [2, 4, 7])
def test_scores_order_tables_as_the_p_values_of_scipy_do(n_groups):
    random = np.random.default_rng(n_groups)
    scores, p_values = [], []
    for strength in np.linspace(0.0, 0.35, 8):
        group = random.integers(0, n_groups, 300)
        positive = random.uniform(size=300) < 0.5 + strength * (group == 0)
        sign = jnp.array([positive, ~positive], jnp.float32)
        scores.append(float(_normal_score(sign, jnp.array(group), n_groups)))
        table = [
            np.bincount(group[side], minlength=n_groups)
            for side in (positive, ~positive)
        ]
        p_values.append(stats.chi2_contingency(table, correction=False).pvalue)
    normal = stats.norm.isf(p_values)
    # The cube root is an approximation: a tenth off for one degree of freedom.
    off = 0.7 if n_groups == 2 else 0.25
    np.testing.assert_allclose(scores, normal, atol=off)
    assert (np.argsort(scores) == np.argsort(normal)).all()


def guide(**fields):
    return SecretRegressor(
        splits=GuideSplits(**fields),
        leaf="linear" if fields.get("model") != "constant" else "constant",
        prune=None,
        max_depth=1,
        min_gain=0.0,
        random_state=0,
    )


def test_curvature_finds_the_bent_attribute_and_where_it_bends():
    random = np.random.default_rng(0)
    X = random.uniform(-1, 1, (800, 5))
    y = X[:, 0] + np.abs(X[:, 3] - 0.2) * 2 + 0.1 * random.normal(size=800)
    tree = guide().fit(X, y).tree_
    schema = tree.schema
    assert tree.kind[0] == SplitKind.AXIS
    assert tree.attribute[0] == 3
    threshold = tree.threshold[0] * schema.scale[3] + schema.center[3]
    assert threshold == pytest.approx(0.2, abs=0.1)


def test_an_interaction_that_no_single_attribute_shows_is_found():
    random = np.random.default_rng(1)
    X = random.uniform(-1, 1, (1500, 4))
    y = np.sign(X[:, 1] * X[:, 2]) + 0.2 * random.normal(size=1500)
    with_pairs = guide(model="constant").fit(X, y).tree_
    assert with_pairs.attribute[0] in (1, 2)


def test_the_median_is_taken_where_one_threshold_is_asked_for():
    random = np.random.default_rng(2)
    X = random.exponential(size=(100, 2))
    y = np.abs(X[:, 0] - 1) + 0.01 * random.normal(size=100)
    tree = guide(n_thresholds=1).fit(X, y).tree_
    assert tree.attribute[0] == 0
    assert tree.weight[tree.left[0]] == pytest.approx(50, abs=2)


def test_many_valued_attributes_have_no_advantage_in_pure_noise():
    random = np.random.default_rng(3)
    chosen = []
    for _ in range(40):
        binary = random.integers(0, 2, 200).astype(float)
        X = np.column_stack([binary, random.normal(size=(200, 2))])
        y = random.normal(size=200)
        tree = guide(model="constant", interactions=False).fit(X, y).tree_
        chosen.append(int(tree.attribute[0]))
    counts = np.bincount(np.array(chosen), minlength=3)
    # Each is chosen in a third of the cases; CART chooses the binary one in few.
    assert stats.chisquare(counts).pvalue > 0.001


def test_the_preset_takes_parameters_in_place_of_its_own():
    random = np.random.default_rng(0)
    X = random.normal(size=(300, 3))
    y = np.where(X[:, 0] > 0, 3 * X[:, 1], -3 * X[:, 1]) + 0.1 * random.normal(size=300)
    model = SecretRegressor.guide(prune=None, max_leaf_nodes=2).fit(X, y)
    tree = model.tree_
    assert tree.n_leaves == 2
    assert tree.schema.continuous[int(tree.attribute[0])] == 0
    # Least squares on the rows of each leaf, nothing shortened or clipped.
    for leaf in np.unique(model.apply(X)):
        own = model.apply(X) == leaf
        design = np.column_stack([np.ones(own.sum()), X[own]])
        expected = design @ np.linalg.lstsq(design, y[own], rcond=None)[0]
        np.testing.assert_allclose(model.predict(X[own]), expected, atol=1e-4)
