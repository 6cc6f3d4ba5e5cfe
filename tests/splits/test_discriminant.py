"""QDA, LDA and half-space probabilities against root finding and exhaustive search."""

from __future__ import annotations

import jax
import numpy as np
import pytest
import reference
from scipy.stats import norm

from secret_jax.splits.labelled import (
    lda_direction,
    left_probability,
    oriented,
    qda_threshold,
)

N_CASES = 512


def on_host(function):
    """NumPy's results; JAX has the same, for the same cases as many nodes."""

    def both(*arrays, **options):
        arrays = [np.asarray(array, np.float32) for array in arrays]
        with np.errstate(all="ignore"):
            found = function(*arrays, **options)
        traced = jax.jit(lambda *arrays: function(*arrays, **options))(*arrays)
        for one, other in zip(
            jax.tree.leaves(found), jax.tree.leaves(traced), strict=True
        ):
            assert one.dtype == other.dtype
            np.testing.assert_allclose(one, other, rtol=2e-4, atol=2e-5)
        return found

    return both


direction = on_host(lda_direction)


def qda(fraction, mean, variance):
    """Threshold of many nodes with a column each, arrays of shape (n_cases, 2)."""
    shape = len(mean), 2
    arrays = [np.broadcast_to(array, shape) for array in (fraction, mean, variance)]
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


def roots_of(cases):
    return each(reference.equal_density_point, cases)


def test_threshold_is_the_root_between_the_means(cases):
    point, between = qda(*cases)
    root = roots_of(cases)
    exists = ~np.isnan(root)
    assert 100 < exists.sum() < N_CASES - 50
    gap = np.abs(np.diff(cases[1], axis=1))[:, 0]
    # A root within rounding of a mean may be seen on either side of it.
    distance = np.min(np.abs(root[:, None] - cases[1]), axis=1)
    clear = ~exists | (distance > 1e-3 * gap)
    assert np.array_equal(between[clear], exists[clear])
    both = clear & exists
    np.testing.assert_allclose(point[both], root[both], rtol=2e-5, atol=2e-5)


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
        ((0.0, 2.0), 0.3 * 1.0 + 0.7 * 5.0),
        ((2.0, 0.0), 0.3 * 1.0 + 0.7 * 5.0),
        ((0.0, 0.0), 0.3 * 1.0 + 0.7 * 5.0),
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
    gap = rng.uniform(0.5, 6.0, N_CASES)
    mean = np.stack([np.zeros(N_CASES), gap], axis=1) - 2.0
    first = rng.uniform(0.45, 0.55, N_CASES)
    fraction = np.stack([first, 1 - first], axis=1)
    cases = tuple(array.astype(np.float32) for array in (fraction, mean, variance))
    point, between = qda(*cases)
    root = roots_of(cases)
    assert np.array_equal(between, ~np.isnan(root))
    assert between.sum() > N_CASES / 2
    # The linear equation leaves out log(v1 / v2), at most 2e-4 where it is used.
    np.testing.assert_allclose(point[between], root[between], atol=3e-4)


def test_compiled_thresholds_are_those_of_numpy(cases):
    fraction, mean, variance = cases
    nodes = fraction[:8], mean.reshape(8, 2, -1), variance.reshape(8, 2, -1)
    on_host(lambda *arrays: qda_threshold(*arrays)[0])(*nodes)


def test_threshold_follows_shifts_scales_and_names(cases):
    fraction, mean, variance = cases
    point, between = qda(fraction, mean, variance)
    swapped, also = qda(fraction[:, ::-1], mean[:, ::-1], variance[:, ::-1])
    assert np.array_equal(between, also)
    np.testing.assert_allclose(swapped, point, rtol=1e-4, atol=1e-5)
    for scale, shift in ((-1.0, 0.0), (2.0**-12, 0.0), (2.0**12, 0.0), (1.0, 64.0)):
        moved, also = qda(fraction, scale * mean + shift, scale**2 * variance)
        assert (between == also).mean() > 0.995
        same = between == also
        np.testing.assert_allclose(
            (moved[same] - shift) / scale, point[same], rtol=1e-4, atol=1e-4
        )


# Linear discriminant

P = 4


@pytest.fixture
def classes(rng):
    root = rng.normal(size=(2, P, P)) * np.array([1.0, 3.0, 0.5, 1.0])
    covariance = np.einsum("cij,cik->cjk", root, root)
    return np.array([0.3, 0.7]), rng.normal(size=(2, P)), covariance


def parts(fraction, mean, covariance):
    """What the direction is made of, for several nodes of these classes."""
    within = np.einsum("i,ijk->jk", fraction, covariance)
    return np.stack([within, 4 * within]), np.stack([mean[0] - mean[1]] * 2)


def test_direction_is_the_closed_form(classes):
    within, difference = parts(*classes)
    expected = np.linalg.solve(within[0], difference[0])
    got = direction(within, difference, tolerance=1e-6)
    expected = np.tile(expected / np.linalg.norm(expected), (2, 1))
    np.testing.assert_allclose(got, expected, atol=1e-4)


def test_direction_of_singular_classes(classes):
    """Constant and duplicated columns get a zero; the rest is as without them."""
    fraction, mean, covariance = classes
    mean[:, 3] = mean[:, 1]
    covariance[:, 3], covariance[:, :, 3] = covariance[:, 1], covariance[:, :, 1]
    mean[:, 0] = 7.0
    covariance[:, 0] = covariance[:, :, 0] = 0.0
    got = direction(*parts(fraction, mean, covariance), tolerance=1e-5)[0]
    kept = [1, 2]
    within = np.einsum("i,ijk->jk", fraction, covariance)[np.ix_(kept, kept)]
    expected = np.linalg.solve(within, (mean[0] - mean[1])[kept])
    assert got[0] == got[3] == 0
    np.testing.assert_allclose(
        got[kept], expected / np.linalg.norm(expected), atol=1e-4
    )


def test_direction_is_zero_where_the_means_coincide(classes):
    fraction, mean, covariance = classes
    mean[1] = mean[0]
    assert not direction(*parts(fraction, mean, covariance), tolerance=1e-6).any()


def test_the_largest_component_of_a_direction_is_positive(rng):
    given = rng.normal(size=(5, 3, P))
    given[0, 0] = 0
    got = on_host(oriented)(given)
    length = np.linalg.norm(given, axis=-1)
    length[0, 0] = 1
    largest = np.take_along_axis(
        given, np.abs(given).argmax(axis=-1)[..., None], axis=-1
    )
    expected = given * np.sign(largest) / length[..., None]
    np.testing.assert_allclose(got, expected, atol=1e-6)


# Half-spaces


probability = on_host(left_probability)


def test_left_probability():
    got = probability(
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
        got = 1 - probability(*along)
        assert got == pytest.approx(printed, abs=2e-6)
        inside = np.mean((sample - point) @ normal >= 0)
        # Five standard errors.
        assert abs(inside - got) < 5 * np.sqrt(0.25 / n_samples)
