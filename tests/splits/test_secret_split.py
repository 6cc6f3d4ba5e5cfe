"""The split of a whole node against float64, and its independence of other nodes."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference
from node_batches import nodes_of
from secret_jax.grow.program import find_splits

from secret_jax import SecretSplits
from secret_jax.splits.interface import Split
from secret_jax.splits.mixture import MixtureStatus, whiten
from secret_jax.splits.one_node import Columns, Node
from secret_jax.splits.secret import _best_fit
from secret_jax.splits.tiles import Tiles
from secret_jax.tree.structure import SplitKind

# One shape and few settings, so few compiled programs.
N_NODES, N_ROWS, N_CONTINUOUS, N_DISCRETE, N_CATEGORIES, N_STARTS = 4, 128, 3, 2, 4, 3


class Settings(NamedTuple):
    """A finder, and what it knows of the columns."""

    finder: SecretSplits
    columns: Columns


LINEAR = Settings(
    SecretSplits(
        n_starts=N_STARTS,
        n_attempts=1,
        max_iter=20,
        tol=-1.0,  # always all 20 steps, as the reference
        floor=1e-5,
    ),
    Columns(n_regressors=2, n_categories=N_CATEGORIES, oblique=True),
)
AXIS = LINEAR._replace(columns=replace(LINEAR.columns, oblique=False))
CONSTANT = Settings(
    replace(LINEAR.finder, gain="counted"), replace(AXIS.columns, n_regressors=0)
)
EACH = pytest.mark.parametrize(
    "settings", [LINEAR, AXIS, CONSTANT], ids=["linear", "axis", "constant"]
)


def split(batch: Node, settings: Settings) -> Split:
    finder, columns = settings
    nodes = with_columns(batch, columns)
    found = find_splits(nodes, len(batch.x), finder=finder, together=False)
    return jax.tree.map(np.asarray, found)


def with_columns(batch: Node, columns: Columns) -> Node:
    """The nodes as a table of such columns has them."""
    shape = (len(batch.x), batch.targets.shape[2], 1 + columns.n_regressors)
    coefficient = np.zeros(shape, np.float32)
    return replace(batch, columns=columns, coefficient=coefficient)


def statuses(batch: Node, settings: Settings) -> np.ndarray:
    """How the mixture of every node ended."""
    return np.asarray(_statuses(with_columns(batch, settings.columns), settings.finder))


@partial(jax.jit, static_argnames="finder")
def _statuses(batch: Node, finder: SecretSplits) -> jax.Array:
    def status(node):
        numbers = node.random.reshape(finder.n_attempts, finder.n_starts, 2)
        tiles = Tiles.of(node)
        whitened = whiten(node, tiles)
        return _best_fit(finder, node, tiles, whitened, numbers[0], jnp.int32(0)).status

    return jax.lax.map(status, batch)


def take(arrays, node):
    """One node of a batch or of its splits, in float64 where it was float32."""
    return jax.tree.map(
        lambda a: np.asarray(a[node], np.float64 if a.dtype == np.float32 else None),
        arrays,
    )


@pytest.fixture
def batch(rng) -> Node:
    """Four nodes that ask for an oblique, a discrete and two axis splits."""
    shape = (N_NODES, N_ROWS)
    x = rng.normal(size=(*shape, N_CONTINUOUS))
    codes = rng.integers(0, N_CATEGORIES, (*shape, N_DISCRETE))
    weight = np.ones(shape)
    a, b, c = np.moveaxis(x, 2, 0)
    y = 0.1 * rng.normal(size=shape)
    y[0] += 2 * np.abs(a[0] + b[0])
    y[1] += np.where(np.isin(codes[1, :, 1], [0, 3]), 2 + a[1], -2 - b[1])
    y[2] += np.where(c[2] > 0.3, 2 + a[2], -1 - a[2])
    y[3] += np.where(b[3] < -0.2, 1 + a[3], -2.0 + b[3])
    weight[2] = rng.uniform(0.3, 2.0, N_ROWS)
    weight[3, 100:] = 0  # padding
    random = rng.random((N_NODES, 2 * N_STARTS), dtype=np.float32)
    more = {"weight": weight.astype(np.float32), "random": random}
    return nodes_of(LINEAR.finder, x, y, codes, LINEAR.columns, **more)


FIELDS_OF_ROWS = ("x", "codes", "targets", "weight")


def without_padding(node: Node) -> Node:
    real = node.weight > 0
    rows = {name: getattr(node, name)[real] for name in FIELDS_OF_ROWS}
    return replace(node, **rows)


def goes_left(node: Node, found: Split) -> np.ndarray:
    """Rows of a node that its split sends left."""
    if found.kind == SplitKind.DISCRETE:
        return found.goes_left[node.codes[:, found.attribute]]
    return node.x @ found.direction <= found.threshold


# The whole of one node in float64


def expected_labels(node: Node, settings: Settings):
    """Whether each row is nearer to the first Gaussian of the likeliest start."""
    finder, columns = settings
    joint = np.column_stack([node.x[:, : columns.n_regressors], node.targets])
    prior = np.cov(joint.T, aweights=node.weight, ddof=0).reshape(2 * joint.shape[1:])
    prior *= finder.floor
    fits = []
    for number, randomness in enumerate(node.random.reshape(-1, 2)[: finder.n_starts]):
        if number == 0 and finder.start == "component":
            start = reference.principal_start(joint, node.weight)
        else:
            start = reference.random_start(joint, node.weight, randomness)
        fits.append(
            reference.fit_mixture(joint, node.weight, start, finder.max_iter, prior)
        )
    objectives = [reference.objective(fit, joint, node.weight, prior) for fit in fits]
    best = fits[int(np.argmax(objectives))]
    first, second = reference.joint_log_density(best, joint)
    # No row so near to both that float32 could label it otherwise.
    assert np.abs(first - second).min() > 1e-3
    return first > second, best


def expected_candidates(node: Node, is_first: np.ndarray, settings):
    """Gain, kind, attribute and the rows that go left, of each candidate."""
    directions = [(SplitKind.AXIS, j, e) for j, e in enumerate(np.eye(N_CONTINUOUS))]
    if settings.columns.oblique:
        normal = reference.oblique_direction(node.x, is_first, node.weight)
        directions.append((SplitKind.OBLIQUE, -1, normal))
    for kind, attribute, direction in directions:
        found = reference.threshold_split(
            node.x, is_first, node.weight, direction, settings.finder.gain == "counted"
        )
        yield found.gain, kind, attribute, node.x @ direction <= found.threshold
    shares = np.stack([node.weight * is_first, node.weight * ~is_first])
    for attribute, codes in enumerate(node.codes.T):
        for subset in reference.all_subsets(N_CATEGORIES)[1:-1]:
            left = subset[codes]
            joint = np.stack([shares @ left, shares @ ~left], axis=1)
            yield reference.gini_gain(joint), SplitKind.DISCRETE, attribute, left


def assert_same_sides(kind: int, left: np.ndarray, expected: np.ndarray):
    """The same two sets; which of them is called left is arbitrary but on an axis."""
    if kind != SplitKind.AXIS and left[0] != expected[0]:
        expected = ~expected
    assert np.array_equal(left, expected)


@pytest.mark.parametrize(
    ("start", "settings"),
    [
        *(("mixed", settings) for settings in (LINEAR, AXIS, CONSTANT)),
        *(("component", CONSTANT), ("rows", LINEAR)),
    ],
    ids=["linear", "axis", "constant", "component", "rows"],
)
def test_split_follows_the_reference(batch, settings, start):
    if start == "component":
        settings = settings._replace(finder=replace(settings.finder, n_starts=1))
        batch = replace(batch, random=batch.random[:, :2])
    if start == "rows":
        settings = settings._replace(finder=replace(settings.finder, start="rows"))
    found = split(batch, settings)
    assert (statuses(batch, settings) == MixtureStatus.ITERATION_LIMIT).all()
    kinds = set()
    for index in range(N_NODES):
        node, got = take(batch, index), take(found, index)
        node = without_padding(node)
        is_first, _ = expected_labels(node, settings)
        candidates = sorted(
            expected_candidates(node, is_first, settings), key=lambda c: -c[0]
        )
        gain, kind, attribute, left = candidates[0]
        kinds.add(kind)
        assert (got.kind, got.attribute) == (kind, attribute)
        assert got.gain / node.weight.sum() == pytest.approx(gain, abs=1e-4)
        got_left = goes_left(node, got)
        assert_same_sides(kind, got_left, left)
        assert not got.pure
    threshold_kind = SplitKind.OBLIQUE if settings.columns.oblique else SplitKind.AXIS
    assert kinds <= {SplitKind.DISCRETE, threshold_kind}
    if start == "mixed":
        assert len(kinds) == 2


def test_models_that_the_gaussians_imply(batch):
    """Each child gets the regressor of the Gaussian that mostly lies on its side."""
    found = split(batch, LINEAR)
    for index in (1, 2, 3):
        node, got = take(batch, index), take(found, index)
        node = without_padding(node)
        is_first, mixture = expected_labels(node, LINEAR)
        models = [
            reference.implied_regressor(mean, covariance)
            for mean, covariance in zip(mixture.mean, mixture.covariance, strict=True)
        ]
        left = goes_left(node, got)
        first_left = np.average(left, weights=node.weight * is_first)
        second_left = np.average(left, weights=node.weight * ~is_first)
        expected = models if first_left > second_left else models[::-1]
        np.testing.assert_allclose(got.child_models[:, 0], expected, atol=2e-3)
        assert np.abs(models[0] - models[1]).max() > 0.1


# Independence


def disturbances(rng) -> dict[str, Node]:
    """Nodes that no arithmetic likes, each as a batch of its own."""
    x = rng.normal(size=(N_ROWS, N_CONTINUOUS)).astype(np.float32)
    codes = np.zeros((1, N_ROWS, N_DISCRETE))
    nodes = nodes_of(LINEAR.finder, x[None], x[None, :, :1] ** 2, codes, LINEAR.columns)
    plain = jax.tree.map(lambda array: np.asarray(array[0]), nodes)
    row = np.arange(N_ROWS)[:, None]
    point = (row < 9).astype(np.float32)
    far = np.where(row == 5, 1e18, 1e-18).astype(np.float32)
    nothing = {"weight": 0 * point[:, 0], "min_weight": np.array(np.inf, np.float32)}
    return {
        "equal rows": replace(plain, x=x * 0 + 3, targets=x[:, :1] * 0 + 0.1),
        "padding": replace(plain, targets=point * 0, **nothing),
        "two point masses": replace(plain, x=x * 0 + point, targets=point),
        "one regressor": replace(plain, x=x[:, :1] * np.ones(3, np.float32)),
        "an outlier": replace(plain, x=x * far, targets=far),
        "not a number": replace(plain, x=x * np.float32(np.nan), targets=point / 0),
    }


def put(batch: Node, index: int, node: Node) -> Node:
    changed = jax.tree.map(np.copy, batch)
    for array, value in zip(
        jax.tree.leaves(changed), jax.tree.leaves(node), strict=True
    ):
        array[index] = value
    return changed


def node_bytes(found: Split, index: int) -> list[bytes]:
    arrays = jax.tree.leaves(found)
    return [np.ascontiguousarray(array[index]).tobytes() for array in arrays]


@EACH
@pytest.mark.filterwarnings("ignore:(invalid value|divide by zero)")
def test_split_is_the_same_whatever_else_is_in_the_batch(batch, rng, settings):
    alone = split(batch, settings)
    hostile = list(disturbances(rng).values())
    for index in range(N_NODES):
        for first in range(len(hostile)):
            changed = batch
            others = [other for other in range(N_NODES) if other != index]
            for step, other in enumerate(others):
                disturbance = hostile[(first + step) % len(hostile)]
                changed = put(changed, other, disturbance)
            assert node_bytes(split(changed, settings), index) == node_bytes(
                alone, index
            )


def test_padding_of_a_node_changes_no_bit(rng):
    """Several tiles, the last of them in part; then two and fourteen of padding."""
    n_rows = 1100
    x = rng.normal(size=(1, n_rows, N_CONTINUOUS))
    y = np.abs(x[..., :1] + x[..., 1:2]) + 0.1 * rng.normal(size=(1, n_rows, 1))
    finder = SecretSplits(n_starts=1, n_attempts=1, max_iter=20)

    def found(n_padded):
        def pad(values):
            wider = [(0, 0), (0, n_padded - n_rows), (0, 0)][: values.ndim]
            return np.pad(values.astype(np.float32), wider)

        weight, random = pad(np.ones((1, n_rows))), np.full((1, 2), 0.3, np.float32)
        node = nodes_of(finder, pad(x), pad(y), weight=weight, random=random)
        return find_splits(node, 1, finder=finder, together=False)

    few, many = found(2048), found(8192)
    assert few.kind[0] == SplitKind.OBLIQUE
    assert node_bytes(few, 0) == node_bytes(many, 0)


# Laws


@EACH
@pytest.mark.parametrize("min_weight", [1.0, 30.0, 45.0])
def test_min_weight_is_honoured(batch, settings, min_weight):
    least = np.full(N_NODES, min_weight, np.float32)
    found = split(replace(batch, min_weight=least), settings)
    for index in range(N_NODES):
        node, got = take(batch, index), take(found, index)
        if got.kind != SplitKind.LEAF:
            left = goes_left(node, got)
            sides = node.weight[left].sum(), node.weight[~left].sum()
            assert min(sides) >= min_weight
    if min_weight == 1.0:
        assert (found.kind != SplitKind.LEAF).all()
    impossible = np.array([64.5, 65.0, 1e6, np.inf], np.float32)
    found = split(replace(batch, min_weight=impossible), settings)
    assert (found.kind == SplitKind.LEAF).all()


# Nodes that cannot be split


def test_pure_nodes_and_nodes_with_few_rows_are_leaves(batch):
    y, weight = batch.targets[:, :, 0].copy(), batch.weight.copy()
    x = batch.x.copy()
    x[0], y[0] = x[0, 0], y[0, 0]  # all rows equal
    y[1] = 0.1  # a constant output
    y[2] = 1 + 2 * x[2, :, 0] - x[2, :, 1]  # a linear one
    weight[3, 6:] = 0  # as many rows as two components have dimensions
    nodes = replace(batch, x=x, targets=y[:, :, None], weight=weight)
    found = split(nodes, LINEAR)
    assert (found.kind == SplitKind.LEAF).all()
    assert found.pure.tolist() == [True, True, True, False]
    assert statuses(nodes, LINEAR)[3] == MixtureStatus.TOO_FEW_ROWS
    for name in ("direction", "threshold", "child_models"):
        assert np.isfinite(getattr(found, name)).all()
    assert not np.isnan(found.gain).any()


def test_two_point_masses_in_the_output_are_split(batch):
    """With constant leaves two values of the output are two components."""
    high = batch.x[:, :, 2] > 0.1
    x = batch.x.copy()
    x[:, :, 2] = np.where(high, 1.0, -1.0)
    weight = np.ones_like(batch.weight)
    y = high.astype(np.float32)[:, :, None]
    found = split(replace(batch, x=x, targets=y, weight=weight), CONSTANT)
    assert (found.kind == SplitKind.AXIS).all()
    assert (found.attribute == 2).all()
    assert (np.abs(found.threshold) < 1).all()
    share = high.mean(axis=1)
    np.testing.assert_allclose(found.gain / N_ROWS, 2 * share * (1 - share), atol=1e-5)


def test_a_collapsed_start_gives_way_to_another(batch):
    """The outlier alone would be the likelier component, but it is no component."""
    x = batch.x.copy()
    x[:, 7] = 9.0
    batch = replace(batch, x=x, weight=np.ones_like(batch.weight))

    def starting_from(*pairs):
        randomness = (np.array(pairs, np.float32) + np.float32(0.5)) / N_ROWS
        return replace(batch, random=np.tile(randomness.ravel(), (N_NODES, 1)))

    settings = LINEAR._replace(finder=replace(LINEAR.finder, start="rows"))
    outlier, good = (3, 7), (20, 50)
    start = starting_from(outlier, outlier, outlier)
    assert (statuses(start, settings) == MixtureStatus.COLLAPSED).all()
    assert (split(start, settings).kind == SplitKind.LEAF).all()
    rescued = split(starting_from(outlier, good, outlier), settings)
    start = starting_from(good, good, good)
    assert (statuses(start, settings) == MixtureStatus.ITERATION_LIMIT).all()
    only_good = split(start, settings)
    for index in range(N_NODES):
        assert node_bytes(rescued, index) == node_bytes(only_good, index)
    # With further attempts a node without a usable split gets new starts.
    again = settings._replace(finder=replace(settings.finder, n_attempts=2))
    both = np.concatenate(
        [starting_from(*3 * [pair]).random for pair in (outlier, good)], axis=1
    )
    second = split(replace(start, random=both), again)
    for index in range(N_NODES):
        assert node_bytes(second, index) == node_bytes(only_good, index)
