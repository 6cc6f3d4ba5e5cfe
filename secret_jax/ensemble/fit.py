"""Fit boosters that leave out folds, and one on all rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from secret_jax.data.rows import Rows, join
from secret_jax.data.schema import TableSchema
from secret_jax.ensemble.mixture import Mixture, mixed
from secret_jax.ensemble.model import Ensemble, booster_values
from secret_jax.ensemble.options import TreeRecipe, TreeSize
from secret_jax.ensemble.race import Limits, Runner, leaders, race
from secret_jax.ensemble.rounds import Booster, add_round, new_booster
from secret_jax.prune.cross_validation import parts_of
from secret_jax.runtime.progress import Progress, Stage, silent
from secret_jax.tree.structure import Tree

# Maximum number of rows for folds; with more one part is held out, and none averaged.
MOST_FOLDED = 1 << 15
_HELD_OUT_FOLDS = 10


@dataclass(frozen=True, kw_only=True)
class BoostPlan:
    """Plan of a fit of boosters.

    Attributes
    ----------
    sizes : tuple of TreeSize
        Sizes to choose from.
    average : bool
        Whether the boosters of the folds are part of the model.
    progress : callable
    """

    sizes: tuple[TreeSize, ...]
    recipe: TreeRecipe
    limits: Limits
    n_folds: int = 5
    average: bool = True
    progress: Progress = silent


@dataclass(frozen=True, eq=False, kw_only=True)
class Member:
    """Boosters of one size, as a part of the model.

    Attributes
    ----------
    share : float
        Weight in the prediction.
    folds : tuple of tuple of Tree
        Boosters that have each not seen a part of the rows, if there are any.
    whole : tuple of Tree or None
        The booster of all rows; None if the fit was interrupted before.
    errors : tuple of float
        Mean loss on unseen rows after each round (squared errors in units of the
        variance of the targets); empty if nothing was left out.
    """

    size: TreeSize
    share: float
    folds: tuple[tuple[Tree, ...], ...]
    whole: tuple[Tree, ...] | None
    errors: tuple[float, ...]

    @property
    def n_rounds(self) -> int:
        """Number of rounds of the boosters, not counting the first tree."""
        return len(self.whole or self.folds[0]) - 1


@dataclass(frozen=True, eq=False, kw_only=True)
class Boosted:
    """Result of a fit of boosters.

    Attributes
    ----------
    members : tuple of Member
        Members of one size, or of two that predict together; the first one leads.
    average : bool
        Whether the boosters of the folds are part of the model.
    sizes : tuple of (TreeSize, float)
        Sizes that raced, and the least error of each.
    unseen : ndarray of shape (n_rows, n_outputs), float64, or None
        Predictions of all members for rows that their boosters have not seen; NaN
        where there are no such boosters.
    error : float
        Mean loss of that; NaN if nothing was left out.
    """

    members: tuple[Member, ...]
    learning_rate: float
    average: bool
    sizes: tuple[tuple[TreeSize, float], ...]
    unseen: np.ndarray | None
    error: float

    @property
    def n_rounds(self) -> int:
        """Number of rounds of the longest booster, not counting its first tree."""
        return max(member.n_rounds for member in self.members)

    @property
    def n_folds(self) -> int:
        """Number of folds that boosters left out."""
        return len(self.members[0].folds)

    @property
    def ensemble(self) -> Ensemble:
        """Ensemble that predicts; after an interruption, of the boosters there are."""
        boosters, shares = [], []
        for each in self.members:
            own = list(each.folds) if self.average or each.whole is None else []
            own += [each.whole] if each.whole else []
            boosters += own
            shares += [each.share / len(own)] * len(own)
        size = self.members[0].size
        return Ensemble.of(boosters, self.learning_rate, size, shares)

    def of_fold(self, which: int) -> Ensemble:
        """Ensemble of the boosters that have not seen a fold."""
        return Ensemble.of(
            [each.folds[which] for each in self.members],
            self.learning_rate,
            self.members[0].size,
            [each.share for each in self.members],
        )


class Interrupted(KeyboardInterrupt):
    """Exception that carries the state of an interrupted fit.

    Parameters
    ----------
    so_far : Boosted or None
        Its rounds until then; None before the first.
    """

    def __init__(self, so_far: Boosted | None):
        super().__init__()
        self.so_far = so_far


def boost(
    plan: BoostPlan,
    rows: Rows,
    schema: TableSchema,
    others: Rows | None = None,
    so_far: Boosted | None = None,
) -> Boosted:
    """Grow boosters together, and choose their size and number of rounds.

    Parameters
    ----------
    rows : Rows
        In hash order.
    others : Rows, optional
        Rows for early stopping, in place of folds.
    so_far : Boosted, optional
        Earlier fit of the same rows, to continue.

    Raises
    ------
    Interrupted
    """
    n_rows = rows.n_rows
    every = np.arange(n_rows)
    if others is not None:
        parts, training = [n_rows + np.arange(others.n_rows)], [every]
        rows = join([rows, others])
    else:
        unseen = _unseen(plan, n_rows, rows.weight)
        parts = [every[part] for part in unseen]
        training = [every[~part] for part in unseen] or [every]
    folded = others is None and len(parts) > 0
    if so_far is None:
        runners = [_runner(size, training, rows) for size in plan.sizes]
    else:
        runners = [
            _going_on(so_far, member, folded, training, rows, parts)
            for member in so_far.members
        ]
    stage = Stage("boosting", plan.progress)
    wholes: dict[TreeSize, Booster] = {}

    def of_all_rows(size: TreeSize) -> Booster:
        if size not in wholes:
            wholes[size] = _whole(plan, size, rows, so_far)
        return wholes[size]

    recipe, limits = plan.recipe, plan.limits

    def rounds_of(runner: Runner) -> int:
        if limits.n_rounds is not None:
            return runner.n_rounds
        return runner.best_round if parts else 0  # there is no estimate

    beside = of_all_rows if folded else None
    try:
        race(runners, rows, parts, schema, recipe, limits, stage, beside)
        mixture = mixed(leaders(runners, limits), rows, recipe.loss)
        found = []
        for runner in mixture.runners:
            n_rounds = rounds_of(runner)
            whole = runner.boosters[0].trees[: 1 + n_rounds]
            if folded:
                booster = of_all_rows(runner.size)
                whole = _grown_to(n_rounds, booster, plan, rows, schema)
            found.append((runner, n_rounds, whole))
    except KeyboardInterrupt:
        started = [runner for runner in runners if runner.boosters[0].trees]
        if not started:
            raise Interrupted(None) from None
        mixture = mixed(leaders(started, limits), rows, recipe.loss)
        found = []
        for runner in mixture.runners:
            n_rounds = rounds_of(runner) if parts else runner.n_rounds
            booster = wholes.get(runner.size) if folded else runner.boosters[0]
            whole = None
            if booster is not None and len(booster.trees) > n_rounds:
                whole = booster.trees[: 1 + n_rounds]
            found.append((runner, n_rounds, whole))
        so_far = _boosted(plan, runners, mixture, found, folded)
        raise Interrupted(so_far) from None
    return _boosted(plan, runners, mixture, found, folded)


def _boosted(
    plan: BoostPlan,
    runners: Sequence[Runner],
    mixture: Mixture,
    found: Sequence[tuple[Runner, int, Sequence[Tree] | None]],
    folded: bool,
) -> Boosted:
    """Build the result from each member's runner, rounds and booster of all rows."""
    members = []
    for (runner, n_rounds, whole), share in zip(found, mixture.shares, strict=True):
        kept = runner.boosters if folded else []
        members.append(
            Member(
                size=runner.size,
                share=share,
                folds=tuple(tuple(each.trees[: 1 + n_rounds]) for each in kept),
                whole=None if whole is None else tuple(whole),
                errors=tuple(runner.errors),
            )
        )
    return Boosted(
        members=tuple(members),
        learning_rate=plan.recipe.learning_rate,
        average=plan.average and len(members[0].folds) > 1,
        sizes=tuple((each.size, each.least) for each in runners if each.errors),
        unseen=mixture.unseen if folded else None,
        error=mixture.error,
    )


