"""Bounds that keep predictions on the side of zero where all targets are."""

from dataclasses import replace

import numpy as np
from jaxtyping import Float

from secret_jax.tree.structure import Tree

# Share of the largest magnitude by which rounding may move a target away from zero.
_ROUNDING = 1e-6


def bounded(
    tree: Tree,
    lower: Float[np.ndarray, " n_outputs"],
    upper: Float[np.ndarray, " n_outputs"],
) -> Tree:
    """Bound the predictions at zero where no target crosses it.

    Hours, prices and counts, for example, are never predicted to be negative.

    ``tree``: tree that predicts the targets, not logarithms; ``lower``, ``upper``:
    range of all targets, in standardised units.
    """
    if not tree.says_targets:
        return tree
    schema = tree.schema
    center, scale = np.array(schema.target_centers), np.array(schema.target_scales)
    zero = -center / scale
    near = _ROUNDING * np.abs([zero, lower, upper]).max(axis=0)
    lowest = np.where(lower >= zero - near, _rounded(center, scale, 1.0), -np.inf)
    highest = np.where(upper <= zero + near, _rounded(center, scale, -1.0), np.inf)
    if np.isinf(lowest).all() and np.isinf(highest).all():
        return tree
    return replace(tree, bounds=(tuple(lowest.tolist()), tuple(highest.tolist())))


def _rounded(center: np.ndarray, scale: np.ndarray, side: float) -> np.ndarray:
    """Nearest float32 numbers to zero on one side of it, in standardised units."""
    with np.errstate(over="ignore"):  # far away, and no bound then
        value = (-center / scale).astype(np.float32)
    beyond = side * (value.astype(np.float64) * scale + center) < 0
    next_one = np.nextafter(value, np.float32(side * np.inf))
    return np.where(beyond, next_one, value).astype(np.float64)
