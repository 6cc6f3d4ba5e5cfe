"""Choice of tree size and number of rounds by the error on held-out rows.

Sizes race against each other: a size that has fallen too far behind to catch up is
dropped, so that the race costs little more than the best size alone. The best size with
linear leaves and the best with constants lead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from secret_jax.data.rows import Rows
from secret_jax.data.schema import TableSchema
from secret_jax.ensemble.options import TreeRecipe, TreeSize
from secret_jax.ensemble.rounds import Booster, add_round
from secret_jax.ensemble.working import total_error
from secret_jax.losses.interface import Loss
from secret_jax.losses.numbers import SquaredError
from secret_jax.runtime.progress import Stage

# A size is dropped if even this multiple of its gain over the last rounds would not
# make it better than the best is now. The curves fall like geometric series or faster.
# The leader is judged over more rounds, as many as its patience if that is longer,
# since it is compared with its own best.
_RECENT, _RECENT_OF_LEADER, _MOST_TO_COME = 6, 10, 3.0
# The best size of the other kind of leaves continues unless its error is more than this
# multiple of the leader's: its weight would be small.
_MOST_OF_OTHER_KIND = 1.3


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Stopping rules of boosters.

    Attributes
    ----------
    n_rounds : int or None
        Number of rounds; None: until the error on unseen rows no longer falls.
    most_rounds : int
        Maximum number of rounds then.
    patience : int
        Rounds without a lower error after which a size stops.
    """

    n_rounds: int | None = None
    most_rounds: int = 1000
    patience: int = 10

    @property
    def last(self) -> int:
        """Maximum number of rounds."""
        return self.most_rounds if self.n_rounds is None else self.n_rounds


@dataclass(eq=False, kw_only=True)
class Runner:
    """Boosters of one size, with their errors on held-out rows.

    Attributes
    ----------
    errors : list of float
        Mean loss on unseen rows after each round, the first without any; squared errors
        are in units of the targets' variance.
    unseen : ndarray of shape (n_rows, n_outputs), float64
        Predictions of boosters, after the round that counts, for the rows that each has
        not seen; NaN where every booster has seen a row.
    """

    size: TreeSize
    boosters: list[Booster]
    errors: list[float] = field(default_factory=list)
    best_round: int = 0
    unseen: np.ndarray | None = None

    @property
    def n_rounds(self) -> int:
        """Number of rounds so far; the first tree, a single leaf, is not counted."""
        return max(min(len(each.trees) for each in self.boosters) - 1, 0)

    @property
    def least(self) -> float:
        """Least error so far."""
        return min(self.errors)

    def is_done(self, limits: Limits) -> bool:
        """Whether no more rounds are needed."""
        if not self.boosters[0].trees:
            return False
        if self.n_rounds >= limits.last:
            return True
        if limits.n_rounds is not None or not self.errors:
            return False
        return self.n_rounds - self.best_round >= limits.patience

    def hopeless(self, best: float, patience: int) -> bool:
        """Whether this tree size can no longer be expected to reach error `best`."""
        leads = self.least <= best
        recent = max(_RECENT_OF_LEADER, patience) if leads else _RECENT
        if len(self.errors) <= recent:
            return False
        won = self.errors[-1 - recent] - self.errors[-1]
        return self.errors[-1] - _MOST_TO_COME * max(won, 0.0) > best

    def note(
        self,
        rows: Rows,
        parts: Sequence[np.ndarray],
        loss: Loss,
        last: bool,
    ) -> None:
        """Measure the boosters, each on the rows that it has not seen.

        If ``last``, the last round counts instead of the best one.
        """
        if not parts:
            return
        pairs = list(zip(self.boosters, parts, strict=True))
        weight = sum(float(rows.weight[part].sum()) for part in parts)
        error = sum(
            total_error(loss, rows.take(part), each.prediction[part])
            for each, part in pairs
        )
        error /= weight
        better = not self.errors or error < self.least
        self.errors.append(error)
        if better:
            self.best_round = self.n_rounds
        if better or last:
            self.look(rows, parts)

    def look(self, rows: Rows, parts: Sequence[np.ndarray]) -> None:
        """Store the present predictions of rows by boosters that have not seen them."""
        self.unseen = np.full_like(rows.targets, np.nan)
        for each, part in zip(self.boosters, parts, strict=True):
            self.unseen[part] = each.prediction[part]


