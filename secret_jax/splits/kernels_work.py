"""Whether kernels of Triton work on a device: a few are tried, once in a process.

JAX does not compile them for every card of the capability that Triton asks for.
"""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from secret_jax.data.kernels import BLOCK
from secret_jax.data.tiles import TiledRows
from secret_jax.runtime.devices import own_settings, runs_triton
from secret_jax.runtime.environment import warn
from secret_jax.splits import rss_kernel
from secret_jax.splits.em_kernel import products_about


@functools.cache
def work_on(device: Any) -> bool:
    """Whether kernels compile for a device, and are right there."""
    if not runs_triton(device):
        return False
    try:
        with own_settings(), jax.default_device(device):
            pairs = jax.jit(tried)()
        right = all(np.allclose(*pair, atol=1e-4) for pair in pairs)
        why = "" if right else "a sum was wrong"
    except Exception as error:
        why = f"{type(error).__name__}: {error}".split("\n")[0]
    if why:
        warn(
            f"Kernels of Triton do not work on {device} ({why}). XLA computes the same "
            "in more time; another version of JAX may bring them."
        )
    return not why


def tried() -> list[tuple[Any, Any]]:
    """What kernels make of nodes of two tiles and of one, and of small matrices.

    Beside it what is right. One for each thing that a compiler may refuse, as every
    first fit waits for them: loops over rows, sums of tiles, products of two bytes,
    products of four beside places of the largest, three axes in sixteen warps, and
    elimination.
    """
    rows = TiledRows.of(np.array([2 * BLOCK, BLOCK]), 3, BLOCK, triton=True)
    each = replace(TiledRows.samples(np.full(3, BLOCK), BLOCK), triton=True)

    def constant(values: Any, *shape: int) -> Array:  # nothing that is compiled
        return jnp.asarray(np.broadcast_to(np.float32(values), shape))

    values = np.arange(3.0 * BLOCK).reshape(3, 1, BLOCK)
    z = np.stack([np.ones_like(values), values - 1.0], axis=-1)
    sums = np.einsum("tari,tarj->tij", z, z)
    tiles, one = constant(values, 3, 1, BLOCK), constant(1, 3, 1, BLOCK)
    cut, numbers = constant(1.5 * BLOCK, 3, 1, 1), constant([1, 2, 3], 1, 1, 3)
    bent, eye = constant(np.diag([1, 2, 3]), 1, 1, 3, 3), constant(np.eye(3), 1, 3, 3)
    # Of two rows (1, 1, 0) and (1, -1, 0): of the first, and of both.
    first = constant(np.outer([1, 1, 0], [1, 1, 0]), 1, 1, 3, 3)
    both = constant(np.diag([2, 2, 0]), 1, 3, 3)
    gain, models = rss_kernel.sides(first, both, constant(1, 1), 1, 1.0, 0.0)
    return [
        (
            products_about(rows, [constant(1, 2, 1, 1)], [tiles], one)[0][:, 0],
            np.stack([sums[0] + sums[1], sums[2]]),
        ),
        (
            each.moments_below(tiles, cut, tiles, one[:, 0])[0].ravel(),
            np.where(values <= 1.5 * BLOCK, values, 0.0).sum(axis=(1, 2)),
        ),
        (jnp.abs(rss_kernel.bent_most(bent, eye, 1)), np.array([0, 0, 1])),
        (rss_kernel.quantiles(one[:1, :, :3], numbers, 2, 1e-6), np.array([1, 3])),
        (gain, 2.0),
        (models[..., 0], np.array([[1, 0], [-1, 0]])),
    ]
