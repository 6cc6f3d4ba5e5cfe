"""First pass over a stream: a schema, weights and a sample, batch by batch."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Self

import numpy as np

from secret_jax.data.columns import listed
from secret_jax.data.learning import Learner
from secret_jax.data.roles import ColumnOptions
from secret_jax.data.rows import Rows
from secret_jax.data.sampling import ROW_ORDER
from secret_jax.data.scaling import joint_sums
from secret_jax.data.schema import TableSchema
from secret_jax.data.tails import with_flat_tails
from secret_jax.data.validation import refuse_targets, refuse_weights
from secret_jax.fit.prepare import with_units_of
from secret_jax.losses.interface import Loss
from secret_jax.runtime.hashing import mix
from secret_jax.stream.batches import Batch, StreamError
from secret_jax.stream.pool import Pool, PoolRows


class FirstPass:
    """What is known of the rows that were read; processes exchange it."""

    def __init__(self, options: ColumnOptions, target_names: tuple[str, ...]):
        self.learner, self.pool = Learner(options, target_names), Pool()
        self.others: set[str] = set()  # columns that held no numbers in the first batch
        self.n_rows, self.n_used, self.weight = 0, 0, 0.0
        self.content = 0  # of the rows, in any order, see `content_of`
        self.factor = 1.0  # of weights, for a mean of one of every observation

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
        index = np.flatnonzero(hashed < self.pool.limit)
        number = np.ones(len(index), np.int64)
        chosen = columns.take(index), targets[index], weight[index], number
        self.pool.add(
            PoolRows(*chosen, hashed[index]), self.n_used, enough(self.n_used)
        )

    def _check_kinds(self, columns: dict[str, np.ndarray]) -> None:
        """Refuse what would be read as categories or places, and is none."""
        numeric = {name for name in columns if columns[name].dtype.kind in "fiu"}
        attributes = self.learner.attributes
        if attributes is None:  # the first batch
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

    @property
    def lowest_targets(self) -> np.ndarray:
        """Least targets of all rows, shape (n_outputs,)."""
        return joint_sums(self.learner.target_sums).lowest

    def merge(self, other: Self) -> None:
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


def content_of(hashed: np.ndarray, weight: np.ndarray, before: int = 0) -> int:
    """Add hashes of rows and of their weights to a sum that their order leaves alone.

    A pass over the same rows comes to the same sum: by chance one in 2**32 others.
    """
    rows = mix(hashed.astype(np.uint64) ^ mix(weight.view(np.uint64)))
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
