"""The default search of a level, against brute force, references and laws."""

from __future__ import annotations

from dataclasses import replace

import jax
import numpy as np
import pytest
from level_batches import (
    NodeRows,
    goes_left,
    mixed_level,
    node_rows,
    on_tiles,
    tiled,
)
from level_batches import find as found_in
from level_batches import level_of as level_of_nodes

from secret_jax import RssSplits, SecretRegressor
from secret_jax.data.ragged import RaggedRows
from secret_jax.splits import rss, rss_axis, rss_nodes
from secret_jax.splits.interface import Level, Roles
from secret_jax.tree.structure import SplitKind

RIDGE = 3e-2
FINDER = RssSplits(ridge=RIDGE)
N_NODES, N_ROWS, N_COLUMNS = 2, 256, 3


def level_of(finder, x, y, *, oblique=False, **changes) -> Level:
    """Nodes of equally many rows: x (n_nodes, n_rows, n_columns)."""
    weight = changes.pop("weight", np.ones(x.shape[1]))
    nodes = [NodeRows(*pair, weight=weight) for pair in zip(x, y, strict=True)]
    return level_of_nodes(finder, nodes, oblique=oblique, **changes)


def with_models(level: Level) -> Level:
    """The same nodes with models by least squares."""
    models = []
    for node in range(level.n_nodes):
        rows = node_rows(level, node)
        root, x = np.sqrt(rows.weight)[:, None], rows.x[:, : level.n_regressors]
        design = root * np.c_[np.ones(len(x)), x]
        models.append(np.linalg.lstsq(design, root * rows.targets, rcond=None)[0].T)
    degrees = np.full(level.n_nodes, 1 + level.n_regressors, np.float32)
    return replace(level, model=np.float32(models), degrees=degrees)


def batch(y_of, n_rows=N_ROWS, seed=0, n_columns=N_COLUMNS, **changes) -> Level:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(N_NODES, n_rows, n_columns))
    least = np.full(N_NODES, 5, np.float32)
    changes = {"oblique": True, "min_weight": least} | changes
    return with_models(level_of(FINDER, x, y_of(x), **changes))


def find(level, **changes):
    return found_in(level, replace(FINDER, **changes))


def crease(x):
    """Two planes that meet along an oblique line."""
    return np.abs(x[..., 0] + x[..., 1] - 0.3) + 0.3 * x[..., 2]


def standardised(level, node):
    """Columns, residuals and weights of a node, float64."""
    x, targets, _, weight = node_rows(level, node)
    center = weight @ x / weight.sum()
    deviation = np.sqrt(weight @ (x - center) ** 2 / weight.sum())
    z = (x - center) / np.where(deviation > 1e-6, deviation, np.inf)
    model = level.model[node].astype(float)
    residual = targets - x[:, : level.n_regressors] @ model[:, 1:].T
    return z, residual - weight @ residual / weight.sum(), weight


def ridge_gain(z, residual, left, weight=None, ridge=RIDGE):
    """What ridge models of the two sides explain of residuals."""
    weight, explained = np.ones(len(z)) if weight is None else weight, 0.0
    for side in (left, ~left):
        own = weight[side, None]
        design = np.c_[np.ones(side.sum()), z[side]]
        matrix = (own * design).T @ design
        matrix += own.sum() * ridge * np.diag([0.0, *np.ones(z.shape[1])])
        moment = (own * design).T @ residual[side]
        explained += np.sum(moment * np.linalg.solve(matrix, moment))
    return explained


def with_gaps(level):
    """The last column says where the first one is missing."""
    gap = np.arange(level.x.shape[1]) % 5 == 0
    x = level.x.copy()
    x[2], x[0, gap] = gap, 0
    roles = Roles(
        np.array([1, 2], np.int32),
        np.array([[0, 2]], np.int32),
        np.array([True, True, False]),
    )
    targets = np.where(gap & (level.x[1] > -0.5), 2, level.targets)
    return replace(level, x=x, targets=targets.astype(np.float32), roles=roles)


