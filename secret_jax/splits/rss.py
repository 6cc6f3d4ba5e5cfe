"""The default split finder: candidates of all kinds, one score.

Axis thresholds, orders of categories, EM with LDA (the paper's step), principal Hessian
directions (Li 1992) and hinge steps (Breiman 1993) propose; the drop in the penalised
residual sum of squares of linear models in the children decides, as in RETIS (Karalic
1992), but of the residual of the node's own model (`secret_jax.splits.scoring`).
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import numpy as np

from secret_jax.models.ridge import Ridge
from secret_jax.runtime.arrays import (
    either,
    improved,
    largest,
    standard_normal,
    taken,
    where_each,
)
from secret_jax.runtime.linalg import (
    AnyArray,
    leading_eigenvectors,
    matmul,
    matvec,
    namespace,
    safe_divide,
    unit_vectors,
    weighted_moments,
)
from secret_jax.runtime.values import TupleOf, at_least, real
from secret_jax.splits.axis import (
    Candidates,
    Projections,
    leading_component,
    projections,
    roles_of,
    split_of,
)
from secret_jax.splits.directions import (
    Proposal,
    discriminants,
    hessian_directions,
    mixture_labels,
    sparse,
    start_responsibilities,
)
from secret_jax.splits.discriminant import oriented
from secret_jax.splits.interface import Columns, Node, Split, SplitFinder
from secret_jax.splits.scoring import (
    NodeRows,
    SideModels,
    covariance_of,
    fit_sides,
    node_rows,
    quantiles,
    screen,
)
from secret_jax.tree.structure import SplitKind

# Below this deviation, in units of the whole table, an attribute is constant.
_CONSTANT = 1e-6
# A residual with a smaller deviation, in the same units, is float32 rounding.
_PURE = 1e-5
# EM sees so many rows of a node: its few steps only propose directions.
_MIXTURE_ROWS = 512
# Squarings of the covariance for a direction that only starts EM.
_ROUGH_SQUARINGS = 4
# A hinge step counts a row at most so many times as much as the mean row.
_MOST_WEIGHT = 4.0
# A hinge step that gains a smaller share is rounding, and goes no further.
_LEAST_RISE = 1e-4
# By chance alone models do not spend more degrees of freedom than this share of rows.
_MOST_SPENT = 0.25


@dataclass(frozen=True, kw_only=True)
class RssSplits(SplitFinder):
    """Splits by how much better linear models fit the two sides than one fits both.

    Attributes
    ----------
    max_split_features : int or None, default=5
        Most attributes of an oblique split: fewer read better. None: all.
    sparse_terms : tuple of int, default=(2, 3)
        An oblique split competes with versions of itself in so many attributes,
    sparse_loss : float, default=0.05
        and yields to the shortest one that loses at most this share of its gain.
    n_thresholds : int, default=16
        Quantiles tried along each direction; 8 to 32 are as good on 2048 rows.
    em_starts : bool, default=True
        Whether short EM runs propose directions: from the first principal component,
        the residual, the first Hessian direction, the best axis split, at random.
    n_random_starts : int, default=2
        How many of the random ones.
    em_steps : int, default=4
        Steps of each run: what they find is improved by the hinge steps.
    n_hessian : int, default=2
        Principal Hessian directions.
    n_finalists : int, default=5
        Candidates, of axis and of oblique splits, that get an exact score.
    n_hinge, hinge_steps : int, default=3, 4
        Best candidates that are improved by hinge steps, and how many steps.
    ridge : float, default=3e-2
        Penalty of the children's models, in units of the regressors' variances.
    most_regressors : int, default=24
        With more columns their leading principal components score the splits: the time
        of a score grows with the square of their number.
    gcv_factor : float, default=1.2
        Of the nodes' own models, see `secret_jax.Ridge`.
    proposals : tuple of callable, default=()
        Further functions that propose oblique directions, see
        `secret_jax.splits.directions.Proposal`. They are compiled, and the search with
        them; model files cannot hold them.

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

    max_split_features: int | None = 5
    sparse_terms: tuple[int, ...] = (2, 3)
    sparse_loss: float = 0.05
    n_thresholds: int = 16
    em_starts: bool = True
    n_random_starts: int = 2
    em_steps: int = 4
    n_hessian: int = 2
    n_finalists: int = 5
    n_hinge: int = 3
    hinge_steps: int = 4
    ridge: float = 3e-2
    most_regressors: int = 24
    gcv_factor: float = 1.2
    proposals: tuple[Proposal, ...] = ()

    _parameter_constraints: ClassVar[dict] = {
        "max_split_features": [at_least(1), None],
        "sparse_terms": [TupleOf(at_least(2))],
        "sparse_loss": [real(0.0, 1.0, closed="both")],
        "n_thresholds": [at_least(2)],
        "em_starts": ["boolean"],
        "n_random_starts": [at_least(0)],
        "em_steps": [at_least(1)],
        "n_hessian": [at_least(0)],
        "n_finalists": [at_least(1)],
        "n_hinge": [at_least(0)],
        "hinge_steps": [at_least(0)],
        "ridge": [real(0.0, closed="neither")],
        "most_regressors": [at_least(1)],
        "gcv_factor": [real(0.0)],
        "proposals": [tuple],
    }

    knows_indicators: ClassVar[bool] = True
    # Random starts only propose: the tree should be the same for every seed.
    is_random: ClassVar[bool] = False

    @property
    def needs_program(self) -> bool:
        """Proposals are functions for JAX; all else NumPy does as well."""
        return bool(self.proposals)

    @property
    def node_model(self) -> Ridge:
        """Splits are scored on the residual of this model."""
        return Ridge(gcv_factor=self.gcv_factor)

    @property
    def max_attributes(self) -> int | None:
        """See `SplitFinder`."""
        return self.max_split_features

    @property
    def numbers_per_cell(self) -> int:
        """A side for each threshold, and the rows that it chooses."""
        return 2 * self.n_thresholds

    def n_random(self, n_columns: int) -> int:
        """Directions of the random starts, in the columns and the residual."""
        return self.n_random_starts * (n_columns + 1) if self.em_starts else 0

    def needs_host_inputs(self, n_columns: int) -> bool:
        """Loadings of the columns where they are too many to stand for themselves."""
        return n_columns > self.most_regressors

    def host_inputs(
        self, x: np.ndarray, weight: np.ndarray, columns: Columns
    ) -> dict[str, np.ndarray]:
        """Loadings of the columns, if they are needed."""
        if not self.needs_host_inputs(x.shape[2]):
            return {}
        most, n = self.most_regressors, columns.n_regressors
        return {"loading": _loadings(x, weight, n, most)}

    def __call__(self, node: Node) -> Split:
        """Best split of one node, or of each of many.

        ``gain`` is the drop of the penalised residual sum of squares over the rows, in
        standardised units of the outputs; ``chance_gain`` what the coefficients of a
        further model are expected to save by chance alone.
        """
        return _best_split(self, node)


