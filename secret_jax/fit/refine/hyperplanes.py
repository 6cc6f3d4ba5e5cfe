"""Search for a new split of a node with given subtrees, oblique or on one attribute.

Every row knows what it would save by going left. A weighted logistic regression and a
weighted linear discriminant propose directions, or the attributes do; the threshold of
a direction is the exact best of the sample.
"""

import functools
from dataclasses import dataclass, replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from secret_jax.data.rows import Rows
from secret_jax.grow.compiled import CompiledSearch
from secret_jax.grow.frontier import Level, Places, Root
from secret_jax.grow.search import GrowOptions
from secret_jax.models.errors import weighted_errors
from secret_jax.runtime.linalg import guarded_solve, matmul, safe_divide, unit_vectors
from secret_jax.runtime.pieces import weighted_moments
from secret_jax.splits.interface import Node, Split, SplitFinder
from secret_jax.tree.structure import SplitKind, Tree
from secret_jax.tree.walk import descend, values_at

# Newton's method for a ridge logistic regression has converged by then.
_NEWTON_STEPS = 8
# Ridge of the logistic regression and the discriminant, in units of the total weight.
_RIDGE = 1e-3
# Longest Newton step, in deviations: from separable classes it would go to infinity.
_LONGEST_STEP = 4.0
# Weights of the logistic direction that is added to the present one.
_TURNS = (1.0, 0.3)
# Below this deviation, in units of the whole table, an attribute is constant.
_CONSTANT = 1e-6
# A pivot below this share of the ridge is float32's rounding.
_LEAST_PIVOT = 1e-7
# Directions whose rows are sorted at once.
_SORTED_TOGETHER = 8


@dataclass(frozen=True, kw_only=True)
class PreferenceSplits(SplitFinder):
    """Best split of a node whose subtrees stay as they are.

    The ``targets`` of a node have one column: the drop of the objective if the row goes
    left instead of right. ``extra`` holds the ``direction`` and the ``threshold`` of
    the present split; where the node is not ``oblique`` the new one is on one
    attribute. The ``gain`` is what it saves over the present split, minus infinity if
    there is no other. A split on one attribute whose ``direction`` is negative
    exchanges the children.
    """

    @property
    def numbers_per_cell(self) -> int:
        """Numbers per cell: sorted values, weights and savings."""
        return 3 * _SORTED_TOGETHER

    def __call__(self, node: Node) -> Split:
        """Find the best split of one node."""
        if node.columns.oblique:
            found = jax.lax.cond(node.oblique, _obliquely, _along_an_axis, node)
        else:
            found = _along_an_axis(node)
        direction, cut = found
        projection = matmul(node.x, node.extra["direction"])
        at_present = projection <= node.extra["threshold"]
        present = jnp.sum(jnp.where(at_present, _saving(node), 0.0))
        kind = jnp.where(node.oblique, SplitKind.OBLIQUE, SplitKind.AXIS)
        attribute = jnp.argmax(jnp.abs(direction))
        return Split(
            kind=kind.astype(jnp.int32),
            attribute=jnp.where(node.oblique, -1, attribute).astype(jnp.int32),
            direction=direction,
            threshold=cut.threshold,
            goes_left=jnp.zeros(node.columns.n_categories, bool),
            gain=cut.saving - present,
            chance_gain=jnp.zeros((), node.x.dtype),
            pure=jnp.asarray(False),
        )


class _Cut(NamedTuple):
    saving: jax.Array
    threshold: jax.Array


def _saving(node: Node) -> jax.Array:
    return node.targets[:, 0]


def _cuts(directions: jax.Array, node: Node) -> tuple[_Cut, _Cut]:
    """Best cuts along directions, with the low side going left or right."""
    projection = matmul(directions, node.x.T)
    return jax.lax.map(
        lambda values: _best_cuts(values, node), projection, batch_size=_SORTED_TOGETHER
    )


def _best(directions: jax.Array, cuts: _Cut) -> tuple[jax.Array, _Cut]:
    pick = jnp.argmax(cuts.saving)
    return directions[pick], _Cut(cuts.saving[pick], cuts.threshold[pick])


