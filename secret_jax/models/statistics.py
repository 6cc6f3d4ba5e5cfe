"""Statistics of many groups of rows from one pass over all of them, without scatter.

Within a block the rows of a group are made contiguous and cut into tiles of a fixed
size; a tile's products are one small matrix product on the device, about the tile's own
mean; and the few tiles are added up on the host in float64.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from secret_jax.data.device import block_of
from secret_jax.data.rows import in_blocks, next_power_of_two
from secret_jax.runtime.compiling import jit
from secret_jax.runtime.devices import rows_at_once
from secret_jax.runtime.linalg import AnyArray

_TILE = 64
_SMALLEST_BLOCK, _LARGEST_BLOCK = 1 << 15, 1 << 17


class NodeStatistics(NamedTuple):
    """Sufficient statistics of the regressors and the output, per node.

    Attributes
    ----------
    weight : ndarray of shape (n_nodes,), float64
    mean : ndarray of shape (n_nodes, n_regressors + 1), float64
        The output last.
    scatter : ndarray of shape (n_nodes, n_regressors + 1, n_regressors + 1), float64
        Sums of products about the mean.
    lower, upper : ndarray of shape (n_nodes,), float64
        Range of the output; inf and -inf where there is no row.
    """

    weight: np.ndarray
    mean: np.ndarray
    scatter: np.ndarray
    lower: np.ndarray
    upper: np.ndarray


def no_statistics(n_nodes: int, n_regressors: int) -> NodeStatistics:
    """Statistics of no rows at all."""
    width = n_regressors + 1
    return NodeStatistics(
        weight=np.zeros(n_nodes),
        mean=np.zeros((n_nodes, width)),
        scatter=np.zeros((n_nodes, width, width)),
        lower=np.full(n_nodes, np.inf),
        upper=np.full(n_nodes, -np.inf),
    )


@jit
def _tile_moments(
    x: AnyArray, y: AnyArray, weight: AnyArray, order: AnyArray
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Weight, mean and scatter of tiles of rows.

    Parameters
    ----------
    x : Array of shape (n_rows, n_regressors), float32
    y : Array of shape (n_rows,), float32
    weight : Array of shape (n_tiles, tile), float32
        Zero for padding.
    order : Array of shape (n_tiles, tile), int32
        Rows of the tiles.
    """
    joint = jnp.concatenate([x, y[:, None]], axis=1)[order]
    total = jnp.sum(weight, axis=1)
    mean = jnp.sum(weight[:, :, None] * joint, axis=1)
    mean = mean / jnp.maximum(total, 1e-30)[:, None]
    offset = joint - mean[:, None, :]
    scatter = jnp.einsum(
        "kti,ktj->kij", weight[:, :, None] * offset, offset, precision="highest"
    )
    return total, mean, scatter


def group_statistics(
    regressors: AnyArray,
    y: np.ndarray,
    weight: np.ndarray,
    group: np.ndarray,
    n_groups: int,
) -> NodeStatistics:
    """Statistics of every group of rows.

    Parameters
    ----------
    regressors : Array of shape (n_rows, n_regressors), float32
        On the host or on a device.
    y, weight : ndarray of shape (n_rows,), float64
    group : ndarray of shape (n_rows,), int
        In [0, n_groups).
    n_groups : int

    Returns
    -------
    NodeStatistics
        One entry for each group; products of float32 numbers, sums in float64.
    """
    statistics = no_statistics(n_groups, regressors.shape[1])
    # Blocks in which most groups fill their tiles.
    wanted = next_power_of_two(2 * _TILE * n_groups)
    suitable = min(max(wanted, _SMALLEST_BLOCK), _LARGEST_BLOCK)
    width = regressors.shape[1] + 1
    block = rows_at_once(4 * (4 * width + width**2 // _TILE + 4), suitable)
    n_tiles = block // _TILE + next_power_of_two(n_groups)
    # Keys of two bytes are sorted by counting.
    key = group.astype(np.uint16 if n_groups <= 1 << 16 else np.int64)

    def part(rows: slice) -> tuple[np.ndarray, NodeStatistics]:
        order = np.argsort(key[rows], kind="stable")
        count = np.bincount(key[rows], minlength=n_groups)
        occupied = np.flatnonzero(count)
        count = count[occupied]
        tiles = -(-count // _TILE)
        first_tile = np.cumsum(tiles) - tiles
        shift = first_tile * _TILE - (np.cumsum(count) - count)
        place = np.arange(len(order)) + np.repeat(shift, count)
        padded = np.zeros(n_tiles * _TILE, np.int32)
        padded[place] = order
        row_weight = np.zeros(n_tiles * _TILE, np.float32)
        row_weight[place] = weight[rows][order]
        x, output = block_of(regressors, rows, block), y[rows]
        sorted_output = output[order]
        begin = np.cumsum(count) - count
        output = np.pad(output, (0, block - len(output)))
        moments = _tile_moments(
            x,
            output.astype(np.float32),
            row_weight.reshape(n_tiles, _TILE),
            padded.reshape(n_tiles, _TILE),
        )
        used = tiles.sum()
        total, mean, scatter = (
            np.asarray(array)[:used].astype(np.float64) for array in moments
        )
        return occupied, NodeStatistics(
            *_joined(total, mean, scatter, first_tile),
            lower=np.minimum.reduceat(sorted_output, begin),
            upper=np.maximum.reduceat(sorted_output, begin),
        )

    for occupied, found in in_blocks(part, len(y), block):
        _add(statistics, occupied, found)
    return statistics


def _joined(
    weight: np.ndarray, mean: np.ndarray, scatter: np.ndarray, first: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Moments of runs of tiles, which begin at the ``first`` ones."""
    total = np.add.reduceat(weight, first)
    run = np.repeat(np.arange(len(first)), np.diff(np.append(first, len(weight))))
    share = weight / np.maximum(total, 1e-300)[run]
    whole = np.add.reduceat(share[:, None] * mean, first, axis=0)
    offset = mean - whole[run]
    between = weight[:, None, None] * offset[:, :, None] * offset[:, None, :]
    return total, whole, np.add.reduceat(scatter + between, first, axis=0)


def _add(statistics: NodeStatistics, index: np.ndarray, more: NodeStatistics) -> None:
    """Add statistics to some entries of others, in place (Chan et al. 1983)."""
    before = statistics.weight[index]
    total = before + more.weight
    share = more.weight / np.maximum(total, 1e-300)
    offset = more.mean - statistics.mean[index]
    between = (before * share)[:, None, None] * offset[:, :, None] * offset[:, None, :]
    statistics.weight[index] = total
    statistics.mean[index] += share[:, None] * offset
    statistics.scatter[index] += more.scatter + between
    statistics.lower[index] = np.minimum(statistics.lower[index], more.lower)
    statistics.upper[index] = np.maximum(statistics.upper[index], more.upper)
