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

from secret_jax.mixture import MixtureStatus
from secret_jax.numerics import AnyArray, leading_eigenvectors, matmul, weighted_moments
from secret_jax.splits import NodeSplits
from secret_jax.splits.directions import (
    discriminant,
    hessian_directions,
    mixture_directions,
)
from secret_jax.splits.scoring import (
    GramRows,
    gram_rows,
    score_directions,
    side_models,
)
from secret_jax.tree import SplitKind

# Below this deviation, in units of the whole table, an attribute is constant.
_CONSTANT = 1e-6
# A residual with a smaller deviation, in the same units, is float32 rounding.
_PURE = 1e-5


class ModelBatch(NamedTuple):
    """Rows of several nodes and the models that the nodes already have.

    Attributes
    ----------
    x : Array of shape (n_nodes, n_rows, n_continuous), float32
        Regressors first.
    codes : Array of shape (n_nodes, n_rows, n_discrete), int32
    y : Array of shape (n_nodes, n_rows), float32
    weight : Array of shape (n_nodes, n_rows), float32
        Zero for padding.
    min_weight : Array of shape (n_nodes,), float32
        Least weight on each side of a split.
    randomness : Array of shape (n_nodes, n_starts, n_continuous + 1), float32
        Numbers in (0, 1), each node's own.
    coefficient : Array of shape (n_nodes, 1 + n_regressors), float32
        The node's model.
    oblique : Array of shape (n_nodes,), bool
        Whether the node may be split obliquely.
    """

    x: AnyArray
    codes: AnyArray
    y: AnyArray
    weight: AnyArray
    min_weight: AnyArray
    randomness: AnyArray
    coefficient: AnyArray
    oblique: AnyArray


class RssSettings(NamedTuple):
    """What a compiled finder is specialised on."""

    n_regressors: int
    n_categories: int
    n_thresholds: int
    em_steps: int
    n_hessian: int
    n_hinge: int
    hinge_steps: int
    ridge: float
    most_regressors: int


class _Candidates(NamedTuple):
    """Splits along directions in attributes standardised in the node."""

    gain: jax.Array  # (n,)
    projection: jax.Array  # (n, n_rows)
    direction: jax.Array  # (n, n_continuous); zero for discrete
    threshold: jax.Array  # (n,)
    kind: jax.Array  # (n,)
    attribute: jax.Array  # (n,)


@functools.partial(jax.jit, static_argnames=("settings",))
def find_rss_splits(batch: ModelBatch, *, settings: RssSettings) -> NodeSplits:
    """Best split of every node of a batch.

    Returns
    -------
    NodeSplits
        ``gain`` is the drop of the penalised residual sum of squares over the rows of
        the batch, in standardised units of the output.
    """
    return jax.vmap(functools.partial(_node_split, settings=settings))(batch)


def _node_split(node: ModelBatch, *, settings: RssSettings) -> NodeSplits:
    n_continuous = node.x.shape[1]
    _, center, deviation = weighted_moments(node.x, node.weight)
    varies = deviation > _CONSTANT
    scale = jnp.where(varies, deviation, 1.0)
    z = jnp.where(varies, (node.x - center) / scale, 0.0)

    regressors = node.x[:, : settings.n_regressors]
    fitted = node.coefficient[0] + matmul(regressors, node.coefficient[1:])
    _, offset, spread = weighted_moments((node.y - fitted)[:, None], node.weight)
    pure = spread[0] <= _PURE
    unit = jnp.where(pure, 1.0, spread[0])
    present = node.weight > 0
    residual = jnp.where(present, (node.y - fitted - offset[0]) / unit, 0.0)
    z = jnp.where(present[:, None], z, 0.0)

    basis = _regressor_basis(z[:, : settings.n_regressors], node.weight, settings)
    rows = gram_rows(basis, residual, node.weight)

    best = _axis_candidates(node, rows, z, residual, settings)
    if n_continuous > 1:
        proposed = _proposals(node, rows, z, residual, settings)
        best = _merge(best, proposed)
        best = _merge(best, _hinge_candidates(best, node, rows, z, settings))
    chosen = jnp.argmax(best.gain)
    pick = jax.tree.map(lambda array: array[chosen], best)

    # Back to the table's units; the cut goes midway between the neighbouring rows.
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
    axis = jax.nn.one_hot(pick.attribute, n_continuous, dtype=z.dtype)
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
        goes_left=_subset(node, pick, left & discrete, settings),
        gain=jnp.where(usable, pick.gain * unit**2, 0.0),
        status=jnp.int32(MixtureStatus.CONVERGED),
        pure=pure,
        child_model=jnp.zeros((2, 1 + settings.n_regressors), z.dtype),
    )


