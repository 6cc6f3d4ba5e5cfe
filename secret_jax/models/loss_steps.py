"""Newton steps to the least penalised loss, for several nodes at once.

Every step replaces the loss by a parabola, row by row, and fits it from the same
statistics as least squares (McCullagh & Nelder 1989, section 2.5); steps are shortened
until the penalised loss of the node falls. A loss with corners is rounded first, then
rounded less in each stage.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from secret_jax.losses.interface import Loss
from secret_jax.models.interface import Models
from secret_jax.models.ridge import shrunken
from secret_jax.models.row_groups import RowGroups
from secret_jax.models.statistics import NodeStatistics, slice_statistics

# Regressors are standardised over the table: a smaller variance is rounding.
_CONSTANT = 1e-12
# A loss that falls by a smaller share of itself has settled, or nearly, where its
# penalty or its corner is still to change.
_SETTLED, _NEARLY = 1e-6, 1e-4
# Maximum number of halvings of a step before it is given up.
_HALVINGS = 12
# Shares of the relevant rows over which corners are rounded, stage by stage.
_ROUNDINGS = (1.0, 0.3, 0.1)
# A ridge becomes weaker with the likelihood's curvature, down to this share.
_WEAKEST = 0.1


def corrected(
    loss: Loss,
    group: RowGroups,
    base: Float[np.ndarray, "n_nodes n_outputs _"],
    gcv_factor: float,
    n_steps: int,
) -> Models:
    """Fit models of least loss, shrunk toward given ones by a GCV penalty.

    Parameters
    ----------
    base : ndarray of shape (n_nodes, n_outputs, 1 + n_regressors)
    gcv_factor : float
        See `secret_jax.Ridge`.
    n_steps : int
        At most.
    """
    value = group.values(base)
    smooth = smoothed(loss, group, value, _ROUNDINGS[0])
    strength, degrees = _strengths(smooth, group, base, value, gcv_factor)
    spread = _spreads(smooth, group, value)
    search = _Search(group, base, _priced(strength, spread), n_steps)
    if smooth is not loss:
        coefficient = search.settled(smooth, base, _NEARLY)
        for share, settled in zip(_ROUNDINGS[1:], (_NEARLY, _SETTLED), strict=True):
            smooth = smoothed(loss, group, group.values(coefficient), share)
            coefficient = search.settled(smooth, coefficient, settled)
    elif loss.is_likelihood:
        coefficient = search.settled(loss, base, _NEARLY)
        # Strengths are in units of the curvature, which a good fit has less of.
        left = _spreads(loss, group, group.values(coefficient))
        penalty = _priced(strength, np.clip(left, _WEAKEST * spread, spread))
        search = _Search(group, base, penalty, n_steps)
        coefficient = search.settled(loss, coefficient, _SETTLED)
    else:
        coefficient = search.settled(loss, base, _SETTLED)
    return Models(coefficient, degrees.mean(axis=1))


def smoothed(loss: Loss, group: RowGroups, value: np.ndarray, share: float) -> Loss:
    """Smooth a loss at raw predictions of a group's rows; see `Loss.smoothed`."""
    least = max(share * (1.0 + group.x.shape[1]), 2.0)  # rows that a model can fit
    nodes = list(map(slice, group.start, group.stop))
    return loss.smoothed(group.targets, value, group.weight, nodes, share, least)


def _curvature(
    loss: Loss, group: RowGroups, value: np.ndarray, output: int
) -> tuple[np.ndarray, np.ndarray]:
    """Slopes and curvatures; the latter are averaged per node without a likelihood."""
    slope, curvature = (a[:, output] for a in loss.working(group.targets, value))
    if not loss.is_likelihood:
        total = np.add.reduceat(group.weight, group.start)
        curvature = (group.sums(curvature) / total)[group.slot]
    return slope, curvature