def two_outputs(level):
    more = np.abs(level.x[1:2]) + level.targets
    targets = np.concatenate([level.targets, more])
    model = np.zeros((level.n_nodes, 2, level.model.shape[2]), np.float32)
    return replace(level, targets=targets, model=model)


def weighted(level):
    weight = np.random.default_rng(8).integers(1, 4, level.weight.shape)
    return replace(level, weight=weight.astype(np.float32))


CHANGES = [lambda level: level, with_gaps, two_outputs, weighted]
NAMES = ["mixed", "gaps", "two outputs", "weights"]


@pytest.mark.parametrize("oblique", [True, False])
@pytest.mark.parametrize("change", CHANGES, ids=NAMES)
def test_the_gain_is_what_ridge_models_of_the_sides_explain(change, oblique):
    for seed in range(3):
        level = with_models(change(mixed_level(FINDER, oblique=oblique, seed=seed)))
        found = find(level)
        assert (found.kind != SplitKind.LEAF).all()
        for node in range(level.n_nodes):
            z, residual, weight = standardised(level, node)
            left = goes_left(node_rows(level, node), found, node)
            expected = ridge_gain(z, residual, left, weight)
            if found.kind[node] == SplitKind.DISCRETE:
                assert left.any()
            assert found.gain[node] == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("shape", [(1500, 6), (300, 4), (2048, 10)])
def test_the_split_of_one_node_is_that_of_brute_force(shape):
    n_rows, n_columns = shape
    rng = np.random.default_rng(n_rows)
    x = rng.normal(size=(1, n_rows, n_columns))
    x[..., 1] = np.round(x[..., 1])  # few values
    y = np.where(x[..., 0] > 0.3, x[..., 1], -x[..., 1]) + 0.3 * rng.normal(
        size=(1, n_rows)
    )
    level = with_models(level_of(FINDER, x, y))
    found = find(level, n_finalists=n_columns)
    z, residual, _ = standardised(level, 0)
    gains = {}
    for column in range(n_columns):
        head = np.sort(z[:128, column])
        # The smallest of the first rows, and quantiles between.
        share = np.r_[0.0, (np.arange(1, 16) + 0.5) / 16]
        for place in np.maximum(np.ceil(share * 128 * (1 - 1e-6)).astype(int) - 1, 0):
            left = z[:, column] <= head[place] + 1e-9
            if 2 <= left.sum() <= n_rows - 2:
                gains[column, left.sum()] = ridge_gain(z, residual, left)
    column, n_left = max(gains, key=gains.__getitem__)
    assert (found.kind[0], found.attribute[0]) == (SplitKind.AXIS, column)
    assert found.gain[0] == pytest.approx(gains[column, n_left], rel=1e-4)
    # The threshold is in the middle between the same two rows.
    value = np.sort(level.x[column])
    below, above = value[n_left - 1], value[n_left]
    assert found.threshold[0] == pytest.approx(0.5 * (below + above), rel=1e-5)


@pytest.mark.parametrize("step", [-0.8, 0.8])
def test_values_that_no_row_of_a_node_misses_are_sent_to_its_heavier_side(step):
    x = np.random.default_rng(3).normal(size=(1, 200, 2)) * [1, 0]
    level = level_of(FINDER, x, 5.0 * (x[..., 0] > step))
    gaps, columns = np.array([[0, 1]], np.int32), np.zeros(0, np.int32)
    roles = Roles(columns, gaps, np.array([True, False]))
    found = find(replace(level, roles=roles))
    assert found.threshold[0] == pytest.approx(step, abs=0.2)
    value_of_missing = found.direction[0, 1]
    assert (value_of_missing <= found.threshold[0]) == (step > 0)


