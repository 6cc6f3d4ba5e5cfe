"""Fit a tree to a stream: a sample grows it, all rows fit its models."""

import itertools
import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, TypeVar

import numpy as np

from secret_jax.data.encoding import matched
from secret_jax.data.rows import Rows
from secret_jax.data.sampling import ROW_ORDER
from secret_jax.data.schema import TableSchema
from secret_jax.data.source import TableSource
from secret_jax.data.validation import rounded_weight
from secret_jax.estimators.stream.batches import BatchSource, StreamError
from secret_jax.estimators.stream.first_pass import (
    FirstPass,
    content_of,
    together,
)
from secret_jax.fit.alternatives import with_better_scale, with_smaller_leaves
from secret_jax.fit.pipeline import Fit, finish, grow_and_prune
from secret_jax.fit.plan import Plan
from secret_jax.fit.prepare import MOST_SAMPLED, Prepared, enough_rows, share_of
from secret_jax.runtime.environment import each_once
from secret_jax.runtime.progress import Progress
from secret_jax.tree.structure import ARRAY_FIELDS

_Value = TypeVar("_Value")
# Gives the bytes of every process, by rank; every process has to call it. None: there
# is one process.
Exchange: TypeAlias = Callable[[bytes], list[bytes]] | None


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
    stream = StreamRows(schema, source, own, whole, rows, exchange, plan.progress)
    share = share_of(rows, stream)
    every_row = stream if share < 1.0 else None
    prepared = Prepared(schema, rows, share, every_row, None, None)
    return replace(better, seed=seeds[0]), prepared


@dataclass
class StreamRows:
    """Source of rows that are read anew for every pass."""

    schema: TableSchema
    source: BatchSource  # the rows of this process
    own: FirstPass  # over these
    whole: FirstPass  # over the rows of all processes
    first_sample: Rows  # the one that the first pass took
    exchange: Exchange
    progress: Progress

    @property
    def n_rows(self) -> int:
        return self.whole.n_used

    @property
    def total_weight(self) -> float:
        return self.whole.weight * self.whole.factor

    def sample(self, n_wanted: int, seed: int) -> Rows:
        """Return the sample of the first pass, whatever the arguments."""
        return self.first_sample

    def blocks(self, function: Callable[[Rows], Any], size: int) -> Iterator[Any]:
        """See `secret_jax.data.source.RowSource`; the results of all processes."""
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
            hashed = columns.hashes(schema.categories, targets, ROW_ORDER)
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
