"""Genetic search over integer genes, whole populations at a time.

`children` is one generation as a pure function; `evolve` is the loop around it. Ranks
by a geometric distribution, uniform crossover and rare mutation are those of the
Genetic Algorithm Optimization Toolbox (Houck, Joines & Kay, NCSU-IE TR 95-09, 1995),
which Lanning (2008, section 3.2.1) uses.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

# Probability of the best row to be a parent; the next ones follow geometrically.
_BEST_IS_PARENT = 0.08
# Probability of a gene to be drawn anew.
_MUTATION = 0.02


class Population(NamedTuple):
    """Rows of genes, (n_rows, n_genes) int64, the best first, and their float64 scores.

    These are the less, the better; infinite where there is none. ``generation`` is the
    number of generations that led to it.
    """

    genes: np.ndarray
    score: np.ndarray
    generation: int


def random_genes(
    uniform: Float[np.ndarray, "n_rows n_genes"], n_values: Int[np.ndarray, " n_genes"]
) -> Int[np.ndarray, "n_rows n_genes"]:
    """Turn uniform numbers into genes: gene j is one of ``0 ... n_values[j] - 1``."""
    # Rounded a product may reach the number of values.
    return np.minimum((uniform * n_values).astype(np.int64), n_values - 1)


def children(
    genes: Int[np.ndarray, "n_rows n_genes"],
    score: Float[np.ndarray, " n_rows"],
    n_values: Int[np.ndarray, " n_genes"],
    uniform: Float[np.ndarray, "n_children n_numbers"],
) -> Int[np.ndarray, "n_children n_genes"]:
    """Cross and mutate parents that are drawn by the rank of their scores.

    Scores are the less, the better, and not NaN; ties go by position. ``uniform`` are
    independent numbers in [0, 1), 2 + 3 * n_genes for each child: they choose two
    parents, and of every gene whose it is, whether it mutates, and to what.
    """
    n_rows = len(genes)
    left = (1.0 - _BEST_IS_PARENT) ** np.arange(1, n_rows)
    limits = (1.0 - left) / (1.0 - (1.0 - _BEST_IS_PARENT) ** n_rows)
    rank = np.sum(uniform[:, :2, None] > limits.astype(np.float32), axis=-1)
    mother, father = genes[np.argsort(score, kind="stable")][rank.T]
    whose, whether, what = np.split(uniform[:, 2:], 3, axis=1)
    child = np.where(whose < 0.5, mother, father)
    return np.where(whether < _MUTATION, random_genes(what, n_values), child)


def evolve(
    score: Callable[[np.ndarray], np.ndarray],
    n_values: np.ndarray,
    *,
    seed: int,
    n_rows: int = 40,
    n_kept: int = 8,
    max_generations: int = 30,
    tolerance: float = 1.0,
) -> Iterator[Population]:
    """Search genes of the least score, and yield every generation.

    The best ``n_kept`` rows live on, children replace the others. It ends after
    ``max_generations``, or when the scores of all rows lie within ``tolerance``. Random
    numbers of a generation depend on the seed and its number alone.

    ``score``: from genes of shape (n, n_genes), n being ``n_rows`` or ``n_rows -
    n_kept``, to scores of shape (n,), the less the better. NaN counts as infinite.
    ``n_values`` (n_genes,), int: number of values of every gene.

    Examples
    --------
    >>> import numpy as np
    >>> secret = np.array([1, 0, 2, 1, 0, 2])
    >>> def score(genes):
    ...     return 10.0 * (genes != secret).sum(axis=1)
    >>> *_, last = evolve(score, np.full(6, 3), seed=0)
    >>> last.genes[0].tolist()
    [1, 0, 2, 1, 0, 2]
    """
    n_values = np.asarray(n_values)
    drawn = np.random.default_rng((seed, 0)).random((n_rows, len(n_values)))
    genes = random_genes(drawn, n_values)
    found = _sorted(genes, score(genes), 0)
    yield found
    while found.generation < max_generations and _spread(found) >= tolerance:
        generation = found.generation + 1
        numbers = np.random.default_rng((seed, generation)).random(
            (n_rows - n_kept, 2 + 3 * len(n_values))
        )
        new = children(found.genes, found.score, n_values, numbers)
        found = _sorted(
            np.concatenate([found.genes[:n_kept], new]),
            np.concatenate([found.score[:n_kept], score(new)]),
            generation,
        )
        yield found


def _sorted(genes: np.ndarray, score: np.ndarray, generation: int) -> Population:
    score = np.where(np.isnan(score), np.inf, np.asarray(score, np.float64))
    order = np.argsort(score, kind="stable")
    return Population(genes[order], score[order], generation)


def _spread(found: Population) -> float:
    """How much worse the worst row is than the best; infinite if it has no score."""
    worst = float(found.score[-1])
    return worst - float(found.score[0]) if np.isfinite(worst) else np.inf
