"""Cuts of continuous attributes in bins, and of discrete ones by their categories."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from secret_jax.grow.bins import Bins
from secret_jax.grow.cuts import Cuts, NodeMoments, products, slopes
from secret_jax.runtime.eigenvectors import leading_eigenvectors
from secret_jax.splits.interface import Split
from secret_jax.splits.node_axis import CATEGORY_PRIOR, gain_of_order
from secret_jax.tree.structure import SplitKind

# An attribute of so few values is cut off from rare ones as well.
_FEW_VALUES = 16


class ColumnCuts(NamedTuple):
    """Cuts between the bins of continuous attributes, in each node of its own.

    An attribute with missing values comes twice: these go right, and left.
    """

    cuts: Cuts
    bins: Bins
    # (n_nodes, n_attributes), int: positions among the bins' attributes.
    attribute: np.ndarray
    position: np.ndarray  # (n_candidates,), int: which of these each candidate is
    missing_left: np.ndarray  # (n_candidates,), bool
    # (n_rows, n_attributes), uint8: bins of the rows, counted in their nodes;
    # ``n_local`` where missing.
    code: np.ndarray
    # (n_nodes, n_attributes, n_local + 1), int: bins of the table at which those of a
    # node begin.
    start: np.ndarray
    # weight, total (n_nodes, n_attributes, n_local), float32: of the rows in each bin,
    # and the sums of their values.
    weight: np.ndarray
    total: np.ndarray

    @classmethod
    def of(
        cls,
        nodes: NodeMoments,
        bins: Bins,
        attribute: Int[np.ndarray, "n_nodes n_attributes"],
        row: Int[np.ndarray, " n_rows"],
        scatter: Float[np.ndarray, "n_nodes n_regressors n_model"],
        n_local: int,
    ) -> ColumnCuts:
        """Score the cuts of attributes.

        ``row`` (n_rows,), int: rows of the table; ``scatter`` (n_nodes, n_regressors,
        n_model), float32: weighted sums of the regressors times the coordinates;
        ``n_local``: bins of a node, over the range that its rows cover.
        """
        if attribute.shape[1] == len(bins.column):
            code = bins.code.take(row, axis=0)
        else:
            code = bins.code[row[:, None], attribute[nodes.slot]]
        gaps, highest = np.zeros(0, int), code
        if len(bins.with_gaps):
            gaps = np.flatnonzero((bins.indicator[attribute] >= 0).any(axis=0))
            highest = np.where(code == bins.n_bins, np.uint8(0), code)
        highest = np.maximum.reduceat(highest, nodes.first, axis=0)
        lowest = np.minimum.reduceat(code, nodes.first, axis=0)
        lowest = np.minimum(lowest, highest)
        shift = _shifts(bins.n_bins, n_local)[highest - lowest]
        local = code - lowest.take(nodes.slot, axis=0)
        local >>= shift.take(nodes.slot, axis=0)
        if len(gaps):
            local[code == bins.n_bins] = n_local
        steps = np.arange(n_local + 1) << shift[..., None].astype(np.int64)
        start = np.minimum(lowest[..., None] + steps, bins.n_bins)
        value, square = bins.means(attribute, start)

        n_codes = n_local + bool(len(gaps))
        left = nodes.sums(local, n_codes, nodes.moments, cumulative=True)
        weight = np.diff(left[:, :, 0, :n_local], axis=2, prepend=np.float32(0))
        own = np.stack([weight * value, weight * square])
        whole, own_whole = left[..., -1], own.sum(axis=3)  # a missing value is 0
        column = bins.column[attribute]
        seen = column < scatter.shape[1]
        along = np.zeros((*attribute.shape, nodes.n_model), np.float32)
        node, place = np.nonzero(seen)
        along[node, place] = scatter[node, column[node, place]]
        some = np.flatnonzero(~seen.all(axis=0))
        if nodes.n_model and len(some):
            basis = nodes.sums(local[:, some], n_local + 1, nodes.basis)[..., :n_local]
            measured = np.einsum("nac,namc->nam", value[:, some], basis)
            along[:, some] += np.where(seen[:, some, None], np.float32(0), measured)
        slope = slopes(nodes, along, own_whole, whole)
        left, own_left = left[..., :n_local], np.cumsum(own, axis=3)
        position = np.arange(attribute.shape[1])
        if len(gaps):
            missing = whole[:, gaps, :, None] - left[:, gaps, :, -1:]
            left = np.concatenate([left, left[:, gaps] + missing], axis=1)
            position = np.concatenate([position, gaps])
        missing_left = np.arange(len(position)) >= attribute.shape[1]
        cuts = Cuts.of(
            nodes,
            left,
            whole[:, position],
            own_left[:, :, position],
            own_whole[:, :, position],
            slope[:, position],
            free=bins.n_values[attribute[:, position]] <= _FEW_VALUES,
        )
        return cls(
            *(cuts, bins, attribute, position, missing_left, local, start),
            *(weight, own[0]),
        )

    def left(self, candidate: np.ndarray, cut: np.ndarray) -> np.ndarray:
        """Whether rows are left of cuts, each row with a candidate of its own."""
        n_rows, n_attributes = self.code.shape
        at = n_attributes * np.arange(n_rows) + self.position.take(candidate)
        code = self.code.ravel().take(at)
        if not self.missing_left.any():
            return code <= cut
        missing = code == self.start.shape[2] - 1
        return (code <= cut) | (missing & self.missing_left.take(candidate))

    def write(
        self, splits: Split, node: np.ndarray, candidate: np.ndarray, cut: np.ndarray
    ) -> None:
        """Write the chosen cuts of some nodes as splits; of equal ones the middle."""
        bins, place = self.bins, self.position[candidate]
        attribute = self.attribute[node, place]
        last = self.cuts.last_equal(node, candidate, cut)
        start, rows = self.start[node, place], np.arange(len(node))
        threshold = bins.edge[attribute, start[rows, 1 + (cut + last) // 2] - 1]
        splits.kind[node] = SplitKind.AXIS
        splits.attribute[node] = bins.column[attribute]
        splits.threshold[node] = threshold
        splits.direction[node, bins.column[attribute]] = 1.0
        gap = bins.indicator[attribute]
        if (gap >= 0).any():
            # A missing value counts as the mean of the side that it goes to.
            left = self.missing_left[candidate]
            side = (np.arange(start.shape[1] - 1) <= cut[:, None]) == left[:, None]
            weight = (self.weight[node, place] * side).sum(axis=1)
            total = (self.total[node, place] * side).sum(axis=1)
            mean = np.where(weight > 0, total / np.where(weight > 0, weight, 1), 0)
            above = np.nextafter(threshold, np.float32(np.inf))
            inside = np.where(
                left, np.minimum(mean, threshold), np.maximum(mean, above)
            )
            there = gap >= 0
            splits.direction[node[there], gap[there]] = inside[there]


class CategoryCuts(NamedTuple):
    """Prefixes of the categories of attributes, in the order of their mean scores."""

    cuts: Cuts
    # (n_rows, n_attributes), int: ranks of the rows' categories in their nodes.
    code: np.ndarray
    rank: np.ndarray  # (n_nodes, n_attributes, n_categories), int
    # The same shape, float32: of the categories; those without any come last.
    weight: np.ndarray
    chance: np.ndarray  # (n_nodes, n_attributes), float32: see `gain_of_order`

    @classmethod
    def of(
        cls,
        nodes: NodeMoments,
        code: Int[np.ndarray, "n_rows n_attributes"],
        n_categories: int,
    ) -> CategoryCuts:
        """Score the prefixes of the orders of categories."""
        sums = nodes.sums(code, n_categories, nodes.moments)
        basis = nodes.sums(code, n_categories, nodes.basis)
        weight = sums[:, :, 0].copy()
        score, square = _scores(nodes, sums)
        mean = score / (weight + CATEGORY_PRIOR)
        order = np.where(weight > 0, mean, np.inf)
        order = np.argsort(order, axis=2, kind="stable")
        sums, basis = (
            np.take_along_axis(array, order[:, :, None], axis=3)
            for array in (sums, basis)
        )
        value = np.arange(n_categories, dtype=np.float32)
        own = np.stack([value * sums[:, :, 0], value**2 * sums[:, :, 0]])
        along = basis @ value
        cuts = Cuts.between(nodes, sums, own, along)
        chance = gain_of_order(weight, square[:, None])
        cuts = cuts._replace(gain=cuts.gain - chance[..., None])
        rank = np.argsort(order, axis=2, kind="stable")
        row_rank = rank[nodes.slot[:, None], np.arange(code.shape[1]), code]
        return cls(cuts, row_rank, rank, weight, chance)

    def left(self, candidate: np.ndarray, cut: np.ndarray) -> np.ndarray:
        """Whether rows are left of cuts, each row with a candidate of its own."""
        return self.code[np.arange(len(candidate)), candidate] <= cut

    def write(
        self, splits: Split, node: np.ndarray, candidate: np.ndarray, cut: np.ndarray
    ) -> None:
        """Write the chosen cuts; absent categories follow the larger side."""
        splits.kind[node] = SplitKind.DISCRETE
        splits.attribute[node] = candidate
        weight = self.weight[node, candidate]
        left = self.rank[node, candidate] <= cut[:, None]
        larger_left = 2 * (weight * left).sum(axis=1) >= weight.sum(axis=1)
        splits.goes_left[node] = np.where(weight > 0, left, larger_left[:, None])


def _shifts(n_bins: int, n_local: int) -> np.ndarray:
    """By how many bits to shift bins with a range, so that few are left, uint8."""
    shift = np.zeros(n_bins, np.uint8)
    spread = np.arange(n_bins)
    while ((spread >> shift) >= n_local).any():
        shift += (spread >> shift) >= n_local
    return shift


def _scores(
    nodes: NodeMoments, sums: Float[np.ndarray, "n_nodes n_attributes n_sums n_codes"]
) -> tuple[np.ndarray, np.ndarray]:
    """Sums of the residuals, or of their first principal component, of categories.

    Returns also (n_nodes,): the weighted sum of its squares.
    """
    residual = nodes.residual
    if len(residual) == 1:
        found, score = sums[:, :, 1], residual[0]
    else:
        scaled = np.ascontiguousarray((residual / nodes.weight).T)
        covariance = products(nodes.first, residual, scaled)
        leading = leading_eigenvectors(covariance, 1)[:, 0]
        found = np.einsum("nk,nakc->nac", leading, sums[:, :, 1 :: 1 + nodes.n_model])
        score = np.einsum("rk,kr->r", leading[nodes.slot], residual)
    return found, np.add.reduceat(score**2 / nodes.weight, nodes.first)
