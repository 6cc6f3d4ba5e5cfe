"""Gradient training of gates and leaves: Adam in chunks of steps, with early stopping.

A chunk of steps is one compiled program that all starts share: they are padded to one
number of leaves, and minibatches are taken from the rows on the host. After a chunk the
averaged parameters are judged on held-out rows, and the host decides what goes on.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from secret_jax.data.hashes import ROW_ORDER
from secret_jax.data.rows import Rows, join
from secret_jax.fit.grow.trees import Recipe
from secret_jax.fit.interface import (
    Candidate,
    Evidence,
    Fitted,
)
from secret_jax.fit.prune.rules import HoldOut
from secret_jax.fit.refine.widths import deviations, with_widths
from secret_jax.losses.interface import Loss
from secret_jax.models.fitting import fit_models, total_error
from secret_jax.runtime.devices import on_accelerator
from secret_jax.runtime.linalg import AnyArray
from secret_jax.runtime.programs import program
from secret_jax.runtime.progress import UNTOLD, Stage
from secret_jax.runtime.shapes import next_power_of_two, padded
from secret_jax.tree.soft import SoftRouting, mixed, soft_routing
from secret_jax.tree.structure import SplitKind, Tree

# Penalty on the mean squared change of the leaves' slopes.
_L2 = 1e-3
# Share of the newest parameters in the average over the steps.
_NEWEST = 0.02
# A soft tree trained on more rows errs less on them; with this multiple of the error of
# the one trained on fewer it has diverged.
_DIVERGED = 1.1
# A batch of an eighth of the rows and more makes an epoch of few steps; smaller ones
# than the least waste the width of a processor's arithmetic.
_LEAST_BATCHES, _SMALLEST_BATCH = 8, 16
# A start stops after so many epochs without improvement, within bounds in steps.
_PATIENCE_EPOCHS, _PATIENCE_STEPS = 30, (320, 1024)
# After this share of the steps, half of it with many rows, so many starts go on.
_SCREENED, _N_KEPT = 1 / 8, 4
# Training rows used at most, and held-out rows; of these so many judge a training, in
# so many parts for the comparison with the hard tree.
_MOST_ROWS, _MOST_JUDGED, _FOLDS = 2**19, 4096, 4
_FEWEST_JUDGED = 64
# Numbers of leaves are padded to multiples of this one, for few programs: powers of two
# would cost twice as much.
_LEAVES_APART = 16
# Training rows that are many. On fewer, half of the steps cost up to a quarter more
# error; on two sets of 4,000 and 75,000 rows nothing.
_MANY_ROWS = 4096
# Share of its steps for which a training goes on with all rows.
_GOING_ON = 0.25
# With an epoch of more calls than this rows are drawn independently: one permutation
# would cost more than the steps.
_MANY_CALLS = 4
# Minimum norm of a gate's direction: below it all rows get nearly equal shares.
_SHORTEST = 1e-12


class Parameters(NamedTuple):
    """Trained arrays of a soft tree, named as in `SoftRouting`; padding stays zero.

    Directions and thresholds are in units of the gate's width.
    """

    direction: AnyArray  # (n_inner, n_continuous), float32
    threshold: AnyArray  # (n_inner,), float32
    coefficient: AnyArray  # (n_leaves, n_outputs, 1 + n_regressors), float32


# Adam (Kingma & Ba 2015) with rates of the gates and of the leaves.
ADAM = optax.partition(
    {"gates": optax.adam(0.01), "leaves": optax.adam(0.005)},
    Parameters("gates", "gates", "leaves"),
)


class Structure(NamedTuple):
    """Arrays of a soft tree that stay as they are."""

    routing: SoftRouting  # with the parameters of the start, and without clipping
    free: AnyArray  # (n_inner, n_continuous), float32: 1 where the direction may change

    def start(self) -> Parameters:
        """Parameters where the training starts."""
        return Parameters(*(getattr(self.routing, name) for name in Parameters._fields))

    def routed(self, parameters: Parameters) -> SoftRouting:
        """Soft tree of other parameters, which predicts with `mixed`."""
        free = parameters._replace(direction=self.free * parameters.direction)
        return self.routing._replace(**free._asdict())


def trainable(tree: Tree, *, oblique: bool, n_leaves: int) -> Structure:
    """Pad a tree with gates in units of their widths; ``oblique``: of all columns."""
    inner = ~tree.is_leaf & (tree.kind != SplitKind.DISCRETE)
    width = np.where(inner, tree.gate_width, 1.0).astype(np.float64)
    direction = tree.direction / width[:, None]
    scaled = {"direction": direction, "threshold": tree.threshold / width}
    scaled |= {"gate_width": inner.astype(np.float32), "clip_leaves": False}
    routing = soft_routing(replace(tree, **scaled), n_leaves)
    free = inner[:, None] & (True if oblique else direction != 0)
    free = np.broadcast_to(free, direction.shape)[~tree.is_leaf].astype(np.float32)
    unbounded = np.full(tree.n_outputs, np.inf, np.float32)
    routing = routing._replace(lowest=-unbounded, highest=unbounded)
    return Structure(routing, padded(free, len(routing.threshold)))


def to_tree(tree: Tree, parameters: Parameters) -> Tree:
    """Write trained parameters back into the tree.

    Directions of several attributes get unit length, those of one keep to it.
    """
    inner, leaf = np.flatnonzero(~tree.is_leaf), np.flatnonzero(tree.is_leaf)
    gate = tree.kind[inner] != SplitKind.DISCRETE
    steep = np.asarray(parameters.direction, np.float64)[: len(inner)][gate]
    offset = np.asarray(parameters.threshold, np.float64)[: len(inner)][gate]
    # What a missing value counts as is no direction of its own.
    along = steep.copy()
    for column, indicator in tree.schema.missing_columns:
        along[along[:, column] != 0, indicator] = 0
    one = (along != 0).sum(axis=1) == 1
    length = np.where(one, np.abs(along).sum(axis=1), np.linalg.norm(steep, axis=1))
    length = np.maximum(length, _SHORTEST)
    changed = {
        "direction": steep / length[:, None],
        "threshold": offset / length,
        "gate_width": 1.0 / length,
        "kind": np.where(one, SplitKind.AXIS, SplitKind.OBLIQUE),
        "attribute": np.where(one, (along != 0) @ np.arange(along.shape[1]), -1),
    }
    arrays = {name: getattr(tree, name).copy() for name in changed}
    for name, found in changed.items():
        arrays[name][inner[gate]] = found
    coefficient = tree.coefficient.copy()
    coefficient[leaf] = np.asarray(parameters.coefficient)[: len(leaf)]
    return replace(tree, coefficient=coefficient, clip_leaves=False, **arrays)


class TrainingRows(NamedTuple):
    """Rows to learn from, to judge by, or of each step of a chunk (one more axis)."""

    x: AnyArray  # (n_rows, n_continuous), float32
    codes: AnyArray  # (n_rows, n_discrete), int32
    targets: AnyArray  # (n_rows, n_outputs), float32
    weight: AnyArray  # (n_rows,), float32: weights with a mean of one

    @classmethod
    def of(cls, rows: Rows) -> TrainingRows:
        """Take rows on the host, in the precision of the training."""
        weight = rows.weight / rows.weight.mean()
        numbers = (each.astype(np.float32) for each in (rows.targets, weight))
        return cls(*rows.table, *numbers)


class Judges(NamedTuple):
    """Held-out rows, padded."""

    rows: TrainingRows
    # (n_folds, n_judged), float32: weights in parts that are judged apart; 0 for
    # padding.
    fold: AnyArray
    # low, high (n_outputs,), float32: range of the predictions.
    low: AnyArray
    high: AnyArray


class TrainingState(NamedTuple):
    """Parameters, their average over the steps, and what Adam remembers."""

    parameters: Parameters
    average: Parameters
    adam: optax.OptState

    @classmethod
    def initial(cls, parameters: Parameters) -> TrainingState:
        """State before the first step."""
        # Zeros, which take no programs of their own if NumPy makes them.
        adam = jax.eval_shape(ADAM.init, parameters)
        adam = jax.tree.map(lambda array: np.zeros(array.shape, array.dtype), adam)
        return cls(parameters, parameters, adam)


def objective(
    parameters: Parameters, structure: Structure, batch: TrainingRows, loss: Loss
) -> jax.Array:
    """Mean loss of a minibatch, and a penalty on changed slopes of the leaves."""
    value = mixed(structure.routed(parameters), batch.x, batch.codes, jnp).T
    losses = loss.row_losses(value, batch.targets)
    moved = (parameters.coefficient - structure.routing.coefficient)[:, :, 1:]
    n_leaves = jnp.sum(structure.routing.along.absent == 0, dtype=jnp.float32)
    penalty = jnp.sum(moved**2) / (n_leaves * max(moved.shape[2], 1))
    return jnp.mean(batch.weight * losses) + _L2 * penalty


@program(static_argnames=("loss",), small_steps=True)
def train_chunk(
    state: TrainingState,
    structure: Structure,
    batches: TrainingRows,
    judges: Judges,
    *,
    loss: Loss,
) -> tuple[TrainingState, jax.Array]:
    """Run steps of Adam for some starts on the same minibatches, and judge them.

    Starts are the first axis of the first two, steps that of ``batches``. Losses
    (n_starts, n_folds) are sums; infinite if a start diverged.
    """

    def train(
        state: TrainingState, structure: Structure
    ) -> tuple[TrainingState, jax.Array]:
        def step(state: TrainingState, batch: TrainingRows) -> tuple[Any, None]:
            gradient = jax.grad(objective)(state.parameters, structure, batch, loss)
            with jax.numpy_dtype_promotion("standard"):  # it counts steps in integers
                update, adam = ADAM.update(gradient, state.adam)
            parameters: Any = optax.apply_updates(state.parameters, update)
            average: Any = optax.incremental_update(parameters, state.average, _NEWEST)
            return TrainingState(parameters, average, adam), None

        state, _ = jax.lax.scan(step, state, batches)
        rows, fold, low, high = judges
        routing = structure.routed(state.average)
        value = mixed(routing, rows.x, rows.codes, jnp).T
        losses = loss.row_losses(jnp.clip(value, low, high), rows.targets)
        sound = jnp.isfinite(sum(jnp.sum(array) for array in state.average))
        return state, jnp.where(sound, jnp.sum(fold * losses, axis=1), jnp.inf)

    return jax.vmap(train)(state, structure)


def minibatches(
    random: np.random.Generator, n_rows: int, n_steps: int, batch_size: int
) -> np.ndarray:
    """Draw the rows of each step from permutations, (n_steps, batch_size), int32."""
    wanted = n_steps * batch_size
    if n_rows > _MANY_CALLS * wanted:
        drawn = random.integers(0, n_rows, wanted)
    else:
        n_epochs = -(-wanted // n_rows)
        epochs = [random.permutation(n_rows) for _ in range(n_epochs)]
        drawn = np.concatenate(epochs)[:wanted]
    return drawn.reshape(n_steps, batch_size).astype(np.int32)


@dataclass(eq=False)
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
    def tree(self) -> Tree:
        """Tree of the best parameters."""
        return to_tree(self.origin, self.best)


class Trainer:
    """Rows, the `secret_jax.SoftGates` that ask, and sizes that all starts share."""

    def __init__(self, fitted: Fitted, recipe: Recipe, options: Any, trees: list[Tree]):
        assert fitted.held_out is not None
        self.leaf, self.options, self.loss = recipe.leaf, options, trees[0].loss
        # Whether splits on one attribute may come to hold others.
        self.oblique = recipe.oblique and recipe.options.finder.max_attributes is None
        self.random = np.random.default_rng(ROW_ORDER)
        self.training = fitted.training.take(slice(None, _MOST_ROWS))
        pruning = fitted.held_out.take(slice(None, _MOST_ROWS))
        self.all_rows = join([self.training, pruning])
        self.n_training, self.n_rows = self.training.n_rows, self.all_rows.n_rows
        self.has_many = self.n_training >= _MANY_ROWS
        most_leaves = max(tree.n_leaves for tree in trees)
        self.n_leaves = -(-most_leaves // _LEAVES_APART) * _LEAVES_APART
        # The power of two that leaves enough batches, within bounds.
        suitable = next_power_of_two(self.n_training // _LEAST_BATCHES + 1) // 2
        self.batch_size = max(_SMALLEST_BATCH, min(options.batch_size, suitable))
        self.rows = TrainingRows.of(self.all_rows)
        self.judged = pruning.take(slice(None, _MOST_JUDGED))
        self.fold = np.arange(self.judged.n_rows) % _FOLDS
        n_judged = next_power_of_two(max(self.judged.n_rows, _FEWEST_JUDGED))
        fold = np.zeros((_FOLDS, n_judged), np.float32)
        fold[self.fold, np.arange(self.judged.n_rows)] = self.judged.weight
        lows, highs = zip(*(_of_all_nodes(t).clip_range() for t in trees), strict=True)
        rows = (padded(each, n_judged) for each in TrainingRows.of(self.judged))
        judges = Judges(
            rows=TrainingRows(*rows),
            fold=fold,
            low=np.min([low[0] for low in lows], axis=0).astype(np.float32),
            high=np.max([high[0] for high in highs], axis=0).astype(np.float32),
        )
        self.judges = jax.device_put(judges)

    def start(self, tree: Tree, rows: Rows, width: float) -> Start:
        """Initialise a start: a tree with gates of a relative width."""
        soft = with_widths(_of_all_nodes(tree), width, deviations(tree, rows))
        structure = trainable(soft, oblique=self.oblique, n_leaves=self.n_leaves)
        state = TrainingState.initial(structure.start())
        return Start(soft, width, structure, state, structure.start())

    def advance(self, starts: list[Start], n_rows: int) -> np.ndarray:
        """Train some starts by a chunk of steps on the first rows; return errors."""
        drawn = minibatches(self.random, n_rows, self.options.chunk, self.batch_size)
        batches = TrainingRows(*(array[drawn] for array in self.rows))
        # Always so many at once, for one program: an accelerator has room for several.
        abreast, errors = _N_KEPT if on_accelerator() else 1, []
        for first in range(0, len(starts), abreast):
            some = starts[first : first + abreast]
            filled = [*some, *some[:1] * (abreast - len(some))]
            both = [(start.state, start.structure) for start in filled]
            state, structure = jax.tree.map(lambda *parts: np.stack(parts), *both)
            found = train_chunk(state, structure, batches, self.judges, loss=self.loss)
            state, error = jax.tree.map(np.asarray, found)
            for i, start in enumerate(some):
                start.state = jax.tree.map(lambda array, i=i: array[i], state)
                errors.append(error[i])
        return np.asarray(errors, np.float64)

    def train(self, starts: list[Start], stage: Stage = UNTOLD) -> None:
        """Train until all starts have stopped; each keeps its best parameters."""
        options = self.options
        epoch = self.n_training / self.batch_size
        patience = np.clip(_PATIENCE_EPOCHS * epoch, *_PATIENCE_STEPS)
        screened = _SCREENED * options.max_steps / (2 if self.has_many else 1)
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
                for start, error in zip(active, errors, strict=True)
                if np.isfinite(error).all() and step - start.best_step < patience
            ]
            if step >= screened:
                active = sorted(active, key=lambda start: start.best_error)[:_N_KEPT]
            stage.at(step, options.max_steps, f"{len(active)} of {len(starts)} starts")
            if not active:
                break

    def trained_again(self, start: Start, stage: Stage = UNTOLD) -> Start:
        """Train again on all rows, from many go on; the old start if that diverges."""
        if self.has_many:
            again = replace(start, state=TrainingState.initial(start.best))
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
        again.best, again.best_step = again.state.average, start.best_step
        limit = _DIVERGED * total_error(start.tree, self.all_rows)
        return again if total_error(again.tree, self.all_rows) <= limit else start

    def crossed_error(self, starts: list[Start]) -> float:
        """Mean error on each fold of the start and step chosen on the other folds."""
        history = np.concatenate([np.array(start.history) for start in starts])
        finite = np.isfinite(history)
        others = np.where(finite, history, np.inf).sum(axis=1, keepdims=True)
        chosen = (others - np.where(finite, history, 0.0)).argmin(axis=0)
        total = history[chosen, np.arange(history.shape[1])].sum()
        return float(total / self.judged.weight.sum())

    def crossed_hard_error(self, candidates: tuple[Candidate, ...]) -> float:
        """Mean error of hard trees on each fold, pruned on the other folds."""
        judged, total = self.judged, 0.0
        for fold in np.unique(self.fold) if judged.n_rows > 1 else ():
            inside = self.fold == fold
            evidence = Evidence(self.training, judged.take(~inside))
            pruned = [
                HoldOut()(candidate.trees[0], evidence) for candidate in candidates
            ]
            best = min(pruned, key=lambda found: found.value)
            total += total_error(best.tree, judged.take(inside))
        return total / judged.weight.sum()


def _of_all_nodes(tree: Tree) -> Tree:
    """Clip to the range of all nodes: log-odds of leaves may lie beyond the root's."""
    lower, upper = tree.lower.copy(), tree.upper.copy()
    lower[0], upper[0] = lower.min(axis=0), upper.max(axis=0)
    return replace(tree, lower=lower, upper=upper)
