"""First pass over a stream: a schema, weights and a sample, chunk by chunk.

The result is the same, to the bit, as for the same rows in memory, where no columns are
left out (``leaf=Ridge(drops_regressors=False)``).
"""

import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

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
from secret_jax.runtime.parallel import in_blocks
from secret_jax.stream.batches import Batch, StreamError
from secret_jax.stream.layout import Layout
from secret_jax.stream.pool import Pool, PoolRows, Weights


class FirstPass:
    """State of the first pass, which processes exchange.

    ``layout``: None before the first chunk; ``digest``: see `digest_of`.
    """

    def __init__(self, options: ColumnOptions, target_names: tuple[str, ...]):
        self.layout: Layout | None = None
        self.learner = Learner(options, target_names)
        self.weights, self.pool = Weights(), Pool()
        self.digest = 1

    def add(self, chunk: Batch, enough: Callable[[int], int]) -> None:
        """Add a chunk; ``enough(n)`` of n rows, a falling share, are a sample."""
        self.layout = self.layout or Layout.of(chunk)
        learner, targets, weight = self.learner, chunk.targets, chunk.weight
        with chunk.placing():
            _refuse_targets(targets, learner.target_names)
            self.weights = self.weights.plus(Weights.of(weight))
            columns = learner.add(chunk.table, targets, weight)
        if not weight.all():
            targets, weight = targets[weight > 0], weight[weight > 0]
        content = hashed_columns(columns, learner.categories, targets)
        self.digest = digest_of(content, weight, self.digest)
        index, hashed = rows_below(content, self.pool.limit, ROW_ORDER)
        rows = PoolRows(
            columns.take(index),
            targets[index],
            weight[index],
            np.ones(len(index), np.int64),
            hashed,
        )
        n_used = self.weights.n_used
        self.pool.add(rows, n_used, enough(n_used))

    def reduce(self, n_used: int, enough: Callable[[int], int], merged: bool) -> None:
        """Shrink the state to what the joint sample and sums of all processes need.

        Where a pool has made copies one row, the share of the rows does not say how
        many are wanted.
        """
        if self.layout is not None:
            self.learner.condense()
            if not merged:
                self.pool.shrink(n_used, enough(n_used))

    @property
    def lowest_targets(self) -> np.ndarray:
        """Least targets of all rows, shape (n_outputs,)."""
        return joint_sums(self.learner.target_sums).lowest

    def finished(
        self, loss: Loss, enough: Callable[[int], int]
    ) -> tuple[TableSchema, Rows]:
        """Schema and sample of all rows that were added."""
        learner, weights = self.learner, self.weights._replace(observed=1.0)
        if not weights.n_rows:
            raise StreamError("The stream is empty: there is no row to fit.")
        if not weights.n_used:
            raise StreamError(
                "Sample weights must contain at least one non-zero number: all are "
                "zero."
            )
        learner.warn_of_targets()
        self.reduce(weights.n_used, enough, self.pool.merged)
        places = learner.places()
        source, observed = self.pool.observed(learner.schema(), places, weights)
        self.weights = weights = weights._replace(observed=observed)
        schema = learner.schema(weights.factor)
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
        n_wanted, part = enough(weights.n_observed), not self.pool.is_whole
        part = part and not self.pool.merged
        index = np.arange(source.n_rows) if part else None
        source = replace(source, schema=schema)
        return schema, source.sample_of(index, n_wanted, ROW_ORDER)


def digest_of(columns: Sequence[np.ndarray], weight: np.ndarray, before: int) -> int:
    """Update a running checksum with rows, of columns as of `hashed_columns`."""
    arrays = [*columns] if (weight == 1).all() else [*columns, weight]

    def of_block(rows: slice) -> int:
        digest = 0
        for array in arrays:
            part = np.ascontiguousarray(array[rows])
            digest = zlib.crc32(part.view(np.uint8).data, digest)
        return digest

    found = list(in_blocks(of_block, len(weight)))
    return zlib.crc32(np.array(found, np.uint32).data, before)


def together(parts: Sequence[FirstPass]) -> FirstPass:
    """Merge the first passes of several processes, in their order."""
    seen = [(rank, part) for rank, part in enumerate(parts) if part.layout is not None]
    if not seen:
        return parts[0]
    (before, first), *others = seen
    for rank, part in others:
        assert part.layout is not None
        assert first.layout is not None
        own, known = (vars(each.learner.attributes) for each in (part, first))
        if part.layout != first.layout or own != known:
            raise StreamError(
                f"Process {rank} is unlike process {before} in its first rows: it "
                f"{part.layout.differences(first.layout)}. Give all processes the same "
                "columns in one order, of the same types, with the same ordered "
                "categories."
            )
    for _, part in others:
        first.weights = first.weights.plus(part.weights)
        first.pool.merge(part.pool, first.learner.merge(part.learner))
    return first


def _refuse_targets(targets: np.ndarray, names: Sequence[str]) -> None:
    good = np.isfinite(targets)
    if not good.all():
        row, output = np.argwhere(~good)[0]
        raise ValueError(
            f"The target {names[output]!r} contains NaN or infinity: row {row} is "
            f"{targets[row, output]}. Drop such rows before fitting."
        )
