"""SUPPORT's t tests beside SciPy's, and its splits beside the definition."""

from __future__ import annotations

import numpy as np
import pytest
from level_batches import NodeRows, level_of
from scipy import stats

from secret_jax import LeastSquares, SecretRegressor
from secret_jax.learners import SupportSplits
from secret_jax.learners.guide import compared, normal_score


def test_statistics_are_those_of_scipy():
    random = np.random.default_rng(0)
    values = random.normal(size=(2, 90, 5)) * np.arange(1, 6)
    above = random.uniform(size=(2, 90)) < 0.4
    values[above, 2] += 2.0
    values[above, 3] *= 3.0
    level = level_of(SupportSplits(), [NodeRows(own, own[:, 0]) for own in values])
    _, rest, found = compared(level, level.x, above.ravel())
    # Levene's F of two classes is the square of t.
    spread = np.square(compared(level, np.abs(rest), above.ravel())[2])
    for node in range(2):
        one, other = values[node, above[node]], values[node, ~above[node]]
        expected = stats.ttest_ind(one, other).statistic
        np.testing.assert_allclose(found[node], expected, atol=1e-4)
        each = stats.levene(one, other, center="mean", axis=0).statistic
        np.testing.assert_allclose(spread[node], each, rtol=1e-3)


@pytest.mark.parametrize("degrees", [1, 3, 8])
def test_scores_have_the_p_values_of_their_statistics(degrees):
    expected = stats.norm.isf([0.5, 0.1, 0.01, 1e-4])
    statistic = stats.chi2.isf(stats.norm.sf(expected), degrees)
    found = normal_score(statistic, np.array(float(degrees)))
    np.testing.assert_allclose(found, expected, atol=0.3 if degrees == 1 else 0.1)


def support(**parameters):
    options = {
        "splits": SupportSplits(),
        "leaf": LeastSquares(tail_share=0.0),
        "oblique": False,
        "prune": None,
        "max_depth": 1,
    }
    return SecretRegressor(**options | parameters)


@pytest.mark.parametrize("seed", range(3))
def test_the_split_is_at_the_average_of_the_means_in_the_clearest_attribute(seed):
    random = np.random.default_rng(seed)
    X = random.exponential(size=(300, 4))
    bent = (1 - seed) % 4
    y = X @ [1.0, -1.0, 0.5, 0.0] + (X[:, bent] - 1) ** 2
    y = y + 0.3 * random.normal(size=300)
    design = np.column_stack([np.ones(300), X])
    above = y - design @ np.linalg.lstsq(design, y, rcond=None)[0] > 0
    clearest = []
    for column in X.T:
        one, other = column[above], column[~above]
        means = stats.ttest_ind(one, other).statistic
        apart = stats.levene(one, other, center="mean").statistic
        clearest.append(max(means**2, apart))
    column = int(np.argmax(clearest))
    tree = support().fit(X, y).tree_
    assert int(tree.attribute[0]) == column
    middle = 0.5 * (X[above, column].mean() + X[~above, column].mean())
    left = tree.schema.center[column] + tree.threshold[0] * tree.schema.scale[column]
    assert np.array_equal(X[:, column] <= left, X[:, column] <= middle)
    # What a split gains is the drop of the residual sum of squares.
    rss = [
        np.linalg.lstsq(design[some], y[some], rcond=None)[1].item()
        for some in (np.ones(300, bool), X[:, column] <= middle, X[:, column] > middle)
    ]
    found = tree.gain[0] * tree.schema.target_scale**2
    assert found == pytest.approx(rss[0] - rss[1] - rss[2], rel=2e-3)