def _loadings(
    x: np.ndarray, weight: np.ndarray, n_regressors: int, most: int
) -> np.ndarray:
    """Leading principal components of each node, those of the regressors first.

    Returns
    -------
    ndarray of shape (n_nodes, n_columns, n_coordinates), float32
        Combinations of the standardised columns that stand for them.
    """
    n_columns = x.shape[2]
    n_model = min(n_regressors, most)
    n_other = min(n_columns - n_regressors, most - n_model)
    loading = np.zeros((len(x), n_columns, n_model + n_other), np.float32)
    for node in np.flatnonzero(weight.any(axis=1)):  # the others are padding
        share = weight[node] / weight[node].sum()
        centred = x[node] - share @ x[node]
        deviation = np.sqrt(share @ centred**2)
        centred /= np.where(deviation > _CONSTANT, deviation, np.float32(np.inf))
        # Float32 is enough for what only scores splits, and half the time.
        covariance = (share[:, None] * centred).T @ centred
        model, other = slice(n_regressors), slice(n_regressors, None)
        loading[node, model, :n_model] = _components(covariance[model, model], n_model)
        loading[node, other, n_model:] = _components(covariance[other, other], n_other)
    return loading


def _components(covariance: np.ndarray, n: int) -> np.ndarray:
    """All columns, or their leading principal components, of shape (n_columns, n).

    They have unit length: a ridge means the same for them as for the columns.
    """
    if n == len(covariance):
        return np.eye(n)
    return np.linalg.eigh(covariance)[1][:, ::-1][:, :n]


class _Prepared(NamedTuple):
    """Nodes prepared for scoring; before these axes arrays have those of the nodes."""

    z: AnyArray  # (n_rows, n_columns), standardised in the node
    rows: NodeRows
    back: AnyArray  # (n_coordinates, n_columns), from coordinates to z
    covariance: AnyArray  # (n_columns, n_columns) of z
    min_weight: AnyArray
    allowed: AnyArray  # (n_columns,), 1 where a direction may go, else 0
    axis: Projections | None
    n_model: int