def test_screening_agrees_with_exact_scores():
    rng = np.random.default_rng(4)
    x = rng.normal(size=(1, 2000, 3)) @ rng.normal(size=(3, 3))
    y = np.abs(x[..., 0] - 0.5) + 0.5 * x[..., 1] * (x[..., 2] > 0)
    level = with_models(level_of(FINDER, x, y, min_weight=np.float32([20])))
    nodes = rss_nodes.prepared(level, RIDGE, 24)
    with np.errstate(all="ignore"):
        direction = np.concatenate([np.eye(3), rng.normal(size=(3, 3))])
        deviation = (direction @ nodes.z).std(axis=1)
        direction = np.float32(direction / deviation[:, None])
        projection = direction @ nodes.z
        cuts = rss_nodes.cuts_of(level.rows, projection, level.weight, 16)
        sums = level.rows.moments_below(projection, cuts, nodes.moments, nodes.weight)
        slope = direction @ nodes.cross
        screened = rss_nodes.gains_of_cuts(nodes.whole, nodes.min_weight, *sums, slope)
        left = projection[:, None] <= cuts[0][..., None]
        exact, _ = rss_nodes.exact_sides(nodes, left.reshape(-1, 2000), RIDGE)
    exact = exact.reshape(screened.shape)
    usable = np.isfinite(exact)
    assert (usable == np.isfinite(screened)).all()
    assert np.corrcoef(exact[usable], screened[usable])[0, 1] > 0.995
    best = np.unravel_index(np.argmax(screened), screened.shape)
    assert exact[best] > 0.98 * exact.max()


@pytest.mark.parametrize("seed", [2, 3])
def test_an_oblique_crease_is_found(seed):
    # All directions of so few rows are this close, and most thresholds.
    splits = find(batch(crease, seed=seed))
    assert (splits.kind == SplitKind.OBLIQUE).all()
    for direction, threshold in zip(splits.direction, splits.threshold, strict=True):
        expected = np.array([1, 1, 0]) / np.sqrt(2)
        assert abs(direction @ expected) > 0.995
        # Thresholds are quantiles of 128 rows, on directions that are a little off.
        cut = float(threshold) * np.sign(direction[0])
        assert cut == pytest.approx(0.3 / np.sqrt(2), abs=0.2)


def test_oblique_splits_of_few_attributes():
    def plane(x):
        return np.abs(x[..., 0] + 0.9 * x[..., 1] + 0.1 * x[..., 2])

    dense = find(batch(plane), sparse_terms=())
    short = find(batch(plane), max_split_features=2, sparse_terms=())
    assert (np.count_nonzero(dense.direction, axis=1) == 3).all()
    assert (short.direction != 0).tolist() == [[True, True, False]] * 2
    assert (short.gain > 0.8 * dense.gain).all()
    model = SecretRegressor(
        oblique=True, splits=RssSplits(max_split_features=2), random_state=0
    )
    X = np.random.default_rng(0).normal(size=(500, 3))
    tree = model.fit(X, plane(X)).tree_
    assert (np.count_nonzero(tree.direction, axis=1) <= 2).all()
    assert (np.count_nonzero(tree.direction, axis=1) == 2).any()


def test_a_sum_yields_to_the_shortest_that_loses_little():
    for rest in (0.02, 0.2, 0.9):
        nodes = batch(lambda x: np.abs(x @ np.array([1, 0.9, rest])))  # noqa: B023
        dense, found = find(nodes, sparse_terms=()), find(nodes, sparse_terms=(2,))
        assert (found.gain >= 0.95 * dense.gain * (1 - 1e-5)).all()
        n_terms = np.count_nonzero(found.direction, axis=1)
        assert (n_terms == {0.02: 2, 0.9: 3}.get(rest, n_terms)).all()


def prepared(level):
    with np.errstate(all="ignore"):
        return rss_nodes.prepared(level, RIDGE, 24)


def test_offsets_cost_the_digits_that_float32_has_lost_and_no_more():
    """And constant columns have exactly no deviation, whatever rounds their mean."""
    rng = np.random.default_rng(0)
    x = rng.normal([1e4, -1e5, 1e6], 1.0, (200, 3)).astype(np.float32)
    weight = rng.uniform(0.1, 4, 200).astype(np.float32)
    constant = np.tile(np.float32([0.1, 1e6 + 0.3, -1e-20]), (200, 1))
    found, other = (
        prepared(level_of(FINDER, each[None], x[None, :, 0], weight=weight))
        for each in (x, constant)
    )
    exact = x.astype(float)
    expected = np.average(exact, axis=0, weights=weight)
    np.testing.assert_allclose(found.center[0], expected, rtol=1.2e-7)
    spread = np.sqrt(np.diag(np.cov(exact.T, aweights=weight, ddof=0)))
    np.testing.assert_allclose(found.scale[0], spread, rtol=2e-3)
    np.testing.assert_array_equal(other.center[0], constant[0])
    assert np.isinf(other.scale).all()
    assert not other.z.any()


