"""Array operations implemented separately for NumPy and for JAX.

Rows, or entries selected from them, are the last axes of arrays; all axes before them
enumerate nodes, or pieces of them. Arrays of NumPy are computed by NumPy, all others by
JAX.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from secret_jax.runtime.linalg import (
    AnyArray,
    each,
    matmul,
    namespace,
)
from secret_jax.runtime.pieces import Pieces, for_rows, over_rows

# Float32 rounding of sums of weights.
_ROUNDING = 1e-6


def largest(values: Float[AnyArray, "... n"], k: int) -> Int[AnyArray, "... k"]:
    """Positions of the k largest values, in descending order; ties by position.

    Examples
    --------
    >>> largest(np.array([1.0, 3.0, 3.0, 2.0]), 3).tolist()
    [1, 2, 3]
    """
    if namespace(values) is np:
        return np.argsort(-values, axis=-1, stable=True)[..., :k]
    # Counted: a sort of so few takes longer.
    index, order = jnp.arange(values.shape[-1]), jnp.arange(k)
    own, other = values[..., :, None], values[..., None, :]
    before = (other > own) | ((other == own) & (index < index[:, None]))
    rank = jnp.sum(before, axis=-1)
    return jnp.sum(jnp.where(rank[..., None, :] == order[:, None], index, 0), axis=-1)


def rows_last(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Make an empty array whose second last axis, that of rows, is last in memory.

    An operation on few columns of many rows then has long runs.
    """
    found = np.empty((*shape[:-2], shape[-1], shape[-2]), dtype)
    return np.swapaxes(found, -1, -2)


def taken(array: AnyArray, index: AnyArray, n_axes: int) -> AnyArray:
    """Take entries along the axis after ``n_axes`` axes of nodes.

    ``array`` (..., n, *rest); ``index`` (...) or (..., k), int. Returns (..., *rest) or
    (..., k, *rest).
    """
    if namespace(array) is np:
        return array[(*_all_nodes(array.shape[:n_axes], np.ndim(index)), index)]
    return each(lambda array, index: array[index], n_axes)(array, index)


@lru_cache(maxsize=1024)
def _all_nodes(shape: tuple[int, ...], n_axes: int) -> tuple[np.ndarray, ...]:
    """Indices along the axes of nodes, for broadcasting to ``n_axes`` axes."""
    after = n_axes - 1
    return tuple(
        np.arange(n).reshape(n, *(1,) * (after - axis)) for axis, n in enumerate(shape)
    )


def where_each(chosen: AnyArray, a: AnyArray, b: AnyArray) -> AnyArray:
    """Select entries of two arrays by a condition on their first axes."""
    shape = chosen.shape + (1,) * (a.ndim - chosen.ndim)
    return namespace(a).where(chosen.reshape(shape), a, b)


def either(
    chosen: AnyArray, first: Callable[[], Any], second: Callable[[], Any]
) -> Any:
    """Evaluate one of two functions for each node, and only what is needed.

    ``chosen`` (...), bool: whether it is the first; ``first``, ``second``: without
    arguments, to pytrees of Arrays.
    """
    if namespace(chosen) is jnp:
        return jax.lax.cond(chosen, first, second)
    if chosen.all():
        return first()
    if not chosen.any():
        return second()
    return jax.tree.map(lambda a, b: where_each(chosen, a, b), first(), second())


def improved(
    n: int,
    step: Callable[[Any, Any], tuple[Any, AnyArray]],
    nodes: Any,
    state: Any,
    narrowed: Callable[[Any, np.ndarray], Any],
) -> Any:
    """Apply up to ``n`` steps, each of which improves some nodes or none.

    ``step``: from nodes and a state to a state, and to whether it is better, for every
    node. Where it is not, the step would lead to the same again. ``narrowed``: from
    ``nodes`` and a mask to these alone: NumPy goes on with those that were improved.
    """
    if namespace(jax.tree.leaves(state)[0]) is not np:
        for _ in range(n):
            state = step(nodes, state)[0]
        return state
    found, going = state, None
    for _ in range(n):
        state, better = step(nodes, state)
        if going is None:
            found, going = state, np.arange(len(better))
        else:
            for every, some in zip(
                jax.tree.leaves(found), jax.tree.leaves(state), strict=True
            ):
                every[going] = some
        if not better.any():
            break
        if not better.all():
            going, nodes = going[better], narrowed(nodes, better)
            state = jax.tree.map(lambda a: a[better], state)  # noqa: B023
    return found


