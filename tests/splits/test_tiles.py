"""Sums over tiles of rows against float64, and padding that nobody reads."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from secret_jax.runtime.linalg import written_out
from secret_jax.splits.tiles import TILE, each_of, in_tiles, n_used, sum_of


def test_rows_are_cut_into_tiles_in_their_order():
    rows = jnp.arange(3 * TILE * 2, dtype=jnp.float32).reshape(-1, 2)
    tiles = in_tiles(rows)
    assert tiles.shape == (3, TILE, 2)
    np.testing.assert_array_equal(tiles.reshape(-1, 2), rows)
    # No multiple of a tile, or all at once: a single one.
    assert in_tiles(rows[:1001]).shape == (1, 1001, 2)
    with written_out():
        assert in_tiles(rows).shape == (1, 3 * TILE, 2)
    assert in_tiles(rows[:, :0]).shape == (3, TILE, 0)


def test_tiles_after_the_last_weight_are_not_used():
    weight = np.zeros((5, 4), np.float32)
    assert n_used(jnp.asarray(weight)) == 0
    weight[1, 2] = weight[3, 0] = 1
    assert n_used(jnp.asarray(weight)) == 4


def test_sums_of_many_tiles_keep_their_digits(rng):
    """Added up one after the other float32 would lose two more of them."""
    values = (100 + rng.normal(size=(20_000, 2))).astype(np.float32)

    def total(n):
        return jax.jit(lambda v: sum_of(lambda tile: tile, n, v))(values)

    for n in (20_000, 700):
        exact = values[:n].astype(np.float64).sum(axis=0)
        np.testing.assert_allclose(total(jnp.int32(n)), exact, rtol=1e-7)
    naive = np.add.accumulate(values, axis=0)[-1]  # so there was something to lose
    assert np.abs(naive / values.astype(np.float64).sum(axis=0) - 1).max() > 1e-6


def test_what_is_made_of_each_tile_is_zero_after_the_last(rng):
    values = rng.normal(size=(4, 8)).astype(np.float32)
    found = each_of(lambda tile: (2 * tile, tile.sum()), jnp.int32(3), values)
    np.testing.assert_array_equal(found[0][:3], 2 * values[:3])
    np.testing.assert_allclose(found[1][:3], values[:3].sum(axis=1), rtol=1e-6)
    assert not found[0][3].any()
    assert found[1][3] == 0
