"""The nested genetic search for conjunctions, of one node, as JAX traces it.

Lanning (2008, section 3.2.1): one algorithm chooses columns, for each of its rows
another one the sides, and for each of these a third one the cuts. Populations are batch
axes: all their conjunctions are scored by one product of matrices.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from secret_jax.learners.conjunctions import Condition
from secret_jax.runtime.arrays import largest, taken
from secret_jax.runtime.genetic import children, random_genes
from secret_jax.splits.interface import Node
from secret_jax.splits.rss_search import Begun
from secret_jax.splits.scoring import fit_sides
from secret_jax.splits.screening import quantiles
from secret_jax.tree.structure import SplitKind

# Rows of the populations of columns, sides and cuts, and how many of them live on.
_SIZES = ((16, 4), (6, 2), (8, 2))
# Generations of sides and of cuts, which are found anew for each row above them.
_INNER_GENERATIONS = (2, 3)
# It ends when scores, in noise variances, are this alike.
_TOLERANCE = 1.0

# From a key and genes of shape (..., n_rows, n_genes) to scores of shape (..., n_rows),
# the less the better, and what belongs to each row.
Evaluate: TypeAlias = Callable[[jax.Array, jax.Array], tuple[jax.Array, Any]]


def evolved(
    start: Begun,
    batch: Node,
    *,
    n_conditions: int,
    n_thresholds: int,
    generations: int,
    worth: Callable[[Any, Any], Any],
) -> tuple[list[Condition], jax.Array, jax.Array]:
    """Search a conjunction.

    ``worth``: what a gain is worth that takes some conditions, from arrays of both.
    Returns ``n_held`` (), int: how many of these, the first ones, it has; ``gain`` ().
    """
    node = start.node
    axis, rows = node.axis, node.rows
    assert axis is not None
    usable = jnp.argsort(~axis.allowed)  # padding is not
    n_axes = jnp.maximum(jnp.sum(axis.allowed), 1)
    weight = rows.weight if axis.weight is None else axis.weight
    cuts = quantiles(axis.projection, weight, n_thresholds)
    noise = start.noise / start.unit**2
    attribute = jnp.asarray(axis.attribute)
    is_set = jnp.asarray(axis.kind == SplitKind.DISCRETE)

    def gain_of(columns: jax.Array, above: jax.Array, places: jax.Array) -> jax.Array:
        """Gain of each conjunction, from genes of shape (n, n_conditions)."""
        column = usable[jnp.minimum(columns, n_axes - 1)]
        below = axis.projection[column] <= cuts[column, places][..., None]
        absent = columns >= n_axes
        held = (below != (above > 0)[..., None]) | absent[..., None]
        gain = fit_sides(rows, held.all(axis=1), node.min_weight, n_model=node.n_model)
        allowed = (axis.allowed[column] | absent).all(axis=1)
        # Two bounds on the same side, and two sets of one attribute, are one.
        same = attribute[column][:, :, None] == attribute[column][:, None, :]
        same = same & (is_set[column][:, :, None] == is_set[column][:, None, :])
        alike = is_set[column][:, :, None] | (above[:, :, None] == above[:, None, :])
        twice = same & alike & ~absent[:, :, None] & ~absent[:, None, :]
        once = ~(twice & ~np.eye(n_conditions, dtype=bool)).any(axis=(1, 2))
        return jnp.where(allowed & once, gain.gain, -jnp.inf)

    # Half of the values of the first gene are no condition.
    n_values = [jnp.full(n_conditions, n) for n in (2 * n_axes, 2, n_thresholds)]

    def with_columns(key: jax.Array, columns: jax.Array) -> tuple[jax.Array, Any]:
        def with_sides(key: jax.Array, above: jax.Array) -> tuple[jax.Array, Any]:
            def with_cuts(key: jax.Array, places: jax.Array) -> tuple[jax.Array, Any]:
                del key
                genes = columns[:, None, None], above[:, :, None], places
                genes = [jnp.broadcast_to(g, places.shape) for g in genes]
                flat = [g.reshape(-1, n_conditions) for g in genes]
                gain = gain_of(*flat).reshape(places.shape[:-1])
                n = jnp.sum(genes[0] < n_axes, axis=-1)
                score = -worth(gain, n) / noise
                return jnp.where(jnp.isfinite(score), score, jnp.inf), gain

            steps = _INNER_GENERATIONS[1]
            axes = above.shape[:-1]
            score, own, gain = _best(
                key, with_cuts, n_values[2], axes, *_SIZES[2], steps
            )
            return score, (own, gain)

        steps, axes = _INNER_GENERATIONS[0], columns.shape[:-1]
        score, own, more = _best(key, with_sides, n_values[1], axes, *_SIZES[1], steps)
        return score, (own, *more)

    key = jax.random.key((batch.random[0] * 2.0**31).astype(jnp.uint32))
    score, columns, (above, places, gain) = _best(
        key, with_columns, n_values[0], (), *_SIZES[0], generations
    )
    order = jnp.argsort(columns >= n_axes)
    candidates = axis.candidates(jnp.broadcast_to(gain, axis.allowed.shape), cuts[:, 0])
    conditions = []
    for gene in range(n_conditions):
        which = order[gene]
        column = usable[jnp.minimum(columns[which], n_axes - 1)]
        pick = candidates.take(column)._replace(threshold=cuts[column, places[which]])
        conditions.append(Condition(pick, above[which] > 0))
    gain = jnp.where(jnp.isfinite(score), gain, -jnp.inf)
    return conditions, jnp.sum(columns < n_axes), gain


def _best(
    key: jax.Array,
    evaluate: Evaluate,
    n_values: jax.Array,
    axes: tuple[int, ...],
    n_rows: int,
    n_kept: int,
    generations: int,
) -> tuple[jax.Array, jax.Array, Any]:
    """Evolve populations, one for each place along some axes, and take their best rows.

    Returns ``score`` (*axes); ``genes`` (*axes, n_genes); ``more`` pytree of Arrays of
    shape (*axes, ...): what belongs to them.
    """
    n_genes, n_axes = len(n_values), len(axes)

    def drawn(generation: Any, *shape: int) -> tuple[jax.Array, jax.Array]:
        numbers, inner = jax.random.split(jax.random.fold_in(key, generation))
        return jax.random.uniform(numbers, (*axes, *shape)), inner

    # Rows without a score come first, so that what scores is compiled once.
    genes = jnp.zeros((*axes, n_rows, n_genes), jnp.int32)
    score, more = jax.tree.map(
        lambda like: jnp.zeros(like.shape, like.dtype),
        jax.eval_shape(evaluate, key, genes),
    )
    state = 0, genes, jnp.full_like(score, jnp.inf), more

    def is_going(state: Any) -> jax.Array:
        generation, _, score, _ = state
        apart = score.max(axis=-1) - score.min(axis=-1)
        differ = (apart >= _TOLERANCE).any() | (generation == 0)
        return (generation <= generations) & differ

    def next_one(state: Any) -> Any:
        generation, genes, score, more = state
        numbers, inner = drawn(generation, n_rows - n_kept, 2 + 3 * n_genes)
        new = children(genes, score, n_values, numbers)
        first = random_genes(numbers[..., :n_genes], n_values)
        new = jnp.where(generation == 0, first, new)
        kept = largest(-score, n_kept)
        old = jax.tree.map(lambda a: taken(a, kept, n_axes), (genes, score, more))
        found = jax.tree.map(
            lambda a, b: jnp.concatenate([a, b], axis=n_axes),
            old,
            (new, *evaluate(inner, new)),
        )
        return generation + 1, *found

    _, genes, score, more = jax.lax.while_loop(is_going, next_one, state)
    best = jnp.argmin(score, axis=-1)
    found = jax.tree.map(lambda a: taken(a, best, n_axes), (score, genes, more))
    return found
