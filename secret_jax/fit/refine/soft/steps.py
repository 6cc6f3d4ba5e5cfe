"""Gradient training of gates and leaves: chunks of steps on the device.

One chunk is one compiled program: a scan over minibatches, and the errors of the
averaged parameters on the validation rows. The host decides after each chunk which
starts go on.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float

from secret_jax.fit.refine.soft.parameters import Parameters, Structure, forward
from secret_jax.losses.interface import Loss
from secret_jax.losses.numbers import SQUARED_ERROR, SquaredError
from secret_jax.runtime.linalg import AnyArray
from secret_jax.runtime.programs import program


class TrainingData(NamedTuple):
    """Padded rows on the device.

    Attributes
    ----------
    x : Array of shape (n_padded, n_continuous), float32
    codes : Array of shape (n_padded, n_discrete), int32
    targets : Array of shape (n_padded, n_outputs), float32
    weight : Array of shape (n_padded,), float32
        Weights with a mean of one.
    validation : Array of shape (n_validation,), int32
        Rows to judge by.
    fold : Array of shape (n_folds, n_validation), float32
        Their weights, in parts that are judged apart; 0 for padding.
    low, high : Array of shape (n_outputs,), float32
        Range of the predictions.
    """

    x: AnyArray
    codes: AnyArray
    targets: AnyArray
    weight: AnyArray
    validation: AnyArray
    fold: AnyArray
    low: AnyArray
    high: AnyArray


class Rates(NamedTuple):
    """Fields of `secret_jax.SoftGates` used in a step."""

    gate_rate: AnyArray
    leaf_rate: AnyArray
    l2: AnyArray
    averaging: AnyArray


class TrainingState(NamedTuple):
    """Parameters, their average and the optimiser state, for a batch of starts."""

    parameters: Parameters
    average: Parameters
    optimiser: optax.OptState


def initial_state(parameters: Parameters) -> TrainingState:
    """State before the first step."""
    parameters = jax.tree.map(jnp.asarray, parameters)
    return TrainingState(parameters, parameters, optax.adam(1.0).init(parameters))


def row_losses(
    value: Float[Array, "n_rows n_outputs"],
    targets: Float[Array, "n_rows n_outputs"],
    kind: Loss,
) -> Float[Array, " n_rows"]:
    """Squared errors, or cross-entropies of log-odds."""
    if isinstance(kind, SquaredError):
        return jnp.sum((value - targets) ** 2, axis=1)
    if value.shape[1] == 1:
        together = jax.nn.softplus(value[:, 0])
    else:
        together = jax.nn.logsumexp(value, axis=1)
    return together - jnp.sum(targets * value, axis=1)


def objective(
    parameters: Parameters,
    structure: Structure,
    data: TrainingData,
    row: jax.Array,
    l2: jax.Array | float,
    kind: Loss = SQUARED_ERROR,
) -> jax.Array:
    """Mean loss of a minibatch, plus a penalty on changes of the slopes."""
    value = forward(parameters, structure, data.x[row], data.codes[row])
    losses = row_losses(value, data.targets[row], kind)
    moved = parameters.coefficient[:, :, 1:] - structure.start.coefficient[:, :, 1:]
    n_slopes = jnp.sum(structure.along.absent == 0) * max(moved.shape[2], 1)
    penalty = jnp.sum(moved**2) / n_slopes.astype(jnp.float32)
    return jnp.mean(data.weight[row] * losses) + l2 * penalty


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
    """Run some steps of Adam for a batch of starts.

    Parameters
    ----------
    structure : Structure
        Both with the starts as their first axis.
    rows : Array of shape (n_steps, batch_size), int32
        Minibatches, the same for all starts.
    kind : Loss
        See `row_losses`.

    Returns
    -------
    error : Array of shape (n_starts, n_folds), float32
        Losses of the averaged parameters on the validation rows, summed.
    """
    optimiser = optax.adam(1.0)

    def one(state: TrainingState, structure: Structure):
        def step(state, row):
            gradient = jax.grad(objective)(
                state.parameters, structure, data, row, rates.l2, kind
            )
            free = gradient.direction * structure.free
            gradient = gradient._replace(direction=free)
            # Optax raises its decay to the count of steps: a float to an integer.
            with jax.numpy_dtype_promotion("standard"):
                update, inner = optimiser.update(gradient, state.optimiser)
            assert isinstance(update, Parameters)
            parameters = Parameters(
                *(
                    value + rate * change
                    for value, rate, change in zip(
                        state.parameters,
                        (rates.gate_rate, rates.gate_rate, rates.leaf_rate),
                        update,
                        strict=True,
                    )
                )
            )
            average = optax.incremental_update(
                parameters, state.average, 1.0 - rates.averaging
            )
            assert isinstance(average, Parameters)
            return TrainingState(parameters, average, inner), None

        state, _ = jax.lax.scan(step, state, rows)
        x, codes = data.x[data.validation], data.codes[data.validation]
        value = forward(state.average, structure, x, codes)
        value = jnp.clip(value, data.low, data.high)
        losses = row_losses(value, data.targets[data.validation], kind)
        return state, jnp.sum(data.fold * losses, axis=1)

    return jax.vmap(one)(state, structure)


# With an epoch of more calls than this rows are drawn independently: one permutation
# would cost more than the steps.
_MANY_CALLS = 4


def minibatches(
    random: np.random.Generator, n_rows: int, n_steps: int, batch_size: int
) -> np.ndarray:
    """Draw the rows of each step: permutations cut into batches.

    Parameters
    ----------
    n_rows : int
        At least 1.

    Returns
    -------
    ndarray of shape (n_steps, batch_size), int32
    """
    wanted = n_steps * batch_size
    if n_rows > _MANY_CALLS * wanted:
        drawn = random.integers(0, n_rows, wanted)
    else:
        n_epochs = -(-wanted // n_rows)
        epochs = [random.permutation(n_rows) for _ in range(n_epochs)]
        drawn = np.concatenate(epochs)[:wanted]
    return drawn.reshape(n_steps, batch_size).astype(np.int32)
