"""Cuts where some conditions hold already, screened by first moments of their sides."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from secret_jax.learners.residuals import Residuals
from secret_jax.learners.thresholds import ROUNDING, moments, quantiles
from secret_jax.runtime.linalg import safe_divide
from secret_jax.splits.axis import CATEGORY_PRIOR, Projections, attributes
from secret_jax.splits.interface import Level
from secret_jax.tree.structure import SplitKind

# A number that the models nearly span: beyond it the side's covariance, as it is taken
# to be, would be singular.
_MOST_NARROW = 0.99


class Cuts(NamedTuple):
    """The best cut of both sides of each attribute: of the lower, then of the upper."""

    gain: Float[np.ndarray, "n_nodes 2 n"]  # approximate
    place: Int[np.ndarray, "n_nodes 2 n"]  # last code on the lower side
    threshold: Float[np.ndarray, "n_nodes 2 n"]
    projection: Float[np.ndarray, "n rows"]  # categories by their ranks
    code: Int[np.ndarray, "n rows"]


class Screen(NamedTuple):
    """A level of which many cuts are screened; numbers are cut at their quantiles."""

    level: Level
    left: Residuals
    axis: Projections
    code: Int[np.ndarray, "n_numbers rows"]
    cuts: Float[np.ndarray, "n_nodes n_numbers n_cuts"]
    # (n_nodes, n_numbers, 2, 1 + n_cuts): means of a number of unit variance, and of
    # its square, between the cuts.
    between: np.ndarray
    slope: Float[np.ndarray, "n_nodes n_numbers n_model"]  # of regressors on numbers
    # (n_values, rows), float32: weight times one, regressors, every output's residual
    # and its products with these, the leading residual.
    values: np.ndarray
    whole: Float[np.ndarray, "n_nodes n_values"]

    @classmethod
    def of(cls, level: Level, left: Residuals, n_cuts: int) -> Screen:
        """Prepare the rows of a level."""
        rows, axis = level.rows, attributes(level, left.leading)
        number = axis.kind != SplitKind.DISCRETE
        seen = axis.projection if axis.value is None else axis.value
        z, deviation = moments(level, seen[number])
        z = safe_divide(z, rows.spread(deviation))
        share = (np.arange(n_cuts) + 0.5) / n_cuts
        share[0] = 0.0  # the smallest value: its group may be rare
        cuts = quantiles(level, axis.projection[number], share)
        code = np.zeros(z.shape, np.int32)
        for cut in np.moveaxis(cuts, -1, 0):
            code += axis.projection[number] > rows.spread(cut)
        n = left.models.penalty.shape[1]
        regressors, residual = left.models.design[1:n], left.models.design[n:]
        products = [np.stack([one, *(one * regressors)]) for one in residual]
        values = [left.models.design[:n], *products, left.leading[None]]
        values = (level.weight * np.concatenate(values)).astype(np.float32)
        total = rows.sums(level.weight.astype(np.float64))[:, None, None]
        slope = rows.products(level.weight * z, regressors) / total
        return cls(
            level=level,
            left=left,
            axis=axis,
            code=code,
            cuts=cuts,
            between=_between(level, code, z, n_cuts + 1),
            slope=slope.astype(np.float32),
            values=values,
            whole=rows.sums(values),
        )

    def best(self, inside: Bool[np.ndarray, " rows"]) -> Cuts:
        """The best cuts of the rows inside; what is outside is on neither side."""
        values = np.where(inside, self.values, np.float32(0))
        numbers, categories = self._of_numbers(values), self._of_categories(values)
        discrete = self.axis.kind == SplitKind.DISCRETE
        order = np.argsort(np.argsort(discrete, kind="stable"))
        gain, place, threshold = (
            np.concatenate(pair, axis=2)[..., order]
            for pair in zip(numbers[:3], categories[:3], strict=True)
        )
        projection, code = (
            np.concatenate(pair)[order]
            for pair in zip(numbers[3:], categories[3:], strict=True)
        )
        return Cuts(gain, place, threshold, projection, code)

    def _of_numbers(self, values: np.ndarray) -> Cuts:
        n_codes = self.cuts.shape[2] + 1
        table = self.level.rows.sums_by_code(self.code, n_codes, values)
        own = table[:, :, :1] * self.between
        gain, place = self._gains(np.concatenate([table, own], axis=2), self.slope)
        cuts = np.take_along_axis(self.cuts[:, None], place[..., None], axis=3)
        projection = self.axis.projection[self.axis.kind != SplitKind.DISCRETE]
        return Cuts(gain, place, cuts[..., 0], projection, self.code)

    def _of_categories(self, values: np.ndarray) -> Cuts:
        if not len(self.level.codes):
            nothing = np.zeros((self.level.n_nodes, 2, 0), int)
            none = np.zeros((0, values.shape[1]), np.int32)
            return Cuts(nothing, nothing, nothing, none, none)
        level, n_model = self.level, self.slope.shape[2]
        table = level.rows.sums_by_code(level.codes, level.n_categories, values)
        mass, moment = table[:, :, 0], table[:, :, -1]
        mean = np.where(mass > 0, moment / (mass + CATEGORY_PRIOR), np.inf)
        order = np.argsort(mean, axis=2, kind="stable")
        table = np.take_along_axis(table, order[:, :, None], axis=3)
        table = np.pad(table, [(0, 0), (0, 0), (0, 2), (0, 1)])
        slope = np.zeros((*table.shape[:2], n_model), np.float32)
        gain, place = self._gains(table, slope)
        rank = level.rows.looked_up(np.argsort(order, axis=2), level.codes)
        rank = rank.astype(np.int32)
        return Cuts(gain, place, place, rank.astype(np.float32), rank)

    def _gains(
        self,
        table: Float[np.ndarray, "n_nodes n n_values+2 n_codes"],
        slope: Float[np.ndarray, "n_nodes n n_model"],
    ) -> tuple[Float[np.ndarray, "n_nodes 2 n"], Int[np.ndarray, "n_nodes 2 n"]]:
        """Approximate gain of the best cut after each code but the last, and which.

        ``table``: sums over the rows inside with each code, the last two of the number
        itself and of its square.
        """
        # Values first: each along long runs of numbers.
        below = np.ascontiguousarray(table.transpose(2, 3, 0, 1))
        for code in range(1, below.shape[1]):
            below[:, code] += below[:, code - 1]
        none = np.zeros_like(self.whole[:, 0])
        whole = np.column_stack([self.whole, none, self.whole[:, 0]]).T[..., None]

        def sums(which: int) -> np.ndarray:
            """Of one value over all sides, (4, n_codes - 1, n_nodes, n)."""
            own, last = below[which, :-1], below[which, -1]
            sides = np.empty((4, *own.shape), np.float32)
            sides[0] = own
            np.subtract(last, own, out=sides[1])
            np.subtract(whole[which], sides[:2], out=sides[2:])
            return sides

        gain, weight = _explained(sums, len(whole), slope.transpose(2, 0, 1))
        gain, least = gain[:2] + gain[2:], np.minimum(weight[:2], weight[2:])
        needed = self.level.min_weight[:, None] * (1 - ROUNDING)
        gain = np.where((least >= needed) & (least > 0), gain, -np.inf)
        best = gain.argmax(axis=1).transpose(1, 0, 2)
        return gain.max(axis=1).transpose(1, 0, 2), best


def _explained(
    sums: Callable[[int], np.ndarray],
    n_values: int,
    slope: Float[np.ndarray, "p n_nodes n"],
) -> tuple[Float[np.ndarray, "4 c n_nodes n"], Float[np.ndarray, "4 c n_nodes n"]]:
    r"""What models of sides explain, from first moments, and their weights.

    Of a side of weight :math:`w`, with the covariances :math:`b` of regressors of unit
    variance with the residual, whose mean is :math:`\bar r`, it is :math:`w (\bar r^2 +
    b^T C^{-1} b)`. The covariance :math:`C` of the regressors is taken to be the
    node's, the identity, but for what the cut takes away: with their slopes :math:`s`
    on the number that is cut, whose variance on the side is :math:`v`, it is :math:`I -
    (1 - v) s s^T`, exact for elliptical attributes (inverse: Sherman & Morrison 1950).
    """
    p, weight = len(slope), sums(0)
    share = 1 / np.maximum(weight, np.float32(ROUNDING))
    spread = sums(n_values - 1) * share - (sums(n_values - 2) * share) ** 2
    strength = np.sum(slope**2, axis=0)
    narrower = np.minimum(1 - spread, _MOST_NARROW / np.maximum(strength, _MOST_NARROW))
    rest = 1 - strength * narrower + np.float32(ROUNDING)
    found = np.zeros_like(weight)
    for first in range(1 + p, n_values - 3, 1 + p):
        level = sums(first) * share
        found += level**2
        along = np.zeros_like(found)
        for which in range(p):
            moment = sums(first + 1 + which)
            moment -= sums(1 + which) * level
            moment *= share
            along += slope[which] * moment
            moment *= moment
            found += moment
        found += along**2 * narrower / rest
    return weight * found, weight


def _between(
    level: Level,
    code: Int[np.ndarray, "n rows"],
    z: Float[np.ndarray, "n rows"],
    n_codes: int,
) -> Float[np.ndarray, "n_nodes n 2 n_codes"]:
    """Means of each number, and of its square, over the rows with each code."""
    found = []
    for one, values in zip(code, z, strict=True):
        values = level.weight * np.stack([np.ones_like(values), values, values**2])
        found.append(level.rows.sums_by_code(one[None], n_codes, values)[:, 0])
    if not found:
        return np.zeros((level.n_nodes, 0, 2, n_codes))
    table = np.stack(found, axis=1)
    return safe_divide(table[:, :, 1:], table[:, :, :1]).astype(np.float32)
