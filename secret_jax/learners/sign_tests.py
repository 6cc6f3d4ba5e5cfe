"""Tests of association between attributes and the signs of residuals.

All statistics are converted to scores that are standard normal under independence, so
that they can be compared.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from secret_jax.learners.residuals import Residuals
from secret_jax.runtime.linalg import matmul, safe_divide
from secret_jax.splits.node_axis import Projections, leading_component
from secret_jax.splits.one_node import Node
from secret_jax.splits.screening import quantiles_at
from secret_jax.tree.structure import SplitKind

# A curvature test looks at quartiles, an interaction test at both sides of the median
# (Loh 2002, algorithms 1 and 2).
_QUARTILES = (0.25, 0.5, 0.75)
# Bits of a random number in (0, 1) that become a seed.
_SEED_BITS = 24


class Groups(NamedTuple):
    """Groups of rows by the attributes of a node."""

    # (n_continuous, n_rows, 4): indicators of the quarters of a continuous attribute.
    quarter: jax.Array
    half: jax.Array  # (n_continuous, n_rows, 2)
    category: jax.Array  # (n_discrete, n_rows, n_categories)
    # continuous, discrete: which projections these are.
    continuous: np.ndarray
    discrete: np.ndarray


class Scores(NamedTuple):
    """Test scores for each set of signs."""

    curvature: jax.Array  # (..., n_projections)
    interaction: jax.Array  # (..., n_pairs)


def groups_of(node: Node, axis: Projections) -> Groups:
    """Divide the rows of a node by quartiles, medians and categories."""
    continuous = np.flatnonzero(axis.kind != SplitKind.DISCRETE)
    discrete = np.flatnonzero(axis.kind == SplitKind.DISCRETE)
    values = axis.projection[continuous]
    quartile = quantiles_at(values, node.weight, jnp.array(_QUARTILES))
    above = values[:, :, None] > quartile[:, None, :]
    quarter = jnp.sum(above.astype(jnp.int32), axis=2)
    half = above[:, :, 1].astype(jnp.int32)
    dtype = node.x.dtype
    return Groups(
        quarter=jax.nn.one_hot(quarter, 4, dtype=dtype),
        half=jax.nn.one_hot(half, 2, dtype=dtype),
        category=jax.nn.one_hot(node.codes.T, node.columns.n_categories, dtype=dtype),
        continuous=continuous,
        discrete=discrete,
    )


def pairs_of(groups: Groups) -> np.ndarray:
    """Pairs of projections that may interact, shape (n_pairs, 2).

    Two continuous ones, one of each, and two discrete ones, in this order.
    """
    continuous, discrete = groups.continuous, groups.discrete
    alike = [
        some[np.stack(np.triu_indices(len(some), 1), axis=1)]
        for some in (continuous, discrete)
    ]
    mixed = np.stack(np.meshgrid(continuous, discrete, indexing="ij"), axis=-1)
    return np.concatenate([alike[0], mixed.reshape(-1, 2), alike[1]])


def sign_scores(
    positive: Float[Array, "... n_rows"],
    weight: Float[Array, " n_rows"],
    groups: Groups,
    *,
    interactions: bool,
) -> Scores:
    """Score the association of groups with the signs of residuals.

    ``positive``: 1 where a residual is positive, else 0; ``interactions``: whether
    pairs are tested. Minus infinity where all rows are in one group.
    """
    sign = jnp.stack([positive, 1.0 - positive], axis=-2) * weight
    n = len(groups.continuous) + len(groups.discrete)
    curvature = jnp.zeros((*positive.shape[:-1], n), positive.dtype)

    def of_one(member):
        return chi_squared_score(matmul(sign, member))

    def of_pairs(one, other, pairs):
        """Score one pair at a time: the groups of all of them would fill the memory."""

        def score(pair):
            # Signs times members of the one, against members of the other.
            first = sign[..., :, None, :] * one[pair[0]].T
            table = matmul(first, other[pair[1]])
            return chi_squared_score(table.reshape(*sign.shape[:-1], -1))

        found = jax.lax.map(score, tuple(map(jnp.asarray, pairs)))
        return jnp.moveaxis(found, 0, -1)

    for which, member in (
        (groups.continuous, groups.quarter),
        (groups.discrete, groups.category),
    ):
        if len(which):
            found = jnp.moveaxis(jax.lax.map(of_one, member), 0, -1)
            curvature = curvature.at[..., which].set(found)
    n_continuous, n_discrete = len(groups.continuous), len(groups.discrete)
    every = [jnp.zeros((*positive.shape[:-1], 0), positive.dtype)]
    if interactions:
        both = np.indices((n_continuous, n_discrete)).reshape(2, -1)
        for one, other, pairs in (
            (groups.half, groups.half, np.triu_indices(n_continuous, 1)),
            (groups.half, groups.category, both),
            (groups.category, groups.category, np.triu_indices(n_discrete, 1)),
        ):
            if len(pairs[0]):
                every.append(of_pairs(one, other, pairs))
    return Scores(curvature, jnp.concatenate(every, axis=-1))


def chi_squared_score(observed: Float[Array, "... 2 n_groups"]) -> Float[Array, ...]:
    """Score the chi-squared statistic of signs and groups as standard normal.

    ``observed``: weights of the rows of each group with positive and with other
    residuals. Minus infinity with a single group.
    """
    row = jnp.sum(observed, axis=-1, keepdims=True)
    column = jnp.sum(observed, axis=-2, keepdims=True)
    total = jnp.sum(row, axis=-2, keepdims=True)
    expected = safe_divide(row * column, total)
    statistic = jnp.sum(
        safe_divide((observed - expected) ** 2, expected), axis=(-2, -1)
    )
    n_groups = jnp.sum((column > 0).astype(observed.dtype), axis=(-2, -1))
    return normal_score(statistic, n_groups - 1.0)


def normal_score(statistic: jax.Array, degrees: jax.Array) -> jax.Array:
    """Convert a chi-squared statistic to a normal score of the same p-value.

    By the cube root of Wilson & Hilferty (1931); minus infinity without degrees of
    freedom.
    """
    safe = jnp.maximum(degrees, 1.0)
    share = 2.0 / (9.0 * safe)
    score = (jnp.cbrt(statistic / safe) - (1.0 - share)) / jnp.sqrt(share)
    return jnp.where(degrees > 0, score, -jnp.inf)


def t_statistics(
    values: Float[Array, "n rows"],
    first: Float[Array, " rows"],
    second: Float[Array, " rows"],
) -> Float[Array, " n"]:
    """Student's t for the difference of two class means, with equal variances.

    ``first``, ``second``: weights of the rows in each class. Zero where a class is
    empty or the values do not vary.
    """
    mass = jnp.stack([jnp.sum(first), jnp.sum(second)])
    mean, rest = class_means(values, first, second)
    within = matmul(rest**2, first + second)
    degrees = jnp.maximum(jnp.sum(mass) - 2.0, 1.0)
    variance = within / degrees * jnp.sum(safe_divide(1.0, mass))
    difference = mean[0] - mean[1]
    sound = (jnp.min(mass) > 0) & (variance > 0)
    return jnp.where(sound, difference / jnp.sqrt(jnp.where(sound, variance, 1.0)), 0.0)


def class_means(
    values: Float[Array, "n rows"],
    first: Float[Array, " rows"],
    second: Float[Array, " rows"],
) -> tuple[Float[Array, "2 n"], Float[Array, "n rows"]]:
    """Means of two classes, and the values centred at them."""
    both = jnp.stack([first, second])
    mean = safe_divide(matmul(both, values.T), jnp.sum(both, axis=1, keepdims=True))
    own = jnp.where(first > 0, mean[0][:, None], mean[1][:, None])
    return mean, jnp.where(first + second > 0, values - own, 0.0)


def advantage_of_discrete(
    node: Node,
    left: Residuals,
    groups: Groups,
    allowed: Bool[Array, " n_projections"],
    pair_allowed: Bool[Array, " n_pairs"],
    *,
    interactions: bool,
    n_samples: int,
) -> Float[Array, ""]:
    """Estimate the chance advantage of discrete attributes by bootstrap samples.

    The attributes stay as they are, and the outputs are drawn anew for every row, so
    that the tests find only chance. With the returned number added to their scores,
    continuous attributes are chosen as often as there are of them among all (Loh 2002,
    algorithm 3, where scores are multiplied): by the clearest test, or as the one with
    the clearer test of its own from the clearest pair of both kinds.

    ``node``: its first random number seeds the samples; ``pair_allowed``: in the order
    of `pairs_of`. Zero where all attributes that are allowed are of one kind.
    """
    is_discrete = np.zeros(len(allowed), bool)
    is_discrete[groups.discrete] = True
    pairs = pairs_of(groups)
    n_discrete_of_pair = is_discrete[pairs].sum(axis=1)
    total = jnp.sum(node.weight)
    present = node.weight > 0
    output = leading_component(node.targets, node.weight)
    below = jnp.cumsum(node.weight)
    coordinates = left.rows.coordinates[:, : left.n_model]

    def advantage(key):
        """Compute what continuous scores lack for one of them to be chosen."""
        number = jax.random.uniform(key, output.shape, output.dtype)
        drawn = output[jnp.searchsorted(below, number * below[-1])]
        drawn = drawn - safe_divide(matmul(node.weight, drawn), total)
        slope = safe_divide(matmul(node.weight * drawn, coordinates), total)
        residual = drawn - matmul(coordinates, slope)
        positive = jnp.where(present & (residual > 0), 1.0, 0.0).astype(output.dtype)
        scores = sign_scores(positive, node.weight, groups, interactions=interactions)
        curvature = jnp.where(allowed, scores.curvature, -jnp.inf)
        n = scores.interaction.shape[0]
        pair = jnp.where(pair_allowed[:n], scores.interaction, -jnp.inf)
        kind = n_discrete_of_pair[:n]

        def clearest(of_one, of_pairs):
            of_one = jnp.where(of_one, curvature, -jnp.inf)
            of_pairs = jnp.where(of_pairs, pair, -jnp.inf)
            return jnp.max(jnp.concatenate([of_one, of_pairs]))

        discrete = clearest(is_discrete, kind > 0)
        lacking = discrete - clearest(~is_discrete, kind == 0)
        if not n or not len(np.flatnonzero(kind == 1)):
            return lacking
        # Of a pair of both kinds the number is chosen where its own test is clearer.
        mixed = jnp.where(kind == 1, pair, -jnp.inf)
        best = jnp.argmax(mixed)
        two = curvature[jnp.asarray(pairs)[best]]
        own = two[1] - two[0]
        is_mixed = mixed[best] >= discrete
        return jnp.where(is_mixed, jnp.minimum(lacking, own), lacking)

    seed = (node.random[0] * 2**_SEED_BITS).astype(jnp.uint32)
    keys = jax.random.split(jax.random.key(seed), n_samples)
    found = jax.lax.map(advantage, keys)
    n_discrete = jnp.sum((allowed & is_discrete).astype(found.dtype))
    n_continuous = jnp.sum((allowed & ~is_discrete).astype(found.dtype))
    share = safe_divide(n_continuous, n_continuous + n_discrete)
    both = (n_discrete > 0) & (n_continuous > 0)
    enough = jnp.quantile(jnp.where(jnp.isfinite(found), found, 0.0), share)
    return jnp.where(both, enough, 0.0)
