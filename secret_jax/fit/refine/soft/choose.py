"""Soft trees: gates and leaves of a pruned tree trained jointly by gradient descent.

The gates of the grown trees start wide, with several widths and tree sizes in parallel.
Held-out rows choose among them and stop the training; the best are trained again on all
rows, and one tree learns their mean.
"""

from dataclasses import dataclass, replace

import numpy as np

from secret_jax.data.rows import Rows
from secret_jax.data.sampling import ROW_ORDER
from secret_jax.fit.prune.path import penalised
from secret_jax.fit.refine.interface import Candidate, Fitted, Refined
from secret_jax.fit.refine.soft.committee import distilled
from secret_jax.fit.refine.soft.options import SoftOptions
from secret_jax.fit.refine.soft.starts import Trainer
from secret_jax.grow.trees import Recipe
from secret_jax.models.fitting import fit_models
from secret_jax.models.interface import LeafModel
from secret_jax.tree.routing import apply, values
from secret_jax.tree.structure import SplitKind, Tree

# Larger starts are the grown trees cut at this penalty of a degree of freedom, in noise
# variances; one that is too large is cut at penalties that rise by this factor.
_PENALTY = 6.0
_PENALTY_RISE = 1.1
# Share of the error that averaging is taken to save. The comparison with the hard tree,
# which is of single trainings, allows for it.
_COMMITTEE_GAIN = 0.05


@dataclass(frozen=True, kw_only=True)
class SoftGates(SoftOptions):
    """Gates and leaves trained jointly by gradient descent; still one tree.

    For squared errors, and for the cross-entropy of classes.

    Its fields are those of `secret_jax.fit.refine.soft.options.SoftOptions`.

    Examples
    --------
    >>> from secret_jax import SecretRegressor, SoftGates
    >>> SecretRegressor(refine=SoftGates(widths=(0.6,))).refine.widths
    (0.6,)
    """

    def __call__(self, fitted: Fitted, recipe: Recipe) -> Refined:
        """Train a soft tree, and keep it if it beats the hard one.

        Parameters
        ----------
        fitted : Fitted
            With held-out rows.

        Returns
        -------
        Refined
            With the step at which the held-out rows stopped its training; or the hard
            tree and why it was kept.
        """
        if fitted.held_out is None:
            raise ValueError(
                "A soft tree needs held-out rows apart from the training rows."
            )
        trees = start_trees(fitted.candidates, self)
        if not trees:
            return Refined(
                fitted.tree, 0, "no tree that was grown has a split to soften"
            )
        finder = recipe.options.finder
        trainer = Trainer(
            fitted.training,
            fitted.held_out,
            recipe.leaf,
            self,
            oblique=recipe.oblique and finder.max_attributes is None,
            seed=ROW_ORDER,
            trees=trees,
        )
        starts = [
            trainer.start(tree, fitted.training, width)
            for tree in trees
            for width in self.widths
        ]
        trainer.train(starts, recipe.stage("training gates"))
        recipe.stage("comparing with the hard tree").at()
        # A start whose error explodes has no best parameters.
        sound = [start for start in starts if np.isfinite(start.best_error)]
        if not sound:
            return Refined(fitted.tree, 0, "every training of the soft tree diverged")
        sound.sort(key=lambda start: start.best_error)
        best = sound[0]
        soft_error = trainer.crossed_error(sound)
        hard_error = trainer.hard_error(fitted.candidates)
        # The comparison is of single trainings; the mean of several errs less, and so
        # does a hard tree that learned from several.
        allowance = 0.0
        if min(self.n_committee, len(sound)) > 1:
            allowance += _COMMITTEE_GAIN
        if fitted.student_rows is not None:
            allowance -= _COMMITTEE_GAIN
        if not soft_error * (1 - allowance) < hard_error:
            return Refined(
                fitted.tree, 0, _refusal(fitted.tree, soft_error, hard_error)
            )
        committee, rows = sound[: self.n_committee], fitted.training
        if fitted.refit:
            committee = [
                trainer.trained_again(
                    start, recipe.stage(f"training {k} of {len(committee)} again")
                )
                for k, start in enumerate(committee, 1)
            ]
            rows = fitted.all_rows()
        tree = committee[0].tree
        if len(committee) > 1:
            tree = distilled(trainer, committee, recipe.stage("training one for all"))
        tree = with_mixture_errors(tree, rows, recipe.leaf)
        return Refined(tree, best.best_step, has_models=True)


def _refusal(tree: Tree, soft_error: float, hard_error: float) -> str:
    scale = float(np.sqrt(np.mean(np.square(tree.schema.target_scales))))
    soft, hard = (tree.loss.reported(e, scale) for e in (soft_error, hard_error))
    return (
        f"on rows that did not choose it the {tree.loss.error_name} of the soft tree "
        f"was {soft:.4g}, that of the hard tree {hard:.4g}"
    )


def start_trees(candidates: tuple[Candidate, ...], options: SoftOptions) -> list[Tree]:
    """Initial trees: for every candidate the pruned tree and a larger one.

    Each has at least one split that can be a gate, which those on categories cannot,
    and at most ``options.max_leaves`` leaves.
    """
    trees: list[Tree] = []
    for candidate in candidates:
        sizes = {1}
        for tree in (candidate.pruned, penalised(candidate.grown, _PENALTY)):
            penalty = _PENALTY
            while tree.n_leaves > options.max_leaves:
                tree, penalty = penalised(tree, penalty), _PENALTY_RISE * penalty
            gates = np.isin(tree.kind, (SplitKind.AXIS, SplitKind.OBLIQUE))
            if tree.n_leaves not in sizes and gates.any():
                trees.append(tree)
            sizes.add(tree.n_leaves)
    return trees


def with_mixture_errors(tree: Tree, rows: Rows, leaf: LeafModel) -> Tree:
    """Measure weights, ranges and errors where the hard splits send the rows.

    Inner nodes get models of their own; the error of a leaf is that of the mixture.

    ``tree``: soft; ``rows``: rows that trained it.
    """
    hard = fit_models([tree], [rows], leaf)[0]
    value = values(tree, rows.table)
    lower, upper = hard.lower.copy(), hard.upper.copy()
    losses = hard.loss.losses(rows.targets, value)
    if not hard.loss.least_squares:  # whose ranges are of targets
        lower[0], upper[0] = value.min(axis=0), value.max(axis=0)
    node = apply(tree, rows.table)
    error = np.zeros_like(hard.train_error)
    np.add.at(error, node, rows.weight[:, None] * losses)
    of_mixture = error / np.where(hard.weight > 0, hard.weight, 1.0)[:, None]
    leaf_node = tree.is_leaf
    return replace(
        hard,
        coefficient=np.where(
            leaf_node[:, None, None], tree.coefficient, hard.coefficient
        ),
        train_error=np.where(leaf_node[:, None], of_mixture, hard.train_error),
        lower=lower,
        upper=upper,
        gate_width=tree.gate_width,
        clip_leaves=tree.clip_leaves,
    )