def _along_an_axis(node: Node) -> tuple[jax.Array, _Cut]:
    directions = jnp.eye(node.x.shape[1], dtype=node.x.dtype)
    forward, backward = _cuts(directions, node)
    direction, ahead = _best(directions, forward)
    other, back = _best(directions, backward)
    # Only a split on one attribute may swap its children: an oblique one can turn.
    choose = functools.partial(jnp.where, back.saving > ahead.saving)
    return choose(-other, direction), jax.tree.map(choose, back, ahead)


def _obliquely(node: Node) -> tuple[jax.Array, _Cut]:
    directions = _oblique_directions(node)
    return _best(directions, _cuts(directions, node)[0])


def _best_cuts(values: jax.Array, node: Node) -> tuple[_Cut, _Cut]:
    """Best threshold if the rows below it go left, and if they go right."""
    real = (node.weight > 0) & jnp.isfinite(values)
    order = jnp.argsort(jnp.where(real, values, jnp.inf))
    ranked = jnp.where(real, values, jnp.inf)[order]
    weight = jnp.cumsum(node.weight[order])
    saved = jnp.cumsum(_saving(node)[order])
    following = jnp.append(ranked[1:], jnp.inf)
    allowed = (
        (following > ranked)
        & jnp.isfinite(following)
        & (weight >= node.min_weight)
        & (weight[-1] - weight >= node.min_weight)
    )

    def cut(saving):
        saving = jnp.where(allowed, saving, -jnp.inf)
        best = jnp.argmax(saving)
        middle = ranked[best] + 0.5 * (following[best] - ranked[best])
        # Between neighbouring floats the middle is one of them: never the right one.
        middle = jnp.where(middle < following[best], middle, ranked[best])
        return _Cut(saving[best], middle)

    return cut(saved), cut(saved[-1] - saved)


def _oblique_directions(node: Node) -> jax.Array:
    """Directions: present, logistic, discriminant, and between: (5, n_columns).

    A split keeps to the attributes that it has.
    """
    _, center, deviation = weighted_moments(node.x, node.weight)
    usable = (node.extra["direction"] != 0) & (deviation > _CONSTANT)
    scale = jnp.where(usable, deviation, 1.0)
    z = jnp.where(usable, (node.x - center) / scale, 0.0)
    saving = _saving(node)
    importance = jnp.abs(saving)
    importance = safe_divide(importance, jnp.sum(importance))
    goes_left = (saving > 0).astype(z.dtype)
    present = unit_vectors(node.extra["direction"] * scale)
    logistic = unit_vectors(_logistic(z, goes_left, importance))
    discriminant = unit_vectors(_discriminant(z, goes_left, importance))
    between = [unit_vectors(present + share * logistic) for share in _TURNS]
    found = jnp.stack([present, logistic, discriminant, *between])
    return unit_vectors(jnp.where(jnp.isfinite(found), found, 0.0) / scale)


def _logistic(z: jax.Array, goes_left: jax.Array, importance: jax.Array) -> jax.Array:
    """Fit ridge logistic regression for going right by Newton's method."""
    design = jnp.concatenate([jnp.ones_like(z[:, :1]), z], axis=1)
    n = design.shape[1]

    def step(_, coefficient):
        probability = jax.nn.sigmoid(matmul(design, coefficient))
        slope = importance * (probability - (1.0 - goes_left))
        gradient = matmul(design.T, slope) + _RIDGE * coefficient
        curvature = importance * probability * (1.0 - probability)
        hessian = matmul((curvature[:, None] * design).T, design)
        hessian = hessian + _RIDGE * jnp.eye(n, dtype=z.dtype)
        move = guarded_solve(hessian, gradient, _LEAST_PIVOT)
        length = jnp.sqrt(jnp.sum(move**2))
        return coefficient - move * jnp.minimum(
            1.0, _LONGEST_STEP / jnp.maximum(length, _LONGEST_STEP)
        )

    start = jnp.zeros(n, z.dtype)
    return jax.lax.fori_loop(0, _NEWTON_STEPS, step, start)[1:]


