"""From rows to an ensemble: boosters that leave out folds, and one of all rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from secret_jax.boost.model import Ensemble, booster_values, ensemble_of
from secret_jax.boost.options import TreeRecipe, TreeSize
from secret_jax.boost.race import Limits, Runner, race
from secret_jax.boost.rounds import Booster, add_round, new_booster
from secret_jax.data.rows import Rows, join
from secret_jax.data.schema import TableSchema
from secret_jax.prune.cross_validation import parts_of
from secret_jax.runtime.progress import Progress, Stage, silent
from secret_jax.tree.structure import Tree

# Of more rows one part is held out in place of folds, and nothing is averaged.
MOST_FOLDED = 1 << 15
_HELD_OUT_FOLDS = 10


@dataclass(frozen=True, kw_only=True)
class BoostPlan:
    """What a fit is to do.

    Attributes
    ----------
    sizes : tuple of TreeSize
        Of which one is chosen.
    recipe : TreeRecipe
    limits : Limits
    n_folds : int
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
class Boosted:
    """What a fit came to.

    Attributes
    ----------
    folds : tuple of tuple of Tree
        Boosters that have each not seen a part of the rows, if there are any.
    whole : tuple of Tree or None
        The booster of all rows; None if the fit was interrupted before.
    size : TreeSize
    learning_rate : float
    average : bool
        Whether the boosters of the folds are part of the model.
    errors : tuple of float
        Mean loss on unseen rows after each round (squared errors in units of the
        variance of the targets); empty if nothing was left out.
    sizes : tuple of (TreeSize, float)
        Sizes that raced, and the least error of each.
    unseen : ndarray of shape (n_rows, n_outputs), float64, or None
        What boosters that have not seen a row predict for it; NaN where there is none.
    """

    folds: tuple[tuple[Tree, ...], ...]
    whole: tuple[Tree, ...] | None
    size: TreeSize
    learning_rate: float
    average: bool
    errors: tuple[float, ...]
    sizes: tuple[tuple[TreeSize, float], ...]
    unseen: np.ndarray | None

    @property
    def n_rounds(self) -> int:
        """Trees of a booster, the first one not counted."""
        return len(self.whole or self.folds[0]) - 1

    @property
    def ensemble(self) -> Ensemble:
        """The model; if it was interrupted, the boosters that there are."""
        members = list(self.folds) if self.average or self.whole is None else []
        members += [self.whole] if self.whole else []
        return ensemble_of(members, self.learning_rate, self.size)


class Interrupted(KeyboardInterrupt):
    """A fit was interrupted.

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
    """Grow boosters side by side, and choose their size and their rounds.

    Parameters
    ----------
    plan : BoostPlan
    rows : Rows
        Distinct, in hash order.
    schema : TableSchema
    others : Rows, optional
        Rows that say when to stop, in place of folds.
    so_far : Boosted, optional
        Of the same rows, to go on with.

    Returns
    -------
    Boosted

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
        before = so_far.folds if folded else (so_far.whole,)
        runners = [_going_on(so_far, before, training, rows, plan)]
    stage = Stage("boosting", plan.progress)
    wholes: dict[TreeSize, Booster] = {}

    def of_all_rows(size: TreeSize) -> Booster:
        if size not in wholes:
            old = () if so_far is None else so_far.whole or ()
            wholes[size] = _whole(plan, size, rows, old)
        return wholes[size]

    try:
        best = race(
            runners,
            rows,
            parts,
            schema,
            plan.recipe,
            plan.limits,
            stage,
            of_all_rows if folded else None,
        )
        n_rounds = best.best_round if plan.limits.n_rounds is None else best.n_rounds
        if not parts and plan.limits.n_rounds is None:
            n_rounds = 0  # nobody can tell
        whole = best.boosters[0].trees[: 1 + n_rounds]
        if folded:
            whole = _grown_to(n_rounds, of_all_rows(best.size), plan, rows, schema)
    except KeyboardInterrupt:
        started = [runner for runner in runners if runner.boosters[0].trees]
        if not started:
            raise Interrupted(None) from None
        best = min(started, key=lambda runner: min(runner.errors, default=np.inf))
        at = best.best_round if best.errors else best.n_rounds
        whole = None if folded else best.boosters[0].trees[: 1 + at]
        raise Interrupted(_boosted(plan, runners, best, at, folded, whole)) from None
    return _boosted(plan, runners, best, n_rounds, folded, whole)