def _best_split(finder: RssSplits, batch: Node) -> Split:
    xp = namespace(batch.x)
    columns = batch.columns
    total, center, deviation = weighted_moments(batch.x, batch.weight)
    varies = deviation > _CONSTANT
    scale = xp.where(varies, deviation, 1.0)
    present = (batch.weight > 0)[..., None]
    z = (batch.x - center[..., None, :]) / scale[..., None, :]
    z = xp.where(varies[..., None, :] & present, z, 0.0)

    regressors = batch.x[..., : columns.n_regressors]
    model = xp.swapaxes(batch.coefficient, -1, -2)
    fitted = model[..., :1, :] + matmul(regressors, model[..., 1:, :])
    _, offset, spread = weighted_moments(batch.targets - fitted, batch.weight)
    pure = (spread <= _PURE).all(axis=-1)
    # One unit for all outputs, so that their gains add up.
    unit = spread[..., 0]
    if spread.shape[-1] > 1:
        unit = xp.sqrt(xp.mean(spread**2, axis=-1))
    unit = xp.where(pure, 1.0, unit)
    residual = batch.targets - fitted - offset[..., None, :]
    residual = xp.where(present, residual / unit[..., None, None], 0.0)

    node = _prepared(z, residual, batch, finder)
    axis = _axis_candidates(node, finder)
    along_axes = _finalists(axis, node, finder)

    def best_along_axes():
        return _best(along_axes[0])

    def best_of_all():
        finalists = along_axes
        directions = _proposals(batch, node, axis, finder)
        if len(directions):
            directions = xp.concatenate(directions, axis=-2)
            proposed = _oblique(directions, node, finder)
            finalists = _merge(finalists, _finalists(proposed, node, finder))
        found = finalists[0]
        if finder.n_hinge and finder.hinge_steps:
            found = _merge(found, _hinges(finalists, node, finder))
        return _shortest(_best(found), node, finder)

    pick = best_along_axes
    if columns.oblique and z.shape[-1] > 1:
        pick = functools.partial(either, batch.oblique, best_of_all, best_along_axes)
    pick = pick()

    # A model with a ridge spends less than one degree of freedom on a regressor; the
    # split itself and the second mean are two more.
    n_model = node.n_model
    penalty = node.rows.penalty[..., :n_model, :n_model]
    spent = 2 + n_model - xp.trace(penalty, axis1=-2, axis2=-1)
    left_over = xp.maximum(total - batch.degrees, 1.0)
    noise = total * xp.sum(spread**2 + offset**2, axis=-1) / left_over
    chance_gain = noise * xp.minimum(spent, _MOST_SPENT * total)
    return split_of(
        pick._replace(gain=pick.gain * unit**2),
        batch,
        pure=pure,
        chance_gain=chance_gain,
        center=center,
        scale=scale,
    )


def _prepared(
    z: AnyArray, residual: AnyArray, batch: Node, finder: RssSplits
) -> _Prepared:
    xp = namespace(z)
    n_model = min(batch.columns.n_regressors, finder.most_regressors)
    loading = batch.extra.get("loading")
    basis = z if loading is None else matmul(z, loading)
    rows, whitener = node_rows(
        basis, residual, batch.weight, n_model=n_model, ridge=finder.ridge
    )
    back = whitener
    if loading is not None:
        back = matmul(whitener, xp.swapaxes(loading, -1, -2))
    # Sums of indicators are hard to read: sets of categories, and the side of missing
    # values, are splits of their own.
    combined = roles_of(batch).combined & batch.allowed[..., : z.shape[-1]]
    axis = projections(batch, leading_component(residual, batch.weight))
    return _Prepared(
        z=z,
        rows=rows,
        back=back,
        covariance=covariance_of(z, batch.weight),
        min_weight=batch.min_weight,
        allowed=combined.astype(z.dtype),
        axis=axis,
        n_model=n_model,
    )


def _scored(
    projection: AnyArray,
    node: _Prepared,
    finder: RssSplits,
    weight: AnyArray | None = None,
    along: AnyArray | None = None,
) -> tuple[AnyArray, AnyArray]:
    """Gain and threshold of the best cut along each direction, approximately.

    ``weight``, where given, chooses the rows whose quantiles are tried; for ``along``
    see `screen`.
    """
    xp = namespace(projection)
    weight = node.rows.weight if weight is None else weight
    cuts = quantiles(projection, weight, finder.n_thresholds)
    gain = screen(
        node.rows,
        projection,
        cuts,
        node.min_weight,
        n_model=node.n_model,
        along=along,
    )
    best = xp.argmax(gain, axis=-1)
    return xp.max(gain, axis=-1), taken(cuts, best, best.ndim)


