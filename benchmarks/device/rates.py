"""What a device can do and what this package gets of it: products, copies, EM.

Every rate is the median of several calls after one that compiles, each waited for.
"""

from __future__ import annotations

import functools
import statistics
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from secret_jax.runtime.devices import on_accelerator
from secret_jax.runtime.linalg import written_out
from secret_jax.splits.em import fit_mixture
from secret_jax.splits.mixture import MixtureRows


def median_seconds(function: Callable[[], Any], repeats: int = 5) -> float:
    """Median seconds of a call until its result is ready, the first one left out."""
    times = []
    for _ in range(repeats + 1):
        started = time.perf_counter()
        jax.block_until_ready(function())
        times.append(time.perf_counter() - started)
    return statistics.median(times[1:])


@jax.jit
def _product(a: jax.Array, b: jax.Array) -> jax.Array:
    return jnp.matmul(a, b, precision="highest")


@jax.jit
def _copy(a: jax.Array) -> jax.Array:
    return a + 1


def product_rate(device: Any, size: int) -> float:
    """FLOP/s of a large square product of matrices, float32 at highest precision."""
    with jax.default_device(device):
        a = jnp.ones((size, size), jnp.float32)
        return 2 * size**3 / median_seconds(lambda: _product(a, a))


def copy_rate(device: Any, n_bytes: int) -> float:
    """Bytes read and written per second by a copy that adds one."""
    with jax.default_device(device):
        a = jnp.ones(n_bytes // 4, jnp.float32)
        return 2 * a.nbytes / median_seconds(lambda: _copy(a))


@functools.partial(jax.jit, static_argnames=("n_steps",))
def _mixtures(
    z: jax.Array, responsibility: jax.Array, *, n_steps: int
) -> tuple[jax.Array, jax.Array]:
    """Steps that EM took in every node of a batch, and where it ended."""

    def one(z, responsibility):
        rows = MixtureRows.of(z, jnp.ones(z.shape[0], z.dtype))
        fit = fit_mixture(
            rows,
            responsibility.reshape(rows.weight.shape),
            jnp.ones(z.shape[1], bool),
            max_iter=n_steps,
            tolerance=-np.inf,  # no node stops before the others
            floor=1e-4,
        )
        return fit.n_iterations, fit.objective

    with written_out(on_accelerator()):  # as in the search
        return jax.vmap(one)(z, responsibility)


def em_rate(
    device: Any, n_nodes: int, n_rows: int, n_columns: int, n_steps: int
) -> dict[str, float]:
    """Rows times nodes times steps per second of the batched EM.

    Returns
    -------
    dict
        ``row_steps_per_second``, and ``flops`` per second of the matrix products alone:
        of D dimensions a row takes 6 (1 + D)² of them in a step (both densities and one
        matrix of moments).
    """
    n_dimensions = n_columns + 1
    random = np.random.default_rng(0)
    side = random.random((n_nodes, n_rows)) < 0.5
    z = random.normal(size=(n_nodes, n_rows, n_dimensions)) + side[:, :, None]
    start = np.where(side, 0.7, 0.3)
    with jax.default_device(device):
        arrays = [jnp.asarray(array, jnp.float32) for array in (z, start)]
        steps = np.asarray(_mixtures(*arrays, n_steps=n_steps)[0])
        seconds = median_seconds(lambda: _mixtures(*arrays, n_steps=n_steps))
    row_steps = float(steps.sum()) * n_rows
    per_row = 6 * (1 + n_dimensions) ** 2
    return {
        "nodes": n_nodes,
        "rows": n_rows,
        "columns": n_columns,
        "steps": float(steps.mean()),
        "seconds": seconds,
        "row_steps_per_second": row_steps / seconds,
        "flops": row_steps * per_row / seconds,
    }


@functools.partial(jax.jit, static_argnames=("n_rows", "n_columns"))
def _friedman(key: jax.Array, *, n_rows: int, n_columns: int):
    for_x, for_noise = jax.random.split(key)
    x = jax.random.uniform(for_x, (n_rows, n_columns), jnp.float32)
    signal = (
        10 * jnp.sin(jnp.pi * x[:, 0] * x[:, 1])
        + 20 * (x[:, 2] - 0.5) ** 2
        + 10 * x[:, 3]
        + 5 * x[:, 4]
    )
    return x, signal + jax.random.normal(for_noise, (n_rows,), jnp.float32)


def friedman_on(
    device: Any, n_rows: int, n_columns: int, seed: int
) -> tuple[jax.Array, jax.Array]:
    """Friedman's first function with noise of variance 1, made on the device."""
    with jax.default_device(device):
        made = _friedman(jax.random.key(seed), n_rows=n_rows, n_columns=n_columns)
        return jax.block_until_ready(made)
