"""Bootstrap calibration of tests between continuous and discrete attributes."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from secret_jax.learners.residuals import Residuals
from secret_jax.learners.sign_tests import Groups, pairs_of, sign_scores
from secret_jax.runtime.linalg import matmul, safe_divide
from secret_jax.splits.axis import leading_component
from secret_jax.splits.interface import Node

# Bits of a random number in (0, 1) that become a seed.
_SEED_BITS = 24


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
