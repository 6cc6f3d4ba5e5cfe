"""Growth on accelerators: rows lie in tiles on the device from the roots to the leaves.

A turn is two or three programs. *Divide* moves the rows of split nodes into tiles of
their children, and adds up what models are made of. *Search* traces a finder over the
verbs of `secret_jax.data.tiles`: on all tiles, or on the first rows of nodes, which
*samples* takes out. Only what nodes have crosses the bus, and comes back as one array.

Shapes are those of the table and of the number of nodes that programs have room for,
never of a level.

Of rows that were given on several devices each grows its own: a stretch of every root,
of equal parts. Dividing moves no row to another device, a search sums over all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding

from secret_jax.data.fallback import with_fallback
from secret_jax.data.rows import Table, are_ones
from secret_jax.data.schema import TableSchema
from secret_jax.fit.grow.execution import (
    Division,
    Execution,
    Found,
    GrowOptions,
    no_splits,
)
from secret_jax.fit.grow.frontier import Frontier, Places
from secret_jax.fit.grow.level_programs import (
    APART,
    AXIS,
    Asked,
    Given,
    Seen,
    Tiles,
    Traced,
    divided,
    laid_out,
    roomier,
    samples,
    searched,
    statistics_of,
    unpacked,
)
from secret_jax.models.statistics import NodeStatistics
from secret_jax.runtime.devices import chosen_device, is_out_of_memory, on_accelerator
from secret_jax.runtime.hashing import random_numbers
from secret_jax.runtime.packing import Layout, Packed
from secret_jax.runtime.shapes import (
    bucket,
    next_power_of_two,
    padded,
    room_for,
    slice_positions,
)
from secret_jax.splits.interface import Split
from secret_jax.tree.structure import SplitKind

# Fields of `Asked`.
_MASKS = "sampled", "oblique", "allowed"
# Samples that are searched at once, and nodes that programs have room for at first,
# where a search sees samples so many times as many: with many columns fewer, as
# products of all pairs of them take memory.
_NODES, _FEWEST_NODES, _MANY_COLUMNS, _MORE = 128, 8, 128, 4
# Places in a tile: with more columns than the first number as many, so that products of
# a tile take no more memory than its rows.
_TILE, _LARGEST_TILE = 256, 4096
# Rows that threads of a card take side by side.
_BLOCK = 32
# Fewest rows that programs have room for, on each device.
_FEWEST_ROWS = 1 << 16


class OnDevice(Execution):
    """Rows of growing trees in the memory of an accelerator, or of several.

    Parameters
    ----------
    places : Places
    schema : TableSchema
    options : GrowOptions
        With a finder that says ``compiled``.
    roots : Frontier
    """

    counts_all = True

    def __init__(
        self,
        places: Places,
        schema: TableSchema,
        options: GrowOptions,
        roots: Frontier,
    ):
        self._schema, self._finder = schema, options.finder
        self._n_rows, self._sample = len(places.row), options.sample
        self._mesh = _mesh(options.devices, places)
        self._n_devices = 1 if self._mesh is None else self._mesh.size
        # Most rows of a node that a search sees on a device: of several whole blocks.
        most = -(-(self._sample or self._n_rows) // self._n_devices)
        self._most_seen = most if self._mesh is None else -(-most // _BLOCK) * _BLOCK
        self._unweighted = are_ones(places.weight)
        any_oblique = bool(roots.oblique.any()) and schema.n_columns > 1
        self._traced = Traced.of(schema, options.finder, any_oblique)
        self._numbers: Any = options.finder.numbers()
        if self._mesh is None:  # they cross once a fit, not once a level
            self._numbers = jax.device_put(self._numbers, chosen_device())
        n_columns = schema.n_columns + schema.n_outputs
        at_once = _NODES // next_power_of_two(-(-n_columns // _MANY_COLUMNS))
        if options.in_batches and options.max_leaf_nodes:
            # Ensembles, whose growths are alike: no level has more nodes.
            most = len(roots.node) * options.max_leaf_nodes
            at_once = min(at_once, next_power_of_two(most))
        self._n_samples = max(at_once, _FEWEST_NODES)
        # Where a search sees all tiles, those of more nodes would take its time.
        more = 1 if options.sample is None else _MORE
        self._room = bucket(len(roots.node), smallest=more * self._n_samples)
        tile = min(max(next_power_of_two(n_columns), _TILE), _LARGEST_TILE)
        # Of the nodes that have tiles: numbers of rows on each device, and where the
        # slices of nodes begin.
        shares = np.arange(self._n_devices + 1)
        edges = (roots.stop - roots.start)[:, None] * shares // self._n_devices
        self._length = np.diff(edges, axis=1)
        self._start = roots.start
        with self._in_its_memory():
            self._tiles = self._laid_out(places, roots.start[:, None] + edges, tile)
        as_they_are = np.ones(len(self._start), int)
        self._run(as_they_are, self._given(as_they_are))
        self._note_begins()
        self._one_split = no_splits(1, schema, options.finder)

    def find(self, level: Frontier) -> Found:
        """The best splits of nodes, of all rows or of the first ones."""
        n_nodes = len(level.node)
        if not n_nodes:
            return Found(no_splits(0, self._schema, self._finder), np.zeros(0))
        slot = self._slots(level)
        asked = self._asked(level, slot)
        if self._sample is None:
            pairs = [(Seen(*self._tiles), self._packed(asked, self._room, slot))]
        else:
            how, n = {"n_rows": self._most_seen, "mesh": self._mesh}, self._n_samples
            pairs = []
            for part in (slice(i, i + n) for i in range(0, n_nodes, n)):
                own = Asked(*(values[part] for values in asked))
                wanted = np.full(n, -1, np.int32)
                wanted[: len(own.weight)] = slot[part]
                seen = samples(self._tiles, wanted, **how)
                pairs.append((seen, self._packed(own, n, slice(len(own.weight)))))

        def search() -> np.ndarray:
            how = {"traced": self._traced, "mesh": self._mesh}
            found = [searched(*pair, self._numbers, **how) for pair in pairs]
            return np.concatenate([np.asarray(each) for each in found])

        with self._in_its_memory():
            numbers = with_fallback(search)
        numbers = numbers[slot] if self._sample is None else numbers[:n_nodes]
        splits = unpacked(numbers[:, 1:], self._one_split)
        return Found(splits, numbers[:, 0].astype(np.float64))

    def statistics(self, level: Frontier, n_rows: np.ndarray) -> NodeStatistics:
        """Statistics of all rows of nodes, from sums in float32."""
        del n_rows
        return self._statistics.take(self._slots(level))

    def divide(self, parents: Frontier, splits: Split, others: Frontier) -> Division:
        """Divide the rows of nodes, and add up those of their children."""
        slot, n_new = self._slots(parents), np.zeros(len(self._start), int)
        n_new[self._slots(others)], n_new[slot] = 1, 2
        packed = self._given(n_new)
        given, discrete = packed.apart(), splits.kind == SplitKind.DISCRETE
        given.discrete[slot] = discrete
        given.attribute[slot] = np.where(discrete, splits.attribute, 0)
        given.direction[slot] = splits.direction
        given.threshold[slot] = splits.threshold
        given.goes_left[slot] = splits.goes_left
        left = (np.cumsum(n_new) - n_new)[slot]
        self._run(n_new, packed)
        middle = self._start[left] + self._length[left].sum(axis=1)
        self._start[left + 1] = middle
        self._note_begins()
        weight = self._statistics.weight
        return Division(middle, weight[left], weight[left + 1])

    def _laid_out(self, places: Places, edges: np.ndarray, tile: int) -> Tiles:
        """Send stretches of the roots' rows to the devices, and put them into tiles."""
        most = self._n_devices * int(self._length.sum(axis=0).max())
        n_places = -(-room_for(most, _FEWEST_ROWS) // self._n_devices)

        def sent(values: np.ndarray, parts: Sequence[Any], dtype: Any = None) -> Any:
            each = (padded(values[part], n_places, dtype=dtype) for part in parts)
            if self._mesh is None:
                return next(each)
            # One after the other, so that the host holds one.
            pairs = zip(each, self._mesh.devices.flat, strict=True)
            there = [jax.device_put(own, device) for own, device in pairs]
            shape = len(there) * n_places, *values.shape[1:]
            lies = NamedSharding(self._mesh, APART)
            return jax.make_array_from_single_device_arrays(shape, lies, there)

        begin, row = np.zeros_like(self._length), np.zeros(0, np.int32)
        if self._mesh is None:
            parts, table = [slice(None)], resident(places.table)
            if places.begin is None:
                row = sent(places.row, parts, np.int32)
            else:
                begin[:, 0] = places.begin
        else:  # the rows of the places are sent
            parts = list(map(slice_positions, edges.T[:-1], edges.T[1:]))
            rows = [places.row[part] for part in parts]
            table = [sent(values, rows) for values in places.table]
            begin = np.cumsum(self._length, axis=0) - self._length
        ones = np.zeros(0, np.float32)  # are not sent
        roots = padded(np.stack([begin, self._length], axis=-1), self._room)
        return laid_out(
            *table,
            row,
            sent(places.targets, parts, np.float32),
            ones if self._unweighted else sent(places.weight, parts, np.float32),
            roots.swapaxes(0, 1).reshape(-1, 2).astype(np.int32),  # device by device
            n_places=n_places,
            tile=tile,
            mesh=self._mesh,
        )

    def _given(self, n_new: np.ndarray) -> Packed:
        """Nodes whose rows all go left, with room for so many as are wanted of each."""
        side, schema = np.flatnonzero(n_new[:, None] > np.arange(2)), self._schema
        if len(side) > self._room:
            more = bucket(len(side), smallest=self._room) - self._room
            with self._in_its_memory():
                self._tiles = roomier(self._tiles, n_nodes=more, mesh=self._mesh)
            self._room += more
        n_categories = max([1, *map(len, schema.categories)])
        packed = _layout_of_given(self._room, schema.n_columns, n_categories).zeros()
        packed.apart().side[: len(side)] = 1 + side
        return packed

    def _run(self, n_new: np.ndarray, given: Packed) -> None:
        """Divide nodes into as many as are wanted of each, of neighbouring slots."""
        n = self._schema.n_regressors
        with self._in_its_memory():
            self._tiles, sums = divided(
                self._tiles, given, n_regressors=n, mesh=self._mesh
            )
            sums = np.asarray(sums)[: n_new.sum()].astype(np.float64)
        self._start = np.repeat(self._start, n_new)
        self._length, found = statistics_of(sums, n, self._schema.n_outputs)
        if self._unweighted:  # exact, whatever their number
            weight = self._length.sum(axis=1, dtype=np.float64)
            found = found._replace(weight=weight)
        self._statistics = found

    def _note_begins(self) -> None:
        """Note where the slices of the nodes that have rows begin."""
        # A side without rows begins where another node does.
        self._some = np.flatnonzero(self._length.any(axis=1))
        self._begins = self._start[self._some]

    def _slots(self, level: Frontier) -> np.ndarray:
        """Places of nodes among those that have tiles."""
        return self._some[np.searchsorted(self._begins, level.start)]

    def _asked(self, level: Frontier, slot: np.ndarray) -> Asked:
        """What the search needs to know of nodes."""
        n_random = self._finder.n_random(self._schema.n_columns)
        return Asked(
            weight=level.weight,
            sampled=(self._length[slot] > self._most_seen).any(axis=1),
            min_weight=level.searched_leaf_weight,
            random=random_numbers(level.key, n_random),
            model=level.model,
            degrees=level.degrees,
            oblique=level.oblique,
            allowed=level.allowed,
        )

    def _packed(self, asked: Asked, n_slots: int, slot: np.ndarray | slice) -> Packed:
        """Put what is asked of nodes into their slots."""
        widths = tuple(values.shape[1:] for values in asked)
        packed = _layout_of_asked(n_slots, widths).zeros()
        for own, values in zip(packed.apart(), asked, strict=True):
            own[slot] = values
        return packed

    def _in_its_memory(self) -> AbstractContextManager[None]:
        n_columns = self._schema.n_columns + len(self._schema.discrete)
        return _in_memory_of_device(self._n_rows, n_columns, self._room)


@cache
def _layout_of_given(n_nodes: int, n_columns: int, n_categories: int) -> Layout:
    return Layout.of(
        Given(
            side=np.empty(n_nodes, np.int32),
            discrete=np.empty(n_nodes, bool),
            attribute=np.empty(n_nodes, np.int32),
            direction=np.empty((n_nodes, n_columns), np.float32),
            threshold=np.empty(n_nodes, np.float32),
            goes_left=np.empty((n_nodes, n_categories), bool),
        )
    )


@cache
def _layout_of_asked(n_nodes: int, widths: tuple[tuple[int, ...], ...]) -> Layout:
    arrays = Asked(*(np.zeros((n_nodes, *width), np.float32) for width in widths))
    masks = {name: getattr(arrays, name) > 0 for name in _MASKS}
    return Layout.of(arrays._replace(**masks))


@contextmanager
def _in_memory_of_device(n_rows: int, n_columns: int, n_nodes: int) -> Iterator[None]:
    """Say of what there is too much for the device."""
    try:
        yield
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        raise MemoryError(
            f"{n_rows:,} rows of {n_columns:,} columns, in {n_nodes:,} nodes at a "
            "time, are too many for the memory of the device. Give fewer rows, grow "
            "smaller trees (max_depth, max_leaf_nodes), or say device='cpu'."
        ) from error


def _mesh(devices: Sequence[Any], places: Places) -> Mesh | None:
    """The devices that divide rows of the host among them; None for a single one.

    So many as have the least rows that programs have room for, of the kind of the one
    that computes. A table that is on it already, for many trees, stays.
    """
    kind = chosen_device().device_kind
    there = [device for device in devices if device.device_kind == kind]
    there = there[: len(places.row) // _FEWEST_ROWS]
    if len(there) < 2 or not isinstance(places.table.x, np.ndarray):
        return None
    return Mesh(np.array(there), (AXIS,))


def resident(table: Table) -> Table:
    """Send a table to the accelerator, with room for more rows, once for many trees.

    Unless it is there; without an accelerator it stays on the host.
    """
    if isinstance(table.codes, jax.Array) or not on_accelerator():
        return table
    if isinstance(table.x, jax.Array):  # given there, with room
        return Table(table.x, padded(table.codes, len(table.x)))
    x, codes = table
    most = room_for(len(x), _FEWEST_ROWS)
    with _in_memory_of_device(len(x), x.shape[1] + codes.shape[1], 1):
        return Table(*jax.device_put((padded(x, most), padded(codes, most))))
