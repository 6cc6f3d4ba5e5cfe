"""Fit a tree to a stream: a sample grows it, all rows fit its models."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import numpy as np

from secret_jax.data.schema import Role, TableSchema
from secret_jax.fit.pipeline import FitResult, fit_prepared
from secret_jax.fit.plan import Plan
from secret_jax.fit.prepare import MOST_SAMPLED, Prepared, enough_rows, share_of
from secret_jax.runtime.warning import warn
from secret_jax.stream.batches import StreamError
from secret_jax.stream.checkpoint import USUAL_PAUSE, Checkpoint
from secret_jax.stream.chunks import Chunks
from secret_jax.stream.exchange import Alone, Exchange, from_bytes, to_bytes, told
from secret_jax.stream.learning import Learner
from secret_jax.stream.rates import Rate
from secret_jax.stream.rows import StreamRows
from secret_jax.stream.sources import BatchSource
from secret_jax.stream.state import join, packed, unpack
from secret_jax.tree.structure import ARRAY_FIELDS, Tree

_FIRST = "first-pass"


class StreamOptions(NamedTuple):
    """Options of a fit to a stream, beside the plan.

    Attributes
    ----------
    pause : float
        Seconds between checkpoints.
    parameters : str
        Parameters of the estimator, as text; a checkpoint belongs to one setting.
    """

    target_names: tuple[str, ...]
    sample_rows: int | None = None
    checkpoint: str | os.PathLike[str] | None = None
    pause: float = USUAL_PAUSE
    parameters: str = ""
    exchange: Exchange = Alone()


def fit_stream(plan: Plan, source: BatchSource, options: StreamOptions) -> FitResult:
    """Fit a tree to a stream.

    Parameters
    ----------
    source : BatchSource
        The rows of this process.

    Returns
    -------
    FitResult
        The same in every process.

    Raises
    ------
    StreamError
        If the rows cannot be used, with the place where.
    """
    exchange = options.exchange
    identity = source.identity
    checkpoint, plan = begun(plan, identity, options)

    def learner() -> Learner:
        return Learner(
            plan.columns, options.target_names, lambda n: _enough(plan, options, n)
        )

    own, whole = learner(), learner()

    def counted() -> bytes:
        _first_pass(own, source, checkpoint, plan)
        return json.dumps([own.weights.n_used, own.pool.merged]).encode()

    counts = told(exchange, counted)
    if exchange.n_processes > 1:
        own.reduce(*zip(*map(json.loads, counts), strict=True))
        contents = told(exchange, lambda: to_bytes(*packed(own)))
        _join_processes(whole, contents, learner)
    else:
        whole = own
    layout = whole.layout
    schema, rows = whole.finished(plan.leaf.loss)
    _warn_of_target(whole, schema)
    stream = StreamRows(
        schema,
        source,
        identity,
        layout,  # pyright: ignore[reportArgumentType]
        own.weights,
        own.digest,
        whole.weights,
        rows,
        checkpoint,
        exchange,
        plan.progress,
    )
    share = share_of(rows, stream)
    every_row = stream if share < 1.0 else None
    finished = fit_prepared(plan, Prepared(schema, rows, share, every_row, None, None))
    _check_agreement(finished.tree, exchange)
    return finished


def _enough(plan: Plan, options: StreamOptions, n_rows: int) -> int:
    if options.sample_rows:
        return min(options.sample_rows, n_rows)
    return min(enough_rows(plan, n_rows), MOST_SAMPLED)


def begun(plan: Plan, source: str, options: StreamOptions) -> tuple[Checkpoint, Plan]:
    """Open the checkpoint of this fit, and take over the seed that it began with.

    The seed is that of the first process: other processes may have drawn others.

    Parameters
    ----------
    source : str
        Description that tells the source of this process from other sources.
    """
    from secret_jax import __version__

    exchange = options.exchange
    several = exchange.n_processes > 1
    identity = {
        "parameters": options.parameters,
        "target": list(options.target_names),
        "sample_rows": options.sample_rows,
        "source": source,
        "versions": [__version__, jax.__version__, np.__version__],
        "process": f"{exchange.rank} of {exchange.n_processes}",
    }
    found: list[Checkpoint] = []

    def opened() -> bytes:
        checkpoint = Checkpoint(
            options.checkpoint,
            identity,
            options.pause,
            suffix=f"-{exchange.rank}" if several else "",
        )
        found.append(checkpoint)
        state = checkpoint.load("seed")
        return str(plan.seed if state is None else state[0]["seed"]).encode()

    seed = int(told(exchange, opened)[0])
    checkpoint = found[0]

    def noted() -> bytes:
        if checkpoint.load("seed") is None:
            checkpoint.save("seed", {"seed": seed}, {})
        return b""

    told(exchange, noted)
    return checkpoint, replace(plan, seed=seed)


def _first_pass(
    learner: Learner, source: BatchSource, checkpoint: Checkpoint, plan: Plan
) -> None:
    """Read all rows once, resuming at the checkpoint."""
    state = checkpoint.load(_FIRST)
    done = False
    if state is not None:
        header, arrays = state
        unpack(learner, header, arrays)
        done = header["done"]
    if done:
        return

    def save(done: bool) -> None:
        header, arrays = packed(learner)
        checkpoint.save(_FIRST, header | {"done": done}, arrays)

    start = learner.weights.n_rows
    rate = Rate("reading the rows", plan.progress, source.n_rows, start)
    chunks = Chunks(source, start, layout=learner.layout)
    for chunk in chunks:
        assert chunks.layout is not None
        learner.add(chunks.layout, chunk)
        rate.at(chunk.stop)
        if checkpoint.is_due():
            save(done=False)
    save(done=True)


def _join_processes(whole: Learner, contents: list[bytes], learner: Any) -> None:
    """Merge the first passes of all processes."""
    parts = []
    for content in contents:
        part = learner()
        unpack(part, *from_bytes(content))
        parts.append(part)
    join(whole, parts)


def _warn_of_target(learner: Learner, schema: TableSchema) -> None:
    names = learner.attributes.names
    lowest = np.min([sums.lowest for sums in learner.target_sums], axis=0)
    highest = np.max([sums.highest for sums in learner.target_sums], axis=0)
    varying = [
        name
        for name, low, high in zip(learner.target_names, lowest, highest, strict=True)
        if low < high
    ]
    for i in learner.attributes.of_role(Role.REGRESSOR, Role.SPLIT):
        if names[i] in schema.names and any(
            (names[i], output) not in learner.different for output in varying
        ):
            warn(
                f"Column {names[i]!r} equals the target in every row, so the tree only "
                "repeats it. Drop the column if it is the target itself."
            )


def _check_agreement(tree: Tree, exchange: Exchange) -> None:
    """Check that all processes have the same tree.

    Raises
    ------
    StreamError
        If processors of another kind rounded otherwise.
    """
    if exchange.n_processes == 1:
        return
    digest = hashlib.sha256(json.dumps(list(tree.schema.names)).encode())
    for name in ARRAY_FIELDS:
        digest.update(np.ascontiguousarray(getattr(tree, name)).tobytes())
    found = exchange.gathered(digest.digest())
    if len(set(found)) > 1:
        raise StreamError(
            "The processes have come to different trees: their processors or versions "
            "of JAX round differently. Run them on machines of one kind."
        )