def sums_by_code(
    codes: Int[AnyArray, "... n_rows"],
    values: Float[AnyArray, "... n_rows"],
    n: int,
    pieces: Pieces | None = None,
) -> Float[AnyArray, "... n"]:
    """Sum the values of rows by code.

    Examples
    --------
    >>> sums_by_code(np.array([0, 2, 0]), np.array([1.0, 5.0, 2.0]), 3).tolist()
    [3.0, 0.0, 5.0]
    """
    if namespace(values) is np:
        shape = values.shape[:-1] if pieces is None else (len(pieces.first),)
        n_nodes = int(np.prod(shape))
        node = for_rows(np.arange(n_nodes), pieces)[:, None]
        of_node = codes.reshape(len(node), -1) + n * node
        found = np.bincount(of_node.ravel(), values.ravel(), n_nodes * n)
        return found.astype(values.dtype).reshape(*shape, n)
    member = (codes[..., :, None] == jnp.arange(n)).astype(values.dtype)
    return matmul(values[..., None, :], member)[..., 0, :]


def stacked(function: Callable[[AnyArray], Any], arrays: AnyArray) -> Any:
    """Stack the results of a function of each entry along the first axis in turn."""
    if namespace(arrays) is np:
        found = [function(array) for array in arrays]
        return jax.tree.map(lambda *each: np.stack(each), *found)
    return jax.lax.map(function, arrays)


def weighted_quantiles(
    values: Float[AnyArray, "... n_directions n_rows"],
    weight: AnyArray,
    share: Float[AnyArray, " n"],
) -> Float[AnyArray, "... n_directions n"]:
    """Quantiles at given shares of the weight.

    ``weight`` (..., n_rows) or (..., n_directions, n_rows): zero for rows that do not
    count. Values that occur; infinity where no row counts.
    """
    if namespace(values) is np:
        return _quantiles_by_sorting(values, weight, np.asarray(share))
    return each(
        lambda values, weight: _quantiles_by_counting(values, weight, share),
        values.ndim - 2,
    )(values, weight)


def _quantiles_by_counting(
    values: jax.Array, weight: jax.Array, share: jax.Array
) -> jax.Array:
    def along(values, mass):
        enough = share * jnp.sum(mass) * (1 - _ROUNDING)
        below = matmul((values[None, :] <= values[:, None]).astype(mass.dtype), mass)
        usable = (below[None, :] >= enough[:, None]) & (mass > 0)
        return jnp.min(jnp.where(usable, values, jnp.inf), axis=1)

    return jax.vmap(along, in_axes=(0, None if weight.ndim == 1 else 0))(values, weight)


def _quantiles_by_sorting(
    values: np.ndarray, weight: np.ndarray, share: np.ndarray
) -> np.ndarray:
    weight = weight if weight.ndim == values.ndim else weight[..., None, :]
    values = np.where(weight > 0, values, np.float32(np.inf))
    enough = share * (weight.sum(axis=-1)[..., None] * np.float32(1 - _ROUNDING))
    heaviest = weight.max(axis=-1, keepdims=True)
    if ((weight == heaviest) | (weight == 0)).all():  # places instead of sums
        values = np.sort(values, axis=-1)
        unit = np.where(heaviest > 0, heaviest, 1)
        place = np.ceil(enough / unit).astype(np.intp) - 1
        n_counted = np.sum(weight > 0, axis=-1)[..., None]
        place = np.clip(place, 0, np.maximum(n_counted - 1, 0))
    else:
        order = np.argsort(values, axis=-1, stable=True)
        values = np.take_along_axis(values, order, axis=-1)
        weight = np.broadcast_to(weight, values.shape)
        below = np.cumsum(np.take_along_axis(weight, order, axis=-1), axis=-1)
        # From the end: what is there without weight adds nothing.
        enough = np.minimum(enough, below[..., -1:])[..., None, :]
        place = np.sum(below[..., None] < enough, axis=-2)
    place = np.broadcast_to(place, (*values.shape[:-1], len(share)))
    return taken(values, place, values.ndim - 1)


