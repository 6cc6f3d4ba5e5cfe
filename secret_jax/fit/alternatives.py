"""What is tried beside a plan, and kept where rows that grew no tree err less.

- Logarithms of the target in place of sums (``loss="auto"``), by small trees of both.
- The leaf model of a plan without the regressors that harm.
- Class frequencies in place of log-odds (``leaf="auto"``): two whole trees race.
- Smaller leaves, where size has no price.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np

from secret_jax.data.rows import Rows
from secret_jax.data.schema import Role, TableSchema
from secret_jax.data.shards import RowShards
from secret_jax.data.validation import CheckedRows
from secret_jax.fit.early_stopping import Overtaken
from secret_jax.fit.interface import Candidate, Evidence, Fold
from secret_jax.fit.pipeline import Fit, chosen_rule, finish, grow_and_prune
from secret_jax.fit.plan import Plan
from secret_jax.fit.prepare import Prepared, prepare, with_units_of
from secret_jax.fit.prune.rules import CrossValidation
from secret_jax.fit.refine.distillation import mean_error, raw_predictions
from secret_jax.models.fitting import weighted_errors
from secret_jax.runtime.environment import each_once
from secret_jax.tree.routing import apply
from secret_jax.tree.structure import StopReason

# Share of the error that another fit must save.
_WORTH_IT = 0.01
# Logarithms: fewer rows cannot tell them from sums, nor can targets that vary by less
# than this factor, of which they are sums that are harder to read. More rows, and
# deeper trees, tell it no better.
_FEWEST, _LEAST_RANGE, _MOST, _DEPTH = 200, 1.5, 4096, 2
# Share of the error that logarithms must save, which are harder to read than sums.
_WORTH_LOGARITHMS = 0.05
# A few rows far from all others would decide by the squares of their errors alone:
# those beyond this quantile count as much as those at it.
_COUNTED = 0.98
# Share of the error that is known to be saved before a tree is grown again without
# regressors that harm: of small trees, as the terms of larger ones harm more. A smaller
# share of the target's variance is rounding.
_LEAST_HARM, _ROUNDING = 0.015, 1e-10
# Only the family of trees that leads by more than this share is grown again.
_CLEAR_LEAD = 0.02
# Share of the grown leaves that pruning keeps where growth has ended too early, and
# what ends growth and smaller leaves move: rows of a split and of a leaf, and gain in
# noise variances for each coefficient.
_MOST_KEPT = 0.7
_MOVED = StopReason.MIN_SAMPLES_SPLIT, StopReason.MIN_SAMPLES_LEAF, StopReason.MIN_GAIN
_SPLIT, _LEAF, _GAIN = 20, 5, 0.5


def fit_tree(plan: Plan, given: CheckedRows, eval_set: CheckedRows | None) -> Fit:
    """Grow, prune and finish a tree, by the plan or by an alternative that errs less.

    By rows that were held out, or by folds; without any there is no race.
    """
    with each_once():  # the same rows are read again for some trees
        data, chosen = prepare(plan, given, eval_set), plan
        alternative = plan.alternative_leaf
        if alternative and alternative.of_logarithms:
            every = [given] if eval_set is None else [given, eval_set]
            targets = np.concatenate([rows.targets[rows.weight > 0] for rows in every])
            lowest = targets.min(axis=0, initial=np.inf)
            chosen = with_better_scale(plan, data.schema, data.rows, lowest)
        if chosen is not plan:
            data = prepare(chosen, given, eval_set)
        best = _grown(chosen, data, given, eval_set)
        if alternative and not alternative.of_logarithms and best.fitted.folds:
            other = plan.with_alternative_leaf()
            other = grow_and_prune(other, prepare(other, given, eval_set))
            best = _lower_error(best, other)
        return finish(with_smaller_leaves(best))


def _lower_error(first: Fit, second: Fit) -> Fit:
    """Take the second fit if it saves a share of the error of the folds of both."""
    # Rows may have been divided once more for one of them.
    n_folds = min(len(each.fitted.folds) for each in (first, second))
    one, other = (
        mean_error((tree, unseen) for tree, _, unseen in each.fitted.folds[:n_folds])
        for each in (first, second)
    )
    return second if other < (1.0 - _WORTH_IT) * one else first


def with_better_scale(
    plan: Plan, schema: TableSchema, rows: Rows, lowest: np.ndarray
) -> Plan:
    """Same plan, or that of logarithms, if it has a choice and they err less.

    Prices and counts often change by shares: an equation of the logarithm says in one
    leaf what sums say in many. Its loss is that of Poisson, which predicts means as
    squared error does (Gourieroux, Monfort & Trognon 1984). But one interaction bends a
    line of either: the first splits have to be there before they can be compared.

    ``rows``: in units of the targets themselves, in an order without meaning; all or a
    sample; ``lowest`` (n_outputs,): least targets of all rows.
    """
    alternative, rows = plan.alternative_leaf, rows.take(slice(_MOST))
    if alternative is None or not alternative.of_logarithms:
        return plan
    # The least ones may have been rounded to zero on their way to units and back.
    targets = np.maximum(schema.restore_outputs(rows.targets), lowest)
    high = targets.max(axis=0)
    varies = (lowest > 0).all() and (high >= _LEAST_RANGE * targets.min(axis=0)).all()
    if not (varies and schema.n_regressors and rows.weight.sum() >= _FEWEST):
        return plan
    small = plan.variant(
        "sums or logarithms",
        max_depth=_DEPTH if plan.max_depth is None else min(plan.max_depth, _DEPTH),
        oblique=plan.oblique is True,
        prune=CrossValidation(n_folds=3, n_repeats=1),
    )
    of_sums, of_logarithms = (
        _squared_error(each, schema, rows, targets)
        for each in (small, small.with_alternative_leaf())
    )
    worth_it = of_logarithms < (1.0 - _WORTH_LOGARITHMS) * of_sums
    return plan.with_alternative_leaf() if worth_it else plan


def _squared_error(
    plan: Plan, schema: TableSchema, rows: Rows, targets: np.ndarray
) -> float:
    """Squared error of a plan's trees in unseen rows, in shares of the variances."""
    loss, scales = plan.leaf.loss, schema.target_scales
    schema = with_units_of(loss, schema, targets, rows.weight)
    rows = rows._replace(targets=schema.scale_targets(targets))
    squares, weights = [], []
    data = Prepared(schema, rows, 1.0, None, None, None)
    for tree, _, unseen in grow_and_prune(plan, data).fitted.folds:
        error = loss.prediction(raw_predictions(tree, unseen.table)) - unseen.targets
        error *= np.array(schema.target_scales) / scales
        squares.append(error**2)
        weights.append(unseen.weight)
    square, weight = np.concatenate(squares), np.concatenate(weights)
    most = [
        np.quantile(each, _COUNTED, weights=weight, method="inverted_cdf")
        for each in square.T
    ]
    return float((weight @ np.minimum(square, most)).sum())


