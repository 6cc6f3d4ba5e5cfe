"""Tree sizes that race: their boosters, and who may still win."""

from typing import NamedTuple

import numpy as np

from secret_jax.ensemble.growth import Booster
from secret_jax.ensemble.options import BoostOptions, TreeSize


class Candidate(NamedTuple):
    """Boosters of one tree size."""

    size: TreeSize
    folds: list[Booster]  # each has not seen its held-out rows
    # Of all rows that train; without folds it may have held-out rows itself.
    whole: Booster

    @property
    def boosters(self) -> list[Booster]:
        """All boosters."""
        return [*self.folds, self.whole]

    @property
    def judged(self) -> list[Booster]:
        """Boosters with held-out rows."""
        return self.folds or [self.whole]

    @property
    def n_rounds(self) -> int:
        """Number of rounds so far; the first tree, a single leaf, is not counted."""
        return len(self.whole.trees) - 1

    @property
    def errors(self) -> np.ndarray:
        """Total loss on held-out rows after each round, the first without any."""
        return np.sum([booster.losses for booster in self.judged], axis=0)

    @property
    def least(self) -> float:
        """Least error so far."""
        return float(self.errors.min())

    @property
    def best_round(self) -> int:
        """Round of the least error."""
        return int(self.errors.argmin())

    def is_done(self, options: BoostOptions, measured: bool) -> bool:
        """Whether no more rounds are needed."""
        stop = options.early_stopping and measured and self.n_rounds >= 0
        stalled = stop and self.n_rounds - self.best_round >= options.patience
        return self.n_rounds >= options.max_iter or stalled