def _axis_candidates(node: _Prepared, finder: RssSplits) -> Candidates:
    """Every attribute at its best threshold, by approximate gain."""
    axis = node.axis
    assert axis is not None
    gain, cuts = _scored(axis.projection, node, finder, axis.weight, axis.value)
    return axis.candidates(gain, cuts)


def _oblique(coordinates: AnyArray, node: _Prepared, finder: RssSplits) -> Candidates:
    """Splits along directions given in the coordinates, by approximate gain."""
    direction = matmul(coordinates, node.back) * node.allowed[..., None, :]
    if finder.max_split_features:
        kept, direction = finder.max_split_features, unit_vectors(direction)
        direction = sparse(direction, node.covariance, kept, finder.ridge)
    return _along(oriented(direction), node, finder)


def _along(direction: AnyArray, node: _Prepared, finder: RssSplits) -> Candidates:
    """Splits along directions in the standardised columns, by approximate gain."""
    xp = namespace(direction)
    projection = matmul(direction, xp.swapaxes(node.z, -1, -2))
    gain, cuts = _scored(projection, node, finder)
    return Candidates(
        gain=gain,
        projection=projection,
        direction=direction,
        threshold=cuts,
        kind=xp.full(gain.shape, SplitKind.OBLIQUE, xp.int32),
        attribute=xp.full(gain.shape, -1, xp.int32),
    )


def _finalists(
    candidates: Candidates, node: _Prepared, finder: RssSplits
) -> tuple[Candidates, SideModels]:
    """The most promising candidates, with their exact gains and their models."""
    xp = namespace(candidates.gain)
    n = min(finder.n_finalists, candidates.gain.shape[-1])
    chosen = candidates.take(largest(candidates.gain, n))
    exact = _exact(chosen, node)
    # What was ruled out before, such as an attribute that is not allowed, stays out.
    gain = xp.where(xp.isfinite(chosen.gain), exact.gain, -xp.inf)
    return chosen._replace(gain=gain), exact


def _exact(candidates: Candidates, node: _Prepared) -> SideModels:
    """Models of both sides of each split, and how much they gain."""
    left = candidates.projection <= candidates.threshold[..., None]
    return fit_sides(node.rows, left, node.min_weight, n_model=node.n_model)


def _best(candidates: Candidates) -> Candidates:
    xp = namespace(candidates.gain)
    return candidates.take(xp.argmax(candidates.gain, axis=-1))


def _shortest(best: Candidates, node: _Prepared, finder: RssSplits) -> Candidates:
    """The best split, or the shortest version of it that is nearly as good."""
    xp = namespace(best.gain)
    n_columns = node.z.shape[-1]
    lengths = [kept for kept in finder.sparse_terms if kept < n_columns]
    if not lengths:
        return best
    shape = (*best.gain.shape, len(lengths), n_columns)
    full = xp.broadcast_to(best.direction[..., None, :], shape)
    directions = sparse(full, node.covariance, np.array(lengths), finder.ridge)
    short = _along(oriented(directions), node, finder)
    exact = _exact(short, node).gain
    short = short._replace(gain=xp.where(xp.isfinite(short.gain), exact, -xp.inf))
    least = best.gain - finder.sparse_loss * xp.abs(best.gain)
    oblique = best.kind == SplitKind.OBLIQUE
    # One attribute alone is another kind of split.
    n_terms = xp.sum(short.direction != 0, axis=-1)
    longer = xp.sum(best.direction != 0, axis=-1)[..., None] > n_terms
    good = oblique[..., None] & longer & (n_terms > 1)
    good = good & (short.gain >= least[..., None])
    found = short.take(xp.argmin(xp.where(good, n_terms, n_columns + 1), axis=-1))
    return _where(good.any(axis=-1), found, best)


