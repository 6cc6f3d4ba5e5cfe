"""The steps of the default search: candidates of all kinds, and the best of them.

Arrays are those of one node, or of a batch of nodes along their first axis, of NumPy or
of JAX; `secret_jax.splits.rss` holds the options.
"""

import functools
from typing import Any, NamedTuple

import jax
import numpy as np

from secret_jax.runtime.arrays import either, improved, largest, taken, where_each
from secret_jax.runtime.linalg import AnyArray, matmul, matvec, namespace, safe_divide
from secret_jax.runtime.pieces import for_rows, over_rows, weighted_moments
from secret_jax.splits.candidates import (
    Options,
    PreparedNodes,
    along_coordinates,
    along_directions,
    axis_candidates,
    exact_models,
    prepared,
    projected,
)
from secret_jax.splits.directions import discriminants, hessian_directions, sparse
from secret_jax.splits.discriminant import oriented
from secret_jax.splits.interface import Split
from secret_jax.splits.node_chosen import Candidates, split_of
from secret_jax.splits.one_node import Node
from secret_jax.splits.scoring import NodeRows, SideModels
from secret_jax.tree.structure import SplitKind

# Below this deviation, in units of the whole table, an attribute is constant.
CONSTANT = 1e-6
# A residual with a smaller deviation, in the same units, is float32 rounding.
PURE = 1e-5
# An oblique split yields to the shortest version of itself that loses at most this
# share of its gain.
_SPARSE_LOSS = 0.05
# A hinge step counts a row at most so many times as much as the mean row.
_MOST_WEIGHT = 4.0
# A hinge step that gains a smaller share is rounding, and goes no further.
_LEAST_RISE = 1e-4
# By chance alone models do not spend more degrees of freedom than this share of rows.
_MOST_SPENT = 0.25


class Begun(NamedTuple):
    """Nodes prepared for a search, and the units of the table."""

    node: PreparedNodes
    # center, scale (..., n_columns): by which the nodes' columns are standardised.
    center: AnyArray
    scale: AnyArray
    # (...): of the residuals, whose gains it turns into those of the targets by its
    # square.
    unit: AnyArray
    pure: AnyArray  # (...), bool
    chance_gain: AnyArray  # (...): what a split is expected to gain by chance alone
    noise: AnyArray  # (...): what one more degree of freedom would


def begun(finder: Options, batch: Node) -> Begun:
    """Prepare one node, or each of many, for a search by residual sums of squares."""
    xp = namespace(batch.x)
    columns, pieces = batch.columns, batch.pieces
    total, center, deviation = weighted_moments(batch.x, batch.weight, pieces)
    varies = deviation > CONSTANT
    scale = xp.where(varies, deviation, 1.0)
    present = (batch.weight > 0)[..., None]
    z = batch.x - for_rows(center, pieces)[..., None, :]
    z = z / for_rows(scale, pieces)[..., None, :]
    z = xp.where(for_rows(varies, pieces)[..., None, :] & present, z, 0.0)

    regressors = batch.x[..., : columns.n_regressors]
    model = for_rows(xp.swapaxes(batch.coefficient, -1, -2), pieces)
    fitted = model[..., :1, :] + matmul(regressors, model[..., 1:, :])
    residual = batch.targets - fitted
    _, offset, spread = weighted_moments(residual, batch.weight, pieces)
    pure = (spread <= PURE).all(axis=-1)
    # One unit for all outputs, so that their gains add up.
    unit = spread[..., 0]
    if spread.shape[-1] > 1:
        unit = xp.sqrt(xp.mean(spread**2, axis=-1))
    unit = xp.where(pure, 1.0, unit)
    residual = residual - for_rows(offset, pieces)[..., None, :]
    residual = residual / for_rows(unit, pieces)[..., None, None]
    residual = xp.where(present, residual, 0.0)

    node = prepared(z, residual, batch, finder)
    # A model with a ridge spends less than one degree of freedom on a regressor; the
    # split itself and the second mean are two more.
    n_model = node.n_model
    penalty = node.rows.penalty[..., :n_model, :n_model]
    spent = 2 + n_model - xp.trace(penalty, axis1=-2, axis2=-1)
    left_over = xp.maximum(total - batch.degrees, 1.0)
    noise = total * xp.sum(spread**2 + offset**2, axis=-1) / left_over
    chance_gain = noise * xp.minimum(spent, _MOST_SPENT * total)
    return Begun(node, center, scale, unit, pure, chance_gain, noise)


