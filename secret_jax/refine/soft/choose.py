"""The soft tree: gates and leaves of a pruned tree trained together by gradient.

The gates of the trees that were grown start wide, from several widths and tree sizes
side by side. The pruning rows choose among them and say when to stop; the best are
trained again on all rows, and one tree learns their mean (hierarchical mixtures of
experts, Jordan & Jacobs 1994, with the structure of a grown tree; soft decision trees,
Irsoy, Yildiz & Alpaydin 2012).
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from secret_jax.fitting import (
    Candidate,
    FittedTree,
    LeafOptions,
    Rows,
    join,
    with_models,
)
from secret_jax.grow.grower import Progress
from secret_jax.options import SoftOptions
from secret_jax.prune.reduced_error import penalised
from secret_jax.refine.soft.committee import distilled
from secret_jax.refine.soft.starts import Trainer
from secret_jax.tree.routing import apply, predict
from secret_jax.tree.structure import Tree


class Softened(NamedTuple):
    """The tree that is to be used.

    Attributes
    ----------
    tree : Tree
    n_steps : int
        Steps after which the pruning rows stopped its training; 0 if it is the hard
        tree.
    refusal : str
        Why the hard tree was kept; empty if it was not.
    """

    tree: Tree
    n_steps: int
    refusal: str


def soften(
    fitted: FittedTree,
    training: Rows,
    pruning: Rows,
    leaf: LeafOptions,
    options: SoftOptions,
    *,
    oblique: bool,
    refit: bool,
    seed: int,
    progress: Progress | None = None,
) -> Softened:
    """Train a soft tree, and keep it if it beats the hard one.

    Parameters
    ----------
    fitted : FittedTree
    training, pruning : Rows
        Those that grew and pruned the tree.
    leaf : LeafOptions
    options : SoftOptions
    oblique : bool
        Whether splits on one attribute may come to hold others.
    refit : bool
        Train the best again on all rows.
    seed : int
    progress : callable, optional
        Called with a line now and then.

    Returns
    -------
    Softened
    """
    trees = start_trees(fitted.candidates, options)
    if not trees:
        return Softened(fitted.tree, 0, "no tree that was grown has a split to soften")
    trainer = Trainer(
        training, pruning, leaf, options, oblique=oblique, seed=seed, trees=trees
    )
    starts = [
        trainer.start(tree, training, width)
        for tree in trees
        for width in options.widths
    ]
    trainer.train(starts, progress)
    # A start whose error explodes has no best parameters.
    sound = [start for start in starts if np.isfinite(start.best_error)]
    if not sound:
        return Softened(fitted.tree, 0, "every training of the soft tree diverged")
    sound.sort(key=lambda start: start.best_error)
    best = sound[0]
    soft_error = trainer.crossed_error(sound)
    hard_error = trainer.hard_error(fitted.candidates)
    if progress is not None:
        progress(
            f"soft tree of {best.origin.n_leaves} leaves from gates of {best.width:g} "
            f"deviations, {best.best_step} steps: mean squared error {soft_error:.4g} "
            f"on rows that did not choose it, hard tree {hard_error:.4g}"
        )
    # The comparison is of single trainings; the mean of several errs less. So does a
    # hard tree that learned from several.
    averaged = min(options.n_committee, len(sound)) > 1
    gain = options.committee_gain * (averaged - (fitted.lesson is not None))
    if not soft_error * (1 - gain) < hard_error:
        soft_root, hard_root = (
            fitted.tree.schema.target_scale * error**0.5
            for error in (soft_error, hard_error)
        )
        return Softened(
            fitted.tree,
            0,
            "on rows that did not choose it the root mean squared error of the soft "
            f"tree was {soft_root:.4g}, that of the hard tree {hard_root:.4g}",
        )
    committee, rows = sound[: max(options.n_committee, 1)], training
    if refit:
        committee = [trainer.trained_again(start) for start in committee]
        rows = join(training, pruning)
    tree = committee[0].tree
    if len(committee) > 1:
        tree = distilled(trainer, committee)
    return Softened(with_facts(tree, rows, leaf), best.best_step, "")


def start_trees(candidates: tuple[Candidate, ...], options: SoftOptions) -> list[Tree]:
    """Trees to start from: of every tree that was grown the pruned and a larger one.

    Parameters
    ----------
    candidates : tuple of Candidate
    options : SoftOptions

    Returns
    -------
    list of Tree
        Each with at least one split and at most ``options.max_leaves`` leaves.
    """
    trees: list[Tree] = []
    for candidate in candidates:
        sizes = {1}
        for tree in (candidate.pruned, penalised(candidate.grown, options.price)):
            price = options.price
            while tree.n_leaves > options.max_leaves:
                tree, price = penalised(tree, price), 1.1 * price
            if tree.n_leaves not in sizes:
                trees.append(tree)
            sizes.add(tree.n_leaves)
    return trees


def with_facts(tree: Tree, rows: Rows, leaf: LeafOptions) -> Tree:
    """Weights, ranges and errors of the rows that the hard splits send to each node.

    Inner nodes get models of their own; the error of a leaf is that of the mixture.

    Parameters
    ----------
    tree : Tree
        Soft.
    rows : Rows
        Those that trained it.
    leaf : LeafOptions

    Returns
    -------
    Tree
    """
    facts = with_models(tree, rows, tree.schema, leaf)
    residual = tree.schema.scale_target(predict(tree, rows.table)) - rows.y
    node = apply(tree, rows.table)
    squared = np.bincount(node, rows.weight * residual**2, tree.n_nodes)
    mixture_error = squared / np.maximum(facts.weight, 1e-300)
    return replace(
        facts,
        coefficient=np.where(
            tree.is_leaf[:, None], tree.coefficient, facts.coefficient
        ),
        train_error=np.where(tree.is_leaf, mixture_error, facts.train_error),
        gate_width=tree.gate_width,
        clip_leaves=tree.clip_leaves,
    )
