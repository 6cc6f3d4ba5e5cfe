"""The search of a level on binned columns: all axis splits of all nodes at once.

For processors, and trees that nobody reads: cuts lie at the bounds of bins, and no
candidate is scored exactly.
"""

from collections.abc import Iterator

import numpy as np

from secret_jax.data.schema import TableSchema
from secret_jax.grow.attribute_cuts import CategoryCuts, ColumnCuts
from secret_jax.grow.bins import Bins
from secret_jax.grow.cuts import NodeMoments, combined, exact_sides, products
from secret_jax.grow.execution import Found
from secret_jax.grow.frontier import Frontier, Places
from secret_jax.grow.node_models import NodeModels
from secret_jax.grow.oblique_cuts import ObliqueCuts
from secret_jax.grow.search import GrowOptions, Search, no_splits
from secret_jax.models.statistics import NodeStatistics
from secret_jax.runtime.arrays import largest
from secret_jax.runtime.linalg import inverse_cholesky
from secret_jax.runtime.parallel import side_by_side
from secret_jax.runtime.scratch import Scratch
from secret_jax.runtime.shapes import slice_positions
from secret_jax.splits.interface import Roles, Split
from secret_jax.splits.rss import RssSplits
from secret_jax.splits.rss_search import CONSTANT, PURE
from secret_jax.tree.structure import SplitKind

# Maximum number of rows, and of sums of bins, that are worked on at once: they stay in
# a cache.
_MOST_ROWS, _MOST_SUMS = 1 << 15, 1 << 20
# Bins of an attribute in a node, over the range that its rows cover.
_BINS = 32
# Candidates of a node, one of an attribute, that get an exact score.
_FINALISTS = 3
# Maximum number of columns that an oblique split is looked for in.
_MOST_COMBINED = 24


