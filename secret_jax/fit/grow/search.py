"""From a frontier to one split per node, whatever the finder.

A prefix of every node's rows is a sample. The rows of many nodes are looked at
together, as many as a cache holds, and threads keep the processors busy.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import jax
import numpy as np

from secret_jax.data.ragged import RaggedRows
from secret_jax.data.schema import TableSchema
from secret_jax.fit.grow.execution import Found
from secret_jax.fit.grow.fixed import FixedSplits
from secret_jax.fit.grow.frontier import Frontier, Places
from secret_jax.runtime.hashing import random_numbers
from secret_jax.runtime.parallel import side_by_side
from secret_jax.runtime.shapes import slice_positions
from secret_jax.splits.interface import Comparison, Level, Roles, Split, SplitFinder

# More rows than these are searched in an even number of parts, for as many threads.
_SHARED = 1 << 14


@dataclass(frozen=True, kw_only=True)
class GrowOptions:
    """Options of tree growth, common to all trees."""

    finder: SplitFinder
    # Maximum number of rows of a node that the finder sees; None: all.
    sample: int | None = 2048
    # Minimum gain of a split, as a multiple of what chance alone would
    # (`secret_jax.splits.interface.Split`).
    min_gain: float = 1.5
    max_depth: int | None = None
    max_leaf_nodes: int | None = None
    # Attributes that every node draws, by its key and so by that of its root, to be
    # split on (`secret_jax.fit.grow.attributes`); None: all.
    max_features: int | None = None
    # Whether trees of a most number of leaves make several of their best splits at a
    # time, not the best one first.
    in_batches: bool = False
    # Rows of nodes that are searched together, unless one alone has more: enough for a
    # thread of its own. The same on every machine, as who is together may round
    # otherwise.
    rows_together: int = 3 << 13
    # Whether also models of nodes of many rows are of all of them.
    models_of_all: bool = False
    # Splits of the user, from the root of every tree down.
    fixed: FixedSplits | None = None


class Search:
    """Finds the splits of levels on the host."""

    def __init__(self, places: Places, schema: TableSchema, options: GrowOptions):
        self._places, self._schema, self._finder = places, schema, options.finder
        self._most = len(places.row) if options.sample is None else options.sample
        self._together = options.rows_together
        x, codes = places.table.on_host()
        # Columns first: to turn the rows of a search takes longer, with many columns.
        self._x = np.ascontiguousarray(x.T)
        self._codes = np.ascontiguousarray(np.maximum(codes, 0).T)
        self._targets = np.ascontiguousarray(places.targets.T)
        self._roles = Roles.of(schema)
        self._n_categories = max([1, *map(len, schema.categories)])

    def find(self, frontier: Frontier) -> Found:
        """Splits of the nodes of a frontier."""
        n_nodes = len(frontier.node)
        splits = no_splits(n_nodes, self._schema, self._finder)
        if n_nodes == 0:
            return Found(splits, np.zeros(0))
        n_rows = np.minimum(frontier.stop - frontier.start, self._most)
        share = self._shares(frontier, n_rows)
        light = share * frontier.min_leaf_weight
        seen = frontier._replace(stop=frontier.start + n_rows, min_leaf_weight=light)

        def search(index: np.ndarray) -> None:
            # What a division by zero leads to is sorted out afterwards.
            with np.errstate(all="ignore"):
                found = checked_splits(self._finder, self._level(seen.take(index)))
            for every, some in zip(
                jax.tree.leaves(splits), jax.tree.leaves(found), strict=True
            ):
                every[index] = some

        side_by_side(search, _parts(n_rows, frontier.oblique, self._together))
        return Found(splits, share)

    def _level(self, frontier: Frontier) -> Level:
        """Nodes with their rows, as a finder sees them."""
        places = self._places
        place = places.order[slice_positions(frontier.start, frontier.stop)]
        row = places.row.take(place)
        n_random = self._finder.n_random(len(self._x))
        return Level(
            rows=RaggedRows(frontier.stop - frontier.start),
            x=self._x.take(row, axis=1),
            codes=self._codes.take(row, axis=1),
            targets=self._targets.take(place, axis=1),
            weight=places.weight.take(place).astype(np.float32),
            min_weight=frontier.min_leaf_weight.astype(np.float32),
            random=random_numbers(frontier.key, n_random),
            model=frontier.model.astype(np.float32),
            degrees=frontier.degrees.astype(np.float32),
            oblique=frontier.oblique,
            allowed=frontier.allowed,
            roles=self._roles,
            n_regressors=self._schema.n_regressors,
            n_categories=self._n_categories,
            any_oblique=bool(frontier.oblique.any()) and len(self._x) > 1,
        )

    def _shares(self, frontier: Frontier, n_rows: np.ndarray) -> np.ndarray:
        """Share of the nodes' weight in the rows that are looked at."""
        places = self._places
        share = np.ones(len(frontier.node))
        for i in np.flatnonzero(n_rows < frontier.stop - frontier.start):
            head = places.order[frontier.start[i] : frontier.start[i] + n_rows[i]]
            share[i] = places.weight[head].sum(dtype=np.float64) / frontier.weight[i]
        return share


def no_splits(n_nodes: int, schema: TableSchema, finder: SplitFinder) -> Split:
    """Leaves, to be filled in."""
    n_categories = max([1, *map(len, schema.categories)])
    child_models = None
    if finder.implies_models:
        shape = (n_nodes, 2, schema.n_outputs, 1 + schema.n_regressors)
        child_models = np.zeros(shape, np.float32)
    own, *further = (
        Comparison(
            kind=np.zeros(n_nodes, np.int32),
            attribute=np.full(n_nodes, -1, np.int32),
            direction=np.zeros((n_nodes, schema.n_columns), np.float32),
            threshold=np.zeros(n_nodes, np.float32),
            goes_left=np.zeros((n_nodes, n_categories), bool),
        )
        for _ in range(finder.max_comparisons)
    )
    return Split(
        *own,
        gain=np.zeros(n_nodes, np.float32),
        chance_gain=np.zeros(n_nodes, np.float32),
        pure=np.zeros(n_nodes, bool),
        child_models=child_models,
        further=tuple(further),
    )


def checked_splits(finder: SplitFinder, level: Level) -> Split:
    """What a finder finds, with models of the children if it implies any."""
    found = finder.find(level)
    if (found.child_models is None) == finder.implies_models:
        raise TypeError(
            f"{type(finder).__name__} should give child_models if, and only if, "
            "implies_models is True."
        )
    return found


def _parts(
    n_rows: np.ndarray, oblique: np.ndarray, together: int
) -> Iterator[np.ndarray]:
    """Nodes that are searched together, apart where oblique splits are looked for.

    They are of like numbers of rows: what is made of nodes of one length takes fewer
    calls, and less padding.
    """
    for index in filter(len, (np.flatnonzero(~oblique), np.flatnonzero(oblique))):
        index = index[np.argsort(n_rows[index], kind="stable")]
        last = np.cumsum(n_rows[index])
        pairs = -(-last[-1] // (2 * together))
        n_parts = 2 * pairs if last[-1] > _SHARED else 1
        cuts = np.flatnonzero(np.diff((last - 1) * n_parts // last[-1])) + 1
        yield from np.split(index, cuts)
