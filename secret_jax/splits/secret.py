"""The split finder of SECRET: mixture, labels, discriminants, Gini gain.

Dobra & Gehrke 2002, Figure 4, steps 1 to 7, for one node; `find_splits` maps it over
all nodes of a batch.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp

from secret_jax.runtime.compiling import jit
from secret_jax.runtime.linalg import (
    AnyArray,
    inverse_cholesky,
    leading_eigenvectors,
    matmul,
    weighted_moments,
)
from secret_jax.splits.discrete import best_subset, category_counts
from secret_jax.splits.discriminant import (
    lda_direction,
    left_probability,
    oriented,
    qda_threshold,
)
from secret_jax.splits.impurity import gini_gain
from secret_jax.splits.interface import NodeBatch, NodeSplits, no_splits, over_nodes
from secret_jax.splits.mixture import (
    MixtureFit,
    MixtureStatus,
    expect,
    fit_mixture,
    log_densities,
)
from secret_jax.tree.structure import SplitKind

# A pivot of a correlation matrix below this is rounding: the column is dependent.
_DEPENDENT = 4e-6


class SecretSettings(NamedTuple):
    """What a compiled finder is specialised on; ``together`` as in `over_nodes`."""

    n_regressors: int
    n_categories: int
    oblique: bool
    counted_gain: bool
    child_models: bool
    max_iter: int
    tolerance: float
    floor: float
    together: bool


class _Whitened(NamedTuple):
    """Rows in units in which they look like a unit sphere (section 4)."""

    z: jax.Array
    standardised: jax.Array
    active: jax.Array
    mean: jax.Array
    deviation: jax.Array
    correlation: jax.Array
    whitener: jax.Array


class _Candidates(NamedTuple):
    """Threshold splits along several directions."""

    gain: jax.Array  # (n_directions,)
    threshold: jax.Array  # (n_directions,)


@functools.partial(jit, static_argnames=("settings",), small_steps=True)
def find_splits(
    batch: NodeBatch, n_nodes: AnyArray, *, settings: SecretSettings
) -> NodeSplits:
    """Best split of the first nodes of a batch.

    Parameters
    ----------
    batch : NodeBatch
    n_nodes : int or Array of shape (), int32
        The nodes after these are padding: no time is spent on them.
    settings : SecretSettings

    Returns
    -------
    NodeSplits
        A node's split does not depend on the other nodes of the batch.
    """
    split = functools.partial(_node_split, settings=settings)
    n_padded, _, n_columns = batch.x.shape
    nothing = no_splits(
        n_padded, n_columns, settings.n_categories, settings.n_regressors
    )
    return over_nodes(split, batch, n_nodes, nothing, together=settings.together)


def _node_split(node: NodeBatch, *, settings: SecretSettings) -> NodeSplits:
    whitened = _whiten(node, settings.n_regressors)
    fit = _best_fit(node, whitened, settings)
    log_density = log_densities(fit.parameters, whitened.z)
    label = jnp.stack(
        [log_density[0] > log_density[1], log_density[0] <= log_density[1]]
    )
    class_weight = node.weight * label.astype(node.weight.dtype)

    pure = ~whitened.active[-1]
    usable = (fit.status <= MixtureStatus.ITERATION_LIMIT) & ~pure
    split = _best_split(node, class_weight, settings)
    kind = jnp.where(usable & (split.gain > 0), split.kind, SplitKind.LEAF)
    child_model = jnp.zeros((2, 1 + settings.n_regressors), node.x.dtype)
    if settings.child_models:
        child_model = _child_models(node, whitened, fit, class_weight, split)
    return split._replace(
        kind=kind, status=fit.status, pure=pure, child_model=child_model
    )


def _whiten(node: NodeBatch, n_regressors: int) -> _Whitened:
    joint = jnp.concatenate([node.x[:, :n_regressors], node.y[:, None]], axis=1)
    total, mean, deviation = weighted_moments(joint, node.weight)
    scale = jnp.where(deviation > 0, deviation, 1.0)
    standardised = (joint - mean) / scale
    share = node.weight / jnp.maximum(total, 1e-30)
    correlation = matmul((share[:, None] * standardised).T, standardised)
    whitener, active = inverse_cholesky(correlation, _DEPENDENT)
    z = matmul(standardised, whitener.T)
    return _Whitened(z, standardised, active, mean, scale, correlation, whitener)


def _best_fit(
    node: NodeBatch, whitened: _Whitened, settings: SecretSettings
) -> MixtureFit:
    """The likeliest of the node's starts that did not collapse."""
    rows = whitened.standardised
    component = leading_eigenvectors(whitened.correlation, 1)[0]
    by_component = (matmul(rows, component) > 0).astype(rows.dtype)
    cumulative = jnp.cumsum(node.weight)

    def run(randomness, from_component):
        chosen = jnp.searchsorted(cumulative, randomness * cumulative[-1], side="right")
        first, second = rows[jnp.minimum(chosen, len(rows) - 1)]
        squared = jnp.sum((rows - second) ** 2 - (rows - first) ** 2, axis=1)
        start = jnp.where(from_component, by_component, jax.nn.sigmoid(squared / 2))
        return fit_mixture(
            whitened.z,
            node.weight,
            start,
            whitened.active,
            max_iter=settings.max_iter,
            tolerance=settings.tolerance,
            floor=settings.floor,
        )

    fits = jax.vmap(run)(node.randomness, node.from_component)
    usable = fits.status <= MixtureStatus.ITERATION_LIMIT
    best = jnp.argmax(jnp.where(usable, fits.objective, -jnp.inf))
    return jax.tree.map(lambda leaf: leaf[best], fits)