class BinnedSearch(Search):
    """Finds the axis splits of levels on columns that were binned once.

    They are scored as `secret_jax.splits.rss` screens them; those of a finder without
    models by the drop of the sum of squares about the mean.
    """

    def __init__(
        self,
        places: Places,
        schema: TableSchema,
        options: GrowOptions,
        bins: Bins,
        models: NodeModels,
    ):
        super().__init__(places, schema, options)
        self._n_categories = max(2, self._n_categories)  # one cut at least
        assert isinstance(options.finder, RssSplits)
        self._options, self._bins, self._models = options.finder, bins, models
        self._combined = Roles.of(schema).combined
        self._n_regressors = schema.n_regressors
        self._scratch = Scratch()

    def find(self, level: Frontier) -> Found:
        """Splits of the nodes of a level; see `Search.find`."""
        n_nodes = len(level.node)
        splits = no_splits(n_nodes, self._schema, self._finder)
        if not n_nodes:
            return Found(splits, np.zeros(0))
        n_rows = np.minimum(level.stop - level.start, self._most)
        share = self._shares(level, n_rows)
        statistics = self._models.statistics_of(level)
        seen = level._replace(
            stop=level.start + n_rows, min_leaf_weight=share * level.min_leaf_weight
        )

        def search(index: np.ndarray) -> None:
            with np.errstate(all="ignore"):
                part = self._search(seen.take(index), statistics.take(index))
            for every, some in zip(splits, part, strict=True):
                if isinstance(every, np.ndarray):
                    every[index] = some

        side_by_side(search, self._parts(seen))
        return Found(splits, share)

    def _parts(self, level: Frontier) -> Iterator[np.ndarray]:
        """Nodes that are searched together."""
        n_rows = level.stop - level.start
        n_outputs, n_discrete = self._places.targets.shape[1], self._codes.shape[1]
        n_codes = _BINS * len(self._bins.column) + self._n_categories * n_discrete
        loading = self._bins.loading
        n_model = self._n_regressors if loading is None else loading.shape[1]
        n_sums = n_codes * (1 + n_outputs * (1 + n_model))
        for oblique in (False, True):
            index = np.flatnonzero(level.oblique == oblique)
            if len(index):
                by_rows = (np.cumsum(n_rows[index]) - 1) // _MOST_ROWS
                by_sums = np.arange(len(index)) * n_sums // _MOST_SUMS
                cuts = np.diff(by_rows) + np.diff(by_sums) > 0
                yield from np.split(index, np.flatnonzero(cuts) + 1)

    def _search(self, level: Frontier, statistics: NodeStatistics) -> Split:
        """The best splits of some nodes of one kind, given their models."""
        length = level.stop - level.start
        place = self._places.order[slice_positions(level.start, level.stop)]
        row = self._places.row[place]
        nodes, unit, pure = self._moments(level, statistics, place, row)
        bins, n_columns = self._bins, self._schema.n_columns
        n = self._n_regressors
        scatter = statistics.scatter[:, :n, :n]
        loading = self._bins.loading
        if loading is not None:
            scatter = scatter @ loading
        scatter = scatter.astype(np.float32)
        kinds: list[ColumnCuts | CategoryCuts] = []
        allowed = []
        promise = np.full((len(length), n_columns), -np.inf, np.float32)
        if len(bins.column):
            # Where nodes may be split on few attributes, these are all that is scored.
            open_to = level.allowed[:, bins.column]
            number = max(open_to.sum(axis=1).max(), 1)
            own = np.argsort(~open_to, axis=1, kind="stable")[:, :number]
            own.sort(axis=1)  # all of them are the table's, in its order
            columns = ColumnCuts.of(nodes, bins, own, row, scatter, _BINS)
            kinds.append(columns)
            own = own[:, columns.position]
            # Attributes without gaps come twice where those of other nodes have gaps.
            once = ~columns.missing_left | (bins.indicator[own] >= 0)
            allowed.append(np.take_along_axis(open_to, own, axis=1) & once)
        if self._codes.shape[1]:
            codes = self._codes.take(row, axis=0)
            kinds.append(CategoryCuts.of(nodes, codes, self._n_categories))
            allowed.append(level.allowed[:, n_columns:])
        gain, cut = (
            np.concatenate(arrays, axis=1)
            for arrays in zip(*(kind.cuts.best() for kind in kinds), strict=True)
        )
        gain = np.where(np.concatenate(allowed, axis=1), gain, -np.inf)
        node = np.arange(len(length))
        ridge = np.full(len(length), self._options.ridge, np.float32)
        finalists = largest(gain, min(_FINALISTS, gain.shape[1]))
        left = _left(nodes, kinds, finalists, cut)
        exact, models = exact_sides(nodes, left, ridge)
        if isinstance(kinds[-1], CategoryCuts):
            chance = kinds[-1].chance
            discrete = finalists - (gain.shape[1] - chance.shape[1])
            own = np.take_along_axis(chance, np.maximum(discrete, 0), axis=1)
            exact = exact - np.where(discrete >= 0, own, np.float32(0))
        exact = np.where(np.isfinite(gain[node[:, None], finalists]), exact, -np.inf)
        best = exact.argmax(axis=1)
        chosen, exact = finalists[node, best], exact[node, best]
        splits, before = self._no_splits(len(length)), 0
        usable = np.isfinite(exact) & (exact > 0) & ~pure
        oblique = np.zeros(len(length), bool)
        if level.oblique[0] and self._combined.sum() > 1:
            if len(bins.column):
                own = bins.column[columns.attribute]
                np.put_along_axis(promise, own, gain[:, : own.shape[1]], axis=1)
            start = np.where(np.isfinite(exact), exact, 0.0), models[node, best]
            exact, oblique = self._obliquely(level, nodes, row, start, promise, splits)
            exact = np.where(usable | oblique, exact, 0.0)
            usable = (usable | oblique) & ~pure
        for kind in kinds:
            number = kind.cuts.gain.shape[1]
            own = (chosen >= before) & (chosen < before + number)
            some = np.flatnonzero(usable & own & ~oblique)
            kind.write(splits, some, chosen[some] - before, cut[some, chosen[some]])
            before += number
        gain = np.where(usable, exact * unit**2, 0.0).astype(np.float32)
        splits.kind[~usable] = SplitKind.LEAF
        return splits._replace(gain=gain, pure=pure)

    def _obliquely(
        self,
        level: Frontier,
        nodes: NodeMoments,
        row: np.ndarray,
        start: tuple[np.ndarray, np.ndarray],
        promise: np.ndarray,
        splits: Split,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Write oblique splits where they gain more than others.

        ``start``: gains of the others, and the models of their sides; ``promise``
        (n_nodes, n_columns): their gains: of many columns the most promising are
        combined. Returns ``gain`` (n_nodes,); ``better`` (n_nodes,), bool.
        """
        columns, n = np.flatnonzero(self._combined), len(promise)
        column = np.broadcast_to(columns, (n, len(columns)))
        x = self._x.take(row, axis=0)
        if len(columns) > _MOST_COMBINED:
            column = columns[largest(promise[:, columns], _MOST_COMBINED)]
            x = np.take_along_axis(x, column[nodes.slot], axis=1)
        elif len(columns) < x.shape[1]:
            x = x[:, columns]
        weight = nodes.weight[:, None]
        total = np.add.reduceat(weight, nodes.first)
        center = np.add.reduceat(weight * x, nodes.first) / total
        z = x - center.take(nodes.slot, axis=0)
        deviation = np.sqrt(np.add.reduceat(weight * z**2, nodes.first) / total)
        scale = np.where(deviation > CONSTANT, deviation, np.inf).astype(np.float32)
        z /= scale.take(nodes.slot, axis=0)
        allowed = np.take_along_axis(level.allowed, column, axis=1)
        found = ObliqueCuts.of(nodes, self._options, z, allowed, *start)
        direction = found.direction / scale
        length = np.sqrt((direction**2).sum(axis=1))
        better = length > 0
        threshold = found.threshold + (direction * center).sum(axis=1)
        splits.kind[better] = SplitKind.OBLIQUE
        splits.threshold[better] = (threshold / length)[better]
        at = np.flatnonzero(better)
        unit = (direction / length[:, None])[better]
        splits.direction[at[:, None], column[better]] = unit
        return found.gain, better

    def _moments(
        self,
        level: Frontier,
        statistics: NodeStatistics,
        place: np.ndarray,
        row: np.ndarray,
    ) -> tuple[NodeMoments, np.ndarray, np.ndarray]:
        """What bins sum of the rows; the residuals' unit, whether nodes are pure."""
        places, n = self._places, self._n_regressors
        length = level.stop - level.start
        first = np.cumsum(length) - length
        slot = np.repeat(np.arange(len(length)), length)
        mean = statistics.mean.astype(np.float32)
        x = self._x.take(row, axis=0)[:, :n] - mean[:, :n].take(slot, axis=0)
        slopes = np.swapaxes(level.model[:, :, 1:], 1, 2).astype(np.float32)
        residual = places.targets[place] - mean[:, n:].take(slot, axis=0)
        residual -= combined(first, x, np.ascontiguousarray(slopes))
        weight = places.weight[place].astype(np.float32)
        total = statistics.weight[:, None]
        offset = np.add.reduceat(weight[:, None] * residual, first) / total
        residual -= offset.astype(np.float32).take(slot, axis=0)
        variance = np.add.reduceat(weight[:, None] * residual**2, first) / total
        pure = (variance <= PURE**2).all(axis=1)
        # One unit for all outputs, so that their gains add up.
        unit = np.sqrt(np.where(pure, 1.0, variance.mean(axis=1)))
        residual *= (weight / unit.astype(np.float32).take(slot))[:, None]

        basis, covariance = x, statistics.scatter[:, :n, :n] / total[..., None]
        loading = self._bins.loading
        if loading is not None:
            basis, covariance = x @ loading, loading.T @ covariance @ loading
        width = 1 + basis.shape[1]
        whitener = self._whitener(covariance)
        turned = np.ascontiguousarray(np.swapaxes(whitener, 1, 2))
        white = combined(first, basis, turned)
        scratch, n_moments = self._scratch, 1 + residual.shape[1] * width
        moments = scratch.array("moments", (len(row), n_moments), np.float32)
        moments[:, 0] = weight
        moments[:, 1::width] = residual
        for output in range(residual.shape[1]):
            start = 2 + output * width
            own = residual[:, output, None]
            np.multiply(white, own, out=moments[:, start : start + width - 1])
        plain = scratch.array("plain", (len(row), width), np.float32)
        plain[:, 0], plain[:, 1:] = 1.0, basis
        shape = width + residual.shape[1], len(row)
        weighted = scratch.array("weighted", shape, np.float32)
        np.multiply(plain.T, weight, out=weighted[:width])
        weighted[width:] = residual.T
        nodes = NodeMoments(
            slot=slot,
            first=first,
            moments=moments,
            plain=plain,
            weighted=weighted,
            whole=products(first, weighted, plain),
            whitener=whitener,
            least=level.min_leaf_weight.astype(np.float32),
            scratch=scratch,
        )
        return nodes, unit, np.asarray(pure)

    def _whitener(self, covariance: np.ndarray) -> np.ndarray:
        """Whiteners of coordinates with a penalty, (n_nodes, n_model, n_model)."""
        deviation = np.sqrt(np.maximum(np.einsum("nii->ni", covariance), 0.0))
        scale = np.where(deviation > CONSTANT, deviation, np.inf)
        ridged = covariance / (scale[:, :, None] * scale[:, None])
        ridged += self._options.ridge * np.eye(ridged.shape[-1])
        whitener, _ = inverse_cholesky(ridged.astype(np.float32), 0.0)
        return whitener / scale.astype(np.float32)[:, None]


def _left(
    nodes: NodeMoments,
    kinds: list[ColumnCuts | CategoryCuts],
    chosen: np.ndarray,
    cut: np.ndarray,
) -> np.ndarray:
    """Whether rows are left of the cuts of chosen candidates of their nodes.

    ``chosen`` (n_nodes, n), int: candidates of all kinds, those of the first kind
    first; ``cut`` (n_nodes, n_candidates), int: cut of every candidate. Returns (n,
    n_rows), float32: 1 on the left, 0 on the right.
    """
    n_first = kinds[0].cuts.gain.shape[1]
    sides = []
    for candidate, at in zip(
        chosen.T, np.take_along_axis(cut, chosen, 1).T, strict=True
    ):
        candidate, at = candidate.take(nodes.slot), at.take(nodes.slot)
        left = kinds[0].left(np.minimum(candidate, n_first - 1), at)
        if len(kinds) > 1:
            discrete = kinds[1].left(np.maximum(candidate - n_first, 0), at)
            left = np.where(candidate < n_first, left, discrete)
        sides.append(left)
    return np.stack(sides).astype(np.float32)
