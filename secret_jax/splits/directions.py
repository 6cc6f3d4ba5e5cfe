"""Directions that may be worth splitting along: proposed ones, and short versions."""

from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Int

from secret_jax.runtime.linalg import (
    AnyArray,
    definite_solve,
    largest,
    namespace,
    taken,
)


@runtime_checkable
class Proposal(Protocol):
    """Proposes oblique splits of the nodes of a level; written over ``rows.xp``."""

    def __call__(
        self, rows: Any, white: AnyArray, residual: AnyArray, weight: AnyArray
    ) -> AnyArray:
        """Directions in whitened coordinates, (n_nodes, n_directions, n_coordinates).

        Parameters
        ----------
        rows : RaggedRows or TiledRows
            Which rows are of which node, and the verbs that sum over them.
        white : row array of shape (n_coordinates, rows)
            Of mean zero and about unit covariance in every node.
        residual : row array of shape (n_outputs, rows)
            Of the nodes' own models, of about unit variance.
        weight : row array of shape (rows,)
        """
        ...


def sparse(
    direction: Float[AnyArray, "... n_directions n_attributes"],
    covariance: Float[AnyArray, "... n_attributes n_attributes"],
    n_kept: int | Int[np.ndarray, " n_directions"],
    ridge: float,
) -> Float[AnyArray, "... n_directions n_attributes"]:
    """The directions in few attributes that come closest to given ones, of any length.

    The attributes with the largest effects are kept, and the projection is regressed
    on them.

    ``direction``: in standardised attributes; what is zero stays zero; ``n_kept`` for
    all or for each direction.
    """
    xp = namespace(direction)
    n_directions, n_attributes = direction.shape[-2:]
    most = min(int(np.max(n_kept)), n_attributes)
    dtype = direction.dtype
    # The largest are taken out: a small system instead of one of all attributes.
    place = largest(xp.abs(direction), most)
    wanted = np.arange(most) < np.broadcast_to(n_kept, n_directions)[:, None]
    n_axes = direction.ndim - 2
    kept = taken(direction, place, n_axes + 1) != 0
    kept = (kept & wanted).astype(dtype)
    flat = place.reshape(*place.shape[:-2], -1)
    rows = taken(covariance, flat, n_axes)
    rows = rows.reshape(*place.shape, n_attributes)
    moment = kept * xp.sum(rows * direction[..., None, :], axis=-1)
    matrix = taken(xp.swapaxes(rows, -1, -2), place, n_axes + 1)
    matrix = kept[..., :, None] * kept[..., None, :] * matrix
    alone = ridge + (1 - kept)
    matrix = matrix + alone[..., None] * xp.eye(most, dtype=dtype)
    found = kept * definite_solve(matrix, moment)
    at = place[..., :, None] == np.arange(n_attributes)
    return xp.sum(xp.where(at, found[..., None], 0.0), axis=-2)
