"""EM by kernels of Triton: what it makes of rows in one reading, and its M step.

`secret_jax.splits.mixture` says what they mean and has the same in array operations,
for accelerators without Triton.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from secret_jax.data.kernels import Sizes, kernel, padded_size, read_once
from secret_jax.runtime.linalg import AnyArray, namespace

# Numbers of a row whose matrix fits into the registers of a program.
MOST_ELIMINATED = 128


def shares(odds: AnyArray) -> tuple[AnyArray, AnyArray]:
    """Share of the first of two components, and one plus the lesser odds."""
    xp = namespace(odds)
    least = xp.exp(-xp.abs(odds))
    both = 1.0 + least
    return xp.where(odds > 0, 1.0, least) / both, both


def products_about(
    rows: Any,
    centers: Sequence[Float[Array, "n_nodes _ n"]],
    arrays: Sequence[Array],
    weight: Float[Array, "n_tiles n_starts tile"],
    *matrix: Float[Array, "n_nodes n n"],
) -> tuple[Float[Array, "n_nodes n_starts n_joint n_joint"], Array]:
    """Weighted products of rows (1, z) with themselves; z is less some centers.

    And by a lower triangular matrix, if there is one: these rows are the second result.
    The first array may have more columns than there are centers of; they do not count.
    """
    n_starts = weight.shape[1]
    centers = [jnp.repeat(a, n_starts // a.shape[1], axis=1) for a in centers]

    def one(start: Any, of_node: Any, columns: Any) -> Any:
        *values, weight = columns
        z = list(itertools.chain(*values))
        for center in of_node[: len(centers)]:
            z = [a - center(start, i) for i, a in enumerate(z)]
        for by in of_node[len(centers) :]:
            z = [_weighted(by, (i,), z[: i + 1]) for i in range(len(z))]
        z = [jnp.ones_like(weight), *z]
        return weight, z, z if matrix else []

    n = 1 + centers[0].shape[2]
    n_first = n - 1 - sum(array.shape[1] for array in arrays[1:])
    sizes = Sizes(n, n_starts, n_written=n if matrix else 0, n_first=n_first)
    of_nodes = *centers, *matrix
    products, _, z = read_once(rows, one, of_nodes, arrays, sizes, [weight])
    return products, z


def _weighted(weight: Any, at: tuple[Any, ...], values: Sequence[Array]) -> Array:
    """Sum of some numbers of rows, by numbers that their node has at a place."""
    products = (weight(*at, i) * value for i, value in enumerate(values))
    return functools.reduce(jnp.add, products)


def moments_of_sides(
    rows: Any, of_nodes: Sequence[Array], arrays: Sequence[Array]
) -> Float[Array, "n_nodes n_starts n_joint n_joint"]:
    """Moments of the first component at the start; see `secret_jax.splits.secret`."""

    def one(start: Any, of_node: Any, columns: Any) -> Any:
        (form, by_sign), (z, weight) = of_node, columns
        odds = _weighted(form, (start,), z)
        side = jnp.where(odds > 0, 1.0, 0.0)
        return weight * jnp.where(by_sign(start), side, shares(odds)[0]), z, []

    _, n_starts, n_joint = of_nodes[0].shape
    return read_once(rows, one, of_nodes, arrays, Sizes(n_joint, n_starts))[0]


def moments_and_likelihood(
    rows: Any, forms: Sequence[Array], arrays: Sequence[Array]
) -> tuple[
    Float[Array, "n_nodes n_starts n_joint n_joint"], Float[Array, "n_nodes n_starts"]
]:
    """Moments of the first component and the log-likelihood; see `mixture.expect`."""

    def one(start: Any, of_node: Any, columns: Any) -> Any:
        z, weight = columns
        first, second = _log_densities(of_node, z, start)
        share, both = shares(first - second)
        likelihood = weight * (jnp.maximum(first, second) + jnp.log(both))
        return weight * share, z, [likelihood]

    sizes = Sizes(arrays[0].shape[1], forms[0].shape[1], n_others=1)
    moments, likelihood, _ = read_once(rows, one, forms, arrays, sizes)
    return moments, likelihood[..., 0]


def likelier_first(
    rows: Any, forms: Sequence[Array], arrays: Sequence[Array]
) -> Float[Array, "n_tiles tile"]:
    """Weights of the rows that rather belong to the first component."""

    def one(_: Any, of_node: Any, columns: Any) -> Any:
        z, weight = columns
        first, second = _log_densities(of_node, z)
        return weight, [], [jnp.where(first > second, weight, 0.0)]

    return read_once(rows, one, forms, arrays, Sizes(0, n_written=1))[2][:, 0]


def _log_densities(of_node: Any, z: Sequence[Array], *start: Any) -> list[Array]:
    """Of both components; see `mixture.LogForms`."""
    constant, factor = of_node
    found = []
    for component in range(2):
        squares = jnp.zeros_like(z[0])
        for row in range(len(z) - 1):  # of a triangle beside a column of means
            at = *start, component, row
            squares += _weighted(factor, at, z[: row + 2]) ** 2
        found.append(constant(*start, component) - 0.5 * squares)
    return found


def densities(
    moments: Float[Array, "n_nodes n_starts n_joint n_joint"],
    known: Any,
    floor: float,
    going: Bool[Array, "n_nodes n_starts"],
    forms: Sequence[Array],
) -> Sequence[Array]:
    """The M step: fields of `LogForms`, mass and penalty; see `mixture.maximise`.

    What is not going keeps its ``forms``.
    """
    shape = *moments.shape[:2], 2
    width = padded_size(moments.shape[-1])
    shapes = *(array.shape for array in forms), shape, shape
    *forms, mass, penalty = kernel(
        functools.partial(_maximise, floor, width),
        max(width**2 // 1024, 1),
        grid=shape,
        out_shape=[jax.ShapeDtypeStruct(shape, moments.dtype) for shape in shapes],
        input_output_aliases={4: 0, 5: 1},
    )(moments, known.total, known.active, going, *forms)
    return *forms, mass[..., 0], penalty[..., 0] + penalty[..., 1]


def _maximise(floor: float, width: int, *refs: Any) -> None:
    """Of a node, a start and a component."""
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import triton

    moments, total, active, going, _, _, constants, factors, masses, penalties = refs
    at, n = tuple(pl.program_id(axis) for axis in range(3)), total.shape[-1]
    row, column = jnp.arange(width)[:, None], jnp.arange(width)[None]
    inside, below = (row < n) & (column < n), (row > 0) & (row < n)

    @pl.when(going[at[:2]])
    def _() -> None:
        weight, before = total[at[0], 0, 0], jnp.maximum(row - 1, 0)
        own = triton.load(active.at[at[0], before], mask=below, other=False)
        whole = triton.load(total.at[at[0], row, column], mask=inside, other=0.0)
        first = moments.at[(*at[:2], row, column)]
        first = triton.load(first, mask=inside, other=0.0)
        # The lighter one is to be summed: a difference would eat its digits.
        heavier = moments[(*at[:2], 0, 0)] > 0.5 * weight
        lighter = jnp.where(heavier, whole - first, first)
        matrix = jnp.where(at[2] == 0, lighter, whole - lighter)
        mass = jnp.sum(jnp.where((row == 0) & (column == 0), matrix, 0.0))
        prior = jnp.where(below, floor * weight, jnp.where(row < n, 0.0, 1.0))
        matrix = matrix + jnp.where(row == column, prior, 0.0)
        root = jnp.where(own, jnp.sqrt(jnp.maximum(mass, 0.0)), 0.0)
        factor = inverse_cholesky(matrix, row, column, n) * root
        diagonal = jnp.sum(jnp.where(row == column, factor, 0.0), 1, keepdims=True)
        constant = jnp.sum(jnp.log(jnp.where(own, diagonal, 1.0)))
        constant += 0.5 * jnp.sum(jnp.where(own, 1.0, 0.0)) + jnp.log(mass / weight)
        constants[at], masses[at] = constant, mass
        place = factors.at[(*at, before, column)]
        triton.store(place, factor, mask=inside & below)
        penalties[at] = 0.5 * floor * jnp.sum(jnp.where(column > 0, factor**2, 0.0))


def inverse_cholesky(matrix: Array, row: Array, column: Array, n: int) -> Array:
    """As `secret_jax.runtime.linalg.inverse_cholesky`, where the matrix stands."""

    def eliminate(pivot: Array, both: Array) -> Array:
        above = jnp.sum(jnp.where(row == pivot, both, 0.0), 0, keepdims=True)
        beside = jnp.sum(jnp.where(column == pivot, both, 0.0), 1, keepdims=True)
        size = jnp.sum(jnp.where(row == pivot, beside, 0.0))
        above = jnp.where(column == pivot, 1.0, above)
        above = jnp.where(size > 0, above / jnp.where(size > 0, size, 1.0), 0.0)
        left = jnp.where((row > pivot) & (column == pivot), 0.0, both)
        return left - jnp.where(row > pivot, beside, 0.0) * above

    both = jax.lax.fori_loop(0, n, eliminate, matrix)
    pivot = jnp.sum(jnp.where(row == column, both, 0.0), 1, keepdims=True)
    inverse = jnp.where(row == column, 1.0, jnp.where(row > column, both, 0.0))
    return jnp.where(
        pivot > 0, inverse / jnp.sqrt(jnp.where(pivot > 0, pivot, 1.0)), 0.0
    )
