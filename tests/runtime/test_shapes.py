"""Sizes of padded arrays: the smallest of few that hold all."""

from __future__ import annotations

import numpy as np
import pytest

from secret_jax.runtime.shapes import bucket, next_power_of_two, padded


def test_sizes():
    powers = [2**k for k in range(12)]
    for n in range(1, 1025):
        assert next_power_of_two(n) == min(p for p in powers if p >= n)
        assert bucket(n, smallest=8) == min(8 * 4**k for k in range(6) if 8 * 4**k >= n)
    assert next_power_of_two(0) == 1


@pytest.mark.parametrize("fill", [0, -1.5])
def test_padding_is_behind_the_values_and_keeps_their_type(fill):
    values = np.arange(1, 7, dtype=np.float32).reshape(3, 2)
    found = padded(values, 5, fill)
    assert found.dtype == np.float32
    assert np.array_equal(found[:3], values)
    assert np.array_equal(found[3:], np.full((2, 2), fill))
    assert padded(np.ones(2, bool), 3).tolist() == [True, True, False]
