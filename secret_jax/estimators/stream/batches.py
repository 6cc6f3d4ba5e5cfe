"""Batches of rows that are read twice: of Arrow datasets, arrays on disk, iterables."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from time import monotonic
from typing import Any, NamedTuple

import numpy as np

from secret_jax.data.columns import (
    ReadTable,
    is_index,
    listed,
    read_columns,
    read_target,
)
from secret_jax.runtime.environment import imported
from secret_jax.runtime.progress import Progress, Stage

# Rows that a reader is asked for at a time.
_BATCH_ROWS = 1 << 18


class StreamError(ValueError):
    """Error of a stream that cannot be read; the message says where."""


class Wanted(NamedTuple):
    """Names of the target, weight and feature columns of a stream; None: all others.

    ``to_predict``: targets and weight are not read, and need not be there.
    """

    targets: tuple[str, ...]
    weight: str | None = None
    features: tuple[str, ...] | None = None
    to_predict: bool = False

    def columns(self, names: Sequence[str], where: str) -> tuple[list[str], list[str]]:
        """Names of the features, and of the targets and weight that are read."""
        others = [*self.targets, *([self.weight] if self.weight else [])]
        features = self.features
        if features is None:
            features = [n for n in names if n not in others and not is_index(n)]
        others = [] if self.to_predict else others
        lacking = [name for name in (*features, *others) if name not in names]
        if lacking or not features:
            raise StreamError(
                f"In {where}: there is no column {listed(lacking) or 'of features'}; "
                f"its columns are {listed(names)}."
            )
        return list(features), others


class Batch(NamedTuple):
    """Consecutive rows of a stream."""

    # (n_rows,) each, as `secret_jax.data.columns.read_columns` gives them.
    columns: dict[str, np.ndarray]
    named: bool  # whether the names came with the data
    targets: np.ndarray  # (n_rows, n_outputs), float64
    weight: np.ndarray  # (n_rows,), float64
    where: str  # file or batch, in words
    offset: int = 0  # row there at which it begins
    start: int = 0  # row of the stream at which it begins

    @property
    def table(self) -> ReadTable:
        """Columns, with names if they came with the data."""
        return self.columns if self.named else list(self.columns.values())

    @contextmanager
    def with_row_context(self) -> Iterator[None]:
        """Say of errors where they are, and of rows which ones of the stream."""

        def place(found: re.Match[str]) -> str:
            row = int(found[1])
            there = f"row {self.offset + row} of {self.where}"
            return f"row {self.start + row} ({there})"

        try:
            yield
        except ValueError as error:
            message = re.sub(r"\brow (\d+)", place, str(error))
            raise StreamError(f"In {self.where}: {message}") from None


class BatchSource(NamedTuple):
    """Source of batches, which come in the same order every time.

    ``batches``: reads all of them, anew; ``n_rows``: None if only reading tells.
    """

    batches: Callable[[], Iterator[Batch]]
    n_rows: int | None = None

    def read(self, stage: str, progress: Progress) -> Iterator[Batch]:
        """Read the batches that have rows, one ahead, and report how many these are."""
        told, began, n_rows = Stage(stage, progress), monotonic(), 0
        told.at(0, self.n_rows)
        batches = self.batches()
        with ThreadPoolExecutor(1) as reader:
            waiting = reader.submit(next, batches, None)
            while (batch := waiting.result()) is not None:
                waiting = reader.submit(next, batches, None)
                start, n_rows = n_rows, n_rows + len(batch.weight)
                if start < n_rows:
                    yield batch._replace(start=start)
                del batch  # not held while the next one is waited for
                rate = n_rows / max(monotonic() - began, 1e-9) / 1e6
                detail = f"{n_rows:,} rows, {rate:.2f} million a second"
                told.at(n_rows, self.n_rows, detail)


def opened(source: Any, wanted: Wanted) -> BatchSource:
    """Open the source that the user names; to predict also an array X."""
    if isinstance(source, str | os.PathLike):
        ds = imported("pyarrow.dataset", "Parquet files", "data")
        name = os.fspath(source)
        if "://" not in name and not os.path.exists(name):
            raise StreamError(f"There is no file or folder {name!r}.")
        with _naming(repr(name)):
            source = ds.dataset(name, format="parquet", partitioning="hive")
        if not source.files:
            raise StreamError(f"The folder {name!r} holds no Parquet files.")
    if type(source).__module__.partition(".")[0] == "pyarrow":
        return _of_dataset(source, wanted)
    if wanted.to_predict and isinstance(source, np.ndarray):
        source = source, None
    if (
        isinstance(source, tuple)
        and len(source) in (2, 3)
        and all(a is None or hasattr(a, "__getitem__") for a in source[:2])
    ):
        return _of_arrays(source, wanted)
    if isinstance(source, Iterator):
        raise StreamError(
            f"A {type(source).__name__} can be read only once, and the rows are read "
            "twice. Give a function that makes a new one, or a list of batches."
        )
    if not (callable(source) or isinstance(source, Iterable)):
        raise StreamError(
            f"A {type(source).__name__} is no source of rows. Give a folder of Parquet "
            "files, a pyarrow dataset, a tuple (X, y) of arrays, or something that can "
            "be iterated over twice."
        )

    def batches() -> Iterator[Batch]:
        items: Any = source() if callable(source) else source
        for k, item in enumerate(items):
            yield as_batch(item, wanted, f"batch {k}")

    return BatchSource(batches)


def _of_arrays(arrays: tuple[Any, ...], wanted: Wanted) -> BatchSource:
    """Batches of arrays (X, y) or (X, y, sample_weight), maybe mapped files."""
    sizes = [len(array) for array in arrays if array is not None]
    if len(set(sizes)) > 1:
        raise StreamError(f"The arrays have different numbers of rows: {sizes}.")

    def part(array: Any, rows: slice) -> Any:
        if array is None:
            return None
        taken = array.iloc[rows] if hasattr(array, "iloc") else array[rows]
        # A copy: a part of a file that is mapped would stay in memory as long as it.
        return np.array(taken) if isinstance(taken, np.memmap) else taken

    def batches() -> Iterator[Batch]:
        for start in range(0, sizes[0], _BATCH_ROWS):
            parts = [part(array, slice(start, start + _BATCH_ROWS)) for array in arrays]
            yield as_batch(parts, wanted, "the arrays")._replace(offset=start)

    return BatchSource(batches, sizes[0])


def _of_dataset(dataset: Any, wanted: Wanted) -> BatchSource:
    """Batches of the parts of an Arrow dataset, or of an Arrow table."""
    import pyarrow.dataset as ds

    dataset = dataset if isinstance(dataset, ds.Dataset) else ds.dataset(dataset)
    parts, n_rows = [], 0
    for number, part in enumerate(dataset.get_fragments()):
        path = getattr(part, "path", "")
        parts.append((part, f"part file {path!r}" if path else f"part {number}"))
        with _naming(parts[-1][1]):
            n_rows += part.count_rows()

    def batches() -> Iterator[Batch]:
        for part, where in parts:
            yield from _of_part(dataset, part, where, wanted)

    return BatchSource(batches, n_rows)


def _of_part(dataset: Any, part: Any, where: str, wanted: Wanted) -> Iterator[Batch]:
    import pyarrow as pa
    import pyarrow.dataset as ds

    with _naming(where):
        physical = part.physical_schema
        # Columns that stand in the names of folders are no columns of the files.
        keys = ds.get_partition_keys(part.partition_expression)
        virtual = [f for f in dataset.schema if f.name in keys]
        present = [*physical, *(f for f in virtual if f.name not in physical.names)]
        names = wanted.columns([field.name for field in present], where)
        read = part.to_batches(
            schema=pa.schema(present),
            columns=[*names[0], *names[1]],
            batch_size=_BATCH_ROWS,
            # More would be decoded, and held, long before it is looked at.
            batch_readahead=2,
            fragment_readahead=1,
        )
    offset = 0
    while True:
        with _naming(where):
            rows = next(read, None)
        if rows is None:
            return
        if rows.num_rows:
            yield as_batch(rows, wanted, where)._replace(offset=offset)
        offset += rows.num_rows


@contextmanager
def _naming(where: str) -> Iterator[None]:
    """Translate errors of Arrow inside the block to a `StreamError` naming the file."""
    try:
        yield
    except StreamError:
        raise
    except (ValueError, OSError) as error:  # Arrow's errors are of these kinds
        raise StreamError(
            f"Arrow cannot read {where}: {error}. Write the file again, or take it out "
            "of the folder."
        ) from None


def as_batch(item: Any, wanted: Wanted, where: str) -> Batch:
    """Convert a table, or a tuple (X, y[, sample_weight]), to a batch."""
    try:
        if isinstance(item, tuple | list):
            batch = _of_tuple(item, wanted, where)
        else:
            batch = _of_table(_columns_of(item), wanted, where)
        sizes = set(map(len, (batch.targets, batch.weight, *batch.columns.values())))
        if len(sizes) > 1:
            raise ValueError(f"the columns have different lengths: {sorted(sizes)}.")
        return batch
    except StreamError:
        raise
    except (ValueError, TypeError) as error:
        raise StreamError(f"In {where}: {error}") from None


def _of_tuple(item: Sequence[Any], wanted: Wanted, where: str) -> Batch:
    if len(item) not in (2, 3):
        raise ValueError(
            f"a tuple of {len(item)} is no batch; give (X, y) or (X, y, sample_weight)."
        )
    X, y, weight = (*item, None)[:3]
    read = read_columns(X)
    named = isinstance(read, dict)
    columns = read if named else {f"x{i}": column for i, column in enumerate(read)}
    n_rows = len(next(iter(columns.values()), ()))
    y = np.full(n_rows, np.nan) if y is None else read_target(y)
    y = y[:, None] if y.ndim == 1 else y
    weight = np.ones(len(y)) if weight is None else np.asarray(weight, np.float64)
    if y.ndim != 2 or weight.ndim != 1:
        raise ValueError(
            f"y has the shape {y.shape} and sample_weight {weight.shape}; give "
            "(n_rows,) or (n_rows, n_outputs), and (n_rows,)."
        )
    if not wanted.to_predict and y.shape[-1] != len(wanted.targets):
        names = listed(wanted.targets)
        raise ValueError(
            f"y has {y.shape[-1]} outputs, and the target is called {names}. "
            "Give a name of each, as target=('a', 'b')."
        )
    return Batch(columns, named, y, weight, where)


def _of_table(columns: dict[str, np.ndarray], wanted: Wanted, where: str) -> Batch:
    features, others = wanted.columns(list(columns), where)
    n_rows = len(columns[features[0]])
    targets, weight = [np.full(n_rows, np.nan)] * len(wanted.targets), np.ones(n_rows)
    for number, name in enumerate(wanted.targets if others else ()):
        try:
            targets[number] = read_target(columns[name])
        except ValueError as error:
            raise ValueError(f"column {name!r}: {error}") from None
    if others and wanted.weight:
        weight = np.asarray(columns[wanted.weight], np.float64)
    y = np.column_stack(targets)
    return Batch({name: columns[name] for name in features}, True, y, weight, where)


def _columns_of(item: Any) -> dict[str, np.ndarray]:
    if isinstance(item, dict):
        columns = {str(name): np.asarray(column) for name, column in item.items()}
        for name, column in columns.items():
            if column.ndim != 1:
                raise ValueError(
                    f"a column has the shape {column.shape}, not (n_rows,)"
                )
            if column.dtype.kind not in "fiubM":
                read = read_columns(column.astype(object)[:, None])
                columns[name] = read[0]  # type: ignore[index]
        return columns
    if type(item).__name__ == "RecordBatch":  # which is no table in itself
        import pyarrow as pa

        item = pa.Table.from_batches([item])
    read = read_columns(item)
    if isinstance(read, list):
        raise ValueError(
            "a batch without names of columns holds no target that could be found; "
            "give tuples (X, y)"
        )
    return read
