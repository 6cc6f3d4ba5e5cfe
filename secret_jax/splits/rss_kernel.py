"""Small algebra of the nodes of the default search, a chain of it in one kernel.

`secret_jax.splits.rss` and `secret_jax.splits.rss_nodes` have the same in array
operations, for accelerators without Triton and for many columns.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from secret_jax.data.kernels import of_each, padded_size
from secret_jax.runtime.linalg import by_powers, safe_divide, unit_vector
from secret_jax.splits.em_kernel import inverse_cholesky


def inverted_roots(
    matrix: Float[Array, "n_nodes n n"],
) -> Float[Array, "n_nodes n n"]:
    """As `secret_jax.runtime.linalg.inverse_cholesky`, of definite matrices."""
    n = matrix.shape[-1]

    def of_one(matrix: Array) -> list[Array]:
        return [inverse_cholesky(matrix, *_places(n), n)]

    return of_each(of_one, [], [matrix[:, None]], [(n, n)])[0][:, 0]


def bent_most(
    hessians: Float[Array, "n_nodes n_outputs m m"],
    whitener: Float[Array, "n_nodes m m"],
    n: int,
) -> Float[Array, "n_nodes n m"]:
    """Leading eigenvectors of whitened Hessians; see `secret_jax.splits.rss`."""

    def of_one(whitener: Array, *hessians: Array) -> list[Array]:
        whitened = [_dot(_dot(whitener, each), whitener.T) for each in hessians]
        if len(whitened) > 1:
            whitened = [_dot(each, each) for each in whitened]
        leading = by_powers(functools.reduce(jnp.add, whitened), n, _dot)
        return [_dot(leading, whitener)]

    own = [hessians[:, i, None] for i in range(hessians.shape[1])]
    return of_each(of_one, [whitener], own, [whitener.shape[1:]])[0][:, 0, :n]


def sparse(
    direction: Float[Array, "n_nodes n_directions n_columns"],
    covariance: Float[Array, "n_nodes n_columns n_columns"],
    n_kept: int | np.ndarray,
    ridge: float,
) -> Float[Array, "n_nodes n_directions n_columns"]:
    """As `secret_jax.splits.rss.sparse`, oriented."""
    n = direction.shape[-1]
    own = [direction]
    if isinstance(n_kept, np.ndarray):
        n_kept = n_kept.astype(np.int32)
        own.append(jnp.broadcast_to(n_kept, direction.shape[:2]))

    def of_one(covariance: Array, direction: Array, n_kept: Any = n_kept) -> Any:
        row, column = _places(n)
        size = jnp.abs(direction)
        own, other = size[:, None], size[None]
        before = (other > own) | ((other == own) & (column < row))
        rank = jnp.sum(jnp.where(before, 1, 0), 1)
        kept = jnp.where((rank < n_kept) & (size > 0), 1.0, 0.0)
        moment = kept * jnp.sum(covariance * direction[None], 1)
        matrix = kept[:, None] * kept[None] * covariance
        matrix += jnp.where(row == column, ridge + (1 - kept)[:, None], 0.0)
        found = kept * jnp.sum(_solved(matrix, moment[:, None], n), 1)
        first = jnp.arange(len(found)) == jnp.argmax(jnp.abs(found), axis=0)
        turned = jnp.sum(jnp.where(first, found, 0.0)) < 0
        return [unit_vector(jnp.where(turned, -found, found))]

    return of_each(of_one, [covariance], own, [(n,)])[0]


def discriminant(
    sums: Float[Array, "n_nodes 2 n n"], ridge: float
) -> Float[Array, "n_nodes n"]:
    """Direction of LDA between two classes, zero at the one.

    ``sums``: products of (1, z) with themselves, over the first class and over both.
    """
    n = sums.shape[-1]

    def of_one(first: Array, both: Array) -> list[Array]:
        row, column = _places(n)
        first, total = (jnp.sum(jnp.where(row == 0, a, 0.0), 0) for a in (first, both))
        of_class = first, total - first
        index = jnp.arange(len(first))
        mass = [jnp.sum(jnp.where(index == 0, a, 0.0)) for a in of_class]
        center = [safe_divide(*pair) for pair in zip(of_class, mass, strict=True)]
        for weight, mean in zip(mass, center, strict=True):
            both = both - weight * mean[:, None] * mean[None]
        within = safe_divide(both, mass[0] + mass[1])
        within = jnp.where((row == 0) | (column == 0), 0.0, within)
        within += jnp.where(row == column, ridge, 0.0)
        apart = jnp.where(row == 0, 0.0, (center[0] - center[1])[:, None])
        return [jnp.sum(_solved(within, apart, n), 1)]

    own = [sums[:, i, None] for i in range(2)]
    return of_each(of_one, [], own, [(n,)], n_warps=4)[0][:, 0]


def sides(
    left: Float[Array, "n_nodes n_splits n n"],
    whole: Float[Array, "n_nodes n n"],
    min_weight: Float[Array, " n_nodes"],
    n_outputs: int,
    ridge: float,
    rounding: float,
) -> tuple[Array, Array]:
    """Gains and models of both sides; see `secret_jax.splits.rss_nodes.exact_sides`.

    ``left``, ``whole``: products of residuals, one and coordinates.
    """
    n = left.shape[-1]

    def of_side(matrix: Array) -> tuple[Array, Array, Array]:
        row, column = _places(n)
        one = (row == n_outputs) & (column == n_outputs)
        weight = jnp.sum(jnp.where(one, matrix, 0.0))
        seen = (row >= n_outputs) & (row < n)
        moment = jnp.where(seen & (column < n_outputs), matrix, 0.0)
        penalty = jnp.where(row > n_outputs, ridge + rounding, rounding)
        penalty = jnp.where(seen, jnp.maximum(weight, rounding) * penalty, 1.0)
        matrix = jnp.where(seen & (column >= n_outputs), matrix, 0.0)
        matrix += jnp.where(row == column, penalty, 0.0)
        models = _solved(matrix, moment, n)
        return weight, jnp.sum(models * moment), models

    def of_both(whole: Array, min_weight: Array, left: Array) -> list[Array]:
        weight, gain, models = zip(*map(of_side, (left, whole - left)), strict=True)
        least, gain = jnp.minimum(*weight), gain[0] + gain[1]
        enough = (least >= min_weight) & (least > 0) & jnp.isfinite(gain)
        return [jnp.where(enough, gain, -jnp.inf), *models]

    shapes = [(), (n, n), (n, n)]
    gain, *models = of_each(of_both, [whole, min_weight], [left], shapes)
    return gain, jnp.stack(models, axis=2)[..., n_outputs:, :n_outputs]


def quantiles(
    mass: Float[Array, "n_nodes _ n_rows"],
    head: Float[Array, "n_nodes n n_rows"],
    n: int,
    rounding: float,
) -> Float[Array, "n_nodes n n_cuts"]:
    """See `lowest_beyond`; one mass for all lists, or each has its own."""

    def of_one(mass: Array, head: Array) -> list[Array]:
        index = jnp.arange(padded_size(n)).astype(head.dtype)
        return [lowest_beyond(mass, head, index, n, rounding)]

    shared = mass.shape[1] == 1
    given = ([mass[:, 0]], [head]) if shared else ([], [mass, head])
    return of_each(of_one, *given, [(n,)], n_warps=16)[0]


def lowest_beyond(
    mass: Array, head: Array, index: Array, n: int, rounding: float
) -> Array:
    """Values up to which shares of the mass lie, by all pairs of them."""
    share = jnp.where(index > 0, index + 0.5, 0.0) / n
    enough = share * jnp.sum(mass, axis=-1, keepdims=True) * (1 - rounding)
    head = head + jnp.where(mass > 0, 0.0, jnp.inf)
    upto = head[..., None, :] <= head[..., None]
    below = jnp.sum(jnp.where(upto, mass[..., None, :], 0.0), axis=-1)
    found = below[..., None, :] >= enough[..., None]
    return jnp.min(jnp.where(found, head[..., None, :], jnp.inf), axis=-1)


def _places(n: int) -> tuple[Array, Array]:
    """Row and column of the numbers of a padded matrix."""
    index = jnp.arange(padded_size(n))
    return index[:, None], index[None]


def _dot(left: Array, right: Array) -> Array:
    exact = jax.lax.DotAlgorithmPreset.F32_F32_F32
    return jax.lax.dot(left, right, precision=exact, preferred_element_type=left.dtype)


def _solved(matrix: Array, right: Array, n: int) -> Array:
    """As `secret_jax.runtime.linalg.guarded_solve`, with the right side a matrix."""
    row, column = _places(n)

    def eliminate(pivot: Array, both: tuple[Array, Array]) -> Any:
        here = row == pivot
        above = [jnp.sum(jnp.where(here, a, 0.0), 0, keepdims=True) for a in both]
        beside = jnp.sum(jnp.where(column == pivot, both[0], 0.0), 1, keepdims=True)
        size = jnp.sum(jnp.where(here, beside, 0.0))
        share = jnp.where(here, 0.0, safe_divide(beside, size))
        return tuple(a - share * own for a, own in zip(both, above, strict=True))

    matrix, right = jax.lax.fori_loop(0, n, eliminate, (matrix, right))
    pivot = jnp.sum(jnp.where(row == column, matrix, 0.0), 1, keepdims=True)
    return safe_divide(right, pivot)
