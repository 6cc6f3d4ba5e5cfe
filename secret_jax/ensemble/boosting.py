"""Boosters of a fit: one for each fold, and one of all rows, grown side by side."""

from typing import NamedTuple

import numpy as np

from secret_jax.data.rows import Rows, join
from secret_jax.data.schema import TableSchema
from secret_jax.ensemble.growth import (
    Booster,
    BoostOptions,
    add_round,
    total_error,
)
from secret_jax.ensemble.model import Ensemble
from secret_jax.fit.prune.cross_validation import parts_of
from secret_jax.losses.interface import Loss
from secret_jax.runtime.progress import Stage

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


def boosted(
    options: BoostOptions,
    rows: Rows,
    schema: TableSchema,
    others: Rows | None,
    stage: Stage,
) -> Boosted:
    """Grow boosters, until their errors on held-out rows rise if they stop early.

    ``rows``: in hash order; ``others``: rows to hold out in place of folds.
    """
    folds, whole = _begun(options, rows, others)
    rows = rows if others is None else join([rows, others])
    boosters, stops = [*folds, whole], options.early_stopping
    judged = [each for each in boosters if len(each.held_out)]
    errors, best, said = list[float](), 0, list[np.ndarray]()
    for number in range(1 + options.max_iter):
        told = f"error {errors[best]:.4g} in unseen rows" if number and judged else ""
        stage.at(number, options.max_iter, told)
        add_round(boosters, rows, schema, options)
        errors.append(_error(judged, rows, options.loss))
        if number == 0 or not stops or errors[-1] < errors[best]:
            best, said = number, [each.prediction for each in folds]
        # Without held-out rows nothing says when to stop: the first model is kept.
        if stops and (not judged or number - best >= options.n_iter_no_change):
            break
    unseen = np.empty_like(rows.targets)
    for each, value in zip(folds, said, strict=True):
        unseen[each.held_out] = value[each.held_out]
    members = boosters if options.ensemble else [whole]
    return Boosted(
        ensemble=_ensemble(members, best, options),
        folds=[_ensemble([each], best, options) for each in folds],
        parts=[each.held_out for each in folds],
        unseen=unseen if folds else None,
        errors=np.array(errors if judged else []),
    )


def _error(judged: list[Booster], rows: Rows, loss: Loss) -> float:
    """Mean loss of boosters on the rows that each has not seen; NaN without any."""
    lost = weight = 0.0
    for each in judged:
        unseen = rows.take(each.held_out)
        lost += total_error(loss, unseen, each.prediction[each.held_out])
        weight += float(unseen.weight.sum())
    return lost / weight if judged else np.nan


def _begun(
    options: BoostOptions, rows: Rows, others: Rows | None
) -> tuple[list[Booster], Booster]:
    """Boosters of the folds, and the one that no fold is held out of."""

    def booster(key: int, held_out: np.ndarray) -> Booster:
        n_others = 0 if others is None else others.n_rows
        return Booster(
            key=key,
            training=np.setdiff1d(np.arange(rows.n_rows), held_out),
            held_out=held_out,
            prediction=np.zeros((rows.n_rows + n_others, rows.targets.shape[1])),
        )

    nothing = np.arange(0)
    if others is not None:
        return [], booster(0, rows.n_rows + np.arange(others.n_rows))
    many, stops = rows.n_rows > MOST_FOLDED, options.early_stopping
    if not stops and (many or not options.ensemble):
        return [], booster(0, nothing)
    n_folds = _HELD_OUT_FOLDS if many else options.n_folds
    masks = parts_of(rows.weight, n_folds, group=rows.group)
    parts = [np.flatnonzero(mask) for mask in masks]
    if many:
        return [], booster(0, parts[0])
    folds = [booster(*fold) for fold in enumerate(parts)]
    return folds, booster(len(folds), nothing)


def _ensemble(
    boosters: list[Booster], n_rounds: int, options: BoostOptions
) -> Ensemble:
    trees = [each.trees[: 1 + n_rounds] for each in boosters]
    return Ensemble.of(trees, options.learning_rate)
