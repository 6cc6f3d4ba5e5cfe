"""Small algebra of the nodes of the default search, each chain of it in one kernel.

`secret_jax.splits.rss` and `secret_jax.splits.rss_nodes` have the same in array
operations, for accelerators without Triton and for many columns.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from secret_jax.data.kernels import Sizes, of_each, padded_size, read_once
from secret_jax.runtime.linalg import N_SQUARINGS, safe_divide, squarings_together
from secret_jax.splits.em_kernel import inverse_cholesky, weighted


def sums_about(
    rows: Any, shift: Float[Array, "n_nodes n"], arrays: Sequence[Array]
) -> Float[Array, "n_nodes n"]:
    """Weighted sums of outputs and columns less a shift; the weight comes last."""

    def one(_: Any, of_node: Any, columns: Any) -> Any:
        *values, weight = columns
        values = enumerate(itertools.chain(*values))
        return weight, [], [weight * (value - of_node[0](i)) for i, value in values]

    sizes = Sizes(0, n_others=shift.shape[1])
    return read_once(rows, one, [shift], arrays, sizes)[1][:, 0]


def products_of_residuals(
    rows: Any, shift: Array, mean: Array, slopes: Array, arrays: Sequence[Array]
) -> Float[Array, "n_nodes n n"]:
    """Products of residuals, one and columns about their means; see `sums_about`.

    ``slopes`` (n_nodes, n_outputs, n_regressors): of the models of the outputs.
    """
    n_outputs, n_regressors = slopes.shape[1:]

    def one(_: Any, of_node: Any, columns: Any) -> Any:
        *values, weight = columns
        values = enumerate(itertools.chain(*values))
        z = [value - of_node[0](i) - of_node[1](i) for i, value in values]
        z, x = z[:n_outputs], z[n_outputs:]
        fitted = [
            weighted(of_node[2], (i,), x[:n_regressors]) for i in range(n_outputs)
        ]
        z = [value - own for value, own in zip(z, fitted, strict=True)]
        return weight, [*z, jnp.ones_like(weight), *x], []

    sizes = Sizes(1 + shift.shape[1])
    return read_once(rows, one, [shift, mean, slopes], arrays, sizes)[0][:, 0]


def inverted_roots(
    matrix: Float[Array, "n_nodes n n"],
) -> Float[Array, "n_nodes n n"]:
    """As `secret_jax.runtime.linalg.inverse_cholesky`, of definite matrices."""
    n = matrix.shape[-1]

    def of_one(matrix: Array) -> list[Array]:
        return [inverse_cholesky(matrix, *_places(n), n)]

    return of_each(of_one, [], [matrix[:, None]], [(n, n)])[0][:, 0]


def bent_most(
    hessians: Sequence[Float[Array, "n_nodes m m"]],
    whitener: Float[Array, "n_nodes m m"],
    n: int,
) -> Float[Array, "n_nodes n m"]:
    """See `secret_jax.splits.rss`: principal Hessian directions, whitened outputs'."""
    m = whitener.shape[-1]
    together = squarings_together(m)

    def normed(matrix: Array) -> Array:
        largest = jnp.max(jnp.abs(matrix))
        return matrix / jnp.where(largest > 0, largest, 1.0)

    def of_one(whitener: Array, *hessians: Array) -> list[Array]:
        row, column = _places(m)
        whitened = [_dot(_dot(whitener, each), whitener.T) for each in hessians]
        if len(whitened) > 1:
            whitened = [_dot(each, each) for each in whitened]
        rest = functools.reduce(jnp.add, whitened)
        found = jnp.zeros_like(rest)
        for number in range(n):
            power = rest = normed(rest)
            for i in range(N_SQUARINGS):
                power = normed(power) if i and not i % together else power
                power = _dot(power, power)
            size = jnp.sum(jnp.where(row == column, power, 0.0), 0)
            longest = row == jnp.argmax(size, axis=0)
            vector = jnp.sum(jnp.where(longest, power, 0.0), 0)
            vector = safe_divide(vector, jnp.max(size))
            image = jnp.sum(rest * vector[None], 1)
            size = jnp.sqrt(safe_divide(jnp.sum(image**2), jnp.sum(vector**2)))
            size = jnp.where(jnp.sum(image * vector) >= 0, size, -size)
            vector = _unit(image + size * vector)
            outside = jnp.where(row == column, 1.0, 0.0)
            outside = outside - vector[:, None] * vector[None]
            rest = _dot(outside, _dot(rest, outside))
            found = jnp.where(row == number, vector[None], found)
        return [_dot(found, whitener)]

    own = [each[:, None] for each in hessians]
    return of_each(of_one, [whitener], own, [(n, m)])[0][:, 0]