def _strengths(
    loss: Loss,
    group: RowGroups,
    base: np.ndarray,
    value: np.ndarray,
    gcv_factor: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Ridge strengths relative to the spreads, and degrees of freedom, per output.

    The strength is chosen with parabolas at the given models: parabolas at a good fit
    would favour ever weaker ridges.
    """
    strength, degrees = np.empty(base.shape[:2]), np.empty(base.shape[:2])
    total = np.add.reduceat(group.weight, group.start)
    for output in range(base.shape[1]):
        slope, curvature = _curvature(loss, group, value, output)
        statistics = _statistics(group, value[:, output], slope, curvature)
        mean = statistics.weight / total
        unit = np.where(mean > 0, mean, 1.0)
        scaled = statistics._replace(
            weight=statistics.weight / unit,
            scatter=statistics.scatter / unit[:, None, None],
        )
        found = shrunken(scaled, base[:, output], gcv_factor)
        strength[:, output], degrees[:, output] = found.strength, found.degrees
    return strength, degrees


def _spreads(loss: Loss, group: RowGroups, value: np.ndarray) -> np.ndarray:
    """Sum of squares of each regressor, weighted by the curvature of each output."""
    found = []
    for output in range(value.shape[1]):
        curvature = group.weight * _curvature(loss, group, value, output)[1]
        total = np.add.reduceat(curvature, group.start)[:, None]
        weighted = curvature[:, None] * group.x
        mean = np.add.reduceat(weighted, group.start) / total
        centred = group.x - mean[group.slot]
        found.append(np.add.reduceat(curvature[:, None] * centred**2, group.start))
    return np.stack(found, axis=1)


def _priced(strength: np.ndarray, spread: np.ndarray) -> np.ndarray:
    """Penalty on each squared slope, (n_nodes, n_outputs, n_regressors)."""
    strength = np.repeat(strength[:, :, None], spread.shape[2], axis=2)
    strength[spread > 0] *= spread[spread > 0]
    return strength


class _Search:
    """Line search along Newton steps, for several nodes."""

    def __init__(
        self, group: RowGroups, base: np.ndarray, penalty: np.ndarray, n_steps: int
    ) -> None:
        self.group, self.base, self.penalty = group, base, penalty
        self.n_steps = n_steps
        self.price = np.where(np.isfinite(penalty), penalty, 0.0)

    def settled(
        self, loss: Loss, coefficient: np.ndarray, settled: float
    ) -> np.ndarray:
        """Iterate ``n_steps`` times, or until the penalised losses stop falling."""
        coefficient, search = coefficient.copy(), self
        node = np.arange(len(coefficient))
        for _ in range(self.n_steps):
            own = coefficient[node]
            value = search.group.values(own)
            before = cost = search.cost(loss, own, value)
            for output in range(own.shape[1]):
                own, value, cost = search.step(loss, own, value, cost, output)
            coefficient[node] = own
            moving = np.flatnonzero(before - cost > settled * np.abs(cost))
            if not len(moving):
                break
            if len(moving) < len(node):
                node = node[moving]
                group, row = search.group.take(moving)
                loss = loss.take(row)
                search = _Search(group, self.base[node], self.penalty[node], 0)
        return coefficient

    def cost(
        self, loss: Loss, coefficient: np.ndarray, value: np.ndarray
    ) -> np.ndarray:
        """Penalised loss of each node."""
        with np.errstate(over="ignore", invalid="ignore"):
            losses = loss.losses(self.group.targets, value).sum(axis=1)
        change = coefficient[:, :, 1:] - self.base[:, :, 1:]
        priced = np.einsum("noi,noi->n", self.price, change**2)
        return self.group.sums(losses) + 0.5 * priced

    def step(
        self,
        loss: Loss,
        own: np.ndarray,
        value: np.ndarray,
        cost: np.ndarray,
        output: int,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Make a step in one output; return models, raw predictions and costs."""
        group = self.group
        slope, curvature = (a[:, output] for a in loss.working(group.targets, value))
        statistics = _statistics(group, value[:, output], slope, curvature)
        aim = _penalised(statistics, self.base[:, output], self.penalty[:, output])
        change = aim - own[:, output]
        moved = group.values(change[:, None, :])[:, 0]
        length = np.ones(len(own))

        def moved_by(length: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            found, there = own.copy(), value.copy()
            found[:, output] += length[:, None] * change
            there[:, output] += length[group.slot] * moved
            return found, there

        for _ in range(_HALVINGS):
            found, there = moved_by(length)
            new = self.cost(loss, found, there)
            worse = ~(new <= cost)
            if not worse.any():
                return found, there, new
            length[worse] *= 0.5
        found, there = moved_by(np.where(worse, 0.0, length))
        return found, there, np.where(worse, cost, new)


def _statistics(
    group: RowGroups, value: np.ndarray, slope: np.ndarray, curvature: np.ndarray
) -> NodeStatistics:
    """Statistics of regressors and working responses of the parabolas."""
    return slice_statistics(
        group.x,
        None,
        (value + slope / curvature)[:, None],
        group.weight * curvature,
        group.x.shape[1],
        np.arange(len(group.weight)),
        group.start,
        group.stop,
    )


def _penalised(
    statistics: NodeStatistics, base: np.ndarray, penalty: np.ndarray
) -> np.ndarray:
    """Fit least squares with a penalty on differences from given slopes.

    Parameters
    ----------
    statistics : NodeStatistics
        Statistics of one output.
    base : ndarray of shape (n_nodes, 1 + n_regressors)
    penalty : ndarray of shape (n_nodes, n_regressors)
        Penalty on every squared difference; if infinite, the slope is kept.

    Returns
    -------
    ndarray of shape (n_nodes, 1 + n_regressors), float64
    """
    mean, scatter = statistics.mean, statistics.scatter
    slopes, gram = base[:, 1:], scatter[:, :-1, :-1]
    moment = scatter[:, :-1, -1] - np.einsum("nij,nj->ni", gram, slopes)
    # What does not vary, or must not change, gets a row of the identity.
    varies = np.einsum("nii->ni", gram) > _CONSTANT * statistics.weight[:, None]
    free = varies & np.isfinite(penalty)
    both = free[:, :, None] & free[:, None, :]
    gram = np.where(both, gram, 0.0)
    n = np.arange(gram.shape[1])
    gram[:, n, n] += np.where(free, penalty, 1.0)
    correction = np.linalg.solve(gram, np.where(free, moment, 0.0)[:, :, None])[..., 0]
    found = slopes + correction
    constant = mean[:, -1] - np.einsum("ni,ni->n", found, mean[:, :-1])
    return np.concatenate([constant[:, None], found], axis=1)