def test_hessian_directions_are_lis():
    level = batch(lambda x: (x @ [1.0, -0.5, 0.2]) ** 2, n_rows=2000)
    found = rss._hessian(prepared(level), replace(FINDER, n_hessian=1))
    for node in range(N_NODES):
        z, residual, _ = standardised(level, node)
        bounded = np.clip(residual[:, 0] / residual.std(), -3, 3)
        covariance = z.T @ z / len(z) + RIDGE * np.eye(3)
        half = np.linalg.inv(np.linalg.cholesky(covariance))
        hessian = (bounded - bounded.mean())[:, None] * z
        values, vectors = np.linalg.eigh(half @ (hessian.T @ z / len(z)) @ half.T)
        expected = vectors[:, np.argmax(np.abs(values))] @ half
        cosine = expected @ found[node, 0] / np.linalg.norm(expected)
        assert abs(cosine) / np.linalg.norm(found[node, 0]) > 0.9999


def test_hinge_steps_are_fishers_discriminant():
    level = batch(crease, n_rows=400)
    nodes = prepared(level)
    with np.errstate(all="ignore"):
        none = np.zeros((N_NODES, 0, N_COLUMNS), np.float32)
        attributes = rss_axis.attributes_of(level, nodes, none, 16)
        best = rss_axis.best_attribute(attributes, nodes, 5, RIDGE, alone=True)
        found = rss._hinge(nodes, best, replace(FINDER, max_split_features=None))
    for node in range(N_NODES):
        z, residual, _ = standardised(level, node)
        residual = residual[:, 0] / residual.std()
        design = np.c_[np.ones(len(z)), z]
        left, right = (residual - design @ m for m in best.models[node, :, :, 0])
        advantage = right**2 - left**2
        size = np.minimum(np.abs(advantage), 4 * np.abs(advantage).mean())
        within, means = RIDGE * np.eye(3), []
        for first in (advantage > 0, advantage <= 0):
            weight = size * first
            means.append(weight @ z / weight.sum())
            centred = z - means[-1]
            within = within + (weight[:, None] * centred).T @ centred / size.sum()
        expected = np.linalg.solve(within, means[0] - means[1])
        cosine = expected @ found[node, 0] / np.linalg.norm(expected)
        assert abs(cosine) > 0.9999


def test_many_columns_are_scored_by_their_leading_components():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1, 500, 6)) @ rng.normal(size=(6, 40))
    x = x + 1e-3 * rng.normal(size=x.shape)
    level = with_models(level_of(FINDER, x, np.abs(x[..., 0]), oblique=True))
    nodes = prepared(level)
    assert nodes.n_coordinates == 24
    loading = nodes.loading[0]
    z = standardised(level, 0)[0]
    vectors = np.linalg.eigh(z.T @ z)[1][:, ::-1][:, :6]
    # They span what the leading ones span.
    inside = loading @ (np.linalg.pinv(loading) @ vectors)
    np.testing.assert_allclose(inside, vectors, atol=1e-3)
    assert find(level).gain[0] > 0


def test_proposals_are_directions_of_whitened_rows():
    def last(rows, white, residual, weight):
        assert white.shape[0] == N_COLUMNS
        variance = rows.sums(weight * white**2) / rows.sums(weight)[:, None]
        np.testing.assert_allclose(variance, 1, atol=0.1)
        found = np.zeros((rows.n_nodes, 1, N_COLUMNS), np.float32)
        found[:, 0, :2] = 1
        return found

    level = batch(crease)
    plain = replace(FINDER, n_hessian=0, hinge_steps=0, sparse_terms=())
    assert (found_in(level, plain).kind == SplitKind.AXIS).all()
    found = found_in(level, replace(plain, proposals=(last,)))
    assert (found.kind == SplitKind.OBLIQUE).all()
    for direction in found.direction:
        assert abs(direction @ [1, 1, 0]) / np.sqrt(2) > 0.99


