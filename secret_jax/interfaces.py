"""Interfaces for methods of your own: bases, what they get and what they give."""

from secret_jax.fit.interface import (
    Evidence,
    Fitted,
    Gates,
    Pruned,
    PruningRule,
    Refined,
    Refinement,
)
from secret_jax.losses.interface import Likelihood, Loss
from secret_jax.models.interface import LeafModel, Models
from secret_jax.splits.interface import (
    Level,
    Node,
    OneNodeFinder,
    Split,
    SplitFinder,
)

__all__ = [
    "Evidence",
    "Fitted",
    "Gates",
    "LeafModel",
    "Level",
    "Likelihood",
    "Loss",
    "Models",
    "Node",
    "OneNodeFinder",
    "Pruned",
    "PruningRule",
    "Refined",
    "Refinement",
    "Split",
    "SplitFinder",
]
