"""Finders of one node: how a level comes to them."""

from __future__ import annotations

import functools
from abc import abstractmethod
from dataclasses import dataclass

import jax
import numpy as np

from secret_jax.runtime.linalg import AnyArray
from secret_jax.runtime.programs import program
from secret_jax.runtime.shapes import bucket, padded
from secret_jax.splits.interface import Level, Roles, Split, SplitFinder

# Nodes are padded to these numbers of rows, and of nodes, times powers of four.
_FEWEST_ROWS, _FEWEST_NODES = 512, 4


@dataclass(frozen=True)
class Columns:
    """Columns of a table for a compiled program: see `Level` for the fields."""

    n_regressors: int
    n_categories: int = 1
    oblique: bool = True


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=[
        *("x", "codes", "targets", "weight", "min_weight", "random", "coefficient"),
        *("degrees", "oblique", "allowed", "roles"),
    ],
    meta_fields=["columns"],
)
@dataclass(frozen=True, kw_only=True)
class Node:
    """A node with its rows, or a sample of them, padded by rows without weight.

    Attributes
    ----------
    x : Array of shape (n_rows, n_columns), float32
        Encoded columns, regressors first.
    codes : Array of shape (n_rows, n_discrete), int32
    targets : Array of shape (n_rows, n_outputs), float32
        In standardised units.
    weight : Array of shape (n_rows,), float32
        Zero for padding, which comes last.
    min_weight, random, coefficient, degrees, oblique, allowed : Array
        What `Level` has of the node: ``coefficient`` is its model.
    columns : Columns
    roles : Roles
    """

    x: AnyArray
    codes: AnyArray
    targets: AnyArray
    weight: AnyArray
    min_weight: AnyArray
    random: AnyArray
    coefficient: AnyArray
    degrees: AnyArray
    oblique: AnyArray
    allowed: AnyArray
    columns: Columns
    roles: Roles | None = None


@dataclass(frozen=True, kw_only=True)
class OneNodeFinder(SplitFinder):
    """Base of the finders that map one node to its split, in functions of JAX."""

    @abstractmethod
    def __call__(self, node: Node) -> Split:
        """The best split of one node: a pure function that JAX can trace and map."""

    def find(self, level: Level) -> Split:
        """Search nodes of like size side by side, padded to few shapes."""
        length = level.rows.length
        size = np.array([bucket(n, smallest=_FEWEST_ROWS) for n in length.tolist()])
        parts = [np.flatnonzero(size == width) for width in np.unique(size)]
        found = []
        for width, some in zip(np.unique(size).tolist(), parts, strict=True):
            splits = _splits(_nodes(level.take(some), width), finder=self)
            found.append(
                jax.tree.map(lambda a, s=some: np.asarray(a)[: len(s)], splits)
            )
        order = np.argsort(np.concatenate(parts))
        return jax.tree.map(lambda *arrays: np.concatenate(arrays)[order], *found)


@program(static_argnames=("finder",))
def _splits(nodes: Node, *, finder: OneNodeFinder) -> Split:
    return jax.vmap(finder)(nodes)


def _nodes(level: Level, n_rows: int) -> Node:
    """All nodes of a level with a row axis of their own, padded."""
    n_nodes = bucket(level.n_nodes, smallest=_FEWEST_NODES)

    def rows_first(values: np.ndarray) -> np.ndarray:
        own = np.moveaxis(level.rows.head(values, n_rows), -1, 1)
        return padded(own, n_nodes)

    def of_nodes(values: np.ndarray, fill: float = 0) -> np.ndarray:
        return padded(values, n_nodes, fill)

    roles = (np.broadcast_to(a, (n_nodes, *a.shape)) for a in level.roles)
    return Node(
        x=rows_first(level.x),
        codes=rows_first(level.codes),
        targets=rows_first(level.targets),
        weight=rows_first(level.weight),
        min_weight=of_nodes(level.min_weight, np.inf),
        random=of_nodes(level.random),
        coefficient=of_nodes(level.model),
        degrees=of_nodes(level.degrees),
        oblique=of_nodes(level.oblique),
        allowed=of_nodes(level.allowed),
        roles=Roles(*roles),
        columns=Columns(level.n_regressors, level.n_categories, level.any_oblique),
    )