def products_of_pairs(
    design: Float[AnyArray, "... n_rows width"],
) -> Float[AnyArray, "... n_rows n_products"]:
    """Pairwise products of each row's numbers, upper triangle column by column.

    Examples
    --------
    >>> products_of_pairs(np.array([[2.0, 3.0, 5.0]])).tolist()
    [[4.0, 6.0, 9.0, 10.0, 15.0, 25.0]]
    """
    width = design.shape[-1]
    if namespace(design) is not np:
        column, row = np.tril_indices(width)
        return design[..., row] * design[..., column]
    found = rows_last((*design.shape[:-1], width * (width + 1) // 2), design.dtype)
    for i in range(width):
        run = found[..., i * (i + 1) // 2 :][..., : i + 1]
        np.multiply(design[..., : i + 1], design[..., i, None], out=run)
    return found


def sums_below(
    projection: Float[AnyArray, "... n_directions n_rows"],
    cuts: Float[AnyArray, "... n_directions n_cuts"],
    weight: Float[AnyArray, "... n_rows"],
    columns: Sequence[Float[AnyArray, "... n_rows _"]],
    own: Float[AnyArray, "... n_directions n_rows"] | None = None,
    pieces: Pieces | None = None,
) -> Float[AnyArray, "... n_directions n_cuts n_sums"]:
    """Weighted sums over the rows not above each threshold.

    ``cuts``: thresholds, ascending; ``columns``: what is added up along all
    directions; ``own``: of what sums and sums of squares along its own direction come
    last.
    """
    if namespace(projection) is np:
        return _sums_by_direction(projection, cuts, weight, columns, own, pieces)
    below = projection[..., :, None, :] <= cuts[..., None]
    left = jnp.where(below, weight[..., None, None, :], 0.0)
    flat = left.reshape(*left.shape[:-3], -1, left.shape[-1])
    found = matmul(flat, jnp.concatenate(columns, axis=-1))
    found = found.reshape(*left.shape[:-1], -1)
    if own is None:
        return found
    powers = matmul(left, jnp.stack([own, own**2], axis=-1))
    return jnp.concatenate([found, powers], axis=-1)


def _sums_by_direction(
    projection: np.ndarray,
    cuts: np.ndarray,
    weight: np.ndarray,
    columns: Sequence[np.ndarray],
    own: np.ndarray | None,
    pieces: Pieces | None,
) -> np.ndarray:
    stops = np.cumsum([array.shape[-1] for array in columns])
    n_sums = stops[-1] + (0 if own is None else 2)
    every = rows_last((*weight.shape, n_sums), weight.dtype)
    for array, stop in zip(columns, stops, strict=True):
        part = every[..., stop - array.shape[-1] : stop]
        np.multiply(array, weight[..., None], out=part)
    found = np.empty((*cuts.shape, n_sums), weight.dtype)
    nodes, n_rows = weight.shape[:-1], weight.shape[-1]
    below = np.empty((*nodes, cuts.shape[-1], n_rows), weight.dtype)
    cuts = for_rows(cuts, pieces)
    for i in range(projection.shape[-2]):
        values, cut = projection[..., i, None, :], cuts[..., i, :, None]
        np.less_equal(values, cut, out=below, casting="unsafe")
        if own is not None:
            np.multiply(own[..., i, :], weight, out=every[..., -2])
            np.multiply(own[..., i, :], every[..., -2], out=every[..., -1])
        found[..., i, :, :] = over_rows(below @ every, pieces)
    return found
