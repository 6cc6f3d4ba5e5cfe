"""What the benchmarks share: parts of a data set, files of records, tables, pictures.

A record is a frozen dataclass that extends the dataclass of its run: what was to be
done, and what came of it. A file holds one record a line, as JSON.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import functools
import hashlib
import importlib
import itertools
import json
import math
import sys
import time
import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np

import secret_jax
from secret_jax import RefinementWarning, UnseenCategoryWarning

# Rooms that no fit runs through; a change in them leaves earlier results valid.
_READING = ("inspect", "cli", "datasets.py")
_Kind = TypeVar("_Kind")
_Planned = TypeVar("_Planned")


class InputError(ValueError):
    """What was asked for cannot be done, and what can be done about it."""


@contextlib.contextmanager
def told_in_words() -> Iterator[None]:
    """End a command by what an `InputError` says, without a traceback."""
    try:
        yield
    except InputError as error:
        raise SystemExit(str(error)) from error


class Part(NamedTuple):
    """Rows to train, prune or test on."""

    X: Any
    y: np.ndarray


class Figure(NamedTuple):
    """A mean over runs, and the standard error of that mean."""

    mean: float
    standard_error: float

    def __str__(self) -> str:
        if not 0 < self.standard_error < math.inf:
            return f"{self.mean:.4g}"
        decimals = max(0, 1 - math.floor(math.log10(self.standard_error)))
        return f"{self.mean:.{decimals}f} ± {self.standard_error:.{decimals}f}"


def figure(values: Iterable[float]) -> Figure:
    """Mean and standard error; the latter is NaN for a single value."""
    array = np.array(list(values), np.float64)
    with np.errstate(invalid="ignore"):
        deviation = float(array.std(ddof=1)) if len(array) > 1 else math.nan
        return Figure(float(array.mean()), deviation / math.sqrt(len(array)))


class Experiment(NamedTuple):
    """The rows of one repeat, the discrete columns, and a seed for the fits."""

    train: Part
    prune: Part
    test: Part
    discrete: list[Any]
    seed: int


def randomness_of(name: str, repeat: int) -> tuple[np.random.Generator, int]:
    """Where the rows of a repeat of a set come from, and a seed for the fits."""
    # A checksum: Python's own hash of a string changes from process to process.
    sequence = np.random.SeedSequence([zlib.crc32(name.encode()), repeat])
    for_rows, for_fits = sequence.spawn(2)
    return np.random.default_rng(for_rows), int(for_fits.generate_state(1)[0])


def dealt_out(X: Any, y: np.ndarray, random: np.random.Generator) -> list[Part]:
    """50 % of the rows of a DataFrame to train, 30 % to prune, 20 % to test."""
    order = random.permutation(len(y))
    n_train, n_prune = round(0.5 * len(order)), round(0.3 * len(order))
    parts = np.split(order, [n_train, n_train + n_prune])
    return [Part(X.iloc[rows], y[rows]) for rows in parts]


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """Ignore warnings that are outcomes here.

    Around all fits, not each: threads would restore each other's filters.
    """
    with warnings.catch_warnings():
        # In small sets some categories occur in the pruning or the test part only.
        warnings.simplefilter("ignore", UnseenCategoryWarning)
        # A hard tree that was kept is an outcome as well.
        warnings.simplefilter("ignore", RefinementWarning)
        yield


def read_records(path: Path, kind: type[_Kind]) -> list[_Kind]:
    """Records of a file, if there is one, without a last line that was cut short."""
    if not path.exists():
        return []
    *lines, _ = path.read_text().split("\n")
    try:
        return [kind(**json.loads(line)) for line in lines]
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{path} does not hold records of this benchmark ({error}). Name another "
            "file as out."
        ) from None


def run_of(record: Any, kind: type[_Kind]) -> _Kind:
    """What was to be done, without what came of it."""
    names = [field.name for field in fields(kind)]  # pyright: ignore[reportArgumentType]
    return kind(**{name: getattr(record, name) for name in names})


def fit_missing(
    planned: Sequence[_Planned],
    path: Path,
    kind: type[_Kind],
    fit: Callable[[_Planned], _Kind] | None,
    at_once: Callable[[_Planned], int] = lambda _: 1,
) -> list[_Kind]:
    """Records of what is planned; fits that a file does not hold are made and added.

    ``kind``: of a record; ``fit``: from a run to its record; a run that fails does not
    stop the others. None: take what the file holds; `InputError` if there is nothing.
    ``at_once``: of a run, how many fits like it grow their trees at the same time; the
    seconds of their records are then the mean, and ``together`` their number.
    """
    run_kind = type(planned[0])
    records = {run_of(record, run_kind): record for record in read_records(path, kind)}
    missing = [run for run in planned if run not in records] if fit else []
    if fit and len(missing) < len(planned):
        say(f"{len(planned) - len(missing)} of {len(planned)} fits are in {path}.")
    if missing:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a+b") as file:  # without a last line that was cut short
            file.seek(0)
            file.truncate(file.read().rfind(b"\n") + 1)
    numbers = itertools.count(1)
    for some in _batches(missing, at_once):
        begun = time.perf_counter()
        with quietly():
            done = _done([functools.partial(cast(Callable, fit), run) for run in some])
        each = (time.perf_counter() - begun) / len(some)
        for run, made in zip(some, done, strict=True):
            told = f"{next(numbers)}/{len(missing)}"
            if (error := made.exception()) is not None:
                say(f"{told} {run} failed: {type(error).__name__}: {error}")
                continue
            record: Any = made.result()
            if len(some) > 1:  # those of one fit hold waiting for the others
                record = replace(record, seconds=round(each, 4), together=len(some))
            with path.open("a") as file:  # at once: nothing is lost when it is stopped
                file.write(json.dumps(asdict(record)) + "\n")
            records[run] = record
            say(f"{told} {record}")
    found = [records[run] for run in planned if run in records]
    if not found:
        raise InputError(
            "All fits failed; see above."
            if missing
            else f"{path} holds no fits with these options and this code."
        )
    return found


def _batches(
    runs: Sequence[_Planned], at_once: Callable[[_Planned], int]
) -> Iterator[Sequence[_Planned]]:
    """Neighbours of one number at once, at most so many."""
    for size, group in itertools.groupby(runs, at_once):
        alike = list(group)
        for first in range(0, len(alike), size):
            yield alike[first : first + size]


def _done(fits: Sequence[Callable[[], Any]]) -> Sequence[Future[Any]]:
    """Make fits, one here and now, or several whose trees grow at the same time."""
    if len(fits) > 1:
        # `benchmarks.accuracy.versions` also runs code that does not have it.
        from secret_jax.fit.grow.together import fit_together

        return fit_together(fits)
    made: Future[Any] = Future()
    try:
        made.set_result(fits[0]())
    except Exception as error:
        made.set_exception(error)
    return [made]


@functools.cache
def code_version() -> str:
    """Checksum of the code that fits, whatever its comments and docstrings say."""
    folder = Path(secret_jax.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        name = path.relative_to(folder)
        if name.parts[0] not in _READING:
            digest.update(str(name).encode())
            digest.update(_without_docstrings(path.read_text()).encode())
    return digest.hexdigest()[:8]


def _without_docstrings(source: str) -> str:
    tree = ast.parse(source)
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(tree):
        if isinstance(node, documented) and ast.get_docstring(node) is not None:
            node.body = node.body[1:]
    return ast.dump(tree)


def say(line: str) -> None:
    """Print a line of progress to standard error."""
    print(line, file=sys.stderr, flush=True)


def whole_number(text: str) -> int:
    """Type of an option that counts something."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number of at least 1")
    return int(text)


