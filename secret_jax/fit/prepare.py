"""Read, measure, sample and divide the rows that grow and prune a tree."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from secret_jax.data.columns import read_columns
from secret_jax.data.encoding import RowSource, TableSource, matched
from secret_jax.data.learning import Learner
from secret_jax.data.rows import Rows, every_copy, hold_out, join, merged
from secret_jax.data.scaling import (
    ColumnSums,
    column_sums,
    moments_of,
    with_flat_tails,
)
from secret_jax.data.schema import TableSchema
from secret_jax.data.shards import RowShards, as_they_lie
from secret_jax.data.validation import CheckedRows, of_eval_set
from secret_jax.fit.grow.fixed import columns_of_fixed
from secret_jax.fit.grow.frontier import ROUNDING
from secret_jax.fit.interface import Evidence, PruningRule
from secret_jax.fit.plan import Plan
from secret_jax.fit.useful import are_many, with_useful_columns
from secret_jax.losses.classes import ClassLoss
from secret_jax.losses.interface import Loss
from secret_jax.runtime.devices import is_out_of_memory, on_accelerator
from secret_jax.runtime.progress import Stage

# A tree is grown and pruned on this number of node samples, or on this share of the
# rows: the 32 largest nodes then have full samples, and deeper ones smaller ones.
_NODE_SAMPLES = 32
_SAMPLED_SHARE = 1 / 32
# Maximum number of sampled rows: 500 for each leaf of a tree with a thousand leaves.
MOST_SAMPLED = 1 << 19
# Fewer rows are put in order more quickly on the host. Of so many the first ones are
# read there to see whether a column is the target.
_MANY_ROWS, _LOOKED_AT = 1 << 16, 64


class Prepared(NamedTuple):
    """Rows for growing and pruning, with the sources of all rows."""

    schema: TableSchema
    rows: Rows  # in the order of their hashes, copies interleaved: all, or a sample
    # Share of the weight of all training rows that ``rows`` hold: 1 but for a sample.
    sampled_share: float
    # All training rows, where ``rows`` or ``prune_rows`` are a sample.
    source: RowSource | None
    prune_rows: Rows | None  # rows of ``eval_set``, or a sample of them
    prune_source: Rows | None  # all of ``eval_set``
    share_that_differs: float = 1.0  # of all rows: the others are copies


def prepare(plan: Plan, given: CheckedRows, eval_set: CheckedRows | None) -> Prepared:
    """Read and measure the rows, and draw a sample if there are very many."""
    Stage("reading the columns", plan.progress).at()
    if eval_set is None and (found := _in_order_there(plan, given)) is not None:
        return Prepared(*found, 1.0, None, None, None)
    schema, source, others = read_rows(plan, given, eval_set)
    sources = [source.grouped()] if others is None else [source, others]
    rows = [each.sample(enough_rows(plan, each.n_rows)) for each in sources]
    shares = list(map(share_of, rows, sources))
    every_row = source if min(shares) < 1.0 else None
    prune_rows = None if others is None else rows[1]
    differ = share_that_differs(sources)
    return Prepared(schema, rows[0], shares[0], every_row, prune_rows, others, differ)


def share_of(rows: Rows, source: RowSource) -> float:
    """Share of a source's total weight in a sample; 1 up to rounding."""
    share = rows.total_weight / source.total_weight
    return share if share < 1.0 - ROUNDING else 1.0


def share_that_differs(several: Sequence[Rows | TableSource]) -> float:
    """Share of rows as given that are left when copies of observations are left out."""
    n_given = [np.sum(each.n_given) for each in several]
    return sum(each.n_rows for each in several) / float(sum(n_given))


def enough_rows(plan: Plan, n_rows: int) -> int:
    """Number of rows to sample for growing and pruning a tree."""
    if plan.splits.max_samples is None:
        return every_copy(n_rows)
    share = min(int(_SAMPLED_SHARE * n_rows), MOST_SAMPLED)
    return max(_NODE_SAMPLES * plan.splits.max_samples, share)


