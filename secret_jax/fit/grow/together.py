"""Many fits whose trees grow at the same time.

A level does not care which tree its nodes belong to, nor which fit: on small tables a
step costs the same for one node as for a thousand. Fits run in threads; each that comes
to a growth waits until all have come to one, or to their end, and then one of them
grows the trees of all.
"""

from __future__ import annotations

import itertools
import threading
import warnings
from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextvars import ContextVar, copy_context
from dataclasses import replace
from functools import cache, partial
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np

from secret_jax.data.rows import Rows, join
from secret_jax.data.schema import TableSchema
from secret_jax.fit.grow.execution import GrowOptions
from secret_jax.fit.grow.frontier import Root
from secret_jax.fit.grow.grower import Enough, Grown, SoFar, grown
from secret_jax.runtime.devices import carried, chosen_device
from secret_jax.runtime.parallel import N_WORKERS, one_thread_for_products
from secret_jax.runtime.progress import Stage, Step

# Rows of all roots that grow together, unless those of one fit are more: with many the
# steps cost what the rows cost, and together they would only need more memory.
_MOST_ROWS = 1 << 20

_Result = TypeVar("_Result")
_Asked: TypeAlias = "tuple[Growth, Future[list[Grown]]]"


class Growth(NamedTuple):
    """What `secret_jax.fit.grow.grower.grown` is asked for."""

    rows: Rows
    schema: TableSchema
    options: GrowOptions
    roots: Sequence[Root]
    stage: Stage
    enough: Enough | None


def grow(growth: Growth) -> list[Grown]:
    """Grow trees, with those of the other fits where there are any."""
    meeting = _MEETING.get()
    if meeting is None:
        return grown(*growth)
    # What a fit is told, it is told as in its own thread.
    stage = replace(growth.stage, progress=_as_here(growth.stage.progress))
    enough = None if growth.enough is None else _as_here(growth.enough)
    return meeting.grow(growth._replace(stage=stage, enough=enough))


def fit_together(
    fits: Sequence[Callable[[], _Result]], *, at_once: int = 64
) -> list[Future[_Result]]:
    """Call functions that fit models, whose trees grow at the same time.

    For experiments of many fits of small tables: repeats, grids, seeds. Trees are those
    of one fit after the other but for rounding. Growths are one where their options and
    the form of their tables agree: numbers of columns and of the most categories.

    Parameters
    ----------
    fits : sequence of callables
        Without arguments.
    at_once : int, default=64
        Number of fits that are in memory at the same time.

    Returns
    -------
    list of concurrent.futures.Future
        All done: ``result()`` gives what a function returned, or raises its error.

    Examples
    --------
    >>> from secret_jax import SecretRegressor
    >>> from secret_jax.datasets import make_fried
    >>> def fit(seed):
    ...     return SecretRegressor().fit(*make_fried(200, random_state=seed))
    >>> done = fit_together([lambda seed=seed: fit(seed) for seed in range(8)])
    >>> [tree.result().n_leaves_ > 0 for tree in done] == [True] * 8
    True
    """
    futures: list[Future[_Result]] = []
    # Threads that change limits and filters would restore each other's.
    with (
        one_thread_for_products(),
        warnings.catch_warnings(),
        ThreadPoolExecutor(at_once) as pool,
    ):
        for first in range(0, len(fits), at_once):
            some = fits[first : first + at_once]
            meeting = _Meeting(len(some))
            try:
                for fit in some:
                    futures.append(pool.submit(_as_here(meeting.of), fit))
                wait(futures)
            except BaseException:
                meeting.close()
                raise
    return futures


