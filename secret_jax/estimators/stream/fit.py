"""Fit a tree to a stream: a sample grows it, all rows fit its models.

The rows are read twice. The first pass learns a schema, weights and a sample, batch by
batch: the rows of the smallest hashes, the ones that a table in memory takes too
(`secret_jax.data.rows`). While rows come in, the share that is kept only falls.
"""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias, TypeVar

import jax
import numpy as np

from secret_jax.data.columns import listed
from secret_jax.data.encoding import TableSource, matched
from secret_jax.data.hashes import content_hash, distinct, sampling_limit
from secret_jax.data.learning import ColumnOptions, Learner
from secret_jax.data.rows import MAX_COPIES, ReadColumns, Rows
from secret_jax.data.schema import TableSchema
from secret_jax.data.validation import refuse_targets, refuse_weights, rounded_weight
from secret_jax.estimators.stream.batches import Batch, BatchSource, StreamError
from secret_jax.fit.alternatives import with_better_scale, with_smaller_leaves
from secret_jax.fit.pipeline import Fit, finish, grow_and_prune
from secret_jax.fit.plan import Plan
from secret_jax.fit.prepare import (
    MOST_SAMPLED,
    Prepared,
    enough_rows,
    scaled_schema,
    share_of,
)
from secret_jax.losses.interface import Loss
from secret_jax.runtime.environment import each_once
from secret_jax.runtime.hashing import mix
from secret_jax.runtime.progress import Progress
from secret_jax.tree.structure import ARRAY_FIELDS

# The sample may grow by this before the rows of larger hashes are dropped.
_SLACK = 1.25
# With fewer distinct rows among them equal ones become one of their common weight.
_FEW_DISTINCT = 0.9
# Larger than every hash.
_NO_LIMIT = 1 << 32
# Gives the bytes of every process, by rank; every process has to call it. None: there
# is one process.
Exchange: TypeAlias = Callable[[bytes], list[bytes]] | None


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
        hashed = columns.hashes(learner.categories, targets)
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
        return schema, source.sample_of(index, n_wanted)

    def _observed(self, factor: float) -> tuple[TableSource, float]:
        """Sampled rows without copies, and the share of the rows that are none.

        Weights are multiplied by ``factor``.
        """
        columns, targets, weight, times, _ = self.rows
        columns, weight = columns.recoded(self.learner.places()), weight * factor
        schema = self.learner.schema()
        source = TableSource(schema, columns, targets, rounded_weight(weight))
        if self.merged:
            source = replace(source, times=times.astype(np.float64))
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


_Value = TypeVar("_Value")


def among_jax_processes(content: bytes) -> list[bytes]:
    """Exchange bytes between what ``jax.distributed.initialize`` connected."""
    from jax.experimental.multihost_utils import process_allgather

    lengths = np.ravel(process_allgather(np.array([len(content)], np.int32)))
    padded = np.zeros(lengths.max(), np.uint8)
    padded[: len(content)] = np.frombuffer(content, np.uint8)
    found = np.reshape(process_allgather(padded), (len(lengths), -1))
    return [row[:n].tobytes() for row, n in zip(found, lengths, strict=True)]


def of_all(exchange: Exchange, work: Callable[[], _Value]) -> list[_Value]:
    """Run a piece of work and collect its results from all processes.

    An error is raised in all of them, so that none waits in vain.
    """
    if exchange is None:
        return [work()]
    failure: Exception | None = None
    try:
        content = pickle.dumps((None, work()))
    except Exception as error:
        failure, content = error, pickle.dumps((str(error), None))
    found = [pickle.loads(part) for part in exchange(content)]
    if failure is not None:
        raise failure
    for rank, (message, _) in enumerate(found):
        if message is not None:
            raise StreamError(f"In process {rank}: {message}")
    return [value for _, value in found]


