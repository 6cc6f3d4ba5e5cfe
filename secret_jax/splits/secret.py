"""The split finder of SECRET: mixture, labels, discriminants, Gini gain.

Dobra & Gehrke 2002, Figure 4, steps 1 to 7, for one node.
"""

import functools
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import jax
import jax.numpy as jnp

from secret_jax.runtime.eigenvectors import leading_eigenvectors
from secret_jax.runtime.linalg import guarded_solve, is_written_out, matmul, safe_divide
from secret_jax.runtime.values import POSITIVE, at_least, real
from secret_jax.splits.em import fit_mixture
from secret_jax.splits.interface import Split
from secret_jax.splits.labelled import best_labelled_split
from secret_jax.splits.mixture import (
    LogForms,
    MixtureFit,
    MixtureStatus,
    Whitened,
    joint,
    whiten,
)
from secret_jax.splits.node_chosen import goes_left_of
from secret_jax.splits.one_node import Node, OneNodeFinder
from secret_jax.splits.tiles import Tiles, each_of, sum_of
from secret_jax.tree.structure import SplitKind


@dataclass(frozen=True, kw_only=True)
class SecretSplits(OneNodeFinder):
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

    def n_random(self, n_columns: int) -> int:
        """Two rows for each start of each attempt."""
        return 2 * self.n_starts * self.n_attempts

    def __call__(self, node: Node) -> Split:
        """Best split of one node, of the first attempt that finds one."""
        tiles = Tiles.of(node)
        whitened = whiten(node, tiles)
        numbers = node.random.reshape(self.n_attempts, self.n_starts, 2)

        def again(state):
            attempt, split, exhausted = state
            failed = (split.kind == SplitKind.LEAF) & ~exhausted
            return (attempt < self.n_attempts) & failed

        @jax.jit  # traced once, for its shapes and for the loop
        def run(attempt):
            split, status = _attempt(
                self, node, tiles, whitened, numbers[attempt], attempt
            )
            exhausted = split.pure | (status == MixtureStatus.TOO_FEW_ROWS)
            return attempt + 1, split, exhausted

        shapes = jax.eval_shape(run, jnp.int32(0))[1]
        blank = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shapes)
        start = jnp.int32(0), blank, jnp.asarray(False)
        return jax.lax.while_loop(again, lambda state: run(state[0]), start)[1]


def _attempt(
    finder: SecretSplits,
    node: Node,
    tiles: Tiles,
    whitened: Whitened,
    numbers: jax.Array,
    attempt: jax.Array,
) -> tuple[Split, jax.Array]:
    """A split from some starts, and the status of their mixture."""
    fit = _best_fit(finder, node, tiles, whitened, numbers, attempt)
    forms, rows = LogForms.of(fit.parameters), whitened.rows

    def weight_of_first(z, weight):
        first, second = forms.densities(z)
        return jnp.where(first > second, weight, 0.0)

    first = each_of(weight_of_first, rows.n_tiles, rows.z, rows.weight)
    pure = ~whitened.active[-node.targets.shape[1] :].any()
    usable = (fit.status <= MixtureStatus.ITERATION_LIMIT) & ~pure
    split = best_labelled_split(finder, node, first.reshape(-1))
    usable = usable & (split.gain > 0)
    return split._replace(
        kind=jnp.where(usable, split.kind, SplitKind.LEAF).astype(jnp.int32),
        # Summed over the rows, as in other finders.
        gain=jnp.where(usable, split.gain * jnp.sum(node.weight), 0.0),
        pure=pure,
        child_models=implied_models(node, tiles, whitened, fit, first, split),
    ), fit.status


