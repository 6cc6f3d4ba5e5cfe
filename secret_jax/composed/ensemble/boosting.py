"""Boosters of a fit: one for each fold, and one of all rows, grown side by side."""

from typing import NamedTuple

import numpy as np

from secret_jax.composed.ensemble.growth import (
    Booster,
    BoostOptions,
    add_round,
    total_error,
)
from secret_jax.composed.ensemble.model import Ensemble
from secret_jax.data.rows import Rows, join
from secret_jax.data.schema import TableSchema
from secret_jax.fit.prepare import parts_of
from secret_jax.losses.interface import Loss
from secret_jax.runtime.progress import Stage

# Maximum number of rows for folds; with more one part is held out, and none averaged.
MOST_FOLDED = 1 << 15
_HELD_OUT_FOLDS = 10


class Boosted(NamedTuple):
    """Result of a fit of boosters."""

    ensemble: Ensemble
    # Ensembles that have each not seen a part of the rows, and masks (n_rows,) of these
    # parts, if any.
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
    parts = _parts(options, rows, others)
    every_row = rows if others is None else join([rows, others])
    held_out = [*parts, np.arange(rows.n_rows, every_row.n_rows)]
    if len(parts) == 1:  # one part says when to stop, and no booster has all rows
        held_out, parts = parts, []
    boosters = [
        Booster(
            key=key,
            training=np.setdiff1d(np.arange(rows.n_rows), part),
            held_out=part,
            prediction=np.zeros(every_row.targets.shape),
        )
        for key, part in enumerate(held_out)
    ]
    judged = [booster for booster in boosters if len(booster.held_out)]
    stops = options.early_stopping
    errors, best, predictions = list[float](), 0, list[np.ndarray]()
    for number in range(1 + options.max_iter):
        known = number and judged
        detail = f"error {errors[best]:.4g} in unseen rows" if known else ""
        stage.at(number, options.max_iter, detail)
        add_round(boosters, every_row, schema, options)
        errors.append(_error(judged, every_row, options.loss))
        if number == 0 or not stops or errors[-1] < errors[best]:
            best, predictions = number, [each.prediction for each in boosters]
        # Without held-out rows nothing says when to stop: the first model is kept.
        if stops and (not judged or number - best >= options.n_iter_no_change):
            break
    unseen = np.empty_like(rows.targets)
    for part, prediction in zip(parts, predictions, strict=False):
        unseen[part] = prediction[part]

    def ensemble(members: list[Booster]) -> Ensemble:
        trees = [each.trees[: 1 + best] for each in members]
        return Ensemble(trees, options.learning_rate)

    return Boosted(
        ensemble=ensemble(boosters if options.ensemble else boosters[-1:]),
        folds=[ensemble([booster]) for booster in boosters[: len(parts)]],
        parts=[np.isin(np.arange(rows.n_rows), part) for part in parts],
        unseen=unseen if parts else None,
        errors=np.array(errors if judged else []),
    )


def _parts(options: BoostOptions, rows: Rows, others: Rows | None) -> list[np.ndarray]:
    """Rows that are each held out of a booster; one part if there are very many."""
    many = rows.n_rows > MOST_FOLDED
    needless = not options.early_stopping and (many or not options.ensemble)
    if others is not None or needless:
        return []
    n_folds = _HELD_OUT_FOLDS if many else options.n_folds
    masks = parts_of(rows.weight, n_folds, group=rows.group)
    return [np.flatnonzero(mask) for mask in (masks[:1] if many else masks)]


def _error(judged: list[Booster], rows: Rows, loss: Loss) -> float:
    """Mean loss of boosters on the rows that each has not seen; NaN without any."""
    lost = weight = 0.0
    for each in judged:
        unseen = rows.take(each.held_out)
        lost += total_error(loss, unseen, each.prediction[each.held_out])
        weight += float(unseen.weight.sum())
    return lost / weight if judged else np.nan
