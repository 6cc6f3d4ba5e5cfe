"""Interfaces for methods of your own: bases, what they get and what they give."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from secret_jax.fit.prune.interface import Evidence as Evidence
    from secret_jax.fit.prune.interface import Pruned as Pruned
    from secret_jax.fit.prune.interface import PruningRule as PruningRule
    from secret_jax.fit.refine.interface import Fitted as Fitted
    from secret_jax.fit.refine.interface import Refined as Refined
    from secret_jax.fit.refine.interface import Refinement as Refinement
    from secret_jax.losses.interface import Loss as Loss
    from secret_jax.models.interface import LeafModel as LeafModel
    from secret_jax.models.interface import Models as Models
    from secret_jax.splits.interface import Node as Node
    from secret_jax.splits.interface import Split as Split
    from secret_jax.splits.interface import SplitFinder as SplitFinder

_HOMES = {
    "Evidence": "fit.prune.interface",
    "Fitted": "fit.refine.interface",
    "LeafModel": "models.interface",
    "Loss": "losses.interface",
    "Models": "models.interface",
    "Node": "splits.interface",
    "Pruned": "fit.prune.interface",
    "PruningRule": "fit.prune.interface",
    "Refined": "fit.refine.interface",
    "Refinement": "fit.refine.interface",
    "Split": "splits.interface",
    "SplitFinder": "splits.interface",
}
__all__ = sorted(_HOMES)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"secret_jax.{_HOMES[name]}"), name)