def test_a_rare_low_value_is_a_cut():
    rng = np.random.default_rng(9)
    # Of the 128 rows that the quantiles are taken from some hold it.
    rare = (rng.random(2000) > 0.03).astype(float)
    X = np.c_[rare, rng.normal(size=(2000, 2))]
    y = np.where(rare == 0, 5 * X[:, 1], -X[:, 1]) + 0.1 * rng.normal(size=2000)
    model = SecretRegressor(
        oblique=False, prune=None, max_leaf_nodes=2, random_state=0
    ).fit(X, y)
    assert model.tree_.attribute[0] == 0


@pytest.mark.parametrize("change", CHANGES, ids=NAMES)
@pytest.mark.parametrize("oblique", [True, False])
def test_nodes_together_get_the_splits_of_each_alone(change, oblique):
    level = with_models(change(mixed_level(FINDER, oblique=oblique)))
    length = np.array([256, 130, 40])
    place = np.concatenate(
        [
            start + np.arange(n)
            for start, n in zip(level.rows.first, length, strict=True)
        ]
    )
    level = replace(
        level,
        rows=RaggedRows(length),
        weight=level.weight[place],
        **{name: getattr(level, name)[:, place] for name in ("x", "codes", "targets")},
    )
    found = find(level)
    for node in range(3):
        alone = find(level.take(np.array([node])))
        for own, other in zip(
            jax.tree.leaves(found), jax.tree.leaves(alone), strict=True
        ):
            np.testing.assert_allclose(own[node], other[0], rtol=2e-3, atol=2e-4)


@pytest.mark.parametrize(
    ("change", "oblique"),
    [
        (weighted, True),
        (two_outputs, True),
        (lambda level: with_gaps(two_outputs(level)), False),
    ],
    ids=["oblique", "two outputs", "axis"],
)
def test_jax_finds_what_numpy_finds(change, oblique):
    level = with_models(change(mixed_level(FINDER, oblique=oblique)))
    expected = on_tiles(FINDER.find, level)
    found = find(level)
    for own, other in zip(
        jax.tree.leaves(found), jax.tree.leaves(expected), strict=True
    ):
        assert own.dtype == other.dtype
        np.testing.assert_allclose(own, other, rtol=1e-3, atol=1e-3)
    assert (found.kind != SplitKind.LEAF).all()


@pytest.mark.parametrize(
    ("n_columns", "n_regressors", "n_outputs", "changes"),
    [
        (0, 0, 1, {}),
        (0, 0, 3, {}),
        (2, 0, 2, {}),
        (3, 3, 2, {"n_thresholds": 9000}),
        (17, 16, 6, {}),
        (32, 32, 1, {}),
    ],
)
def test_tables_of_all_shapes_are_lowered_for_cards(
    rng, n_columns, n_regressors, n_outputs, changes
):
    """And of categories alone programs find what processors do."""
    finder = replace(FINDER, **changes)
    codes = rng.integers(0, 3, (80, 2))
    x, noise = rng.normal(size=(80, n_columns)), rng.normal(size=(80, n_outputs))
    nodes = [NodeRows(x, noise + codes[:, :1], codes)]
    level = level_of_nodes(finder, nodes, n_regressors=n_regressors, n_categories=3)

    def plain(rows, arrays):
        return jax.tree.leaves(finder.find(replace(level, rows=rows, **arrays)))

    traced = jax.jit(plain).trace(*tiled(level))
    assert "cusolver" not in traced.lower(lowering_platforms=("cuda",)).as_text()
    if not n_columns:
        expected = on_tiles(finder.find, level)
        found = found_in(level, finder)
        assert found.kind[0] == SplitKind.DISCRETE
        np.testing.assert_allclose(found.gain, expected.gain, rtol=1e-3)
