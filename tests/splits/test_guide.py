"""GUIDE and SUPPORT: their tests against SciPy, and no bias in selection."""

from __future__ import annotations

import numpy as np
import pytest
from level_batches import NodeRows, find, level_of
from scipy import stats

from secret_jax import LeastSquares, SecretRegressor
from secret_jax.data.ragged import RaggedRows
from secret_jax.learners import GuideSplits, SupportSplits
from secret_jax.learners.guide import compared, groups_of, sign_scores, table_scores
from secret_jax.learners.thresholds import ranked
from secret_jax.splits.axis import attributes
from secret_jax.tree.structure import SplitKind


@pytest.mark.parametrize("n_groups", [2, 4, 7])
def test_scores_order_tables_as_the_p_values_of_scipy_do(n_groups):
    random = np.random.default_rng(n_groups)
    scores, p_values = [], []
    for strength in np.linspace(0.0, 0.35, 8):
        group = random.integers(0, n_groups, 300)
        positive = random.uniform(size=300) < 0.5 + strength * (group == 0)
        table = [
            np.bincount(group[side], minlength=n_groups)
            for side in (positive, ~positive)
        ]
        values = np.stack([np.ones(300), positive]).astype(np.float32)
        one = RaggedRows(np.array([300])), group[None], n_groups, values
        scores.append(table_scores(*one).item())
        p_values.append(stats.chi2_contingency(table, correction=False).pvalue)
    normal = stats.norm.isf(p_values)
    # The cube root is an approximation: a tenth off for one degree of freedom.
    off = 0.7 if n_groups == 2 else 0.25
    np.testing.assert_allclose(scores, normal, atol=off)
    assert (np.argsort(scores) == np.argsort(normal)).all()


def noise(n_nodes, n_rows, finder, seed=0, x=None, n_categories=(3,)):
    """Nodes of numbers and categories that have nothing to do with the output."""
    random = np.random.default_rng(seed)
    shape = (n_nodes, n_rows)
    x = random.normal(size=(*shape, 3)) if x is None else x
    codes = [random.integers(0, n, shape) for n in n_categories]
    y, model = random.normal(size=shape), []
    codes = np.stack(codes, axis=2)
    for columns, target in zip(x, y, strict=True):
        design = np.column_stack([np.ones(n_rows), columns])
        model.append(np.linalg.lstsq(design, target, rcond=None)[0])
    return level_of(
        finder,
        list(map(NodeRows, x, y, codes)),
        n_categories=max(n_categories),
        random=random.random((n_nodes, finder.n_random(3)), dtype=np.float32),
        model=np.array(model, np.float32)[:, None],
    )


def test_scores_of_pairs_are_those_of_tables_of_both():
    level = noise(2, 120, GuideSplits(), n_categories=(3, 4))
    axis = attributes(level, level.targets[0])
    order = ranked(level, axis.projection, level.min_weight)
    groups = groups_of(level, axis, order, interactions=True)
    assert groups.pairs.tolist() == [
        *([0, 1], [0, 2], [0, 3], [0, 4], [1, 2], [1, 3], [1, 4], [2, 3], [2, 4]),
        [3, 4],
    ]
    x, codes = level.x, level.codes
    positive = x[0] * x[1] + (codes[0] == 1) * x[2] > 0
    scores = sign_scores(positive[None], groups)[1][:, 0]
    for node in range(2):
        own = slice(120 * node, 120 * node + 120)
        halves = x[:, own] > np.sort(x[:, own], axis=1)[:, 59:60]
        labels = [*halves.astype(int), *codes[:, own]]
        for (one, other), score in zip(groups.pairs, scores[node], strict=True):
            both = labels[one] * 4 + labels[other]
            table = [
                [np.sum(both[side] == g) for g in np.unique(both)]
                for side in (positive[own], ~positive[own])
            ]
            tested = stats.chi2_contingency(table, correction=False)
            share = 2 / (9 * tested.dof)
            expected = np.cbrt(tested.statistic / tested.dof) - (1 - share)
            assert float(score) == pytest.approx(expected / share**0.5, rel=1e-3)


def test_bootstrap_samples_take_the_advantage_of_categories_away():
    def share_of_discrete(n_bootstraps):
        finder = GuideSplits(interactions=False, n_bootstraps=n_bootstraps)
        found = find(noise(400, 128, finder), finder)
        return np.mean(found.kind == SplitKind.DISCRETE)

    # Least squares leaves no trend in the numbers: of four attributes the categories
    # have the clearest test too often.
    biased, calibrated = share_of_discrete(0), share_of_discrete(20)
    assert biased - calibrated > 0.03
    assert calibrated == pytest.approx(0.25, abs=3 * (0.19 / 400) ** 0.5)


def test_interactions_favour_neither_many_values_nor_numbers():
    finder = GuideSplits(n_bootstraps=16)
    random = np.random.default_rng(5)
    shape = (400, 128)
    x = np.stack([random.normal(size=shape), random.integers(0, 4, shape)], axis=2)
    found = find(noise(*shape, finder, x=x, n_categories=(2, 5, 12)), finder)
    chosen = found.attribute + 2 * (found.kind == SplitKind.DISCRETE)
    share = np.bincount(chosen, minlength=5) / shape[0]
    # The number of many values had three tenths where the best of its thresholds
    # spoke for it; standard errors are 0.02.
    np.testing.assert_allclose(share, 0.2, atol=0.06)


def guide(**fields):
    return SecretRegressor(
        splits=GuideSplits(**fields),
        leaf="linear" if fields.get("model") != "constant" else "constant",
        prune=None,
        max_depth=1,
        random_state=0,
    )


def test_curvature_finds_the_bent_attribute_and_where_it_bends():
    random = np.random.default_rng(0)
    X = random.uniform(-1, 1, (800, 5))
    y = X[:, 0] + np.abs(X[:, 3] - 0.2) * 2 + 0.1 * random.normal(size=800)
    tree = guide().fit(X, y).tree_
    assert (tree.kind[0], tree.attribute[0]) == (SplitKind.AXIS, 3)
    threshold = tree.threshold[0] * tree.schema.scale[3] + tree.schema.center[3]
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
    tree = guide(thresholds=1).fit(X, y).tree_
    assert tree.attribute[0] == 0
    assert tree.weight[tree.left[0]] == pytest.approx(50, abs=2)


# SUPPORT


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
