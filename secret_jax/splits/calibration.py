"""How much clearer tests of one kind of attributes are than of another by chance."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from secret_jax.runtime.linalg import matmul, safe_divide
from secret_jax.splits.axis import leading_component
from secret_jax.splits.interface import Node
from secret_jax.splits.residuals import Residuals
from secret_jax.splits.sign_tests import Groups, pairs_of, sign_scores

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
    """What the scores of continuous attributes lack, from bootstrap samples.

    The attributes stay as they are, and the outputs are drawn anew for every row: all
    that the tests then find is chance. With what is returned added to their scores, the
    continuous attributes have the clearest test as often as there are of them among all
    (Loh 2002, algorithm 3, where scores are multiplied).

    Parameters
    ----------
    node : Node
        Its first random number seeds the samples.
    left : Residuals
    groups : Groups
    allowed : Array of shape (n_projections,), bool
    pair_allowed : Array of shape (n_pairs,), bool
        In the order of `pairs_of`.
    interactions : bool
    n_samples : int

    Returns
    -------
    Array of shape ()
        Zero where all attributes that are allowed are of one kind.
    """
    is_discrete = np.zeros(len(allowed), bool)
    is_discrete[groups.discrete] = True
    pair_discrete = np.any(is_discrete[pairs_of(groups)], axis=1)
    total = jnp.sum(node.weight)
    present = node.weight > 0
    output = leading_component(node.targets, node.weight)
    below = jnp.cumsum(node.weight)
    coordinates = left.rows.coordinates[:, : left.n_model]

    def clearest(scores, allowed, which):
        some = [
            jnp.where(ok & kind, score, -jnp.inf)
            for score, ok, kind in zip(scores, allowed, which, strict=True)
        ]
        return jnp.max(jnp.concatenate(some))

    def difference(key):
        number = jax.random.uniform(key, output.shape, output.dtype)
        drawn = output[jnp.searchsorted(below, number * below[-1])]
        drawn = drawn - safe_divide(matmul(node.weight, drawn), total)
        slope = safe_divide(matmul(node.weight * drawn, coordinates), total)
        residual = drawn - matmul(coordinates, slope)
        positive = jnp.where(present & (residual > 0), 1.0, 0.0).astype(output.dtype)
        scores = sign_scores(positive, node.weight, groups, interactions=interactions)
        of = (scores.curvature, scores.interaction)
        masks = (allowed, pair_allowed[: of[1].shape[0]])
        kinds = (is_discrete, pair_discrete[: of[1].shape[0]])
        discrete = clearest(of, masks, kinds)
        return discrete - clearest(of, masks, tuple(~kind for kind in kinds))

    seed = (node.random[0] * 2**_SEED_BITS).astype(jnp.uint32)
    keys = jax.random.split(jax.random.key(seed), n_samples)
    found = jax.lax.map(difference, keys)
    n_discrete = jnp.sum((allowed & is_discrete).astype(found.dtype))
    n_continuous = jnp.sum((allowed & ~is_discrete).astype(found.dtype))
    share = safe_divide(n_continuous, n_continuous + n_discrete)
    both = (n_discrete > 0) & (n_continuous > 0)
    advantage = jnp.quantile(jnp.where(jnp.isfinite(found), found, 0.0), share)
    return jnp.where(both, advantage, 0.0)
