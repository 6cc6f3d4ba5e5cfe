"""First pass over a stream: a schema, weights and a sample, batch by batch."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Self

import numpy as np

from secret_jax.data.columns import OrderedText, Zoned, is_missing, listed, zoned
from secret_jax.data.learning import Learner
from secret_jax.data.roles import ColumnOptions
from secret_jax.data.rows import Rows
from secret_jax.data.sampling import ROW_ORDER
from secret_jax.data.scaling import joint_sums
from secret_jax.data.schema import TableSchema
from secret_jax.data.source import hashed_columns, rows_below
from secret_jax.data.tails import with_flat_tails
from secret_jax.fit.prepare import with_units_of
from secret_jax.losses.interface import Loss
from secret_jax.stream.batches import Batch, StreamError
from secret_jax.stream.pool import Pool, PoolRows


class FirstPass:
    """What is known of the rows that were read; processes exchange it."""

    def __init__(self, options: ColumnOptions, target_names: tuple[str, ...]):
        self.learner, self.pool = Learner(options, target_names), Pool()
        self.columns: dict[str, np.ndarray] = {}  # of the first batch, without its rows
        self.n_rows, self.n_used, self.weight = 0, 0, 0.0
        self.factor = 1.0  # of weights, for a mean of one of every observation

    def add(self, batch: Batch, enough: Callable[[int], int]) -> None:
        """Add a batch; ``enough(n)`` of n rows, a falling share, are a sample."""
        learner, targets, weight = self.learner, batch.targets, batch.weight
        with batch.placing():
            if not self.n_rows:
                self.columns = {n: column[:0] for n, column in batch.columns.items()}
            batch = batch._replace(columns=_conformed(batch.columns, self.columns))
            _check(targets, weight, learner.target_names)
            columns = learner.add(batch.table, targets, weight)
        used = weight > 0
        self.n_rows += len(used)
        self.n_used += int(used.sum())
        self.weight += float(weight.sum())
        targets, weight = targets[used], weight[used]
        content = hashed_columns(columns, learner.categories, targets)
        index, hashed = rows_below(content, self.pool.limit, ROW_ORDER)
        number = np.ones(len(index), np.int64)
        chosen = columns.take(index), targets[index], weight[index], number, hashed
        self.pool.add(PoolRows(*chosen), self.n_used, enough(self.n_used))

    @property
    def lowest_targets(self) -> np.ndarray:
        """Least targets of all rows, shape (n_outputs,)."""
        return joint_sums(self.learner.target_sums).lowest

    def merge(self, other: Self) -> None:
        """Add the rows of another process."""
        _conformed(other.columns, self.columns)
        known = vars(self.learner.attributes)
        for what, own in vars(other.learner.attributes).items():
            if own != known[what]:
                others = [each for each in own if each not in known[what]]
                raise ValueError(
                    f"the {what} of its columns are others, or in another order: "
                    f"{listed(others or own)}."
                )
        self.n_rows += other.n_rows
        self.n_used += other.n_used
        self.weight += other.weight
        self.pool.merge(other.pool, self.learner.merge(other.learner))

    def finished(
        self, loss: Loss, enough: Callable[[int], int]
    ) -> tuple[TableSchema, Rows]:
        """Schema and sample of all rows that were added."""
        learner, pool = self.learner, self.pool
        if not self.n_rows:
            raise StreamError("The stream is empty: there is no row to fit.")
        if not self.n_used:
            raise StreamError(
                "Sample weights must contain at least one non-zero number: all are "
                "zero."
            )
        learner.warn_of_targets()
        pool.shrink(self.n_used, enough(self.n_used))
        factor, places = self.n_used / self.weight, learner.places()
        source, share = pool.observed(learner.schema(), places, factor)
        self.factor = share * factor
        schema = learner.schema(self.factor)
        # Of the rows beyond the sample, the most extreme targets are known.
        total = joint_sums(learner.target_sums)
        extremes = np.stack([total.lowest, total.highest])
        loss.check_targets(np.concatenate([source.targets, extremes]))
        schema = with_units_of(loss, schema, source.targets, source.weight)
        schema = with_flat_tails(
            schema,
            source.columns.values,
            loss.targets_of_lines(source.targets),
            source.weight,
            learner.options.tail_share,
        )
        is_sample = not (pool.is_whole or pool.merged)
        index = np.arange(source.n_rows) if is_sample else None
        n_wanted = enough(round(share * self.n_used))
        source = replace(source, schema=schema)
        return schema, source.sample_of(index, n_wanted, ROW_ORDER)


def together(parts: Sequence[FirstPass]) -> FirstPass:
    """Merge the first passes of several processes, in their order."""
    with_rows = [(rank, part) for rank, part in enumerate(parts) if part.n_rows]
    (first, whole), *others = with_rows or [(0, parts[0])]
    for rank, part in others:
        try:
            whole.merge(part)
        except ValueError as error:
            message = f"Process {rank} is unlike process {first}: {error}"
            raise StreamError(message) from None
    return whole


def _check(targets: np.ndarray, weight: np.ndarray, names: Sequence[str]) -> None:
    if not np.isfinite(targets).all():
        row, output = np.argwhere(~np.isfinite(targets))[0]
        raise ValueError(
            f"The target {names[output]!r} contains NaN or infinity: row {row} is "
            f"{targets[row, output]}. Drop such rows before fitting."
        )
    bad = ~(np.isfinite(weight) & (weight >= 0))
    if bad.any():
        row = int(bad.argmax())
        raise ValueError(
            f"Bad sample weights: row {row} has {weight[row]}. Give finite numbers "
            "that are not negative."
        )


def _conformed(
    columns: dict[str, np.ndarray], first: dict[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Put columns in the order of the first batch's; refuse any of another kind."""
    lacking, further = (
        [name for name in some if name not in others]
        for some, others in ((first, columns), (columns, first))
    )
    if lacking or further:
        words = [f"lacks the column {listed(lacking)}"] * bool(lacking)
        words += [f"has the further column {listed(further)}"] * bool(further)
        raise ValueError(
            f"it {' and '.join(words)}, unlike the first batch. Write all batches with "
            "the same columns, or name those to use in columns=."
        )
    return {name: _of_kind(columns[name], like, name) for name, like in first.items()}