def _grown(
    plan: Plan,
    data: Prepared,
    given: CheckedRows,
    eval_set: CheckedRows | None,
    most: float | None = None,
) -> Fit:
    """Grow and prune a tree, without the regressors that harm if it then errs less."""
    # A column that says nothing of the target still takes a coefficient in every leaf,
    # and splits have to earn it. It may still be split on. Which fit goes on is decided
    # when their trees are first compared, so that with folds only one of them is grown
    # to its end. One whose value by then is not less than ``most`` is `Overtaken`.
    rivals, schema = list[Fit](), data.schema

    def first_look(evidence: Evidence, candidates: Sequence[Candidate]) -> None:
        best, last = candidates[0], candidates[-1].pruned.value
        value = best.pruned.value
        if most is not None and value >= most:
            raise Overtaken
        harmful = _harmful(schema, evidence.folds(best.pruned))
        if not harmful:
            return
        some = harmful[0] if len(harmful) == 1 else f"{len(harmful)} columns"
        split = [schema.names[i] for i in schema.of_role(Role.SPLIT)]
        leads = last - value > _CLEAR_LEAD * abs(value)
        other = plan.variant(
            f"equations without {some}",
            columns=replace(plan.columns, split_features=split + harmful),
            oblique=best.oblique if leads else plan.oblique,
        )
        less, rows = value - _WORTH_IT * abs(value), prepare(other, given, eval_set)
        with suppress(Overtaken):
            rivals.append(_grown(other, rows, given, eval_set, less))
        if rivals:
            raise Overtaken

    # Rows that lie on devices stay there, as they are.
    lie = isinstance(getattr(data.source, "columns", None), RowShards)
    stay = lie or not plan.leaf.drops_regressors
    try:
        return grow_and_prune(plan, data, first_look=None if stay else first_look)
    except Overtaken:
        if not rivals:
            raise
        return rivals[0]


