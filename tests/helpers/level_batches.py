"""Levels of nodes for split finders, made without a table or a tree."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import numpy as np
import reference
from rows_of_nodes import in_tiles

from secret_jax import RssSplits
from secret_jax.data.ragged import RaggedRows
from secret_jax.data.tiles import TiledRows
from secret_jax.splits.interface import Level, Roles, Split, SplitFinder
from secret_jax.tree.structure import SplitKind

LENGTHS = 256, 300, 220
N_COLUMNS, N_DISCRETE, N_CATEGORIES = 3, 2, 4


class NodeRows(NamedTuple):
    """The rows of one node, rows first."""

    x: np.ndarray  # (n_rows, n_columns)
    targets: np.ndarray  # (n_rows, n_outputs) or (n_rows,)
    codes: np.ndarray | None = None  # (n_rows, n_discrete)
    weight: np.ndarray | None = None  # (n_rows,); None: ones


def _complete(node: NodeRows) -> NodeRows:
    n = len(node.x)
    codes = np.zeros((n, 0), int) if node.codes is None else node.codes
    weight = np.ones(n) if node.weight is None else node.weight
    return NodeRows(node.x, node.targets.reshape(n, -1), codes, weight)


def level_of(
    finder: SplitFinder,
    nodes: Sequence[NodeRows],
    *,
    n_regressors: int | None = None,
    n_categories: int = 1,
    oblique: bool = True,
    **changes: Any,
) -> Level:
    """Nodes of any lengths; all columns are regressors, unless it says how many.

    ``changes``: further arrays of the nodes.
    """

    def joined(each: Sequence[np.ndarray], dtype: Any) -> np.ndarray:
        return np.ascontiguousarray(np.concatenate(each).T.astype(dtype))

    nodes = [_complete(node) for node in nodes]
    length = np.array([len(node.x) for node in nodes])
    n_nodes, n_columns = len(nodes), nodes[0].x.shape[1]
    n_discrete = nodes[0].codes.shape[1]
    targets = joined([node.targets for node in nodes], np.float32)
    n_regressors = n_columns if n_regressors is None else n_regressors
    shape = n_nodes, len(targets), 1 + n_regressors
    plain = {
        "min_weight": np.full(n_nodes, 2, np.float32),
        "random": np.zeros((n_nodes, finder.n_random(n_columns)), np.float32),
        "model": np.zeros(shape, np.float32),
        "degrees": np.ones(n_nodes, np.float32),
        "oblique": np.full(n_nodes, oblique),
        "allowed": np.ones((n_nodes, n_columns + n_discrete), bool),
    }
    return Level(
        rows=RaggedRows(length),
        x=joined([node.x for node in nodes], np.float32),
        codes=joined([node.codes for node in nodes], np.int32),
        targets=targets,
        weight=joined([node.weight for node in nodes], np.float32),
        roles=Roles(  # columns of numbers without gaps
            np.arange(n_columns, dtype=np.int32),
            np.zeros((0, 2), np.int32),
            np.ones(n_columns, bool),
        ),
        n_regressors=n_regressors,
        n_categories=n_categories,
        any_oblique=oblique and n_columns > 1,
        **(plain | changes),
    )


def node_rows(level: Level, node: int) -> NodeRows:
    """The rows of a node, rows first, in float64 where they were float32."""
    place = level.rows.first[node] + np.arange(level.rows.length[node])
    x, targets, weight = (
        values[..., place].T.astype(np.float64)
        for values in (level.x, level.targets, level.weight)
    )
    return NodeRows(x, targets, level.codes[:, place].T, weight)


def with_rows(level: Level, nodes: Sequence[NodeRows]) -> Level:
    """The same nodes with other rows, and without models."""
    kept = ("min_weight", "random", "degrees", "oblique", "allowed")
    given = {name: getattr(level, name) for name in kept}
    changed = level_of(
        RssSplits(),
        nodes,
        n_regressors=level.n_regressors,
        n_categories=level.n_categories,
    )
    return replace(changed, any_oblique=level.any_oblique, **given)


def mixed_level(finder: SplitFinder, *, oblique: bool = True, seed: int = 0) -> Level:
    """Three nodes that ask for an oblique, a discrete and an axis split.

    Columns and outputs are standardised over the node, as they are over a table.
    """
    rng = np.random.default_rng(seed)
    nodes = []
    for node, n in enumerate(LENGTHS):
        x = rng.normal(size=(n, N_COLUMNS))
        codes = rng.integers(0, N_CATEGORIES, (n, N_DISCRETE))
        a, b, c = x.T
        y = (
            2 * np.abs(a + b - 0.3),
            np.where(np.isin(codes[:, 1], [0, 3]), 2 + a, -2 - b),
            np.where(c > 0.3, 2 + a, -1 - a),
        )[node]
        y = y + 0.1 * rng.normal(size=n)
        nodes.append(NodeRows(x, (y - y.mean()) / y.std(), codes))
    n_random = finder.n_random(N_COLUMNS)
    return level_of(
        finder,
        nodes,
        n_categories=N_CATEGORIES,
        oblique=oblique,
        min_weight=np.full(len(nodes), 8, np.float32),
        random=rng.random((len(nodes), n_random), dtype=np.float32),
    )


def find(level: Level, finder: SplitFinder) -> Split:
    """As `secret_jax.fit.grow.execution` calls a finder."""
    with np.errstate(all="ignore"):
        return finder.find(level)


def tiled(level: Level, tile: int = 64) -> tuple[TiledRows, dict[str, Any]]:
    """Rows and arrays of a level on an accelerator, with room for more nodes."""
    room, length = 2, level.rows.length
    n_tiles = int((-(-length // tile)).sum()) + room
    rows = TiledRows.of(np.append(length, [0] * room), n_tiles, tile)
    names = "min_weight", "random", "model", "degrees", "oblique", "allowed"
    arrays = {name: getattr(level, name) for name in names}
    for name, array in arrays.items():
        more = np.zeros((room, *array.shape[1:]), array.dtype)
        arrays[name] = np.concatenate([array, more])
    for name in ("x", "codes", "targets", "weight"):
        arrays[name] = in_tiles(getattr(level, name), length, n_tiles, tile)
    return rows, arrays


def on_tiles(function: Callable[[Level], Any], level: Level, tile: int = 64) -> Any:
    """What a function of a level gives that JAX traces."""
    given, n_nodes = tiled(level, tile), level.n_nodes

    def traced(rows: TiledRows, arrays: dict[str, Any]) -> Any:
        return function(replace(level, rows=rows, **arrays))

    program = jax.jit(traced).lower(*given)
    # Two calls of LAPACK at once can wait for each other for ever on processors.
    assert "lapack" not in (text := program.as_text())
    assert "triangular_solve" not in text
    found = program.compile()(*given)
    return jax.tree.map(lambda array: np.asarray(array)[:n_nodes], found)


def goes_left(rows: NodeRows, found: Split, node: int) -> np.ndarray:
    """Which rows of a node its split sends to the left."""
    if found.kind[node] == SplitKind.DISCRETE:
        return found.goes_left[node][rows.codes[:, found.attribute[node]]]
    return rows.x @ found.direction[node] <= found.threshold[node]


def candidates(
    rows: NodeRows,
    first: np.ndarray,
    n_categories: int,
    *,
    oblique: bool,
    counted: bool,
) -> Iterator[tuple[float, SplitKind, int, np.ndarray]]:
    """Gain, kind, attribute and left rows of all splits between two classes.

    By the reference; ``first``: weights of the rows in the first of them.
    """
    shares, n_columns = np.stack([first, rows.weight - first]), rows.x.shape[1]
    weight, is_first = shares.ravel(), np.repeat([True, False], len(first))
    there, x = weight > 0, np.concatenate([rows.x, rows.x])
    known = x[there], is_first[there], weight[there]
    directions = [(SplitKind.AXIS, j, each) for j, each in enumerate(np.eye(n_columns))]
    if oblique:
        normal = reference.oblique_direction(*known)
        directions.append((SplitKind.OBLIQUE, -1, normal))
    for kind, attribute, direction in directions:
        found = reference.threshold_split(*known, direction, counted)
        yield found.gain, kind, attribute, rows.x @ direction <= found.threshold
    for attribute, codes in enumerate(rows.codes.T):
        for subset in reference.all_subsets(n_categories)[1:-1]:
            left = subset[codes]
            joint = np.stack([shares @ left, shares @ ~left], axis=1)
            yield reference.gini_gain(joint), SplitKind.DISCRETE, attribute, left
