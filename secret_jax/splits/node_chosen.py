"""Candidate splits of nodes, and the chosen one as a split of the table."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from secret_jax.runtime.arrays import sums_by_code, taken, where_each
from secret_jax.runtime.linalg import AnyArray, matmul, matvec, namespace, safe_divide
from secret_jax.runtime.pieces import Pieces, for_rows, over_rows
from secret_jax.splits.interface import Roles, Split
from secret_jax.splits.one_node import Node
from secret_jax.tree.comparisons import goes_left
from secret_jax.tree.structure import SplitKind


class Candidates(NamedTuple):
    """Splits of the rows by projections and thresholds."""

    gain: AnyArray  # (..., n)
    projection: AnyArray  # (..., n, n_rows)
    direction: AnyArray  # (..., n, n_columns), standardised; of axis see `_Missing`
    threshold: AnyArray  # (..., n)
    kind: AnyArray  # (..., n)
    attribute: AnyArray  # (..., n)
    chance: AnyArray  # (..., n): see `secret_jax.splits.axis.gain_of_order`

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

    def where(
        self, chosen: AnyArray, other: Candidates, pieces: Pieces | None
    ) -> Candidates:
        """These candidates in some nodes, one in each, and others in the rest."""
        masks = [chosen] * len(self)
        masks[1] = for_rows(chosen, pieces)  # of the projections
        return Candidates(*map(where_each, masks, self, other))


def roles_of(node: Node) -> Roles:
    """The roles of a node's columns, where none are given those of plain numbers."""
    return Roles.alike(node.x.shape[-1]) if node.roles is None else node.roles


def least_of_rows(values: AnyArray, pieces: Pieces | None) -> AnyArray:
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

    ``pick``: one of each node; ``pure``, ``chance_gain`` (...): as in `Split`;
    ``center``, ``scale`` (..., n_columns): by which oblique directions were
    standardised.
    """
    xp = namespace(node.x)
    n_columns = node.x.shape[-1]
    center = xp.zeros(n_columns, node.x.dtype) if center is None else center
    scale = xp.ones(n_columns, node.x.dtype) if scale is None else scale
    present, pieces = node.weight > 0, node.pieces
    below = pick.projection <= for_rows(pick.threshold, pieces)[..., None]
    left, right = below & present, ~below & present
    highest = -least_of_rows(xp.where(left, -pick.projection, xp.inf), pieces)
    lowest = least_of_rows(xp.where(right, pick.projection, xp.inf), pieces)
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


def goes_left_of(split: Split, x: jax.Array, codes: jax.Array) -> jax.Array:
    """Whether rows of one node go left at its split, all of whose categories occur."""
    projection = matmul(x, split.direction)
    if not codes.shape[1]:
        return projection <= split.threshold
    code = codes[:, jnp.maximum(split.attribute, 0)]
    listed, discrete = split.goes_left[code], split.kind == SplitKind.DISCRETE
    return goes_left(projection, split.threshold, discrete, code, listed, listed, jnp)
