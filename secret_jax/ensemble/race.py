"""Tree sizes that race: their boosters, and who may still win."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from secret_jax.ensemble.growth import Booster
from secret_jax.ensemble.options import BoostOptions, TreeSize

# A size is dropped if even this multiple of its gain over the last rounds would not
# bring it to where the best one will be after as much again as that has just gained.
# The curves fall like geometric series or faster. The leader is judged over more
# rounds, as many as its patience if that is longer: it is compared with its own best.
_RECENT, _RECENT_OF_LEADER, _MOST_TO_COME = 5, 10, 3.0


class Candidate(NamedTuple):
    """Boosters of one tree size, each with held-out rows of its own."""

    size: TreeSize
    boosters: list[Booster]

    @property
    def n_rounds(self) -> int:
        """Number of rounds so far; the first tree, a single leaf, is not counted."""
        return len(self.boosters[0].trees) - 1

    @property
    def errors(self) -> np.ndarray:
        """Total loss on held-out rows after each round, the first without any."""
        return np.sum([booster.losses for booster in self.boosters], axis=0)

    @property
    def least(self) -> float:
        """Least error so far."""
        return float(self.errors.min())

    @property
    def expected(self) -> float:
        """Least error after as much gain again as that of the last rounds."""
        return self.least - _gain(self.errors, _RECENT)

    @property
    def best_round(self) -> int:
        """Round of the least error."""
        return int(self.errors.argmin())

    def is_done(self, options: BoostOptions, measured: bool) -> bool:
        """Whether no more rounds are needed."""
        stop = options.early_stopping and measured and self.n_rounds >= 0
        stalled = stop and self.n_rounds - self.best_round >= options.patience
        return self.n_rounds >= options.max_iter or stalled


def can_catch_up(errors: np.ndarray, best: float, patience: int) -> bool:
    """Whether a size with these errors can still be expected to reach another."""
    recent = max(_RECENT_OF_LEADER, patience) if errors.min() <= best else _RECENT
    if len(errors) <= recent:
        return True
    return errors[-1] - _MOST_TO_COME * _gain(errors, recent) <= best


def _gain(errors: np.ndarray, recent: int) -> float:
    before = errors[max(len(errors) - 1 - recent, 0)]
    return float(max(before - errors[-1], 0.0))
