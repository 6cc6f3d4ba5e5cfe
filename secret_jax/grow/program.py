"""The compiled search: splits of the nodes of one batch, wherever their rows lie.

On processors the nodes of a batch are taken one after the other, on accelerators side
by side.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from secret_jax.grow.frontier import Places
from secret_jax.runtime.devices import in_32_bits, on_accelerator
from secret_jax.runtime.linalg import AnyArray, written_out
from secret_jax.runtime.programs import program
from secret_jax.runtime.shapes import bucket, padded
from secret_jax.splits.interface import Node, Split, SplitFinder
from secret_jax.splits.tiles import each_of

# Smaller tables are padded to so many rows, and to so many places: growths of one tree
# and of those of all folds then mostly share programs.
_FEWEST_HELD, _FEWEST_PLACES = 1 << 14, 1 << 15
# Where a node that comes without its rows names their places,
PLACE = "place"
# or where they begin in a strip, and how many there are.
FIRST, LENGTH = "first", "length"


def over_nodes(split: Any, batch: Any, n_nodes: AnyArray, *, together: bool) -> Any:
    """Results of a function of one node for the first nodes of a batch.

    ``split``: from a batch's arrays without their leading axis to arrays; ``n_nodes``:
    the nodes after these are padding; ``together``: all nodes side by side, for
    accelerators. Otherwise one after the other: the arrays of one node stay in the
    cache of a processor, and padding takes no time. Results have a leading axis for all
    nodes of the batch; zero for padding where nodes go one after the other.
    """
    if together:
        with written_out(on_accelerator()):
            return jax.vmap(split)(batch)
    # Traced once, for its shapes and for the loop.
    return each_of(jax.jit(split), n_nodes, batch)


class Held(NamedTuple):
    """The rows of all places, on the device for the whole of a growth."""

    x: AnyArray  # (n_rows, n_columns), float32
    codes: AnyArray  # (n_rows, n_discrete), int32
    row: AnyArray  # (n_places,), int32
    targets: AnyArray  # (n_places, n_outputs), float32
    weight: AnyArray  # (n_places,), float32

    @classmethod
    def of(cls, places: Places, x: np.ndarray, codes: np.ndarray) -> Held:
        """Put the rows of places on the device, padded: few sizes, few programs."""
        n_rows = bucket(len(x), smallest=_FEWEST_HELD)
        n_places = bucket(len(places.row), smallest=_FEWEST_PLACES)
        with in_32_bits():
            return jax.device_put(
                cls(
                    padded(x, n_rows),
                    padded(codes, n_rows),
                    padded(places.row.astype(np.int32), n_places),
                    padded(places.targets, n_places),
                    padded(places.weight.astype(np.float32), n_places),
                )
            )

    def filled(self, node: Node) -> Node:
        """A node that names its places, with their rows; -1 is padding."""
        place = node.extra[PLACE]
        inside = place >= 0
        place = jnp.maximum(place, 0)
        row = self.row[place]
        return replace(
            node,
            x=self.x[row],
            codes=self.codes[row],
            targets=jnp.where(inside[:, None], self.targets[place], 0.0),
            weight=jnp.where(inside, self.weight[place], 0.0),
        )


class Strip(NamedTuple):
    """The rows of the nodes of a batch, one node after the other, for processors.

    Nodes without padding between them: there is less to gather and to hand over.
    """

    x: AnyArray  # (n_rows, n_columns), float32
    codes: AnyArray  # (n_rows, n_discrete), int32
    targets: AnyArray  # (n_rows, n_outputs), float32
    weight: AnyArray  # (n_rows,), float32

    def filled(self, node: Node) -> Node:
        """A node that says where its rows are, with as many as its shape says."""
        n_rows, first = node.x.shape[0], node.extra[FIRST]
        inside = jnp.arange(n_rows, dtype=jnp.int32) < node.extra[LENGTH]

        def cut(array):
            return jax.lax.dynamic_slice_in_dim(array, first, n_rows)

        return replace(
            node,
            x=cut(self.x),
            codes=cut(self.codes),
            targets=jnp.where(inside[:, None], cut(self.targets), 0.0),
            weight=jnp.where(inside, cut(self.weight), 0.0),
        )


@program(static_argnames=("finder", "together"), small_steps=True)
def find_splits(
    nodes: Node,
    n_nodes: AnyArray,
    held: Held | Strip | None = None,
    *,
    finder: SplitFinder,
    together: bool,
) -> Split:
    """Best splits of the first nodes of a batch.

    ``nodes``: with a leading axis of nodes; with their rows, or else with where they
    are among the rows that are held; ``n_nodes``: the nodes after these are padding;
    ``together``: as in `over_nodes`. A node's split does not depend on the other nodes
    of the batch.
    """
    split = finder if held is None else lambda node: finder(held.filled(node))
    return over_nodes(split, nodes, n_nodes, together=together)
