"""Gradient training of gates and leaves, in chunks of steps of Adam.

A step is one function of arrays: on accelerators a chunk is one compiled scan over the
minibatches of several starts, on processors a loop over small products of NumPy. After
a chunk the averaged parameters are judged on the validation rows, and the host decides
which starts go on.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from secret_jax.fit.refine.soft.parameters import (
    Parameters,
    Structure,
    flat,
    forward,
    gate_logits,
    leaf_values,
    parted,
)
from secret_jax.losses.interface import Loss
from secret_jax.losses.numbers import SQUARED_ERROR
from secret_jax.runtime.linalg import AnyArray, matmul
from secret_jax.runtime.programs import program
from secret_jax.tree.soft import leaf_shares, log_left_shares

# Of Adam (Kingma & Ba 2015): decays of the means of gradients and of their squares.
_DECAY, _SQUARE_DECAY, _TINY = 0.9, 0.999, 1e-8
# Validation rows that NumPy looks at together: they stay in a cache.
_JUDGED_ROWS = 1024
# With an epoch of more calls than this rows are drawn independently: one permutation
# would cost more than the steps.
_MANY_CALLS = 4


class TrainingData(NamedTuple):
    """Padded rows on the device."""

    x: AnyArray  # (n_padded, n_continuous), float32
    codes: AnyArray  # (n_padded, n_discrete), int32
    targets: AnyArray  # (n_padded, n_outputs), float32
    weight: AnyArray  # (n_padded,), float32: weights with a mean of one
    validation: AnyArray  # (n_validation,), int32: rows to judge by
    # (n_folds, n_validation), float32: their weights, in parts that are judged apart; 0
    # for padding.
    fold: AnyArray
    # low, high (n_outputs,), float32: range of the predictions.
    low: AnyArray
    high: AnyArray


class Batch(NamedTuple):
    """Rows of a step, as those of `TrainingData`."""

    x: AnyArray
    codes: AnyArray
    targets: AnyArray
    weight: AnyArray


class Rates(NamedTuple):
    """Rates of a step of Adam."""

    gate_rate: AnyArray
    leaf_rate: AnyArray
    l2: AnyArray  # penalty on the mean squared change of the leaves' slopes
    averaging: AnyArray  # decay of the average of the parameters over the steps


class TrainingState(NamedTuple):
    """Parameters, their average and what Adam remembers, as vectors (see `flat`)."""

    values: AnyArray
    average: AnyArray
    gradient: AnyArray
    square: AnyArray
    n_steps: AnyArray


def initial_state(parameters: Parameters) -> TrainingState:
    """State before the first step."""
    values = flat(parameters)
    nothing = np.zeros_like(values)
    return TrainingState(values, values, nothing, nothing, np.zeros((), np.float32))


def objective_gradient(
    parameters: Parameters,
    structure: Structure,
    batch: Batch,
    l2: AnyArray | float,
    kind: Loss = SQUARED_ERROR,
    xp: Any = jnp,
) -> Parameters:
    """Gradient of the mean loss of a minibatch and of a penalty on changed slopes.

    The penalty is ``l2`` times the mean squared change of the leaves' slopes.
    """
    (x, codes, targets, weight), along = batch, structure.along
    logit, moves = gate_logits(parameters, structure, x, codes, xp)
    log_left = log_left_shares(logit, xp)
    share = leaf_shares(logit, along, xp, log_left)
    every = leaf_values(parameters, x, xp)
    value = xp.stack([xp.sum(share * own, axis=1) for own in every], axis=1)
    slope = kind.row_slopes(value, targets, xp) * (weight / len(x))[:, None]
    # A gate moves the shares of the leaves below it: what the left ones gain, the right
    # ones lose.
    pull = share * sum(slope[:, k, None] * own for k, own in enumerate(every))
    left = xp.exp(log_left)
    to_left, to_right = matmul(pull, along.left), matmul(pull, along.right)
    of_logit = xp.where(moves, to_left * (1.0 - left) - to_right * left, 0.0)
    design = x[:, : parameters.coefficient.shape[2] - 1]
    own = [share * slope[:, k, None] for k in range(len(every))]
    slopes = xp.stack([matmul(each.T, design) for each in own], axis=1)
    constants = xp.stack([xp.sum(each, axis=0) for each in own], axis=1)
    moved = parameters.coefficient[:, :, 1:] - structure.start.coefficient[:, :, 1:]
    n_slopes = xp.sum(along.absent == 0) * max(moved.shape[2], 1)
    slopes = slopes + (2.0 * l2 / n_slopes.astype(np.float32)) * moved
    return Parameters(
        -matmul(of_logit.T, x) * structure.free,
        xp.sum(of_logit, axis=0),
        xp.concatenate([constants[:, :, None], slopes], axis=2),
    )


def train_start(
    state: TrainingState,
    structure: Structure,
    data: TrainingData,
    rows: AnyArray,
    rates: Rates,
    *,
    kind: Loss = SQUARED_ERROR,
    xp: Any = np,
) -> tuple[TrainingState, Any]:
    """Run some steps of Adam for one start.

    ``rows`` (n_steps, batch_size), int32: minibatches; ``kind``: see `Loss.row_losses`.
    Returns ``error`` (n_folds,), float32: losses of the averaged parameters on the
    validation rows, summed.
    """
    start = structure.start
    n_gate, n_leaf = start.direction.size + start.offset.size, start.coefficient.size
    rate = xp.concatenate(
        [xp.full(n_gate, rates.gate_rate), xp.full(n_leaf, rates.leaf_rate)]
    )

    def step(state: TrainingState, batch: Batch) -> tuple[TrainingState, None]:
        own = parted(state.values, start)
        found = objective_gradient(own, structure, batch, rates.l2, kind, xp)
        found, n_steps = flat(found, xp), state.n_steps + np.float32(1)
        gradient = _DECAY * state.gradient + (1 - _DECAY) * found
        square = _SQUARE_DECAY * state.square + (1 - _SQUARE_DECAY) * found**2
        deviation = xp.sqrt(square / (1 - np.float32(_SQUARE_DECAY) ** n_steps))
        change = gradient / (1 - np.float32(_DECAY) ** n_steps) / (deviation + _TINY)
        values = state.values - rate * change
        average = values + rates.averaging * (state.average - values)
        return TrainingState(values, average, gradient, square, n_steps), None

    batches = Batch(*(array[rows] for array in data[: len(Batch._fields)]))
    if xp is np:
        with np.errstate(all="ignore"):  # a training may diverge
            for batch in map(Batch, *batches):
                state, _ = step(state, batch)
            return state, _judged(state, structure, data, kind)
    state, _ = jax.lax.scan(step, state, batches)
    losses = _losses(state, structure, data, data.validation, kind, xp)
    return state, xp.sum(data.fold * losses, axis=1)


def _losses(
    state: TrainingState,
    structure: Structure,
    data: TrainingData,
    row: AnyArray,
    kind: Loss,
    xp: Any,
) -> Any:
    """Losses of the averaged parameters on some rows."""
    average = parted(state.average, structure.start)
    value = forward(average, structure, data.x[row], data.codes[row], xp)
    value = xp.clip(value, data.low, data.high)
    return kind.row_losses(value, data.targets[row], xp)


def _judged(
    state: TrainingState, structure: Structure, data: TrainingData, kind: Loss
) -> np.ndarray:
    starts = range(0, len(data.validation), _JUDGED_ROWS)
    parts = [data.validation[first : first + _JUDGED_ROWS] for first in starts]
    losses = [_losses(state, structure, data, part, kind, np) for part in parts]
    return data.fold @ np.concatenate(losses)


@program(static_argnames=("kind",))
def train_chunk(
    state: TrainingState,
    structure: Structure,
    data: TrainingData,
    rows: jax.Array,
    rates: Rates,
    *,
    kind: Loss = SQUARED_ERROR,
) -> tuple[TrainingState, jax.Array]:
    """Run `train_start` for a batch of starts, on the same minibatches, compiled.

    ``state``, ``structure``: with the starts as their first axis. Returns ``error``
    (n_starts, n_folds), float32.
    """
    one = partial(train_start, kind=kind, xp=jnp)
    return jax.vmap(one, in_axes=(0, 0, None, None, None))(
        state, structure, data, rows, rates
    )


def minibatches(
    random: np.random.Generator, n_rows: int, n_steps: int, batch_size: int
) -> np.ndarray:
    """Draw the rows of each step: permutations cut into batches.

    ``n_rows``: at least 1. Returns (n_steps, batch_size), int32.
    """
    wanted = n_steps * batch_size
    if n_rows > _MANY_CALLS * wanted:
        drawn = random.integers(0, n_rows, wanted)
    else:
        n_epochs = -(-wanted // n_rows)
        epochs = [random.permutation(n_rows) for _ in range(n_epochs)]
        drawn = np.concatenate(epochs)[:wanted]
    return drawn.reshape(n_steps, batch_size).astype(np.int32)
