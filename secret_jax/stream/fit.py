"""Fit a tree to a stream: a sample grows it, all rows fit its models."""

import hashlib
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from secret_jax.fit.alternatives import with_better_scale, with_smaller_leaves
from secret_jax.fit.pipeline import Fit, finish, grow_and_prune
from secret_jax.fit.plan import Plan
from secret_jax.fit.prepare import MOST_SAMPLED, Prepared, enough_rows, share_of
from secret_jax.runtime.warning import each_once
from secret_jax.stream.batches import StreamError
from secret_jax.stream.chunks import chunks_of, reported
from secret_jax.stream.exchange import Alone, Exchange, of_all
from secret_jax.stream.first_pass import FirstPass, together
from secret_jax.stream.rows import StreamRows
from secret_jax.stream.sources import BatchSource
from secret_jax.tree.structure import ARRAY_FIELDS, Tree


class StreamOptions(NamedTuple):
    """Options of a fit to a stream, beside the plan."""

    target_names: tuple[str, ...]
    sample_rows: int | None = None
    exchange: Exchange = Alone()


def fit_stream(plan: Plan, source: BatchSource, options: StreamOptions) -> Fit:
    """Fit a tree to the rows of a source, those of this process."""
    with each_once():  # the columns are measured again for logarithms
        first = grow_and_prune(*prepare_stream(plan, source, options))
        result = finish(with_smaller_leaves(first))
    _check_agreement(result.tree, options.exchange)
    return result


def prepare_stream(
    plan: Plan, source: BatchSource, options: StreamOptions
) -> tuple[Plan, Prepared]:
    """Measure and sample the rows in a first pass.

    The plan returned has the seed of the first process, and the leaf model of
    logarithms where these err less.
    """
    exchange, seed = options.exchange, plan.seed

    def enough(n_rows: int) -> int:
        if options.sample_rows:
            return min(options.sample_rows, n_rows)
        return min(enough_rows(plan, n_rows), MOST_SAMPLED)

    own = FirstPass(plan.columns, options.target_names)

    def read() -> tuple[int, bool, int]:
        chunks = chunks_of(source)
        for chunk in reported(chunks, "reading the rows", plan.progress, source.n_rows):
            own.add(chunk, enough)
        return own.weights.n_used, own.pool.merged, seed

    n_used, merged, seeds = zip(*of_all(exchange, read), strict=True)
    whole = own
    if exchange.n_processes > 1:
        own.reduce(sum(n_used), enough, any(merged))
        whole = together(of_all(exchange, lambda: own))
    schema, rows = whole.finished(plan.leaf.loss, enough)
    given, plan = plan, with_better_scale(plan, schema, rows, whole.lowest_targets)
    if plan is not given:
        schema, rows = whole.finished(plan.leaf.loss, enough)
    assert whole.layout is not None
    stream = StreamRows(
        schema,
        source,
        whole.layout,
        own.weights.n_rows,
        own.digest,
        whole.weights,
        rows,
        exchange,
        plan.progress,
    )
    share = share_of(rows, stream)
    every_row = stream if share < 1.0 else None
    prepared = Prepared(schema, rows, share, every_row, None, None)
    return replace(plan, seed=seeds[0]), prepared


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