def _boosted(
    plan: BoostPlan,
    runners: Sequence[Runner],
    best: Runner,
    n_rounds: int,
    folded: bool,
    whole: Sequence[Tree] | None,
) -> Boosted:
    kept = best.boosters if folded else []
    return Boosted(
        folds=tuple(tuple(each.trees[: 1 + n_rounds]) for each in kept),
        whole=None if whole is None else tuple(whole),
        size=best.size,
        learning_rate=plan.recipe.learning_rate,
        average=plan.average and len(kept) > 1,
        errors=tuple(best.errors),
        sizes=tuple((each.size, each.least) for each in runners if each.errors),
        unseen=best.unseen if folded else None,
    )


def _runner(size: TreeSize, training: Sequence[np.ndarray], rows: Rows) -> Runner:
    boosters = [new_booster(size, key, own, rows) for key, own in enumerate(training)]
    return Runner(size=size, boosters=boosters)


def _going_on(
    so_far: Boosted,
    before: Sequence[Sequence[Tree] | None],
    training: Sequence[np.ndarray],
    rows: Rows,
    plan: BoostPlan,
) -> Runner:
    """A runner with the boosters of an earlier fit."""
    if len(before) != len(training) or not all(before):
        raise ValueError(
            "warm_start goes on with the boosters of the last fit, but the last fit "
            f"had {len(before)} of them, and these rows and parameters ask for "
            f"{len(training)}. Fit with the same rows, n_folds and average, or set "
            "warm_start=False."
        )
    runner = _runner(so_far.size, training, rows)
    rate = plan.recipe.learning_rate
    for each, trees in zip(runner.boosters, before, strict=True):
        each.trees = list(trees or ())
        each.prediction = booster_values(each.trees, rate, rows.table)
    runner.errors = list(so_far.errors[: 1 + so_far.n_rounds])
    runner.best_round, runner.unseen = so_far.n_rounds, so_far.unseen
    return runner


def _unseen(plan: BoostPlan, n_rows: int, weight: np.ndarray) -> list[np.ndarray]:
    """Masks of the rows that each booster leaves out."""
    decided = plan.limits.n_rounds is not None and len(plan.sizes) == 1
    if n_rows > MOST_FOLDED:
        return [] if decided else parts_of(weight, _HELD_OUT_FOLDS)[:1]
    if decided and not plan.average:
        return []
    return parts_of(weight, plan.n_folds)


def _whole(plan: BoostPlan, size: TreeSize, rows: Rows, old: Sequence[Tree]) -> Booster:
    """The booster of all rows, with the trees of an earlier fit."""
    booster = new_booster(size, plan.n_folds, np.arange(rows.n_rows), rows)
    booster.trees = list(old)
    if old:
        rate = plan.recipe.learning_rate
        booster.prediction = booster_values(booster.trees, rate, rows.table)
    return booster


def _grown_to(
    n_rounds: int, booster: Booster, plan: BoostPlan, rows: Rows, schema: TableSchema
) -> list[Tree]:
    """The trees of a booster after so many rounds; those that it lacks are grown."""
    stage = Stage("boosting on all rows", plan.progress)
    for done in range(len(booster.trees), 1 + n_rounds):
        stage.at(done, 1 + n_rounds)
        add_round([booster], rows, schema, plan.recipe)
    return booster.trees[: 1 + n_rounds]