def _best_split(
    node: NodeBatch, class_weight: jax.Array, settings: SecretSettings
) -> NodeSplits:
    """The candidate with the largest gain: axis, oblique and discrete together."""
    n_continuous = node.x.shape[1]
    directions = jnp.eye(n_continuous, dtype=node.x.dtype)
    gains, thresholds, kinds, attributes, subsets = [], [], [], [], []
    nothing = jnp.zeros((1, settings.n_categories), bool)

    if n_continuous:
        if settings.oblique and n_continuous > 1:
            directions = jnp.concatenate(
                [directions, _oblique(node, class_weight)[None]]
            )
        n = len(directions)
        candidates = _thresholds(node, class_weight, directions, settings)
        allowed = (jnp.arange(n) < n_continuous) | node.oblique
        gains.append(jnp.where(allowed, candidates.gain, -jnp.inf))
        thresholds.append(candidates.threshold)
        kinds.append(
            jnp.where(jnp.arange(n) < n_continuous, SplitKind.AXIS, SplitKind.OBLIQUE)
        )
        attributes.append(jnp.where(jnp.arange(n) < n_continuous, jnp.arange(n), -1))
        subsets.append(jnp.broadcast_to(nothing, (n, settings.n_categories)))
    n_discrete = node.codes.shape[1]
    if n_discrete:
        best = jax.lax.map(
            lambda codes: best_subset(
                category_counts(codes, class_weight, settings.n_categories),
                node.min_weight,
            ),
            node.codes.T,
        )
        gains.append(best.gain)
        thresholds.append(jnp.zeros(n_discrete, node.x.dtype))
        kinds.append(jnp.full(n_discrete, SplitKind.DISCRETE))
        attributes.append(jnp.arange(n_discrete))
        subsets.append(best.goes_left)
        blank = jnp.zeros((n_discrete, n_continuous), node.x.dtype)
        directions = jnp.concatenate([directions, blank])

    gain = jnp.concatenate(gains)
    best = jnp.argmax(gain)
    return NodeSplits(
        kind=jnp.concatenate(kinds)[best].astype(jnp.int32),
        attribute=jnp.concatenate(attributes)[best].astype(jnp.int32),
        direction=directions[best],
        threshold=jnp.concatenate(thresholds)[best],
        goes_left=jnp.concatenate(subsets)[best],
        gain=gain[best],
        status=jnp.int32(0),
        pure=jnp.bool_(False),
        child_model=jnp.zeros((2, 1 + settings.n_regressors), node.x.dtype),
    )