def read_rows(
    plan: Plan, given: CheckedRows, eval_set: CheckedRows | None = None
) -> tuple[TableSchema, TableSource, Rows | None]:
    """Learn the schema and make the sources of the rows and of ``eval_set``.

    If the rows of ``eval_set`` also train, the schema is learned from both. Rows stay
    on their device if that is worthwhile.
    """
    source, learner = _where_they_lie(plan, given) or _in_memory(plan, given, eval_set)
    several = [source]
    if eval_set is not None:
        with of_eval_set():
            several.append(_matched(source.schema, eval_set))
    several, factor = _observed(several, [enough_rows(plan, source.n_rows), None])
    if factor != 1.0:
        source = replace(several[0], schema=learner.schema(factor))
    index = source.below(enough_rows(plan, source.n_rows))
    schema = scaled_schema(plan.leaf.loss, source, index, plan.columns.tail_share)
    source, *others = (replace(each, schema=schema) for each in [source, *several[1:]])
    if not others:
        return schema, source, None
    with of_eval_set():
        return schema, source, others[0].take(None)


def _in_order_there(plan: Plan, given: CheckedRows) -> tuple[TableSchema, Rows] | None:
    """Leave rows of an accelerator there, if all of them grow the tree.

    None: they are few, are not plain numbers, repeat each other or tell the target;
    the host would sort all columns for the bounds of tails; or the memory is too small.
    """
    n_rows = len(given.weight)
    every = _MANY_ROWS <= n_rows <= enough_rows(plan, n_rows)
    every = every and not plan.columns.tail_share
    if not (every and plan.splits.compiled and on_accelerator()):
        return None
    found = _lying(plan, given)
    if found is None or len(found[0].parts) > 1:
        return None
    shards, learner = found
    few, targets = shards.take(np.arange(_LOOKED_AT)), given.targets[:_LOOKED_AT]
    tells = any((each[:, None] == targets).all(axis=0).any() for each in few.values)
    if tells or are_many(learner.attributes, n_rows):
        return None
    try:
        if (source := _measured_there(shards, learner, given)) is None:
            return None
        schema = scaled_schema(plan.leaf.loss, source, None, 0.0)
        rows = shards.in_hash_order(schema, given.targets, given.weight)
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        return None
    return None if rows is None else (schema, rows)


def rows_for(schema: TableSchema, given: CheckedRows) -> TableSource:
    """Read rows for a schema on the host, without rows of weight zero or copies."""
    (found,), _ = _observed([_matched(schema, given)], [None])
    return found


def _observed(
    several: list[Any], enough: Sequence[int | None]
) -> tuple[list[Any], float]:
    """Leave out copies, and scale weights to a mean of one; also by which factor."""
    pairs = zip(several, enough, strict=False)  # numbers of rows that are a sample
    found = [rows.observed(few or rows.n_rows) for rows, few in pairs]
    factor = sum(each.n_rows for each in found) / sum(each.n_rows for each in several)
    return [each.scaled(factor) for each in found], factor


def _matched(schema: TableSchema, given: CheckedRows) -> TableSource:
    """Match rows with a schema on the host, without rows of weight zero."""
    X, targets, weight, group = given.counting()
    columns = matched(schema, read_columns(X), given.used)
    return TableSource(schema, columns, targets, weight, group)


def _where_they_lie(
    plan: Plan, given: CheckedRows
) -> tuple[TableSource, Learner] | None:
    """Leave many rows of plain numbers on their devices; None if it is not worth it."""
    n_rows = len(given.weight)
    found = _lying(plan, given) if enough_rows(plan, n_rows) < n_rows else None
    source = None if found is None else _measured_there(*found, given)
    return None if found is None or source is None else (source, found[1])


