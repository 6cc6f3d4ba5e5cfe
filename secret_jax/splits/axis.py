"""Splits on one attribute: thresholds, orders of categories, sides of missing values.

What all finders share: attributes as projections of the rows, and the chosen projection
as a split of the table.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from secret_jax.runtime.linalg import leading_eigenvectors, matmul, safe_divide
from secret_jax.splits.interface import Node, Roles, Split
from secret_jax.tree.structure import SplitKind

# A category of n rows is ranked by its mean times n / (n + 2): as if two more rows of
# the node's mean were in it.
_CATEGORY_PRIOR = 2.0


class Candidates(NamedTuple):
    """Splits of the rows by projections and thresholds."""

    gain: jax.Array  # (n,)
    projection: jax.Array  # (n, n_rows)
    direction: jax.Array  # (n, n_columns), standardised; of axis see `_Missing`
    threshold: jax.Array  # (n,)
    kind: jax.Array  # (n,)
    attribute: jax.Array  # (n,)

    def take(self, index: jax.Array) -> Candidates:
        return Candidates(*(array[index] for array in self))


class Projections(NamedTuple):
    """Attributes as projections, in units of the table.

    Attributes
    ----------
    projection : Array of shape (n, n_rows)
        Values of a continuous attribute, ranks of the categories of a discrete one.
    kind : ndarray of shape (n,), int
    attribute : Array of shape (n,), int32
        -1 is padding.
    direction : Array of shape (n, n_columns), float32
        Of attributes with missing values, which side these go to; else zero.
    weight : Array of shape (n, n_rows), or None
        The rows whose values may be thresholds, where these are not all.
    value : Array of shape (n, n_rows), or None
        What models see of an attribute, where that is not the projection.
    allowed : Array of shape (n,), bool
    """

    projection: jax.Array
    kind: np.ndarray
    attribute: jax.Array
    direction: jax.Array
    weight: jax.Array | None
    value: jax.Array | None
    allowed: jax.Array

    def candidates(self, gain: jax.Array, threshold: jax.Array) -> Candidates:
        """Splits at a threshold each; what is not allowed gains nothing."""
        return Candidates(
            gain=jnp.where(self.allowed, gain, -jnp.inf),
            projection=self.projection,
            direction=self.direction,
            threshold=threshold,
            kind=jnp.asarray(self.kind, jnp.int32),
            attribute=self.attribute,
        )


class _Missing(NamedTuple):
    """Projections on attributes with missing values, once for each side of these.

    As candidates their ``direction`` says where missing values go: it is -1 (to the
    left) or 1 at the column of the indicator. That of all other axis splits is zero.
    """

    projection: jax.Array  # (n, n_rows); missing ones lie beyond
    value: jax.Array  # (n, n_rows); missing ones count as means
    weight: jax.Array  # (n, n_rows); zero for missing ones
    direction: jax.Array  # (n, n_columns)
    attribute: jax.Array  # (n,)


def projections(node: Node, score: Float[Array, " n_rows"]) -> Projections:
    """Every continuous attribute, and every discrete one by its mean score.

    Parameters
    ----------
    node : Node
    score : Array of shape (n_rows,)
        Orders the categories: of the best binary split for one output they are a prefix
        of the order of their means (Breiman et al. 1984, Proposition 8.16).

    Returns
    -------
    Projections
    """
    n_columns, n_discrete = node.x.shape[1], node.codes.shape[1]
    roles = roles_of(node)
    projection = node.x.T[jnp.maximum(roles.thresholded, 0)]
    n_axis = len(roles.thresholded)
    kind = np.repeat([SplitKind.AXIS, SplitKind.DISCRETE], [n_axis, n_discrete])
    attribute = jnp.concatenate(
        [roles.thresholded, np.arange(n_discrete, dtype=np.int32)]
    )
    if n_discrete:

        def ranked(codes):
            member = codes[:, None] == jnp.arange(node.columns.n_categories)
            member = member.astype(node.x.dtype)
            weight = matmul(node.weight, member)
            moment = matmul(node.weight * score, member)
            mean = moment / (weight + _CATEGORY_PRIOR)
            mean = jnp.where(weight > 0, mean, jnp.inf)
            rank = jnp.argsort(jnp.argsort(mean))
            return matmul(member, rank.astype(node.x.dtype))

        ranks = jax.lax.map(ranked, node.codes.T)
        projection = jnp.concatenate([projection, ranks])
    direction = jnp.zeros((len(kind), n_columns), node.x.dtype)
    weight = value = None
    if len(roles.missing):
        missing = _missing(node, roles.missing)
        shape = (len(kind), node.x.shape[0])
        weight = jnp.concatenate([jnp.broadcast_to(node.weight, shape), missing.weight])
        value = jnp.concatenate([projection, missing.value])
        projection = jnp.concatenate([projection, missing.projection])
        direction = jnp.concatenate([direction, missing.direction])
        attribute = jnp.concatenate([attribute, missing.attribute])
        kind = np.concatenate([kind, np.full(len(missing.attribute), SplitKind.AXIS)])
    place = attribute + np.where(kind == SplitKind.DISCRETE, n_columns, 0)
    allowed = (attribute >= 0) & node.allowed[jnp.maximum(place, 0)]
    return Projections(projection, kind, attribute, direction, weight, value, allowed)


def roles_of(node: Node) -> Roles:
    """The roles of a node's columns, where none are given those of plain numbers."""
    return Roles.alike(node.x.shape[1]) if node.roles is None else node.roles