def best_split(finder: Options, batch: Node) -> Split:
    """Find the best split of one node, or of each of many; see `RssSplits`."""
    start = begun(finder, batch)
    node = start.node
    xp = namespace(node.z)
    axis = axis_candidates(node, finder)
    along_axes = finalists_of(axis, node, finder)

    def best_along_axes():
        return _best(along_axes[0], node)

    def best_of_all():
        finalists = along_axes
        directions = _proposals(node, finder)
        if len(directions):
            directions = xp.concatenate(directions, axis=-2)
            proposed = along_coordinates(directions, node, finder)
            finalists = _merge(finalists, finalists_of(proposed, node, finder))
        best = _best(finalists[0], node)
        if finder.n_hinge and finder.hinge_steps:
            best = _better(best, _hinges(finalists, node, finder), node)
        return _shortest(best, node, finder)

    pick = best_along_axes
    if batch.columns.oblique and node.z.shape[-1] > 1:
        pick = functools.partial(either, batch.oblique, best_of_all, best_along_axes)
    pick = pick()
    return split_of(
        pick._replace(gain=pick.gain * start.unit**2),
        batch,
        pure=start.pure,
        chance_gain=start.chance_gain,
        center=start.center,
        scale=start.scale,
    )


def finalists_of(
    candidates: Candidates, node: PreparedNodes, finder: Options
) -> tuple[Candidates, SideModels]:
    """The most promising candidates, with their exact gains and their models."""
    xp = namespace(candidates.gain)
    n = min(finder.n_finalists, candidates.gain.shape[-1])
    chosen = candidates.take(largest(candidates.gain, n), node.rows.pieces)
    exact = exact_models(chosen, node)
    # What was ruled out before, such as an attribute that is not allowed, stays out.
    gain = xp.where(xp.isfinite(chosen.gain), exact.gain - chosen.chance, -xp.inf)
    return chosen._replace(gain=gain), exact


def _best(candidates: Candidates, node: PreparedNodes) -> Candidates:
    best = namespace(candidates.gain).argmax(candidates.gain, axis=-1)
    return candidates.take(best, node.rows.pieces)


def _better(first: Candidates, others: Candidates, node: PreparedNodes) -> Candidates:
    """The best of one split a node and of others, which only gain by a direction."""
    xp = namespace(first.gain)
    # As they were computed, all of them: a threshold is a row's own projection.
    others = others._replace(projection=projected(others.direction, node))
    other = others.take(xp.argmax(others.gain, axis=-1), node.rows.pieces)
    return other.where(other.gain > first.gain, first, node.rows.pieces)


def _shortest(best: Candidates, node: PreparedNodes, finder: Options) -> Candidates:
    """The best split, or the shortest version of it that is nearly as good."""
    xp = namespace(best.gain)
    n_columns = node.z.shape[-1]
    lengths = [kept for kept in finder.sparse_terms if kept < n_columns]
    if not lengths:
        return best
    shape = (*best.gain.shape, len(lengths), n_columns)
    full = xp.broadcast_to(best.direction[..., None, :], shape)
    directions = sparse(full, node.covariance, np.array(lengths), finder.ridge)
    short = along_directions(oriented(directions), node, finder)
    exact = exact_models(short, node).gain
    short = short._replace(gain=xp.where(xp.isfinite(short.gain), exact, -xp.inf))
    least = best.gain - _SPARSE_LOSS * xp.abs(best.gain)
    oblique = best.kind == SplitKind.OBLIQUE
    # One attribute alone is another kind of split.
    n_terms = xp.sum(short.direction != 0, axis=-1)
    longer = xp.sum(best.direction != 0, axis=-1)[..., None] > n_terms
    good = oblique[..., None] & longer & (n_terms > 1)
    good = good & (short.gain >= least[..., None])
    fewest = xp.argmin(xp.where(good, n_terms, n_columns + 1), axis=-1)
    found = short.take(fewest, node.rows.pieces)
    return found.where(good.any(axis=-1), best, node.rows.pieces)