def advantages(
    rows: Any, both: Float[Array, "n_nodes n_forms n"], arrays: Sequence[Array]
) -> Float[Array, " n_nodes"]:
    """Sums of sizes of `_advantage`; ``arrays``: design and weight."""

    def one(_: Any, of_node: Any, columns: Any) -> Any:
        design, weight = columns
        return (
            weight,
            [],
            [weight * jnp.abs(_advantage(of_node[0], both.shape, design))],
        )

    return read_once(rows, one, [both], arrays, Sizes(0, n_others=1))[1][:, 0, 0]


def by_advantage(
    rows: Any, both: Array, cap: tuple[float, Array, Array], arrays: Sequence[Array]
) -> tuple[Float[Array, "n_nodes n"], Float[Array, "n_nodes n n"]]:
    """Sums of (1, z) over the rows that the left side predicts better, and products.

    Each row counts by how much, no more than so many times as much as the mean row;
    ``cap``: how many, `advantages`, weight.
    """
    most, *of_mean = cap
    n_outputs = both.shape[1] // 2
    n = arrays[0].shape[1] - n_outputs

    def one(_: Any, of_node: Any, columns: Any) -> Any:
        design, weight = columns
        advantage = _advantage(of_node[0], both.shape, design)
        cap = most * of_node[1]() / of_node[2]()
        size = weight * jnp.minimum(jnp.abs(advantage), cap)
        first, z = jnp.where(advantage > 0, size, 0.0), design[n_outputs:]
        return size, z, [first * values for values in z]

    given = [both, *of_mean], arrays, Sizes(n, n_others=n)
    products, first, _ = read_once(rows, one, *given)
    return first[:, 0], products[:, 0]


