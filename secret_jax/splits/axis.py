"""Splits on one attribute: thresholds, orders of categories, sides of missing values.

What all finders share: attributes as projections of the rows, and the chosen projection
as a split of the table.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Bool, Float

from secret_jax.runtime.arrays import stacked, sums_by_code, taken
from secret_jax.runtime.linalg import (
    AnyArray,
    leading_eigenvectors,
    matmul,
    matvec,
    namespace,
    safe_divide,
)
from secret_jax.runtime.pieces import Pieces, for_rows, over_rows
from secret_jax.splits.interface import Node, Roles, Split, SplitFinder
from secret_jax.tree.structure import SplitKind

# A category of n rows is ranked by its mean times n / (n + 2): as if two more rows of
# the node's mean were in it.
_CATEGORY_PRIOR = 2.0


class Candidates(NamedTuple):
    """Splits of the rows by projections and thresholds."""

    gain: AnyArray  # (..., n)
    projection: AnyArray  # (..., n, n_rows)
    direction: AnyArray  # (..., n, n_columns), standardised; of axis see `_Missing`
    threshold: AnyArray  # (..., n)
    kind: AnyArray  # (..., n)
    attribute: AnyArray  # (..., n)

    def take(self, index: AnyArray, pieces: Pieces | None = None) -> Candidates:
        """Take candidates at places of shape (..., k), or (...): one of each node."""
        n_axes = self.gain.ndim - 1

        def of_nodes(array: AnyArray) -> AnyArray:
            return taken(array, index, n_axes)

        return Candidates(
            of_nodes(self.gain),
            taken(self.projection, for_rows(index, pieces), n_axes),
            *(of_nodes(array) for array in self[2:]),
        )


class Projections(NamedTuple):
    """Attributes as projections, in units of the table.

    Attributes
    ----------
    projection : Array of shape (..., n, n_rows)
        Values of a continuous attribute, ranks of the categories of a discrete one.
    kind : ndarray of shape (n,), int
    attribute : Array of shape (n,), int32
        -1 is padding.
    direction : Array of shape (..., n, n_columns), float32
        Of attributes with missing values, which side these go to; else zero.
    weight : Array of shape (..., n, n_rows), or None
        The rows whose values may be thresholds, where these are not all.
    value : Array of shape (..., n, n_rows), or None
        What models see of an attribute, where that is not the projection.
    allowed : Array of shape (..., n), bool
    """

    projection: AnyArray
    kind: np.ndarray
    attribute: AnyArray
    direction: AnyArray
    weight: AnyArray | None
    value: AnyArray | None
    allowed: AnyArray

    def candidates(self, gain: AnyArray, threshold: AnyArray) -> Candidates:
        """Splits at a threshold each; what is not allowed gains nothing."""
        xp = namespace(gain)
        return Candidates(
            gain=xp.where(self.allowed, gain, -xp.inf),
            projection=self.projection,
            direction=self.direction,
            threshold=threshold,
            kind=xp.broadcast_to(xp.asarray(self.kind, xp.int32), gain.shape),
            attribute=xp.broadcast_to(xp.asarray(self.attribute), gain.shape),
        )


class _Missing(NamedTuple):
    """Projections on attributes with missing values, once for each side of these.

    As candidates their ``direction`` says where missing values go: it is -1 (to the
    left) or 1 at the column of the indicator. That of all other axis splits is zero.
    """

    projection: AnyArray  # (..., n, n_rows); missing ones lie beyond
    value: AnyArray  # (..., n, n_rows); missing ones count as means
    weight: AnyArray  # (..., n, n_rows); zero for missing ones
    direction: AnyArray  # (n, n_columns)
    attribute: AnyArray  # (n,)


def projections(node: Node, score: Float[AnyArray, "... n_rows"]) -> Projections:
    """Every continuous attribute, and every discrete one by its mean score.

    Parameters
    ----------
    score : Array of shape (..., n_rows)
        Orders the categories: of the best binary split for one output they are a prefix
        of the order of their means (Breiman et al. 1984, Proposition 8.16).
    """
    xp = namespace(node.x)
    n_columns, n_discrete = node.x.shape[-1], node.codes.shape[-1]
    roles, pieces = roles_of(node), node.pieces
    column = xp.swapaxes(node.x, -1, -2)
    projection = column[..., xp.maximum(roles.thresholded, 0), :]
    n_axis = len(roles.thresholded)
    kind = np.repeat([SplitKind.AXIS, SplitKind.DISCRETE], [n_axis, n_discrete])
    attribute = xp.concatenate(
        [roles.thresholded, np.arange(n_discrete, dtype=np.int32)]
    )
    if n_discrete:

        def ranked(codes):
            n = node.columns.n_categories
            weight = sums_by_code(codes, node.weight, n, pieces)
            moment = sums_by_code(codes, node.weight * score, n, pieces)
            mean = moment / (weight + _CATEGORY_PRIOR)
            mean = xp.where(weight > 0, mean, xp.inf)
            order = xp.argsort(mean, axis=-1, stable=True)
            rank = xp.argsort(order, axis=-1, stable=True)
            rank = for_rows(rank.astype(node.x.dtype), pieces)
            return xp.take_along_axis(rank, codes, axis=-1)

        ranks = stacked(ranked, xp.moveaxis(node.codes, -1, 0))
        ranks = xp.moveaxis(ranks, 0, -2)
        projection = xp.concatenate([projection, ranks], axis=-2)
    nodes = node.allowed.shape[:-1]
    direction = xp.zeros((*nodes, len(kind), n_columns), node.x.dtype)
    weight = value = None
    if len(roles.missing):
        missing = _missing(node, roles.missing)
        weight = xp.broadcast_to(node.weight[..., None, :], projection.shape)
        weight = xp.concatenate([weight, missing.weight], axis=-2)
        value = xp.concatenate([projection, missing.value], axis=-2)
        projection = xp.concatenate([projection, missing.projection], axis=-2)
        sides = xp.broadcast_to(missing.direction, (*nodes, *missing.direction.shape))
        direction = xp.concatenate([direction, sides], axis=-2)
        attribute = xp.concatenate([attribute, missing.attribute])
        kind = np.concatenate([kind, np.full(len(missing.attribute), SplitKind.AXIS)])
    place = attribute + np.where(kind == SplitKind.DISCRETE, n_columns, 0)
    allowed = (attribute >= 0) & node.allowed[..., xp.maximum(place, 0)]
    return Projections(projection, kind, attribute, direction, weight, value, allowed)


AxisGains: TypeAlias = tuple[Projections, AnyArray, AnyArray, AnyArray]
"""Attributes as projections, gain and threshold of each, whether the node is pure."""


@dataclass(frozen=True, kw_only=True)
class AxisSplits(SplitFinder):
    """Base of the finders that split on one attribute."""

    may_be_oblique: ClassVar[bool] = False

    @property
    def max_attributes(self) -> int:
        """See `SplitFinder`."""
        return 1

    @abstractmethod
    def gains(self, node: Node) -> AxisGains:
        """Gain and threshold of every attribute, and whether the node is pure."""

    def __call__(self, node: Node) -> Split:
        """Find the split of the attribute that gains most."""
        axis, gain, threshold, pure = self.gains(node)
        candidates = axis.candidates(gain, threshold)
        xp = namespace(gain)
        best = candidates.take(xp.argmax(candidates.gain, axis=-1), node.pieces)
        return split_of(best, node, pure=pure, chance_gain=xp.zeros_like(best.gain))


def roles_of(node: Node) -> Roles:
    """The roles of a node's columns, where none are given those of plain numbers."""
    return Roles.alike(node.x.shape[-1]) if node.roles is None else node.roles


