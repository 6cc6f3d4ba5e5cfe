"""CART's, M5's, RETIS's and PHD's splits beside their definitions."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from level_batches import NodeRows, find, level_of

from secret_jax import Constant, LeastSquares, SecretRegressor
from secret_jax.learners import CartSplits, M5Splits, PhdSplits, RetisSplits
from secret_jax.tree.structure import SplitKind

LEAST = 12
MEANS, LINES = Constant(clip_margin=None), LeastSquares(clip_margin=None)


def squares(X, y, weight):
    return weight @ (y - np.average(y, weights=weight)) ** 2


def deviation(X, y, weight):
    return np.sqrt(weight.sum() * squares(X, y, weight))


def squares_about_a_plane(X, y, weight):
    root = np.sqrt(weight)
    design = root[:, None] * np.column_stack([np.ones(len(y)), X])
    return np.sum((design @ np.linalg.lstsq(design, root * y)[0] - root * y) ** 2)


# The finder, its leaves, what a split lowers, and the unit of that in the target's.
LEARNERS = {
    "cart": (CartSplits(), MEANS, squares, 2),
    "m5": (M5Splits(), MEANS, deviation, 1),
    "retis": (RetisSplits(max_samples=None), LINES, squares_about_a_plane, 2),
}


def tree_of(splits, leaf, **parameters):
    """A tree grown as it is, of splits along axes."""
    options = {"oblique": False, "prune": None, "equation_tolerance": 0.0}
    options |= {"min_samples_leaf": LEAST, "distill": False, "random_state": 0}
    return SecretRegressor(splits=splits, leaf=leaf, **options | parameters)


def rows(seed, n=300):
    """A bend, an interaction, and few rows that lie far off, in three units."""
    random = np.random.default_rng(seed)
    z = random.normal(size=(n, 3))
    y = np.abs(z[:, 0] - 0.3) * 3 + z[:, 1] * z[:, 2] + 0.2 * random.normal(size=n)
    return z * [1.0, 20.0, 0.1] + [5.0, 0.0, 0.0], y + 9.0 * (z[:, 1] > 2.2)


def best_split(X, y, weight, cost):
    """(gain, column, values left and right of the cut), or None if none is allowed."""
    found, whole = [], cost(X, y, weight)
    for column in range(X.shape[1]):
        for low, high in pairwise(np.unique(X[:, column])):
            left = X[:, column] <= low
            if min(weight[left].sum(), weight[~left].sum()) >= LEAST - 1e-6:
                sides = [cost(X[s], y[s], weight[s]) for s in (left, ~left)]
                found.append((whole - sum(sides), column, low, high))
    return max(found, default=None)


@pytest.mark.parametrize("weighted", [False, True], ids=["alike", "weighted"])
@pytest.mark.parametrize("name", LEARNERS)
def test_every_split_is_the_best_of_all(name, weighted):
    splits, leaf, cost, power = LEARNERS[name]
    X, y = rows(int(weighted))
    weight = np.ones(len(y))
    if weighted:
        weight = np.random.default_rng(0).integers(1, 4, len(y)).astype(float)
        weight /= weight.mean()
    model = tree_of(splits, leaf, max_depth=3 if weighted else None)
    tree = model.fit(X, y, sample_weight=weight).tree_
    schema, scale = tree.schema, tree.schema.target_scale
    waiting, n_splits = [(0, np.ones(len(y), bool))], 0
    while waiting:
        node, inside = waiting.pop()
        if tree.depth[node] == model.max_depth:
            continue
        best = best_split(X[inside], y[inside], weight[inside], cost)
        spread = deviation(X[inside], y[inside], weight[inside]) / weight[inside].sum()
        if tree.left[node] < 0:
            assert best is None or (name == "m5" and spread <= 0.05 * scale)
            continue
        gain, column, low, high = best
        assert int(tree.attribute[node]) == column
        threshold = tree.threshold[node] * schema.scale[column] + schema.center[column]
        slack = 1e-5 * schema.scale[column]
        assert low - slack <= threshold <= high + slack
        assert tree.gain[node] * scale**power == pytest.approx(gain, rel=1e-3)
        left = X[:, column] <= low
        waiting.append((int(tree.left[node]), inside & left))
        waiting.append((int(tree.right[node]), inside & ~left))
        n_splits += 1
    assert n_splits >= (5 if weighted else 10)


def test_what_hardly_varies_is_not_split_by_m5():
    X, y = rows(2)
    y = np.where(X[:, 0] > 5, 100.0, 0.0) + 0.5 * y
    n_leaves = [
        tree_of(M5Splits(least_deviation=least), MEANS).fit(X, y).n_leaves_
        for least in (0.1, 0.0)
    ]
    assert n_leaves[0] == 2
    assert n_leaves[1] > 10


def test_noise_of_many_rows_gains_what_it_does_in_float64():
    n, least = 1 << 18, 8
    value = np.random.default_rng(1).normal(size=n)
    target = (value - value.mean()) / value.std()
    x = np.random.default_rng(2).permutation(n).astype(np.float32)
    level = level_of(
        M5Splits(),
        [NodeRows(x[:, None], target.astype(np.float32))],
        min_weight=np.full(1, least, np.float32),
    )
    found = float(find(level, M5Splits()).gain[0])
    ranked, count = target[np.argsort(x)], np.arange(1, n)
    sides = []
    for order, number in ((ranked, count), (ranked[::-1], count)):
        mean = np.cumsum(order)[:-1] / number
        sides.append(number * np.sqrt(np.cumsum(order**2)[:-1] / number - mean**2))
    gain = (n - sides[0] - sides[1][::-1])[least - 1 : n - least]
    assert found == pytest.approx(gain.max(), rel=0.02)


def test_fewer_thresholds_gain_less_and_nearly_as_much():
    (X, y), gains = rows(0, 2000), {}
    for thresholds in ("all", 32, 0.02, 1):
        model = tree_of(RetisSplits(thresholds=thresholds), LINES, max_depth=1)
        gains[thresholds] = model.fit(X, y).tree_.gain[0]
    assert gains[1] < gains[32] <= gains["all"] * (1 + 1e-5)
    assert gains[0.02] <= gains["all"] * (1 + 1e-5)
    assert min(gains[32], gains[0.02]) > 0.97 * gains["all"]


def test_a_single_sampled_threshold_leaves_both_sides_enough():
    X, y = rows(0, 100)
    splits = RetisSplits(thresholds=0.001)
    for seed in range(8):
        model = tree_of(
            splits, LINES, min_samples_leaf=40, max_depth=1, random_state=seed
        )
        assert model.fit(X, y).n_leaves_ == 2


def test_a_side_has_rows_enough_for_its_model():
    X, y = rows(0, 200)
    y[:3] += 1000.0 * np.arange(1, 4)  # worth a leaf of their own, if there were one
    model = tree_of(RetisSplits(), LINES, min_samples_leaf=1, min_samples_split=2)
    tree = model.fit(X, y).tree_
    assert tree.weight[tree.is_leaf].min() >= 2 * 4


# PHD


def bent_rows(seed=0, n=500):
    """Correlated attributes, and a target that bends along a sum of two of them."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 4)) @ random.normal(size=(4, 4))
    X = X * [1.0, 10.0, 0.1, 1.0]
    z = (X - X.mean(axis=0)) / X.std(axis=0)
    y = np.abs(z[:, 0] - z[:, 2] + 0.3) + z[:, 1]
    return X, y + random.uniform(-0.2, 0.2, n)


