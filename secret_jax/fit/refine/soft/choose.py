"""Soft trees: gates and leaves of a pruned tree trained jointly by gradient descent.

The gates of the grown trees start wide, with several widths and tree sizes in parallel.
Held-out rows choose among them and stop the training; the best are trained again on all
rows, and one tree learns their mean.
"""

from dataclasses import dataclass, replace

import numpy as np

from secret_jax.data.rows import Rows, Table
from secret_jax.data.sampling import ROW_ORDER
from secret_jax.fit.prune.path import penalised
from secret_jax.fit.refine.distillation import between
from secret_jax.fit.refine.interface import Candidate, Fitted, Refined
from secret_jax.fit.refine.soft.options import SoftOptions
from secret_jax.fit.refine.soft.starts import Start, Trainer
from secret_jax.fit.refine.soft.steps import TrainingData, initial_state
from secret_jax.grow.trees import Recipe
from secret_jax.models.fitting import fit_models
from secret_jax.models.interface import LeafModel
from secret_jax.runtime.progress import UNTOLD, Stage
from secret_jax.tree.routing import apply, values
from secret_jax.tree.structure import SplitKind, Tree

# Larger starts are the grown trees cut at this penalty of a degree of freedom, in noise
# variances; one that is too large is cut at penalties that rise by this factor.
_PENALTY = 6.0
_PENALTY_RISE = 1.1
# Share of the error that averaging is taken to save. The comparison with the hard tree,
# which is of single trainings, allows for it.
_COMMITTEE_GAIN = 0.05
# Number of chunks of steps after which a student of the committee gets new points
# between the rows.
_CHUNKS_PER_POINTS = 8
# It learns at rows, and at points up to this share of the way to another row.
_JITTER = 0.5


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


def distilled(trainer: Trainer, committee: list[Start], stage: Stage = UNTOLD) -> Tree:
    """Train a tree on the committee's mean prediction; keep the closest tree.

    The mean of several trainings errs less than each of them; a tree that is trained on
    that mean, at the rows and between them, without their outputs, keeps most of the
    gain (born-again trees, Breiman & Shang 1996; distillation, Hinton et al. 2015).

    ``committee``: trained, the best first. Returns its best or its largest member,
    trained on the mean; or the best member as it is, if neither comes closer.
    """
    teachers = [member.tree for member in committee]
    best = committee[0]
    largest = max(committee, key=lambda member: member.origin.n_leaves)
    choices = [teachers[0]]
    for member in [best] if largest is best else [best, largest]:
        student = replace(
            member,
            state=initial_state(member.best),
            structure=member.structure._replace(start=member.best),
        )
        choices.append(_trained(trainer, student, teachers, stage))
    test = _student_data(trainer, teachers)
    return min(choices, key=lambda tree: _distance(tree, test))


def _trained(
    trainer: Trainer, student: Start, teachers: list[Tree], stage: Stage
) -> Tree:
    n_steps = trainer.of_steps(trainer.options.distil_steps)
    n_chunks = -(-n_steps // trainer.options.chunk)
    data = _student_data(trainer, teachers)
    for i in range(n_chunks):
        stage.at(i, n_chunks)
        if i and i % _CHUNKS_PER_POINTS == 0:
            data = _student_data(trainer, teachers)
        trainer.advance([student], len(data.targets), data)
    return replace(student, best=student.average).tree


def _student_data(trainer: Trainer, teachers: list[Tree]) -> TrainingData:
    """Training points with mean predictions: at most the rows, or those of the steps.

    On accelerators as many as the trainer's padded rows, for the same program.
    """
    n_points, rows = len(trainer.data.targets), trainer.all_rows
    if not trainer.on_device:
        drawn = _CHUNKS_PER_POINTS * trainer.options.chunk * trainer.batch_size
        n_points = min(n_points, drawn)
    first, second = trainer.random.integers(0, trainer.n_rows, (2, n_points))
    share = trainer.random.uniform(0, _JITTER, n_points)
    share[: n_points // 2] = 0
    x, codes = between(rows.table, teachers[0].schema, first, second, share)
    said = _mean_prediction(teachers, Table(x, codes)).astype(np.float32)
    weight = (rows.weight[first] / rows.weight.mean()).astype(np.float32)
    data = trainer.data._replace(x=x, codes=codes, targets=said, weight=weight)
    if trainer.on_device:
        return data
    # Nobody reads how a student errs on single rows, and they are not among the points.
    return data._replace(validation=data.validation[:1] * 0, fold=data.fold[:, :1])


def _mean_prediction(trees: list[Tree], table: Table) -> np.ndarray:
    """Average predictions; for classes probabilities, since log-odds overstate them."""
    return np.mean([t.loss.prediction(values(t, table)) for t in trees], axis=0)


def _distance(tree: Tree, data: TrainingData) -> float:
    """Mean squared distance from the teachers' mean prediction at the real rows.

    For classes the distance is between probabilities.
    """
    n_real = len(data.targets) // 2
    table = Table(data.x[:n_real], data.codes[:n_real])
    difference = _mean_prediction([tree], table) - data.targets[:n_real]
    squared = np.sum(difference**2, axis=1)
    return float(np.average(squared, weights=data.weight[:n_real]))
