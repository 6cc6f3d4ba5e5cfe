"""The best split of rows with given labels: discriminants, compared by their Gini gain.

Dobra & Gehrke 2002, sections 4.2.1 to 4.2.4.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from secret_jax.runtime.linalg import matmul, safe_divide
from secret_jax.splits.discrete import best_subset, category_counts, gini_gain
from secret_jax.splits.discriminant import (
    lda_direction,
    left_probability,
    oriented,
    qda_threshold,
)
from secret_jax.splits.interface import Split
from secret_jax.splits.node_chosen import roles_of
from secret_jax.splits.one_node import Node
from secret_jax.splits.tiles import Tiles, in_tiles, sum_of
from secret_jax.tree.structure import SplitKind

# A pivot of a correlation matrix below this is rounding: the column is dependent.
DEPENDENT = 4e-6
# Below this share of an attribute's variance the spread of a class is rounding.
_NO_SPREAD = 1e-10


def best_labelled_split(finder: Any, node: Node, first: jax.Array) -> Split:
    """The candidate with the largest gain: axis, oblique and discrete together.

    ``first`` (n_rows,): weights of the rows in the first of two classes; the rest is in
    the second.
    """
    tiles, n_continuous = Tiles.of(node), node.x.shape[1]
    classes = _Classes(tiles, in_tiles(first), tiles.n_used)
    directions = jnp.eye(n_continuous, dtype=node.x.dtype)
    gains, thresholds, kinds, attributes, subsets = [], [], [], [], []
    nothing = jnp.zeros((1, node.columns.n_categories), bool)

    if n_continuous:
        axis = _column_moments(classes, _attributes)
        columns, moments, allowed = _attributes, axis, node.allowed[:n_continuous]
        if node.columns.oblique and n_continuous > 1:
            direction = _oblique(node, classes, axis)

            def along(x):
                return matmul(x, direction)[:, None]

            def columns(x):
                return jnp.concatenate([x, along(x)], axis=1)

            moments = axis.beside(_column_moments(classes, along))
            allowed = jnp.append(allowed, node.oblique)
            directions = jnp.concatenate([directions, direction[None]])
        n = len(directions)
        own, cut = _thresholds(finder, node, classes, moments, columns)
        is_axis = jnp.arange(n) < n_continuous
        gains.append(jnp.where(allowed, own, -jnp.inf))
        thresholds.append(cut)
        kinds.append(jnp.where(is_axis, SplitKind.AXIS, SplitKind.OBLIQUE))
        attributes.append(jnp.where(is_axis, jnp.arange(n), -1))
        subsets.append(jnp.broadcast_to(nothing, (n, node.columns.n_categories)))
    n_discrete = node.codes.shape[1]
    if n_discrete:

        def counts(tile, weight):
            return jax.lax.map(
                lambda codes: category_counts(codes, weight, node.columns.n_categories),
                tile.codes.T,
            )

        best = jax.lax.map(
            lambda counts: best_subset(counts, node.min_weight), classes.sums(counts)
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


class _Classes(NamedTuple):
    """Rows with the weight that each has in the first of two classes."""

    tiles: Tiles
    first: jax.Array  # (n_tiles, n_tile_rows)
    n_tiles: jax.Array

    def sums(self, function: Callable[[Tiles, jax.Array], Any]) -> Any:
        """Sums over the rows of a function of them and their weights (2, n_rows)."""

        def of_tile(tile, first):
            return function(tile, jnp.stack([first, tile.weight - first]))

        return sum_of(of_tile, self.n_tiles, self.tiles, self.first)


class _ColumnMoments(NamedTuple):
    """Moments of columns in each class, of values less the first row's (the shift)."""

    shift: jax.Array  # (n_columns,)
    mass: jax.Array  # (2,)
    mean: jax.Array  # (2, n_columns)
    variance: jax.Array  # (2, n_columns)

    @property
    def fraction(self) -> jax.Array:
        """Share of each class in the weight, shape (2,)."""
        return safe_divide(self.mass, jnp.sum(self.mass))

    @property
    def center(self) -> jax.Array:
        """Means of the columns in the node."""
        return jnp.sum(self.fraction[:, None] * self.mean, axis=0)

    @property
    def deviation(self) -> jax.Array:
        """Standard deviations of the columns in the node."""
        squares = self.variance + (self.mean - self.center) ** 2
        return jnp.sqrt(jnp.sum(self.fraction[:, None] * squares, axis=0))

    def beside(self, others: _ColumnMoments) -> _ColumnMoments:
        """These columns, and others after them."""
        shift = jnp.concatenate([self.shift, others.shift])
        pairs = (self.mean, others.mean), (self.variance, others.variance)
        mean, variance = (jnp.concatenate(pair, axis=1) for pair in pairs)
        return _ColumnMoments(shift, self.mass, mean, variance)


def _attributes(x: jax.Array) -> jax.Array:
    return x


def _column_moments(
    classes: _Classes, columns: Callable[[jax.Array], jax.Array]
) -> _ColumnMoments:
    """Means and variances, in two passes, of columns made of the attributes."""
    shift = columns(classes.tiles.x[0, :1])[0]

    def moments(tile, weight):
        return jnp.sum(weight, axis=1), matmul(weight, columns(tile.x) - shift)

    def squares(tile, weight):
        centred = columns(tile.x) - shift - mean[:, None]
        return jax.vmap(matmul)(weight, centred**2)

    mass, moment = classes.sums(moments)
    mean = safe_divide(moment, mass[:, None])
    variance = safe_divide(classes.sums(squares), mass[:, None])
    return _ColumnMoments(shift, mass, mean, variance)


def _oblique(node: Node, classes: _Classes, axis: _ColumnMoments) -> jax.Array:
    """LDA direction of the two classes over the columns that a split may combine."""
    deviation = axis.deviation
    scale = jnp.where(deviation > 0, deviation, 1.0)
    allowed = roles_of(node).combined & node.allowed[: node.x.shape[1]]
    unit = jnp.where(allowed, 1.0 / scale, 0.0)

    def scatters(tile, weight):
        centred = (tile.x - axis.shift - axis.mean[:, None]) * unit
        weighted = weight[:, :, None] * centred
        return matmul(weighted.swapaxes(1, 2), centred)

    covariances = safe_divide(classes.sums(scatters), axis.mass[:, None, None])
    mean = (axis.mean - axis.center) * unit
    direction = lda_direction(axis.fraction, mean, covariances, DEPENDENT)
    return oriented(direction / scale)


def _thresholds(
    finder: Any,
    node: Node,
    classes: _Classes,
    moments: _ColumnMoments,
    columns: Callable[[jax.Array], jax.Array],
) -> tuple[jax.Array, jax.Array]:
    """Gini gain and QDA threshold of every column, (n_columns,) each."""
    fraction, center, deviation = moments.fraction, moments.center, moments.deviation
    scale = jnp.where(deviation > 0, deviation, 1.0)
    mean = (moments.mean - center) / scale
    variance = moments.variance / scale**2
    variance = jnp.where(variance > _NO_SPREAD, variance, 0.0)
    both = (fraction > 0).all()
    safe_fraction = jnp.where(both, fraction, 0.5)
    standardised, _ = qda_threshold(safe_fraction, mean, variance)
    threshold = moments.shift + (center + scale * standardised)

    def below(tile, weight):
        # Compare in the units in which rows will be routed.
        return matmul(weight, (columns(tile.x) <= threshold).astype(weight.dtype))

    left_class = classes.sums(below)
    left = left_class.sum(axis=0)
    total = jnp.sum(moments.mass)
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
    return jnp.where(allowed, gain, -jnp.inf), threshold