def fit_stream(
    plan: Plan,
    source: BatchSource,
    target_names: tuple[str, ...],
    sample_rows: int | None = None,
    exchange: Exchange = None,
) -> Fit:
    """Fit a tree to the rows of a source, those of this process."""
    with each_once():  # the columns are measured again for logarithms
        prepared = _prepared(plan, source, target_names, sample_rows, exchange)
        result = finish(with_smaller_leaves(grow_and_prune(*prepared)))
    tree = result.tree
    content = [getattr(tree, name).tobytes() for name in ARRAY_FIELDS]
    first, *others = of_all(exchange, lambda: (tree.schema.names, content))
    if any(other != first for other in others):
        raise StreamError(
            "The processes have come to different trees: their processors or versions "
            "of JAX round differently. Run them on machines of one kind."
        )
    return result


def _prepared(
    plan: Plan,
    source: BatchSource,
    target_names: tuple[str, ...],
    sample_rows: int | None,
    exchange: Exchange,
) -> tuple[Plan, Prepared]:
    """Sample the rows; the plan has the seed of the first process, and better units."""

    def enough(n_rows: int) -> int:
        if sample_rows:
            return min(sample_rows, n_rows)
        return min(enough_rows(plan, n_rows), MOST_SAMPLED)

    own = FirstPass(plan.columns, target_names)

    def read() -> tuple[FirstPass, int]:
        for batch in source.read("reading the rows", plan.progress):
            own.add(batch, enough)
        return own, plan.seed

    passes, seeds = zip(*of_all(exchange, read), strict=True)
    whole = together(passes)
    schema, rows = whole.finished(plan.leaf.loss, enough)
    better = with_better_scale(plan, schema, rows, whole.learner.target_sums.lowest)
    if better is not plan:
        schema, rows = whole.finished(better.leaf.loss, enough)
    own.parts = whole.parts = []  # they are in the sample now
    stream = StreamRows(schema, source, own, whole, exchange, plan.progress)
    share = share_of(rows, stream)
    every_row = stream if share < 1.0 else None
    differ = whole.factor * whole.weight / whole.n_used
    prepared = Prepared(schema, rows, share, every_row, None, None, differ)
    return replace(better, seed=seeds[0]), prepared


@dataclass
class StreamRows:
    """Source of rows that are read anew for every pass."""

    schema: TableSchema
    source: BatchSource  # the rows of this process
    own: FirstPass  # over these
    whole: FirstPass  # over the rows of all processes
    exchange: Exchange
    progress: Progress

    @property
    def total_weight(self) -> float:
        return self.whole.weight * self.whole.factor

    def blocks(self, function: Callable[[Rows], Any], size: int) -> Iterator[Any]:
        """See `secret_jax.data.encoding.RowSource`; the results of all processes."""
        own = (found for rows in self._read() for found in rows.blocks(function, size))
        if self.exchange is None:
            return own
        every = of_all(self.exchange, lambda: list(own))
        return itertools.chain.from_iterable(every)

    def _read(self) -> Iterator[TableSource]:
        """Read the rows batch by batch; they must be those of the first pass."""
        n_rows, content, schema = 0, 0, self.schema
        for batch in self.source.read("fitting models on all rows", self.progress):
            used = batch.weight > 0
            targets, weight = batch.targets[used], batch.weight[used]
            with batch.with_row_context():
                columns = matched(schema, batch.table, used, asked=())
                unseen = (columns.codes < 0).any(axis=0)
                if unseen.any():
                    name = schema.names[schema.discrete[int(unseen.argmax())]]
                    raise ValueError(
                        f"column {name!r} holds a category that the first pass did not "
                        "see: the source has changed. Fit it again."
                    )
            hashed = columns.hashes(schema.categories, targets)
            n_rows, content = n_rows + len(used), content_of(hashed, weight, content)
            weight = rounded_weight(weight * self.whole.factor)
            yield TableSource(schema, columns, targets, weight)
        if n_rows != self.own.n_rows:
            raise StreamError(
                f"The second pass has read {n_rows} rows, and the first one "
                f"{self.own.n_rows}: the source has changed, or is not complete. Fit "
                "it again when nobody writes to it."
            )
        if content != self.own.content:
            raise StreamError(
                "The rows of the second pass are others than those of the first: the "
                "source has changed. Give one that reads the same rows every time, "
                "with the same targets, weights and numbers in every column."
            )