def phd_tree(X, y, oblique=True, **fields):
    model = SecretRegressor(
        oblique=oblique,
        splits=PhdSplits(max_samples=None, **fields),
        leaf=LeastSquares(clip_margin=None),
        prune=None,
        max_depth=1,
    )
    return model.fit(X, y).tree_


def hessian_direction(X, y):
    """Of the residuals of least squares, those beyond three deviations bounded."""
    z = X - X.mean(axis=0)
    design = np.column_stack([np.ones(len(y)), z])
    residual = y - design @ np.linalg.lstsq(design, y, rcond=None)[0]
    bounded = np.clip(residual, -3 * residual.std(), 3 * residual.std())
    bounded -= bounded.mean()
    root = np.linalg.inv(np.linalg.cholesky(np.cov(z.T, bias=True)))
    white = z @ root.T
    value, vector = np.linalg.eigh((white * bounded[:, None]).T @ white)
    return vector[:, np.argmax(np.abs(value))] @ root


@pytest.mark.parametrize("seed", range(3))
def test_the_direction_is_the_leading_one_and_the_cut_the_best_along_it(seed):
    X, y = bent_rows(seed)
    assert phd_tree(X, y, oblique=False).kind[0] == SplitKind.AXIS
    tree = phd_tree(X, y, thresholds="all")
    assert tree.kind[0] == SplitKind.OBLIQUE
    direction = hessian_direction(X, y)
    found = tree.direction[0] / tree.schema.scale
    alike = np.corrcoef(X @ found, X @ direction)[0, 1]
    assert abs(alike) > 0.9999
    # Least squares on both sides of every threshold.
    projection = X @ found
    design = np.column_stack([np.ones(len(y)), X / X.std(axis=0)])

    def rss(some):
        return np.linalg.lstsq(design[some], y[some], rcond=None)[1].item()

    values = np.sort(projection)
    totals = [rss(projection <= cut) + rss(projection > cut) for cut in values[9:-10]]
    best = values[9:-10][np.argmin(totals)]
    limit = tree.threshold[0] + tree.direction[0] @ (
        tree.schema.center / tree.schema.scale
    )
    assert ((projection <= limit) != (projection <= best)).sum() <= 1


def test_a_table_of_categories_alone_has_no_directions():
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 3, 120)
    frame = pd.DataFrame({"kind": pd.Categorical(np.array([*"abc"])[kind])})
    y = kind + 0.1 * rng.normal(size=120)
    model = SecretRegressor(splits="phd", leaf="linear", oblique=True).fit(frame, y)
    assert model.score(frame, y) > 0.9
