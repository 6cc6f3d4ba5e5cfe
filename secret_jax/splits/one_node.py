"""Finders of one node: how a level comes to them."""

from __future__ import annotations

import functools
from abc import abstractmethod
from dataclasses import dataclass, replace

import jax
import numpy as np

from secret_jax.runtime.linalg import AnyArray
from secret_jax.runtime.programs import program
from secret_jax.runtime.shapes import bucket
from secret_jax.splits.interface import Level, Roles, Split, SplitFinder

# Nodes are padded to these numbers of rows, and of nodes, times powers of four.
_FEWEST_ROWS, _FEWEST_NODES = 512, 4
_OF_ROWS = ["x", "codes", "targets", "weight"]
_OF_NODE = ["min_weight", "random", "model", "degrees", "oblique", "allowed"]
_STATIC = ["n_regressors", "n_categories", "any_oblique"]


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=[*_OF_ROWS, *_OF_NODE, "roles"],
    meta_fields=_STATIC,
)
@dataclass(frozen=True, kw_only=True)
class Node:
    """A node with its rows, or a sample of them, padded by rows without weight.

    Attributes are those of `Level`, without the axis of nodes, and with the rows first:
    ``x`` has the shape (n_rows, n_columns), ``weight`` (n_rows,): zero for padding.
    """

    x: AnyArray
    codes: AnyArray
    targets: AnyArray
    weight: AnyArray
    min_weight: AnyArray
    random: AnyArray
    model: AnyArray
    degrees: AnyArray
    oblique: AnyArray
    allowed: AnyArray
    n_regressors: int
    n_categories: int
    any_oblique: bool
    roles: Roles | None = None


@dataclass(frozen=True, kw_only=True)
class OneNodeFinder(SplitFinder):
    """Base of the finders that map one node to its split, in functions of JAX."""

    @abstractmethod
    def __call__(self, node: Node) -> Split:
        """The best split of one node: a pure function that JAX can trace and map."""

    def find(self, level: Level) -> Split:
        """Search nodes of like size side by side, padded to few shapes."""
        size = [bucket(n, smallest=_FEWEST_ROWS) for n in level.rows.length.tolist()]
        found, nodes = [], []
        for width in sorted(set(size)):
            some = np.flatnonzero(np.equal(size, width))
            # Some come twice, so that there is a program for few numbers of nodes.
            nodes.append(np.resize(some, bucket(len(some), smallest=_FEWEST_NODES)))
            part = level.take(nodes[-1])
            own = {name: getattr(part, name) for name in _OF_ROWS + _OF_NODE + _STATIC}
            for name in _OF_ROWS:
                own[name] = np.moveaxis(part.rows.head(own[name], width), -1, 1)
            found.append(_splits(Node(**own), level.roles, finder=self))
        first = np.unique(np.concatenate(nodes), return_index=True)[1]
        return jax.tree.map(lambda *a: np.concatenate(a)[first], *found)


@program(static_argnames=("finder",))
def _splits(nodes: Node, roles: Roles, finder: OneNodeFinder) -> Split:
    return jax.vmap(lambda node: finder(replace(node, roles=roles)))(nodes)