def _discriminant(
    z: jax.Array, goes_left: jax.Array, importance: jax.Array
) -> jax.Array:
    """Fisher's discriminant direction, from the rows for the left to the others."""
    share = jnp.stack([importance * goes_left, importance * (1.0 - goes_left)])
    mass = jnp.sum(share, axis=1)
    mean = safe_divide(matmul(share, z), mass[:, None])
    own = jnp.where(goes_left[:, None] > 0, mean[0], mean[1])
    centred = z - own
    within = matmul((importance[:, None] * centred).T, centred)
    within = within + _RIDGE * jnp.eye(z.shape[1], dtype=z.dtype)
    return guarded_solve(within, mean[1] - mean[0], _LEAST_PIVOT)


def proposed(
    tree: Tree, nodes: np.ndarray, rows: Rows, least: float, node_rows: int
) -> Tree:
    """Replace the splits of some nodes by the best ones for their present subtrees.

    ``nodes`` (n_nodes,), int: nodes of one depth, split on continuous attributes;
    ``rows``: in shuffled order; ``least``: least weight of a side; ``node_rows``:
    maximum number of rows used of a node. Returns the very tree that was given if no
    split can be bettered; the models are those of the old splits.
    """
    level = int(tree.depth[nodes[0]])
    reached = descend(tree, rows.table, np.zeros(rows.n_rows, np.int64), level)
    slot = np.full(tree.n_nodes, -1)
    slot[nodes] = np.arange(len(nodes))
    row = np.flatnonzero(slot[reached] >= 0)
    row = row[np.argsort(slot[reached[row]], kind="stable")]
    # Only a prefix of each node's rows, which are in random order.
    count = np.bincount(slot[reached[row]], minlength=len(nodes))
    within = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
    row = row[within < node_rows]
    part, node = rows.take(row), reached[row]
    depth = tree.max_depth - level - 1
    by_left, by_right = (
        weighted_errors(
            values_at(tree, part.table, descend(tree, part.table, side[node], depth)),
            part,
            tree.loss,
        )
        for side in (tree.left, tree.right)
    )
    weight = np.bincount(slot[node], part.weight.astype(np.float32), len(nodes))
    least_weight = least * safe_divide(weight, tree.weight[nodes])
    oblique = tree.kind[nodes] == SplitKind.OBLIQUE
    stop = np.cumsum(np.bincount(slot[node], minlength=len(nodes)))
    roots = [
        Root(
            rows=rows,
            min_split_weight=2 * least_weight[place],
            min_leaf_weight=least_weight[place],
            oblique=bool(oblique[place]),
        )
        for place, rows in enumerate(np.split(np.arange(len(row)), stop[:-1]))
    ]
    saving = (by_right - by_left)[:, None]
    places = Places.of(part._replace(targets=saving), roots)
    options = GrowOptions(
        finder=PreferenceSplits(),
        sample=node_rows,
        max_depth=1,
        oblique=bool(oblique.any()),
    )
    search = CompiledSearch(places, tree.schema, options)
    frontier = Level.of(roots, places, tree.schema)
    present = {
        "direction": search.wider(tree.direction[nodes]),
        "threshold": tree.threshold[nodes],
    }
    return _with_splits(tree, nodes, search.find(frontier, present).splits)


def _with_splits(tree: Tree, nodes: np.ndarray, found: Split) -> Tree:
    """Apply the new splits that reduce the error."""
    useful = np.isfinite(found.gain) & (found.gain > 0)
    if not useful.any():
        return tree
    chosen = nodes[useful]
    left, right = tree.left.copy(), tree.right.copy()
    direction, threshold = tree.direction.copy(), tree.threshold.copy()
    attribute = tree.attribute.copy()
    axis = found.kind == SplitKind.AXIS
    direction[chosen] = np.where(
        axis[:, None], np.abs(found.direction), found.direction
    )[useful]
    threshold[chosen] = found.threshold[useful]
    attribute[chosen] = found.attribute[useful]
    exchanged = nodes[useful & axis & (found.direction.min(axis=1) < 0)]
    left[exchanged], right[exchanged] = tree.right[exchanged], tree.left[exchanged]
    return replace(
        tree,
        left=left,
        right=right,
        direction=direction,
        threshold=threshold,
        attribute=attribute,
    )
