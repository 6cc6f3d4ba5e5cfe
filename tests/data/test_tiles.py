"""Where rows lie on accelerators, and what programs over them keep."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rows_of_nodes import Loops, in_tiles

from secret_jax.data import tiles
from secret_jax.data.tiles import TiledRows

LENGTH = np.array([3, 0, 8, 9, 0, 0])


def test_a_node_begins_with_a_tile_of_its_own():
    rows = TiledRows.of(LENGTH, 6, 4)
    assert rows.first.tolist() == [0, 1, 1, 3, 6, 6]
    assert np.asarray(rows.node).tolist() == [0, 2, 2, 3, 3, 3]
    assert rows.filled.tolist() == [3, 4, 4, 4, 4, 1]
    values = np.arange(1, 21)
    assert in_tiles(values, LENGTH, 6, 4).tolist() == [
        [1, 2, 3, 0],
        *([4, 5, 6, 7], [8, 9, 10, 11]),
        *([12, 13, 14, 15], [16, 17, 18, 19], [20, 0, 0, 0]),
    ]


def test_tiles_that_no_node_needs_hold_nothing():
    rows = TiledRows.of(LENGTH, 9, 4)
    assert rows.filled.tolist() == [3, 4, 4, 4, 4, 1, 0, 0, 0]
    found = rows.sums(jnp.ones((9, 4)))
    assert found.tolist() == LENGTH.tolist()


@pytest.mark.parametrize("n", [5, 8, 32])
def test_samples_are_rows_of_their_own(rng, n):
    length = np.array([40, 3, 0, 17])
    whole = rng.normal(size=(2, length.sum())).astype(np.float32)
    rows = TiledRows.of(length, 12, 8)
    sample = rows.head(in_tiles(whole, length, 12, 8), n)
    some = TiledRows.samples(rows.length, n)
    assert some.length.tolist() == np.minimum(length, n).tolist()
    first = [whole[:, s][:, :n] for s in Loops(length).slices]
    expected = [own @ own.T for own in first]
    found = some.products(sample, sample)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(
        some.least(sample), [own.min(axis=1, initial=np.inf) for own in first]
    )
    head = some.head(sample, 3)
    np.testing.assert_array_equal(head, Loops(length).head(whole, 3))


def test_one_program_serves_all_levels(rng):
    """Lengths of nodes, and so which tile is whose, are no part of a program."""
    traced = []

    @jax.jit
    def sums(length, values):
        traced.append(length.shape)
        return TiledRows.of(length, 12, 8).sums(values)

    values = rng.normal(size=70).astype(np.float32)
    for length in ([70, 0, 0, 0], [1, 60, 9, 0], [10, 20, 20, 20]):
        own = np.array(length)
        found = sums(own, in_tiles(values, own, 12, 8))
        kept = own > 0
        expected = Loops(own[kept]).sums(values)
        np.testing.assert_allclose(found[kept], expected, rtol=1e-5, atol=1e-5)
    assert len(traced) == 1


def test_sums_hold_in_the_least_digits_of_large_numbers():
    """Each number is three of two bytes, to its last digit."""
    rows = TiledRows.of(np.array([3]), 1, 4)
    values = np.array([[[16777215.0, 1 / 3, -16777214.0, 0.0]]], np.float32)
    code = np.array([[[0, 1, 0, 2]]], np.int32)
    found = rows.sums_by_code(jnp.asarray(code), 3, jnp.asarray(values))
    assert found.tolist() == [[[[1.0, np.float32(1 / 3).item(), 0.0]]]]


def test_rows_are_a_tree_of_arrays():
    rows = TiledRows.of(LENGTH, 6, 4)
    again = jax.tree.map(np.asarray, rows)
    assert again.tile == 4
    assert again.n_nodes == len(LENGTH)
    assert len(jax.tree.leaves(TiledRows.samples(LENGTH, 16))) == 3


def test_sums_of_very_many_tiles_are_those_of_its_parts(rng, monkeypatch):
    length = np.array([70, 0, 1, 60, 9])
    values = in_tiles(rng.integers(-9, 9, (2, length.sum())), length, 23, 8)
    rows = TiledRows.of(length, 23, 8)
    kinds = values, values.astype(np.float32)
    expected = [rows.sums(jnp.asarray(each)) for each in kinds]
    monkeypatch.setattr(tiles, "_MOST_MEMBERS", 5 * 7)
    again = TiledRows.of(length, 23, 8)
    np.testing.assert_array_equal(again.node, rows.node)
    for each, own in zip(kinds, expected, strict=True):
        np.testing.assert_array_equal(rows.sums(jnp.asarray(each)), own)


def test_sums_of_a_hundred_million_rows_take_little_memory():
    """By the compiler's own account: less than the matrix of whose is which tile."""
    n_tiles, n_nodes = 400_000, 4096

    def sums(length, values):
        return TiledRows.of(length, n_tiles, 256).sums(values)

    shapes = ((n_nodes,), jnp.int32), ((n_tiles, 2, 256), jnp.float32)
    given = [jax.ShapeDtypeStruct(*shape) for shape in shapes]
    memory = jax.jit(sums).lower(*given).compile().memory_analysis()
    assert memory.temp_size_in_bytes < 1.5e9 < 4 * n_tiles * n_nodes
