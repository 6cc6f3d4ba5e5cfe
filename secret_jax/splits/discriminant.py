"""Quadratic and linear discriminants of two Gaussian classes, of many nodes at once.

Dobra & Gehrke 2002, sections 4.2.1 and 4.2.2. Two slips of the printed text are
mended: the direction inverts the *within*-class scatter, and the argument of Erf in the
half-space probability has the opposite sign.
"""

import jax.scipy.special
import numpy as np
import scipy.special
from jaxtyping import Bool, Float

from secret_jax.runtime.linalg import (
    AnyArray,
    guarded_solve,
    namespace,
    taken,
    unit_vectors,
)

# A pivot of a correlation matrix below this is rounding: the column is dependent.
DEPENDENT = 4e-6


def qda_threshold(
    fraction: Float[AnyArray, "... 2"],
    mean: Float[AnyArray, "... 2 n"],
    variance: Float[AnyArray, "... 2 n"],
) -> tuple[Float[AnyArray, "... n"], Bool[AnyArray, "... n"]]:
    r"""Point between two class means where the weighted normal densities are equal.

    Where no root lies between the means (above all where they coincide) the point is
    :math:`(\alpha_1\sigma_1\eta_1 + \alpha_2\sigma_2\eta_2) / (\alpha_1\sigma_1 +
    \alpha_2\sigma_2)`; where one class has no spread,
    :math:`\alpha_1\eta_1 + \alpha_2\eta_2`.

    ``fraction``: class probabilities. Returns ``between``: whether it is a root between
    the means.

    Examples
    --------
    >>> threshold, between = qda_threshold(
    ...     np.array([0.5, 0.5]), np.array([[0.0], [2.0]]), np.array([[1.0], [1.0]])
    ... )
    >>> threshold.item(), between.item()
    (1.0, True)
    """
    xp = namespace(mean)
    tiny = xp.finfo(mean.dtype).tiny
    alpha, spread = fraction[..., None], variance > 0
    both = spread.all(axis=-2)
    safe = xp.where(spread, variance, 1.0)
    # Coordinates about the midpoint in units of the larger deviation: well scaled.
    middle = 0.5 * (mean[..., 0, :] + mean[..., 1, :])
    unit = xp.sqrt(xp.max(safe, axis=-2))
    apart = (mean - middle[..., None, :]) / unit[..., None, :]
    scaled = safe / unit[..., None, :] ** 2
    (first, second), (v1, v2) = (xp.moveaxis(a, -2, 0) for a in (apart, scaled))
    log_ratio = xp.log(fraction[..., :1]) - xp.log(fraction[..., 1:])

    a = 1 / v1 - 1 / v2
    b = -2 * (first / v1 - second / v2)
    c = first**2 / v1 - second**2 / v2 - 2 * log_ratio + xp.log(v1 / v2)
    discriminant = b * b - 4 * a * c
    root = xp.sqrt(xp.maximum(discriminant, 0.0))
    # Of the two roots the smaller one, without cancellation. Only it can lie between
    # the means, and for equal variances it solves the linear equation.
    q = -0.5 * (b + xp.where(b >= 0, root, -root))
    candidate = c / xp.where(xp.abs(q) > tiny, q, 1.0)

    low, high = xp.minimum(first, second), xp.maximum(first, second)
    inside = (candidate > low) & (candidate < high)
    between = inside & (discriminant >= 0) & both

    deviation = xp.sqrt(xp.maximum(variance, 0.0))
    pull = xp.where(both[..., None, :], alpha * deviation, alpha)
    total = xp.maximum(xp.sum(pull, axis=-2), tiny)
    fallback = xp.sum(pull * mean, axis=-2) / total
    return xp.where(between, middle + unit * candidate, fallback), between


def lda_direction(
    within: Float[AnyArray, "... n n"],
    difference: Float[AnyArray, "... n"],
    tolerance: float,
) -> Float[AnyArray, "... n"]:
    r"""Fisher's direction, :math:`(\sum_i \alpha_i\Sigma_i)^{-1}(\mu_1-\mu_2)`.

    ``within``: mean of the covariances of the classes; ``difference``: of their means;
    ``tolerance``: columns whose pivot is at or below it get a zero. Of unit length, or
    zero where the means coincide.
    """
    return unit_vectors(guarded_solve(within, difference, tolerance))


def oriented(direction: Float[AnyArray, "... n"]) -> AnyArray:
    """Unit vector whose largest component is positive; zero stays zero.

    Which class is called the first is chance; which side is left must not be.
    """
    xp = namespace(direction)
    largest = xp.argmax(xp.abs(direction), axis=-1)
    turned = taken(direction, largest, direction.ndim - 1)[..., None] < 0
    unit = unit_vectors(direction)
    return xp.where(turned, -unit, unit)


def left_probability(
    mean: AnyArray, variance: AnyArray, threshold: AnyArray
) -> AnyArray:
    r"""P[x <= threshold] of a normal variable, a step where it has no spread.

    With ``mean`` :math:`n^T\mu` and ``variance`` :math:`n^T\Sigma n` this is the
    probability of a half-space (Proposition 1 of Dobra & Gehrke 2002).
    """
    xp = namespace(mean)
    ndtr = scipy.special.ndtr if xp is np else jax.scipy.special.ndtr
    spread = variance > 0
    deviation = xp.sqrt(xp.where(spread, variance, 1.0))
    step = (mean <= threshold).astype(mean.dtype)
    return xp.where(spread, ndtr((threshold - mean) / deviation), step)
