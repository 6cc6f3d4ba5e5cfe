"""What there is to say of a tree that was never split."""

from __future__ import annotations

from secret_jax.tree.structure import StopReason, Tree

_TRIED = (
    StopReason.PRUNED,
    StopReason.MIN_GAIN,
    StopReason.NO_USABLE_SPLIT,
)


def one_leaf_sentence(tree: Tree) -> str:
    """Why a tree has one leaf, and what it is then; empty if it has more."""
    if tree.n_leaves > 1:
        return ""
    linear = bool(tree.coefficient[0, :, 1:].any())
    kind = tree.loss.name_of_regression(tree.n_outputs)
    what = f"this is a {kind} regression" if linear else "this is a constant"
    reason = StopReason(int(tree.stop_reason[0]))
    why = "no split pays" if reason in _TRIED else reason.sentence
    return f"{why}: {what}"
