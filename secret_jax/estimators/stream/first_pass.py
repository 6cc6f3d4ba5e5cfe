"""First pass over a stream: a schema, weights and a sample, batch by batch.

The sample are the rows of the smallest hashes, the ones that a table in memory takes
too (`secret_jax.data.sampling`). While rows come in, the share that is kept only falls.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import jax
import numpy as np

from secret_jax.data.columns import listed
from secret_jax.data.learning import ColumnOptions, Learner
from secret_jax.data.rows import MAX_COPIES, ReadColumns, Rows
from secret_jax.data.sampling import ROW_ORDER, content_hash, distinct, sampling_limit
from secret_jax.data.schema import TableSchema
from secret_jax.data.source import TableSource
from secret_jax.data.validation import refuse_targets, refuse_weights, rounded_weight
from secret_jax.estimators.stream.batches import Batch, StreamError
from secret_jax.fit.prepare import scaled_schema
from secret_jax.losses.interface import Loss
from secret_jax.runtime.hashing import mix

# The sample may grow by this before the rows of larger hashes are dropped.
_SLACK = 1.25
# With fewer distinct rows among them equal ones become one of their common weight.
_FEW_DISTINCT = 0.9
# Larger than every hash.
_NO_LIMIT = 1 << 32


class SampledRows(NamedTuple):
    """Rows as they were given, with their hashes."""

    columns: ReadColumns  # with codes in the order in which categories came up
    targets: np.ndarray  # (n_rows, n_outputs), float64
    weight: np.ndarray  # (n_rows,), float64
    number: np.ndarray  # (n_rows,), int64: number of rows that each one stands for
    hashed: np.ndarray  # (n_rows,), uint32

    def take(self, index: np.ndarray) -> SampledRows:
        # `numpy.take` would copy the whole of a column that is part of a table.
        return jax.tree.map(lambda array: array[index], self)


class FirstPass:
    """What is known of the rows that were read; processes exchange it.

    The sample are rows with a hash below ``limit``, which falls as more rows are seen;
    ``merged``: whether equal ones were made one, so that the share of the rows does not
    say how many are wanted.
    """

    def __init__(self, options: ColumnOptions, target_names: tuple[str, ...]):
        self.learner = Learner(options, target_names)
        self.others: set[str] = set()  # columns that held no numbers in the first batch
        self.n_rows, self.n_used, self.weight = 0, 0, 0.0
        self.content = 0  # of the rows, in any order, see `content_of`
        self.factor = 1.0  # of weights, for a mean of one of every observation
        self.parts: list[SampledRows] = []
        self.limit, self.merged = _NO_LIMIT, False

    @property
    def rows(self) -> SampledRows:
        if len(self.parts) > 1:
            joined = jax.tree.map(lambda *arrays: np.concatenate(arrays), *self.parts)
            self.parts = [joined]
        return self.parts[0]

    def add(self, batch: Batch, enough: Callable[[int], int]) -> None:
        """Add a batch; ``enough(n)`` of n rows, a falling share, are a sample."""
        learner, targets, weight = self.learner, batch.targets, batch.weight
        with batch.with_row_context():
            refuse_targets(targets, learner.target_names)
            refuse_weights(weight)
            self._check_kinds(batch.columns)
            columns = learner.add(batch.table, targets, weight)
        used = weight > 0
        self.n_rows += len(used)
        self.n_used += int(used.sum())
        self.weight += float(weight.sum())
        targets, weight = targets[used], weight[used]
        hashed = columns.hashes(learner.categories, targets, ROW_ORDER)
        self.content = content_of(hashed, weight, self.content)
        number = np.ones(len(weight), np.int64)
        rows = SampledRows(columns, targets, weight, number, hashed)
        self.parts.append(rows.take(np.flatnonzero(hashed < self.limit)))
        self._shrink(enough(self.n_used))

    def _check_kinds(self, columns: dict[str, np.ndarray]) -> None:
        """Refuse what would be read as categories or places, and is none."""
        numeric = {name for name in columns if columns[name].dtype.kind in "fiu"}
        attributes = self.learner.attributes
        if not attributes.names:  # the first batch
            self.others = columns.keys() - numeric
            return
        for name in sorted(self.others & numeric):
            if not np.isnan(columns[name]).all():
                raise ValueError(
                    f"column {name!r} holds numbers, and held none in the first batch. "
                    "Write all batches with columns of the same types."
                )
        for i, levels in attributes.levels:
            own = getattr(columns.get(attributes.names[i]), "levels", ())
            known = [level for level in levels if level in own]
            for level, other in itertools.zip_longest(own, known):
                if level != other:
                    raise ValueError(
                        f"column {attributes.names[i]!r} has ordered categories that "
                        "are others than those of the first batch, or in another "
                        f"order, from {level!r} on. Write all batches with the same."
                    )

    def _shrink(self, n_wanted: int) -> None:
        """Make equal rows one if there are many, and drop those of large hashes."""
        if sum(len(part.hashed) for part in self.parts) <= _SLACK * n_wanted:
            return
        # np.unique takes a hundred times as long as a sort.
        hashed = np.sort(self.rows.hashed)
        if 1 + np.count_nonzero(np.diff(hashed)) < _FEW_DISTINCT * len(hashed):
            (values, codes), targets, *amounts, _ = self.rows
            content = content_hash([*values, *codes.T, *targets.T], 0)
            first, member = distinct(content)
            if len(first) < _FEW_DISTINCT * len(hashed):
                weight, number = (np.bincount(member, amount) for amount in amounts)
                single = self.rows.take(first)._replace(weight=weight)
                self.parts = [single._replace(number=number.astype(np.int64))]
                self.merged = True
        if len(self.rows.hashed) > _SLACK * n_wanted:
            self._drop_above(int(sampling_limit(n_wanted / self.n_used)))

    def _drop_above(self, limit: int) -> None:
        self.limit = min(self.limit, limit)
        rows = self.rows
        self.parts = [rows.take(np.flatnonzero(rows.hashed < self.limit))]

    def merge(self, other: FirstPass) -> None:
        """Add the rows of another process."""
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
        recoded = other.rows.columns.recoded(self.learner.merge(other.learner))
        self.parts.append(other.rows._replace(columns=recoded))
        self.merged |= other.merged
        self._drop_above(other.limit)

    def finished(
        self, loss: Loss, enough: Callable[[int], int]
    ) -> tuple[TableSchema, Rows]:
        """Schema and sample of all rows that were added."""
        learner = self.learner
        if not self.n_used:
            raise StreamError(
                "Sample weights must contain at least one non-zero number: all are "
                "zero."
                if self.n_rows
                else "The stream is empty: there is no row to fit."
            )
        learner.warn_of_targets()
        n_wanted = enough(self.n_used)
        if n_wanted < self.n_used and not self.merged:
            self._drop_above(int(sampling_limit(n_wanted / self.n_used)))
        factor = self.n_used / self.weight
        source, share = self._observed(factor)
        self.factor = share * factor
        source = replace(source, schema=learner.schema(self.factor))
        # Of the rows beyond the sample, the most extreme targets are known.
        total = learner.target_sums
        extremes = np.stack([total.lowest, total.highest])
        loss.check_targets(np.concatenate([source.targets, extremes]))
        schema = scaled_schema(loss, source, None, learner.options.tail_share)
        is_sample = self.limit < _NO_LIMIT and not self.merged
        index = np.arange(source.n_rows) if is_sample else None
        n_wanted = enough(round(share * self.n_used))
        source = replace(source, schema=schema)
        return schema, source.sample_of(index, n_wanted, ROW_ORDER)

    def _observed(self, factor: float) -> tuple[TableSource, float]:
        """Sampled rows without copies, and the share of the rows that are none.

        Weights are multiplied by ``factor``.
        """
        columns, targets, weight, times, _ = self.rows
        columns, weight = columns.recoded(self.learner.places()), weight * factor
        schema = self.learner.schema()
        source = TableSource(schema, columns, targets, rounded_weight(weight))
        found, is_whole = source.repeats(times), self.limit == _NO_LIMIT
        if found is None or not (is_whole or self.merged or found.are_many):
            return source, 1.0
        share = float(found.number.sum() / times.sum())
        if share == 1.0 and not self.merged:
            return source, share
        return source.without_copies(found, MAX_COPIES).scaled(share), share


def content_of(hashed: np.ndarray, weight: np.ndarray, before: int) -> int:
    """Add hashes of rows and of their weights to a sum that their order leaves alone.

    A pass over the same rows comes to the same sum, and one in 2**32 others by chance.
    """
    rows = mix(weight.view(np.uint64) ^ hashed)
    return (before + int(rows.sum())) % (1 << 64)


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
