"""Numbers as the page prints them."""

from __future__ import annotations

import math

from secret_jax.inspect.printing import number

_SUFFIXES = ((1e9, "G"), (1e6, "M"), (1e3, "k"))
_UNCHANGED = 1e4  # below it a number is as short without a suffix
_DIGITS = 6  # marks of an axis are round numbers
_STEP = 1e-2  # of the target's standard deviation


def in_steps(value: float, target_scale: float) -> str:
    """A value of the target, to a hundredth of its standard deviation.

    Examples
    --------
    >>> in_steps(180_761.3, 79_000.0)
    '181,000'
    """
    return number(round(value, round(-math.log10(_STEP * target_scale))))


def short(value: float) -> str:
    """A number for an axis.

    Examples
    --------
    >>> [short(value) for value in (0.25, 1500, 150_000, -2.5e6)]
    ['0.25', '1500', '150k', '-2.5M']
    """
    for size, suffix in _SUFFIXES:
        if abs(value) >= max(size, _UNCHANGED):
            return number(value / size, digits=_DIGITS) + suffix
    return number(value, digits=_DIGITS)
