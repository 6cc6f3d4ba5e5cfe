"""A small finder over the verbs of a level, in NumPy and traced by JAX."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from secret_jax.splits.interface import Level, Split, SplitFinder
from secret_jax.tree.structure import SplitKind

_QUANTILES = 16


@dataclass(frozen=True, kw_only=True)
class VarianceSplits(SplitFinder):
    """Axis and discrete splits by the drop of the sum of squares about the mean.

    The first output counts; categories go left by their own means, up to the node's.
    """

    compiled: ClassVar[bool] = True

    def find(self, level: Level) -> Split:
        """The best of sixteen cuts of each column, and of one of each attribute."""
        rows, xp = level.rows, level.rows.xp
        weight = level.weight[..., None, :]
        values = xp.concatenate([weight, weight * level.targets[..., :1, :]], axis=-2)
        whole = rows.sums(values)  # (n_nodes, 2)
        safe = xp.maximum(whole[:, 0], 1e-9)
        mean = whole[:, 1] / safe

        def gains(left):  # (n_nodes, 2, n)
            right = whole[:, :, None] - left
            fine = xp.minimum(left[:, 0], right[:, 0]) >= level.min_weight[:, None]
            fine = fine & (xp.minimum(left[:, 0], right[:, 0]) > 0)
            found = sum(
                (side[:, 1] - mean[:, None] * side[:, 0]) ** 2
                / xp.maximum(side[:, 0], 1e-9)
                for side in (left, right)
            )
            return xp.where(fine, found, -1.0)

        first = rows.head(xp.where(weight > 0, level.x, np.inf), 128)
        inside = rows.head(level.weight, 128) > 0
        first = xp.sort(xp.where(inside[:, None], first, np.inf), axis=-1)
        number = xp.sum(inside, axis=-1)[:, None]
        place = number * np.arange(_QUANTILES) // _QUANTILES
        place = xp.broadcast_to(place[:, None], (*first.shape[:2], _QUANTILES))
        cuts = xp.take_along_axis(first, place, axis=-1)
        below, _ = rows.moments_below(level.x, cuts, values, level.weight)
        # (n_nodes, d, 2, n_cuts)
        n_nodes, d = below.shape[:2]
        gain = gains(xp.moveaxis(below, 1, 2).reshape(n_nodes, 2, -1))
        best = xp.argmax(gain.reshape(n_nodes, d, -1), axis=-1)
        gain = xp.max(gain.reshape(n_nodes, d, -1), axis=-1)
        cut = xp.take_along_axis(cuts, best[..., None], axis=-1)[..., 0]

        of_code = rows.sums_by_code(level.codes, level.n_categories, values)
        own = of_code[:, :, 1] / xp.maximum(of_code[:, :, 0], 1e-9)
        listed = (own <= mean[:, None, None]) & (of_code[:, :, 0] > 0)
        left = xp.sum(xp.where(listed[:, :, None], of_code, 0.0), axis=-1)
        gain = xp.concatenate([gain, gains(xp.swapaxes(left, 1, 2))], axis=1)
        gain = xp.where(level.allowed, gain, -1.0)
        chosen = xp.argmax(gain, axis=1)
        most = xp.max(gain, axis=1)
        is_axis = chosen[:, None] == np.arange(d)
        is_discrete = chosen[:, None] == d + np.arange(level.codes.shape[-2])
        discrete = is_discrete.any(axis=1)
        kind = xp.where(discrete, int(SplitKind.DISCRETE), int(SplitKind.AXIS))
        direction = is_axis.astype(np.float32)
        return Split(
            kind=xp.where(most > 0, kind, int(SplitKind.LEAF)).astype(np.int32),
            attribute=xp.where(discrete, chosen - d, chosen).astype(np.int32),
            direction=direction,
            threshold=xp.sum(xp.where(is_axis, cut, 0.0), axis=1),
            goes_left=(listed & is_discrete[:, :, None]).any(axis=1),
            gain=xp.maximum(most, 0.0).astype(np.float32),
            chance_gain=xp.zeros_like(most),
            pure=most < -2,
        )
