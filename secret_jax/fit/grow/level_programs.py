"""What accelerators compute for a level: divide rows, add them up, search nodes.

Functions of `Tiles` and of what the host says of nodes; `secret_jax.fit.grow.on_device`
calls them. On a mesh of devices each runs them for its own rows.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, PartitionSpec
from jaxtyping import Array

from secret_jax.data.schema import TableSchema
from secret_jax.data.tiles import TiledRows
from secret_jax.fit.grow.execution import checked_splits
from secret_jax.models.statistics import ROUNDING_32, NodeStatistics
from secret_jax.runtime.linalg import AnyArray, safe_divide
from secret_jax.runtime.packing import Packed
from secret_jax.runtime.programs import program
from secret_jax.splits.interface import Level, Roles, Split, SplitFinder
from secret_jax.tree.walk import goes_left

# Numbers of rows come back in two parts that float32 holds.
_PART = 1 << 16
# Axis of a mesh; arrays whose first axis lies along it, device by device, and others.
AXIS = "devices"
APART, SHARED = PartitionSpec(AXIS), PartitionSpec()


class Seen(NamedTuple):
    """Rows that a search looks at."""

    rows: TiledRows | Array  # of samples only how many there are of each node
    x: AnyArray  # row array of shape (n_columns, rows), float32
    codes: AnyArray  # (n_discrete, rows), int32
    targets: AnyArray  # (n_outputs, rows), float32
    weight: AnyArray  # (rows,), float32


class Tiles(NamedTuple):
    """Rows of all nodes that growth may come to."""

    rows: TiledRows
    x: AnyArray
    codes: AnyArray  # -1 for a category that training never saw
    targets: AnyArray
    weight: AnyArray


class Given(NamedTuple):
    """What becomes of the rows of nodes: arrays with a leading axis of nodes.

    It and `Asked` come from the host as one array, see `Packed`.
    """

    # (n_nodes,), int32: of each new node one more than twice the number of the node
    # whose rows on the left it gets, or two more for those on the right; 0 for none.
    side: AnyArray
    discrete: AnyArray  # (n_nodes,), bool
    attribute: AnyArray  # (n_nodes,), int32: of discrete splits
    direction: AnyArray  # (n_nodes, n_columns), float32
    threshold: AnyArray  # (n_nodes,), float32
    goes_left: AnyArray  # (n_nodes, n_categories), bool


class Asked(NamedTuple):
    """What the host says of nodes that are searched; see `Level` for the rest."""

    weight: AnyArray  # (n_nodes,), float32: of all rows
    sampled: AnyArray  # (n_nodes,), bool: whether the search sees the first rows only
    min_weight: AnyArray  # of a leaf with all its rows
    random: AnyArray
    model: AnyArray
    degrees: AnyArray
    oblique: AnyArray
    allowed: AnyArray


@dataclass(frozen=True)
class Traced:
    """What is static of a search: the same for all levels of a fit."""

    finder: SplitFinder
    # Fields of `Roles`.
    thresholded: tuple[int, ...]
    missing: tuple[tuple[int, ...], ...]
    combined: tuple[bool, ...]
    n_regressors: int
    n_categories: int
    any_oblique: bool

    @classmethod
    def of(cls, schema: TableSchema, finder: SplitFinder, any_oblique: bool) -> Traced:
        """What a finder is told of a table."""
        roles = Roles.of(schema)
        return cls(
            finder.without_numbers(),
            tuple(roles.thresholded.tolist()),
            tuple(map(tuple, roles.missing.tolist())),
            tuple(roles.combined.tolist()),
            schema.n_regressors,
            max([1, *map(len, schema.categories)]),
            any_oblique,
        )

    @property
    def roles(self) -> Roles:
        """Which column is what."""
        return Roles(
            np.array(self.thresholded, np.int32),
            np.array(self.missing, np.int32).reshape(-1, 2),
            np.array(self.combined, bool),
        )


def _on_each(*arguments_lie: Any, found_lies: Any) -> Callable[..., Any]:
    """Decorate what a device does with its own rows: on a mesh they all do it."""

    def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def on_mesh(*arguments: Any, mesh: Mesh | None = None, **static: Any) -> Any:
            own = functools.partial(function, mesh=mesh, **static)
            if mesh is not None:
                own = jax.shard_map(
                    own,
                    mesh=mesh,
                    in_specs=arguments_lie,
                    out_specs=found_lies,
                    # Loops end on all devices at once, as their conditions are made of
                    # sums over all of them; nothing checks that.
                    check_vma=False,
                )
            return own(*arguments)

        return on_mesh

    return decorated


def _axis_of(mesh: Mesh | None) -> str | None:
    return None if mesh is None else AXIS


@program(static_argnames=("n_places", "tile", "mesh"))
@_on_each(*[APART] * 6, found_lies=APART)
def laid_out(
    x: AnyArray,
    codes: AnyArray,
    row: AnyArray,
    targets: AnyArray,
    weight: AnyArray,
    roots: AnyArray,
    *,
    n_places: int,
    tile: int,
    mesh: Mesh | None = None,
) -> Tiles:
    """Put the rows of roots into tiles.

    ``x``, ``codes``: of a table; ``row``, ``targets``, ``weight`` (n_places, ...): of
    the places, root by root; without ``row`` roots are stretches of the table, without
    ``weight`` all weights are one. ``roots`` (n_nodes, 2), int32: first row of such a
    stretch, and number of rows.
    """
    begin, length = roots.T
    n_tiles = -(-n_places // tile) + len(roots)
    rows = TiledRows.of(length, n_tiles, tile, _axis_of(mesh))

    def put(values: Array, at: Array) -> Array:
        found = jnp.moveaxis(_taken(values, at), 1, -1)  # (n_tiles, ..., tile)
        return jnp.where(rows.filling(found), found, jnp.zeros((), found.dtype))

    def inside(start: Array) -> Array:
        return jnp.where(rows.inside, _places(rows, start), 0)

    place = inside(jnp.cumsum(length) - length)
    at = row[place] if len(row) else inside(begin)
    of_table = (put(values, at) for values in (x, codes))
    ones = rows.inside.astype(jnp.float32)
    weight = put(weight, place) if len(weight) else ones
    return Tiles._make([rows, *of_table, put(targets, place), weight])


@program(static_argnames=("n_nodes", "mesh"))
@_on_each(APART, found_lies=APART)
def roomier(tiles: Tiles, *, n_nodes: int, mesh: Mesh | None = None) -> Tiles:
    """Make room for more nodes, each with a tile that it may not fill."""

    def longer(values: Array) -> Array:
        return jnp.pad(values, [(0, n_nodes)] + [(0, 0)] * (values.ndim - 1))

    n_tiles, old = len(tiles.x) + n_nodes, tiles.rows
    length = longer(old.length)
    rows = TiledRows.of(length, n_tiles, old.tile, _axis_of(mesh))
    return Tiles._make([rows, *map(longer, tiles[1:])])


@program(static_argnames=("n_regressors", "mesh"))
@_on_each(APART, SHARED, found_lies=(APART, SHARED))
def divided(
    tiles: Tiles, packed: Packed, *, n_regressors: int, mesh: Mesh | None = None
) -> tuple[Tiles, Array]:
    """Divide the rows of nodes, stably, and add up those of the new nodes.

    ``packed``: a `Given`. Returns the tiles and, for `statistics_of`, one array of
    shape (n_nodes, n_numbers).
    """
    given: Given = packed.apart()
    rows, side = tiles.rows, given.side - 1
    left = rows.inside & _left(tiles, given)
    on_left, n_left = _counted(rows, left)
    of_sides = jnp.stack([n_left, rows.length - n_left], axis=1).ravel()
    length = jnp.where(side >= 0, of_sides[jnp.maximum(side, 0)], 0)
    new = TiledRows.of(length, len(rows.filled), rows.tile, _axis_of(mesh))
    # Where the rows of each side go, of all places; of those that nobody wants beyond
    # the last one.
    begin = jnp.full(of_sides.shape, left.size, jnp.int32)
    begin = _put(begin, side, new.first * new.tile).reshape(-1, 2)
    at = begin[rows.node, :1] + on_left - 1
    at = jnp.where(left, at, _places(rows, begin[:, 1]) - on_left)
    at = jnp.where(rows.inside, at, left.size)
    place = jnp.arange(left.size, dtype=jnp.int32).reshape(left.shape)
    source = _put(jnp.zeros(left.size, jnp.int32), at, place).reshape(left.shape)
    moved = (_moved(new, values, source) for values in tiles[1:])
    tiles = Tiles._make([new, *moved])
    return tiles, _sums(tiles, n_regressors)


def _counted(rows: TiledRows, left: Array) -> tuple[Array, Array]:
    """Rows on the left: of a node up to each of its rows, and all of a node."""
    n_tiles, tile = left.shape
    upto = jnp.matmul(  # in a tile; exact
        left.astype(jnp.bfloat16),
        jnp.tri(tile, dtype=jnp.bfloat16).T,
        preferred_element_type=jnp.float32,
    ).astype(jnp.int16)
    below = jnp.pad(jnp.cumsum(upto[:, -1], dtype=jnp.int32), (1, 0))
    # Tiles of nodes without rows are none; their first one may be beyond the last.
    first = jnp.minimum(rows.first, n_tiles)
    stop = jnp.minimum(first + (rows.length + (tile - 1)) // tile, n_tiles)
    before = below[:-1] - below[first][rows.node]
    return before[:, None] + upto.astype(jnp.int32), below[stop] - below[first]


def _moved(rows: TiledRows, values: Array, source: Array) -> Array:
    """Values of rows, by where among all places of the tiles each was."""
    own = jnp.expand_dims(source, range(1, values.ndim - 1))
    features = (
        jnp.arange(n).reshape([-1 if i == axis else 1 for i in range(values.ndim)])
        for axis, n in enumerate(values.shape[1:-1], 1)
    )
    at = jax.lax.div(own, rows.tile), *features, jax.lax.rem(own, rows.tile)
    found = _taken(values, at)
    return jnp.where(rows.filling(found), found, jnp.zeros((), found.dtype))


def _places(rows: TiledRows, start: Array) -> Array:
    """Places of rows, by where those of their nodes begin, (n_tiles, tile)."""
    number = jnp.arange(len(rows.filled), dtype=jnp.int32)
    first = start[rows.node] + (number - rows.first[rows.node]) * rows.tile
    return first[:, None] + jnp.arange(rows.tile, dtype=jnp.int32)


def _put(array: Array, at: Array, values: Array) -> Array:
    """Put values at places, of which those that are there differ."""
    return array.at[at].set(
        values, mode="drop", unique_indices=True, wrap_negative_indices=False
    )


def _taken(values: Array, at: Any) -> Array:
    """Values at places that are there."""
    return values.at[at].get(mode="promise_in_bounds", wrap_negative_indices=False)


def _left(tiles: Tiles, given: Given) -> Array:
    """Whether rows go left, (n_tiles, tile)."""
    rows, of_tile = tiles.rows, tiles.rows.node
    direction = rows.spread(given.direction)
    projection = jnp.sum(direction * tiles.x, axis=1)
    threshold = rows.spread(given.threshold)
    n_discrete = tiles.codes.shape[1]
    if not n_discrete:
        return projection <= threshold
    assert of_tile is not None
    attribute, discrete = rows.spread(given.attribute), rows.spread(given.discrete)
    own = attribute[:, None] == jnp.arange(n_discrete, dtype=jnp.int32)[:, None]
    code = jnp.sum(jnp.where(own, tiles.codes, 0), axis=1, dtype=jnp.int32)
    listed = given.goes_left[of_tile[:, None], jnp.maximum(code, 0)]

    def sides(larger_left: Any) -> Array:
        return goes_left(
            projection, threshold, discrete, code, listed, larger_left, jnp
        )

    # Unseen categories go to the side that is larger without them, as in the tree.
    left, seen = sides(jnp.zeros((), bool)), ~discrete | (code >= 0)
    weight = jnp.where(seen, tiles.weight, 0.0)
    on_left = rows.sums(jnp.where(left, weight, 0.0))
    return sides(rows.spread(on_left >= rows.sums(weight) - on_left))


def _sums(tiles: Tiles, n_regressors: int) -> Array:
    """All that models of nodes are made of: see `statistics_of`."""
    rows, x, _, targets, weight = tiles
    arrays, weight = (x[:, :n_regressors], targets), weight[:, None]
    joint = jnp.concatenate([jnp.ones_like(weight), *arrays], axis=1)
    mean = rows.sums(weight * joint)
    mean = safe_divide(mean[:, 1:], mean[:, :1])
    about = joint[:, 1:] - rows.spread(mean)
    joint = jnp.concatenate([joint[:, :1], about], axis=1)
    products = rows.products(weight * joint, joint)
    lengths = rows.lengths
    length = jnp.stack([lengths // _PART, lengths % _PART], axis=1)
    parts = [mean, products, rows.least(targets), -rows.least(-targets), length]
    parts = [part.reshape(rows.n_nodes, -1) for part in parts]
    return jnp.concatenate([part.astype(jnp.float32) for part in parts], axis=1)


def statistics_of(
    sums: np.ndarray, n_regressors: int, n_outputs: int
) -> tuple[np.ndarray, NodeStatistics]:
    """Numbers of rows on each device, and statistics, from the sums of `divided`."""
    width = n_regressors + n_outputs
    stops = list(accumulate([width, (1 + width) ** 2, n_outputs, n_outputs], initial=0))
    parts = (sums[:, slice(*pair)] for pair in pairwise([*stops, None]))
    mean, products, lower, upper, lengths = parts
    products = products.reshape(-1, 1 + width, 1 + width)
    weight = products[:, 0, 0]
    # The mean about which they are was rounded.
    offset = safe_divide(products[:, 0, 1:], weight[:, None])
    scatter = products[:, 1:, 1:]
    scatter = scatter - weight[:, None, None] * offset[:, :, None] * offset[:, None, :]
    statistics = NodeStatistics(
        weight=weight,
        mean=mean + offset,
        scatter=0.5 * (scatter + scatter.transpose(0, 2, 1)),
        lower=lower,
        upper=upper,
        rounding=np.full(len(sums), ROUNDING_32),
    )
    n_devices = lengths.shape[1] // 2
    lengths = _PART * lengths[:, :n_devices] + lengths[:, n_devices:]
    return lengths.astype(int), statistics


@program(static_argnames=("n_rows", "mesh"))
@_on_each(APART, SHARED, found_lies=APART)
def samples(
    tiles: Tiles, node: AnyArray, *, n_rows: int, mesh: Mesh | None = None
) -> Seen:
    """Take out the first rows of some nodes, on each device; -1 stands for none."""
    del mesh  # each for itself
    length = jnp.where(node >= 0, tiles.rows.length[node], 0)
    some = replace(tiles.rows, length=length, first=tiles.rows.first[node], axis=None)
    first = (some.head(values, n_rows) for values in tiles[1:])
    return Seen(length, *first)


@program(static_argnames=("traced", "mesh"), small_steps=True)
@_on_each(APART, SHARED, SHARED, found_lies=SHARED)
def searched(
    seen: Seen,
    packed: Packed,
    numbers: Array,
    *,
    traced: Traced,
    mesh: Mesh | None = None,
) -> Array:
    """The share of each node's weight that the search saw, then its best split.

    ``packed``: an `Asked`; ``numbers``: those of the finder.
    """
    rows, x, codes, targets, weight = seen
    asked: Asked = packed.apart()
    if not isinstance(rows, TiledRows):
        rows = TiledRows.samples(rows, weight.shape[-1], _axis_of(mesh))
    # Of nodes that nobody asks about no row counts.
    weight = jnp.where(rows.spread(asked.weight > 0), weight, 0.0)
    share = safe_divide(rows.sums(weight), asked.weight)
    share = jnp.where(asked.sampled, share, jnp.ones_like(share))
    level = Level(
        rows=rows,
        x=x,
        codes=jnp.maximum(codes, 0),
        targets=targets,
        weight=weight,
        min_weight=share * asked.min_weight,
        random=asked.random,
        model=asked.model,
        degrees=asked.degrees,
        oblique=asked.oblique,
        allowed=asked.allowed,
        roles=traced.roles,
        n_regressors=traced.n_regressors,
        n_categories=traced.n_categories,
        any_oblique=traced.any_oblique,
    )
    finder = traced.finder.with_numbers(numbers)
    found = jax.tree.leaves(checked_splits(finder, level))
    parts = [array.reshape(rows.n_nodes, -1) for array in (share, *found)]
    return jnp.concatenate([part.astype(jnp.float32) for part in parts], axis=1)


def unpacked(numbers: np.ndarray, template: Split) -> Split:
    """Splits from the numbers of `searched`, with the shapes of a single one."""
    (leaves, tree), stop, found = jax.tree.flatten(template), 0, []
    for leaf in leaves:
        start, stop = stop, stop + leaf.size
        part = numbers[:, start:stop].astype(leaf.dtype)
        found.append(part.reshape(len(part), *leaf.shape[1:]))
    return tree.unflatten(found)
