"""Split decision, shared by NumPy and JAX: which child a row goes to."""

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

    ``projection``, ``threshold``: at a split on continuous attributes a
    row goes left up to the threshold; ``discrete``: whether the split is on a discrete
    attribute; ``code`` int32: the row's category there; -1 if training never saw it;
    ``listed``: whether the category goes left; ``larger_left``: where unseen categories
    go: to the larger child. ``xp``: `numpy` or `jax.numpy`. The shapes are broadcast.
    """
    known = xp.where(code >= 0, listed, larger_left)
    return xp.where(discrete, known, projection <= threshold)
