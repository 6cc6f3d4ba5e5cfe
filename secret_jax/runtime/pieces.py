"""Rows of nodes of all sizes in pieces of one length, for NumPy.

Arrays of rows have a leading axis of pieces, those of nodes one of nodes: what is
computed of rows is computed of all nodes at once, and hardly any of it is padding.
Compiled programs see one node, all of whose rows are one piece; then there are no
pieces (None), and nothing to be done.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.sparse import csr_array

from secret_jax.runtime.linalg import AnyArray, namespace, vecmat

# Rows of a piece: the least that a product of matrices is worth its call for.
PIECE = 64
# Nodes of few rows have shorter pieces, of which less is padding.
_SHORT, _FEW = 16, 48


def piece_lengths(n_rows: np.ndarray) -> np.ndarray:
    """Length of the pieces of nodes: by their own rows, whatever else is searched."""
    return np.where(n_rows <= _FEW, _SHORT, PIECE)


class Pieces(NamedTuple):
    """Which pieces hold the rows of which node; those of a node are neighbours."""

    node: np.ndarray  # (n_pieces,), int: node of each piece
    first: np.ndarray  # (n_nodes,), int: first piece of each node
    adding: csr_array  # (n_nodes, n_pieces): its product adds up pieces of nodes

    @classmethod
    def of(cls, n_rows: np.ndarray, length: int = PIECE) -> Pieces:
        """Cut nodes of so many rows, at least one each, into pieces of one length."""
        return cls._of_counts(-(-n_rows // length))

    @classmethod
    def _of_counts(cls, count: np.ndarray) -> Pieces:
        node, last = np.repeat(np.arange(len(count)), count), np.cumsum(count)
        ones, piece = np.ones(len(node), np.float32), np.arange(len(node))
        adding = csr_array((ones, piece, np.append(0, last)), (len(count), len(node)))
        return cls(node, last - count, adding)

    def take(self, chosen: np.ndarray) -> tuple[np.ndarray, Pieces]:
        """Mask of the pieces of some nodes, chosen by a mask, and these by themselves.

        Examples
        --------
        >>> pieces = Pieces.of(np.array([10, 200, 30]))
        >>> mask, rest = pieces.take(np.array([False, True, True]))
        >>> mask.tolist(), rest.node.tolist()
        ([False, True, True, True, True, True], [0, 0, 0, 0, 1])
        """
        mask = chosen[self.node]
        count = np.diff(np.append(self.first, len(self.node)))[chosen]
        return mask, self._of_counts(count)


def for_rows(values: AnyArray, pieces: Pieces | None) -> AnyArray:
    """Values of nodes, for each piece of their rows."""
    return values if pieces is None else values[pieces.node]


def over_rows(values: Any, pieces: Pieces | None, add: np.ufunc = np.add) -> Any:
    """Values of nodes from those of their pieces, by default their sums."""
    if pieces is None:
        return values
    if add is not np.add:
        return add.reduceat(values, pieces.first, axis=0)
    # ``reduceat`` of many numbers a piece takes ten times as long.
    found = pieces.adding @ values.reshape(len(values), -1)
    return found.reshape(len(pieces.first), *values.shape[1:])


def heads(values: AnyArray, pieces: Pieces | None, n: int) -> AnyArray:
    """The first n rows of nodes, along the last axis; beyond their last row zero.

    Fewer, where no node has so many.
    """
    if pieces is None:
        return values[..., :n]
    last = np.append(pieces.first[1:], len(pieces.node))
    most = np.max(last - pieces.first)
    at = pieces.first[:, None] + np.arange(min(-(-n // values.shape[-1]), most))
    last = last[:, None]
    found = values[np.minimum(at, len(values) - 1)]
    found[at >= last] = 0
    found = np.moveaxis(found, 1, -2)  # (n_nodes, ..., n_pieces, n_rows)
    return found.reshape(*found.shape[:-2], -1)[..., :n]


def weighted_moments(
    values: Float[AnyArray, "... n_rows n_columns"],
    weight: Float[AnyArray, "... n_rows"],
    pieces: Pieces | None = None,
) -> tuple[
    Float[AnyArray, ...],
    Float[AnyArray, "... n_columns"],
    Float[AnyArray, "... n_columns"],
]:
    """Total weight, mean and standard deviation of each column, in two passes.

    ``weight``: zero for padding.
    """
    xp = namespace(values)
    total = over_rows(xp.sum(weight, axis=-1), pieces)
    least = xp.finfo(weight.dtype).tiny
    share = weight / for_rows(xp.maximum(total, least), pieces)[..., None]
    # The mean of values about their first row: an offset does not eat the digits.
    shift = values[..., 0, :] if pieces is None else values[pieces.first, 0]
    apart = values - for_rows(shift, pieces)[..., None, :]
    mean = shift + over_rows(vecmat(share, apart), pieces)
    apart = values - for_rows(mean, pieces)[..., None, :]
    variance = over_rows(vecmat(share, apart**2), pieces)
    return total, mean, xp.sqrt(variance)
