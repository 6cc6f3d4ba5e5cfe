"""Discriminants, half-spaces and subsets of given labels, against root finding, closed
forms and exhaustive search; compiled they are the same.
"""

from __future__ import annotations

import jax
import numpy as np
import pandas as pd
import pytest
import reference
from scipy.stats import norm

from secret_jax import LeastSquares, SecretRegressor
from secret_jax.splits.labelled import (
    best_subset,
    gini_gain,
    lda_direction,
    left_probability,
    oriented,
    qda_threshold,
)
from secret_jax.tree.structure import SplitKind

N_CASES = 512


def on_both(function):
    """What a function gives in NumPy; JAX gives the same."""

    def called(*arrays, **options):
        arrays = [np.asarray(array, np.float32) for array in arrays]
        with np.errstate(all="ignore"):
            found = function(*arrays, **options)
        traced = jax.jit(lambda *arrays: function(*arrays, **options))(*arrays)
        for one, other in zip(*map(jax.tree.leaves, (found, traced)), strict=True):
            assert one.dtype == other.dtype
            np.testing.assert_allclose(one, other, rtol=2e-4, atol=2e-5)
        return found

    return called


# Thresholds by quadratic discriminants


def qda(fraction, mean, variance):
    """Threshold of many nodes with a column each, arrays of shape (n_cases, 2)."""
    arrays = [np.broadcast_to(a, (len(mean), 2)) for a in (fraction, mean, variance)]
    arrays = [np.asarray(array, np.float32) for array in arrays]
    with np.errstate(all="ignore"):
        point, between = qda_threshold(arrays[0], *(a[..., None] for a in arrays[1:]))
    return point[:, 0], between[:, 0]


@pytest.fixture
def cases(rng):
    """Random fractions, means and variances, exactly representable in float32."""
    first = rng.uniform(0.02, 0.98, N_CASES)
    fraction = np.stack([first, 1 - first], axis=1)
    mean = 2 * rng.normal(size=(N_CASES, 2))
    variance = np.exp(1.5 * rng.normal(size=(N_CASES, 2)))
    return tuple(a.astype(np.float32) for a in (fraction, mean, variance))


def each(function, cases):
    """The reference for every case, in float64; NaN where there is no answer."""
    doubles = (array.astype(np.float64) for array in cases)
    return np.array([function(*c) for c in zip(*doubles, strict=True)], np.float64)


def test_threshold_is_the_root_between_the_means(cases):
    fraction, mean, variance = cases
    point, between = qda(*cases)
    root = each(reference.equal_density_point, cases)
    exists = ~np.isnan(root)
    assert 100 < exists.sum() < N_CASES - 50
    gap = np.abs(np.diff(mean, axis=1))[:, 0]
    # A root within rounding of a mean may be seen on either side of it.
    distance = np.min(np.abs(root[:, None] - mean), axis=1)
    clear = ~exists | (distance > 1e-3 * gap)
    assert np.array_equal(between[clear], exists[clear])
    both = clear & exists
    np.testing.assert_allclose(point[both], root[both], rtol=2e-5, atol=2e-5)
    # It follows shifts, scales and names.
    swapped, also = qda(fraction[:, ::-1], mean[:, ::-1], variance[:, ::-1])
    assert np.array_equal(between, also)
    np.testing.assert_allclose(swapped, point, rtol=1e-4, atol=1e-5)
    for scale, shift in ((-1.0, 0.0), (2.0**-12, 0.0), (2.0**12, 0.0), (1.0, 64.0)):
        moved, also = qda(fraction, scale * mean + shift, scale**2 * variance)
        same = between == also
        assert same.mean() > 0.995
        back = (moved[same] - shift) / scale
        np.testing.assert_allclose(back, point[same], rtol=1e-4, atol=1e-4)
    nodes = fraction[:8], mean.reshape(8, 2, -1), variance.reshape(8, 2, -1)
    on_both(lambda *arrays: qda_threshold(*arrays)[0])(*nodes)


