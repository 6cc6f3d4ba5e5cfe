"""Cuts where some conditions hold already, screened by first moments of their sides."""

from __future__ import annotations

from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from secret_jax.learners.residuals import Residuals
from secret_jax.learners.thresholds import ROUNDING, moments, quantiles, ranked
from secret_jax.runtime.linalg import safe_divide
from secret_jax.splits.axis import Projections, attributes, order_of_means
from secret_jax.splits.interface import Level
from secret_jax.splits.rss_nodes import best_cuts, gains_of_cuts
from secret_jax.tree.structure import SplitKind


class Cuts(NamedTuple):
    """The best cut of both sides of each attribute: of the lower, then of the upper."""

    gain: Float[np.ndarray, "n_nodes 2 n"]  # approximate
    place: Int[np.ndarray, "n_nodes 2 n"]  # last code on the lower side
    threshold: Float[np.ndarray, "n_nodes 2 n"]
    projection: Float[np.ndarray, "n rows"]  # categories by their ranks
    code: Int[np.ndarray, "n rows"]


class Screen(NamedTuple):
    """A level of which many cuts are screened; numbers are cut at their quantiles.

    Of the attributes numbers come first, also those with gaps.
    """

    level: Level
    left: Residuals
    axis: Projections
    code: Int[np.ndarray, "n_numbers rows"]
    cuts: Float[np.ndarray, "n_nodes n_numbers n_cuts"]
    # (n_nodes, n_numbers, 2, 1 + n_cuts): means of a number of unit variance, and of
    # its square, between the cuts.
    between: np.ndarray
    slope: Float[np.ndarray, "n_nodes n_numbers n_model"]  # of regressors on numbers
    # (n_values, rows), float32: weight times one, every output's residual and its
    # products with the regressors; then times these, and the leading residual.
    values: np.ndarray
    whole: Float[np.ndarray, "n_nodes n_moments"]  # sums of the first of them

    @classmethod
    def of(cls, level: Level, left: Residuals, n_cuts: int) -> Screen:
        """Prepare the rows of a level."""
        rows, axis = level.rows, attributes(level, left.leading)
        seen = axis.projection if axis.value is None else axis.value
        order = np.argsort(axis.kind == SplitKind.DISCRETE, kind="stable")
        axis = axis._replace(
            projection=axis.projection[order],
            kind=axis.kind[order],
            attribute=axis.attribute[order],
            direction=axis.direction[order],
            allowed=axis.allowed[:, order],
            chance=axis.chance[:, order],
        )
        number = axis.projection[: len(order) - len(level.codes)]
        z, deviation = moments(level, seen[order[: len(number)]])
        z = safe_divide(z, rows.spread(deviation))
        share = (np.arange(n_cuts) + 0.5) / n_cuts
        share[0] = 0.0  # the smallest value: its group may be rare
        cuts = quantiles(level, ranked(level, number, level.min_weight), share)
        code = np.zeros(z.shape, np.int32)
        for cut in np.moveaxis(cuts, -1, 0):
            code += number > rows.spread(cut)
        between = np.zeros((level.n_nodes, len(z), 2, n_cuts + 1), np.float32)
        for which, own in enumerate(z):
            powers = level.weight * np.stack([np.ones_like(own), own, own**2])
            table = rows.sums_by_code(code[which, None], n_cuts + 1, powers)[:, 0]
            between[:, which] = safe_divide(table[:, 1:], table[:, :1])
        n = left.models.penalty.shape[1]
        one, regressors, residual = np.split(left.models.design, [1, n])
        products = [np.stack([own, *(own * regressors)]) for own in residual]
        values = np.concatenate([one, *products, regressors, left.leading[None]])
        values = (level.weight * values).astype(np.float32)
        total = rows.sums(level.weight.astype(np.float64))[:, None, None]
        slope = rows.products(level.weight * z, regressors) / total
        whole = rows.sums(values[: 1 + n * len(residual)])
        slope = slope.astype(np.float32)
        return cls(level, left, axis, code, cuts, between, slope, values, whole)

    def best(self, inside: Bool[np.ndarray, " rows"]) -> Cuts:
        """The best cuts of the rows inside; what is outside is on neither side."""
        values = np.where(inside, self.values, np.float32(0))
        n, n_codes = self.whole.shape[1], self.cuts.shape[2] + 1
        table = self.level.rows.sums_by_code(self.code, n_codes, values[:n])
        gain, place = self._gains(table, table[:, :, :1] * self.between, self.slope)
        cuts = np.take_along_axis(self.cuts[:, None], place[..., None], axis=3)[..., 0]
        found = gain, place, cuts, self.axis.projection[: len(self.code)], self.code
        if len(self.level.codes):
            pairs = zip(
                found, self._of_categories(values), (2, 2, 2, 0, 0), strict=True
            )
            found = [np.concatenate(pair, axis=axis) for *pair, axis in pairs]
        return Cuts(*found)

    def _of_categories(self, values: np.ndarray) -> Cuts:
        level, n = self.level, self.whole.shape[1]
        table = level.rows.sums_by_code(level.codes, level.n_categories, values)
        mass, moment = table[:, :, 0], table[:, :, -1]
        order = order_of_means(mass, moment)
        table = np.take_along_axis(table, order[:, :, None], axis=3)
        table = np.pad(table, [(0, 0), (0, 0), (0, 0), (0, 1)])
        # Ranks as a number of mean zero and unit variance; zero outside.
        mass = table[:, :, 0]
        rank = np.arange(mass.shape[2], dtype=np.float32)
        z = rank - safe_divide(mass @ rank, mass.sum(axis=2))[..., None]
        total = self.whole[:, :1, None]
        z = safe_divide(z, np.sqrt(np.sum(mass * z**2, axis=2, keepdims=True) / total))
        own = np.stack([mass * z, mass * z**2], axis=2)
        slope = np.sum(table[:, :, n:-1] * z[:, :, None], axis=3) / total
        gain, place = self._gains(table[:, :, :n], own, slope)
        rank = level.rows.looked_up(np.argsort(order, axis=2), level.codes)
        rank = rank.astype(np.int32)
        return Cuts(gain, place, place, rank.astype(np.float32), rank)

    def _gains(
        self,
        table: Float[np.ndarray, "n_nodes n n_moments n_codes"],
        own: Float[np.ndarray, "n_nodes n 2 n_codes"],
        slope: Float[np.ndarray, "n_nodes n n_model"],
    ) -> tuple[Float[np.ndarray, "n_nodes 2 n"], Int[np.ndarray, "n_nodes 2 n"]]:
        """Approximate gain of the best cut after each code but the last, and which.

        ``table``: sums over the rows inside with each code; ``own``: those of the
        number itself and of its square.
        """
        below = np.cumsum(np.concatenate([table, own], axis=2), axis=3)
        below, every = below[..., :-1], below[..., -1:]
        sides = np.concatenate([below, every - below], axis=1)
        nodes = SimpleNamespace(
            n_model=slope.shape[2],
            whole=self.whole,
            # Sums in float32 may fall short of it; exact ones decide.
            min_weight=self.level.min_weight * np.float32(1 - ROUNDING),
        )
        both = np.concatenate([slope, slope], axis=1)
        gain = gains_of_cuts(nodes, sides[:, :, :-2], sides[:, :, -2:], both)
        places = np.broadcast_to(np.arange(gain.shape[2]), gain.shape)
        shape = self.level.n_nodes, 2, slope.shape[1]
        return tuple(each.reshape(shape) for each in best_cuts(gain, places))
