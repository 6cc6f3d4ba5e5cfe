"""Search of a head's columns, kernel and smoother by an information criterion."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Annotated, NamedTuple

import numpy as np
from sklearn.utils._param_validation import StrOptions

from secret_jax.composed.kernel.covariances import SMOOTHERS
from secret_jax.composed.kernel.criteria import CRITERIA
from secret_jax.composed.kernel.interface import Head
from secret_jax.runtime.genetic import evolve
from secret_jax.runtime.values import Value, at_least, real
from secret_jax.tree.file import recorded

# Further ones of a criterion are rounding.
_DIGITS = 2


@recorded
class Found(NamedTuple):
    """Best head so far of a search."""

    head: Head
    criterion: float  # its value, the less the better
    n_scored: int  # number of heads that were fitted
    n_turns: int  # number of generations, or of greedy steps


@dataclass(frozen=True)
class Heads:
    """Heads that differ in columns, kernel and smoother, each of them fitted once."""

    head: Head  # the one that they are like otherwise
    n_columns: int
    # The criterion of a head; infinite where it cannot be fitted.
    score: Callable[[Head], float]
    known: dict[Head, float] = field(default_factory=dict)  # what is scored already

    def scores(self, heads: list[Head]) -> list[float]:
        """Criteria of heads."""
        for one in heads:
            if one not in self.known:
                self.known[one] = self.score(one)
        return [self.known[one] for one in heads]

    def found(self, head: Head, n_turns: int) -> Found:
        """Record of a search that has this head."""
        return Found(head, self.known.get(head, np.inf), len(self.known), n_turns)


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

    @abstractmethod
    def turns(self, heads: Heads, seed: int) -> Iterator[Found]:
        """Yield the best head after every turn."""


@dataclass(frozen=True, kw_only=True)
class GeneticSearch(Search):
    """Genetic search of columns, kernel and smoother together.

    Ranks by a geometric distribution, uniform crossover, rare mutation; it ends after
    ``max_generations``, or when the best and the worst head differ by less than
    ``tolerance`` (Lanning 2008, section 3.2.1). A head is fitted once.

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

    def turns(self, heads: Heads, seed: int) -> Iterator[Found]:
        """See `Search`."""
        kernels, smoothers = heads.head.kernels, list(SMOOTHERS)

        def head_of(genes: np.ndarray) -> Head:
            *columns, kernel, smoother = genes.tolist()
            return replace(
                heads.head,
                columns=tuple(np.flatnonzero(columns).tolist()),
                kernel=kernels[kernel],
                smoother=smoothers[smoother],
            )

        for population in evolve(
            lambda genes: np.array(heads.scores([head_of(row) for row in genes])),
            np.array([2] * heads.n_columns + [len(kernels), len(smoothers)]),
            seed=seed,
            n_rows=self.n_heads,
            n_kept=min(self.n_kept, self.n_heads - 1),
            max_generations=self.max_generations,
            tolerance=self.tolerance,
        ):
            yield heads.found(head_of(population.genes[0]), population.generation)


@dataclass(frozen=True, kw_only=True)
class GreedySearch(Search):
    """The best kernel, the best smoother, then one column less or more at a time.

    It begins with the head as it is, of all columns unless it says which, and goes on
    until nothing is better.
    """

    def turns(self, heads: Heads, seed: int) -> Iterator[Found]:
        """See `Search`; nothing is drawn at random."""

        def better(best: Head, others: list[Head]) -> Head:
            scores = heads.scores(others)  # that of the best may be among them
            scores = [heads.known.get(best, np.inf), *scores]
            ranks = [round(score, _DIGITS) for score in scores]
            return [best, *others][ranks.index(min(ranks))]

        columns = heads.head.columns or tuple(range(heads.n_columns))
        best, n_turns, before = replace(heads.head, columns=columns), 0, None
        while best != before:
            before = best
            best = better(best, [replace(best, kernel=name) for name in best.kernels])
            best = better(best, [replace(best, smoother=name) for name in SMOOTHERS])
            changed = None
            while best != changed:
                changed = best
                n_turns += 1
                yield heads.found(best, n_turns)
                columns = set(best.columns or ())
                others = [columns ^ {column} for column in range(heads.n_columns)]
                others = [tuple(sorted(one)) for one in others if one]
                best = better(best, [replace(best, columns=one) for one in others])


SEARCHES: dict[str, Search] = {"genetic": GeneticSearch(), "greedy": GreedySearch()}