def _class_moments(
    values: jax.Array, class_weight: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Fractions (2,) of the classes and their means (2, n_columns)."""
    mass = jnp.sum(class_weight, axis=1)
    mean = matmul(class_weight, values) / jnp.where(mass > 0, mass, 1.0)[:, None]
    total = jnp.sum(mass)
    return mass / jnp.where(total > 0, total, 1.0), mean


def _oblique(node: NodeBatch, class_weight: jax.Array) -> jax.Array:
    """LDA direction of the two classes over all continuous attributes."""
    _, center, deviation = weighted_moments(node.x, node.weight)
    scale = jnp.where(deviation > 0, deviation, 1.0)
    rows = (node.x - center) / scale
    fraction, mean = _class_moments(rows, class_weight)

    def covariance(weight, mean):
        centred = rows - mean
        total = jnp.maximum(jnp.sum(weight), 1e-30)
        return matmul((weight[:, None] * centred).T, centred) / total

    covariances = jax.vmap(covariance)(class_weight, mean)
    return oriented(lda_direction(fraction, mean, covariances, _DEPENDENT) / scale)


def _thresholds(
    node: NodeBatch,
    class_weight: jax.Array,
    directions: jax.Array,
    settings: SecretSettings,
) -> _Candidates:
    """QDA threshold and Gini gain along every direction."""
    projection = matmul(node.x, directions.T)
    _, center, deviation = weighted_moments(projection, node.weight)
    scale = jnp.where(deviation > 0, deviation, 1.0)
    values = (projection - center) / scale
    fraction, mean = _class_moments(values, class_weight)
    mass = jnp.maximum(jnp.sum(class_weight, axis=1), 1e-30)
    variance = jax.vmap(matmul)(class_weight, (values - mean[:, None]) ** 2)
    variance = variance / mass[:, None]
    # Below this the spread of a class is rounding.
    variance = jnp.where(variance > 1e-10, variance, 0.0)
    both = (fraction > 0).all()
    safe_fraction = jnp.where(both, fraction, 0.5)
    standardised, _ = qda_threshold(safe_fraction, mean, variance)
    threshold = center + scale * standardised

    # Compare in the units in which rows will be routed.
    goes_left = (projection <= threshold).astype(node.x.dtype)
    left_class = matmul(class_weight, goes_left)
    left = left_class.sum(axis=0)
    total = jnp.sum(node.weight)
    if settings.counted_gain:
        safe_total = jnp.maximum(total, 1e-30)
        gain = gini_gain(fraction[0], left / safe_total, left_class[0] / safe_total)
    else:
        probability = left_probability(mean, variance, standardised)
        left_and_class = safe_fraction[:, None] * probability
        gain = gini_gain(
            safe_fraction[0], left_and_class.sum(axis=0), left_and_class[0]
        )
    least = jnp.minimum(left, total - left)
    allowed = both & (deviation > 0) & (least >= node.min_weight) & (least > 0)
    return _Candidates(jnp.where(allowed, gain, -jnp.inf), threshold)


def _child_models(
    node: NodeBatch,
    whitened: _Whitened,
    fit: MixtureFit,
    class_weight: jax.Array,
    split: NodeSplits,
) -> jax.Array:
    """Regressors that the two Gaussians imply, for the left and the right child.

    Section 4.2.3, second method. Each child takes the Gaussian to which most of its
    weight belongs relative to that Gaussian's own.
    """

    responsibility, _ = expect(
        fit.parameters, whitened.z, node.weight, whitened.active, 0.0
    )

    def regressor(responsibility, inverse):
        # Slopes from the precision matrix of the standardised (regressors, output).
        transform = matmul(inverse, whitened.whitener)
        precision = matmul(transform.T, transform)
        # Zero where the output is no dimension of its own: a pure node.
        own = jnp.where(precision[-1, -1] > 0, precision[-1, -1], 1.0)
        slopes = -precision[-1, :-1] / own
        slopes = slopes * whitened.deviation[-1] / whitened.deviation[:-1]
        share = node.weight * responsibility
        mean = matmul(share, whitened.standardised) / jnp.maximum(share.sum(), 1e-30)
        center = whitened.mean + whitened.deviation * mean
        intercept = center[-1] - jnp.sum(slopes * center[:-1])
        return jnp.concatenate([intercept[None], slopes])

    both = jnp.stack([responsibility, 1 - responsibility])
    models = jax.vmap(regressor)(both, fit.parameters.inverse_factor)
    continuous = matmul(node.x, split.direction) <= split.threshold
    goes_left = continuous
    if node.codes.shape[1]:
        code = node.codes[:, jnp.maximum(split.attribute, 0)]
        discrete = split.goes_left[code]
        goes_left = jnp.where(split.kind == SplitKind.DISCRETE, discrete, continuous)
    share = matmul(class_weight, goes_left.astype(node.x.dtype))
    share = share / jnp.maximum(jnp.sum(class_weight, axis=1), 1e-30)
    first_is_left = share[0] >= share[1]
    return jnp.where(first_is_left, models, models[::-1])
