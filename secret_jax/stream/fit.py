"""Fit a tree to a stream: a sample grows it, all rows fit its models."""

from dataclasses import replace
from typing import NamedTuple

from secret_jax.fit.alternatives import with_better_scale, with_smaller_leaves
from secret_jax.fit.pipeline import Fit, finish, grow_and_prune
from secret_jax.fit.plan import Plan
from secret_jax.fit.prepare import MOST_SAMPLED, Prepared, enough_rows, share_of
from secret_jax.runtime.warning import each_once
from secret_jax.stream.batches import StreamError
from secret_jax.stream.exchange import Exchange, of_all
from secret_jax.stream.first_pass import FirstPass, together
from secret_jax.stream.pool import Pool
from secret_jax.stream.rows import StreamRows
from secret_jax.stream.sources import BatchSource
from secret_jax.tree.structure import ARRAY_FIELDS


class StreamOptions(NamedTuple):
    """Options of a fit to a stream, beside the plan."""

    target_names: tuple[str, ...]
    sample_rows: int | None = None
    exchange: Exchange = None


def fit_stream(plan: Plan, source: BatchSource, options: StreamOptions) -> Fit:
    """Fit a tree to the rows of a source, those of this process."""
    with each_once():  # the columns are measured again for logarithms
        fitted = grow_and_prune(*prepare_stream(plan, source, options))
        result = finish(with_smaller_leaves(fitted))
    tree = result.tree
    content = [getattr(tree, name).tobytes() for name in ARRAY_FIELDS]
    first, *others = of_all(options.exchange, lambda: (tree.schema.names, content))
    if any(other != first for other in others):
        raise StreamError(
            "The processes have come to different trees: their processors or versions "
            "of JAX round differently. Run them on machines of one kind."
        )
    return result


def prepare_stream(
    plan: Plan, source: BatchSource, options: StreamOptions
) -> tuple[Plan, Prepared]:
    """Measure and sample the rows in a first pass.

    The plan returned has the seed of the first process, and the leaf model of
    logarithms where these err less.
    """

    def enough(n_rows: int) -> int:
        if options.sample_rows:
            return min(options.sample_rows, n_rows)
        return min(enough_rows(plan, n_rows), MOST_SAMPLED)

    own = FirstPass(plan.columns, options.target_names)

    def read() -> tuple[FirstPass, int]:
        for batch in source.read("reading the rows", plan.progress):
            own.add(batch, enough)
        return own, plan.seed

    passes, seeds = zip(*of_all(options.exchange, read), strict=True)
    whole = together(passes)
    schema, rows = whole.finished(plan.leaf.loss, enough)
    better = with_better_scale(plan, schema, rows, whole.lowest_targets)
    if better is not plan:
        schema, rows = whole.finished(better.leaf.loss, enough)
    own.pool = whole.pool = Pool()  # its rows are in the sample now
    stream = StreamRows(
        schema, source, own, whole, rows, options.exchange, plan.progress
    )
    share = share_of(rows, stream)
    every_row = stream if share < 1.0 else None
    prepared = Prepared(schema, rows, share, every_row, None, None)
    return replace(better, seed=seeds[0]), prepared
