"""The split finder of SECRET: mixture, labels, discriminants, Gini gain.

Dobra & Gehrke 2002, Figure 4, steps 1 to 7, for all nodes of a level.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import jax
import jax.numpy as jnp
import numpy as np

from secret_jax.data.mixtures import log_densities, shares, weighted_products
from secret_jax.runtime.linalg import (
    AnyArray,
    guarded_solve,
    leading_eigenvectors,
    matmul,
    matvec,
    safe_divide,
    small_matmul,
    taken,
    where_each,
)
from secret_jax.runtime.values import POSITIVE, at_least, real
from secret_jax.splits.interface import Level, Split, SplitFinder, write_nodes
from secret_jax.splits.labelled import best_labelled_split, left_rows
from secret_jax.splits.mixture import (
    LogForms,
    MixtureFit,
    MixtureStatus,
    Whitened,
    fit_mixtures,
    whiten,
)
from secret_jax.tree.structure import SplitKind


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
    n_starts: Annotated[int, at_least(1)] = 4
    n_attempts: Annotated[int, at_least(1)] = 3
    max_iter: Annotated[int, at_least(1)] = 50
    tol: Annotated[float, real(0.0)] = 1e-6
    floor: Annotated[float, POSITIVE] = 1e-5

    implies_models: ClassVar[bool] = True
    compiled: ClassVar[bool] = True
    computed_with: ClassVar = ("tol",)

    def n_random(self, n_columns: int) -> int:
        """Two rows for each start of each attempt."""
        return 2 * self.n_starts * self.n_attempts

    def find(self, level: Level) -> Split:
        """The best split of every node, of the first attempt that finds one."""
        if level.rows.xp is not np:
            return self._traced(level)
        split, again = _attempt(self, level, 0)
        failed = np.flatnonzero(again)
        for attempt in range(1, self.n_attempts):
            if not len(failed):
                break
            found, again = _attempt(self, level.take(failed), attempt)
            write_nodes(split, failed, found)
            failed = failed[again]
        return split

    def _traced(self, level: Level) -> Split:
        """All nodes in every attempt: shapes stay what they are."""

        @jax.jit  # traced once, for its shapes and for the loop
        def run(attempt: Any) -> tuple[Split, AnyArray]:
            return _attempt(self, level, attempt)

        def goes_on(state: tuple) -> AnyArray:
            attempt, _, again = state
            return (attempt < self.n_attempts) & again.any()

        def following(state: tuple) -> tuple:
            attempt, split, again = state
            found, failed = run(attempt)
            split = jax.tree.map(lambda *pair: where_each(again, *pair), found, split)
            return attempt + 1, split, again & failed

        shapes = jax.eval_shape(run, jnp.int32(0))[0]
        blank = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shapes)
        start = jnp.int32(0), blank, jnp.ones(level.n_nodes, bool)
        return jax.lax.while_loop(goes_on, following, start)[1]


def _attempt(finder: SecretSplits, level: Level, attempt: Any) -> tuple[Split, Any]:
    """Splits from some starts, and which nodes may find one from others."""
    rows, xp, whitened = level.rows, level.rows.xp, whiten(level)
    fit = best_fit(finder, level, whitened, attempt)

    def labels(rows: Any, forms: Any, arrays: Any) -> tuple[AnyArray]:
        first, second = log_densities(rows, forms, arrays[0])
        return (rows.xp.where(first > second, arrays[1], 0.0),)

    (first,) = rows.each(labels, fit.forms, (whitened.rows.z, level.weight))
    split = best_labelled_split(level, first, finder.gain)
    pure = ~whitened.rows.active[:, level.n_regressors :].any(axis=-1)
    usable = fit.status <= MixtureStatus.ITERATION_LIMIT
    usable = usable & ~pure & (split.gain > 0)
    split = split._replace(
        kind=xp.where(usable, split.kind, int(SplitKind.LEAF)).astype(xp.int32),
        # Summed over the rows, as in other finders.
        gain=xp.where(usable, split.gain * whitened.rows.total[:, 0, 0], 0.0),
        pure=pure,
        child_models=implied_models(level, whitened, fit, first, split),
    )
    return split, ~usable & ~pure & (fit.status != MixtureStatus.TOO_FEW_ROWS)


def best_fit(
    finder: SecretSplits, level: Level, whitened: Whitened, attempt: Any
) -> MixtureFit:
    """The likeliest of some starts that did not collapse, without their axis.

    ``attempt``: which of the node's numbers draw the starts.
    """
    rows, xp, arrays = level.rows, level.rows.xp, (whitened.rows.z, level.weight)
    shape = level.n_nodes, finder.n_attempts, finder.n_starts, 2
    numbers = level.random.reshape(shape)[:, attempt]
    pairs = rows.at_share(*arrays, numbers.reshape(level.n_nodes, -1))
    pairs = matmul(whitened.back, pairs[:, 1:])  # standardised
    pairs = pairs.reshape(*pairs.shape[:2], finder.n_starts, 2)
    # Half the difference of the squared distances to the two rows.
    slope = (pairs[..., 0] - pairs[..., 1]).swapaxes(1, 2)
    offset = 0.5 * xp.sum(pairs[..., 1] ** 2 - pairs[..., 0] ** 2, axis=1)
    by_sign = xp.zeros((level.n_nodes, finder.n_starts), bool)
    if finder.start == "component":
        by_sign = (np.arange(finder.n_starts) == 0) & (attempt == 0) | by_sign
        component = leading_eigenvectors(whitened.correlation, 1)
        slope = xp.where(by_sign[..., None], component, slope)
        offset = xp.where(by_sign, 0.0, offset)
    form = xp.concatenate([offset[..., None], matmul(slope, whitened.back)], axis=-1)
    (moments,) = rows.total(_start, (form, by_sign), arrays)
    fit = fit_mixtures(
        whitened.rows,
        moments,
        max_iter=finder.max_iter,
        tolerance=finder.tol,
        floor=finder.floor,
    )
    usable = fit.status <= MixtureStatus.ITERATION_LIMIT
    best = xp.argmax(xp.where(usable, fit.objective, -xp.inf), axis=1)
    fit = jax.tree.map(lambda array: taken(array, best, 1), fit)
    usable = fit.status <= MixtureStatus.ITERATION_LIMIT
    # What has collapsed may be no number.
    constant = xp.where(usable[:, None], fit.forms.constant, 0.0)
    factor = xp.where(usable[:, None, None, None], fit.forms.factor, 0.0)
    return fit._replace(forms=LogForms(constant, factor))


def _start(rows: Any, of_nodes: Sequence[Any], arrays: Any) -> tuple[AnyArray]:
    """Moments of the first component by the sides, or distances, of a hyperplane."""
    xp, (form, by_sign), (z, weight) = rows.xp, of_nodes, arrays
    odds = rows.transformed(form, z)
    side = (odds > 0).astype(odds.dtype)
    share = xp.where(rows.spread(by_sign), side, shares(odds)[0])
    return (weighted_products(rows, share * weight[..., None, :], z),)


def implied_models(
    level: Level,
    whitened: Whitened,
    fit: MixtureFit,
    first: AnyArray,
    split: Split,
) -> AnyArray:
    """Regressors that the two Gaussians imply, for the left and the right child.

    Section 4.2.3, second method. Each child takes the Gaussian to which most of its
    weight belongs relative to that Gaussian's own. ``first``: weights of the rows that
    are labelled as of the first one.

    Returns (n_nodes, 2, n_outputs, 1 + n_regressors).
    """
    xp, n = level.rows.xp, level.n_regressors
    both = xp.stack([fit.moments, whitened.rows.total - fit.moments], axis=1)
    mean = safe_divide(both[..., 0, 1:], both[..., 0, :1])
    deviation, center = whitened.deviation[:, None], whitened.mean[:, None]
    center = center + deviation * matvec(whitened.back[:, None], mean)

    # Slopes from the precision matrix of the standardised (regressors, outputs); the
    # only output of a pure node is no dimension of its own and gets zeros.
    transform = small_matmul(fit.forms.factor[..., 1:], whitened.whitener[:, None])
    precision = matmul(transform.swapaxes(-1, -2), transform)
    slopes = -guarded_solve(precision[..., n:, n:], precision[..., n:, :n], 0.0)
    # Every standardised output by the columns that are dimensions of their own: an
    # output that follows from other columns does so in either Gaussian.
    followed = matmul(whitened.back[:, n:], whitened.whitener)[:, None]
    others = followed[..., :n] + matmul(followed[..., n:], slopes)
    if level.targets.shape[-2] > 1:
        own = whitened.rows.active[:, None, n:, None]
        slopes = xp.where(own, slopes, others)
    slopes = slopes * deviation[..., n:, None] / deviation[..., None, :n]
    intercept = center[..., n:] - matvec(slopes, center[..., :n])
    models = xp.concatenate([intercept[..., None], slopes], axis=-1)

    labels = xp.stack([first, level.weight - first], axis=-2)
    inside = left_rows(level, split).astype(first.dtype)
    left = level.rows.products(labels, inside[..., None, :])[..., 0]
    share = safe_divide(left, level.rows.sums(labels))
    straight = (share[:, 0] >= share[:, 1])[:, None, None, None]
    return xp.where(straight, models, models[:, ::-1])