def _runner(size: TreeSize, training: Sequence[np.ndarray], rows: Rows) -> Runner:
    boosters = [new_booster(size, key, own, rows) for key, own in enumerate(training)]
    return Runner(size=size, boosters=boosters)


def _going_on(
    so_far: Boosted,
    member: Member,
    folded: bool,
    training: Sequence[np.ndarray],
    rows: Rows,
    parts: Sequence[np.ndarray],
) -> Runner:
    """Make a runner that continues the boosters of an earlier fit."""
    before = member.folds if folded else (member.whole,)
    if len(before) != len(training) or not all(before):
        raise ValueError(
            "warm_start goes on with the boosters of the last fit, but the last fit "
            f"had {len(before)} of them, and these rows and parameters ask for "
            f"{len(training)}. Fit with the same rows, n_folds and average, or set "
            "warm_start=False."
        )
    runner = _runner(member.size, training, rows)
    for each, trees in zip(runner.boosters, before, strict=True):
        each.trees = list(trees or ())
        each.prediction = booster_values(each.trees, so_far.learning_rate, rows.table)
    runner.errors = list(member.errors[: 1 + member.n_rounds])
    runner.best_round = member.n_rounds
    if parts:
        runner.look(rows, parts)
    return runner


def _unseen(plan: BoostPlan, n_rows: int, weight: np.ndarray) -> list[np.ndarray]:
    """Masks of the rows that each booster leaves out."""
    decided = plan.limits.n_rounds is not None and len(plan.sizes) == 1
    if n_rows > MOST_FOLDED:
        return [] if decided else parts_of(weight, _HELD_OUT_FOLDS)[:1]
    if decided and not plan.average:
        return []
    return parts_of(weight, plan.n_folds)


def _whole(
    plan: BoostPlan, size: TreeSize, rows: Rows, so_far: Boosted | None
) -> Booster:
    """Make the booster of all rows, with the trees of an earlier fit if any."""
    booster = new_booster(size, plan.n_folds, np.arange(rows.n_rows), rows)
    members = () if so_far is None else so_far.members
    old = [trees for each in members if each.size == size for trees in each.whole or ()]
    if so_far is not None and old:
        booster.trees = old
        booster.prediction = booster_values(old, so_far.learning_rate, rows.table)
    return booster


def _grown_to(
    n_rounds: int, booster: Booster, plan: BoostPlan, rows: Rows, schema: TableSchema
) -> list[Tree]:
    """Trees of a booster up to a round; missing ones are grown."""
    stage = Stage("boosting on all rows", plan.progress)
    for done in range(len(booster.trees), 1 + n_rounds):
        stage.at(done, 1 + n_rounds)
        add_round([booster], rows, schema, plan.recipe)
    return booster.trees[: 1 + n_rounds]