def leading_component(
    values: AnyArray, weight: AnyArray, pieces: Pieces | None = None
) -> AnyArray:
    """A column, or the first principal component of several, shape (..., n_rows)."""
    if values.shape[-1] == 1:
        return values[..., 0]
    xp = namespace(values)
    covariance = matmul(xp.swapaxes(weight[..., None] * values, -1, -2), values)
    leading = leading_eigenvectors(over_rows(covariance, pieces), 1)[..., 0, :]
    return matvec(values, for_rows(leading, pieces))


def _missing(batch: Node, pairs: AnyArray) -> _Missing:
    xp = namespace(batch.x)
    column, indicator = pairs[:, 0], xp.maximum(pairs[:, 1], 0)
    columns = xp.swapaxes(batch.x, -1, -2)
    value = columns[..., xp.maximum(column, 0), :]
    missing = columns[..., indicator, :] > 0
    weight = xp.where(missing, 0.0, batch.weight[..., None, :])
    observed = weight > 0
    lowest = _least(xp.where(observed, value, xp.inf), batch.pieces)
    highest = -_least(xp.where(observed, -value, xp.inf), batch.pieces)
    lowest, highest = (
        for_rows(bound, batch.pieces)[..., None] for bound in (lowest, highest)
    )
    # A threshold is a value that occurs: the lowest is never right of it.
    before = xp.where(missing, xp.where(lowest < xp.inf, lowest, 0.0), value)
    highest = xp.where(highest > -xp.inf, highest, 0.0)
    after = xp.nextafter(highest, xp.full_like(highest, xp.inf))
    after = xp.where(missing, after, value)
    unit = xp.eye(batch.x.shape[-1], dtype=batch.x.dtype)[indicator]
    return _Missing(
        projection=xp.concatenate([before, after], axis=-2),
        value=xp.concatenate([value, value], axis=-2),
        weight=xp.concatenate([weight, weight], axis=-2),
        direction=xp.concatenate([-unit, unit]),
        attribute=xp.concatenate([column, column]),
    )


