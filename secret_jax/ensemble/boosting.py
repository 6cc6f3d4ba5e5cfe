"""Boosters of a fit: one for each fold, and one of all rows, grown side by side."""

from typing import NamedTuple

import numpy as np

from secret_jax.data.rows import Rows, join
from secret_jax.data.schema import TableSchema
from secret_jax.ensemble.growth import Booster, BoostOptions, add_round, bins_of
from secret_jax.ensemble.model import Ensemble
from secret_jax.fit.prune.cross_validation import parts_of
from secret_jax.runtime.progress import Stage
from secret_jax.tree.sums import TreeSum

# Maximum number of rows for folds; with more one part is held out, and none averaged.
MOST_FOLDED = 1 << 15
_HELD_OUT_FOLDS = 10


class Boosted(NamedTuple):
    """Result of a fit of boosters."""

    ensemble: Ensemble
    # Ensembles that have each not seen a part of the rows, and these parts, if any.
    folds: list[Ensemble]
    parts: list[np.ndarray]
    # (n_rows, n_outputs), float64, or None: what these predict for the parts.
    unseen: np.ndarray | None
    # (n_rounds_run + 1,): mean loss on held-out rows after each round (squared errors
    # in units of the variance of the targets); empty if nothing was held out.
    errors: np.ndarray


class Boosting:
    """Boosters of a fit, which grow until their errors on held-out rows rise.

    ``rows``: in hash order; ``others``: rows for early stopping, in place of folds.
    """

    def __init__(
        self,
        options: BoostOptions,
        rows: Rows,
        schema: TableSchema,
        others: Rows | None = None,
    ):
        self.training, self.others, self.schema = rows, others, schema
        self.seed = options.seed
        self._rows = rows if others is None else join([rows, others])
        self._bins = bins_of(rows, schema)  # of those that train
        nothing = np.arange(0)
        if others is not None:
            self._folds, held_out = [], rows.n_rows + np.arange(others.n_rows)
        elif rows.n_rows > MOST_FOLDED:
            first = _parts(rows, _HELD_OUT_FOLDS)[0]
            self._folds, held_out = [], first if options.early_stopping else nothing
        else:
            needed = options.early_stopping or options.average
            parts = _parts(rows, options.n_folds) if needed else []
            self._folds = [self._booster(*fold) for fold in enumerate(parts)]
            held_out = nothing
        self._whole = self._booster(len(self._folds), held_out)

    def _booster(self, key: int, held_out: np.ndarray) -> Booster:
        trains = np.ones(self._rows.n_rows, bool)
        trains[held_out] = False
        return Booster(
            key=key,
            training=np.flatnonzero(trains[: self.training.n_rows]),
            held_out=held_out,
            prediction=np.zeros_like(self._rows.targets),
        )

    @property
    def n_rounds(self) -> int:
        """Number of rounds so far; the first tree, a single leaf, is not counted."""
        return len(self._whole.trees) - 1

    @property
    def _judged(self) -> list[Booster]:
        """Boosters with held-out rows."""
        return [each for each in (*self._folds, self._whole) if len(each.held_out)]

    @property
    def _errors(self) -> np.ndarray:
        """Mean loss on held-out rows after each round, the first without any."""
        judged = self._judged
        if not judged:
            return np.zeros(0)
        weight = sum(self._rows.weight[each.held_out].sum() for each in judged)
        return np.sum([each.losses for each in judged], axis=0) / weight

    def run(self, options: BoostOptions, stage: Stage) -> None:
        """Grow until no more rounds are needed."""
        while not self._is_done(options):
            errors = self._errors
            told = f"error {errors.min():.4g} in unseen rows" if errors.size else ""
            stage.at(max(self.n_rounds, 0), options.max_iter, told)
            boosters = [*self._folds, self._whole]
            add_round(boosters, self._rows, self.schema, options, self._bins)

    def _is_done(self, options: BoostOptions) -> bool:
        if self.n_rounds < 0 or not options.early_stopping:
            return self.n_rounds >= options.max_iter
        errors = self._errors
        stalled = not errors.size or self.n_rounds - errors.argmin() >= options.patience
        return bool(stalled) or self.n_rounds >= options.max_iter

    def result(self, options: BoostOptions) -> Boosted:
        """Boosters of the best round, or of the last one, and what they leave out."""
        n_rounds, errors = min(self.n_rounds, options.max_iter), self._errors
        if options.early_stopping:  # without held-out rows there is no estimate
            n_rounds = int(errors.argmin()) if errors.size else 0
        folds = [each.trees[: 1 + n_rounds] for each in self._folds]
        whole = self._whole.trees[: 1 + n_rounds]
        members = [*folds, whole] if options.average else [whole]
        return Boosted(
            ensemble=Ensemble.of(members, options.learning_rate),
            folds=[Ensemble.of([trees], options.learning_rate) for trees in folds],
            parts=[each.held_out for each in self._folds],
            unseen=self._unseen(n_rounds, options) if self._folds else None,
            errors=errors,
        )

    def _unseen(self, n_rounds: int, options: BoostOptions) -> np.ndarray:
        """Predictions after a round of rows by boosters that have not seen them."""
        value = np.empty_like(self._rows.targets)
        for booster in self._folds:
            # Fewer trees came after the round than before it.
            later, unseen = booster.trees[1 + n_rounds :], booster.held_out
            value[unseen] = booster.prediction[unseen]
            if later:
                sum_of_later = TreeSum(
                    later, np.full(len(later), options.learning_rate)
                )
                value[unseen] -= sum_of_later.values(self._rows.table.take(unseen))
        return value


def _parts(rows: Rows, n_folds: int) -> list[np.ndarray]:
    parts = parts_of(rows.weight, n_folds, group=rows.group)
    return [np.flatnonzero(part) for part in parts]
