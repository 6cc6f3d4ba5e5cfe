"""Numbers as the page prints them."""

from __future__ import annotations

import math

from secret_jax.inspect.printing import number

_STEP = 1e-2  # of the target's standard deviation


def in_steps(value: float, target_scale: float) -> str:
    """A value of the target, to a hundredth of its standard deviation.

    Examples
    --------
    >>> in_steps(180_761.3, 79_000.0)
    '181,000'
    """
    return number(round(value, round(-math.log10(_STEP * target_scale))))
