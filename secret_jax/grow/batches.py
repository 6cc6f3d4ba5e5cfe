"""From a frontier to one split per node: prefix samples, padded to a few shapes.

Two searches share one interface: `GiniSearch` is the paper's, `RssSearch` compares
candidates of all kinds by the children's linear models.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, Protocol

import numpy as np
from scipy.special import ndtri

from secret_jax.data.rows import N_WORKERS, bucket, mix, next_power_of_two, uniform
from secret_jax.data.table import Table, TableSchema
from secret_jax.models.leaves import shrink_toward, slice_statistics
from secret_jax.options import GrowOptions
from secret_jax.runtime.devices import on_accelerator, rows_at_once, same_device
from secret_jax.splits.directions import PROPOSALS
from secret_jax.splits.interface import NodeBatch, NodeSplits, no_splits
from secret_jax.splits.mixture import MixtureStatus
from secret_jax.splits.rss import ModelBatch, RssSettings, find_rss_splits
from secret_jax.splits.secret import SecretSettings, find_splits
from secret_jax.tree.structure import SplitKind, StopReason

# Most padded rows of one batch, unless a single node has more.
_BATCH_ROWS = 1 << 14
_SMALLEST_SAMPLE = 512


class Level(NamedTuple):
    """The frontier: nodes of one depth, their rows a slice of the row order each.

    Attributes
    ----------
    node, parent : ndarray of shape (n_nodes,), int
    start, stop : ndarray of shape (n_nodes,), int
        Slices of the row order.
    weight : ndarray of shape (n_nodes,), float64
    key : ndarray of shape (n_nodes,), uint64
        A node's randomness, whatever else is in its batch.
    oblique : ndarray of shape (n_nodes,), bool
        Whether the node's tree may split obliquely.
    """

    node: np.ndarray
    parent: np.ndarray
    start: np.ndarray
    stop: np.ndarray
    weight: np.ndarray
    key: np.ndarray
    oblique: np.ndarray

    def take(self, index: np.ndarray) -> Level:
        """Some of the nodes."""
        return Level(*(array[index] for array in self))


class TrainingRows(NamedTuple):
    """What a search reads: encoded rows, output (float32) and weight (float32)."""

    table: Table
    y: np.ndarray
    weight: np.ndarray


class Search(Protocol):
    """Finds a split for every node of a level."""

    def find(self, level: Level, order: np.ndarray) -> tuple[NodeSplits, np.ndarray]:
        """Splits of the nodes, and a `StopReason` each: SPLIT where one is usable."""
        ...


class _Samples(NamedTuple):
    """Rows of several nodes in one padded shape."""

    index: np.ndarray  # which nodes
    row: np.ndarray  # (len(index), n_rows)
    inside: np.ndarray  # (len(index), n_rows), bool
    share: np.ndarray  # (len(index),), sampled share of the nodes' weight
    n_padded: int  # nodes of the batch, with empty ones

    def pad(self, values: np.ndarray, fill: float = 0) -> np.ndarray:
        """Per-node values with one entry for each node of the batch."""
        shape = (self.n_padded, *values.shape[1:])
        # Zeros are not written: padding that nobody reads costs nothing.
        padded = np.zeros(shape, values.dtype)
        padded[: len(self.index)] = values
        if fill:
            padded[len(self.index) :] = fill
        return padded

    def table(self, rows: TrainingRows) -> dict[str, np.ndarray]:
        """The fields that all batches share."""
        return {
            "x": self.pad(rows.table.x[self.row]),
            "codes": self.pad(np.maximum(rows.table.codes[self.row], 0)),
            "y": self.pad(np.where(self.inside, rows.y[self.row], np.float32(0))),
            "weight": self.pad(
                np.where(self.inside, rows.weight[self.row], np.float32(0))
            ),
        }


def _samples(
    level: Level,
    chosen: np.ndarray,
    order: np.ndarray,
    weight: np.ndarray,
    sample: int | None,
    row_bytes: int,
) -> Iterator[_Samples]:
    """Nodes of like size together, each with a prefix of its rows; large ones first."""
    n_rows = (level.stop - level.start)[chosen]
    n_sample = n_rows if sample is None else np.minimum(n_rows, sample)
    start_of = level.start[chosen]
    share = np.ones(len(chosen))
    for i in np.flatnonzero(n_sample < n_rows):
        head = order[start_of[i] : start_of[i] + n_sample[i]]
        share[i] = weight[head].sum(dtype=np.float64) / level.weight[chosen[i]]
    size = np.array([bucket(n, smallest=_SMALLEST_SAMPLE) for n in n_sample])
    for width in np.unique(size)[::-1]:
        alike = np.flatnonzero(size == width)
        n_padded = _nodes_at_once(int(width), row_bytes)
        # Every processor gets its share, even of few nodes.
        n_together = min(n_padded, -(-len(alike) // N_WORKERS))
        column = np.arange(width)
        for first in range(0, len(alike), n_together):
            part = alike[first : first + n_together]
            inside = column < n_sample[part, None]
            position = np.where(inside, start_of[part, None] + column, 0)
            yield _Samples(chosen[part], order[position], inside, share[part], n_padded)


def _nothing(width: int, row_bytes: int) -> _Samples:
    """A batch of padding alone."""
    row = np.zeros((0, width), np.int64)
    n_padded = _nodes_at_once(width, row_bytes)
    return _Samples(row[:, 0], row, row > 0, np.zeros(0), n_padded)


def _nodes_at_once(width: int, row_bytes: int) -> int:
    return max(1, rows_at_once(row_bytes, _BATCH_ROWS) // width)


def _randomness(key: np.ndarray, shape: tuple[int, ...], attempt: int) -> np.ndarray:
    """Numbers in (0, 1) of shape (n_nodes, *shape), float32."""
    size = int(np.prod(shape))
    counter = (np.arange(size) + size * attempt).astype(np.uint64)
    numbers = uniform(mix(key[:, None]) ^ counter).astype(np.float32)
    inside = np.clip(numbers, np.float32(2**-24), np.float32(1 - 2**-24))
    return inside.reshape(len(key), *shape)


def _put(found: NodeSplits, index: np.ndarray, splits: NodeSplits) -> None:
    for target, source in zip(found, splits, strict=True):
        target[index] = np.asarray(source)[: len(index)]


def _row_bytes(rows: TrainingRows, n_candidates: int) -> int:
    """Memory that a search takes for a row: products, and a number for a candidate."""
    width = rows.table.x.shape[1] + 2
    n_attributes = width + rows.table.codes.shape[1]
    return 4 * (width * (width + 1) // 2 + n_attributes * n_candidates)


def _n_categories(schema: TableSchema) -> int:
    return next_power_of_two(max((len(c) for c in schema.categories), default=1))


class GiniSearch:
    """The paper's search: EM, labels, discriminants, Gini gain.

    A node without a usable split tries again with new starts before it gives up.
    """

    def __init__(self, rows: TrainingRows, schema: TableSchema, options: GrowOptions):
        self._rows = rows
        self._options = options
        self._settings = SecretSettings(
            n_regressors=schema.n_regressors,
            n_categories=_n_categories(schema),
            oblique=bool(options.split.oblique),
            counted_gain=options.split.gini_gain == "counted",
            child_models=options.keep_mixture_models,
            max_iter=options.mixture.max_iter,
            tolerance=options.mixture.tolerance,
            floor=options.mixture.floor,
            together=on_accelerator(),
        )

    def find(self, level: Level, order: np.ndarray) -> tuple[NodeSplits, np.ndarray]:
        """See `Search`."""
        mixture, settings = self._options.mixture, self._settings
        found = no_splits(
            len(level.node),
            self._rows.table.x.shape[1],
            settings.n_categories,
            settings.n_regressors,
        )
        waiting = np.arange(len(level.node))
        for attempt in range(mixture.n_attempts):
            by_component = (
                (np.arange(mixture.n_starts) == 0)
                & (attempt == 0)
                & (mixture.start == "component")
            )
            for samples in _samples(
                level,
                waiting,
                order,
                self._rows.weight,
                mixture.sample,
                _row_bytes(self._rows, mixture.n_starts),
            ):
                key = samples.pad(level.key[samples.index])
                min_weight = self._options.min_samples_leaf * samples.share
                batch = NodeBatch(
                    **samples.table(self._rows),
                    min_weight=samples.pad(min_weight.astype(np.float32), np.inf),
                    randomness=_randomness(key, (mixture.n_starts, 2), attempt),
                    from_component=np.broadcast_to(
                        by_component, (len(key), mixture.n_starts)
                    ),
                    oblique=samples.pad(level.oblique[samples.index]),
                )
                n_nodes = len(samples.index)
                splits = find_splits(batch, n_nodes, settings=settings)
                _put(found, samples.index, splits)
            hopeless = found.pure | (found.status == MixtureStatus.TOO_FEW_ROWS)
            waiting = np.flatnonzero((found.kind == SplitKind.LEAF) & ~hopeless)
        reason = np.select(
            [found.kind != SplitKind.LEAF, found.pure],
            [StopReason.SPLIT, StopReason.PURE],
            StopReason.NO_USABLE_SPLIT,
        )
        # As in the other search, a gain is over all rows of its node.
        gain = np.where(reason == StopReason.SPLIT, found.gain * level.weight, 0.0)
        return found._replace(gain=gain.astype(np.float32)), reason


class RssSearch:
    """Candidates of all kinds, compared by the children's linear models.

    Every node has a model, shrunk toward its parent's; splits are scored on its
    residual.
    """

    def __init__(self, rows: TrainingRows, schema: TableSchema, options: GrowOptions):
        self._rows = rows
        self._schema = schema
        self._options = options
        rss = options.rss
        self._settings = RssSettings(
            n_regressors=schema.n_regressors,
            n_indicators=schema.n_indicators,
            gaps=schema.gap_columns,
            n_categories=_n_categories(schema),
            n_thresholds=rss.n_thresholds,
            em_starts=rss.em_starts,
            em_steps=rss.em_steps,
            n_hessian=rss.n_hessian,
            n_finalists=rss.n_finalists,
            n_hinge=rss.n_hinge,
            hinge_steps=rss.hinge_steps,
            ridge=rss.ridge,
            n_model=min(schema.n_regressors, rss.most_regressors),
            oblique=bool(options.split.oblique),
            together=on_accelerator(),
            max_split_features=min(rss.max_split_features or 0, rows.table.x.shape[1]),
            proposals=tuple(PROPOSALS.values()),
        )
        # Of every node that was searched, by node id.
        self._model: dict[int, np.ndarray] = {}
        self._degrees: dict[int, float] = {}

    def find(self, level: Level, order: np.ndarray) -> tuple[NodeSplits, np.ndarray]:
        """See `Search`."""
        self._fit_models(level, order)
        rss, settings, rows = self._options.rss, self._settings, self._rows
        n_columns = rows.table.x.shape[1]
        n_nodes = len(level.node)
        found = no_splits(
            n_nodes, n_columns, settings.n_categories, settings.n_regressors
        )
        row_bytes = _row_bytes(rows, 2 * rss.n_thresholds)
        price = np.zeros(n_nodes)
        share = np.ones(n_nodes)

        def search(samples: _Samples) -> None:
            index = samples.index
            batch = self._batch(level, samples)
            alike = settings
            if settings.together and len(index):
                # Side by side all nodes take as long as an oblique one.
                alike = settings._replace(oblique=bool(level.oblique[index[0]]))
            splits, prices = find_rss_splits(batch, len(index), settings=alike)
            _put(found, index, splits)
            price[index] = np.asarray(prices)[: len(index)]
            share[index] = samples.share

        def jobs() -> Iterator[_Samples]:
            yield from self._programs_to_come(level, row_bytes)
            for oblique in (True, False):  # what takes longest first
                chosen = np.flatnonzero(level.oblique == oblique)
                yield from _samples(
                    level, chosen, order, rows.weight, rss.sample, row_bytes
                )

        # One program keeps about one processor busy. Results are nothing; what went
        # wrong in a thread is raised here.
        with ThreadPoolExecutor(N_WORKERS) as pool:
            collections.deque(pool.map(same_device(search), jobs()), maxlen=0)
        reason = np.select(
            [
                found.pure,
                found.kind == SplitKind.LEAF,
                found.gain <= rss.stop_factor * price,
            ],
            [StopReason.PURE, StopReason.NO_USABLE_SPLIT, StopReason.MIN_GAIN],
            StopReason.SPLIT,
        )
        # The rows that the search saw stand for all rows of the node.
        return found._replace(gain=(found.gain / share).astype(np.float32)), reason

    def _programs_to_come(self, level: Level, row_bytes: int) -> list[_Samples]:
        """Batches of padding at the first level: all programs compile side by side."""
        if (level.parent >= 0).any() or self._settings.together:
            return []
        options = self._options
        largest = int((level.stop - level.start).max(initial=1))
        least = options.min_samples_split / self._rows.weight.max(initial=1.0)
        if options.max_depth is not None and options.max_depth <= 1:
            least = largest
        n_rows = np.array([largest, max(least, 1)])
        if options.rss.sample is not None:
            n_rows = np.minimum(n_rows, options.rss.sample)
        width, narrowest = (
            bucket(int(n), smallest=_SMALLEST_SAMPLE) for n in n_rows.tolist()
        )
        widths = [width]
        while widths[-1] > narrowest:
            widths.append(widths[-1] // 4)
        return [_nothing(width, row_bytes) for width in widths]

    def _fit_models(self, level: Level, order: np.ndarray) -> None:
        """Fit the nodes' models, each shrunk toward its parent's."""
        stop = level.stop
        if self._options.rss.sample is not None:
            stop = np.minimum(stop, level.start + self._options.rss.sample)
        statistics = slice_statistics(
            self._rows.table.x[:, : self._schema.n_regressors],
            self._rows.y,
            self._rows.weight,
            order,
            level.start,
            stop,
        )
        root = np.zeros(1 + self._schema.n_regressors)
        base = np.array([self._model.get(node, root) for node in level.parent])
        model, degrees = shrink_toward(
            statistics, base.reshape(-1, len(root)), self._options.rss.gcv_factor
        )
        self._model |= zip(level.node, model, strict=True)
        self._degrees |= zip(level.node, degrees, strict=True)

    def _batch(self, level: Level, samples: _Samples) -> ModelBatch:
        index, rss = samples.index, self._options.rss
        min_weight = self._options.min_samples_leaf * samples.share
        node = level.node[index]
        width = 1 + self._schema.n_regressors
        coefficient = np.array([self._model[i] for i in node], np.float32)
        degrees = np.array([self._degrees[i] for i in node], np.float32)
        key = samples.pad(level.key[index])
        table = samples.table(self._rows)
        shape = (rss.n_random_starts, table["x"].shape[2] + 1)
        return ModelBatch(
            **table,
            min_weight=samples.pad(min_weight.astype(np.float32), np.inf),
            normal=ndtri(_randomness(key, shape, 0)),
            coefficient=samples.pad(coefficient.reshape(-1, width)),
            degrees=samples.pad(degrees),
            loading=self._loading(table["x"], table["weight"], len(index)),
            oblique=samples.pad(level.oblique[index]),
        )

    def _loading(self, x: np.ndarray, weight: np.ndarray, n_nodes: int) -> np.ndarray:
        """Leading principal components of each node where there are many columns."""
        n_columns, n_regressors = x.shape[2], self._schema.n_regressors
        most = self._options.rss.most_regressors
        if n_columns <= most:
            return np.zeros((len(x), 0, 0), np.float32)
        n_model = self._settings.n_model
        n_other = min(n_columns - n_regressors, most - n_model)
        loading = np.zeros((len(x), n_columns, n_model + n_other), np.float32)
        for node in range(n_nodes):
            share = weight[node].astype(np.float64) / weight[node].sum()
            centred = x[node] - share @ x[node]
            deviation = np.sqrt(share @ centred**2)
            centred /= np.where(deviation > 1e-6, deviation, np.inf)
            covariance = (share[:, None] * centred).T @ centred
            model, other = slice(n_regressors), slice(n_regressors, None)
            loading[node, model, :n_model] = _components(
                covariance[model, model], n_model
            )
            loading[node, other, n_model:] = _components(
                covariance[other, other], n_other
            )
        return loading


def _components(covariance: np.ndarray, n: int) -> np.ndarray:
    """All columns, or their leading principal components, of shape (n_columns, n).

    They have unit length: a ridge means the same for them as for the columns.
    """
    if n == len(covariance):
        return np.eye(n)
    return np.linalg.eigh(covariance)[1][:, ::-1][:, :n]


SEARCHES: dict[str, Callable[[TrainingRows, TableSchema, GrowOptions], Search]] = {
    "rss": RssSearch,
    "gini": GiniSearch,
}
"""What the estimator's ``criterion`` may be."""
