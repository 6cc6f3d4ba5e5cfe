"""Hashes as random numbers: the same content gives the same on every machine."""

from typing import Any

import numpy as np

# Of splitmix64: two multipliers, and 2^64 over the golden ratio.
_M1 = np.uint64(0xBF58476D1CE4E5B9)
_M2 = np.uint64(0x94D049BB133111EB)
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def mix(value: Any) -> Any:
    """Apply a round of the splitmix64 finaliser (Steele, Lea & Flood 2014), uint64.

    Of a number, an array, or an array of JAX in programs with 64 bits.
    """
    with np.errstate(over="ignore"):
        value = value + _GOLDEN
        value = (value ^ (value >> np.uint64(30))) * _M1
        value = (value ^ (value >> np.uint64(27))) * _M2
        return value ^ (value >> np.uint64(31))


def mix_in_place(value: np.ndarray, spare: np.ndarray) -> None:
    """Apply `mix` to an array; ``spare``, of its shape and type, is overwritten."""
    value += _GOLDEN
    for shift, factor in ((30, _M1), (27, _M2)):
        value ^= np.right_shift(value, np.uint64(shift), out=spare)
        value *= factor
    value ^= np.right_shift(value, np.uint64(31), out=spare)


def random_numbers(key: np.ndarray, n: int) -> np.ndarray:
    """Draw float32 numbers in (0, 1) for each of several uint64 keys.

    Without the ends: a quantile of each is finite.
    """
    counter = np.arange(n, dtype=np.uint64)
    bits = mix(mix(key[:, None]) ^ counter) >> np.uint64(11)
    numbers = (bits.astype(np.float64) * 2.0**-53).astype(np.float32)
    return np.clip(numbers, np.float32(2**-24), np.float32(1 - 2**-24))
