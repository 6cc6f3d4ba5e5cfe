"""The default split finder: candidates of all kinds, one score.

Axis thresholds, orders of categories, principal Hessian directions (Li 1992) and hinge
steps by LDA (Breiman 1993) propose; the drop in the penalised residual sum of squares
of linear models in the children decides, as in RETIS (Karalic 1992), but of the
residual of the node's own model (`secret_jax.splits.rss_nodes`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Int

from secret_jax.data.learning import ColumnOptions
from secret_jax.models.ridge import Ridge
from secret_jax.runtime.linalg import (
    AnyArray,
    definite_solve,
    inverse_cholesky,
    largest,
    leading_eigenvectors,
    matmul,
    namespace,
    safe_divide,
    small_matmul,
    taken,
    where_each,
)
from secret_jax.runtime.values import POSITIVE, TupleOf, at_least, real
from secret_jax.splits.axis import split_of
from secret_jax.splits.interface import Level, Split, SplitFinder
from secret_jax.splits.labelled import oriented
from secret_jax.splits.rss_axis import (
    LEAST_RISE,
    Best,
    attributes_of,
    best_attribute,
    picked,
)
from secret_jax.splits.rss_near import moved, refined, values_along
from secret_jax.splits.rss_nodes import (
    ROUNDING,
    Nodes,
    advantage_of_left,
    best_cuts,
    cuts_of,
    exact_sides,
    gains_of_cuts,
    prepared,
)

# An oblique split yields to the shortest version of itself that loses at most this
# share of its gain.
_SPARSE_LOSS = 0.05
# Residuals beyond so many deviations do not bend more: a bound against heavy tails.
_MOST_BENDING = 3.0
# A hinge step counts a row at most so many times as much as the mean row.
_MOST_WEIGHT = 4.0


@runtime_checkable
class Proposal(Protocol):
    """Proposes oblique splits of the nodes of a level; written over ``rows.xp``."""

    def __call__(
        self, rows: Any, white: AnyArray, residual: AnyArray, weight: AnyArray
    ) -> AnyArray:
        """Directions in whitened coordinates, (n_nodes, n_directions, n_coordinates).

        Parameters
        ----------
        rows : RaggedRows or TiledRows
            Which rows are of which node, and the verbs that sum over them: only these
            know of all rows where several devices have some.
        white : row array of shape (n_coordinates, rows)
            Of mean zero and about unit covariance in every node.
        residual : row array of shape (n_outputs, rows)
            Of the nodes' own models, of about unit variance.
        weight : row array of shape (rows,)
        """
        ...


@dataclass(frozen=True, kw_only=True)
class RssSplits(SplitFinder):
    """Splits by how much better linear models fit the two sides than one fits both.

    Attributes
    ----------
    max_split_features : int or None, default=5
        Most attributes of an oblique split: fewer read better. None: all.
    sparse_terms : tuple of int, default=(2, 3)
        An oblique split yields to a version of itself in so many attributes that loses
        at most five per cent of its gain.
    n_thresholds : int, default=16
        Quantiles tried along each direction; 8 to 32 are as good on 2048 rows.
    n_nearby : int, default=9
        Values near the best quantile that are tried afterwards, before the models of
        both sides point to the row where the other begins to err less. 0: the quantile
        stays, as in trees of ensembles, where others mend it.
    n_hessian : int, default=2
        Principal Hessian directions (Li 1992).
    n_finalists : int, default=5
        Candidates, of axis and of oblique splits, that get an exact score.
    hinge_steps : int, default=2
        Maximum number of steps; with one, some tables err clearly more.
    least_share : float, default=0.0
        Least share of the node's weight on each side. The model of a few rows at an end
        explains them by chance; boosters, which nobody prunes, gain by 1/16.
    ridge : float, default=3e-2
        Penalty of the children's models, in units of the regressors' variances.
    most_regressors : int, default=24
        With more columns their leading principal components score the splits: the time
        of a score grows with the square of their number.
    gcv_factor : float, default=1.2
        Of the nodes' own models, see `secret_jax.Ridge`.
    proposals : tuple of callable, default=()
        Further functions that propose oblique directions, see
        `secret_jax.splits.rss.Proposal`; model files cannot hold them.

    References
    ----------
    L. Breiman. Hinging Hyperplanes for Regression, Classification, and Function
    Approximation. IEEE Transactions on Information Theory 39, 1993.

    A. Karalic. Employing Linear Regression in Regression Tree Leaves. ECAI 1992.

    K.-C. Li. On Principal Hessian Directions for Data Visualization and Dimension
    Reduction. Journal of the American Statistical Association 87, 1992.

    Examples
    --------
    >>> from secret_jax import RssSplits, SecretRegressor
    >>> model = SecretRegressor(splits=RssSplits(max_split_features=2))
    >>> model.set_params(splits__n_thresholds=8).splits.n_thresholds
    8
    """

    max_split_features: Annotated[int, at_least(1)] | None = 5
    sparse_terms: Annotated[tuple[int, ...], TupleOf(at_least(2))] = (2, 3)
    n_thresholds: Annotated[int, at_least(2)] = 16
    n_nearby: Annotated[int, at_least(0)] = 9
    n_hessian: Annotated[int, at_least(0)] = 2
    n_finalists: Annotated[int, at_least(1)] = 5
    hinge_steps: Annotated[int, at_least(0)] = 2
    least_share: Annotated[float, real(0.0, 0.5)] = 0.0
    ridge: Annotated[float, POSITIVE] = 3e-2
    most_regressors: Annotated[int, at_least(1)] = 24
    gcv_factor: Annotated[float, real(0.0)] = 1.2
    proposals: tuple[Proposal, ...] = ()

    compiled: ClassVar[bool] = True
    of_host: ClassVar = (*SplitFinder.of_host, "gcv_factor")
    computed_with: ClassVar = "ridge", "least_share"

    def columns_for(self, options: ColumnOptions) -> ColumnOptions:
        """As they are given."""
        return options

    @property
    def node_model(self) -> Ridge:
        """Splits are scored on the residual of this model."""
        return Ridge(gcv_factor=self.gcv_factor)

    @property
    def max_attributes(self) -> int | None:
        return self.max_split_features

    def find(self, level: Level) -> Split:
        """Best split of every node of a level.

        ``gain`` is the drop of the penalised residual sum of squares over the rows, in
        standardised units of the outputs; ``chance_gain`` what the coefficients of a
        further model are expected to save by chance alone.
        """
        nodes = self._nodes(level)
        oblique = level.any_oblique and level.x.shape[-2] > 1
        direction = proposed(nodes, oblique, self)
        attributes = attributes_of(level, nodes, direction, self.n_thresholds)
        best = best_attribute(
            attributes, nodes, self.n_finalists, self.ridge, alone=not oblique
        )
        if oblique:
            best = improved(nodes, best, direction, level.oblique, self)
        if self.n_nearby and best.models is not None:
            value = values_along(nodes, best, attributes)
            movable = best.candidate < attributes.n_ordered
            movable &= level.rows.xp.isfinite(best.gain)
            how = {"ridge": self.ridge, "n_tried": self.n_nearby}
            best = refined(nodes, best, value, movable, **how)
        pick = picked(best, level, nodes, attributes)
        return split_of(
            pick._replace(gain=pick.gain * nodes.unit**2),
            level,
            pure=nodes.pure,
            chance_gain=nodes.chance_gain,
            units=(nodes.center, nodes.scale),
        )

    def find_near(self, level: Level, splits: Split) -> Split:
        """Move thresholds to where the models of both sides err alike."""
        if not self.n_nearby:
            return splits
        return moved(level, self._nodes(level), splits, self.ridge)

    def _nodes(self, level: Level) -> Nodes:
        nodes = prepared(level, self.ridge, self.most_regressors)
        least = self.least_share * nodes.total
        least = level.rows.xp.maximum(nodes.min_weight, least)
        return nodes._replace(min_weight=least)


def improved(
    nodes: Nodes, best: Best, direction: AnyArray, some: AnyArray, options: RssSplits
) -> Best:
    """Improve on splits of some nodes by hinge steps, then by short versions."""
    xp, new = nodes.rows.xp, best
    for left in range(max(options.hinge_steps, 1), 0, -1):
        if options.hinge_steps:
            direction = _hinge(nodes, new, options)
        elif not direction.shape[1]:
            break
        n_full, tried = direction.shape[1], [direction]
        if left == 1:
            longer = xp.concatenate([direction, new.direction[:, None]], axis=1)
            tried += _short(nodes, longer, options)
        tried = standardised(nodes, xp.concatenate(tried, axis=1), options)
        found = _scored(nodes, tried, options)
        new = _better(new, Best(*(array[:, :n_full] for array in found)))
        if tried.shape[1] > n_full:
            new = _shortest(new, Best(*(array[:, n_full:] for array in found)))
    return Best(*(where_each(some, *pair) for pair in zip(new, best, strict=True)))


def proposed(nodes: Nodes, oblique: bool, options: RssSplits) -> AnyArray:
    """Directions that do not depend on the best split so far, of unit variance."""
    n_nodes, n_columns, _ = nodes.covariance.shape
    found = [nodes.rows.xp.zeros((n_nodes, 0, n_columns), nodes.z.dtype)]
    if not oblique:
        return found[0]
    if options.n_hessian:
        found.append(_in_columns(nodes, _hessian(nodes, options), options))
    if options.proposals:
        whitener = _whitener(nodes, options)
        basis = nodes.design[..., 1 + nodes.n_outputs :, :]
        white = nodes.rows.transformed(whitener, basis)
        residual = nodes.design[..., : nodes.n_outputs, :]
        for proposal in options.proposals:
            new = proposal(nodes.rows, white, residual, nodes.weight)
            found.append(_in_columns(nodes, matmul(new, whitener), options))
    return standardised(nodes, nodes.rows.xp.concatenate(found, axis=1), options)


def standardised(nodes: Nodes, direction: AnyArray, options: RssSplits) -> AnyArray:
    """Directions (n_nodes, k, n_columns) along which columns have unit variance."""
    xp = nodes.rows.xp
    variance = xp.sum(small_matmul(direction, nodes.covariance) * direction, axis=2)
    unit = safe_divide(direction, xp.sqrt(xp.maximum(variance, 0.0))[..., None])
    return xp.where(xp.isfinite(variance)[..., None], unit, 0.0)


def _short(nodes: Nodes, direction: AnyArray, options: RssSplits) -> list[AnyArray]:
    """Versions of directions in few attributes, if there are any."""
    _, n_full, n_columns = direction.shape
    lengths = [length for length in options.sparse_terms if length < n_columns]
    if not lengths:
        return []
    every = nodes.rows.xp.concatenate([direction] * len(lengths), axis=1)
    return [_in_few(nodes, every, np.repeat(lengths, n_full), options)]


def _in_few(
    nodes: Nodes, direction: AnyArray, n_kept: Any, options: RssSplits
) -> AnyArray:
    """Directions in few of the columns, oriented."""
    return oriented(sparse(direction, nodes.covariance, n_kept, options.ridge))


def _whitener(nodes: Nodes, options: RssSplits) -> AnyArray:
    """Of all coordinates."""
    if nodes.n_model == nodes.n_coordinates:
        return nodes.whitener
    first = 1 + nodes.n_outputs
    covariance = nodes.gram[:, first:, first:] / nodes.total[:, None, None]
    penalty = options.ridge * np.eye(nodes.n_coordinates, dtype=covariance.dtype)
    return inverse_cholesky(covariance + penalty, 0.0)[0]


def _in_columns(nodes: Nodes, coordinates: AnyArray, options: RssSplits) -> AnyArray:
    """Directions (n_nodes, k, n_coordinates), of any length, in few of the columns."""
    xp, direction = nodes.rows.xp, coordinates
    if nodes.loading is not None:
        direction = matmul(coordinates, xp.swapaxes(nodes.loading, 1, 2))
    direction = direction * nodes.combined[:, None]
    if options.max_split_features:
        return _in_few(nodes, direction, options.max_split_features, options)
    return oriented(direction)


def _hessian(nodes: Nodes, options: RssSplits) -> AnyArray:
    """Leading eigenvectors of E[r u u'], u whitened: where the residuals bend most."""
    rows, xp, n = nodes.rows, nodes.rows.xp, nodes.n_outputs
    total = nodes.total[:, None, None, None]
    bounded = xp.clip(nodes.design[..., :n, :], -_MOST_BENDING, _MOST_BENDING)
    weighted = nodes.weight[..., None, :] * nodes.design[..., n:, :]
    by = bounded[..., :, None, :] * weighted[..., None, :, :]
    flat = by.reshape(*by.shape[:-3], -1, by.shape[-1])
    sums = rows.products(flat, nodes.design)[..., n:]
    sums = sums.reshape(len(sums), n, -1, sums.shape[-1]) / total
    # The one comes first: of the bounded residuals about their means.
    about = sums[:, :, :1, :1] * nodes.gram[:, None, n:, n:] / total
    hessian = (sums - about)[:, :, 1:, 1:]
    whitener = _whitener(nodes, options)
    n_leading = min(options.n_hessian, nodes.n_coordinates)
    whitened = matmul(whitener[:, None], hessian)
    whitened = matmul(whitened, xp.swapaxes(whitener, 1, 2)[:, None])
    if nodes.n_outputs == 1:
        whitened = whitened[:, 0]
    else:  # the squares of several have the same eigenvectors, and add up
        whitened = xp.sum(matmul(whitened, whitened), axis=1)
    return matmul(leading_eigenvectors(whitened, n_leading), whitener)


def _hinge(nodes: Nodes, best: Best, options: RssSplits) -> AnyArray:
    """LDA between rows that one side or the other predicts better, by how much."""
    rows, xp, n = nodes.rows, nodes.rows.xp, nodes.n_outputs
    advantage = advantage_of_left(nodes, best.models)
    size = xp.abs(advantage)
    cap = _MOST_WEIGHT * rows.sums(nodes.weight * size) / nodes.total
    size = nodes.weight * xp.minimum(size, rows.spread(cap))
    first = xp.where(advantage > 0, size, 0.0)[..., None, :]
    ridge = options.ridge + ROUNDING
    by = [first, size[..., None, :] * nodes.design[..., n:, :]]
    sums = rows.products(xp.concatenate(by, axis=-2), nodes.design)[..., n:]
    of_class = xp.stack([sums[:, 0], sums[:, 1] - sums[:, 0]], axis=1)
    mass = of_class[:, :, 0]
    center = safe_divide(of_class[:, :, 1:], mass[..., None])
    between = mass[..., None, None] * center[..., :, None] * center[..., None, :]
    within = sums[:, 2:, 1:] - xp.sum(between, axis=1)
    within = safe_divide(within, xp.sum(mass, axis=1)[:, None, None])
    penalty = ridge * np.eye(within.shape[-1], dtype=within.dtype)
    normal = definite_solve(within + penalty, center[:, 0] - center[:, 1])
    return _in_columns(nodes, normal[:, None], options)


def _scored(nodes: Nodes, direction: AnyArray, options: RssSplits) -> Best:
    """The best cuts of directions; arrays with a second axis of directions."""
    rows, xp = nodes.rows, nodes.rows.xp
    projection = nodes.along(direction)
    cuts = cuts_of(rows, projection, nodes.weight, options.n_thresholds)
    sums, own = rows.moments_below(projection, cuts, nodes.moments, nodes.weight)
    sides = nodes.whole, nodes.min_weight, sums, own
    screened = gains_of_cuts(*sides, small_matmul(direction, nodes.cross))
    found, cut = best_cuts(screened, cuts)
    left = projection <= rows.spread(cut)
    gain, models = exact_sides(nodes, left, options.ridge)
    gain = xp.where(xp.isfinite(found), gain, -xp.inf)
    return Best(gain, xp.full_like(cut, -1, int), direction, cut, models)


def _better(best: Best, found: Best) -> Best:
    """The best of some directions where it gains more than the best so far."""
    which = namespace(found.gain).argmax(found.gain, axis=1)
    found = Best(*(taken(array, which, 1) for array in found))
    rise = LEAST_RISE * namespace(best.gain).abs(best.gain)
    better = found.gain > best.gain + rise
    return Best(*(where_each(better, *pair) for pair in zip(found, best, strict=True)))


def _shortest(best: Best, short: Best) -> Best:
    """The best split, or the shortest direction that gains nearly as much."""
    xp = namespace(best.gain)
    n_terms = xp.sum(short.direction != 0, axis=2)
    longer = xp.sum(best.direction != 0, axis=1)[:, None] > n_terms
    share = short.gain / best.gain[:, None]
    # One attribute alone is another kind of split.
    good = longer & (n_terms > 1) & (share >= 1 - _SPARSE_LOSS)
    good = good & (best.candidate < 0)[:, None]
    # Of as many attributes, what gains most.
    liked = 0.5 * share - n_terms.astype(share.dtype)
    which = xp.argmax(xp.where(good, liked, -xp.inf), axis=1)
    short = Best(*(taken(array, which, 1) for array in short))
    pairs = zip(short, best, strict=True)
    return Best(*(where_each(good.any(axis=1), *pair) for pair in pairs))


def sparse(
    direction: Float[AnyArray, "... n_directions n_attributes"],
    covariance: Float[AnyArray, "... n_attributes n_attributes"],
    n_kept: int | Int[np.ndarray, " n_directions"],
    ridge: AnyArray | float,
) -> Float[AnyArray, "... n_directions n_attributes"]:
    """The directions in few attributes that come closest to given ones, of any length.

    The attributes with the largest effects are kept, and the projection is regressed
    on them.

    ``direction``: in standardised attributes; what is zero stays zero; ``n_kept`` for
    all or for each direction.
    """
    xp = namespace(direction)
    n_directions, n_attributes = direction.shape[-2:]
    most = min(int(np.max(n_kept)), n_attributes)
    dtype = direction.dtype
    # The largest are taken out: a small system instead of one of all attributes.
    place = largest(xp.abs(direction), most)
    wanted = np.arange(most) < np.broadcast_to(n_kept, n_directions)[:, None]
    n_axes = direction.ndim - 2
    kept = taken(direction, place, n_axes + 1) != 0
    kept = (kept & wanted).astype(dtype)
    flat = place.reshape(*place.shape[:-2], -1)
    rows = taken(covariance, flat, n_axes)
    rows = rows.reshape(*place.shape, n_attributes)
    moment = kept * xp.sum(rows * direction[..., None, :], axis=-1)
    matrix = taken(xp.swapaxes(rows, -1, -2), place, n_axes + 1)
    matrix = kept[..., :, None] * kept[..., None, :] * matrix
    alone = ridge + (1 - kept)
    matrix = matrix + alone[..., None] * xp.eye(most, dtype=dtype)
    found = kept * definite_solve(matrix, moment)
    at = place[..., :, None] == np.arange(n_attributes)
    return xp.sum(xp.where(at, found[..., None], 0.0), axis=-2)
