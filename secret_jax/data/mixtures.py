r"""Sums over rows that EM needs of mixtures of two Gaussians, in array operations.

Joint log-densities are :math:`c_i - \frac{1}{2} \lVert A_i (1, z) \rVert^2`: `forms` is
the pair of constants (n_nodes, ..., 2) and factors (n_nodes, ..., 2, n, 1 + n). Rows
(1, z) have the shape (..., 1 + n, n_rows); weights have (..., n_rows).

All functions take NumPy arrays with `RaggedRows` and traced ones with `TiledRows`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from secret_jax.runtime.linalg import AnyArray, namespace


def shares(odds: AnyArray) -> tuple[AnyArray, AnyArray]:
    """Share of the first of two components, and one plus the lesser odds."""
    xp = namespace(odds)
    least = xp.exp(-xp.abs(odds))
    both = 1.0 + least
    return xp.where(odds > 0, 1.0, least) / both, both


def log_densities(
    rows: Any, forms: Sequence[AnyArray], z: Float[AnyArray, "... n_joint rows"]
) -> tuple[AnyArray, AnyArray]:
    r"""Joint log-densities :math:`\log \alpha_i p_i(z)` of rows, (..., rows) each.

    The axes of several mixtures stand before the rows.
    """
    constant, factor = forms
    n_nodes, *shape, n_joint = factor.shape
    scaled = rows.transformed(factor.reshape(n_nodes, -1, n_joint), z)
    scaled = scaled.reshape(*scaled.shape[:-2], *shape, scaled.shape[-1])
    squares = (scaled * scaled).sum(axis=-2)
    both = rows.spread(constant) - 0.5 * squares
    return both[..., 0, :], both[..., 1, :]


def weighted_products(
    rows: Any, weight: Float[AnyArray, "... n_weights rows"], z: AnyArray
) -> Float[AnyArray, "n_nodes n_weights n_joint n_joint"]:
    """Sums of products of (1, z) with itself, by several weights."""
    n_weights, n_joint = weight.shape[-2], z.shape[-2]
    found = rows.products(_by_row(weight, z), z)
    return found.reshape(-1, n_weights, n_joint, n_joint)


def expectation(
    rows: Any, forms: Sequence[AnyArray], arrays: Sequence[AnyArray]
) -> tuple[AnyArray, AnyArray]:
    """Moments of the first component, and the log-likelihood (E step).

    ``forms`` have an axis of starts; ``arrays``: z and the weight of the rows. Returns
    (n_nodes, n_starts, n_joint, n_joint) and (n_nodes, n_starts).
    """
    xp, (z, weight) = rows.xp, arrays
    first, second = log_densities(rows, forms, z)
    share, both = shares(first - second)
    likelihood = xp.maximum(first, second) + xp.log(both)
    weight = weight[..., None, :]
    if xp is np:
        sums = rows.sums(likelihood * weight)
        return weighted_products(rows, share * weight, z), sums
    # In one product, whose column of the one in z has the sums.
    by = _by_row(share * weight, z)
    found = rows.products(xp.concatenate([by, likelihood * weight], axis=-2), z)
    n_starts, n_joint = share.shape[-2], z.shape[-2]
    moments = found[:, : n_starts * n_joint]
    moments = moments.reshape(-1, n_starts, n_joint, n_joint)
    return moments, found[:, n_starts * n_joint :, 0]


def _by_row(weight: AnyArray, z: AnyArray) -> AnyArray:
    """(1, z) by several weights, one after the other."""
    weighted = weight[..., None, :] * z[..., None, :, :]
    *lead, n_weights, n_joint, n_rows = weighted.shape
    return weighted.reshape(*lead, n_weights * n_joint, n_rows)