def _lying(plan: Plan, given: CheckedRows) -> tuple[RowShards, Learner] | None:
    """Rows of plain numbers as they lie, to be measured; None if they are none."""
    X, options = given.X, plan.columns
    chosen = options.categorical_features, options.split_features
    plain = chosen == (None, None) and options.use_regressors and not options.unused
    plain = plain and given.group is None and given.used is None
    if not (plain and given.on_device):
        return None
    learner = Learner(options, given.target_names)
    learner.begin([np.zeros(0, np.float32)] * X.shape[1])
    return as_they_lie(X).beside(given.y), learner


def _measured_there(
    shards: RowShards, learner: Learner, given: CheckedRows
) -> TableSource | None:
    """Measure rows on their devices; None: not all of them are finite."""
    weight, names = given.weight, given.target_names
    sums, n_columns = shards.sums(weight), shards.shape[1]
    if sums is None:
        return None
    of_targets = ColumnSums(*(each[n_columns:] for each in sums))
    if shards.targets is None:
        columns = list(given.targets.T)
        of_targets = column_sums(columns, names, weight, allow_missing=False)
    sums = ColumnSums(*(each[:n_columns] for each in sums))
    learner.measure(sums, of_targets)
    return TableSource(learner.schema(), shards, given.targets, weight)


def _in_memory(
    plan: Plan, given: CheckedRows, eval_set: CheckedRows | None
) -> tuple[TableSource, Learner]:
    """Read the columns of rows on the host, those that are worth their place."""

    def read(learner: Learner) -> TableSource:
        X, targets, weight, group = given.counting()
        columns = learner.add(read_columns(X), given.targets, given.weight)
        learner.warn_of_targets()
        if eval_set is not None and (plan.prune is None or plan.prune.refit):
            with of_eval_set():
                learner.add(read_columns(eval_set.X), eval_set.targets, eval_set.weight)
        columns = columns.recoded(learner.places())
        return TableSource(learner.schema(), columns, targets, weight, group)

    learner = Learner(plan.columns, given.target_names)
    source = read(learner)
    schema, n_wanted = source.schema, enough_rows(plan, source.n_rows)
    many = are_many(schema, source.n_rows)
    if not plan.leaf.drops_regressors or not (many or schema.discrete):
        return source, learner
    different = source.observed(n_wanted)
    below = None if many else different.below(n_wanted)
    rows = different.sample(n_wanted) if many else different.take(below)
    kept = columns_of_fixed(plan.splits.fixed_splits)
    options = with_useful_columns(plan.columns, schema, rows, kept)
    if options.unused:
        learner = Learner(options, given.target_names)
        return read(learner), learner
    learner.options = options
    return replace(source, schema=learner.schema()), learner


def in_units_of(
    loss: Loss, schema: TableSchema, targets: np.ndarray, weight: np.ndarray
) -> TableSchema:
    """Measure the targets anew, and scale them as a loss has them."""
    names = schema.target_names
    sums = column_sums(list(targets.T), names, weight, allow_missing=False)
    center, scale = moments_of(sums, names, of_target=True)
    centers, scales = tuple(center.tolist()), tuple(scale.tolist())
    schema = replace(schema, target_centers=centers, target_scales=scales)
    return with_units_of(loss, schema, targets, np.ascontiguousarray(weight))


def scaled_schema(
    loss: Loss, source: TableSource, index: np.ndarray | None, tail_share: float
) -> TableSchema:
    """Schema with targets in units of a loss and bounds of tails, by a sample or all.

    ``index``: of the rows of the sample; None: all.
    """
    some = slice(None) if index is None else index
    targets, weight = source.targets[some], source.weight[some]
    if tail_share or loss.units == "robust":  # others do not look at all weights
        weight = np.ascontiguousarray(weight)
    schema = with_units_of(loss, source.schema, targets, weight)
    if not tail_share:
        return schema
    told = targets if loss.link == "identity" else None  # else no lines explain them
    values = source.on_host(index).columns.take(None).values
    return with_flat_tails(schema, values, told, weight, tail_share)


