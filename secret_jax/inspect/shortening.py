"""What short equations cost, in a line."""

from __future__ import annotations

from secret_jax.inspect.printing import number
from secret_jax.losses.numbers import SquaredError
from secret_jax.tree.structure import Tree

# A smaller share of the error is not worth a line.
_NOTICEABLE = 0.005


def shortening_facts(tree: Tree) -> str:
    """How much less the short equations explain than the full ones; empty if little.

    Both by the training rows, which flatter full equations most.
    """
    if tree.full_error is None or tree.is_soft:
        return ""
    short, full = float(tree.leaf_error.sum()), float(sum(tree.full_error))
    if not full > 0 or short / full - 1.0 < _NOTICEABLE:
        return ""
    if isinstance(tree.loss, SquaredError):
        variance = float((tree.deviation[0] ** 2).sum())
        what = "R²"
        short, full = 1.0 - short / variance, 1.0 - full / variance
    else:
        what = tree.loss.error_name
    short_text, full_text = number(short, digits=3), number(full, digits=3)
    return (
        f"{what} on the training rows: {short_text} with these short equations, "
        f"{full_text} with full ones (equation_tolerance=0)"
    )