def _least(values: AnyArray, pieces: Pieces | None) -> AnyArray:
    """Least value of the rows of each node."""
    return over_rows(values.min(axis=-1), pieces, np.minimum)


def split_of(
    pick: Candidates,
    node: Node,
    *,
    pure: Bool[AnyArray, ...],
    chance_gain: Float[AnyArray, ...],
    center: Float[AnyArray, "... n_columns"] | None = None,
    scale: Float[AnyArray, "... n_columns"] | None = None,
) -> Split:
    """The chosen candidate as a split of the table; the cut goes between the rows.

    Parameters
    ----------
    pick : Candidates
        One of each node.
    pure, chance_gain : Array of shape (...)
        As in `Split`.
    center, scale : Array of shape (..., n_columns), optional
        By which oblique directions were standardised.
    """
    xp = namespace(node.x)
    n_columns = node.x.shape[-1]
    center = xp.zeros(n_columns, node.x.dtype) if center is None else center
    scale = xp.ones(n_columns, node.x.dtype) if scale is None else scale
    present, pieces = node.weight > 0, node.pieces
    below = pick.projection <= for_rows(pick.threshold, pieces)[..., None]
    left, right = below & present, ~below & present
    highest = -_least(xp.where(left, -pick.projection, xp.inf), pieces)
    lowest = _least(xp.where(right, pick.projection, xp.inf), pieces)
    usable = xp.isfinite(highest) & xp.isfinite(lowest)
    middle = 0.5 * xp.where(usable, highest + lowest, 0.0)
    # Between neighbouring floats the middle is one of them: never the right one.
    cut = xp.where(usable, xp.where(middle < lowest, middle, highest), 0.0)
    is_axis = pick.kind == SplitKind.AXIS
    oblique = pick.direction / scale
    length = xp.sqrt(xp.sum(oblique**2, axis=-1))
    length = xp.where(length > 0, length, 1.0)
    axis = pick.attribute[..., None] == np.arange(n_columns)
    axis = axis.astype(node.x.dtype)
    if len(roles_of(node).missing):
        # A missing value counts as the mean of the side that it goes to.
        indicator = xp.abs(pick.direction)
        goes_left = xp.sum(pick.direction, axis=-1) < 0
        value = matvec(node.x, for_rows(axis, pieces))
        observed = matvec(node.x, for_rows(indicator, pieces)) <= 0
        side = xp.where(for_rows(goes_left, pieces)[..., None], left, right)
        weight = xp.where(observed & side, node.weight, 0.0)
        total = over_rows(xp.sum(weight, axis=-1), pieces)
        mean = over_rows(xp.sum(weight * value, axis=-1), pieces)
        mean = safe_divide(mean, total)
        inside = xp.where(goes_left, xp.minimum(mean, cut), xp.maximum(mean, lowest))
        inside = xp.where(xp.isfinite(inside), inside, 0.0)
        axis = axis + inside[..., None] * indicator
    direction = xp.where(is_axis[..., None], axis, oblique / length[..., None])
    # An axis split compares the attribute itself, so its cut is exact.
    from_center = xp.sum(oblique * center, axis=-1)
    threshold = xp.where(is_axis, cut, (cut + from_center) / length)

    discrete = pick.kind == SplitKind.DISCRETE
    usable = (pick.gain > 0) & xp.isfinite(pick.gain) & ~pure
    return Split(
        kind=xp.where(usable, pick.kind, SplitKind.LEAF).astype(xp.int32),
        attribute=pick.attribute.astype(xp.int32),
        direction=xp.where(discrete[..., None], 0.0, direction),
        threshold=xp.where(discrete, 0.0, threshold),
        goes_left=_subset(node, pick, left & for_rows(discrete, pieces)[..., None]),
        gain=xp.where(usable, pick.gain, 0.0),
        chance_gain=chance_gain,
        pure=pure,
    )


def _subset(node: Node, pick: Candidates, left: AnyArray) -> AnyArray:
    """Categories of the left side; absent ones follow the larger side."""
    xp = namespace(left)
    n = node.columns.n_categories
    n_discrete = node.codes.shape[-1]
    if not n_discrete:
        return xp.zeros((*pick.gain.shape, n), bool)
    # Of a split on a column any attribute will do.
    attribute = for_rows(xp.clip(pick.attribute, 0, n_discrete - 1), node.pieces)
    code = taken(xp.swapaxes(node.codes, -1, -2), attribute, left.ndim - 1)
    weight = sums_by_code(code, node.weight, n, node.pieces)
    left_weight = xp.where(left, node.weight, 0.0)
    left_weight = sums_by_code(code, left_weight, n, node.pieces)
    larger_left = left_weight.sum(axis=-1) >= 0.5 * weight.sum(axis=-1)
    return xp.where(weight > 0, left_weight > 0, larger_left[..., None])
