"""Quadratic and linear discriminants of two Gaussian classes.

Dobra & Gehrke 2002, sections 4.2.1 and 4.2.2. Two slips of the printed text are
mended: the direction inverts the *within*-class scatter, and the argument of Erf in the
half-space probability has the opposite sign.
"""

import jax
import jax.numpy as jnp
from jax.scipy.special import ndtr
from jaxtyping import Array, Bool, Float

from secret_jax.runtime.arrays import taken
from secret_jax.runtime.linalg import AnyArray, guarded_solve, namespace, unit_vectors


def qda_threshold(
    fraction: Float[Array, " 2"],
    mean: Float[Array, "2 ..."],
    variance: Float[Array, "2 ..."],
) -> tuple[Float[Array, " ..."], Bool[Array, " ..."]]:
    r"""Point between two class means where the weighted normal densities are equal.

    Where no root lies between the means (above all where they coincide) the point is
    :math:`(\alpha_1\sigma_1\eta_1 + \alpha_2\sigma_2\eta_2) / (\alpha_1\sigma_1 +
    \alpha_2\sigma_2)`; where one class has no spread,
    :math:`\alpha_1\eta_1 + \alpha_2\eta_2`.

    ``fraction``: class probabilities. Returns ``between``: whether it is a root between
    the means.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> threshold, between = qda_threshold(
    ...     jnp.array([0.5, 0.5]), jnp.array([0.0, 2.0]), jnp.array([1.0, 1.0])
    ... )
    >>> float(threshold), bool(between)
    (1.0, True)
    """
    shape = (2,) + (1,) * (mean.ndim - 1)
    alpha = fraction.reshape(shape)
    tiny = jnp.finfo(mean.dtype).tiny
    spread = variance > 0
    safe = jnp.where(spread, variance, 1.0)
    # Coordinates about the midpoint in units of the larger deviation: well scaled.
    middle = 0.5 * (mean[0] + mean[1])
    unit = jnp.sqrt(jnp.max(safe, axis=0))
    first, second = (mean - middle) / unit
    v1, v2 = safe / unit**2
    log_ratio = jnp.log(alpha[0]) - jnp.log(alpha[1])

    a = 1 / v1 - 1 / v2
    b = -2 * (first / v1 - second / v2)
    c = first**2 / v1 - second**2 / v2 - 2 * log_ratio + jnp.log(v1 / v2)
    discriminant = b * b - 4 * a * c
    root = jnp.sqrt(jnp.maximum(discriminant, 0.0))
    # Of the two roots the smaller one, without cancellation. Only it can lie between
    # the means, and for equal variances it solves the linear equation.
    q = -0.5 * (b + jnp.where(b >= 0, root, -root))
    candidate = c / jnp.where(jnp.abs(q) > tiny, q, 1.0)

    low, high = jnp.minimum(first, second), jnp.maximum(first, second)
    inside = (candidate > low) & (candidate < high)
    both = spread[0] & spread[1]
    between = inside & (discriminant >= 0) & both

    deviation = jnp.sqrt(jnp.maximum(variance, 0.0))
    pull = jnp.where(both, alpha * deviation, alpha)
    fallback = jnp.sum(pull * mean, axis=0) / jnp.maximum(jnp.sum(pull, axis=0), tiny)
    return jnp.where(between, middle + unit * candidate, fallback), between


def lda_direction(
    fraction: Float[Array, " 2"],
    mean: Float[Array, "2 n"],
    covariance: Float[Array, "2 n n"],
    tolerance: float,
) -> Float[Array, " n"]:
    r"""Fisher's direction, :math:`(\sum_i \alpha_i\Sigma_i)^{-1}(\mu_1-\mu_2)`.

    ``tolerance``: columns whose within-class pivot is at or below it get a zero.
    Of unit length, or zero where the means coincide.
    """
    within = fraction[0] * covariance[0] + fraction[1] * covariance[1]
    return unit_vectors(guarded_solve(within, mean[0] - mean[1], tolerance))


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
    mean: jax.Array, variance: jax.Array, threshold: jax.Array
) -> jax.Array:
    r"""P[x <= threshold] of a normal variable, a step where it has no spread.

    With ``mean`` :math:`n^T\mu` and ``variance`` :math:`n^T\Sigma n` this is the
    probability of a half-space (Proposition 1 of Dobra & Gehrke 2002).
    """
    spread = variance > 0
    deviation = jnp.sqrt(jnp.where(spread, variance, 1.0))
    step = (mean <= threshold).astype(mean.dtype)
    return jnp.where(spread, ndtr((threshold - mean) / deviation), step)
