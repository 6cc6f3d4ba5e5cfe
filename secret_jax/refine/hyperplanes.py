"""New hyperplanes for given subtrees: which rows should go left, and by what split.

Every row knows what it would save by going left. A weighted logistic regression and a
weighted linear discriminant propose directions, or the attributes do; the threshold of
a direction is the exact best of the sample.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from secret_jax.runtime.compiling import jit
from secret_jax.runtime.linalg import AnyArray, guarded_solve, matmul, weighted_moments
from secret_jax.splits.interface import over_nodes

_NEWTON_STEPS = 8
# Ridge of the logistic regression and the discriminant, in units of the total weight.
_RIDGE = 1e-3
_LONGEST_STEP = 4.0


class Preferences(NamedTuple):
    """Nodes with a sample of their rows, padded to one shape.

    Attributes
    ----------
    x : array of shape (n_nodes, n_rows, n_columns), float32
    saving : array of shape (n_nodes, n_rows), float32
        What the objective drops by if the row goes left instead of right.
    weight : array of shape (n_nodes, n_rows), float32
        Zero for padding.
    least : array of shape (n_nodes,), float32
        Least weight of a side.
    direction : array of shape (n_nodes, n_columns), float32
        Of the present split.
    threshold : array of shape (n_nodes,), float32
    axis : array of shape (n_nodes,), bool
        Whether the new split must be on one attribute.
    """

    x: AnyArray
    saving: AnyArray
    weight: AnyArray
    least: AnyArray
    direction: AnyArray
    threshold: AnyArray
    axis: AnyArray


class Hyperplanes(NamedTuple):
    """The best split of each node for the subtrees that it has.

    Attributes
    ----------
    direction : array of shape (n_nodes, n_columns), float32
    threshold : array of shape (n_nodes,), float32
    swapped : array of shape (n_nodes,), bool
        The children change places.
    gain : array of shape (n_nodes,), float32
        What it saves over the present split; -inf if there is no other.
    """

    direction: AnyArray
    threshold: AnyArray
    swapped: AnyArray
    gain: AnyArray


def no_hyperplanes(n_nodes: int, n_columns: int) -> Hyperplanes:
    """No better split for any node."""
    return Hyperplanes(
        direction=np.zeros((n_nodes, n_columns), np.float32),
        threshold=np.zeros(n_nodes, np.float32),
        swapped=np.zeros(n_nodes, bool),
        gain=np.full(n_nodes, -np.inf, np.float32),
    )


class _Cut(NamedTuple):
    saving: jax.Array
    threshold: jax.Array


@functools.partial(jit, static_argnames=("axis_only", "together"), small_steps=True)
def propose(
    nodes: Preferences, n_nodes: AnyArray, *, axis_only: bool, together: bool
) -> Hyperplanes:
    """Best hyperplane of the first nodes of a batch.

    Parameters
    ----------
    nodes : Preferences
    n_nodes : int or Array of shape (), int32
        The nodes after these are padding.
    axis_only : bool
        True: all nodes have ``axis``, and no directions are looked for.
    together : bool
        As in `secret_jax.splits.interface.over_nodes`.

    Returns
    -------
    Hyperplanes
    """
    one = functools.partial(_propose, axis_only=axis_only)
    n_padded, _, n_columns = nodes.x.shape
    nothing = no_hyperplanes(n_padded, n_columns)
    return over_nodes(one, nodes, n_nodes, nothing, together=together)


def _propose(node: Preferences, *, axis_only: bool) -> Hyperplanes:
    def cuts(directions):
        projection = matmul(directions, node.x.T)
        return jax.lax.map(
            lambda values: _best_cuts(values, node), projection, batch_size=8
        )

    def best(directions, cuts):
        pick = jnp.argmax(cuts.saving)
        return directions[pick], _Cut(cuts.saving[pick], cuts.threshold[pick])

    def along_an_axis():
        directions = jnp.eye(node.x.shape[1], dtype=node.x.dtype)
        forward, backward = cuts(directions)
        direction, ahead = best(directions, forward)
        other, back = best(directions, backward)
        # Only a split on one attribute may swap its children: an oblique one can turn.
        swapped = back.saving > ahead.saving
        choose = functools.partial(jnp.where, swapped)
        return choose(other, direction), jax.tree.map(choose, back, ahead), swapped

    def obliquely():
        directions = _oblique_directions(node)
        return *best(directions, cuts(directions)[0]), jnp.asarray(False)

    if axis_only:
        direction, cut, swapped = along_an_axis()
    else:
        direction, cut, swapped = jax.lax.cond(node.axis, along_an_axis, obliquely)
    at_present = matmul(node.x, node.direction) <= node.threshold
    present = jnp.sum(jnp.where(at_present, node.saving, 0.0))
    return Hyperplanes(direction, cut.threshold, swapped, cut.saving - present)


def _best_cuts(values: jax.Array, node: Preferences) -> tuple[_Cut, _Cut]:
    """Best threshold if the rows below it go left, and if they go right."""
    real = (node.weight > 0) & jnp.isfinite(values)
    order = jnp.argsort(jnp.where(real, values, jnp.inf))
    ranked = jnp.where(real, values, jnp.inf)[order]
    weight = jnp.cumsum(node.weight[order])
    saved = jnp.cumsum(node.saving[order])
    following = jnp.append(ranked[1:], jnp.inf)
    allowed = (
        (following > ranked)
        & jnp.isfinite(following)
        & (weight >= node.least)
        & (weight[-1] - weight >= node.least)
    )

    def cut(saving):
        saving = jnp.where(allowed, saving, -jnp.inf)
        best = jnp.argmax(saving)
        middle = ranked[best] + 0.5 * (following[best] - ranked[best])
        # Between neighbouring floats the middle is one of them: never the right one.
        middle = jnp.where(middle < following[best], middle, ranked[best])
        return _Cut(saving[best], middle)

    return cut(saved), cut(saved[-1] - saved)


def _oblique_directions(node: Preferences) -> jax.Array:
    """Present direction, logistic, discriminant, and between them: (5, n_columns).

    A split keeps to the attributes that it has.
    """
    _, center, deviation = weighted_moments(node.x, node.weight)
    usable = (node.direction != 0) & (deviation > 1e-6)
    scale = jnp.where(usable, deviation, 1.0)
    z = jnp.where(usable, (node.x - center) / scale, 0.0)
    importance = jnp.abs(node.saving)
    total = jnp.sum(importance)
    importance = importance / jnp.where(total > 0, total, 1.0)
    goes_left = (node.saving > 0).astype(z.dtype)
    present = _unit(node.direction * scale)
    logistic = _unit(_logistic(z, goes_left, importance))
    discriminant = _unit(_discriminant(z, goes_left, importance))
    found = jnp.stack(
        [
            present,
            logistic,
            discriminant,
            _unit(present + logistic),
            _unit(present + 0.3 * logistic),
        ]
    )
    found = jnp.where(jnp.isfinite(found), found, 0.0) / scale
    return jax.vmap(_unit)(found)


def _unit(vector: jax.Array) -> jax.Array:
    length = jnp.sqrt(jnp.sum(vector**2))
    return vector / jnp.where(length > 0, length, 1.0)


def _logistic(z: jax.Array, goes_left: jax.Array, importance: jax.Array) -> jax.Array:
    """Slopes of a ridge logistic regression for going right, by Newton's method."""
    design = jnp.concatenate([jnp.ones_like(z[:, :1]), z], axis=1)
    n = design.shape[1]

    def step(_, coefficient):
        probability = jax.nn.sigmoid(matmul(design, coefficient))
        slope = importance * (probability - (1.0 - goes_left))
        gradient = matmul(design.T, slope) + _RIDGE * coefficient
        curvature = importance * probability * (1.0 - probability)
        hessian = matmul((curvature[:, None] * design).T, design)
        hessian = hessian + _RIDGE * jnp.eye(n, dtype=z.dtype)
        move = guarded_solve(hessian, gradient, 1e-7)
        length = jnp.sqrt(jnp.sum(move**2))
        return coefficient - move * jnp.minimum(1.0, _LONGEST_STEP / (length + 1e-30))

    start = jnp.zeros(n, z.dtype)
    return jax.lax.fori_loop(0, _NEWTON_STEPS, step, start)[1:]


def _discriminant(
    z: jax.Array, goes_left: jax.Array, importance: jax.Array
) -> jax.Array:
    """Fisher's direction from the rows that should go left to those that should not."""
    share = jnp.stack([importance * goes_left, importance * (1.0 - goes_left)])
    mass = jnp.sum(share, axis=1)
    mean = matmul(share, z) / jnp.where(mass > 0, mass, 1.0)[:, None]
    own = jnp.where(goes_left[:, None] > 0, mean[0], mean[1])
    centred = z - own
    within = matmul((importance[:, None] * centred).T, centred)
    within = within + _RIDGE * jnp.eye(z.shape[1], dtype=z.dtype)
    return guarded_solve(within, mean[1] - mean[0], 1e-7)