def _harmful(schema: TableSchema, folds: Sequence[Fold]) -> list[str]:
    """Names of the regressors without whose terms the folds err less, all together."""
    n_columns = schema.n_regressors - schema.n_indicators
    if not folds or n_columns < 2:
        return []
    gaps = [pair for pair in schema.missing_columns if pair[1] < schema.n_regressors]
    of_folds = [loss_without(fold) for fold in folds]

    def error(columns: Sequence[int]) -> float:
        # Indicators of missing values go with their columns.
        indicators = [i for column, i in gaps if column in columns]
        return sum(loss([*columns, *indicators]) for loss in of_folds)

    whole = error([])
    if whole <= _ROUNDING * sum(float(fold.held_out.weight.sum()) for fold in folds):
        return []
    errors = np.array([error([column]) for column in range(n_columns)])
    found = np.flatnonzero(errors <= whole).tolist()
    if len(found) == n_columns:  # one is left
        found.remove(int(errors.argmax()))
    if error(found) > (1.0 - _LEAST_HARM) * whole:
        return []
    return [schema.names[schema.input_columns[column]] for column in found]


def loss_without(fold: Fold) -> Callable[[Sequence[int]], float]:
    """Total loss of a fold's unseen rows, some columns at their means in the leaves."""
    tree, rows = fold.tree, fold.held_out
    leaf, slope = apply(tree, rows.table), tree.coefficient[..., 1:]
    x = rows.table.on_host().x[:, : slope.shape[2]]
    off = x.astype(np.float64) - tree.center[leaf]
    level = tree.coefficient[..., 0] + np.einsum("noi,ni->no", slope, tree.center)
    terms = [slope[leaf, :, i] * off[:, i, None] for i in range(x.shape[1])]
    whole = level[leaf] + sum(terms)
    ends = [end[leaf] for end in tree.clip_range()]

    def loss(columns: Sequence[int]) -> float:
        value = np.clip(whole - sum(terms[column] for column in columns), *ends)
        return float(weighted_errors(value, rows, tree.loss).sum())

    return loss


def with_smaller_leaves(first: Fit) -> Fit:
    """Grow a tree with smaller leaves where pruning has kept most of it.

    Least rows and gains spare searches whose splits pruning would take back. Where size
    has no price, on tables of many small regions, as calendars, it takes back none:
    then it shall choose among more. Limits that are given hold.
    """
    plan, data, fitted, _ = first
    limits = plan.min_samples_split, plan.min_samples_leaf, plan.splits.min_gain
    if plan.pruning_tolerance or not all(isinstance(limit, str) for limit in limits):
        return first
    # Rows beyond a sample would be read once more, and its folds do not have them.
    folded = isinstance(chosen_rule(plan, data), CrossValidation) and fitted.folds
    if not folded or data.sampled_share < 1.0:
        return first
    best = fitted.candidates[0]
    grown, pruned = best.trees[0], best.pruned.tree
    # Leaves that there would be without the splits that the user has fixed.
    n_grown, n_kept = (t.n_leaves - np.isinf(t.gain).sum() for t in (grown, pruned))
    moved = np.isin(grown.stop_reason[grown.is_leaf], _MOVED).any()
    if n_grown == 1 or n_kept < _MOST_KEPT * n_grown or not moved:
        return first
    smaller = plan.variant(
        "smaller leaves",
        min_samples_split=_SPLIT,
        min_samples_leaf=_LEAF,
        splits=replace(plan.splits, min_gain=_GAIN),
        distill=None,  # points between rows blur small regions
    )
    return _lower_error(first, grow_and_prune(smaller, data))