def _regressor_basis(
    z: jax.Array, weight: jax.Array, settings: RssSettings
) -> jax.Array:
    """Regressors of the children's models: all, or their leading components."""
    if settings.n_regressors <= settings.most_regressors:
        return z
    share = weight / jnp.maximum(jnp.sum(weight), 1e-30)
    covariance = matmul((share[:, None] * z).T, z)
    vectors = leading_eigenvectors(covariance, settings.most_regressors, n_steps=12)
    components = matmul(z, vectors.T)
    _, _, deviation = weighted_moments(components, weight)
    return components / jnp.maximum(deviation, 1e-3)


def _axis_candidates(
    node: ModelBatch,
    rows: GramRows,
    z: jax.Array,
    residual: jax.Array,
    settings: RssSettings,
) -> _Candidates:
    """Every continuous attribute, and every discrete one by its mean residual."""
    n_continuous, n_discrete = node.x.shape[1], node.codes.shape[1]
    projection = node.x.T
    kind = jnp.full(n_continuous, SplitKind.AXIS)
    attribute = jnp.arange(n_continuous)
    if n_discrete:

        def ranked(codes):
            member = codes[:, None] == jnp.arange(settings.n_categories)
            member = member.astype(z.dtype)
            weight = matmul(node.weight, member)
            mean = matmul(node.weight * residual, member) / (weight + 2)
            rank = jnp.argsort(jnp.argsort(jnp.where(weight > 0, mean, jnp.inf)))
            return matmul(member, rank.astype(z.dtype))

        ranks = jax.lax.map(ranked, node.codes.T)
        projection = jnp.concatenate([projection, ranks])
        kind = jnp.concatenate([kind, jnp.full(n_discrete, SplitKind.DISCRETE)])
        attribute = jnp.concatenate([attribute, jnp.arange(n_discrete)])
    direction = jnp.zeros((len(projection), n_continuous), z.dtype)
    direction = direction.at[jnp.arange(n_continuous), jnp.arange(n_continuous)].set(1)

    if len(projection) > settings.most_regressors:
        screened = _screen(projection, residual, node, settings)
        projection, kind = projection[screened], kind[screened]
        attribute, direction = attribute[screened], direction[screened]
    scores = _score(rows, projection, node, settings)
    return _Candidates(
        scores.gain, projection, direction, scores.threshold, kind, attribute
    )


def _screen(
    projection: jax.Array,
    residual: jax.Array,
    node: ModelBatch,
    settings: RssSettings,
) -> jax.Array:
    """Indices of the most promising attributes under models of their own alone."""

    def promise(values):
        _, center, deviation = weighted_moments(values[:, None], node.weight)
        scale = jnp.where(deviation > _CONSTANT, deviation, 1.0)
        own = gram_rows((values[:, None] - center) / scale, residual, node.weight)
        return _score(own, values[None], node, settings).gain[0]

    gain = jax.lax.map(promise, projection)
    return jnp.argsort(-gain)[: settings.most_regressors]


def _score(
    rows: GramRows, projection: jax.Array, node: ModelBatch, settings: RssSettings
):
    return score_directions(
        rows,
        projection.T,
        node.min_weight,
        n_thresholds=settings.n_thresholds,
        ridge=settings.ridge,
    )


