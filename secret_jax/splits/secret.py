"""The split finder of SECRET: mixture, labels, discriminants, Gini gain.

Dobra & Gehrke 2002, Figure 4, steps 1 to 7, for one node.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import jax
import jax.numpy as jnp
from sklearn.utils._param_validation import StrOptions

from secret_jax.runtime.linalg import (
    guarded_solve,
    inverse_cholesky,
    leading_eigenvectors,
    matmul,
    safe_divide,
    weighted_moments,
)
from secret_jax.runtime.values import at_least, real
from secret_jax.splits.discrete import best_subset, category_counts
from secret_jax.splits.discriminant import (
    lda_direction,
    left_probability,
    oriented,
    qda_threshold,
)
from secret_jax.splits.impurity import gini_gain
from secret_jax.splits.interface import Node, Split, SplitFinder
from secret_jax.splits.mixture import (
    MixtureFit,
    MixtureStatus,
    expect,
    fit_mixture,
    log_densities,
)
from secret_jax.tree.decision import goes_left
from secret_jax.tree.structure import SplitKind

# A pivot of a correlation matrix below this is rounding: the column is dependent.
_DEPENDENT = 4e-6
# Below this share of an attribute's variance the spread of a class is rounding.
_NO_SPREAD = 1e-10


@dataclass(frozen=True, kw_only=True)
class SecretSplits(SplitFinder):
    """The paper's splits: EM, labels, discriminants, Gini gain.

    A node without a usable split tries again with new starts before it gives up.

    Attributes
    ----------
    gain : {"normal", "counted"}, default="normal"
        Gini gain from the p-values of the two normal distributions (section 4.2.1), or
        from the counted labels. Both gave errors alike on the paper's real sets, so the
        printed form is the default.
    start : {"component", "rows"}, default="component"
        First start of a node: the sign of the first principal component of the
        standardised (regressors, outputs), or two random rows as means. Further starts
        are always random rows.
    n_starts : int, default=4
        EM starts, side by side; the likeliest is kept.
    n_attempts : int, default=3
        How often a node gets new starts before it gives up.
    max_iter : int, default=50
        Most EM steps. Five ruin the trees, thirty suffice.
    tol : float, default=1e-6
        EM stops when the mean log-likelihood rises by less.
    floor : float, default=1e-5
        Smallest variance of a component in whitened units, about what float32 resolves.

    Examples
    --------
    >>> from secret_jax import SecretRegressor, SecretSplits
    >>> model = SecretRegressor(splits=SecretSplits(n_starts=1))
    >>> model.get_params()["splits__max_iter"]
    50
    """

    gain: Literal["normal", "counted"] = "normal"
    start: Literal["component", "rows"] = "component"
    n_starts: int = 4
    n_attempts: int = 3
    max_iter: int = 50
    tol: float = 1e-6
    floor: float = 1e-5

    _parameter_constraints: ClassVar[dict] = {
        "gain": [StrOptions({"normal", "counted"})],
        "start": [StrOptions({"component", "rows"})],
        "n_starts": [at_least(1)],
        "n_attempts": [at_least(1)],
        "max_iter": [at_least(1)],
        "tol": [real(0.0)],
        "floor": [real(0.0, closed="neither")],
    }
    implies_models: ClassVar[bool] = True

    @property
    def numbers_per_cell(self) -> int:
        """A responsibility for each start."""
        return self.n_starts

    def n_random(self, n_columns: int) -> int:
        """Two rows for each start of each attempt."""
        del n_columns
        return 2 * self.n_starts * self.n_attempts

    def __call__(self, node: Node) -> Split:
        """Best split of one node, of the first attempt that finds one."""
        whitened = _whiten(node)
        numbers = node.random.reshape(self.n_attempts, self.n_starts, 2)

        def again(state):
            attempt, split, exhausted = state
            failed = (split.kind == SplitKind.LEAF) & ~exhausted
            return (attempt < self.n_attempts) & failed

        def run(state):
            attempt = state[0]
            split, status = _attempt(self, node, whitened, numbers[attempt], attempt)
            exhausted = split.pure | (status == MixtureStatus.TOO_FEW_ROWS)
            return attempt + 1, split, exhausted

        shapes = jax.eval_shape(lambda: run((jnp.int32(0), None, None)))[1]
        blank = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shapes)
        start = (jnp.int32(0), blank, jnp.asarray(False))
        return jax.lax.while_loop(again, run, start)[1]


def _attempt(
    finder: SecretSplits,
    node: Node,
    whitened: _Whitened,
    numbers: jax.Array,
    attempt: jax.Array,
) -> tuple[Split, jax.Array]:
    """A split from some starts, and the status of their mixture."""
    fit = _best_fit(finder, node, whitened, numbers, attempt)
    log_density = log_densities(fit.parameters, whitened.z)
    label = jnp.stack(
        [log_density[0] > log_density[1], log_density[0] <= log_density[1]]
    )
    class_weight = node.weight * label.astype(node.weight.dtype)
    n_outputs = node.targets.shape[1]
    pure = ~whitened.active[-n_outputs:].any()
    usable = (fit.status <= MixtureStatus.ITERATION_LIMIT) & ~pure
    split = best_labelled_split(finder, node, class_weight)
    usable = usable & (split.gain > 0)
    return split._replace(
        kind=jnp.where(usable, split.kind, SplitKind.LEAF).astype(jnp.int32),
        # Summed over the rows, as in other finders.
        gain=jnp.where(usable, split.gain * jnp.sum(node.weight), 0.0),
        pure=pure,
        child_models=_child_models(node, whitened, fit, class_weight, split),
    ), fit.status


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


def _whiten(node: Node) -> _Whitened:
    regressors = node.x[:, : node.columns.n_regressors]
    joint = jnp.concatenate([regressors, node.targets], axis=1)
    total, mean, deviation = weighted_moments(joint, node.weight)
    scale = jnp.where(deviation > 0, deviation, 1.0)
    standardised = (joint - mean) / scale
    share = safe_divide(node.weight, total)
    correlation = matmul((share[:, None] * standardised).T, standardised)
    whitener, active = inverse_cholesky(correlation, _DEPENDENT)
    z = matmul(standardised, whitener.T)
    return _Whitened(z, standardised, active, mean, scale, correlation, whitener)


def _best_fit(
    finder: SecretSplits,
    node: Node,
    whitened: _Whitened,
    numbers: jax.Array,
    attempt: jax.Array,
) -> MixtureFit:
    """The likeliest of some starts that did not collapse."""
    first = (jnp.arange(finder.n_starts) == 0) & (attempt == 0)
    from_component = first & (finder.start == "component")
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
            max_iter=finder.max_iter,
            tolerance=finder.tol,
            floor=finder.floor,
        )

    fits = jax.vmap(run)(numbers, from_component)
    usable = fits.status <= MixtureStatus.ITERATION_LIMIT
    best = jnp.argmax(jnp.where(usable, fits.objective, -jnp.inf))
    return jax.tree.map(lambda leaf: leaf[best], fits)


def best_labelled_split(finder: Any, node: Node, class_weight: jax.Array) -> Split:
    """The candidate with the largest gain: axis, oblique and discrete together.

    Parameters
    ----------
    finder : SecretSplits, or anything with its ``gain``
    node : Node
    class_weight : Array of shape (2, n_rows)
        Weights of the rows in each of two classes.
    """
    n_continuous = node.x.shape[1]
    directions = jnp.eye(n_continuous, dtype=node.x.dtype)
    gains, thresholds, kinds, attributes, subsets = [], [], [], [], []
    nothing = jnp.zeros((1, node.columns.n_categories), bool)

    if n_continuous:
        if node.columns.oblique and n_continuous > 1:
            directions = jnp.concatenate(
                [directions, _oblique(node, class_weight)[None]]
            )
        n = len(directions)
        candidates = _thresholds(finder, node, class_weight, directions)
        is_axis = jnp.arange(n) < n_continuous
        allowed = jnp.where(
            is_axis,
            node.allowed[jnp.minimum(jnp.arange(n), n_continuous - 1)],
            node.oblique,
        )
        gains.append(jnp.where(allowed, candidates.gain, -jnp.inf))
        thresholds.append(candidates.threshold)
        kinds.append(jnp.where(is_axis, SplitKind.AXIS, SplitKind.OBLIQUE))
        attributes.append(jnp.where(is_axis, jnp.arange(n), -1))
        subsets.append(jnp.broadcast_to(nothing, (n, node.columns.n_categories)))
    n_discrete = node.codes.shape[1]
    if n_discrete:
        best = jax.lax.map(
            lambda codes: best_subset(
                category_counts(codes, class_weight, node.columns.n_categories),
                node.min_weight,
            ),
            node.codes.T,
        )
        gains.append(jnp.where(node.allowed[n_continuous:], best.gain, -jnp.inf))
        thresholds.append(jnp.zeros(n_discrete, node.x.dtype))
        kinds.append(jnp.full(n_discrete, SplitKind.DISCRETE))
        attributes.append(jnp.arange(n_discrete))
        subsets.append(best.goes_left)
        blank = jnp.zeros((n_discrete, n_continuous), node.x.dtype)
        directions = jnp.concatenate([directions, blank])

    gain = jnp.concatenate(gains)
    best = jnp.argmax(gain)
    return Split(
        kind=jnp.concatenate(kinds)[best].astype(jnp.int32),
        attribute=jnp.concatenate(attributes)[best].astype(jnp.int32),
        direction=directions[best],
        threshold=jnp.concatenate(thresholds)[best],
        goes_left=jnp.concatenate(subsets)[best],
        gain=gain[best],
        chance_gain=jnp.zeros((), node.x.dtype),
        pure=jnp.bool_(False),
    )


def _class_moments(
    values: jax.Array, class_weight: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Fractions (2,) of the classes and their means (2, n_columns)."""
    mass = jnp.sum(class_weight, axis=1)
    mean = safe_divide(matmul(class_weight, values), mass[:, None])
    return safe_divide(mass, jnp.sum(mass)), mean


