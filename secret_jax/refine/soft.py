"""The soft tree: gates and leaves of a pruned tree trained together by gradient.

The gates of the trees that were grown start wide, from several widths and tree sizes
side by side; the pruning rows choose among them and say when to stop, and the winner is
trained again on all rows (hierarchical mixtures of experts, Jordan & Jacobs 1994, with
the structure of a grown tree; soft trees of Irsoy, Yildiz & Alpaydin 2012).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import jax
import numpy as np

from secret_jax.fitting import (
    Candidate,
    FittedTree,
    LeafOptions,
    Rows,
    join,
    with_models,
)
from secret_jax.grow import Progress
from secret_jax.options import SoftOptions
from secret_jax.prune import penalised, reduced_error
from secret_jax.refine.blend import squared_error
from secret_jax.refine.gates import (
    Parameters,
    Structure,
    deviations,
    to_parameters,
    to_tree,
    with_widths,
)
from secret_jax.refine.train import (
    TrainingData,
    TrainingState,
    initial_state,
    minibatches,
    train_chunk,
)
from secret_jax.rows import bucket, next_power_of_two
from secret_jax.tree import Tree


class Softened(NamedTuple):
    """The tree that is to be used.

    Attributes
    ----------
    tree : Tree
    n_steps : int
        Steps behind it; 0 if it is the hard tree.
    refusal : str
        Why the hard tree was kept; empty if it was not.
    """

    tree: Tree
    n_steps: int
    refusal: str


@dataclass(eq=False, kw_only=True)
class _Start:
    """One tree with gates of one width, and how far its training has come."""

    tree: Tree
    width: float
    structure: Structure
    state: TrainingState
    best: Parameters
    best_error: float = np.inf
    best_step: int = 0
    history: list[np.ndarray] = field(default_factory=list)


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
        Train the winner again on all rows.
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
    job = _Job(training, pruning, leaf, options, oblique, seed, trees)
    starts = [
        job.start(tree, training, width) for tree in trees for width in options.widths
    ]
    job.train(starts, progress)
    sound = [start for start in starts if np.isfinite(start.best_error)]
    if not sound:
        return Softened(fitted.tree, 0, "every training of the soft tree diverged")
    best = min(sound, key=lambda start: start.best_error)
    soft_error = job.crossed_error(sound)
    hard_error = job.hard_error(fitted.candidates)
    if progress is not None:
        progress(
            f"soft tree of {best.tree.n_leaves} leaves from gates of {best.width:g} "
            f"deviations, {best.best_step} steps: error {soft_error:.4g} on rows that "
            f"did not choose it, hard tree {hard_error:.4g}"
        )
    if not soft_error < hard_error:
        scale = fitted.tree.schema.target_scale
        return Softened(
            fitted.tree,
            0,
            "on rows that did not choose it the soft tree had a root mean squared error "
            f"of {scale * soft_error**0.5:.4g}, the hard tree {scale * hard_error**0.5:.4g}",
        )
    tree, rows = to_tree(best.tree, best.best), training
    if refit:
        rows = join(training, pruning)
        again = job.retrained(best, rows)
        if again is not None:
            tree = again
        elif progress is not None:
            progress("training again on all rows went astray and was dropped")
    return Softened(_with_facts(tree, rows, leaf), best.best_step, "")


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
        large = penalised(candidate.grown, options.price)
        sizes = set()
        for tree in (candidate.pruned, large):
            price = options.price
            while tree.n_leaves > options.max_leaves:
                tree, price = penalised(tree, price), 1.5 * price
            if tree.n_leaves > 1 and tree.n_leaves not in sizes:
                sizes.add(tree.n_leaves)
                trees.append(tree)
    return trees


class _Job:
    """The rows on the device, and the sizes that all starts share."""

    def __init__(
        self,
        training: Rows,
        pruning: Rows,
        leaf: LeafOptions,
        options: SoftOptions,
        oblique: bool,
        seed: int,
        trees: list[Tree],
    ):
        self.leaf, self.options, self.oblique = leaf, options, oblique
        self.random = np.random.default_rng(seed)
        self.training = training.take(slice(None, options.max_rows))
        order = self.random.permutation(len(pruning.y))[: options.max_rows]
        self.pruning = pruning.take(order)
        self.n_training = len(self.training.y)
        self.size = max(16, next_power_of_two(max(tree.n_leaves for tree in trees)))
        eighth = max(self.n_training // 8, 1)
        self.batch_size = max(
            16, min(options.batch_size, next_power_of_two(eighth + 1) // 2)
        )
        self.data = self._on_device(trees[0])

    def _on_device(self, tree: Tree) -> TrainingData:
        rows = join(self.training, self.pruning)
        n_rows = len(rows.y)
        n_validation = min(len(self.pruning.y), self.options.max_validation_rows)
        more = bucket(n_rows, smallest=256) - n_rows
        padded = next_power_of_two(max(n_validation, 64))
        validation = np.zeros(padded, np.int32)
        validation[:n_validation] = self.n_training + np.arange(n_validation)
        fold = np.zeros((2, padded), np.float32)
        weight = self.pruning.weight[:n_validation]
        fold[np.arange(n_validation) % 2, np.arange(n_validation)] = weight
        self.fold_weight = fold.sum(axis=1, dtype=np.float64)
        low, high = (side[0] for side in tree.clip_range())
        arrays = TrainingData(
            x=np.pad(rows.table.x, [(0, more), (0, 0)]),
            codes=np.pad(rows.table.codes, [(0, more), (0, 0)]),
            y=np.pad(rows.y, (0, more)).astype(np.float32),
            weight=np.pad(rows.weight / rows.weight.mean(), (0, more)).astype(
                np.float32
            ),
            validation=validation,
            fold=fold,
            low=np.float32(low),
            high=np.float32(high),
        )
        return jax.device_put(arrays)

    def start(self, tree: Tree, rows: Rows, width: float) -> _Start:
        """A tree with gates of a relative width, before its first step."""
        soft = with_widths(tree, width, deviations(tree, rows))
        parameters, structure = to_parameters(
            soft, oblique=self.oblique, n_inner=self.size, n_leaves=self.size
        )
        state = initial_state(parameters)
        return _Start(
            tree=soft, width=width, structure=structure, state=state, best=parameters
        )

    def advance(self, starts: list[_Start], n_rows: int) -> np.ndarray:
        """One chunk for some starts on the first rows; errors per start and fold."""
        options = self.options
        rows = minibatches(self.random, n_rows, options.chunk, self.batch_size)
        # On the CPU one start after the other costs no more, and each may stop alone.
        together = 1 if jax.default_backend() == "cpu" else len(starts)
        errors = []
        for first in range(0, len(starts), together):
            group = starts[first : first + together]
            state, structure = (
                jax.tree.map(lambda *parts: np.stack(parts), *values)
                for values in (
                    [start.state for start in group],
                    [start.structure for start in group],
                )
            )
            state, error = train_chunk(
                state, structure, self.data, rows, options=options
            )
            errors.append(error)
            for i, start in enumerate(group):
                start.state = jax.tree.map(lambda array, i=i: array[i], state)
        return np.concatenate([np.asarray(error, np.float64) for error in errors])

    def train(self, starts: list[_Start], progress: Progress | None) -> None:
        """Train until all have stopped; each start keeps its best parameters."""
        options = self.options
        epoch = self.n_training / self.batch_size
        patience = max(options.patience_steps, options.patience_epochs * epoch)
        active = starts
        for step in range(options.chunk, options.max_steps + 1, options.chunk):
            errors = self.advance(active, self.n_training)
            for start, error in zip(active, errors, strict=True):
                start.history.append(error)
                if error.sum() < start.best_error:
                    start.best_error, start.best_step = float(error.sum()), step
                    start.best = start.state.average
            active = [
                start
                for start in active
                if np.isfinite(start.history[-1]).all()
                and step - start.best_step < patience
            ]
            if step >= options.screen_steps and len(active) > options.n_kept:
                active.sort(key=lambda start: start.best_error)
                active = active[: options.n_kept]
            if not active:
                break
            if progress is not None and step % (8 * options.chunk) == 0:
                lowest = min(start.best_error for start in starts)
                progress(
                    f"step {step}: {len(active)} of {len(starts)} starts in training, "
                    f"least error {lowest / self.fold_weight.sum():.4g}"
                )

    def crossed_error(self, starts: list[_Start]) -> float:
        """Mean squared error of start and length of training chosen on the other half.

        The best error on rows that chose it is too low, by much if they are few.
        """
        history = np.concatenate([np.array(start.history) for start in starts])
        history = np.where(np.isfinite(history), history, np.inf)
        first, second = history.argmin(axis=0)
        total = history[first, 1] + history[second, 0]
        return float(total / self.fold_weight.sum())

    def hard_error(self, candidates: tuple[Candidate, ...]) -> float:
        """Mean squared error of hard trees on halves that did not prune them."""
        n = min(len(self.pruning.y), self.options.max_validation_rows)
        halves = [self.pruning.take(slice(i, n, 2)) for i in range(2)]
        total = 0.0
        for own, other in (halves, halves[::-1]):
            if not len(own.y) or not len(other.y):
                return np.inf
            pruned = [
                reduced_error(candidate.grown, own.table, own.y, own.weight)
                for candidate in candidates
            ]
            best = min(pruned, key=lambda pair: pair[1])[0]
            total += squared_error(best, other)
        return total / self.fold_weight.sum()

    def retrained(self, best: _Start, rows: Rows) -> Tree | None:
        """The winner trained on all rows for as many epochs; None if it went astray."""
        options = self.options
        tree = with_models(best.tree, rows, best.tree.schema, self.leaf)
        again = self.start(tree, rows, best.width)
        n_all = self.n_training + len(self.pruning.y)
        n_steps = best.best_step * n_all / self.n_training
        for _ in range(max(1, round(n_steps / options.chunk))):
            self.advance([again], n_all)
        found = to_tree(tree, again.state.average)
        before = to_tree(best.tree, best.best)
        for part, slack in ((self.training, 1.2), (self.pruning, 1.02)):
            error, limit = squared_error(found, part), squared_error(before, part)
            if not error <= slack * limit:
                return None
        return found


def _with_facts(tree: Tree, rows: Rows, leaf: LeafOptions) -> Tree:
    """Weights, ranges and errors of the rows that the hard splits send to each node.

    Inner nodes get models of their own; the error of a leaf is that of the mixture.
    """
    facts = with_models(tree, rows, tree.schema, leaf)
    coefficient = np.where(tree.is_leaf[:, None], tree.coefficient, facts.coefficient)
    return replace(
        facts,
        coefficient=coefficient,
        gate_width=tree.gate_width,
        clip_leaves=tree.clip_leaves,
    )
