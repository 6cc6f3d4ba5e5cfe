"""Nodes of a level ready for scoring by linear models, and the gains of cuts.

A split is scored by the drop of the penalised residual sum of squares when each side
gets a ridge model of its own, on top of the node's: of all cuts from first moments of
whitened rows, of a few from their models. All arrays are those of
`secret_jax.splits.interface.Level`: rows last, nodes first.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from secret_jax.data.ragged import sorted_pairs
from secret_jax.runtime.linalg import (
    AnyArray,
    definite_solve,
    inverse_cholesky,
    leading_eigenvectors,
    matmul,
    namespace,
    small_matmul,
    taken,
)
from secret_jax.splits.interface import Level

# Below this deviation, in units of the whole table, an attribute is constant.
CONSTANT = 1e-6
# A residual with a smaller deviation, in the same units, is float32 rounding.
PURE = 1e-5
# Float32 rounding of sums of about a thousand products.
ROUNDING = 1e-6
# By chance alone models do not spend more degrees of freedom than this share of rows.
_MOST_SPENT = 0.25
# A quantile of 128 rows is off by some 4 % of the rows: less than the 6 % that sixteen
# thresholds lie apart.
_QUANTILE_ROWS = 128
# A direction that the models nearly span: beyond it the side's covariance, as the
# closed formula takes it to be, would be singular.
_MOST_NARROW = 0.99


class Nodes(NamedTuple):
    """Rows of nodes and sums over them, in units of the nodes.

    The design of a row is its residuals, one, and its coordinates: the columns, or
    where these are many their leading components; those that models see come first.
    """

    # In units of the table:
    center: AnyArray  # (n_nodes, n_columns)
    scale: AnyArray  # (n_nodes, n_columns): infinite where constant
    unit: AnyArray  # (n_nodes,): of residuals of all outputs, so that gains add up
    pure: AnyArray  # (n_nodes,): see `Split`
    noise: AnyArray  # (n_nodes,): variance that models leave, summed over outputs
    chance_gain: AnyArray  # (n_nodes,): see `Split`
    rows: Any
    # Row arrays:
    z: AnyArray  # (n_columns, rows): standardised; zero where constant
    design: AnyArray  # (n_outputs + 1 + n_coordinates, rows)
    weight: AnyArray  # (rows,)
    # (1 + n_outputs * (1 + n_model), rows): weighted [1, residual, residual * whitened
    # coordinates], the last two of every output.
    moments: AnyArray
    # Node arrays:
    total: AnyArray  # (n_nodes,): weight
    whole: AnyArray  # (n_nodes, 1 + n_outputs * (1 + n_model)): sums of the moments
    # (n_nodes, n_design, n_design): sums of weighted products of the design.
    gram: AnyArray
    covariance: AnyArray  # (n_nodes, n_columns, n_columns) of z
    # (n_nodes, n_columns, n_coordinates), where there are many columns.
    loading: AnyArray | None
    # (n_nodes, n_model, n_model): lower triangular; of coordinates with the penalty.
    whitener: AnyArray
    # (n_nodes, n_columns, n_model): covariance of z with whitened coordinates.
    cross: AnyArray
    min_weight: AnyArray  # (n_nodes,)
    combined: AnyArray  # (n_nodes, n_columns): 1 where a direction may go, else 0

    @property
    def n_outputs(self) -> int:
        """Number of outputs."""
        return self.gram.shape[-1] - 1 - self.n_coordinates

    @property
    def n_coordinates(self) -> int:
        """Number of coordinates."""
        columns = self.covariance if self.loading is None else self.loading
        return columns.shape[-1]

    @property
    def n_model(self) -> int:
        """How many of the coordinates models see: the first ones."""
        return self.whitener.shape[-1]

    def along(self, direction: AnyArray) -> AnyArray:
        """The rows along directions (n_nodes, k, n_columns)."""
        xp = self.rows.xp
        if xp is np or self.loading is not None:
            return self.rows.transformed(direction, self.z)
        # A part of the design would be written first.
        others = self.design.shape[-2] - direction.shape[-1]
        direction = xp.pad(direction, [(0, 0), (0, 0), (others, 0)])
        return self.rows.transformed(direction, self.design)


def prepared(level: Level, ridge: AnyArray | float, most_regressors: int) -> Nodes:
    """Standardise and whiten the rows of a level, and sum up their products."""
    rows, xp = level.rows, level.rows.xp
    total, weight = rows.sums(level.weight), level.weight[..., None, :]
    design, gram, units, square = _standardised(level, total)
    n_columns = level.x.shape[-2]
    first = design.shape[-2] - n_columns
    z = design[..., first:, :]
    covariance = gram[:, first:, first:] / total[:, None, None]
    design, gram, loading = _in_coordinates(
        level, design, gram, covariance, most_regressors
    )
    n_model = min(level.n_regressors, most_regressors)
    of_model = slice(first, first + n_model)
    penalty = ridge * xp.eye(n_model, dtype=design.dtype)
    of_basis = gram[:, of_model, of_model] / total[:, None, None]
    whitener, _ = inverse_cholesky(of_basis + penalty, 0.0)
    turned = xp.swapaxes(whitener, 1, 2)
    of_white = small_matmul(gram[:, : first - 1, of_model], turned)
    one = gram[:, first - 1]
    whole = [one[:, first - 1 : first]]
    for output in range(first - 1):
        whole += [one[:, output, None], of_white[:, output]]
    cross = covariance[:, :, :n_model]
    if loading is not None:
        cross = matmul(covariance, loading[:, :, :n_model])
    # A model with a ridge spends less than one degree of freedom on a regressor; the
    # split itself and the second mean are two more.
    spent = 2 + n_model - ridge * xp.sum(whitener**2, axis=(1, 2))
    left_over = xp.maximum(total - level.degrees, 1.0)
    noise = total * square / left_over
    return Nodes(
        **units,
        noise=noise,
        chance_gain=noise * xp.minimum(spent, _MOST_SPENT * total),
        rows=rows,
        z=z,
        design=design,
        weight=level.weight,
        moments=_moments(rows, design, weight, whitener, first - 1),
        total=total,
        whole=xp.concatenate(whole, axis=1),
        gram=gram,
        covariance=covariance,
        loading=loading,
        whitener=whitener,
        cross=small_matmul(cross, turned),
        min_weight=level.min_weight,
        combined=(level.allowed[:, :n_columns] & level.roles.combined).astype(z.dtype),
    )


def _standardised(
    level: Level, total: AnyArray
) -> tuple[AnyArray, AnyArray, dict[str, AnyArray], AnyArray]:
    """Design and Gram in units of nodes; these, as in `Nodes`; squares left over."""
    rows, xp = level.rows, level.rows.xp
    residual, x, center, offset = _centred(level, total)
    weight, first = level.weight[..., None, :], 1 + residual.shape[-2]
    design = xp.concatenate([residual, xp.ones_like(weight), x], axis=-2)
    gram = rows.products(weight * design, design)
    variance = xp.diagonal(gram, axis1=1, axis2=2) / total[:, None]
    spread, deviation = variance[:, : first - 1], xp.sqrt(variance[:, first:])
    pure = (spread <= PURE**2).all(axis=1)
    unit = xp.where(pure, 1.0, xp.sqrt(xp.mean(spread, axis=1)))
    scale = xp.where(deviation > CONSTANT, deviation, xp.inf)
    divisors = [*[unit[:, None]] * (first - 1), xp.ones_like(total[:, None]), scale]
    inverse = (1 / xp.concatenate(divisors, axis=1)).astype(design.dtype)
    design *= rows.spread(inverse)
    gram *= inverse[:, :, None] * inverse[:, None, :]
    square = xp.sum(spread + offset**2, axis=1)
    units = {"center": center, "scale": scale, "unit": unit, "pure": pure}
    return design, gram, units, square


def _centred(level: Level, total: AnyArray) -> tuple[AnyArray, ...]:
    """Residuals and columns about their means; centres of columns; mean residuals."""
    rows, xp, n = level.rows, level.rows.xp, level.n_regressors
    joint = xp.concatenate([level.targets, level.x], axis=-2)
    n_outputs = joint.shape[-2] - level.x.shape[-2]
    # Means of values about those of the first row: an offset does not eat the digits.
    shift = rows.head(joint, 1)[..., 0]
    joint -= rows.spread(shift)
    mean = rows.products(level.weight[..., None, :], joint)[:, 0] / total[:, None]
    joint -= rows.spread(mean)
    center = shift + mean
    # Rows about their means need no intercept.
    slopes = level.model[:, :, 1:]
    fitted = rows.transformed(slopes, joint[..., n_outputs : n_outputs + n, :])
    offset = center[:, :n_outputs] - level.model[:, :, 0]
    offset = offset - xp.sum(
        slopes * center[:, None, n_outputs : n_outputs + n], axis=2
    )
    residual = joint[..., :n_outputs, :] - fitted
    return residual, joint[..., n_outputs:, :], center[:, n_outputs:], offset


def _moments(
    rows: Any,
    design: AnyArray,
    weight: AnyArray,
    whitener: AnyArray,
    n_outputs: int,
) -> AnyArray:
    """See `Nodes`."""
    xp, first = rows.xp, 1 + n_outputs
    seen = design[..., first : first + whitener.shape[-1], :]
    white, parts = rows.transformed(whitener, seen), [weight]
    for output in range(n_outputs):
        residual = weight * design[..., output : output + 1, :]
        parts += [residual, residual * white]
    if xp is not np:
        return xp.concatenate(parts, axis=-2)
    # Products with a sparse matrix read all numbers of a row at once.
    by_row = np.empty((weight.shape[-1], sum(map(len, parts))), white.dtype)
    return np.concatenate(parts, out=by_row.T)


def _in_coordinates(
    level: Level, design: AnyArray, gram: AnyArray, covariance: AnyArray, most: int
) -> tuple[AnyArray, AnyArray, AnyArray | None]:
    """Design, Gram, loading: of many columns components, those of regressors first."""
    rows, xp, n = level.rows, level.rows.xp, level.n_regressors
    n_columns, n_model = covariance.shape[-1], min(n, most)
    if n_columns <= most:
        return design, gram, None
    n_others, first = n_columns - n, design.shape[-2] - n_columns
    own = _components(covariance[:, :n, :n], n_model)
    others = _components(covariance[:, n:, n:], min(n_others, most - n_model))
    own = xp.pad(own, [(0, 0), (0, n_others), (0, 0)])
    others = xp.pad(others, [(0, 0), (n, 0), (0, 0)])
    loading = xp.concatenate([own, others], axis=2)
    basis = rows.transformed(xp.swapaxes(loading, 1, 2), design[..., first:, :])
    design = xp.concatenate([design[..., :first, :], basis], axis=-2)
    gram = rows.products(level.weight[..., None, :] * design, design)
    return design, gram, loading


def _components(covariance: AnyArray, n: int) -> AnyArray:
    """All columns, or their leading principal components, of unit length."""
    xp, n_columns = namespace(covariance), covariance.shape[-1]
    if n == n_columns:
        one = xp.eye(n, dtype=covariance.dtype)
        return xp.broadcast_to(one, (len(covariance), n, n))
    if n == 0:
        return covariance[:, :, :0]
    return xp.swapaxes(leading_eigenvectors(covariance, n), 1, 2)


def cuts_of(
    rows: Any,
    values: Float[AnyArray, "*tiles n_directions n_rows"],
    weight: AnyArray,
    n: int,
) -> Float[AnyArray, "n_nodes n_directions n"]:
    """Quantiles of the first rows of the nodes: values that occur, and rise.

    ``weight`` (n_rows,) or (n_directions, n_rows): zero for rows that do not count. The
    smallest value is the first: its group may be rare.
    """
    xp, most = rows.xp, min(_QUANTILE_ROWS, rows.longest)
    head, mass = rows.head(values, most), rows.head(weight, most)
    mass = mass if mass.ndim == head.ndim else mass[:, None]
    if xp is not np:  # all pairs: a sort takes many steps there
        index = xp.arange(n, dtype=np.float32)
        return _lowest_beyond(mass, head, index, n)
    share = (np.arange(n, dtype=np.float32) + np.float32(0.5)) / np.float32(n)
    share[0] = 0.0
    enough = share * xp.sum(mass, axis=-1, keepdims=True) * np.float32(1 - ROUNDING)
    head = head + xp.where(mass > 0, 0.0, xp.inf).astype(head.dtype)
    heaviest = xp.max(mass, axis=-1, keepdims=True)
    if ((mass == heaviest) | (mass == 0)).all():  # places in place of sums
        head = np.sort(head, axis=-1)
        place = np.ceil(enough / np.where(heaviest > 0, heaviest, 1)).astype(int) - 1
    else:
        head, mass = sorted_pairs(head, mass)
        below = np.cumsum(mass, axis=-1)
        # From the end: what is there without mass adds nothing.
        enough = np.minimum(enough, below[..., -1:])
        place = np.argmax(below[..., None, :] >= enough[..., None], axis=-1)
    place = np.broadcast_to(np.clip(place, 0, most - 1), (*head.shape[:-1], n))
    return taken(head, place, head.ndim - 1)


def _lowest_beyond(mass: Array, head: Array, index: Array, n: int) -> Array:
    """Values up to which shares of the mass lie, by all pairs of them."""
    share = jnp.where(index > 0, index + 0.5, 0.0) / n
    enough = share * jnp.sum(mass, axis=-1, keepdims=True) * (1 - ROUNDING)
    head = head + jnp.where(mass > 0, 0.0, jnp.inf)
    upto = head[..., None, :] <= head[..., None]
    below = jnp.sum(jnp.where(upto, mass[..., None, :], 0.0), axis=-1)
    found = below[..., None, :] >= enough[..., None]
    return jnp.min(jnp.where(found, head[..., None, :], jnp.inf), axis=-1)


def gains_of_cuts(
    whole: Float[AnyArray, "n_nodes n_sums"],
    min_weight: Float[AnyArray, " n_nodes"],
    left: Float[AnyArray, "n_nodes n_directions n_sums n_cuts"],
    own: Float[AnyArray, "n_nodes n_directions 2 n_cuts"],
    slope: Float[AnyArray, "n_nodes n_directions n_model"],
) -> Float[AnyArray, "n_nodes n_directions n_cuts"]:
    r"""Approximate gains of many cuts, from first moments of their sides.

    Of a side of weight :math:`w`, with model coordinates :math:`u` and residual
    :math:`r`, the gain is :math:`w (\bar r^2 + b^T (C + P)^{-1} b)`, with the side's
    covariances :math:`b` of :math:`u` with :math:`r` and :math:`C` of :math:`u`, and
    the penalty :math:`P`. The rows are whitened: over the node :math:`C + P = I`. Of a
    side :math:`\bar r` and :math:`E[u r]` are measured; what is taken from the node is
    how :math:`u` goes along with the projection :math:`t` (of unit variance in the
    node): :math:`E[u | t] = s t`, and a covariance given :math:`t` that does not
    depend on it, both exact for elliptical attributes. Then, with the mean :math:`c`
    and the variance :math:`v` of :math:`t` on the side,

    .. math:: b = E[u r] - s c \bar r, \qquad C + P = I - (1 - v) s s^T,

    whose inverse is :math:`I + (1 - v) s s^T / (1 - (1 - v) s^T s)` (Sherman &
    Morrison 1950): a few sums for each cut, and no matrix.

    ``whole``, ``left``: sums of the moments of `Nodes`, of all rows and of those left
    of each cut; ``own``: of the projection that is cut, of mean zero and unit variance
    in the node, and of its square; ``slope``: of whitened coordinates on it. Minus
    infinity where a side has less than ``min_weight``.
    """
    xp, n, whole = namespace(left), slope.shape[2], whole[:, None]
    weight = _both_sides(left[:, :, 0], whole[..., 0])
    share = 1 / xp.maximum(weight, ROUNDING)
    center = xp.stack([own[:, :, 0], -own[:, :, 0]]) * share
    spread = _both_sides(own[:, :, 1], whole[..., 0]) * share - center**2
    strength = xp.sum(slope**2, axis=2)[..., None]
    narrower = xp.minimum(1 - spread, _MOST_NARROW / xp.maximum(strength, _MOST_NARROW))
    rest = 1 - strength * narrower + ROUNDING
    gain = xp.zeros_like(weight)
    for first in range(1, left.shape[2], 1 + n):
        # What is right of a cut is the whole less what is left of it: its moments are
        # not needed, only their products with few vectors.
        moment = left[:, :, first + 1 : first + 1 + n]
        of_whole = whole[:, :, first + 1 : first + 1 + n]
        vectors = xp.stack([slope, xp.broadcast_to(of_whole, slope.shape)], axis=2)
        of_left = small_matmul(vectors, moment)
        squares = xp.sum(moment**2, axis=2)
        other = squares - 2 * of_left[:, :, 1]
        other = other + xp.sum(of_whole**2, axis=2)[..., None]
        squared = xp.stack([squares, other]) * share**2
        along = _both_sides(of_left[:, :, 0], xp.sum(slope * of_whole, axis=2)) * share
        level = _both_sides(left[:, :, first], whole[:, :, first]) * share
        shift = center * level
        # |b|^2 and s'b of the derivation.
        squared = squared + shift * (shift * strength - 2 * along)
        along = along - shift * strength
        gain = gain + level**2 + squared + along**2 * narrower / rest
    gain = xp.sum(gain * weight, axis=0)
    least = xp.min(weight, axis=0)
    allowed = (least >= min_weight[:, None, None]) & (least > 0)
    return xp.where(allowed & xp.isfinite(gain), gain, -xp.inf)


def _both_sides(left: AnyArray, whole: AnyArray) -> AnyArray:
    """Sums left of cuts, and right of them."""
    # `numpy.stack` looks at its arrays for longer than it takes to copy them.
    return namespace(left).concatenate([left[None], (whole[..., None] - left)[None]])


def best_cuts(gain: AnyArray, value: AnyArray) -> tuple[AnyArray, AnyArray]:
    """The best gain along each direction, and its cut."""
    xp = namespace(gain)
    best = xp.argmax(gain, axis=-1)
    return tuple(taken(array, best, gain.ndim - 1) for array in (gain, value))


def exact_sides(
    nodes: Nodes,
    left: Bool[AnyArray, "*tiles n_splits n_rows"],
    ridge: AnyArray | float,
) -> tuple[AnyArray, AnyArray]:
    """Drops of the penalised residual sum of squares, and the models of both sides.

    Returns the gains (n_nodes, n_splits), minus infinity where a side has too little
    weight, and (n_nodes, n_splits, 2, 1 + n_model, n_outputs): intercepts, and slopes
    in the coordinates, of the left and the right side.
    """
    rows, xp, first = nodes.rows, nodes.rows.xp, nodes.n_outputs
    n = first + 1 + nodes.n_model

    def products(rows, _, arrays):
        weight, design, left = arrays
        masked = left * weight[..., None, :]
        masked = masked[..., :, None, :] * design[..., None, :, :]
        flat = masked.reshape(*masked.shape[:-3], -1, masked.shape[-1])
        return (rows.products(flat, design),)

    seen = nodes.weight, nodes.design[..., :n, :], left.astype(nodes.design.dtype)
    (one,) = rows.total(products, (), seen)
    one = one.reshape(len(one), -1, n, n)
    sides = xp.stack([one, nodes.gram[:, None, :n, :n] - one], axis=2)
    weight = sides[..., first, first]
    moment, matrix = sides[..., first:, :first], sides[..., first:, first:]
    is_slope = (np.arange(n - first) > 0).astype(matrix.dtype)
    penalty = (ridge + ROUNDING) * is_slope + ROUNDING * (1 - is_slope)
    mass = xp.maximum(weight, ROUNDING)[..., None, None]
    models = definite_solve(matrix + mass * xp.diag(penalty), moment)
    gain = xp.sum(models * moment, axis=(2, 3, 4))
    least = xp.min(weight, axis=2)
    enough = (least >= nodes.min_weight[:, None]) & (least > 0)
    return xp.where(enough & xp.isfinite(gain), gain, -xp.inf), models