def _oblique_candidates(
    direction: jax.Array,
    node: ModelBatch,
    rows: GramRows,
    z: jax.Array,
    settings: RssSettings,
) -> _Candidates:
    projection = matmul(direction, z.T)
    scores = _score(rows, projection, node, settings)
    n = len(direction)
    allowed = node.oblique & (jnp.sum(direction**2, axis=1) > 0)
    return _Candidates(
        gain=jnp.where(allowed, scores.gain, -jnp.inf),
        projection=projection,
        direction=direction,
        threshold=scores.threshold,
        kind=jnp.full(n, SplitKind.OBLIQUE),
        attribute=jnp.full(n, -1),
    )


def _proposals(
    node: ModelBatch,
    rows: GramRows,
    z: jax.Array,
    residual: jax.Array,
    settings: RssSettings,
) -> _Candidates:
    """Mixture and principal Hessian directions."""
    directions = []
    if node.randomness.shape[0]:
        directions.append(
            mixture_directions(
                z,
                residual,
                node.weight,
                node.randomness,
                n_steps=settings.em_steps,
                ridge=settings.ridge,
            )
        )
    if settings.n_hessian:
        directions.append(
            hessian_directions(
                z, residual, node.weight, n=settings.n_hessian, ridge=settings.ridge
            )
        )
    if not directions:
        directions.append(jnp.zeros((1, z.shape[1]), z.dtype))
    return _oblique_candidates(jnp.concatenate(directions), node, rows, z, settings)


def _hinge_candidates(
    best: _Candidates,
    node: ModelBatch,
    rows: GramRows,
    z: jax.Array,
    settings: RssSettings,
) -> _Candidates:
    """Hinge steps from the best candidates, each kept only if the score improves.

    Both sides are fitted, each row is labelled by the side that predicts it better,
    weighted by how much, and LDA of the labels gives the next direction.
    """
    order = jnp.argsort(-best.gain)[: settings.n_hinge]
    starts = jax.tree.map(lambda array: array[order], best)
    design, target = rows.design[:, :-1], rows.design[:, -1]

    def relabelled(projection, threshold):
        left = (projection <= threshold).astype(z.dtype)
        left_model, right_model = side_models(rows, left, settings.ridge)
        error = (target - matmul(design, right_model)) ** 2
        advantage = error - (target - matmul(design, left_model)) ** 2
        magnitude = jnp.abs(advantage) * node.weight
        cap = 4 * jnp.sum(magnitude) / jnp.maximum(jnp.sum(node.weight), 1e-30)
        bounded = node.weight * jnp.minimum(jnp.abs(advantage), cap)
        label = (advantage > 0).astype(z.dtype)
        return discriminant(z, label, bounded, settings.ridge)

    def step(_, current):
        direction = jax.vmap(relabelled)(current.projection, current.threshold)
        new = _oblique_candidates(direction, node, rows, z, settings)
        better = new.gain > current.gain * (1 + 1e-4)

        def choose(a, b):
            return jnp.where(better.reshape((-1,) + (1,) * (a.ndim - 1)), a, b)

        return jax.tree.map(choose, new, current)

    return jax.lax.fori_loop(0, settings.hinge_steps, step, starts)


def _merge(first: _Candidates, second: _Candidates) -> _Candidates:
    return jax.tree.map(lambda a, b: jnp.concatenate([a, b]), first, second)


def _subset(
    node: ModelBatch, pick: _Candidates, left: jax.Array, settings: RssSettings
) -> jax.Array:
    """Categories of the left side; absent ones follow the larger side."""
    if not node.codes.shape[1]:
        return jnp.zeros(settings.n_categories, bool)
    code = node.codes[:, jnp.maximum(pick.attribute, 0)]
    member = (code[:, None] == jnp.arange(settings.n_categories)).astype(left.dtype)
    weight = matmul(node.weight, member.astype(node.weight.dtype))
    left_weight = matmul(
        jnp.where(left, node.weight, 0.0), member.astype(node.weight.dtype)
    )
    larger_left = left_weight.sum() >= 0.5 * weight.sum()
    return jnp.where(weight > 0, left_weight > 0, larger_left)