def _proposals(node: PreparedNodes, finder: Options) -> list[AnyArray]:
    """Principal Hessian directions and what else is proposed, in the coordinates."""
    rows, n_model = node.rows, node.n_model
    directions = [more(rows, n_model=n_model) for more in finder.proposals]
    if finder.n_hessian:
        curved = hessian_directions(rows, finder.n_hessian, n_model=n_model)
        directions.insert(0, curved)
    return directions


def _hinges(
    finalists: tuple[Candidates, SideModels], node: PreparedNodes, finder: Options
) -> Candidates:
    """Hinge steps from the best candidates, each kept only if the score improves.

    Both sides are fitted, each row is labelled by the side that predicts it better,
    weighted by how much, and LDA of the labels gives the next direction. What comes of
    it has no projections.
    """
    gain = finalists[0].gain
    xp = namespace(gain)
    chosen = largest(gain, min(finder.n_hinge, gain.shape[-1]))
    n_axes = gain.ndim - 1
    start = finalists[0]._replace(projection=None), finalists[1]
    start = jax.tree.map(lambda array: taken(array, chosen, n_axes), start)

    def step(node, state):
        current, models = state
        rows, n_model = node.rows, node.n_model
        advantage = _errors(models.right, rows) - _errors(models.left, rows)
        size = xp.abs(advantage)
        mean = over_rows(matvec(size, rows.weight), rows.pieces)
        cap = _MOST_WEIGHT * safe_divide(mean, rows.total[..., :1])
        cap = for_rows(cap, rows.pieces)[..., None]
        bounded = rows.weight[..., None, :] * xp.minimum(size, cap)
        first = xp.where(advantage > 0, bounded, 0.0)
        direction = discriminants(rows, first, bounded - first, n_model=n_model)
        new = along_coordinates(direction, node, finder)
        new_models = exact_models(new, node)
        new = new._replace(gain=new_models.gain, projection=None)
        better = new.gain > current.gain * (1 + _LEAST_RISE)
        state = jax.tree.map(
            lambda a, b: where_each(better, a, b), (new, new_models), state
        )
        return state, better.any(axis=-1)

    return improved(
        finder.hinge_steps,
        step,
        node._replace(axis=None),
        start,
        lambda node, chosen: node.take(chosen),
    )[0]


def _errors(model: AnyArray, rows: NodeRows) -> AnyArray:
    """Squared errors of the rows by a model for each split, summed over the outputs."""
    xp = namespace(model)
    model = for_rows(xp.swapaxes(model, -1, -2), rows.pieces)
    shape, n_model = model.shape[:-1], model.shape[-1] - 1  # nodes, splits, outputs
    slopes = model[..., 1:].reshape(*shape[:-2], shape[-2] * shape[-1], n_model)
    regressors = xp.swapaxes(rows.coordinates[..., :n_model], -1, -2)
    fitted = matmul(slopes, regressors).reshape(*shape, -1) + model[..., :1]
    residual = xp.swapaxes(rows.residual, -1, -2)[..., None, :, :]
    return xp.sum((residual - fitted) ** 2, axis=-2)


def _merge(first: Any, second: Any) -> Any:
    """Two lists of candidates, and what belongs to each of them, as one list."""
    n_axes = first[0].gain.ndim - 1

    def joined(a, b):
        return namespace(a).concatenate([a, b], axis=n_axes)

    return jax.tree.map(joined, first, second)
