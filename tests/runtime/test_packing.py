"""Arrays that cross to a device as one are, taken apart, what they were, to the bit."""

from __future__ import annotations

from typing import NamedTuple

import jax
import numpy as np
import pytest

from secret_jax.runtime.packing import Layout, Packed


class Few(NamedTuple):
    numbers: np.ndarray
    masks: np.ndarray
    rest: list[np.ndarray]


def arrays(n: int) -> Few:
    """Of all types, shapes and lengths that are no whole words; bits of all kinds."""
    rng = np.random.default_rng(n)
    bits = rng.integers(0, 1 << 32, (n, 3), dtype=np.uint32)
    bits[0] = 0x7FC00001, 0x00000001, 0x80000000  # a NaN with a payload, subnormal, -0
    return Few(
        bits.view(np.float32),
        rng.random((n, 3)) < 0.5,
        [
            rng.integers(-(1 << 31), 1 << 31, n).astype(np.int32),
            rng.integers(0, 1 << 16, 2 * n + 1).astype(np.uint16),
            np.float32(0.1),
            np.zeros((0, 4), bool),
        ],
    )


def assert_same(found: Few, expected: Few) -> None:
    pairs = zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True)
    for own, other in pairs:
        assert own.dtype == other.dtype
        assert own.shape == other.shape
        assert np.asarray(own).tobytes() == np.asarray(other).tobytes()


@pytest.mark.parametrize("n", [1, 5])
def test_arrays_are_what_they_were(n):
    packed = Packed.of(arrays(n))
    assert len(jax.tree.leaves(packed)) == 1
    assert_same(packed.apart(), arrays(n))
    assert_same(jax.jit(Packed.apart)(packed), arrays(n))


def test_what_is_written_on_the_host_is_what_crosses():
    layout = Layout.of(arrays(5))
    packed = layout.zeros()
    own = packed.apart()
    own.masks[2:4], own.numbers[1] = True, 0.1
    found = jax.jit(Packed.apart)(packed)
    assert (np.asarray(found.masks) == (np.arange(5) // 2 == 1)[:, None]).all()
    assert np.asarray(found.numbers)[1].tolist() == [np.float32(0.1)] * 3
    assert layout.zeros().words.sum() == 0


def test_wider_numbers_are_narrowed():
    packed = Packed.of({"place": np.arange(3), "share": np.full(2, 0.1)})
    found = jax.jit(Packed.apart)(packed)
    assert (found["place"].dtype, found["share"].dtype) == (np.int32, np.float32)
    np.testing.assert_array_equal(found["place"], [0, 1, 2])


@pytest.mark.parametrize("values", [np.array([1 << 31]), np.array([1j])])
def test_nothing_wraps(values):
    with pytest.raises(AssertionError):
        Packed.of([values])