def _proposals(
    batch: Node, node: _Prepared, axis: Candidates, finder: RssSplits
) -> list[AnyArray]:
    """Mixture and principal Hessian directions, in the coordinates."""
    xp = namespace(node.z)
    rows, n_model = node.rows, node.n_model
    directions = []
    curvature = hessian_directions(rows, max(finder.n_hessian, 1), n_model=n_model)
    if finder.n_hessian:
        directions.append(curvature)
    if finder.em_starts:
        head = slice(_MIXTURE_ROWS)
        coordinates, weight = rows.coordinates[..., head, :], rows.weight[..., head]
        residual = leading_component(rows.residual, rows.weight)[..., head]
        component = leading_eigenvectors(node.covariance, 1, _ROUGH_SQUARINGS)
        best = _best(axis)
        side = best.projection[..., head] <= best.threshold[..., None]
        side = xp.where(side, 1.0, -1.0).astype(residual.dtype)
        shape = (finder.n_random_starts, node.z.shape[-1] + 1)
        normal = batch.random.reshape(*batch.random.shape[:-1], *shape)
        normal = standard_normal(normal)[..., : coordinates.shape[-1] + 1]
        # The residual weighs as much as all attributes together.
        pull = math.sqrt(normal.shape[-1])
        spread = matmul(normal[..., 1:], xp.swapaxes(coordinates, -1, -2))
        spread = spread + pull * normal[..., :1] * residual[..., None, :]
        starts = [
            matvec(node.z[..., head, :], component[..., 0, :]),
            residual,
            matvec(coordinates, curvature[..., 0, :]),
            side,
        ]
        start = xp.concatenate([xp.stack(starts, axis=-2), spread], axis=-2)
        label = mixture_labels(
            rows,
            start_responsibilities(start, weight),
            n_steps=finder.em_steps,
        )
        first = weight[..., None, :] * label
        second = weight[..., None, :] * (1 - label)
        directions.append(discriminants(rows, first, second, n_model=n_model))
    return directions + [more(rows, n_model=n_model) for more in finder.proposals]


def _hinges(
    finalists: tuple[Candidates, SideModels], node: _Prepared, finder: RssSplits
) -> Candidates:
    """Hinge steps from the best candidates, each kept only if the score improves.

    Both sides are fitted, each row is labelled by the side that predicts it better,
    weighted by how much, and LDA of the labels gives the next direction.
    """
    gain = finalists[0].gain
    xp = namespace(gain)
    chosen = largest(gain, min(finder.n_hinge, gain.shape[-1]))
    n_axes = gain.ndim - 1
    start = jax.tree.map(lambda array: taken(array, chosen, n_axes), finalists)

    def errors(rows, model):
        slopes = xp.swapaxes(model[..., 1:, :], -1, -2)
        each = slopes.shape[:-1]  # nodes, splits, outputs
        n_model = slopes.shape[-1]
        slopes = slopes.reshape(*each[:-2], each[-2] * each[-1], n_model)
        regressors = xp.swapaxes(rows.coordinates[..., :n_model], -1, -2)
        fitted = matmul(slopes, regressors).reshape(*each, -1)
        fitted = fitted + model[..., 0, :, None]
        residual = xp.swapaxes(rows.residual, -1, -2)[..., None, :, :]
        return xp.sum((residual - fitted) ** 2, axis=-2)

    def step(node, state):
        current, models = state
        rows, n_model = node.rows, node.n_model
        advantage = errors(rows, models.right) - errors(rows, models.left)
        size = xp.abs(advantage)
        total = xp.sum(rows.weight, axis=-1)[..., None]
        mean = safe_divide(matvec(size, rows.weight), total)
        cap = _MOST_WEIGHT * mean[..., None]
        bounded = rows.weight[..., None, :] * xp.minimum(size, cap)
        first = xp.where(advantage > 0, bounded, 0.0)
        direction = discriminants(rows, first, bounded - first, n_model=n_model)
        new = _oblique(direction, node, finder)
        new_models = _exact(new, node)
        new = new._replace(gain=new_models.gain)
        better = new.gain > current.gain * (1 + _LEAST_RISE)
        state = _where(better, (new, new_models), (current, models))
        return state, better.any(axis=-1)

    return improved(finder.hinge_steps, step, node._replace(axis=None), start)[0]


def _where(chosen: AnyArray, first: Any, second: Any) -> Any:
    return jax.tree.map(lambda a, b: where_each(chosen, a, b), first, second)


def _merge(first: Any, second: Any) -> Any:
    """Two lists of candidates, and what belongs to each of them, as one list."""
    n_axes = jax.tree.leaves(first)[0].ndim - 1

    def joined(a, b):
        return namespace(a).concatenate([a, b], axis=n_axes)

    return jax.tree.map(joined, first, second)
