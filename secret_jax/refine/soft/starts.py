"""Starts of a soft tree, trained side by side: early stopping, comparison."""

from __future__ import annotations

from dataclasses import dataclass, field

import jax
import numpy as np

from secret_jax.data.rows import bucket, next_power_of_two
from secret_jax.fitting import Candidate, LeafOptions, Rows, join, with_models
from secret_jax.grow.grower import Progress
from secret_jax.options import SoftOptions
from secret_jax.prune.reduced_error import reduced_error
from secret_jax.refine.blend import squared_error
from secret_jax.refine.soft.parameters import (
    Parameters,
    Structure,
    deviations,
    to_parameters,
    to_tree,
    with_widths,
)
from secret_jax.refine.soft.steps import (
    Rates,
    TrainingData,
    TrainingState,
    initial_state,
    minibatches,
    train_chunk,
)
from secret_jax.tree.structure import Tree

# A soft tree that saw more rows errs less on them, unless it diverged.
_ASTRAY = 1.1


@dataclass(eq=False, kw_only=True)
class Start:
    """A tree with gates of one relative width, and how far its training has come.

    Attributes
    ----------
    origin : Tree
    width : float
    structure : Structure
    state : TrainingState
    best : Parameters
        Those of the least error on the pruning rows.
    best_error : float
        Summed over the pruning rows.
    best_step : int
    history : list of ndarray of shape (n_folds,)
        Errors after every chunk.
    """

    origin: Tree
    width: float
    structure: Structure
    state: TrainingState
    best: Parameters
    best_error: float = np.inf
    best_step: int = 0
    history: list[np.ndarray] = field(default_factory=list)

    @property
    def tree(self) -> Tree:
        """The tree of the best parameters."""
        return to_tree(self.origin, self.best)