def _best_fit(
    finder: SecretSplits,
    node: Node,
    tiles: Tiles,
    whitened: Whitened,
    numbers: jax.Array,
    attempt: jax.Array,
) -> MixtureFit:
    """The likeliest of some starts that did not collapse."""
    first = (jnp.arange(finder.n_starts) == 0) & (attempt == 0)
    from_component = first & (finder.start == "component")
    component = leading_eigenvectors(whitened.correlation, 1)[0]
    pairs = _rows_at(tiles.weight, numbers)
    pairs = whitened.standardised(joint(node, node.x[pairs], node.targets[pairs]))
    # Half the difference of the squared distances to the two rows.
    slope = pairs[:, 0] - pairs[:, 1]
    offset = 0.5 * jnp.sum(pairs[:, 1] ** 2 - pairs[:, 0] ** 2, axis=1)

    def responsibilities(x, targets):
        rows = whitened.standardised(joint(node, x, targets)).T
        by_component = (matmul(component, rows) > 0).astype(rows.dtype)
        by_rows = jax.nn.sigmoid(matmul(slope, rows) + offset[:, None])
        return jnp.where(from_component[:, None], by_component, by_rows)

    def run(responsibility):
        return fit_mixture(
            whitened.rows,
            responsibility,
            whitened.active,
            max_iter=finder.max_iter,
            tolerance=finder.tol,
            floor=finder.floor,
        )

    n_tiles = whitened.rows.n_tiles
    starts = each_of(responsibilities, n_tiles, tiles.x, tiles.targets).swapaxes(0, 1)
    # One after the other none waits for the slowest.
    fits = (jax.vmap(run) if is_written_out() else functools.partial(jax.lax.map, run))(
        starts
    )
    usable = fits.status <= MixtureStatus.ITERATION_LIMIT
    best = jnp.argmax(jnp.where(usable, fits.objective, -jnp.inf))
    return jax.tree.map(lambda leaf: leaf[best], fits)


def _rows_at(weight: jax.Array, numbers: jax.Array) -> jax.Array:
    """The rows at some shares of the weight, as it adds up row by row.

    ``weight`` (n_tiles, n_tile_rows); ``numbers`` Array of any shape: in (0, 1).
    """
    n_tiles, n_tile_rows = weight.shape
    below = jnp.cumsum(jnp.sum(weight, axis=1))
    wanted = numbers * below[-1]
    tile = jnp.searchsorted(below, wanted, side="right")
    tile = jnp.minimum(tile, n_tiles - 1)
    within = jnp.cumsum(weight[tile], axis=-1)
    wanted = wanted - jnp.where(tile > 0, below[tile - 1], 0.0)
    # Rounding must not lead beyond the last row of some weight.
    passed = (within <= wanted[..., None]) & (within < within[..., -1:])
    row = jnp.sum(passed.astype(jnp.int32), axis=-1)
    return tile.astype(jnp.int32) * n_tile_rows + row


def implied_models(
    node: Node,
    tiles: Tiles,
    whitened: Whitened,
    fit: MixtureFit,
    first: jax.Array,
    split: Split,
) -> jax.Array:
    """Regressors that the two Gaussians imply, for the left and the right child.

    Section 4.2.3, second method. Each child takes the Gaussian to which most of its
    weight belongs relative to that Gaussian's own.

    Returns (2, n_outputs, 1 + n_regressors).
    """
    n = node.columns.n_regressors
    forms = LogForms.of(fit.parameters)

    def of_tile(tile, z, first):
        of_first, of_second = forms.densities(z)
        share = tile.weight * jax.nn.sigmoid(of_first - of_second)
        share = jnp.stack([share, tile.weight - share])
        apart = joint(node, tile.x, tile.targets) - whitened.mean
        labels = jnp.stack([first, tile.weight - first])
        inside = goes_left_of(split, tile.x, tile.codes).astype(labels.dtype)
        sums = jnp.sum(share, axis=1), matmul(share, apart), jnp.sum(labels, axis=1)
        return *sums, matmul(labels, inside)

    rows = whitened.rows
    mass, moment, label_mass, left_mass = sum_of(
        of_tile, rows.n_tiles, tiles, rows.z, first
    )
    centers = whitened.mean + safe_divide(moment, mass[:, None])

    # Every standardised output by the columns that are dimensions of their own.
    followed = matmul(whitened.correlation[n:], whitened.whitener.T)
    followed = matmul(followed, whitened.whitener)

    def regressors(center, inverse):
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
        intercept = center[n:] - matmul(slopes, center[:n])
        return jnp.concatenate([intercept[:, None], slopes], axis=1)

    models = jax.vmap(regressors)(centers, fit.parameters.inverse_factor)
    share = safe_divide(left_mass, label_mass)
    return jnp.where(share[0] >= share[1], models, models[::-1])
