"""Several fits whose trees grow in one frontier.

A fit asks for trees now and then, and does other things between. Here every fit has a
thread, of which one runs at a time; one that asks for trees waits until all others ask
as well or are done. Then the thread that runs them all grows what they ask for side by
side: it is the one that hears Ctrl-C. A node's split does not depend on the nodes
beside it, and so the trees are those of fits by themselves.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from secret_jax.data.rows import Rows, join
from secret_jax.data.schema import TableSchema
from secret_jax.grow.frontier import Root
from secret_jax.grow.grower import Enough, GrowOptions, grow
from secret_jax.runtime.devices import carried, chosen_device, memory_limit
from secret_jax.tree.structure import Tree

# What growth does not look at: the units of a table, which its rows have lost.
_UNITS = ("center", "scale", "target_centers", "target_scales", "target_names")
_UNITS += ("names", "missing_shares")


class Cancelled(BaseException):
    """A fit beside others was given up, because one of them failed."""


@dataclass(eq=False, kw_only=True)
class _Request:
    """Trees that a fit waits for."""

    rows: Rows
    schema: TableSchema
    options: GrowOptions
    roots: Sequence[Root]
    enough: Enough | None
    kind: Hashable
    # Where the fit computes, whatever thread grows its trees.
    grow_there: Callable[[Sequence[_Request]], None]
    trees: list[Tree] | None = None
    error: BaseException | None = None


def _kind(schema: TableSchema, options: GrowOptions) -> Hashable:
    """What requests have in common that can grow side by side."""
    about = tuple(
        getattr(schema, field.name)
        for field in fields(schema)
        if field.name not in _UNITS
    )
    kind = (options, about, chosen_device(), memory_limit())
    try:
        hash(kind)
    except TypeError:  # a finder that cannot be compared grows by itself
        return object()
    return kind


class Together:
    """Fits that take turns, and whose trees grow side by side.

    Parameters
    ----------
    jobs : sequence of callable
        Each fits something, and returns nothing.
    """

    def __init__(self, jobs: Sequence[Callable[[], None]]):
        self._jobs = list(jobs)
        self._turn = threading.Condition()
        self._running: int | None = None
        self._ready = list(range(len(self._jobs)))
        self._asked: dict[int, _Request] = {}
        self._error: BaseException | None = None

    def run(self) -> None:
        """Run all jobs; the first error, if there is one, is raised."""
        work = carried(self._work)
        threads = [
            threading.Thread(target=work, args=(i,), daemon=True)
            for i in range(len(self._jobs))
        ]
        try:
            for thread in threads:
                thread.start()
            with self._turn:
                self._next()
            while requests := self._all_asked():
                _grow_all(requests)
                with self._turn:
                    self._ready = sorted(self._asked)
                    self._asked.clear()
                    self._next()
        except BaseException as error:
            self._fail(error)
            raise
        finally:
            for thread in threads:
                if thread.is_alive():
                    thread.join()

    def grow(
        self,
        rows: Rows,
        schema: TableSchema,
        options: GrowOptions,
        roots: Sequence[Root],
        enough: Enough | None,
    ) -> list[Tree]:
        """`secret_jax.grow.grower.grow`, beside what other fits ask for."""
        number = _NUMBER.get()
        request = _Request(
            rows=rows,
            schema=schema,
            options=options,
            roots=roots,
            enough=enough,
            kind=_kind(schema, options),
            grow_there=carried(_grow_alike),
        )
        with self._turn:
            self._asked[number] = request
            self._next()
            self._wait_for_turn(number)
        if request.error is not None:
            raise request.error
        assert request.trees is not None
        return request.trees

    def _work(self, number: int) -> None:
        tokens = _TOGETHER.set(self), _NUMBER.set(number)
        try:
            with self._turn:
                self._wait_for_turn(number)
            self._jobs[number]()
        except Cancelled:
            pass
        except BaseException as error:
            self._fail(error)
        finally:
            _TOGETHER.reset(tokens[0])
            _NUMBER.reset(tokens[1])
            with self._turn:
                self._next()

    def _wait_for_turn(self, number: int) -> None:
        while self._running != number and self._error is None:
            self._turn.wait()
        if self._error is not None:
            raise Cancelled

    def _all_asked(self) -> list[_Request]:
        """What the fits wait for, once none of them runs; nothing when all are done."""
        with self._turn:
            while self._running is not None and self._error is None:
                self._turn.wait(0.5)  # so that Ctrl-C is heard
            if self._error is not None:
                raise self._error
            return list(self._asked.values())

    def _next(self) -> None:
        """Hand the turn on."""
        self._running = self._ready.pop(0) if self._ready else None
        self._turn.notify_all()

    def _fail(self, error: BaseException) -> None:
        """End all fits."""
        with self._turn:
            self._error = self._error or error
            self._turn.notify_all()


_TOGETHER: ContextVar[Together | None] = ContextVar("together", default=None)
_NUMBER: ContextVar[int] = ContextVar("number")


def partners() -> Together | None:
    """The fits that this one takes turns with, if there are any."""
    return _TOGETHER.get()


def _grow_all(requests: Sequence[_Request]) -> None:
    kinds: dict[Hashable, list[_Request]] = {}
    for request in requests:
        kinds.setdefault(request.kind, []).append(request)
    for alike in kinds.values():
        try:
            alike[0].grow_there(alike)
        except Exception as error:  # theirs: each fit says what it has to of it
            for request in alike:
                request.error = error


def _grow_alike(requests: Sequence[_Request]) -> None:
    """Grow the trees of requests of one kind over one table of all their rows."""
    first = requests[0]
    roots: list[Root] = []
    n_before = 0
    parts: list[slice] = []
    for request in requests:
        begin = len(roots)
        roots += [replace(root, rows=root.rows + n_before) for root in request.roots]
        parts.append(slice(begin, len(roots)))
        n_before += request.rows.n_rows

    def enough(depth: int, trees: Callable[[], list[Tree]]) -> np.ndarray:
        grown: list[list[Tree]] = []

        def own(which: int) -> list[Tree]:
            if not grown:
                grown.append(trees())
            return _with_schema(grown[0][parts[which]], requests[which].schema)

        done = [np.zeros(0, int)]
        for which, request in enumerate(requests):
            if request.enough is not None:
                found = request.enough(depth, lambda which=which: own(which))
                done.append(np.asarray(found, int) + parts[which].start)
        return np.concatenate(done)

    rows = join([request.rows for request in requests])
    any_enough = any(request.enough is not None for request in requests)
    asked: Any = enough if any_enough else None
    trees = grow(rows, first.schema, first.options, roots, enough=asked)
    for request, part in zip(requests, parts, strict=True):
        request.trees = _with_schema(trees[part], request.schema)


def _with_schema(trees: Sequence[Tree], schema: TableSchema) -> list[Tree]:
    return [replace(tree, schema=schema) for tree in trees]
