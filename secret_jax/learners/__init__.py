"""Learners of the literature: CART, GUIDE, M5, PHD, RETIS, SUPPORT, conjunctions."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from secret_jax.learners.cart import CartSplits as CartSplits
    from secret_jax.learners.conjunctive import ConjunctiveSplits as ConjunctiveSplits
    from secret_jax.learners.guide import GuideSplits as GuideSplits
    from secret_jax.learners.m5 import M5Splits as M5Splits
    from secret_jax.learners.m5_leaves import M5Linear as M5Linear
    from secret_jax.learners.m5_pruning import M5Pruning as M5Pruning
    from secret_jax.learners.phd import PhdSplits as PhdSplits
    from secret_jax.learners.retis import RetisSplits as RetisSplits
    from secret_jax.learners.support import SupportSplits as SupportSplits

_HOMES = {
    "CartSplits": "cart",
    "ConjunctiveSplits": "conjunctive",
    "GuideSplits": "guide",
    "M5Linear": "m5_leaves",
    "M5Pruning": "m5_pruning",
    "M5Splits": "m5",
    "PhdSplits": "phd",
    "RetisSplits": "retis",
    "SupportSplits": "support",
}
__all__ = sorted(_HOMES)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"secret_jax.learners.{_HOMES[name]}"), name)