def _of_kind(column: np.ndarray, like: np.ndarray, name: str) -> np.ndarray:
    """Return a column of the kind of another; one without values is of any kind."""
    kind, wanted = _kind_of(column), _kind_of(like)
    if kind != wanted:
        if len(column) and all(map(is_missing, column.tolist())):
            return _nothing(len(column), like)
        raise ValueError(
            f"it has {kind} in column {name!r}, and not {wanted}, unlike the first "
            "batch. Write all batches with columns of the same types."
        )
    if isinstance(column, OrderedText) and isinstance(like, OrderedText):
        kept = [level for level in like.levels if level in column.levels]
        pairs = itertools.zip_longest(column.levels, kept)
        for level in (level for level, known in pairs if level != known):
            raise ValueError(
                f"it has ordered categories in column {name!r} that are others than "
                f"those of the first batch, or in another order, from {level!r} on. "
                "Write all batches with the same ones."
            )
    return column


def _nothing(n_rows: int, like: np.ndarray) -> np.ndarray:
    """Missing values in a column of the kind of another."""
    if like.dtype.kind == "M":
        dates = np.full(n_rows, np.datetime64("NaT"), "datetime64[s]")
        return zoned(dates, like.zone) if isinstance(like, Zoned) else dates
    if like.dtype.kind in "fiu":
        return np.full(n_rows, np.nan)
    return np.full(n_rows, None, object).view(type(like))


def _kind_of(column: np.ndarray) -> str:
    if isinstance(column, OrderedText):
        return "ordered categories"
    if isinstance(column, Zoned):
        return "dates of a time zone"
    if column.dtype.kind == "M":
        return "dates without a time zone"
    return "numbers" if column.dtype.kind in "fiu" else "text or truth values"
