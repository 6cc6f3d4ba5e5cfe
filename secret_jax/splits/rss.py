"""The split finder of ``criterion="rss"``: candidates of all kinds, one score.

Axis thresholds, orders of categories, EM with LDA (the paper's step), principal
Hessian directions and hinge steps propose; the drop in the penalised residual sum of
squares decides (`secret_jax.splits.scoring`).
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from secret_jax.runtime.compiling import jit
from secret_jax.runtime.linalg import (
    AnyArray,
    leading_eigenvectors,
    matmul,
    weighted_moments,
)
from secret_jax.splits.directions import (
    Proposal,
    discriminants,
    hessian_directions,
    mixture_labels,
    sparse,
    start_responsibilities,
)
from secret_jax.splits.discriminant import oriented
from secret_jax.splits.interface import NodeSplits, no_splits, over_nodes
from secret_jax.splits.mixture import MixtureStatus
from secret_jax.splits.scoring import (
    NodeRows,
    fit_sides,
    node_rows,
    quantiles,
    screen,
)
from secret_jax.tree.structure import SplitKind

# Below this deviation, in units of the whole table, an attribute is constant.
_CONSTANT = 1e-6
# A residual with a smaller deviation, in the same units, is float32 rounding.
_PURE = 1e-5
# EM sees so many rows of a node.
_MIXTURE_ROWS = 512


class ModelBatch(NamedTuple):
    """Rows of several nodes and the models that the nodes already have.

    Attributes
    ----------
    x : Array of shape (n_nodes, n_rows, n_columns), float32
        Regressors first.
    codes : Array of shape (n_nodes, n_rows, n_discrete), int32
    y : Array of shape (n_nodes, n_rows), float32
    weight : Array of shape (n_nodes, n_rows), float32
        Zero for padding.
    min_weight : Array of shape (n_nodes,), float32
        Least weight on each side of a split.
    normal : Array of shape (n_nodes, n_random, n_columns + 1), float32
        Standard normal numbers, each node's own: directions of random starts.
    coefficient : Array of shape (n_nodes, 1 + n_regressors), float32
        The node's model.
    degrees : Array of shape (n_nodes,), float32
        Its effective degrees of freedom.
    loading : Array of shape (n_nodes, n_columns, n_coordinates), float32
        Combinations of the standardised columns that stand for them, those of the
        regressors first; of shape (n_nodes, 0, 0) where the columns stand for
        themselves.
    oblique : Array of shape (n_nodes,), bool
        Whether the node may be split obliquely.
    """

    x: AnyArray
    codes: AnyArray
    y: AnyArray
    weight: AnyArray
    min_weight: AnyArray
    normal: AnyArray
    coefficient: AnyArray
    degrees: AnyArray
    loading: AnyArray
    oblique: AnyArray


class RssSettings(NamedTuple):
    """What a compiled finder is specialised on; see `secret_jax.options.RssOptions`.

    ``n_indicators`` of the regressors, the last ones, are indicators of categories or
    gaps: those of categories are split on only together with others. ``gaps`` are the
    columns with missing values, each with its indicator's column. ``n_model`` of the
    coordinates, the first ones, span them. ``oblique``: whether any node may be split
    obliquely. ``together``: the nodes of a batch side by side, for accelerators, not
    one after the other. ``max_split_features`` of 0 means all. ``proposals`` are asked
    for directions beside those that the others ask for.
    """

    n_regressors: int
    n_indicators: int
    gaps: tuple[tuple[int, int], ...]
    n_categories: int
    n_thresholds: int
    em_starts: bool
    em_steps: int
    n_hessian: int
    n_finalists: int
    n_hinge: int
    hinge_steps: int
    ridge: float
    n_model: int
    oblique: bool
    together: bool
    max_split_features: int
    proposals: tuple[Proposal, ...] = ()


class _Candidates(NamedTuple):
    """Splits along directions in attributes standardised in the node."""

    gain: jax.Array  # (n,)
    projection: jax.Array  # (n, n_rows)
    direction: jax.Array  # (n, n_columns); for axis and discrete splits see `_Gaps`
    threshold: jax.Array  # (n,)
    kind: jax.Array  # (n,)
    attribute: jax.Array  # (n,)

    def take(self, index: jax.Array) -> _Candidates:
        return _Candidates(*(array[index] for array in self))


class _Gaps(NamedTuple):
    """Projections on attributes with missing values, once for each side of the gaps.

    As candidates their ``direction`` says where the gaps go: it is -1 (to the left) or
    1 at the column of the indicator. That of all other axis splits is zero.
    """

    projection: jax.Array  # (n, n_rows); gaps lie beyond all values
    value: jax.Array  # (n, n_rows); gaps count as means
    weight: jax.Array  # (n, n_rows); zero for gaps
    direction: np.ndarray  # (n, n_columns)
    attribute: np.ndarray  # (n,)


class _Node(NamedTuple):
    """A node prepared for scoring."""

    z: jax.Array  # (n_rows, n_columns), standardised in the node
    rows: NodeRows
    back: jax.Array  # (n_coordinates, n_columns), from coordinates to z
    covariance: jax.Array  # (n_columns, n_columns) of z
    min_weight: jax.Array
    n_model: int


@functools.partial(jit, static_argnames=("settings",), small_steps=True)
def find_rss_splits(
    batch: ModelBatch, n_nodes: AnyArray, *, settings: RssSettings
) -> tuple[NodeSplits, jax.Array]:
    """Best split of the first nodes of a batch.

    Parameters
    ----------
    batch : ModelBatch
    n_nodes : int or Array of shape (), int32
        The nodes after these are padding: no time is spent on them.
    settings : RssSettings

    Returns
    -------
    splits : NodeSplits
        ``gain`` is the drop of the penalised residual sum of squares over the rows of
        the batch, in standardised units of the output.
    price : Array of shape (n_nodes,), float32
        What the coefficients of a further model are expected to save by chance alone.
    """

    split = functools.partial(_node_split, settings=settings)
    n_padded, _, n_columns = batch.x.shape
    sizes = (n_padded, n_columns, settings.n_categories, settings.n_regressors)
    nothing = no_splits(*sizes), np.zeros(n_padded, np.float32)
    return over_nodes(split, batch, n_nodes, nothing, together=settings.together)


def _node_split(
    batch: ModelBatch, *, settings: RssSettings
) -> tuple[NodeSplits, jax.Array]:
    total, center, deviation = weighted_moments(batch.x, batch.weight)
    varies = deviation > _CONSTANT
    scale = jnp.where(varies, deviation, 1.0)
    present = batch.weight > 0
    z = jnp.where(varies & present[:, None], (batch.x - center) / scale, 0.0)

    regressors = batch.x[:, : settings.n_regressors]
    fitted = batch.coefficient[0] + matmul(regressors, batch.coefficient[1:])
    _, offset, spread = weighted_moments((batch.y - fitted)[:, None], batch.weight)
    pure = spread[0] <= _PURE
    unit = jnp.where(pure, 1.0, spread[0])
    residual = jnp.where(present, (batch.y - fitted - offset[0]) / unit, 0.0)

    node = _prepared(z, residual, batch, settings)
    axis = _axis_candidates(batch, node, settings)

    def best_along_axes():
        return _best(_finalists(axis, node, settings))

    def best_of_all():
        finalists = _finalists(axis, node, settings)
        directions = _proposals(batch, node, axis, settings)
        if len(directions):
            proposed = _oblique(jnp.concatenate(directions), node, settings)
            finalists = _merge(finalists, _finalists(proposed, node, settings))
        if settings.n_hinge and settings.hinge_steps:
            finalists = _merge(finalists, _hinges(finalists, node, settings))
        return _best(finalists)

    if settings.oblique and z.shape[1] > 1:
        pick = jax.lax.cond(batch.oblique, best_of_all, best_along_axes)
    else:
        pick = best_along_axes()
    splits = _in_table_units(pick, batch, center, scale, unit, pure, settings)

    # A model with a ridge spends less than one degree of freedom on a regressor.
    n_model = settings.n_model
    spent = 2 + n_model - jnp.trace(node.rows.penalty[:n_model, :n_model])
    left_over = jnp.maximum(total - batch.degrees, 1.0)
    noise = total * (spread[0] ** 2 + offset[0] ** 2) / left_over
    return splits, noise * jnp.minimum(spent, total / 4)


def _prepared(
    z: jax.Array, residual: jax.Array, batch: ModelBatch, settings: RssSettings
) -> _Node:
    share = batch.weight / jnp.maximum(jnp.sum(batch.weight), 1e-30)
    covariance = matmul((share[:, None] * z).T, z)
    themselves = batch.loading.shape[1] == 0
    basis = z if themselves else matmul(z, batch.loading)
    rows, whitener = node_rows(
        basis, residual, batch.weight, n_model=settings.n_model, ridge=settings.ridge
    )
    back = whitener if themselves else matmul(whitener, batch.loading.T)
    return _Node(z, rows, back, covariance, batch.min_weight, settings.n_model)


def _scored(
    projection: jax.Array,
    node: _Node,
    settings: RssSettings,
    weight: jax.Array | None = None,
    along: jax.Array | None = None,
) -> tuple[jax.Array, jax.Array]:
    """Gain and threshold of the best cut along each direction, approximately.

    ``weight``, where given, chooses the rows whose quantiles are tried; for ``along``
    see `screen`.
    """
    weight = node.rows.weight if weight is None else weight
    cuts = quantiles(projection, weight, settings.n_thresholds)
    gain = screen(
        node.rows,
        projection,
        cuts,
        node.min_weight,
        n_model=node.n_model,
        along=along,
    )
    best = jnp.argmax(gain, axis=1)[:, None]
    gain, cuts = (jnp.take_along_axis(a, best, axis=1)[:, 0] for a in (gain, cuts))
    return gain, cuts


def _axis_candidates(
    batch: ModelBatch, node: _Node, settings: RssSettings
) -> _Candidates:
    """Every continuous attribute, and every discrete one by its mean residual."""
    n_columns, n_discrete = batch.x.shape[1], batch.codes.shape[1]
    n_plain = settings.n_regressors - settings.n_indicators
    with_gaps = {column for column, _ in settings.gaps}
    plain = [*range(n_plain), *range(settings.n_regressors, n_columns)]
    column = np.array(
        [indicator for _, indicator in settings.gaps if indicator not in plain]
        + [column for column in plain if column not in with_gaps],
        np.int32,
    )
    projection = batch.x.T[column]
    kind = np.repeat([SplitKind.AXIS, SplitKind.DISCRETE], [len(column), n_discrete])
    attribute = np.concatenate([column, np.arange(n_discrete, dtype=np.int32)])
    if n_discrete:

        def ranked(codes):
            member = codes[:, None] == jnp.arange(settings.n_categories)
            member = member.astype(batch.x.dtype)
            weight = matmul(batch.weight, member)
            moment = matmul(batch.weight * node.rows.residual, member)
            mean = jnp.where(weight > 0, moment / (weight + 2), jnp.inf)
            rank = jnp.argsort(jnp.argsort(mean))
            return matmul(member, rank.astype(batch.x.dtype))

        ranks = jax.lax.map(ranked, batch.codes.T)
        projection = jnp.concatenate([projection, ranks])
    direction = np.zeros((len(kind), n_columns), np.float32)
    weight = along = None
    if settings.gaps:
        gaps = _gaps(batch, settings)
        shape = (len(kind), batch.x.shape[0])
        weight = jnp.concatenate([jnp.broadcast_to(batch.weight, shape), gaps.weight])
        along = jnp.concatenate([projection, gaps.value])
        projection = jnp.concatenate([projection, gaps.projection])
        direction = np.concatenate([direction, gaps.direction])
        attribute = np.concatenate([attribute, gaps.attribute])
        kind = np.concatenate([kind, np.full(len(gaps.attribute), SplitKind.AXIS)])
    gain, cuts = _scored(projection, node, settings, weight, along)
    return _Candidates(
        gain=gain,
        projection=projection,
        direction=jnp.asarray(direction, batch.x.dtype),
        threshold=cuts,
        kind=jnp.asarray(kind, jnp.int32),
        attribute=jnp.asarray(attribute),
    )


def _gaps(batch: ModelBatch, settings: RssSettings) -> _Gaps:
    column, indicator = np.array(settings.gaps, np.int32).T
    value, missing = batch.x.T[column], batch.x.T[indicator] > 0
    weight = jnp.where(missing, 0.0, batch.weight)
    there = weight > 0
    lowest = jnp.min(jnp.where(there, value, jnp.inf), axis=1, keepdims=True)
    highest = jnp.max(jnp.where(there, value, -jnp.inf), axis=1, keepdims=True)
    # A threshold is a value that occurs: the lowest is never right of it.
    before = jnp.where(missing, jnp.where(lowest < jnp.inf, lowest, 0.0), value)
    after = jnp.nextafter(jnp.where(highest > -jnp.inf, highest, 0.0), jnp.inf)
    after = jnp.where(missing, after, value)
    unit = np.eye(batch.x.shape[1], dtype=np.float32)[indicator]
    return _Gaps(
        projection=jnp.concatenate([before, after]),
        value=jnp.concatenate([value, value]),
        weight=jnp.concatenate([weight, weight]),
        direction=np.concatenate([-unit, unit]),
        attribute=np.concatenate([column, column]),
    )


def _oblique(coordinates: jax.Array, node: _Node, settings: RssSettings) -> _Candidates:
    """Splits along directions given in the coordinates, by approximate gain."""
    direction = oriented(matmul(coordinates, node.back))
    if settings.max_split_features:
        kept = settings.max_split_features
        direction = oriented(sparse(direction, node.covariance, kept, settings.ridge))
    projection = matmul(direction, node.z.T)
    gain, cuts = _scored(projection, node, settings)
    n = len(direction)
    return _Candidates(
        gain=gain,
        projection=projection,
        direction=direction,
        threshold=cuts,
        kind=jnp.full(n, SplitKind.OBLIQUE, jnp.int32),
        attribute=jnp.full(n, -1, jnp.int32),
    )


def _finalists(
    candidates: _Candidates, node: _Node, settings: RssSettings
) -> _Candidates:
    """The most promising candidates, with their exact gains."""
    n = min(settings.n_finalists, len(candidates.gain))
    chosen = candidates.take(jax.lax.top_k(candidates.gain, n)[1])
    left = chosen.projection <= chosen.threshold[:, None]
    exact = fit_sides(node.rows, left, node.min_weight, n_model=node.n_model)
    return chosen._replace(gain=exact.gain)


def _best(candidates: _Candidates) -> _Candidates:
    return candidates.take(jnp.argmax(candidates.gain))


def _proposals(
    batch: ModelBatch, node: _Node, axis: _Candidates, settings: RssSettings
) -> list[jax.Array]:
    """Mixture and principal Hessian directions, in the coordinates."""
    rows, n_model = node.rows, node.n_model
    directions = []
    bend = hessian_directions(rows, max(settings.n_hessian, 1), n_model=n_model)
    if settings.n_hessian:
        directions.append(bend)
    if settings.em_starts:
        head = slice(0, _MIXTURE_ROWS)
        coordinates, weight = rows.coordinates[head], rows.weight[head]
        residual = rows.residual[head]
        component = leading_eigenvectors(node.covariance, 1, n_squarings=4)[0]
        best = _best(axis)
        side = jnp.where(best.projection[head] <= best.threshold, 1.0, -1.0)
        normal = batch.normal[:, : rows.coordinates.shape[1] + 1]
        # The residual weighs as much as all attributes together.
        pull = np.sqrt(normal.shape[1])
        spread = matmul(normal[:, 1:], coordinates.T) + pull * normal[:, :1] * residual
        start = jnp.concatenate(
            [
                jnp.stack(
                    [
                        matmul(node.z[head], component),
                        residual,
                        matmul(coordinates, bend[0]),
                        side.astype(residual.dtype),
                    ]
                ),
                spread,
            ]
        )
        label = mixture_labels(
            rows,
            start_responsibilities(start, weight),
            n_steps=settings.em_steps,
            n_model=n_model,
        )
        first, second = weight * label, weight * (1 - label)
        directions.append(discriminants(rows, first, second, n_model=n_model))
    return directions + [more(rows, n_model=n_model) for more in settings.proposals]


def _hinges(start: _Candidates, node: _Node, settings: RssSettings) -> _Candidates:
    """Hinge steps from the best candidates, each kept only if the score improves.

    Both sides are fitted, each row is labelled by the side that predicts it better,
    weighted by how much, and LDA of the labels gives the next direction.
    """
    rows, n_model = node.rows, node.n_model
    n = min(settings.n_hinge, len(start.gain))
    start = start.take(jax.lax.top_k(start.gain, n)[1])

    def sides(candidates):
        left = candidates.projection <= candidates.threshold[:, None]
        return fit_sides(rows, left, node.min_weight, n_model=n_model)

    def error(model):
        fitted = model[:, :1] + matmul(model[:, 1:], rows.coordinates[:, :n_model].T)
        return (rows.residual - fitted) ** 2

    def step(_, state):
        current, models = state
        advantage = error(models.right) - error(models.left)
        size = jnp.abs(advantage)
        total = jnp.maximum(jnp.sum(rows.weight), 1e-30)
        cap = 4 * matmul(size, rows.weight)[:, None] / total
        bounded = rows.weight * jnp.minimum(size, cap)
        first = jnp.where(advantage > 0, bounded, 0.0)
        direction = discriminants(rows, first, bounded - first, n_model=n_model)
        new = _oblique(direction, node, settings)
        new_models = sides(new)
        new = new._replace(gain=new_models.gain)
        better = new.gain > current.gain * (1 + 1e-4)

        def choose(a, b):
            return jnp.where(better.reshape((-1,) + (1,) * (a.ndim - 1)), a, b)

        return jax.tree.map(choose, (new, new_models), (current, models))

    steps = settings.hinge_steps
    return jax.lax.fori_loop(0, steps, step, (start, sides(start)))[0]


def _merge(first: _Candidates, second: _Candidates) -> _Candidates:
    pairs = zip(first, second, strict=True)
    return _Candidates(*(jnp.concatenate(pair) for pair in pairs))


def _in_table_units(
    pick: _Candidates,
    batch: ModelBatch,
    center: jax.Array,
    scale: jax.Array,
    unit: jax.Array,
    pure: jax.Array,
    settings: RssSettings,
) -> NodeSplits:
    """The chosen split for rows of the table; the cut goes between the rows."""
    present = batch.weight > 0
    left = (pick.projection <= pick.threshold) & present
    right = (pick.projection > pick.threshold) & present
    highest = jnp.max(jnp.where(left, pick.projection, -jnp.inf))
    lowest = jnp.min(jnp.where(right, pick.projection, jnp.inf))
    middle = 0.5 * (highest + lowest)
    # Between neighbouring floats the middle is one of them: never the right one.
    cut = jnp.where(middle < lowest, middle, highest)
    cut = jnp.where(jnp.isfinite(highest + lowest), cut, 0.0)
    is_axis = pick.kind == SplitKind.AXIS
    oblique = pick.direction / scale
    length = jnp.sqrt(jnp.sum(oblique**2))
    length = jnp.where(length > 0, length, 1.0)
    axis = jax.nn.one_hot(pick.attribute, len(center), dtype=center.dtype)
    if settings.gaps:
        # A gap counts as the mean value of the side that it goes to.
        indicator = jnp.abs(pick.direction)
        goes_left = jnp.sum(pick.direction) < 0
        value = matmul(batch.x, axis)
        there = (matmul(batch.x, indicator) <= 0) & jnp.where(goes_left, left, right)
        weight = jnp.where(there, batch.weight, 0.0)
        mean = jnp.sum(weight * value) / jnp.maximum(jnp.sum(weight), 1e-30)
        inside = jnp.where(goes_left, jnp.minimum(mean, cut), jnp.maximum(mean, lowest))
        axis = axis + jnp.where(jnp.isfinite(inside), inside, 0.0) * indicator
    direction = jnp.where(is_axis, axis, oblique / length)
    # An axis split compares the attribute itself, so its cut is exact.
    threshold = jnp.where(is_axis, cut, (cut + jnp.sum(oblique * center)) / length)

    discrete = pick.kind == SplitKind.DISCRETE
    usable = (pick.gain > 0) & jnp.isfinite(pick.gain) & ~pure
    return NodeSplits(
        kind=jnp.where(usable, pick.kind, SplitKind.LEAF).astype(jnp.int32),
        attribute=pick.attribute.astype(jnp.int32),
        direction=jnp.where(discrete, 0.0, direction),
        threshold=jnp.where(discrete, 0.0, threshold),
        goes_left=_subset(batch, pick, left & discrete, settings),
        gain=jnp.where(usable, pick.gain * unit**2, 0.0),
        status=jnp.int32(MixtureStatus.CONVERGED),
        pure=pure,
        child_model=jnp.zeros((2, 1 + settings.n_regressors), center.dtype),
    )


def _subset(
    batch: ModelBatch, pick: _Candidates, left: jax.Array, settings: RssSettings
) -> jax.Array:
    """Categories of the left side; absent ones follow the larger side."""
    if not batch.codes.shape[1]:
        return jnp.zeros(settings.n_categories, bool)
    code = batch.codes[:, jnp.maximum(pick.attribute, 0)]
    member = (code[:, None] == jnp.arange(settings.n_categories)).astype(jnp.float32)
    weight = matmul(batch.weight, member)
    left_weight = matmul(jnp.where(left, batch.weight, 0.0), member)
    larger_left = left_weight.sum() >= 0.5 * weight.sum()
    return jnp.where(weight > 0, left_weight > 0, larger_left)
