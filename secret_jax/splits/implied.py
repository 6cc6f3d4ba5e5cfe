"""Models of children that the Gaussians of a mixture imply.

Dobra & Gehrke 2002, section 4.2.3, second method.
"""

import jax
import jax.numpy as jnp

from secret_jax.runtime.linalg import guarded_solve, matmul, safe_divide
from secret_jax.splits.chosen import goes_left_of
from secret_jax.splits.interface import Node, Split
from secret_jax.splits.mixture import LogForms, MixtureFit
from secret_jax.splits.tiles import Tiles, sum_of
from secret_jax.splits.whitening import Whitened, joint


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
