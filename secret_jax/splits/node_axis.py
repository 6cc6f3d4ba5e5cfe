"""Splits on one attribute: thresholds, orders of categories, sides of missing values.

What all finders share: attributes as projections of the rows, and the chosen projection
as a split of the table.
"""

from abc import abstractmethod
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Float

from secret_jax.runtime.arrays import stacked, sums_by_code
from secret_jax.runtime.eigenvectors import leading_eigenvectors
from secret_jax.runtime.linalg import AnyArray, matmul, matvec, namespace, safe_divide
from secret_jax.runtime.pieces import Pieces, for_rows, over_rows
from secret_jax.splits.interface import Split
from secret_jax.splits.node_chosen import Candidates, least_of_rows, roles_of, split_of
from secret_jax.splits.one_node import Node, OneNodeFinder
from secret_jax.tree.structure import SplitKind

# A category of n rows is ranked by its mean times n / (n + 2): as if two more rows of
# the node's mean were in it.
CATEGORY_PRIOR = 2.0
# So many categories gain by chance what the best threshold of a number does.
_FREE_CATEGORIES = 7


class Projections(NamedTuple):
    """Attributes as projections, in units of the table."""

    # (..., n, n_rows): values of a continuous attribute, ranks of the categories of a
    # discrete one.
    projection: AnyArray
    kind: np.ndarray  # (n,), int
    attribute: AnyArray  # (n,), int32: -1 is padding
    # (..., n, n_columns), float32: of attributes with missing values, which side these
    # go to; else zero.
    direction: AnyArray
    # (..., n, n_rows), or None: the rows whose values may be thresholds, where these
    # are not all.
    weight: AnyArray | None
    # (..., n, n_rows), or None: what models see of an attribute, where that is not the
    # projection.
    value: AnyArray | None
    allowed: AnyArray  # (..., n), bool
    chance: AnyArray  # (..., n): see `gain_of_order`

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
            chance=self.chance,
        )


def gain_of_order(weight: AnyArray, square: AnyArray) -> AnyArray:
    """What the order of categories gains where it is chance alone.

    Of k means of noise the larger half and the other differ by 1.6 of their deviations:
    a split between them gains 2/pi of k noise variances. The best threshold of a number
    gains by chance what seven categories do: only what is more than that counts.

    ``weight`` (..., n_categories): zero where there is none; ``square`` (...): weighted
    sum of the squared scores, which stand for the noise. Returns (...).
    """
    xp = namespace(weight)
    noise = safe_divide(square, xp.sum(weight, axis=-1))
    number = xp.sum(weight > 0, axis=-1).astype(noise.dtype)
    number = xp.maximum(number - _FREE_CATEGORIES, 0.0)
    return np.float32(2.0 / np.pi) * number * noise


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

    ``score`` (..., n_rows): orders the categories: of the best binary split for one
    output they are a prefix of the order of their means (Breiman et al. 1984,
    Proposition 8.16).
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
    nodes = node.allowed.shape[:-1]
    chance = xp.zeros((*nodes, len(kind)), node.x.dtype)
    if n_discrete:

        def ranked(codes):
            n = node.columns.n_categories
            weight = sums_by_code(codes, node.weight, n, pieces)
            moment = sums_by_code(codes, node.weight * score, n, pieces)
            mean = moment / (weight + CATEGORY_PRIOR)
            mean = xp.where(weight > 0, mean, xp.inf)
            order = xp.argsort(mean, axis=-1, stable=True)
            rank = xp.argsort(order, axis=-1, stable=True)
            rank = for_rows(rank.astype(node.x.dtype), pieces)
            chance = gain_of_order(weight, square)
            return xp.take_along_axis(rank, codes, axis=-1), chance

        square = over_rows(xp.sum(node.weight * score**2, axis=-1), pieces)
        ranks, own = stacked(ranked, xp.moveaxis(node.codes, -1, 0))
        ranks, own = xp.moveaxis(ranks, 0, -2), xp.moveaxis(own, 0, -1)
        projection = xp.concatenate([projection, ranks], axis=-2)
        chance = xp.concatenate([chance[..., :n_axis], own], axis=-1)
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
        n_missing = len(missing.attribute)
        kind = np.concatenate([kind, np.full(n_missing, SplitKind.AXIS)])
        none = xp.zeros((*nodes, n_missing), node.x.dtype)
        chance = xp.concatenate([chance, none], axis=-1)
    place = attribute + np.where(kind == SplitKind.DISCRETE, n_columns, 0)
    allowed = (attribute >= 0) & node.allowed[..., xp.maximum(place, 0)]
    return Projections(
        projection, kind, attribute, direction, weight, value, allowed, chance
    )


AxisGains: TypeAlias = tuple[Projections, AnyArray, AnyArray, AnyArray]
"""Attributes as projections, gain and threshold of each, whether the node is pure."""


@dataclass(frozen=True, kw_only=True)
class AxisSplits(OneNodeFinder):
    """Base of the finders that split on one attribute."""

    @property
    def max_attributes(self) -> int:
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
    lowest = least_of_rows(xp.where(observed, value, xp.inf), batch.pieces)
    highest = -least_of_rows(xp.where(observed, -value, xp.inf), batch.pieces)
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
