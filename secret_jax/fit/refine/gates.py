"""Gates in place of splits: of one width, or trained with the leaves by gradient."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from secret_jax.data.rows import Rows
from secret_jax.fit.grow.trees import Recipe
from secret_jax.fit.interface import (
    Candidate,
    Fitted,
    Gates,
    Refined,
)
from secret_jax.fit.prune.path import penalised
from secret_jax.fit.refine.widths import deviations, with_widths
from secret_jax.losses.interface import Loss
from secret_jax.models.fitting import fit_models, total_error
from secret_jax.models.interface import LeafModel
from secret_jax.runtime.programs import refuse_after_fork
from secret_jax.runtime.values import POSITIVE, TupleOf, at_least, real, refuse
from secret_jax.tree.routing import apply, values
from secret_jax.tree.structure import SplitKind, Tree

_WIDTHS = (0.0, 0.02, 0.04, 0.07, 0.1, 0.15, 0.2, 0.25, 0.3)  # that `Blend` tries
# Larger starts are the grown trees cut at this penalty of a degree of freedom, in noise
# variances; one that is too large is cut at penalties that rise by this factor.
_PENALTY, _PENALTY_RISE = 6.0, 1.1
# Trees with more leaves are no starts.
_MOST_LEAVES = 256


@dataclass(frozen=True, kw_only=True)
class Blend(Gates):
    """Gates of one relative width, chosen on held-out folds.

    Nothing is trained, the models are those of the hard tree, and width 0, the hard
    tree itself, is among the choices.

    Attributes
    ----------
    widths : tuple of float
        Relative widths that are tried, in deviations of a split's projection; 0 is the
        hard tree and wins ties where it comes first.

    Examples
    --------
    >>> from secret_jax import SecretRegressor
    >>> from secret_jax.fit.refine.gates import Blend
    >>> SecretRegressor(refine=Blend(widths=(0.0, 0.1))).refine.widths
    (0.0, 0.1)
    """

    widths: Annotated[tuple[float, ...], TupleOf(real(0.0))] = _WIDTHS

    def __call__(self, fitted: Fitted, recipe: Recipe) -> Refined:
        """Soften the tree with the width of least error on the folds."""
        if fitted.tree.n_leaves == 1:
            return Refined(fitted.tree)
        if not fitted.folds:
            reason = (
                "blending needs rows that did not grow the tree; give more, or set "
                "prune='auto', 'holdout' or 'cross-validation'"
            )
            return Refined(fitted.tree, 0, reason)
        errors = np.zeros(len(self.widths))
        stage = recipe.stage("blending")
        for fold, (tree, training, held_out) in enumerate(fitted.folds):
            stage.at(fold, len(fitted.folds))
            deviation = deviations(tree, training)
            for which, width in enumerate(self.widths):
                soft = with_widths(tree, width, deviation)
                errors[which] += total_error(soft, held_out)
        width = self.widths[int(np.argmin(errors))]
        deviation = deviations(fitted.tree, fitted.all_rows())
        return Refined(with_widths(fitted.tree, width, deviation))


@dataclass(frozen=True, kw_only=True)
class SoftGates(Gates):
    """Gates and leaves trained jointly by gradient descent; still one tree.

    For squared errors, and for the cross-entropy of classes, where a smooth surface
    matters more than short rules. A hierarchical mixture of experts (Jordan & Jacobs
    1994) with the structure of a grown tree, as soft decision trees are (Irsoy, Yildiz
    & Alpaydin 2012): a row reaches all leaves, each in the share that is the product of
    the gates ``1 / (1 + exp(-(threshold - direction @ x) / width))`` on its path. Where
    splits may be oblique every gate reads all columns. Several widths and tree sizes
    start; held-out rows choose among them and stop the training, and the best is
    trained again on all rows.

    Attributes
    ----------
    widths : tuple of float
        Gates start this wide, in deviations of the projection. Narrow gates stay where
        they are; which wide ones are best depends on the data, so all are tried.
    batch_size : int, default=128
        Rows of a step; fewer where there are not eight such batches.
    chunk : int, default=64
        Steps between two looks at the held-out rows.
    max_steps : int, default=4096
        Maximum number of steps of a start. After an eighth of them, half as many with
        many rows, only the best four starts continue.

    References
    ----------
    M. I. Jordan and R. A. Jacobs. Hierarchical Mixtures of Experts and the EM
    Algorithm. Neural Computation 6, 1994.

    O. Irsoy, O. T. Yildiz and E. Alpaydin. Soft Decision Trees. ICPR 2012.

    Examples
    --------
    >>> from secret_jax import SecretRegressor, SoftGates
    >>> SecretRegressor(refine=SoftGates(widths=(0.6,))).refine.widths
    (0.6,)
    """

    # Share of the rows to hold out after cross-validated pruning.
    validation_fraction = 0.25
    widths: Annotated[tuple[float, ...], TupleOf(POSITIVE)] = (0.3, 0.6, 1.2)
    batch_size: Annotated[int, at_least(1)] = 128
    chunk: Annotated[int, at_least(1)] = 64
    max_steps: Annotated[int, at_least(1)] = 4096

    def check(self) -> None:
        """Check the fields; a start must be evaluated at least once."""
        super().check()
        if self.chunk > self.max_steps:
            refuse("chunk", type(self).__name__, "at most max_steps", self.chunk)

    def knows(self, loss: Loss) -> bool:
        """Whether gradients of a loss are known."""
        return loss.trains_gates

    def __call__(self, fitted: Fitted, recipe: Recipe) -> Refined:
        """Train a soft tree, and keep it if it beats the hard one on held-out rows."""
        if fitted.held_out is None:
            raise ValueError(
                "A soft tree needs held-out rows apart from the training rows."
            )
        refuse_after_fork()
        # Optax takes a third of a second to import: only who trains gates waits for it.
        from secret_jax.fit.refine.training import Trainer

        trees = _starts(fitted.candidates)
        if not trees:
            reason = "no tree that was grown has a split to soften"
            return Refined(fitted.tree, 0, reason)
        trainer, training = Trainer(fitted, recipe, self, trees), fitted.training
        starts = [trainer.start(t, training, w) for t in trees for w in self.widths]
        trainer.train(starts, recipe.stage("training gates"))
        recipe.stage("comparing with the hard tree").at()
        # A start whose error explodes has no best parameters.
        sound = [start for start in starts if np.isfinite(start.best_error)]
        if not sound:
            return Refined(fitted.tree, 0, "every training of the soft tree diverged")
        soft = trainer.crossed_error(sound)
        hard = trainer.crossed_hard_error(fitted.candidates)
        if not soft < hard:
            loss, scale = fitted.tree.loss, fitted.tree.schema.target_scales
            unit = float(np.sqrt(np.mean(np.square(scale))))
            soft, hard = (loss.reported(error, unit) for error in (soft, hard))
            refusal = (
                f"on rows that did not choose it the {loss.error_name} of the soft "
                f"tree was {soft:.4g}, that of the hard tree {hard:.4g}"
            )
            return Refined(fitted.tree, 0, refusal)
        best = min(sound, key=lambda start: start.best_error)
        if fitted.refit:
            best = trainer.trained_again(best, recipe.stage("training again"))
        tree = _with_mixture_errors(best.tree, fitted.all_rows(), recipe.leaf)
        return Refined(tree, best.best_step, has_models=True)


def _starts(candidates: tuple[Candidate, ...]) -> list[Tree]:
    """Of every candidate the pruned tree and a larger one, where a split can soften."""
    trees: list[Tree] = []
    for candidate in candidates:
        sizes = {1}
        for tree in (candidate.pruned.tree, penalised(candidate.trees[0], _PENALTY)):
            penalty = _PENALTY
            while tree.n_leaves > _MOST_LEAVES:
                tree, penalty = penalised(tree, penalty), _PENALTY_RISE * penalty
            gates = np.isin(tree.kind, (SplitKind.AXIS, SplitKind.OBLIQUE))
            if tree.n_leaves not in sizes and gates.any():
                trees.append(tree)
            sizes.add(tree.n_leaves)
    return trees


def _with_mixture_errors(tree: Tree, rows: Rows, leaf: LeafModel) -> Tree:
    """Measure leaves where hard splits send the rows, and errors of the mixture."""
    hard = fit_models([tree], [rows], leaf)[0]
    value = values(tree, rows.table)
    lower, upper = hard.lower.copy(), hard.upper.copy()
    if not hard.loss.least_squares:  # whose ranges are of targets
        lower[0], upper[0] = value.min(axis=0), value.max(axis=0)
    losses = hard.loss.losses(rows.targets, value)
    error = np.zeros_like(hard.train_error)
    np.add.at(error, apply(tree, rows.table), rows.weight[:, None] * losses)
    error /= np.where(hard.weight > 0, hard.weight, 1.0)[:, None]
    is_leaf = tree.is_leaf[:, None]
    return replace(
        hard,
        gate_width=tree.gate_width,
        clip_leaves=tree.clip_leaves,
        coefficient=np.where(is_leaf[:, None], tree.coefficient, hard.coefficient),
        train_error=np.where(is_leaf, error, hard.train_error),
        lower=lower,
        upper=upper,
    )