def test_point_where_no_root_lies_between_the_means(cases):
    fraction, mean, variance = cases
    together = mean.copy()
    together[: N_CASES // 2, 1] = together[: N_CASES // 2, 0]  # coinciding means
    together[N_CASES // 2 :, 1] = together[N_CASES // 2 :, 0] * 1.01
    point, between = qda(fraction, together, variance)
    assert not between[: N_CASES // 2].any()
    assert (~between).sum() > 0.7 * N_CASES
    pulled = each(reference.pulled_point, (fraction, together, variance))
    np.testing.assert_allclose(point[~between], pulled[~between], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("variance", "expected"),
    [
        *((pair, 0.3 * 1.0 + 0.7 * 5.0) for pair in ((0, 2), (2, 0), (0, 0))),
        # Equal: the linear equation.
        ((2.0, 2.0), 3 + 2 * np.log(3 / 7) / 4),
        # Equal, but so wide that the rarer class is never denser between the means.
        ((200.0, 200.0), 0.3 * 1.0 + 0.7 * 5.0),
        # One wide and common: denser everywhere between the means.
        ((1600.0, 900.0), (0.3 * 40 + 0.7 * 30 * 5.0) / (0.3 * 40 + 0.7 * 30)),
    ],
)
def test_threshold_by_hand(variance, expected):
    point, between = qda([[0.3, 0.7]], [[1.0, 5.0]], [variance])
    assert point[0] == pytest.approx(expected, rel=1e-5)
    assert between[0] == (variance == (2.0, 2.0))


def test_nearly_equal_variances(rng):
    """No cancellation: the quadratic and the linear equation meet smoothly."""
    difference = np.geomspace(1e-8, 0.3, N_CASES)
    variance = np.stack([np.ones(N_CASES), 1 + difference], axis=1)
    mean = np.stack([np.zeros(N_CASES), rng.uniform(0.5, 6.0, N_CASES)], axis=1) - 2.0
    first = rng.uniform(0.45, 0.55, N_CASES)
    fraction = np.stack([first, 1 - first], axis=1)
    cases = tuple(array.astype(np.float32) for array in (fraction, mean, variance))
    point, between = qda(*cases)
    root = each(reference.equal_density_point, cases)
    assert np.array_equal(between, ~np.isnan(root))
    assert between.sum() > N_CASES / 2
    # The linear equation leaves out log(v1 / v2), at most 2e-4 where it is used.
    np.testing.assert_allclose(point[between], root[between], atol=3e-4)


# Directions and half-spaces


@pytest.mark.parametrize("singular", [False, True])
def test_direction_is_the_closed_form_of_columns_that_are_not_dependent(rng, singular):
    """Constant and duplicated columns get a zero; the rest is as without them."""
    root = rng.normal(size=(2, 4, 4)) * np.array([1.0, 3.0, 0.5, 1.0])
    covariance, mean = np.einsum("cij,cik->cjk", root, root), rng.normal(size=(2, 4))
    kept = [1, 2] if singular else [0, 1, 2, 3]
    if singular:
        mean[:, 3], mean[:, 0] = mean[:, 1], 7.0
        covariance[:, 3], covariance[:, :, 3] = covariance[:, 1], covariance[:, :, 1]
        covariance[:, 0] = covariance[:, :, 0] = 0.0
    within = 0.3 * covariance[0] + 0.7 * covariance[1]
    expected = np.zeros(4)
    difference = mean[0] - mean[1]
    expected[kept] = np.linalg.solve(within[np.ix_(kept, kept)], difference[kept])
    nodes = np.stack([within, 4 * within]), np.stack([difference] * 2)
    found = on_both(lda_direction)(*nodes, tolerance=1e-5)
    expected = np.tile(expected / np.linalg.norm(expected), (2, 1))
    np.testing.assert_allclose(found, expected, atol=1e-4)
    assert singular == (found == 0).any()
    assert not on_both(lda_direction)(nodes[0], 0 * nodes[1], tolerance=1e-5).any()


def test_the_largest_component_of_a_direction_is_positive(rng):
    given = rng.normal(size=(5, 3, 4))
    given[0, 0] = 0
    length = np.maximum(np.linalg.norm(given, axis=-1, keepdims=True), 1e-30)
    place = np.abs(given).argmax(axis=-1)[..., None]
    expected = given * np.sign(np.take_along_axis(given, place, axis=-1)) / length
    np.testing.assert_allclose(on_both(oriented)(given), expected, atol=1e-6)


def test_left_probability():
    got = on_both(left_probability)(
        [0.0, 1.0, -2.0, 3.0, 3.0, 3.0],
        [1.0, 4.0, 0.25, 0.0, 0.0, 0.0],
        [0.0, 3.0, -3.0, 2.9, 3.0, 3.1],
    )
    expected = [0.5, norm.cdf(1.0), norm.cdf(-2.0), 0.0, 1.0, 1.0]
    np.testing.assert_allclose(got, expected, rtol=1e-5)


def test_half_space_is_one_dimensional(rng):
    """Proposition 1: sampling, its printed formula, and the projection agree."""
    d, n_samples = 4, 400_000
    root = rng.normal(size=(d, d)) * [1.0, 2.0, 0.5, 1.0]
    covariance, mean = root.T @ root, rng.normal(size=d)
    sample = mean + rng.normal(size=(n_samples, d)) @ root
    for _ in range(4):
        normal, point = rng.normal(size=d), rng.normal(size=d)
        printed = reference.half_space_probability(mean, covariance, normal, point)
        along = normal @ mean, normal @ covariance @ normal, normal @ point
        got = 1 - on_both(left_probability)(*along)
        assert got == pytest.approx(printed, abs=2e-6)
        inside = np.mean((sample - point) @ normal >= 0)
        # Five standard errors.
        assert abs(inside - got) < 5 * np.sqrt(0.25 / n_samples)


# Subsets of categories

K = 6
SUBSETS = reference.all_subsets(K)


def test_gini_gain_is_its_definition(rng):
    # Perfect splits, independent sides, all rows one way, and one class.
    special = [[[1, 0], [0, 1]], [[1, 0], [0, 3]], [[2, 4], [1, 2]], [[1, 0], [2, 0]]]
    special += [[[0, 1], [0, 2]], [[2, 3], [0, 0]]]
    gains = [0.5, 0.375, 0.0, 0.0, 0.0, 0.0]
    known = zip(np.array(special, float), gains, strict=True)
    turned = [(same, g) for t, g in known for same in (t, t[:, ::-1], t[::-1])]
    random = [(t, reference.gini_gain(t)) for t in rng.uniform(0, 1, (50, 2, 2))]
    for joint, gain in turned + random:
        share = joint / joint.sum()
        parts = share[0].sum(), share[:, 0].sum(), share[0, 0]
        found = gini_gain(*(np.full(1, part, np.float32) for part in parts))
        assert float(found[0]) == pytest.approx(gain, abs=1e-6)


@pytest.fixture
def counts(rng):
    """Weights of two classes in six categories, some of them absent or of one class."""
    present = rng.choice([False, True, True], (200, 1, K))
    one_class = rng.random((200, 2, 1)) < 0.05
    return np.where(present & ~one_class, rng.integers(0, 9, (200, 2, K)), 0) * 0.75


def subset_of(counts, min_weight):
    """Of many attributes at once; compiled and not they are the same."""
    counts = counts.astype(np.float32)
    least = np.full(len(counts), min_weight, np.float32)
    split, traced = best_subset(counts, least), jax.jit(best_subset)(counts, least)
    np.testing.assert_allclose(split.gain, traced.gain, atol=1e-6)
    ties = np.sum(split.goes_left != traced.goes_left, axis=1) > 0
    assert ties.mean() < 0.05
    return split


def joint_of(counts, subset):
    return np.stack([counts[:, subset].sum(axis=1), counts[:, ~subset].sum(axis=1)], 1)


def prefixes(case):
    """Of the order of the first class's shares."""
    weight = case.sum(axis=0)
    share = case[0] / np.where(weight > 0, weight, 1)
    order = sorted(np.flatnonzero(weight), key=lambda category: -share[category])
    return [np.isin(np.arange(K), order[:n]) for n in range(1, len(order))]


@pytest.mark.parametrize("min_weight", [0.0, 4.0, 12.0, np.inf])
def test_the_best_subset_that_leaves_enough_on_both_sides(counts, min_weight):
    """Of all subsets, or with a least weight of the prefixes of an order."""
    gain, goes_left = subset_of(counts, min_weight)
    assert (gain == -np.inf).any()
    for case, found, subset in zip(counts, gain, goes_left, strict=True):
        tried = prefixes(case) if min_weight else SUBSETS
        joints = [joint_of(case, each) for each in tried]
        least = max(min_weight, 1e-9)
        usable = [joint for joint in joints if joint.sum(axis=0).min() >= least]
        if not usable:
            assert found == -np.inf
            continue
        wanted = max(reference.gini_gain(joint) for joint in usable)
        joint = joint_of(case, subset)
        assert found == pytest.approx(wanted, abs=1e-6)
        assert reference.gini_gain(joint) == pytest.approx(wanted, abs=1e-6)
        assert joint.sum(axis=0).min() >= min_weight


def test_absent_categories_follow_the_larger_side(counts):
    gain, goes_left = subset_of(counts, 0.0)
    weight = counts.sum(axis=1)
    present, left = weight > 0, np.sum(weight * goes_left, axis=1)
    right = weight.sum(axis=1) - left
    clear = np.isfinite(gain) & (left != right) & ~present.all(axis=1)
    sides = (left > right)[:, None] == goes_left
    assert {True, False} <= set((left > right)[clear].tolist())
    assert sides[clear][~present[clear]].all()


@pytest.mark.parametrize("prune", ["auto", "holdout"])
def test_categories_that_only_pruning_rows_have_follow_the_larger_side(prune):
    rng = np.random.default_rng(0)
    letters = rng.choice(list("aab"), 400)
    y = np.where(letters == "a", 1.0, -3.0) + 0.1 * rng.normal(size=400)
    X = pd.DataFrame({"letter": letters})
    other = pd.DataFrame({"letter": ["c"] * 20 + ["a"] * 40 + ["b"] * 20})
    target = np.repeat([1.0, 1.0, -3.0], [20, 40, 20])
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
