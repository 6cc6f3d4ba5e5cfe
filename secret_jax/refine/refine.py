"""Refinement of a fitted tree as a whole: its splits again, blended or trained gates.

Every method takes what `secret_jax.fitting.fit_tree` found, with the rows, and gives
back a tree. A further method is one file here and one line in `refine`.
"""

from __future__ import annotations

import warnings

from secret_jax.fitting import FittedTree, LeafOptions, Rows, join, shuffled
from secret_jax.grow.grower import Progress
from secret_jax.options import AlternatingOptions, BlendOptions, SoftOptions
from secret_jax.refine.blend import blend
from secret_jax.refine.distillation import mean_error, measured_on
from secret_jax.refine.soft.choose import soften
from secret_jax.refine.tao import improve
from secret_jax.tree.structure import Tree


class RefinementWarning(UserWarning):
    """Refinement did not pay, and the hard tree was kept."""


def refine(
    fitted: FittedTree,
    *,
    method: str,
    training: Rows,
    pruning: Rows | None,
    leaf: LeafOptions,
    min_weight: float,
    oblique: bool,
    refit: bool,
    seed: int,
    progress: Progress | None = None,
) -> tuple[Tree, int]:
    """Refine a fitted tree.

    Parameters
    ----------
    fitted : FittedTree
    method : {"hard", "blend", "soft"}
    training : Rows
        Those that grew the tree.
    pruning : Rows or None
        Those that pruned it; None where it was cross-validated or not pruned
        ("hard" and "blend" only).
    leaf : LeafOptions
    min_weight : float
        Of a leaf.
    oblique : bool
        Whether splits on one attribute may come to hold others.
    refit : bool
        Train again on all rows what was chosen on the pruning rows.
    seed : int
    progress : callable, optional

    Returns
    -------
    tree : Tree
    n_steps : int
        Gradient steps that were taken for it, or passes over the splits.

    Warns
    -----
    RefinementWarning
        If the hard tree is kept.
    """
    if method == "hard":
        rows, check = training, pruning
        if refit and pruning is not None:
            rows, check = shuffled(join(training, pruning), seed), None
        least = min_weight
        if fitted.lesson is not None:
            # Points of the lesson depend on each other: the rows have the last word.
            rows, check = fitted.lesson, None
            least *= rows.weight.sum() / training.weight.sum()
        options = AlternatingOptions()
        tree, n_sweeps, _ = improve(
            fitted.tree, rows, check, leaf, least, options, progress
        )
        if fitted.lesson is not None and n_sweeps:
            tree = measured_on(tree, training, leaf, 0.0)
            if mean_error([tree], [training]) > mean_error([fitted.tree], [training]):
                return fitted.tree, 0
        return tree, n_sweeps
    if not fitted.trials:
        _warn("there are too few rows to hold some out; give more, or a prune_set")
        return fitted.tree, 0
    # A further method belongs here.
    if method == "blend":
        apart = pruning if refit else None
        rows = training if apart is None else join(training, apart)
        return blend(fitted, rows, BlendOptions(), progress=progress).tree, 0
    if pruning is None:
        raise ValueError("A soft tree needs pruning rows apart from the training rows.")
    soft = soften(
        fitted,
        training,
        pruning,
        leaf,
        SoftOptions(),
        oblique=oblique,
        refit=refit,
        seed=seed,
        progress=progress,
    )
    if soft.refusal:
        _warn(soft.refusal)
    return soft.tree, soft.n_steps


def _warn(reason: str) -> None:
    warnings.warn(
        f"The hard tree was kept: {reason}.",
        RefinementWarning,
        stacklevel=5,
    )