def value_of(word: str) -> Any:
    """Value that a word stands for: in Python, with this package's names, or a name."""
    names: dict[str, Any] = {"__builtins__": {}}
    for package in (secret_jax, importlib.import_module("secret_jax.learners")):
        names |= {name: getattr(package, name) for name in package.__all__}
    try:
        return eval(word, names)
    except (NameError, SyntaxError):
        if set(word) & set("([{'\"}])"):  # no name
            raise
        return word


def markdown(lines: Sequence[Sequence[str]]) -> str:
    """A table whose first line is its head, legible as it is."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    rows = [list(lines[0]), ["-" * width for width in widths], *map(list, lines[1:])]
    return "\n".join(
        "| " + " | ".join(map(str.ljust, row, widths)) + " |" for row in rows
    )


# Okabe & Ito (2008): distinct also for colour-blind readers.
COLOURS = (
    *("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"),
    *("#7F7F7F",),
)
MARKERS = "osD^vP*X<>hp"
DASHES = ("-", "--", "-.", ":")


def styles(names: Sequence[str]) -> dict[str, dict[str, str]]:
    """Colour, marker and dashes for every name, told apart by more than colour."""
    n = len(COLOURS)
    return {
        name: {
            "color": COLOURS[i % n],
            "marker": MARKERS[i % len(MARKERS)],
            "linestyle": DASHES[i // n % len(DASHES)],
        }
        for i, name in enumerate(names)
    }


def new_figure(n_rows: int, n_columns: int, *, width: float = 6, height: float = 4.2):
    """A figure and its axes, shape (n_rows, n_columns), without a window."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(
        figsize=(width * n_columns, height * n_rows), layout="constrained", dpi=120
    )
    FigureCanvasAgg(figure)
    axes: Any = figure.subplots(n_rows, n_columns, squeeze=False)
    for axis in axes.flat:
        axis.grid(True, which="major", color="#DDDDDD", linewidth=0.6)
        axis.set_axisbelow(True)
        axis.spines[["top", "right"]].set_visible(False)
    return figure, axes


def save_figure(figure: Any, path: Path) -> None:
    """Write a figure to a file, whose folder is made if need be."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