def _oblique(node: Node, class_weight: jax.Array) -> jax.Array:
    """LDA direction of the two classes over all continuous attributes."""
    _, center, deviation = weighted_moments(node.x, node.weight)
    allowed = node.allowed[: node.x.shape[1]]
    scale = jnp.where(deviation > 0, deviation, 1.0)
    rows = jnp.where(allowed, (node.x - center) / scale, 0.0)
    fraction, mean = _class_moments(rows, class_weight)

    def covariance(weight, mean):
        centred = rows - mean
        product = matmul((weight[:, None] * centred).T, centred)
        return safe_divide(product, jnp.sum(weight))

    covariances = jax.vmap(covariance)(class_weight, mean)
    return oriented(lda_direction(fraction, mean, covariances, _DEPENDENT) / scale)


def _thresholds(
    finder: Any,
    node: Node,
    class_weight: jax.Array,
    directions: jax.Array,
) -> _Candidates:
    """QDA threshold and Gini gain along every direction."""
    projection = matmul(node.x, directions.T)
    _, center, deviation = weighted_moments(projection, node.weight)
    scale = jnp.where(deviation > 0, deviation, 1.0)
    values = (projection - center) / scale
    fraction, mean = _class_moments(values, class_weight)
    squared = jax.vmap(matmul)(class_weight, (values - mean[:, None]) ** 2)
    variance = safe_divide(squared, jnp.sum(class_weight, axis=1)[:, None])
    variance = jnp.where(variance > _NO_SPREAD, variance, 0.0)
    both = (fraction > 0).all()
    safe_fraction = jnp.where(both, fraction, 0.5)
    standardised, _ = qda_threshold(safe_fraction, mean, variance)
    threshold = center + scale * standardised

    # Compare in the units in which rows will be routed.
    below = (projection <= threshold).astype(node.x.dtype)
    left_class = matmul(class_weight, below)
    left = left_class.sum(axis=0)
    total = jnp.sum(node.weight)
    if finder.gain == "counted":
        left_and_class = safe_divide(left_class[0], total)
        gain = gini_gain(fraction[0], safe_divide(left, total), left_and_class)
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
    node: Node,
    whitened: _Whitened,
    fit: MixtureFit,
    class_weight: jax.Array,
    split: Split,
) -> jax.Array:
    """Regressors that the two Gaussians imply, for the left and the right child.

    Section 4.2.3, second method. Each child takes the Gaussian to which most of its
    weight belongs relative to that Gaussian's own.

    Returns
    -------
    Array of shape (2, n_outputs, 1 + n_regressors)
    """
    n = node.columns.n_regressors
    responsibility, _ = expect(
        fit.parameters, whitened.z, node.weight, whitened.active, 0.0
    )

    # Every standardised output by the columns that are dimensions of their own.
    followed = matmul(whitened.correlation[n:], whitened.whitener.T)
    followed = matmul(followed, whitened.whitener)

    def regressors(responsibility, inverse):
        # Slopes from the precision matrix of the standardised (regressors, outputs);
        # the only output of a pure node is no dimension of its own and gets zeros.
        transform = matmul(inverse, whitened.whitener)
        precision = matmul(transform.T, transform)
        slopes = -guarded_solve(precision[n:, n:], precision[n:, :n], 0.0)
        if len(slopes) > 1:
            # An output that follows from other columns does so in either Gaussian.
            others = followed[:, :n] + matmul(followed[:, n:], slopes)
            slopes = jnp.where(whitened.active[n:, None], slopes, others)
        deviation = whitened.deviation
        slopes = slopes * deviation[n:, None] / deviation[:n]
        share = node.weight * responsibility
        mean = safe_divide(matmul(share, whitened.standardised), jnp.sum(share))
        center = whitened.mean + deviation * mean
        intercept = center[n:] - matmul(slopes, center[:n])
        return jnp.concatenate([intercept[:, None], slopes], axis=1)

    both = jnp.stack([responsibility, 1 - responsibility])
    models = jax.vmap(regressors)(both, fit.parameters.inverse_factor)
    projection = matmul(node.x, split.direction)
    left = projection <= split.threshold
    if node.codes.shape[1]:
        code = node.codes[:, jnp.maximum(split.attribute, 0)]
        discrete = split.kind == SplitKind.DISCRETE
        listed = split.goes_left[code]
        left = goes_left(
            projection, split.threshold, discrete, code, listed, listed, jnp
        )
    share = matmul(class_weight, left.astype(node.x.dtype))
    share = safe_divide(share, jnp.sum(class_weight, axis=1))
    first_is_left = share[0] >= share[1]
    return jnp.where(first_is_left, models, models[::-1])
