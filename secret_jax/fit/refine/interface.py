"""Interface of refinements: values that turn a fitted tree into another one."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np

from secret_jax.data.rows import Rows, join, shuffled
from secret_jax.data.sampling import ROW_ORDER
from secret_jax.fit.grow.trees import Recipe
from secret_jax.fit.prune.interface import Evidence, Fold, Pruned, PruningRule
from secret_jax.losses.interface import OfLosses
from secret_jax.tree.routing import apply
from secret_jax.tree.soft import paths
from secret_jax.tree.structure import SplitKind, Tree

# A deviation is an estimate: more rows do not make a better gate.
_MOST_ROWS = 65536
# Least width, in deviations of the attributes over the table: a split between two rows
# that nearly coincide must not become a cliff that no gradient climbs.
_LEAST_WIDTH = 1e-3


class RefinementWarning(UserWarning):
    """Warning that refinement did not pay, and the hard tree was kept."""


class Candidate(NamedTuple):
    """Trees that were grown alike, and what pruning keeps of the first one."""

    # That of all training rows, then those of the folds, as they were grown; models are
    # of training rows.
    trees: tuple[Tree, ...]
    pruned: Pruned
    oblique: bool  # whether they might split obliquely

    @classmethod
    def of(
        cls, trees: Sequence[Tree], rule: PruningRule, evidence: Evidence, oblique: bool
    ) -> Self:
        """Prune the first of some trees; the others are those of the first folds."""
        folds = {"unseen": evidence.unseen[: len(trees) - 1], "fold_trees": trees[1:]}
        pruned = rule(trees[0], evidence._replace(**folds))
        return cls(tuple(trees), pruned, oblique)


class Fitted(NamedTuple):
    """Fitted tree with what a refinement starts from.

    Attributes
    ----------
    tree : Tree
    candidates : tuple of Candidate
        The trees that were grown, the chosen ones first.
    folds : tuple of Fold
        One where rows were held out, one for each part of a cross-validation.
    training : Rows
        Rows that grew it.
    held_out : Rows or None
        Rows that pruned it; None if it was cross-validated or not pruned.
    refit : bool
        Whether held-out rows may train, once they have chosen.
    student_rows : Rows or None
        Rows that the tree was fitted to, if not the training rows; see
        `secret_jax.fit.refine.distillation`.
    """

    tree: Tree
    candidates: tuple[Candidate, ...]
    folds: tuple[Fold, ...]
    training: Rows
    held_out: Rows | None
    refit: bool
    student_rows: Rows | None = None

    def all_rows(self, *, shuffle: bool = False) -> Rows:
        """Rows that may train the final tree, in an order without meaning."""
        if not self.refit or self.held_out is None:
            return self.training
        rows = join([self.training, self.held_out])
        return shuffled(rows, ROW_ORDER) if shuffle else rows


class Refined(NamedTuple):
    """Result of a refinement.

    Attributes
    ----------
    tree : Tree
    n_steps : int
        Steps or passes that were taken for it; 0 if it is the tree that was given, or
        where nothing is counted.
    refusal : str
        Why the tree was kept as it was, if somebody should know.
    has_models : bool
        Whether the models of its leaves were trained together, and stay as they are;
        otherwise they are fitted again.
    """

    tree: Tree
    n_steps: int = 0
    refusal: str = ""
    has_models: bool = False


@dataclass(frozen=True, kw_only=True)
class Refinement(OfLosses, ABC):
    """Base of the refinements; a new one is a subclass with a method ``__call__``."""

    # Share of the rows to hold out if none are: a class attribute, or a field.
    validation_fraction = 0.0

    @abstractmethod
    def __call__(self, fitted: Fitted, recipe: Recipe) -> Refined:
        """Refine a fitted tree; the result is a tree of the same kind."""


@dataclass(frozen=True, kw_only=True)
class Gates(Refinement):
    """Base of the refinements whose splits may be gates, which send rows both ways."""

    def conflict(self, options: Mapping[str, Any]) -> str:
        if refusal := super().conflict(options):
            return refusal
        if options["splits"].max_comparisons > 1:
            return "None or 'tao' with these splits: a conjunction is no gate"
        if options["monotonic_cst"] is not None:
            return "None or 'tao' with monotonic_cst: gates keep no order (gates=False)"
        return ""


def deviations(tree: Tree, rows: Rows) -> np.ndarray:
    """Standard deviation of every split's projection among the rows of its node.

    ``rows``: in random order. Returns (n_nodes,), float64: 0 in leaves, at splits on
    discrete attributes and in nodes without two rows.
    """
    rows = rows.take(slice(None, _MOST_ROWS))
    inner = np.flatnonzero(~tree.is_leaf)
    deviation = np.zeros(tree.n_nodes)
    along = paths(tree.left, tree.parent, n_inner=len(inner), n_leaves=tree.n_leaves)
    number = np.cumsum(tree.is_leaf) - 1
    leaf = number[apply(tree, rows.table)]
    for i, node in enumerate(inner):
        inside = (along.left[:, i] + along.right[:, i] > 0)[leaf]
        weight = rows.weight[inside]
        if len(weight) < 2 or tree.kind[node] == SplitKind.DISCRETE:
            continue
        projection = rows.table.x[inside] @ tree.direction[node].astype(np.float64)
        mean = np.average(projection, weights=weight)
        deviation[node] = np.sqrt(np.average((projection - mean) ** 2, weights=weight))
    return deviation


def with_widths(tree: Tree, relative: float, deviation: np.ndarray) -> Tree:
    """Soften a tree with gates of one width, in units of each node's deviation.

    ``deviation`` (n_nodes,): see `deviations`. A width of 0 makes the tree hard.
    """
    least = _LEAST_WIDTH * np.linalg.norm(tree.direction, axis=1)
    width = np.maximum(relative * deviation, least) if relative > 0 else 0 * least
    return replace(tree, gate_width=width.astype(np.float32))