def race(
    runners: Sequence[Runner],
    rows: Rows,
    parts: Sequence[np.ndarray],
    schema: TableSchema,
    recipe: TreeRecipe,
    limits: Limits,
    stage: Stage,
    of_all_rows: Callable[[TreeSize], Booster] | None = None,
) -> None:
    """Run sizes until their rounds are done.

    Parameters
    ----------
    runners : sequence of Runner
        One for every size; they change in place.
    parts : sequence of ndarray of int
        Rows that each booster of a size has not seen; none: nothing is measured.
    stage : Stage
        Receives every round.
    of_all_rows : callable, optional
        From a size to its booster of all rows, which grows beside the others as soon as
        nobody else may lead: a tree beside five others costs half of one that grows
        alone.
    """
    going = [runner for runner in runners if not runner.is_done(limits)]
    while going:
        rounds = max(runner.n_rounds for runner in going)
        stage.at(rounds, limits.last, _told(runners, recipe.loss))
        boosters = [each for runner in going for each in runner.boosters]
        # Of both kinds at once: until one size of each is left, either may end.
        kinds = [runner.size.leaf for runner in going]
        if of_all_rows is not None and len(set(kinds)) == len(kinds):
            for kind in kinds:
                alike = [each for each in runners if each.size.leaf == kind]
                boosters += _beside(alike, of_all_rows)
        add_round(boosters, rows, schema, recipe)
        for runner in going:
            runner.note(rows, parts, recipe.loss, limits.n_rounds is not None)
        going = [runner for runner in going if not runner.is_done(limits)]
        if parts and limits.n_rounds is None:
            going = _with_hope(going, runners, limits.patience)


def _with_hope(
    going: Sequence[Runner], runners: Sequence[Runner], patience: int
) -> list[Runner]:
    """Select sizes that may still lead, or be the best with their kind of leaves."""
    measured = [runner for runner in runners if runner.errors]
    worst = _MOST_OF_OTHER_KIND * min(runner.least for runner in measured)
    found = []
    for runner in going:
        alike = [each.least for each in measured if each.size.leaf == runner.size.leaf]
        if not runner.hopeless(min(worst, *alike), patience):
            found.append(runner)
    return found


def leaders(runners: Sequence[Runner], limits: Limits) -> list[Runner]:
    """Best size of each kind of leaves, the best of all first.

    Constants without rounds are the mean of the target, to which a linear model shrinks
    anyway if nothing is explained: they do not lead.

    Parameters
    ----------
    runners : sequence of Runner
        After a race.

    Returns
    -------
    list of Runner
        The first runner alone, if nothing was measured.
    """

    def came_to(runner: Runner) -> float:
        return runner.least if limits.n_rounds is None else runner.errors[-1]

    measured = [each for each in runners if each.errors]
    worth = [each for each in measured if each.best_round or each.size.leaf == "linear"]
    best: dict[str, Runner] = {}
    for each in sorted(worth or measured, key=came_to):
        best.setdefault(each.size.leaf, each)
    return list(best.values()) or [runners[0]]


def _beside(
    runners: Sequence[Runner], of_all_rows: Callable[[TreeSize], Booster]
) -> list[Booster]:
    """Booster of all rows of the leading size, if it lacks a round."""
    leader = min(runners, key=lambda runner: min(runner.errors, default=np.inf))
    whole = of_all_rows(leader.size)
    # A leader that lags behind has not stopped: its best round may be yet to come.
    wanted = max(runner.n_rounds for runner in runners)
    return [whole] if len(whole.trees) <= wanted else []


def _told(runners: Sequence[Runner], loss: Loss) -> str:
    measured = [runner for runner in runners if runner.errors]
    if not measured:
        return ""
    best = min(measured, key=lambda runner: runner.least)
    squares = isinstance(loss, SquaredError)
    what = "of the variance unexplained" if squares else loss.error_name
    return f"{best.size}: {best.least:.4g} {what} in unseen rows"
