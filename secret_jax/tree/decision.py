"""Split decision, shared by NumPy and JAX: which child a row goes to."""

from __future__ import annotations

from typing import Any

from secret_jax.runtime.linalg import AnyArray


def goes_left(
    projection: AnyArray | float,
    threshold: AnyArray | float,
    discrete: AnyArray,
    code: AnyArray,
    listed: AnyArray,
    larger_left: AnyArray,
    xp: Any,
) -> Any:
    """Whether rows go left at splits.

    Parameters
    ----------
    projection, threshold : Array or float
        At a split on continuous attributes a row goes left up to the threshold.
    discrete : Array, bool
        Whether the split is on a discrete attribute.
    code : Array, int32
        The row's category there; -1 if training never saw it.
    listed : Array, bool
        Whether the category goes left.
    larger_left : Array, bool
        Where unseen categories go: to the larger child.
    xp : module
        `numpy` or `jax.numpy`.

    Returns
    -------
    Array, bool
        The shapes are broadcast.
    """
    known = xp.where(code >= 0, listed, larger_left)
    return xp.where(discrete, known, projection <= threshold)
