"""The Gini gain of a binary split of two classes."""

import jax
import jax.numpy as jnp

# A smaller product of both shares is float32's rounding: all rows go one way.
_ROUNDING = 1e-10


def gini_gain(
    class_fraction: jax.Array, left_fraction: jax.Array, left_and_class: jax.Array
) -> jax.Array:
    r"""Gini gain, :math:`2 (P[1, L] - P[1] P[L])^2 / (P[L] (1 - P[L]))`.

    Equation (1) of Dobra & Gehrke 2002 as it follows from the definition above it; the
    printed one does not.

    ``class_fraction``: P[1], the share of the first class; ``left_fraction``: P[L], the
    share of the rows that go left; ``left_and_class``: P[1, L], the share that is of
    the first class and goes left. Zero where all rows go one way.

    Examples
    --------
    >>> float(gini_gain(jnp.array(0.5), jnp.array(0.5), jnp.array(0.5)))
    0.5
    """
    spread = left_fraction * (1 - left_fraction)
    excess = left_and_class - class_fraction * left_fraction
    usable = spread > _ROUNDING
    return jnp.where(usable, 2 * excess**2 / jnp.where(usable, spread, 1.0), 0.0)
