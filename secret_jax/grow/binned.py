"""The search of a level on binned columns: all axis splits of all nodes at once.

For processors, and trees that nobody reads: cuts lie at the bounds of bins, and no
candidate is scored exactly.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from secret_jax.data.schema import TableSchema
from secret_jax.grow.attribute_cuts import CategoryCuts, ColumnCuts
from secret_jax.grow.bins import Bins
from secret_jax.grow.cuts import NodeMoments, exact_gains
from secret_jax.grow.frontier import Level, Places
from secret_jax.grow.search import Found, Search
from secret_jax.models.interface import LeafModel
from secret_jax.models.linear import Constant
from secret_jax.models.statistics import NodeStatistics
from secret_jax.runtime.arrays import largest
from secret_jax.runtime.linalg import inverse_cholesky
from secret_jax.runtime.slices import slice_positions
from secret_jax.splits.interface import Split, SplitFinder
from secret_jax.splits.rss_search import CONSTANT, PURE

# Maximum number of rows, and of sums of bins, that are worked on at once: they stay in
# a cache.
_MOST_ROWS, _MOST_SUMS = 1 << 15, 1 << 20
# Bins of an attribute in a node, over the range that its rows cover; fewer in small
# nodes.
_BINS, _FEW_BINS, _FEW_ROWS = 16, 16, 0
# Candidates of a node, one of an attribute, that get an exact score.
_FINALISTS = 3


class BinnedSearch(Search):
    """Finds the axis splits of levels on columns that were binned once.

    They are scored as `secret_jax.splits.rss` screens them; those of a finder without
    models by the drop of the sum of squares about the mean.
    """

    def __init__(
        self,
        finder: SplitFinder,
        places: Places,
        schema: TableSchema,
        bins: Bins,
        *,
        sample: int | None,
    ):
        n_categories = max(map(len, schema.categories), default=1)
        super().__init__(
            finder, places, schema, n_categories=n_categories, sample=sample
        )
        self._bins, self._ridge = bins, getattr(finder, "ridge", 0.0)
        self._n_regressors = (
            schema.n_regressors if self._node_model.uses_regressors else 0
        )
        self._loading = bins.loading if self._n_regressors else None
        x, codes = places.table.on_host()
        self._x, self._codes = x, np.maximum(codes, 0)

    @property
    def _node_model(self) -> LeafModel:
        return self._finder.node_model or Constant()

    def find(self, level: Level) -> Found:
        """Splits of the nodes of a level; see `Search.find`."""
        n_nodes = len(level.node)
        splits = self._no_splits(n_nodes)
        if not n_nodes:
            nothing = np.zeros(0)
            return Found(splits, nothing, level.base, nothing)
        n_rows = np.minimum(level.stop - level.start, self._most)
        share = self._shares(level, n_rows)
        coefficient, degrees, statistics = self._models(level, n_rows)
        assert statistics is not None
        seen = level._replace(
            stop=level.start + n_rows,
            base=coefficient,
            min_leaf_weight=share * level.min_leaf_weight,
        )
        with np.errstate(all="ignore"):
            for index in self._parts(n_rows):
                part = self._search(seen.take(index), statistics.take(index))
                for every, some in zip(splits[:-1], part[:-1], strict=True):
                    every[index] = some
        return Found(splits, share, coefficient, degrees, statistics)

    def _parts(self, n_rows: np.ndarray) -> Iterator[np.ndarray]:
        """Nodes that are searched together."""
        n_model = self._n_regressors
        if self._loading is not None:
            n_model = self._loading.shape[1]
        n_outputs, n_discrete = self._places.targets.shape[1], self._codes.shape[1]
        n_sums = 1 + n_outputs * (1 + n_model)
        n_sums *= _BINS * len(self._bins.column) + self._n_categories * n_discrete
        for few in (False, True):
            index = np.flatnonzero((n_rows <= _FEW_ROWS) == few)
            if len(index):
                by_rows = (np.cumsum(n_rows[index]) - 1) // _MOST_ROWS
                by_sums = np.arange(len(index)) * n_sums // _MOST_SUMS
                cuts = np.diff(by_rows) + np.diff(by_sums) > 0
                yield from np.split(index, np.flatnonzero(cuts) + 1)

    def _search(self, level: Level, statistics: NodeStatistics) -> Split:
        """The best splits of some nodes, given their models."""
        length = level.stop - level.start
        place = self._places.order[slice_positions(level.start, level.stop)]
        row = self._places.row[place]
        nodes, unit, pure = self._moments(level, statistics, place, row)
        n_local = _FEW_BINS if length.max() <= _FEW_ROWS else _BINS
        bins, n_columns = self._bins, self._schema.n_columns
        columns = ColumnCuts.of(nodes, bins, bins.code[row], n_local)
        allowed = [level.allowed[:, bins.column[columns.attribute]]]
        kinds: list[ColumnCuts | CategoryCuts] = [columns]
        if self._codes.shape[1]:
            codes = self._codes[row]
            kinds.append(CategoryCuts.of(nodes, codes, self._n_categories))
            allowed.append(level.allowed[:, n_columns:])
        gain, cut = (
            np.concatenate(arrays, axis=1)
            for arrays in zip(*(kind.cuts.best() for kind in kinds), strict=True)
        )
        gain = np.where(np.concatenate(allowed, axis=1), gain, -np.inf)
        chosen, gain = self._best(nodes, kinds, gain, cut)
        usable = np.isfinite(gain) & (gain > 0) & ~pure
        splits, before = self._no_splits(len(length)), 0
        cut = cut[np.arange(len(chosen)), chosen]
        for kind in kinds:
            number = kind.cuts.gain.shape[1]
            own = (chosen >= before) & (chosen < before + number)
            node = np.flatnonzero(usable & own)
            kind.write(splits, node, chosen[node] - before, cut[node])
            before += number
        gain = np.where(usable, gain * unit**2, 0.0).astype(np.float32)
        return splits._replace(gain=gain, pure=pure)

    def _best(
        self,
        nodes: NodeMoments,
        kinds: list[ColumnCuts | CategoryCuts],
        gain: np.ndarray,
        cut: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray]:
        """The best candidate of each node, and its gain: exact of the most promising."""
        node = np.arange(len(gain))
        if not nodes.n_model or gain.shape[1] == 1:
            best = gain.argmax(axis=1)
            return best, gain[node, best]
        finalists = largest(gain, min(_FINALISTS, gain.shape[1]))
        first = np.cumsum([0, *(kind.cuts.gain.shape[1] for kind in kinds)])
        left = np.empty((len(nodes.slot), finalists.shape[1]), bool)
        for which in range(finalists.shape[1]):
            candidate = finalists[nodes.slot, which]
            at = cut[nodes.slot, candidate]
            left[:, which] = kinds[0].left(np.minimum(candidate, first[1] - 1), at)
            if len(kinds) > 1:
                other = candidate >= first[1]
                discrete = kinds[1].left(np.maximum(candidate - first[1], 0), at)
                left[:, which] = np.where(other, discrete, left[:, which])
        exact = exact_gains(nodes, left, self._ridge)
        exact = np.where(np.isfinite(gain[node[:, None], finalists]), exact, -np.inf)
        best = exact.argmax(axis=1)
        return finalists[node, best], exact[node, best]

    def _moments(
        self,
        level: Level,
        statistics: NodeStatistics,
        place: np.ndarray,
        row: np.ndarray,
    ) -> tuple[NodeMoments, np.ndarray, np.ndarray]:
        """What bins sum of the rows; the residuals' unit, whether nodes are pure."""
        places, n = self._places, self._n_regressors
        length = level.stop - level.start
        first = np.cumsum(length) - length
        slot = np.repeat(np.arange(len(length), dtype=np.int32), length)
        mean = statistics.mean.astype(np.float32)
        x = self._x[row, :n] - mean[slot, :n]
        model = level.base.astype(np.float32)
        residual = places.targets[place] - mean[slot, statistics.n_regressors :]
        for output in range(residual.shape[1]):
            slopes = model[slot, output, 1 : 1 + n]
            residual[:, output] -= np.einsum("ij,ij->i", x, slopes)
        weight, total = places.weight[place], statistics.weight[:, None]
        offset = np.add.reduceat(weight[:, None] * residual, first) / total
        residual -= offset.astype(np.float32)[slot]
        variance = np.add.reduceat(weight[:, None] * residual**2, first) / total
        pure = (variance <= PURE**2).all(axis=1)
        # One unit for all outputs, so that their gains add up.
        unit = np.sqrt(np.where(pure, 1.0, variance.mean(axis=1)))
        residual *= (weight / unit.astype(np.float32)[slot])[:, None]

        scatter = statistics.scatter[:, :n, :n]
        basis, products = x, scatter
        if self._loading is not None:
            basis, products = x @ self._loading, scatter @ self._loading
        width = 1 + basis.shape[1]
        moments = np.empty((len(row), 1 + residual.shape[1] * width), np.float32)
        moments[:, 0] = weight
        moments[:, 1::width] = residual
        for output in range(residual.shape[1]):
            start = 2 + output * width
            own = residual[:, output, None]
            np.multiply(basis, own, out=moments[:, start : start + width - 1])
        nodes = NodeMoments(
            slot=slot,
            first=first,
            moments=moments,
            plain=basis,
            basis=basis if (weight == 1).all() else basis * weight[:, None],
            scatter=products.astype(np.float32),
            whitener=self._whitener(scatter / total[..., None]),
            least=level.min_leaf_weight.astype(np.float32),
        )
        return nodes, unit, pure

    def _whitener(self, covariance: np.ndarray) -> np.ndarray:
        """Whiteners of coordinates with a penalty, (n_nodes, n_model, n_model)."""
        if self._loading is not None:
            covariance = self._loading.T @ covariance @ self._loading
        deviation = np.sqrt(np.maximum(np.einsum("nii->ni", covariance), 0.0))
        scale = np.where(deviation > CONSTANT, deviation, np.inf)
        ridged = covariance / (scale[:, :, None] * scale[:, None])
        ridged += self._ridge * np.eye(ridged.shape[-1])
        whitener, _ = inverse_cholesky(ridged.astype(np.float32), 0.0)
        return whitener / scale.astype(np.float32)[:, None]
