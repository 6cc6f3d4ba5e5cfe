"""Numbers from keys: the published mixer, and no slant in what is made of it."""

from __future__ import annotations

import numpy as np

from secret_jax.runtime.hashing import mix, random_numbers


def test_mix_is_splitmix64():
    """Its published first outputs for the seed 0."""
    golden = 0x9E3779B97F4A7C15
    state = np.array([k * golden % 2**64 for k in range(3)], np.uint64)
    assert [hex(v) for v in mix(state)] == [
        "0xe220a8397b1dcdaf",
        "0x6e789e6aa1b965f4",
        "0x6c45d188009454f",
    ]


def test_random_numbers_are_those_of_their_key_alone():
    key = np.array([7, 2**64 - 1, 0], np.uint64)
    numbers = random_numbers(key, 500)
    assert (numbers.shape, numbers.dtype) == ((3, 500), np.float32)
    assert np.array_equal(random_numbers(key[1:2], 20)[0], numbers[1, :20])
    # A float32 holds 24 bits: of 1500 numbers a few may meet by chance, no more.
    assert len(np.unique(numbers)) > 1490


def test_random_numbers_are_uniform_and_never_an_end(monkeypatch):
    numbers = random_numbers(np.arange(4000, dtype=np.uint64), 50)
    assert 0 < numbers.min() < 1e-4
    assert 1 - 1e-4 < numbers.max() < 1
    for part in (numbers, numbers[:, :1], numbers[:, -1:]):
        count = np.bincount((part.ravel() * 20).astype(int), minlength=20)
        expected = part.size / 20
        # Five standard deviations of a binomial count.
        assert np.abs(count - expected).max() < 5 * np.sqrt(expected)
    # The correlation of independent numbers has a deviation of 1 / sqrt(4000).
    correlation = np.corrcoef(numbers[:, :5].T) - np.eye(5)
    assert np.abs(correlation).max() < 5 / np.sqrt(4000)
    # Float32 rounds the last of the numbers below one up to it.
    ends = np.array([[0, 2**64 - 1, 2**63]], np.uint64)
    monkeypatch.setattr("secret_jax.runtime.hashing.mix", lambda key: ends)
    low, high, half = random_numbers(np.zeros(1, np.uint64), 3)[0]
    assert 0 < low < 1e-7
    assert 1 - 1e-7 < high < 1
    assert half == 0.5
