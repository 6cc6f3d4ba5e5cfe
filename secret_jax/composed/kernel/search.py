"""Search of a head's columns, kernel and smoother by an information criterion.

J. M. Lanning. A Kernelized Genetic Algorithm Decision Tree with Information Criteria.
Dissertation, University of Tennessee, 2008, equations 1.15 to 1.18 and 3.16 to 3.36;
H. Bozdogan. Model Selection and Akaike's Information Criterion (AIC). Psychometrika 52,
1987, for CAIC.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Annotated, NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Float, Int
from sklearn.utils._param_validation import StrOptions

from secret_jax.composed.kernel.interface import Head, HeadFit, Regions
from secret_jax.composed.kernel.kernels import KERNELS, SMOOTHERS, Metric
from secret_jax.runtime.values import Value, at_least, real
from secret_jax.tree.file import recorded

CRITERIA = ("icomp", "aic", "bic", "caic")
# Variances below this share of the target's are rounding; of a constant target, those
# whose square would be zero.
_LEAST_VARIANCE, _LEAST = 1e-9, 1e-150
_LEAST_PROBABILITY = 1e-12
# Further digits of a criterion are rounding.
_DIGITS = 2
# Probability of the best genes to be a parent, the next ones follow geometrically; and
# of a gene to be drawn anew.
_BEST_IS_PARENT, _MUTATION = 0.08, 0.02
Score: TypeAlias = Callable[[Head], float]
"""Criterion of a head, the less the better; infinite where it cannot be fitted."""


def complexity(variance: np.ndarray, n: np.ndarray) -> float:
    """Bozdogan's C1 of means and variances of independent normals, equation 3.32.

    The inverse Fisher information is diagonal: σ²/n of the mean and 2 σ⁴/n of the
    variance of each. The last line of (3.32), which expands it, must divide by n².

    ``variance``, ``n`` (n_normals,): variances, and numbers of rows.
    """
    values = np.concatenate([variance / n, 2.0 * variance**2 / n])
    rank = len(values)
    return float(0.5 * rank * np.log(values.sum() / rank) - 0.5 * np.log(values).sum())


def _penalty(criterion: str, degrees: float, n: float) -> float:
    """What AIC, BIC or CAIC add for parameters."""
    each = {"aic": 2.0, "bic": np.log(n), "caic": np.log(n) + 1.0}
    return float(each[criterion] * degrees)


def of_numbers(criterion: str, fit: HeadFit, rows: Regions) -> float:
    """Criterion of a head that predicts numbers, the less the better.

    AIC, BIC and CAIC count the degrees of freedom of the head and a variance in each
    leaf. ICOMP's complexity knows only the leaves: so its errors are left-out ones.
    """
    target, weight = rows.target[fit.row], rows.weight[fit.row]
    prediction = fit.left_out if criterion == "icomp" else fit.fitted
    off = weight @ target / weight.sum()
    least = _LEAST_VARIANCE * (weight @ (target - off) ** 2) / weight.sum()
    least = np.maximum(least, _LEAST)
    _, place = np.unique(rows.leaf[fit.row], return_inverse=True)
    n = np.bincount(place, weight)
    square = weight[:, None] * (target - prediction) ** 2
    total = 0.0
    for own, smallest in zip(square.T, least, strict=True):
        variance = np.maximum(np.bincount(place, own) / n, smallest)
        # Twice the negative log-likelihood of normal errors with a variance in each
        # leaf: equation 3.24, where (3.23) must divide by the rows of the leaf.
        total += float(n.sum() * (np.log(2.0 * np.pi) + 1.0) + n @ np.log(variance))
        if criterion == "icomp":
            total += 2.0 * complexity(variance, n)
        else:
            degrees = degrees_of(fit, target, weight) + len(n)
            total += _penalty(criterion, degrees, n.sum())
    return total


def of_classes(
    criterion: str,
    fit: HeadFit,
    rows: Regions,
    probability: np.ndarray,
    member: np.ndarray,
    head: Head,
) -> float:
    """Criterion of a head that predicts classes, the less the better.

    Twice the negative log-likelihood of the classes, and for ICOMP the complexity of
    normal clusters of the classes in the space of the kernel (3.29 to 3.36), without
    the further terms of the source's (3.27).

    ``probability``, ``member`` (n_known, n_classes): what is said of the rows of
    ``fit.row``, and their classes.
    """
    weight = rows.weight[fit.row]
    chance = np.maximum((member * probability).sum(axis=1), _LEAST_PROBABILITY)
    deviance = -2.0 * float(weight @ np.log(chance))
    n = weight @ member
    if criterion == "icomp":
        spread = class_spreads(head, rows.x[fit.row], member, weight)
        return deviance + 2.0 * complexity(spread[n > 0], n[n > 0])
    degrees = degrees_of(fit, rows.target[fit.row], weight) * rows.target.shape[1]
    return deviance + _penalty(criterion, degrees, weight.sum())


def class_spreads(
    head: Head, x: np.ndarray, member: np.ndarray, weight: np.ndarray
) -> np.ndarray:
    """Mean squared distances of rows from their class's center, in kernel space.

    Equations 3.33 to 3.36, for any kernel: K(x, x) + K(c, c) - 2 K(x, c).
    """
    metric = Metric.of_rows(x, weight, head.smoother)
    z, n = metric(x), np.maximum(weight @ member, np.finfo(float).tiny)
    centers = (member.T @ (weight[:, None] * z) / n[:, None])[member.argmax(axis=1)]
    kernel, width = KERNELS[head.kernel].value, float(np.sqrt(max(x.shape[1], 1)))
    at_row, at_center = (
        kernel(np.zeros(len(z)), (one**2).sum(axis=1), width) for one in (z, centers)
    )
    between = kernel(((z - centers) ** 2).sum(axis=1), (z * centers).sum(axis=1), width)
    square = at_row + at_center - 2.0 * between
    return np.maximum(member.T @ (weight * square) / n, _LEAST_VARIANCE)


def degrees_of(fit: HeadFit, target: np.ndarray, weight: np.ndarray) -> float:
    """Degrees of freedom of a linear smoother, from what rows say of themselves.

    A fitted value is the left-out one and a share of its error; degrees are the sum of
    the shares, here the typical one times the number of rows.
    """
    error = target - fit.left_out
    of_row = (weight[:, None] * (fit.fitted - fit.left_out) * error).sum()
    total = (weight[:, None] * error**2).sum()
    share = min(max(of_row / total, 0.0), 1.0) if total > 0 else 0.0
    return float(share * weight.sum())


@recorded
class Found(NamedTuple):
    """Best head so far of a search."""

    head: Head
    criterion: float  # its value, the less the better
    n_scored: int  # number of heads that were fitted
    n_turns: int  # number of generations, or of greedy steps


@dataclass(frozen=True, kw_only=True)
class Search(Value, ABC):
    """Base of the searches: a frozen value with one method.

    Attributes
    ----------
    criterion : {"icomp", "aic", "bic", "caic"}, default="icomp"
    max_rows : int, default=2000
        Number of rows, from all leaves, that heads are compared on.
    """

    criterion: Annotated[str, StrOptions(set(CRITERIA))] = "icomp"
    max_rows: Annotated[int, at_least(1)] = 2000

    def results(
        self, head: Head, n_columns: int, score: Score, seed: int
    ) -> Iterator[Found]:
        """Yield the best head after every turn; none is scored twice."""
        scored = cache(score)
        for n_turns, best in self.turns(head, n_columns, scored, seed):
            yield Found(best, scored(best), scored.cache_info().currsize, n_turns)

    @abstractmethod
    def turns(
        self, head: Head, n_columns: int, score: Score, seed: int
    ) -> Iterator[tuple[int, Head]]:
        """Yield the number of every turn and the head of least score after it.

        Heads are like the given one, but for columns, kernel and smoother.
        """


@dataclass(frozen=True, kw_only=True)
class GeneticSearch(Search):
    """Genetic search of columns, kernel and smoother together.

    It ends after ``max_generations``, or when the best and the worst head differ by
    less than ``tolerance`` (Lanning 2008, section 3.2.1). A head is fitted once.

    Attributes
    ----------
    n_heads : int, default=30
        Number of heads in a generation.
    n_kept : int, default=6
        Number of the best ones that live on.
    max_generations : int, default=20
    tolerance : float, default=1.0
    """

    n_heads: Annotated[int, at_least(2)] = 30
    n_kept: Annotated[int, at_least(1)] = 6
    max_generations: Annotated[int, at_least(0)] = 20
    tolerance: Annotated[float, real(0.0)] = 1.0

    def turns(
        self, head: Head, n_columns: int, score: Score, seed: int
    ) -> Iterator[tuple[int, Head]]:
        kernels, smoothers = head.kernels, list(SMOOTHERS)
        n_values = np.array([2] * n_columns + [len(kernels), len(smoothers)])
        n_kept = min(self.n_kept, self.n_heads - 1)

        def head_of(genes: np.ndarray) -> Head:
            *columns, kernel, smoother = genes.tolist()
            return replace(
                head,
                columns=tuple(np.flatnonzero(columns).tolist()),
                kernel=kernels[kernel],
                smoother=smoothers[smoother],
            )

        genes, scores = np.empty((0, len(n_values)), np.int64), np.empty(0)
        for generation in range(self.max_generations + 1):
            random = np.random.default_rng((seed, generation))
            if generation == 0:
                numbers = random.random((self.n_heads, len(n_values)))
                new = random_genes(numbers, n_values)
            else:
                numbers = random.random((self.n_heads - n_kept, 2 + 3 * len(n_values)))
                new = children(genes, n_values, numbers)
            # The best live on, children replace the others.
            genes = np.concatenate([genes[:n_kept], new])
            scores = np.append(scores[:n_kept], [score(head_of(row)) for row in new])
            scores = np.where(np.isnan(scores), np.inf, scores)
            order = np.argsort(scores, kind="stable")
            genes, scores = genes[order], scores[order]
            yield generation, head_of(genes[0])
            if np.isfinite(scores[-1]) and scores[-1] - scores[0] < self.tolerance:
                break


@dataclass(frozen=True, kw_only=True)
class GreedySearch(Search):
    """The best kernel, the best smoother, then one column less or more at a time.

    It begins with the head as it is, of all columns unless it says which, and goes on
    until nothing is better; nothing is drawn at random.
    """

    def turns(
        self, head: Head, n_columns: int, score: Score, seed: int
    ) -> Iterator[tuple[int, Head]]:
        def better(best: Head, field: str, values) -> Head:
            heads = [best, *(replace(best, **{field: value}) for value in values)]
            return min(heads, key=lambda one: round(score(one), _DIGITS))  # the first

        columns = head.columns or tuple(range(n_columns))
        best, n_turns, before = replace(head, columns=columns), 0, None
        while best != before:
            before = best
            best = better(best, "kernel", best.kernels)
            best = better(best, "smoother", SMOOTHERS)
            changed = None
            while best != changed:
                changed = best
                n_turns += 1
                yield n_turns, best
                used = set(best.columns or ())
                others = [used ^ {column} for column in range(n_columns)]
                others = [tuple(sorted(one)) for one in others if one]
                best = better(best, "columns", others)


def random_genes(
    uniform: Float[np.ndarray, "n_rows n_genes"], n_values: Int[np.ndarray, " n_genes"]
) -> Int[np.ndarray, "n_rows n_genes"]:
    """Turn uniform numbers into genes: gene j is one of ``0 ... n_values[j] - 1``."""
    # Rounded a product may reach the number of values.
    return np.minimum((uniform * n_values).astype(np.int64), n_values - 1)


def children(
    genes: Int[np.ndarray, "n_rows n_genes"],
    n_values: Int[np.ndarray, " n_genes"],
    uniform: Float[np.ndarray, "n_children n_numbers"],
) -> Int[np.ndarray, "n_children n_genes"]:
    """Cross and mutate parents, which are drawn by their ranks; the best come first.

    Geometric ranks, uniform crossover and rare mutation are those of the Genetic
    Algorithm Optimization Toolbox (Houck, Joines & Kay, NCSU-IE TR 95-09, 1995).
    ``uniform`` are independent numbers in [0, 1), 2 + 3 * n_genes for each child: they
    choose two parents, and of every gene whose it is, whether it mutates, and to what.
    """
    left = (1.0 - _BEST_IS_PARENT) ** np.arange(1, len(genes))
    limits = (1.0 - left) / (1.0 - (1.0 - _BEST_IS_PARENT) ** len(genes))
    rank = np.sum(uniform[:, :2, None] > limits.astype(np.float32), axis=-1)
    mother, father = genes[rank.T]
    whose, whether, what = np.split(uniform[:, 2:], 3, axis=1)
    child = np.where(whose < 0.5, mother, father)
    return np.where(whether < _MUTATION, random_genes(what, n_values), child)


SEARCHES: dict[str, Search] = {"genetic": GeneticSearch(), "greedy": GreedySearch()}