def with_units_of(
    loss: Loss, schema: TableSchema, targets: np.ndarray, weight: np.ndarray
) -> TableSchema:
    """Replace the scaling of the targets by that of a loss.

    ``targets`` (n_rows, n_outputs): in their own units, of all rows or of a sample.
    """
    if schema.monotonic and isinstance(loss, ClassLoss) and schema.n_outputs > 1:
        raise ValueError(
            f"monotonic_cst is for two classes, and y has {schema.n_outputs}: "
            "probabilities of several cannot all rise. Fit one class against the "
            "others."
        )
    moments = zip(schema.target_centers, schema.target_scales, strict=True)
    columns = zip(targets.T, moments, strict=True)
    found = [loss.scaling(column, weight, usual) for column, usual in columns]
    centers, scales = zip(*found, strict=True)
    return replace(schema, target_centers=centers, target_scales=scales)


def divided(rows: Rows, others: Rows | None, rule: PruningRule) -> Evidence:
    """Divide rows into training and held-out rows, or into folds.

    ================== ===================== ==================== ====================
    rule               ``others``            training             held out
    ================== ===================== ==================== ====================
    holds rows out     none                  the first by hash    the rest
    holds rows out     given                 all rows             the others
    makes folds        given                 both together        none
    any other          none                  all rows             none
    ================== ===================== ==================== ====================

    Rows of one group, if there are groups, are held out together, or in one fold.
    """
    if rule.fraction:
        found = without_share(rows, rule.fraction) if others is None else (rows, others)
        return Evidence(*found)
    if others is not None:
        rows = merged(join([rows, others])).interleaved()
    if not rule.n_folds:
        return Evidence(rows)
    rows = rows.on_host()
    parts = parts_of(rows.weight, rule.n_folds, rule.n_repeats, rows.group)
    return Evidence(rows, unseen=parts)


def parts_of(
    weight: np.ndarray,
    n_folds: int,
    n_repeats: int = 1,
    group: np.ndarray | None = None,
) -> list[np.ndarray]:
    """Divide rows into folds of similar weight, once per repeat.

    The order of the rows should have nothing to do with their content. Parts without
    rows are left out, and so are divisions of rows that were told apart before.

    ``weight`` (n_rows,); ``group`` (n_rows,): rows of one number stay together, and
    the order of the numbers has no meaning. Returns masks of shape (n_rows,).

    Examples
    --------
    >>> for part in parts_of(np.ones(4), 2, 2):
    ...     print(part.astype(int))
    [1 1 0 0]
    [0 0 1 1]
    [1 0 1 0]
    [0 1 0 1]
    >>> parts_of(np.ones(4), 2, group=np.array([7, 3, 7, 3]))[0].astype(int)
    array([0, 1, 0, 1])
    """
    if group is not None:
        _, member = np.unique(group, return_inverse=True)
        parts = parts_of(np.bincount(member, weight), n_folds, n_repeats)
        return [part[member] for part in parts]
    middle = (np.cumsum(weight) - 0.5 * weight) / np.sum(weight)
    n_folds = min(n_folds, max(len(weight), 2))
    parts: list[np.ndarray] = []
    for repeat in range(n_repeats):
        # The digits of a row's place, with as many figures as there are folds.
        digit = np.floor(n_folds ** (repeat + 1) * middle) % n_folds
        parts += [digit == fold for fold in np.unique(digit)]
        if n_folds ** (repeat + 1) >= len(weight):
            break  # further digits tell no row from another
    return [part for part in parts if not part.all()]


def without_share(rows: Rows, share: float) -> tuple[Rows, Rows | None]:
    """Rows without a share of them, and these: the last ones, or whole groups.

    None: too few rows, or groups, to hold any out.
    """
    if rows.group is None:
        cut = hold_out(rows.weight, share)
        others = None if cut == rows.n_rows else rows.take(slice(cut, None))
        return rows.take(slice(cut)), others
    # One of as many parts as the share says.
    parts = parts_of(rows.weight, max(round(1 / share), 2), group=rows.group)
    return (rows.take(~parts[0]), rows.take(parts[0])) if parts else (rows, None)