def _advantage(both: Any, shape: tuple[int, ...], design: Sequence[Array]) -> Array:
    """Squared errors of the left model less those of the right; see `rss._hinge`."""
    _, n, width = shape
    found = [weighted(both, (i,), design[:width]) for i in range(n)]
    pairs = zip(found[: n // 2], found[n // 2 :], strict=True)
    return functools.reduce(jnp.add, (apart * total for apart, total in pairs))


def sparse(
    direction: Float[Array, "n_nodes n_directions n_columns"],
    covariance: Float[Array, "n_nodes n_columns n_columns"],
    n_kept: int | np.ndarray,
    ridge: float,
) -> Float[Array, "n_nodes n_directions n_columns"]:
    """As `secret_jax.splits.rss.sparse`, oriented and along it of unit variance."""
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
        alone = ridge + (1 - kept)[:, None]
        matrix = matrix + jnp.where(row == column, alone, 0.0)
        found = kept * jnp.sum(_solved(matrix, moment[:, None], n), 1)
        size = jnp.abs(found)
        first = jnp.arange(len(size)) == jnp.argmax(size, axis=0)
        turned = jnp.sum(jnp.where(first, found, 0.0)) < 0
        unit = _unit(jnp.where(turned, -found, found))
        along = jnp.sum(jnp.sum(covariance * unit[None], 1) * unit)
        unit = safe_divide(unit, jnp.sqrt(jnp.maximum(along, 0.0)))
        return [jnp.where(jnp.isfinite(along), unit, 0.0)]

    return of_each(of_one, [covariance], own, [(n,)])[0]


def discriminant(
    first: Float[Array, "n_nodes n"],
    products: Float[Array, "n_nodes n n"],
    ridge: float,
) -> Float[Array, "n_nodes n"]:
    """Direction of LDA between two classes, zero at the one.

    ``first``: sums of (1, z) over the first class; ``products`` of them over both.
    """
    n = first.shape[-1]

    def of_one(first: Array, products: Array) -> list[Array]:
        row, column = _places(n)
        second = jnp.sum(jnp.where(row == 0, products, 0.0), 0) - first
        within, centers, masses = products, [], []
        for sums in (first, second):
            mass = jnp.sum(jnp.where(jnp.arange(len(sums)) == 0, sums, 0.0))
            center = safe_divide(sums, mass)
            within = within - mass * center[:, None] * center[None]
            centers.append(center)
            masses.append(mass)
        within = safe_divide(within, masses[0] + masses[1])
        of_one = (row == 0) | (column == 0)
        within = jnp.where(of_one, 0.0, within)
        within = within + jnp.where(row == column, ridge, 0.0)
        apart = (centers[0] - centers[1])[:, None]
        apart = jnp.where(row == 0, 0.0, apart)
        return [jnp.sum(_solved(within, apart, n), 1)]

    own = [first[:, None], products[:, None]]
    return of_each(of_one, [], own, [(n,)])[0][:, 0]


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
        mass = jnp.maximum(weight, rounding)
        is_model = (row >= n_outputs) & (row < n)
        moment = jnp.where(is_model & (column < n_outputs), matrix, 0.0)
        penalty = mass * jnp.where(row > n_outputs, ridge + rounding, rounding)
        penalty = jnp.where(is_model, penalty, 1.0)
        inner = jnp.where(is_model & (column >= n_outputs), matrix, 0.0)
        inner = inner + jnp.where(row == column, penalty, 0.0)
        models = _solved(inner, moment, n)
        return weight, jnp.sum(models * moment), models

    def of_both(whole: Array, min_weight: Array, left: Array) -> list[Array]:
        each = [of_side(matrix) for matrix in (left, whole - left)]
        least = jnp.minimum(each[0][0], each[1][0])
        gain = each[0][1] + each[1][1]
        enough = (least >= min_weight) & (least > 0) & jnp.isfinite(gain)
        return [jnp.where(enough, gain, -jnp.inf), each[0][2], each[1][2]]

    shapes = [(), (n, n), (n, n)]
    gain, *models = of_each(of_both, [whole, min_weight], [left], shapes)
    models = jnp.stack(models, axis=2)
    return gain, models[..., n_outputs:, :n_outputs]


def quantiles(
    head: Float[Array, "n_nodes n n_rows"],
    mass: Float[Array, "n_nodes _ n_rows"],
    n_cuts: int,
    rounding: float,
) -> Float[Array, "n_nodes n n_cuts"]:
    """Those of `secret_jax.splits.rss_nodes.cuts_of`, by all pairs of rows."""

    def of_one(*given: Array) -> list[Array]:
        index = jnp.arange(padded_size(n_cuts)).astype(head.dtype)
        return [lowest_beyond(*given, index, n_cuts, rounding)]

    of_all, own = [mass[:, 0]], [head]
    if mass.shape[1] > 1:
        of_all, own = [], [mass, head]
    return of_each(of_one, of_all, own, [(n_cuts,)], n_warps=16)[0]


def lowest_beyond(
    mass: Array, head: Array, index: Array, n_cuts: int, rounding: float
) -> Array:
    """Of so many shares of the mass the values up to which they lie."""
    share = jnp.where(index > 0, index + 0.5, 0.0) / n_cuts
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


def _unit(vector: Array) -> Array:
    """Of length one; zero where it is zero, or no number."""
    square = jnp.sum(vector**2)
    return jnp.where(jnp.isfinite(square), safe_divide(vector, jnp.sqrt(square)), 0.0)


def _solved(matrix: Array, right: Array, n: int) -> Array:
    """As `secret_jax.runtime.linalg.guarded_solve`, with the right side a matrix."""
    index = jnp.arange(len(matrix))
    row, column = index[:, None], index[None]

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
