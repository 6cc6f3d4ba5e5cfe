"""Boosters of several tree sizes that race, and the members that predict together.

A size that has fallen too far behind to catch up is dropped, so that the race costs
little more than the best size alone. The best size with linear leaves and the best with
constants are stacked (Wolpert 1992; Breiman 1996): they are wrong in different places.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy.optimize import minimize_scalar

from secret_jax.data.rows import Rows, join
from secret_jax.data.schema import TableSchema
from secret_jax.ensemble.growth import (
    Booster,
    Candidate,
    add_round,
    bins_of,
    total_error,
)
from secret_jax.ensemble.model import Boosted, Member
from secret_jax.ensemble.options import BoostOptions, TreeSize
from secret_jax.fit.prune.cross_validation import parts_of
from secret_jax.runtime.progress import Stage
from secret_jax.tree.sums import TreeSum

# Maximum number of rows for folds; with more one part is held out, and none averaged.
MOST_FOLDED = 1 << 15
_HELD_OUT_FOLDS = 10
# After so many rounds of a learning rate of 1 sizes leave that err more than so many
# times as much as the best with their kind of leaves: none was seen to catch up.
_SOON, _BEHIND = 0.6, 1.1
# After so many one size of each kind of leaves goes on, the first that errs hardly more
# than the best: those behind seldom win, never by much.
_DECIDED, _HARDLY_MORE = 2.0, 1.02
# A kind of leaves that errs so many times as much then leaves: on one table of the two
# where one did, its share in the prediction saved a hundredth of the error at last.
_TOO_MUCH = 2.0
# When the best one stops, others go on only if their errors are as near.
_NEAR = 1.05
# The best size of the other kind continues unless a mixture saves less than this share:
# it is asked every few rounds, but not before constants, which begin at the mean, have
# fallen.
_LEAST_SAVED, _ROUNDS_BETWEEN, _FIRST_ASKED = 0.005, 10, 20
# A member with a smaller weight is not worth its trees.
_LEAST_SHARE = 0.05
# Of many rows so many train the sizes that race, and a quarter as many judge them, for
# so many rounds: what trees of one size are worth shows soon.
_RACING_ROWS, _RACING_ROUNDS = 1 << 14, 10


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
        self.rows, self.held_out = rows, _folds(options, rows)
        few = rows.n_rows <= MOST_FOLDED
        self.folded = others is None and few and len(self.held_out) > 0
        if others is not None:
            self.rows = join([rows, others])
            self.held_out = [rows.n_rows + np.arange(others.n_rows)]
        self.training, self.others, self.schema = rows, others, schema
        self.bins = bins_of(rows, schema)  # of those that train
        self.candidates = [self._candidate(size) for size in options.sizes]
        self._least: dict[TreeSize, float] = {}  # mean error of every size that raced

    @property
    def n_rounds(self) -> int:
        """Number of rounds of the longest booster, not counting its first tree."""
        return max(candidate.n_rounds for candidate in self.candidates)

    def run(self, options: BoostOptions, stage: Stage) -> None:
        """Grow until no size needs more rounds, and keep the sizes that lead."""
        measured = bool(self.held_out)
        many = self.training.n_rows > MOST_FOLDED and len(self.candidates) > 1
        if many and self.n_rounds < 0:
            self._race(options, stage)
        going = list(self.candidates)
        while True:
            going = [each for each in going if not each.is_done(options, measured)]
            if measured and options.early_stopping:
                going = self._with_hope(going, options)
            if not going:
                break
            rounds = max(each.n_rounds for each in going)
            stage.at(max(rounds, 0), options.max_iter, self._told())
            # Trees of all rows cost half beside the others.
            boosters = [booster for each in going for booster in each.boosters]
            add_round(boosters, self.rows, self.schema, options, self.bins)
            if measured:
                least = {c.size: c.least / self._weight for c in self.candidates}
                self._least |= least
        self.candidates = self._leaders(options)

    def _race(self, options: BoostOptions, stage: Stage) -> None:
        """Keep the sizes that lead on a sample of many rows."""
        rows = self.training
        if rows.group is not None:  # of groups in no order some train, others judge
            rows = rows.take(np.argsort(rows.group, kind="stable"))
        few = rows.take(slice(_RACING_ROWS))
        judges = self.others or rows.take(slice(_RACING_ROWS, None))
        if few.group is not None and judges.group is not None:
            judges = judges.take(judges.group != few.group[-1])
        judges = judges.take(slice(_RACING_ROWS // 4))
        if not judges.n_rows:
            return
        race = Boosting(options, few, self.schema, judges)
        most = min(options.max_iter, _RACING_ROUNDS)
        race.run(replace(options, max_iter=most, early_stopping=True), stage)
        leaders, self._least = [each.size for each in race.candidates], race._least
        self.candidates = [each for each in self.candidates if each.size in leaders]

    def result(self, options: BoostOptions) -> Boosted:
        """Members that predict together, and their weights."""
        pairs, shares, unseen, error = self._mixture(options)
        members = []
        for (each, n), share in zip(pairs, shares, strict=True):
            member = Member(
                size=each.size,
                share=share,
                folds=tuple(tuple(booster.trees[: 1 + n]) for booster in each.folds),
                whole=tuple(each.whole.trees[: 1 + n]),
                errors=each.errors / self._weight if self.held_out else np.zeros(0),
            )
            members.append(member)
        parts = self.held_out if self.folded else []
        return Boosted(
            members=tuple(members),
            learning_rate=options.learning_rate,
            average=options.average and len(parts) > 1,
            sizes=[[size, error] for size, error in self._least.items()],
            parts=parts,
            unseen=unseen if self.folded else None,
            error=error,
        )

    @property
    def _weight(self) -> float:
        return sum(float(self.rows.weight[part].sum()) for part in self.held_out)

    def _booster(self, size: TreeSize, key: int, held_out: np.ndarray) -> Booster:
        trains = np.ones(self.rows.n_rows, bool)
        trains[held_out] = False
        return Booster(
            size=size,
            key=key,
            training=np.flatnonzero(trains[: self.training.n_rows]),
            held_out=held_out,
            prediction=np.zeros_like(self.rows.targets),
        )

    def _candidate(self, size: TreeSize) -> Candidate:
        """Boosters of a size, not begun."""
        parts, nothing = self.held_out, np.arange(0)
        folds = (
            [self._booster(size, *f) for f in enumerate(parts)] if self.folded else []
        )
        judges = nothing if self.folded else [*parts, nothing][0]
        return Candidate(size, folds, self._booster(size, len(folds), judges))

    def _with_hope(
        self, going: list[Candidate], options: BoostOptions
    ) -> list[Candidate]:
        """Select sizes that may still lead, or lead those with their kind of leaves."""
        started = [each for each in self.candidates if each.n_rounds >= 0]
        if not started:
            return going
        first = min(started, key=lambda each: each.least)
        other = next((c for c in going if c.size.leaf != first.size.leaf), None)
        rounds = first.n_rounds
        asked = rounds >= _FIRST_ASKED and rounds % _ROUNDS_BETWEEN == 0
        if other and len(going) == 2 and asked:
            said = [self._held_out_values(each) for each in (first, other)]
            _, _, together = self._stacked(said, options)
            if together > (1.0 - _LEAST_SAVED) * first.errors[-1] / self._weight:
                going = [each for each in going if each is not other]
        told = rounds * options.learning_rate
        if told >= _SOON and len(started) > 2:
            self.candidates = _in_race(started, decided=told >= _DECIDED)
            going = [each for each in going if each in self.candidates]
            first = min(self.candidates, key=lambda each: each.least)
        if first in going:
            return going
        near = [c for c in self.candidates if c.least <= _NEAR * first.least]
        kinds = {each.size.leaf for each in near}
        # The only size of its kind may still take a share.
        self.candidates = [
            c for c in self.candidates if c in near or c.size.leaf not in kinds
        ]
        return [each for each in going if each in near]

    def _leaders(self, options: BoostOptions) -> list[Candidate]:
        """Best size of each kind of leaves, the best of all first.

        Constants without rounds are the mean of the target, to which a linear model
        shrinks anyway if nothing is explained: they do not lead.
        """
        started = [each for each in self.candidates if each.n_rounds >= 0]
        if not self.held_out:
            return started[:1]

        def error(candidate: Candidate) -> float:
            return float(candidate.errors[self._chosen_round(candidate, options)])

        worth = [c for c in started if c.best_round or c.size.leaf == "linear"]
        best: dict[str, Candidate] = {}
        for candidate in sorted(worth or started, key=error):
            best.setdefault(candidate.size.leaf, candidate)
        return list(best.values())

    def _chosen_round(self, candidate: Candidate, options: BoostOptions) -> int:
        n_rounds = min(candidate.n_rounds, options.max_iter)
        if not options.early_stopping:
            return n_rounds
        return candidate.best_round if self.held_out else 0  # there is no estimate

    def _mixture(
        self, options: BoostOptions
    ) -> tuple[list[tuple[Candidate, int]], list[float], np.ndarray | None, float]:
        """Sizes that predict together with their rounds, and what `_stacked` returns.

        Without rows left out there is one, and nothing is known of it.
        """
        leaders = self._leaders(options)
        pairs = [(each, self._chosen_round(each, options)) for each in leaders]
        if not self.held_out:
            return pairs[:1], [1.0], None, np.nan
        told = [self._unseen(each, n, options) for each, n in pairs]
        shares, unseen, error = self._stacked(told, options)
        return pairs[: len(shares)], shares, unseen, error

    def _unseen(
        self, candidate: Candidate, n_rounds: int, options: BoostOptions
    ) -> np.ndarray:
        """Predictions after a round of rows by boosters that have not seen them."""
        if n_rounds == candidate.n_rounds:
            return self._held_out_values(candidate)
        value = np.full_like(self.rows.targets, np.nan)
        for booster in candidate.judged:
            # Fewer trees came after the round than before it.
            table = self.rows.table.take(booster.held_out)
            trees = booster.trees[1 + n_rounds :]
            later = TreeSum(trees, np.full(len(trees), options.learning_rate))
            said = booster.prediction[booster.held_out]
            value[booster.held_out] = said - later.values(table)
        return value

    def _held_out_values(self, candidate: Candidate) -> np.ndarray:
        value = np.full_like(self.rows.targets, np.nan)
        for booster in candidate.judged:
            value[booster.held_out] = booster.prediction[booster.held_out]
        return value

    def _stacked(
        self, values: Sequence[np.ndarray], options: BoostOptions
    ) -> tuple[list[float], np.ndarray, float]:
        """Choose the weights of one or two kinds of boosters by their held-out errors.

        Returns ``shares``: the first alone if the other adds next to nothing;
        ``value`` (n_rows, n_outputs); ``error``: mean loss of the weighted mean.
        """
        known = np.concatenate(self.held_out)
        judges, first = self.rows.take(known), values[0]

        def error(value: np.ndarray) -> float:
            return total_error(options.loss, judges, value[known]) / self._weight

        alone = error(first)
        if len(values) > 1:
            change = values[1] - first
            found = minimize_scalar(
                lambda share: error(first + share * change),
                bounds=(0.0, 1.0),
                method="bounded",
            )
            share, together = float(found.x), float(found.fun)  # pyright: ignore[reportAttributeAccessIssue]
            both = _LEAST_SHARE <= share <= 1.0 - _LEAST_SHARE
            if both and together <= (1.0 - _LEAST_SAVED) * alone:
                return [1.0 - share, share], first + share * change, together
        return [1.0], first, alone

    def _told(self) -> str:
        if not self._least:
            return ""
        size = min(self._least, key=lambda each: self._least[each])
        return f"{size}: error {self._least[size]:.4g} in unseen rows"


def _in_race(candidates: list[Candidate], *, decided: bool) -> list[Candidate]:
    """Sizes near the best with their kind of leaves, or the first such of each kind."""
    least: dict[str, float] = {}
    for each in candidates:
        least[each.size.leaf] = min(each.least, least.get(each.size.leaf, np.inf))
    most = _HARDLY_MORE if decided else _BEHIND
    near = [each for each in candidates if each.least <= most * least[each.size.leaf]]
    if decided:
        near = list({each.size.leaf: each for each in reversed(near)}.values())[::-1]
        worth = _TOO_MUCH * min(least.values())
        near = [each for each in near if least[each.size.leaf] <= worth]
    return near


def _folds(options: BoostOptions, rows: Rows) -> list[np.ndarray]:
    """Rows that each booster leaves out."""
    decided = not options.early_stopping and len(options.sizes) == 1
    many = rows.n_rows > MOST_FOLDED
    if decided and (many or not options.average):
        return []
    n_folds = _HELD_OUT_FOLDS if many else options.n_folds
    parts = parts_of(rows.weight, n_folds, group=rows.group)
    return [np.flatnonzero(part) for part in (parts[:1] if many else parts)]