def _as_here(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function for another thread, where context and settings are as here."""
    return carried(partial(copy_context().run, function))


class _Meeting:
    """Fits that wait for each other before they grow trees."""

    def __init__(self, n_fits: int):
        self._changed = threading.Condition()
        self._n_busy, self._waiting = n_fits, list[_Asked]()
        self._is_closed = False
        self._leader: int | None = None  # thread that grows trees
        # Of what fits do alone: more threads would wait for Python's lock.
        self._turns = threading.Semaphore(N_WORKERS)

    def of(self, fit: Callable[[], _Result]) -> _Result:
        """Call one of the fits, in a thread of its own."""
        _MEETING.set(self)
        try:
            with self._turns:
                return fit()
        finally:
            with self._changed:
                self._n_busy -= 1
                if self._n_busy <= 0:
                    self._changed.notify()  # one that waits grows the trees of all

    def grow(self, growth: Growth) -> list[Grown]:
        """Wait for the others; the last to come grows the trees of all."""
        if self._leader == threading.get_ident():  # asked for inside of a growth
            return grown(*growth)
        own: Future[list[Grown]] = Future()
        self._turns.release()
        try:
            with self._changed:
                self._waiting.append((growth, own))
                self._n_busy -= 1
                while not own.done():
                    if self._is_closed:
                        raise KeyboardInterrupt
                    if self._n_busy <= 0:
                        self._grow_all()
                    else:
                        self._changed.wait()
        finally:
            self._turns.acquire()
        return own.result()

    def close(self) -> None:
        """Let every fit end where it comes to its next growth."""
        self._is_closed = True  # also if a growth holds the lock
        with self._changed:
            self._changed.notify_all()

    def _grow_all(self) -> None:
        waiting, self._waiting = self._waiting, []
        self._leader = threading.get_ident()
        try:
            for group in list(_groups(waiting)):
                try:
                    growths = [growth for growth, _ in group]
                    one = len(group) == 1
                    found = [grown(*growths[0])] if one else _Joint(growths).grown()
                except BaseException as error:  # of fits of one form: of them all
                    found = [error] * len(group)
                for (_, own), trees in zip(group, found, strict=True):
                    if isinstance(trees, BaseException):
                        own.set_exception(trees)
                    else:
                        own.set_result(trees)
        except BaseException as error:  # as of a finder that is no key
            for own in (own for _, own in waiting if not own.done()):
                own.set_exception(error)
        finally:
            self._leader = None
            self._n_busy += len(waiting)
            self._changed.notify_all()


_MEETING: ContextVar[_Meeting | None] = ContextVar("meeting", default=None)


def _groups(waiting: Sequence[_Asked]) -> Iterator[list[_Asked]]:
    """Growths that can be one, of not too many rows."""
    keys = [_form(growth) for growth, _ in waiting]
    for key in dict.fromkeys(keys):
        group, n_rows = list[_Asked](), 0
        for each in itertools.compress(waiting, (own == key for own in keys)):
            size = sum(len(root.rows) for root in each[0].roots)
            n_rows += size
            if group and n_rows > _MOST_ROWS:
                yield group
                group, n_rows = [], size
            group.append(each)
        yield group


def _form(growth: Growth) -> Hashable:
    """What growths have in common that can be one."""
    schema, options = growth.schema, growth.options
    if options.fixed is not None or not isinstance(growth.rows.table.x, np.ndarray):
        return id(growth)
    return (
        chosen_device(),
        replace(options, max_depth=None),
        growth.enough is None,
        schema.input_columns,
        schema.n_regressors,
        schema.n_indicators,
        schema.missing_columns,
        schema.monotonic,
        schema.n_outputs,
        schema.discrete,
        max(map(len, schema.categories), default=0),
    )


class _Joint:
    """Growths of one form that are one; what one of their monitors raises ends it."""

    def __init__(self, growths: Sequence[Growth]):
        self._growths = growths
        last = np.cumsum([len(each.roots) for each in growths]).tolist()
        self._places = list(map(slice, [0, *last], last))
        self._errors: dict[int, BaseException] = {}
        self._ended: set[int] = set()

    def grown(self) -> list[list[Grown] | BaseException]:
        """Trees of each, or what its monitor has raised."""
        found = self._of_each(grown(*self._whole()))
        return [self._errors.get(i, trees) for i, trees in enumerate(found)]

    def _whole(self) -> Growth:
        """The one growth; kept here it would hold what holds it."""
        growths, first = self._growths, self._growths[0]
        starts = np.cumsum([0, *(each.rows.n_rows for each in growths)])
        roots = [
            replace(root, rows=root.rows + start, max_depth=each.options.max_depth)
            for each, start in zip(growths, starts, strict=False)
            for root in each.roots
        ]
        return Growth(
            rows=join([each.rows for each in growths]),
            schema=first.schema,
            options=replace(first.options, max_depth=None),
            roots=roots,
            stage=Stage(first.stage.name, self._told),
            enough=None if first.enough is None else self._enough,
        )

    def _of_each(self, trees: Sequence[Grown]) -> list[list[Grown]]:
        return [
            [
                each._replace(tree=replace(each.tree, schema=growth.schema))
                for each in trees[place]
            ]
            for growth, place in zip(self._growths, self._places, strict=True)
        ]

    def _told(self, step: Step) -> None:
        for i, growth in enumerate(self._growths):
            try:
                growth.stage.at(step.done, step.total, step.detail)
            except BaseException as error:  # of this fit alone
                self._errors.setdefault(i, error)

    def _enough(self, n_levels: int, so_far: SoFar) -> np.ndarray:
        ended = [np.zeros(0, int)]
        present = cache(lambda: self._present(so_far))  # once for all of them
        for i, growth in enumerate(self._growths):
            if i in self._ended:
                continue
            assert growth.enough is not None
            try:
                if i in self._errors:
                    raise self._errors[i]
                nodes = growth.enough(n_levels, lambda i=i: present()[i][:2])
            except BaseException as error:  # of this fit alone
                self._errors[i], nodes = error, slice(None)
                self._ended.add(i)
            if isinstance(nodes, slice) or len(nodes):
                ended.append(present()[i][2][nodes])
        return np.concatenate(ended)

    def _present(
        self, so_far: SoFar
    ) -> list[tuple[list[Grown], np.ndarray, np.ndarray]]:
        """Of each its trees, its nodes' numbers in them, and which nodes these are."""
        trees, number = so_far()
        found, first = [], 0
        for own in self._of_each(trees):
            size = sum(one.tree.n_nodes for one in own)
            mine = np.flatnonzero((number >= first) & (number < first + size))
            found.append((own, number[mine] - first, mine))
            first += size
        return found
