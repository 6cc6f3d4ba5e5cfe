"""Splits of whole nodes against float64, and their independence of other nodes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import reference
from level_batches import (
    NodeRows,
    candidates,
    find,
    goes_left,
    level_of,
    node_rows,
    with_rows,
)

from secret_jax import SecretSplits
from secret_jax.splits.interface import Level, Split
from secret_jax.splits.mixture import MixtureStatus, whiten
from secret_jax.splits.secret import best_fit
from secret_jax.tree.structure import SplitKind

LENGTHS = 128, 200, 97, 150
N_NODES, N_CONTINUOUS, N_DISCRETE, N_CATEGORIES, N_STARTS = len(LENGTHS), 3, 2, 4, 3

# Always all 20 steps, as the reference.
FINDER = SecretSplits(n_starts=N_STARTS, n_attempts=1, max_iter=20, tol=-1.0)
COUNTED = replace(FINDER, gain="counted")


def nodes_of(rng) -> list[NodeRows]:
    """Four nodes that ask for an oblique, a discrete and two axis splits."""
    nodes = []
    for node, n in enumerate(LENGTHS):
        x = rng.normal(size=(n, N_CONTINUOUS))
        codes = rng.integers(0, N_CATEGORIES, (n, N_DISCRETE))
        weight = rng.uniform(0.3, 2.0, n) if node == 2 else np.ones(n)
        a, b, c = x.T
        y = (
            2 * np.abs(a + b),
            np.where(np.isin(codes[:, 1], [0, 3]), 2 + a, -2 - b),
            np.where(c > 0.3, 2 + a, -1 - a),
            np.where(b < -0.2, 1 + a, -2.0 + b),
        )[node]
        nodes.append(NodeRows(x, y + 0.1 * rng.normal(size=n), codes, weight))
    return nodes


def as_level(nodes, finder=FINDER, **options) -> Level:
    options = {"n_regressors": 2, "n_categories": N_CATEGORIES} | options
    return level_of(finder, nodes, **options)


@pytest.fixture
def nodes(rng) -> list[NodeRows]:
    return nodes_of(rng)


@pytest.fixture
def level(nodes, rng) -> Level:
    random = rng.random((N_NODES, 2 * N_STARTS), dtype=np.float32)
    return as_level(nodes, random=random)


def axis_only(level: Level) -> Level:
    return replace(level, oblique=~level.oblique, any_oblique=False)


def constant(level: Level) -> Level:
    """As with means in the leaves: no column is a regressor."""
    model = level.model[..., :1]
    return replace(axis_only(level), n_regressors=0, model=model)


EACH = {
    "linear": (FINDER, lambda level: level),
    "axis": (FINDER, axis_only),
    "constant": (COUNTED, constant),
}
each_setting = pytest.mark.parametrize(("finder", "of"), EACH.values(), ids=EACH)


def statuses(level: Level, finder=FINDER) -> np.ndarray:
    """How the mixture of every node ended."""
    with np.errstate(all="ignore"):
        return best_fit(finder, level, whiten(level), 0).status


# The whole of one node in float64


def expected_labels(level: Level, node: int, finder: SecretSplits):
    """Whether each row is nearer to the first Gaussian of the likeliest start."""
    rows = node_rows(level, node)
    joint = np.column_stack([rows.x[:, : level.n_regressors], rows.targets])
    prior = np.cov(joint.T, aweights=rows.weight, ddof=0).reshape(2 * joint.shape[1:])
    prior *= finder.floor
    fits = []
    for number, randomness in enumerate(level.random[node].reshape(-1, 2)):
        if number == 0 and finder.start == "component":
            start = reference.principal_start(joint, rows.weight)
        else:
            start = reference.random_start(joint, rows.weight, randomness)
        fits.append(
            reference.fit_mixture(joint, rows.weight, start, finder.max_iter, prior)
        )
    objectives = [reference.objective(fit, joint, rows.weight, prior) for fit in fits]
    best = fits[int(np.argmax(objectives))]
    first, second = reference.joint_log_density(best, joint)
    # No row so near to both that float32 could label it otherwise.
    assert np.abs(first - second).min() > 1e-3
    return first > second, best


def assert_same_sides(kind: int, left: np.ndarray, expected: np.ndarray):
    """The same two sets; which of them is called left is arbitrary but on an axis."""
    if kind != SplitKind.AXIS and left[0] != expected[0]:
        expected = ~expected
    assert np.array_equal(left, expected)


@pytest.mark.parametrize(
    ("start", "finder", "of"),
    [
        *(("mixed", *setting) for setting in EACH.values()),
        ("component", *EACH["constant"]),
        ("rows", *EACH["linear"]),
    ],
    ids=["linear", "axis", "constant", "component", "rows"],
)
def test_splits_follow_the_reference(level, finder, of, start):
    level = of(level)
    if start == "component":
        finder = replace(finder, n_starts=1)
        level = replace(level, random=level.random[:, :2])
    if start == "rows":
        finder = replace(finder, start="rows")
    found = find(level, finder)
    assert (statuses(level, finder) == MixtureStatus.ITERATION_LIMIT).all()
    for node in range(N_NODES):
        rows = node_rows(level, node)
        is_first, _ = expected_labels(level, node, finder)
        gain, kind, attribute, left = max(
            candidates(
                rows,
                rows.weight * is_first,
                N_CATEGORIES,
                oblique=level.any_oblique,
                counted=finder.gain == "counted",
            ),
            key=lambda each: each[0],
        )
        assert (found.kind[node], found.attribute[node]) == (kind, attribute)
        assert found.gain[node] / rows.weight.sum() == pytest.approx(gain, abs=1e-4)
        assert_same_sides(kind, goes_left(rows, found, node), left)
        assert not found.pure[node]
    threshold_kind = SplitKind.OBLIQUE if level.any_oblique else SplitKind.AXIS
    assert set(found.kind) <= {SplitKind.DISCRETE, threshold_kind}
    if start == "mixed":
        assert len(set(found.kind)) == 2


def test_models_that_the_gaussians_imply(level):
    """Each child gets the regressor of the Gaussian that mostly lies on its side."""
    found = find(level, FINDER)
    for node in (1, 2, 3):
        rows = node_rows(level, node)
        is_first, mixture = expected_labels(level, node, FINDER)
        models = [
            reference.implied_regressor(mean, covariance)
            for mean, covariance in zip(mixture.mean, mixture.covariance, strict=True)
        ]
        left = goes_left(rows, found, node)
        first_left = np.average(left, weights=rows.weight * is_first)
        second_left = np.average(left, weights=rows.weight * ~is_first)
        expected = models if first_left > second_left else models[::-1]
        np.testing.assert_allclose(found.child_models[node, :, 0], expected, atol=2e-3)
        assert np.abs(models[0] - models[1]).max() > 0.1


def test_an_offset_eats_no_digits(level):
    """Columns and outputs far from zero are split at the same rows."""
    offset = np.float32(2.0**12)
    moved = replace(level, x=level.x + offset, targets=level.targets - offset)
    found, other = find(level, FINDER), find(moved, FINDER)
    assert np.array_equal(found.kind, other.kind)
    for node in range(N_NODES):
        left = goes_left(node_rows(level, node), found, node)
        moved_left = goes_left(node_rows(moved, node), other, node)
        assert np.sum(left != moved_left) <= 2


# Independence


def disturbances(rng) -> list[NodeRows]:
    """Nodes that no arithmetic likes."""
    n = 128
    x = rng.normal(size=(n, N_CONTINUOUS)).astype(np.float32)
    codes, row = np.zeros((n, N_DISCRETE), int), np.arange(n)[:, None]
    point, far = (row < 9).astype(float), np.where(row == 5, 1e18, 1e-18)
    nothing = np.zeros(n)
    return [
        NodeRows(x * 0 + 3, x[:, :1] * 0 + 0.1, codes, nothing + 1),
        NodeRows(x, point * 0, codes, nothing),
        NodeRows(x * 0 + point, point, codes, nothing + 1),
        NodeRows(x[:, :1] * np.ones(3), x[:, :1] ** 2, codes, nothing + 1),
        NodeRows(x * far, far, codes, nothing + 1),
        NodeRows(x * np.nan, point * np.nan, codes, nothing + 1),
        NodeRows(x[:5], x[:5, :1], codes[:5], nothing[:5] + 1),
    ]


def assert_same_split(
    rows: NodeRows, found: Split, node: int, other: Split, place: int
):
    """But for rounding, by which an oblique cut may pass by a row."""
    for name in ("kind", "attribute", "pure"):
        assert getattr(found, name)[node] == getattr(other, name)[place]
    left = goes_left(rows, found, node)
    moved = np.sum(left != goes_left(rows, other, place))
    assert moved <= (found.kind[node] == SplitKind.OBLIQUE)
    np.testing.assert_allclose(found.gain[node], other.gain[place], rtol=1e-3)
    models = found.child_models[node], other.child_models[place]
    np.testing.assert_allclose(*models, atol=2e-3)


@each_setting
def test_a_split_does_not_depend_on_the_other_nodes(level, rng, finder, of):
    found, hostile = find(of(level), finder), disturbances(rng)
    own = [node_rows(level, node) for node in range(N_NODES)]
    for node in range(N_NODES):
        rows = own[node]
        random = level.random[[node]]
        single = find(of(as_level([rows], random=random)), finder)
        assert_same_split(rows, found, node, single, 0)
        for place in (0, 3, len(hostile)):
            others = [*hostile[:place], rows, *hostile[place:]]
            many = np.repeat(random, len(others), axis=0)
            other = find(of(as_level(others, random=many)), finder)
            assert_same_split(rows, found, node, other, place)


# Laws


# Nodes that cannot be split


def test_pure_nodes_and_nodes_with_few_rows_are_leaves(nodes):
    x = nodes[0].x.copy()
    x[:] = x[0]
    linear = 1 + 2 * nodes[2].x[:, 0] - nodes[2].x[:, 1]
    few = NodeRows(*(array[:6] for array in nodes[3]))  # as two components' dimensions
    level = as_level(
        [
            nodes[0]._replace(x=x, targets=0 * nodes[0].targets + 3.0),
            nodes[1]._replace(targets=0 * nodes[1].targets + 0.1),
            nodes[2]._replace(targets=linear),
            few,
        ]
    )
    found = find(level, FINDER)
    assert (found.kind == SplitKind.LEAF).all()
    assert found.pure.tolist() == [True, True, True, False]
    assert statuses(level)[3] == MixtureStatus.TOO_FEW_ROWS
    for name in ("direction", "threshold", "child_models"):
        assert np.isfinite(getattr(found, name)).all()
    assert not np.isnan(found.gain).any()


def test_two_point_masses_in_the_output_are_split(level):
    """With constant leaves two values of the output are two components."""
    changed = []
    for node in range(N_NODES):
        rows = node_rows(level, node)
        high = rows.x[:, 2] > 0.1
        rows.x[:, 2] = np.where(high, 1.0, -1.0)
        changed.append(rows._replace(targets=high * 1.0, weight=np.ones(len(high))))
    found = find(constant(with_rows(level, changed)), COUNTED)
    assert (found.kind == SplitKind.AXIS).all()
    assert (found.attribute == 2).all()
    assert (np.abs(found.threshold) < 1).all()
    share = np.array([rows.targets.mean() for rows in changed])
    expected = 2 * share * (1 - share)
    np.testing.assert_allclose(found.gain / LENGTHS, expected, atol=1e-5)


def test_a_collapsed_start_gives_way_to_another(nodes):
    """The outlier alone would be the likelier component, but it is no component."""
    for node in nodes:
        node.x[7] = 9.0
    nodes = [node._replace(weight=np.ones(len(node.x))) for node in nodes]
    finder = replace(FINDER, start="rows")

    def starting_from(*pairs, finder=finder):
        place = np.array(pairs).ravel() + 0.5
        random = np.float32(place / np.array(LENGTHS)[:, None])
        return as_level(nodes, finder, random=random)

    outlier, good = (3, 7), (20, 50)
    start = starting_from(outlier, outlier, outlier)
    assert (statuses(start, finder) == MixtureStatus.COLLAPSED).all()
    assert (find(start, finder).kind == SplitKind.LEAF).all()
    rescued = find(starting_from(outlier, good, outlier), finder)
    start = starting_from(good, good, good)
    assert (statuses(start, finder) == MixtureStatus.ITERATION_LIMIT).all()
    only_good = find(start, finder)
    # With further attempts a node without a usable split gets new starts.
    again = replace(finder, n_attempts=2)
    second = find(starting_from(*3 * [outlier], *3 * [good]), again)
    for node in range(N_NODES):
        rows = node_rows(start, node)
        assert_same_split(rows, rescued, node, only_good, node)
        assert_same_split(rows, second, node, only_good, node)
