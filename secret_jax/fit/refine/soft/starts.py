"""Parallel training of several starts of a soft tree, with early stopping."""

from dataclasses import dataclass, field, replace

import jax
import numpy as np

from secret_jax.data.rows import Rows, join
from secret_jax.fit.prune.hold_out import HoldOut
from secret_jax.fit.prune.interface import Evidence
from secret_jax.fit.refine.interface import Candidate
from secret_jax.fit.refine.soft.options import SoftOptions
from secret_jax.fit.refine.soft.parameters import (
    Parameters,
    Structure,
    deviations,
    parted,
    to_parameters,
    to_tree,
    with_range_of_nodes,
    with_widths,
)
from secret_jax.fit.refine.soft.steps import (
    Rates,
    TrainingData,
    TrainingState,
    initial_state,
    minibatches,
    train_chunk,
    train_start,
)
from secret_jax.models.errors import total_error
from secret_jax.models.fitting import fit_models
from secret_jax.models.interface import LeafModel
from secret_jax.runtime.devices import on_accelerator
from secret_jax.runtime.parallel import one_thread_for_products
from secret_jax.runtime.progress import UNTOLD, Stage
from secret_jax.runtime.shapes import bucket, next_power_of_two, padded
from secret_jax.tree.structure import Tree

# A soft tree trained on more rows errs less on them; with this multiple of the error of
# the one trained on fewer it has diverged.
_DIVERGED = 1.1
# A batch of an eighth of the rows and more makes an epoch of few steps.
_LEAST_BATCHES = 8
RATES = Rates(
    gate_rate=np.float32(0.01),
    leaf_rate=np.float32(0.005),
    l2=np.float32(1e-3),
    averaging=np.float32(0.98),
)
# A start stops after so many epochs without improvement, within bounds in steps.
_PATIENCE_EPOCHS, _PATIENCE_STEPS = 30, (320, 1024)
# Training rows used at most, and held-out rows; of these so many judge a training, in
# so many parts for the comparison with the hard tree.
_MOST_ROWS, _MOST_JUDGED, _FOLDS = 2**19, 4096, 4
# Training rows that are many. On fewer, half of the steps cost up to a quarter more
# error; on two sets of 4,000 and 75,000 rows nothing.
_MANY_ROWS = 4096
# Share of its steps for which a training goes on with all rows.
_GOING_ON = 0.25
# Smaller batches than these waste the width of a processor's arithmetic.
_SMALLEST_BATCH = 16
# Sizes below these are one program.
_FEWEST_LEAVES, _FEWEST_ROWS, _FEWEST_JUDGED = 16, 256, 64


@dataclass(eq=False, kw_only=True)
class Start:
    """Training state of a tree with gates of one initial relative width."""

    origin: Tree
    width: float
    structure: Structure
    state: TrainingState
    best: Parameters  # parameters of least error on the pruning rows
    best_error: float = np.inf  # summed over the pruning rows
    best_step: int = 0
    # (n_folds,) each: errors after every chunk.
    history: list[np.ndarray] = field(default_factory=list)

    @property
    def average(self) -> Parameters:
        """Parameters averaged over the steps."""
        return parted(self.state.average, self.structure.start)

    @property
    def tree(self) -> Tree:
        """Tree of the best parameters."""
        return to_tree(self.origin, self.best)