def leading_component(values: jax.Array, weight: jax.Array) -> jax.Array:
    """A column, or the first principal component of several, shape (n_rows,)."""
    if values.shape[1] == 1:
        return values[:, 0]
    covariance = matmul((weight[:, None] * values).T, values)
    return matmul(values, leading_eigenvectors(covariance, 1)[0])


def _missing(batch: Node, pairs: jax.Array) -> _Missing:
    column, indicator = pairs[:, 0], jnp.maximum(pairs[:, 1], 0)
    value, missing = batch.x.T[jnp.maximum(column, 0)], batch.x.T[indicator] > 0
    weight = jnp.where(missing, 0.0, batch.weight)
    observed = weight > 0
    lowest = jnp.min(jnp.where(observed, value, jnp.inf), axis=1, keepdims=True)
    highest = jnp.max(jnp.where(observed, value, -jnp.inf), axis=1, keepdims=True)
    # A threshold is a value that occurs: the lowest is never right of it.
    before = jnp.where(missing, jnp.where(lowest < jnp.inf, lowest, 0.0), value)
    after = jnp.nextafter(jnp.where(highest > -jnp.inf, highest, 0.0), jnp.inf)
    after = jnp.where(missing, after, value)
    unit = jnp.eye(batch.x.shape[1], dtype=batch.x.dtype)[indicator]
    return _Missing(
        projection=jnp.concatenate([before, after]),
        value=jnp.concatenate([value, value]),
        weight=jnp.concatenate([weight, weight]),
        direction=jnp.concatenate([-unit, unit]),
        attribute=jnp.concatenate([column, column]),
    )


def split_of(
    pick: Candidates,
    node: Node,
    *,
    pure: Bool[Array, ""],
    chance_gain: Float[Array, ""],
    center: Float[Array, " n_columns"] | None = None,
    scale: Float[Array, " n_columns"] | None = None,
) -> Split:
    """The chosen candidate as a split of the table; the cut goes between the rows.

    Parameters
    ----------
    pick : Candidates
        One, without a leading axis.
    node : Node
    pure, chance_gain : Array of shape ()
        As in `Split`.
    center, scale : Array of shape (n_columns,), optional
        By which oblique directions were standardised.

    Returns
    -------
    Split
    """
    n_columns = node.x.shape[1]
    center = jnp.zeros(n_columns, node.x.dtype) if center is None else center
    scale = jnp.ones(n_columns, node.x.dtype) if scale is None else scale
    present = node.weight > 0
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
    axis = jax.nn.one_hot(pick.attribute, n_columns, dtype=center.dtype)
    if len(roles_of(node).missing):
        # A missing value counts as the mean of the side that it goes to.
        indicator = jnp.abs(pick.direction)
        goes_left = jnp.sum(pick.direction) < 0
        value = matmul(node.x, axis)
        observed = matmul(node.x, indicator) <= 0
        observed = observed & jnp.where(goes_left, left, right)
        weight = jnp.where(observed, node.weight, 0.0)
        mean = safe_divide(jnp.sum(weight * value), jnp.sum(weight))
        inside = jnp.where(goes_left, jnp.minimum(mean, cut), jnp.maximum(mean, lowest))
        axis = axis + jnp.where(jnp.isfinite(inside), inside, 0.0) * indicator
    direction = jnp.where(is_axis, axis, oblique / length)
    # An axis split compares the attribute itself, so its cut is exact.
    threshold = jnp.where(is_axis, cut, (cut + jnp.sum(oblique * center)) / length)

    discrete = pick.kind == SplitKind.DISCRETE
    usable = (pick.gain > 0) & jnp.isfinite(pick.gain) & ~pure
    return Split(
        kind=jnp.where(usable, pick.kind, SplitKind.LEAF).astype(jnp.int32),
        attribute=pick.attribute.astype(jnp.int32),
        direction=jnp.where(discrete, 0.0, direction),
        threshold=jnp.where(discrete, 0.0, threshold),
        goes_left=_subset(node, pick, left & discrete),
        gain=jnp.where(usable, pick.gain, 0.0),
        chance_gain=chance_gain,
        pure=pure,
    )


def _subset(node: Node, pick: Candidates, left: jax.Array) -> jax.Array:
    """Categories of the left side; absent ones follow the larger side."""
    if not node.codes.shape[1]:
        return jnp.zeros(node.columns.n_categories, bool)
    code = node.codes[:, jnp.maximum(pick.attribute, 0)]
    member = (code[:, None] == jnp.arange(node.columns.n_categories)).astype(
        jnp.float32
    )
    weight = matmul(node.weight, member)
    left_weight = matmul(jnp.where(left, node.weight, 0.0), member)
    larger_left = left_weight.sum() >= 0.5 * weight.sum()
    return jnp.where(weight > 0, left_weight > 0, larger_left)