class Trainer:
    """The rows on the device, and the sizes that all starts share.

    Parameters
    ----------
    training, pruning : Rows
    leaf : LeafOptions
    options : SoftOptions
    oblique : bool
        Whether splits on one attribute may come to hold others.
    seed : int
    trees : list of Tree
        Those to start from: they decide the padding.
    """

    def __init__(
        self,
        training: Rows,
        pruning: Rows,
        leaf: LeafOptions,
        options: SoftOptions,
        *,
        oblique: bool,
        seed: int,
        trees: list[Tree],
    ):
        self.leaf, self.options, self.oblique = leaf, options, oblique
        self.random = np.random.default_rng(seed)
        self.training = training.take(slice(None, options.max_rows))
        self.pruning = pruning.take(slice(None, options.max_rows))
        self.everything = join(self.training, self.pruning)
        self.n_training, self.n_rows = len(self.training.y), len(self.everything.y)
        self.n_leaves = max(16, next_power_of_two(max(t.n_leaves for t in trees)))
        # The power of two that leaves at least eight batches, within 16 and the option.
        batches = next_power_of_two(self.n_training // 8 + 1) // 2
        self.batch_size = max(16, min(options.batch_size, batches))
        self.rates = Rates(
            *(np.float32(getattr(options, name)) for name in Rates._fields)
        )
        self.data = jax.device_put(self._data(trees[0]))

    def _data(self, tree: Tree) -> TrainingData:
        rows, options = self.everything, self.options
        more = bucket(self.n_rows, smallest=256) - self.n_rows
        judged = np.arange(min(len(self.pruning.y), options.max_validation_rows))
        padded = next_power_of_two(max(len(judged), 64))
        validation = np.zeros(padded, np.int32)
        validation[judged] = self.n_training + judged
        fold = np.zeros((options.n_folds, padded), np.float32)
        fold[judged % options.n_folds, judged] = self.pruning.weight[judged]
        self.judged = self.pruning.take(judged)
        low, high = (np.float32(side[0]) for side in tree.clip_range())
        return TrainingData(
            x=np.pad(rows.table.x, [(0, more), (0, 0)]),
            codes=np.pad(rows.table.codes, [(0, more), (0, 0)]),
            y=np.pad(rows.y.astype(np.float32), (0, more)),
            weight=np.pad((rows.weight / rows.weight.mean()).astype("f4"), (0, more)),
            validation=validation,
            fold=fold,
            low=low,
            high=high,
        )

    def start(self, tree: Tree, rows: Rows, width: float) -> Start:
        """A tree with gates of a relative width, before its first step."""
        soft = with_widths(tree, width, deviations(tree, rows))
        parameters, structure = to_parameters(
            soft, oblique=self.oblique, n_inner=self.n_leaves, n_leaves=self.n_leaves
        )
        return Start(
            origin=soft,
            width=width,
            structure=structure,
            state=initial_state(parameters),
            best=parameters,
        )

    def advance(
        self, starts: list[Start], n_rows: int, data: TrainingData | None = None
    ) -> np.ndarray:
        """One chunk of steps for some starts.

        Parameters
        ----------
        starts : list of Start
            Their states are replaced.
        n_rows : int
            Minibatches come from the first rows of the data.
        data : TrainingData, optional
            In place of the trainer's own.

        Returns
        -------
        ndarray of shape (n_starts, n_folds), float64
            Errors on the pruning rows.
        """
        data = self.data if data is None else data
        rows = minibatches(self.random, n_rows, self.options.chunk, self.batch_size)
        # On the CPU one start after the other costs no more, and each may stop alone.
        together = 1 if jax.default_backend() == "cpu" else len(starts)
        errors = []
        for first in range(0, len(starts), together):
            group = starts[first : first + together]
            state = _stacked([start.state for start in group])
            structure = _stacked([start.structure for start in group])
            state, error = train_chunk(state, structure, data, rows, self.rates)
            state = jax.tree.map(np.asarray, state)
            errors.append(error)
            for i, start in enumerate(group):
                start.state = jax.tree.map(lambda array, i=i: array[i], state)
        return np.concatenate([np.asarray(error, np.float64) for error in errors])

    def train(self, starts: list[Start], progress: Progress | None = None) -> None:
        """Train until all have stopped; each start keeps its best parameters."""
        options = self.options
        epoch = self.n_training / self.batch_size
        patience = np.clip(options.patience_epochs * epoch, *options.patience_steps)
        active = list(starts)
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
            if progress is not None and step % (8 * options.chunk) == 0:
                lowest = min(start.best_error for start in starts)
                progress(
                    f"step {step}: {len(active)} of {len(starts)} starts in training, "
                    f"least mean squared error {lowest / self.judged.weight.sum():.4g}"
                )
            if not active:
                break

    def trained_again(self, start: Start) -> Start:
        """A start trained on all rows for as many epochs; itself if it went astray."""
        tree = with_models(
            start.origin, self.everything, start.origin.schema, self.leaf
        )
        again = self.start(tree, self.everything, start.width)
        n_steps = min(
            start.best_step * self.n_rows / self.n_training, self.options.max_steps
        )
        for _ in range(max(1, round(n_steps / self.options.chunk))):
            self.advance([again], self.n_rows)
        again.best, again.best_step = again.state.average, start.best_step
        limit = _ASTRAY * squared_error(start.tree, self.everything)
        return again if squared_error(again.tree, self.everything) <= limit else start

    def crossed_error(self, starts: list[Start]) -> float:
        """Mean squared error on each fold of what the other folds choose.

        The best error on rows that chose start and length of training is too low, by
        much if they are few. Standardised units squared.
        """
        history = np.concatenate([np.array(start.history) for start in starts])
        history = np.where(np.isfinite(history), history, np.inf)
        fold = np.arange(history.shape[1])
        others = history.sum(axis=1, keepdims=True) - np.where(
            np.isfinite(history), history, 0.0
        )
        chosen = others.argmin(axis=0)
        return float(history[chosen, fold].sum() / self.judged.weight.sum())

    def hard_error(self, candidates: tuple[Candidate, ...]) -> float:
        """The same for hard trees: pruned on the other folds, measured on each."""
        fold = np.arange(len(self.judged.y)) % self.options.n_folds
        total = 0.0
        for i in range(self.options.n_folds):
            own, other = self.judged.take(fold == i), self.judged.take(fold != i)
            if not len(own.y) or not len(other.y):
                continue
            pruned = [
                reduced_error(candidate.grown, other.table, other.y, other.weight)
                for candidate in candidates
            ]
            tree, _ = min(pruned, key=lambda pair: pair[1])
            total += squared_error(tree, own)
        return total / self.judged.weight.sum()


def _stacked(values: list):
    return jax.tree.map(lambda *parts: np.stack(parts), *values)