class Trainer:
    """Rows on the device, and the padded sizes that all starts share.

    ``oblique``: whether splits on one attribute may come to hold others; ``trees``:
    trees to start from, which determine the padding.
    """

    def __init__(
        self,
        training: Rows,
        pruning: Rows,
        leaf: LeafModel,
        options: SoftOptions,
        *,
        oblique: bool,
        seed: int,
        trees: list[Tree],
    ):
        self.leaf, self.options, self.oblique = leaf, options, oblique
        self.loss = trees[0].loss
        self.random = np.random.default_rng(seed)
        self.training = training.take(slice(None, _MOST_ROWS))
        self.pruning = pruning.take(slice(None, _MOST_ROWS))
        self.all_rows = join([self.training, self.pruning])
        self.n_training, self.n_rows = self.training.n_rows, self.all_rows.n_rows
        most_leaves = max(tree.n_leaves for tree in trees)
        self.n_leaves = max(_FEWEST_LEAVES, next_power_of_two(most_leaves))
        # The power of two that leaves enough batches, within bounds.
        suitable = next_power_of_two(self.n_training // _LEAST_BATCHES + 1) // 2
        self.batch_size = max(_SMALLEST_BATCH, min(options.batch_size, suitable))
        self.on_device = on_accelerator()
        data = self._data(trees)
        self.data = jax.device_put(data) if self.on_device else data

    def _data(self, trees: list[Tree]) -> TrainingData:
        rows = self.all_rows
        judged = np.arange(min(self.pruning.n_rows, _MOST_JUDGED))
        n_padded, n_judged = self.n_rows, len(judged)
        if self.on_device:
            n_padded = bucket(n_padded, smallest=_FEWEST_ROWS)
            n_judged = next_power_of_two(max(n_judged, _FEWEST_JUDGED))
        fold = np.zeros((_FOLDS, n_judged), np.float32)
        fold[judged % _FOLDS, judged] = self.pruning.weight[judged]
        self.judged = self.pruning.take(judged)
        ranges = [with_range_of_nodes(tree).clip_range() for tree in trees]
        low = np.min([low[0] for low, _ in ranges], axis=0).astype(np.float32)
        high = np.max([high[0] for _, high in ranges], axis=0).astype(np.float32)
        return TrainingData(
            x=padded(rows.table.x, n_padded),
            codes=padded(rows.table.codes, n_padded),
            targets=padded(rows.targets.astype(np.float32), n_padded),
            weight=padded(
                (rows.weight / rows.weight.mean()).astype(np.float32), n_padded
            ),
            validation=padded((self.n_training + judged).astype(np.int32), n_judged),
            fold=fold,
            low=low,
            high=high,
        )

    @property
    def has_many(self) -> bool:
        """Whether there are many training rows."""
        return self.n_training >= _MANY_ROWS

    def of_steps(self, n_steps: int) -> int:
        """Steps to take of so many: half with many rows, which say more each."""
        return max(n_steps // 2, 1) if self.has_many else n_steps

    def start(self, tree: Tree, rows: Rows, width: float) -> Start:
        """Initialise a start: a tree with gates of a relative width."""
        soft = with_widths(with_range_of_nodes(tree), width, deviations(tree, rows))
        n_leaves = self.n_leaves if self.on_device else tree.n_leaves
        parameters, structure = to_parameters(
            soft,
            oblique=self.oblique,
            n_inner=n_leaves if self.on_device else n_leaves - 1,
            n_leaves=n_leaves,
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
        """Train some starts by one chunk of steps.

        ``starts``: their states are replaced; ``n_rows``: minibatches come from the
        first rows of the data; ``data``: data to use in place of the trainer's own.
        Returns (n_starts, n_folds), float64: errors on the pruning rows.
        """
        given = self.data if data is None else data
        rows = minibatches(self.random, n_rows, self.options.chunk, self.batch_size)
        states = [start.state for start in starts]
        structures = [start.structure for start in starts]
        if self.on_device:
            state, found = train_chunk(
                *(_stacked(states), _stacked(structures)),
                *(given, rows, RATES),
                kind=self.loss,
            )
            state, errors = jax.tree.map(np.asarray, state), list(found)
            states = [
                jax.tree.map(lambda array, i=i: array[i], state)
                for i in range(len(starts))
            ]
        else:
            with one_thread_for_products():
                pairs = [
                    train_start(*each, given, rows, RATES, kind=self.loss)
                    for each in zip(states, structures, strict=True)
                ]
            states, errors = zip(*pairs, strict=True)
        for start, state in zip(starts, states, strict=True):
            start.state = state
        return np.asarray(errors, np.float64)

    def train(self, starts: list[Start], stage: Stage = UNTOLD) -> None:
        """Train until all starts have stopped; each keeps its best parameters."""
        options = self.options
        epoch = self.n_training / self.batch_size
        patience = np.clip(_PATIENCE_EPOCHS * epoch, *_PATIENCE_STEPS)
        active = list(starts)
        for step in range(options.chunk, options.max_steps + 1, options.chunk):
            errors = self.advance(active, self.n_training)
            for start, error in zip(active, errors, strict=True):
                start.history.append(error)
                if error.sum() < start.best_error:
                    start.best_error, start.best_step = float(error.sum()), step
                    start.best = start.average
            active = [
                start
                for start in active
                if np.isfinite(start.history[-1]).all()
                and step - start.best_step < patience
            ]
            if step >= self.of_steps(options.screen_steps) and (
                len(active) > options.n_kept
            ):
                active.sort(key=lambda start: start.best_error)
                active = active[: options.n_kept]
            stage.at(step, options.max_steps, f"{len(active)} of {len(starts)} starts")
            if not active:
                break

    def trained_again(self, start: Start, stage: Stage = UNTOLD) -> Start:
        """Train a start again on all rows; return the old one if that diverges.

        Of many rows the training has seen each a few times only: it goes on.
        """
        if self.has_many:
            again = replace(start, state=initial_state(start.best))
            n_steps = _GOING_ON * start.best_step
        else:
            tree = fit_models([start.origin], [self.all_rows], self.leaf)[0]
            again = self.start(tree, self.all_rows, start.width)
            n_steps = start.best_step * self.n_rows / self.n_training
        n_steps = min(n_steps, self.options.max_steps)
        n_chunks = max(1, round(n_steps / self.options.chunk))
        for chunk in range(n_chunks):
            stage.at(chunk, n_chunks)
            self.advance([again], self.n_rows)
        again.best, again.best_step = again.average, start.best_step
        limit = _DIVERGED * total_error(start.tree, self.all_rows)
        return again if total_error(again.tree, self.all_rows) <= limit else start

    def crossed_error(self, starts: list[Start]) -> float:
        """Mean error on each fold of the start and step chosen on the other folds.

        The best error on rows that chose start and length of training is too low, by
        much if they are few. Standardised units squared, or those of the loss.
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
        """Error of hard trees on each fold, pruned on the other folds."""
        fold = np.arange(self.judged.n_rows) % _FOLDS
        total = 0.0
        for i in range(_FOLDS):
            own, other = self.judged.take(fold == i), self.judged.take(fold != i)
            if not own.n_rows or not other.n_rows:
                continue
            evidence = Evidence(self.training, other)
            pruned = [HoldOut()(candidate.grown, evidence) for candidate in candidates]
            best = min(pruned, key=lambda found: found.value)
            total += total_error(best.tree, own)
        return total / self.judged.weight.sum()


def _stacked(values: list):
    return jax.tree.map(lambda *parts: np.stack(parts), *values)
