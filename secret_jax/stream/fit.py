"""Fit a tree to a stream: a sample grows it, all rows fit its models."""

import hashlib
import os
from dataclasses import replace
from typing import NamedTuple

import jax
import numpy as np

from secret_jax.fit.pipeline import FitResult, fit_prepared
from secret_jax.fit.plan import Plan
from secret_jax.fit.prepare import MOST_SAMPLED, Prepared, enough_rows, share_of
from secret_jax.runtime.version import VERSION
from secret_jax.stream.batches import StreamError
from secret_jax.stream.checkpoint import USUAL_PAUSE, Checkpoint
from secret_jax.stream.chunks import chunks_of, reported
from secret_jax.stream.exchange import Alone, Exchange, of_all
from secret_jax.stream.first_pass import FirstPass, together
from secret_jax.stream.rows import StreamRows
from secret_jax.stream.sources import BatchSource
from secret_jax.tree.structure import ARRAY_FIELDS, Tree

_FIRST = "first-pass"


class StreamOptions(NamedTuple):
    """Options of a fit to a stream, beside the plan."""

    target_names: tuple[str, ...]
    sample_rows: int | None = None
    checkpoint: str | os.PathLike[str] | None = None
    pause: float = USUAL_PAUSE  # seconds between checkpoints
    # Parameters of the estimator, as text; a checkpoint belongs to one setting.
    parameters: str = ""
    exchange: Exchange = Alone()


def fit_stream(plan: Plan, source: BatchSource, options: StreamOptions) -> FitResult:
    """Fit a tree to the rows of a source, those of this process."""
    finished = fit_prepared(*prepare_stream(plan, source, options))
    _check_agreement(finished.tree, options.exchange)
    return finished


def prepare_stream(
    plan: Plan, source: BatchSource, options: StreamOptions
) -> tuple[Plan, Prepared]:
    """Measure and sample the rows in a first pass, or take over one that was begun.

    The plan returned has the seed that the fit began with in the first process.
    """
    exchange, identity = options.exchange, source.identity
    checkpoint: list[Checkpoint] = []

    def enough(n_rows: int) -> int:
        if options.sample_rows:
            return min(options.sample_rows, n_rows)
        return min(enough_rows(plan, n_rows), MOST_SAMPLED)

    def first_pass() -> FirstPass:
        checkpoint.append(_opened(identity, options))
        state = checkpoint[0].load(_FIRST)
        state = state or FirstPass(plan.columns, options.target_names, plan.seed)
        return _completed(state, source, checkpoint[0], plan, enough)

    if exchange.n_processes == 1:
        own = whole = first_pass()
    else:
        own = FirstPass(plan.columns, options.target_names)

        def counted() -> tuple[int, bool, int]:
            vars(own).update(vars(first_pass()))
            return own.weights.n_used, own.pool.merged, own.seed

        n_used, merged, seeds = zip(*of_all(exchange, counted), strict=True)
        own.reduce(sum(n_used), enough, any(merged))
        whole = together(of_all(exchange, lambda: own))
        whole.seed = seeds[0]
    schema, rows = whole.finished(plan.leaf.loss, enough)
    assert whole.layout is not None
    stream = StreamRows(
        schema,
        source,
        identity,
        whole.layout,
        own.weights.n_rows,
        own.digest,
        whole.weights,
        rows,
        checkpoint[0],
        exchange,
        plan.progress,
    )
    share = share_of(rows, stream)
    every_row = stream if share < 1.0 else None
    prepared = Prepared(schema, rows, share, every_row, None, None)
    return replace(plan, seed=whole.seed), prepared


def _opened(source: str, options: StreamOptions) -> Checkpoint:
    """Open the checkpoint of this fit for this process."""
    rank, n_processes = options.exchange.rank, options.exchange.n_processes
    identity = {
        "parameters": options.parameters,
        "target": options.target_names,
        "sample_rows": options.sample_rows,
        "source": source,
        "versions": [VERSION, jax.__version__, np.__version__],
        "process": f"{rank} of {n_processes}",
    }
    suffix = f"-{rank}" if n_processes > 1 else ""
    return Checkpoint(options.checkpoint, identity, options.pause, suffix)


def _completed(
    state: FirstPass, source: BatchSource, checkpoint: Checkpoint, plan: Plan, enough
) -> FirstPass:
    """Read the rows that the first pass has not seen."""
    if state.is_done:
        return state
    chunks = chunks_of(source, state.weights.n_rows, state.layout)
    for chunk in reported(chunks, "reading the rows", plan.progress, source.n_rows):
        state.add(chunk, enough)
        if checkpoint.is_due():
            checkpoint.save(_FIRST, state)
    state.is_done = True
    checkpoint.save(_FIRST, state)
    return state


def _check_agreement(tree: Tree, exchange: Exchange) -> None:
    """Raise an error if processors of another kind rounded otherwise."""
    digest = hashlib.sha256(repr(tree.schema.names).encode())
    for name in ARRAY_FIELDS:
        digest.update(np.ascontiguousarray(getattr(tree, name)).tobytes())
    if len(set(exchange.gathered(digest.digest()))) > 1:
        raise StreamError(
            "The processes have come to different trees: their processors or versions "
            "of JAX round differently. Run them on machines of one kind."
        )
