"""The search by the children's linear models, against independent references."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from node_batches import mixed_nodes, nodes_of, with_targets
from scipy.special import ndtr
from secret_jax.grow.program import find_splits

from secret_jax import RssSplits, SecretRegressor
from secret_jax.learners import CartSplits
from secret_jax.runtime.pieces import Pieces, piece_lengths
from secret_jax.splits import directions, scoring, screening
from secret_jax.splits.interface import Roles
from secret_jax.tree.structure import SplitKind

N_NODES, N_ROWS, N_COLUMNS = 2, 256, 3
RIDGE = 3e-2
FINDER = RssSplits(ridge=RIDGE)
# Each of them one program, not a hundred small ones.
node_rows, fit_sides, screen, discriminants = (
    jax.jit(function, static_argnames=names)
    for function, names in (
        (scoring.node_rows, ("n_model", "ridge")),
        (scoring.fit_sides, ("n_model",)),
        (screening.screen, ("n_model",)),
        (directions.discriminants, ("n_model",)),
    )
)
quantiles = jax.jit(screening.quantiles, static_argnums=2)


def batch(y_of, n_rows=N_ROWS, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(N_NODES, N_ROWS, N_COLUMNS)).astype(np.float32)
    weight = np.zeros((N_NODES, N_ROWS), np.float32)
    weight[:, :n_rows] = 1
    normal = rng.normal(size=(N_NODES, 2 * (N_COLUMNS + 1)))
    more = {"weight": weight, "min_weight": np.full(N_NODES, 5, np.float32)}
    return nodes_of(FINDER, x, y_of(x), random=ndtr(normal).astype(np.float32), **more)


def find(nodes, **changes):
    """By NumPy."""
    with np.errstate(all="ignore"):
        return replace(FINDER, **changes)(nodes)


def compiled(nodes, finder, n_nodes):
    found = find_splits(nodes, n_nodes, finder=finder, together=False)
    return jax.tree.map(np.asarray, found)


def crease(x):
    """Two planes that meet along an oblique line."""
    return np.abs(x[..., 0] + x[..., 1] - 0.3) + 0.3 * x[..., 2]


@pytest.mark.parametrize("seed", [2, 3])
def test_an_oblique_crease_is_found(seed):
    # All directions of so few rows are this close, and most thresholds.
    splits = find(batch(crease, seed=seed))
    assert (np.asarray(splits.kind) == SplitKind.OBLIQUE).all()
    for direction, threshold in zip(splits.direction, splits.threshold, strict=True):
        direction = np.asarray(direction)
        expected = np.array([1, 1, 0]) / np.sqrt(2)
        assert abs(direction @ expected) > 0.995
        # Thresholds are quantiles of 256 rows, on directions that are a little off.
        cut = float(threshold) * np.sign(direction[0])
        assert cut == pytest.approx(0.3 / np.sqrt(2), abs=0.2)


def test_oblique_splits_of_few_attributes():
    def plane(x):
        return np.abs(x[..., 0] + 0.9 * x[..., 1] + 0.1 * x[..., 2])

    dense = find(batch(plane), sparse_terms=())
    sparse = find(batch(plane), max_split_features=2, sparse_terms=())
    assert (np.count_nonzero(dense.direction, axis=1) == 3).all()
    assert (np.asarray(sparse.direction) != 0).tolist() == [[True, True, False]] * 2
    assert (sparse.gain > 0.8 * dense.gain).all()
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


def prepared(x, residual, n_model=None):
    n_model = x.shape[1] if n_model is None else n_model
    residual = np.reshape(residual, (len(x), -1))
    arrays = (jnp.asarray(a, jnp.float32) for a in (x, residual, np.ones(len(x))))
    return node_rows(*arrays, n_model=n_model, ridge=RIDGE)


def ridge_gain(x, residual, left):
    """What ridge models of the two sides explain of a residual."""
    explained = 0.0
    for side in (left, ~left):
        design, n = np.c_[np.ones(len(x)), x][side], side.sum()
        matrix = design.T @ design + n * RIDGE * np.diag([0, *np.ones(x.shape[1])])
        moment = design.T @ residual[side]
        explained += moment @ np.linalg.solve(matrix, moment)
    return explained


def test_scores_are_what_ridge_models_of_the_sides_explain():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(200, 3)) @ np.array([[1, 0.8, 0], [0, 0.6, 0], [0, 0, 1]])
    residual = np.where(x[:, 0] > 0.4, x[:, 1], -x[:, 1]) + 0.1 * rng.normal(size=200)
    for n_model in (3, 2):  # the third column may be split on only
        rows, _ = prepared(x, residual, n_model)
        left = rng.random((4, 200)) < np.array([0.5, 0.3, 0.8, 0.02])[:, None]
        left[0], left[3] = x[:, 0] <= 0.4, np.arange(200) < 4
        sides = fit_sides(rows, jnp.asarray(left), jnp.float32(10), n_model=n_model)
        expected = [ridge_gain(x[:, :n_model], residual, part) for part in left[:3]]
        np.testing.assert_allclose(sides.gain[:3], expected, rtol=1e-3)
        assert sides.gain[3] == -np.inf  # too few rows on the left
        model = np.asarray(sides.left[0, :, 0])
        fitted = model[0] + np.asarray(rows.coordinates)[:, :n_model] @ model[1:]
        error = np.mean((residual - fitted)[left[0]] ** 2)
        assert error < 0.1 * np.var(residual[left[0]])


def test_screening_agrees_with_exact_scores():
    rng = np.random.default_rng(4)
    x = rng.normal(size=(2000, 3)) @ rng.normal(size=(3, 3))
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    residual = np.abs(x[:, 0] - 0.5) + 0.5 * x[:, 1] * (x[:, 2] > 0)
    design = np.c_[np.ones(2000), x]
    residual -= design @ np.linalg.lstsq(design, residual)[0]
    residual /= residual.std()
    rows, _ = prepared(x, residual)
    projection = np.concatenate([x.T, rng.normal(size=(3, 3)) @ x.T])
    projection = jnp.asarray(projection, jnp.float32)
    cuts = quantiles(projection, rows.weight, 16)
    screened = screen(rows, projection, cuts, jnp.float32(20), n_model=3)
    left = projection[:, None, :] <= cuts[:, :, None]
    exact = fit_sides(rows, left.reshape(-1, 2000), jnp.float32(20), n_model=3)
    exact = np.asarray(exact.gain).reshape(screened.shape)
    usable = np.isfinite(exact)
    assert (usable == np.isfinite(screened)).all()
    assert np.corrcoef(exact[usable], np.asarray(screened)[usable])[0, 1] > 0.98
    best = np.unravel_index(np.argmax(screened), screened.shape)
    assert exact[best] > 0.95 * exact.max()


def test_discriminants_are_fishers():
    rng = np.random.default_rng(7)
    x = rng.normal(size=(400, 3)) @ rng.normal(size=(3, 3))
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    label = (x @ [1.0, -1, 0.5] + 0.3 * rng.normal(size=400) > 0).astype(float)
    rows, whitener = prepared(x, rng.normal(size=400))
    weights = (jnp.asarray(part[None], jnp.float32) for part in (label, 1 - label))
    direction = discriminants(rows, *weights, n_model=3)[0]
    direction = np.asarray(direction) @ np.asarray(whitener)
    means = [x[label == k].mean(axis=0) for k in (1, 0)]
    within = sum(np.cov(x[label == k].T, ddof=0) * (label == k).mean() for k in (0, 1))
    expected = np.linalg.solve(within + RIDGE * np.eye(3), means[0] - means[1])
    cosine = direction @ expected / np.linalg.norm(direction) / np.linalg.norm(expected)
    assert cosine > 0.9999


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


def two_outputs(nodes):
    more = np.abs(nodes.x[:, :, 1:2]) + nodes.targets
    return with_targets(nodes, np.concatenate([nodes.targets, more], axis=2))


def with_gaps(nodes):
    """The last column says where the first one is missing."""
    gap = np.arange(nodes.x.shape[1]) % 5 == 0
    x = nodes.x.copy()
    x[:, :, 2] = gap
    x[:, gap, 0] = 0
    targets = np.where(gap[:, None], 2, nodes.targets)
    roles = Roles(
        np.array([1, 2], np.int32),
        np.array([[0, 2]], np.int32),
        np.array([True, True, False]),
    )
    return replace(nodes, x=x, targets=targets.astype(np.float32), roles=roles)


def weighted(nodes):
    """Programs are the same with weights: they go with what needs another one."""
    weight = np.random.default_rng(8).integers(1, 4, nodes.weight.shape)
    return replace(nodes, weight=weight.astype(np.float32))


@pytest.mark.parametrize(
    ("finder", "change"),
    [
        (finder, change)
        for finder in (RssSplits(), CartSplits(n_thresholds=8))
        for change in (two_outputs, with_gaps)
    ],
    ids=lambda value: getattr(value, "__name__", type(value).__name__),
)
def test_numpy_finds_what_compiled_programs_find(change, finder):
    n_same, n_nodes = 0, 0
    for seed in range(3):
        oblique = finder.max_attributes != 1
        nodes = change(mixed_nodes(finder, oblique=oblique, seed=seed))
        nodes = weighted(nodes) if seed else nodes
        n = len(nodes.x)
        with np.errstate(all="ignore"):
            found = finder(nodes)
        if nodes.roles is not None:
            roles = (np.broadcast_to(a, (n, *a.shape)) for a in nodes.roles)
            nodes = replace(nodes, roles=Roles(*roles))
        expected = compiled(nodes, finder, n)
        for own, other in zip(
            jax.tree.leaves(found), jax.tree.leaves(expected), strict=True
        ):
            assert (own.shape, own.dtype) == (other.shape, other.dtype)
        for name in ("kind", "attribute", "goes_left", "pure"):
            assert np.array_equal(getattr(found, name), getattr(expected, name))
        np.testing.assert_allclose(found.chance_gain, expected.chance_gain, rtol=1e-4)
        np.testing.assert_allclose(found.gain, expected.gain, rtol=0.03)
        # Now and then rounding leads a step elsewhere, to a split that is as good.
        same = np.isclose(found.gain, expected.gain, rtol=1e-3)
        for name in ("direction", "threshold"):
            own, other = getattr(found, name)[same], getattr(expected, name)[same]
            np.testing.assert_allclose(own, other, atol=3e-2)
        n_same, n_nodes = n_same + same.sum(), n_nodes + n
    assert n_same >= 0.75 * n_nodes


@pytest.mark.parametrize(
    "change",
    [lambda nodes: nodes, two_outputs, with_gaps, weighted],
    ids=["mixed", "two outputs", "gaps", "weights"],
)
@pytest.mark.parametrize(
    ("finder", "oblique"),
    [
        (RssSplits(), True),
        (RssSplits(), False),
        (CartSplits(n_thresholds=8), False),
        (CartSplits(n_thresholds=8, criterion="entropy"), False),
    ],
    ids=["oblique", "axis", "CART", "entropy"],
)
@pytest.mark.parametrize("n_rows", [[256, 130, 60], [48, 40, 16]])
def test_nodes_of_all_sizes_in_pieces_get_the_splits_of_each_alone(
    change, finder, oblique, n_rows
):
    n_rows = np.array(n_rows)
    nodes = change(mixed_nodes(finder, oblique=oblique))
    weight = np.where(np.arange(256) < n_rows[:, None], nodes.weight, np.float32(0))
    nodes = replace(nodes, weight=weight)
    (length,) = np.unique(piece_lengths(n_rows)).tolist()
    pieces = Pieces.of(n_rows, length)

    def cut(values):
        parts = [
            each[: length * np.sum(pieces.node == i)].reshape(
                -1, length, *each.shape[1:]
            )
            for i, each in enumerate(values)
        ]
        return np.concatenate(parts)

    rows = {name: cut(getattr(nodes, name)) for name in ("x", "codes", "targets")}
    with np.errstate(all="ignore"):
        found = finder(replace(nodes, weight=cut(weight), pieces=pieces, **rows))
        expected = finder(nodes)
    for own, other in zip(
        jax.tree.leaves(found), jax.tree.leaves(expected), strict=True
    ):
        assert (own.shape, own.dtype) == (other.shape, other.dtype)
        np.testing.assert_allclose(own, other, rtol=2e-3, atol=2e-4)


def test_without_proposals_nothing_is_compiled():
    X = np.random.default_rng(0).normal(size=(300, 7))
    before = find_splits.n_compiled
    SecretRegressor(prune=None, max_depth=2).fit(X, np.abs(X[:, 0] + X[:, 1]))
    assert find_splits.n_compiled == before
    assert not RssSplits().needs_program
    assert RssSplits(proposals=(directions.discriminants,)).needs_program
