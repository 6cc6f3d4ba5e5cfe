"""Sources of batches that are read twice: Arrow datasets, arrays on disk, iterables."""

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from time import monotonic
from typing import Any, NamedTuple, TypeVar

import numpy as np

from secret_jax.estimators.stream.batches import Batch, StreamError, Wanted, as_batch
from secret_jax.runtime.optional import imported
from secret_jax.runtime.progress import Progress, Stage

# Rows that a reader is asked for at a time.
_BATCH_ROWS = 1 << 18

_Item = TypeVar("_Item")


class BatchSource(NamedTuple):
    """Source of batches, which come in the same order every time.

    ``batches``: reads all of them, anew, with targets or without; ``n_rows``: None if
    only reading tells.
    """

    batches: Callable[[bool], Iterator[Batch]]
    n_rows: int | None = None

    def read(
        self, stage: str, progress: Progress, targets: bool = True
    ) -> Iterator[Batch]:
        """Read the batches that have rows, one ahead, and report how many these are."""
        told, began, n_rows = Stage(stage, progress), monotonic(), 0
        told.at(0, self.n_rows)
        for batch in _ahead(self.batches(targets)):
            if batch.n_rows:
                yield batch._replace(start=n_rows)
            n_rows += batch.n_rows
            rate = n_rows / max(monotonic() - began, 1e-9) / 1e6
            detail = f"{n_rows:,} rows, {rate:.2f} million a second"
            told.at(n_rows, self.n_rows, detail)


def _ahead(items: Iterator[_Item]) -> Iterator[_Item]:
    """Iterate in a background thread, one item ahead; errors are raised here."""
    end = object()
    with ThreadPoolExecutor(1) as reader:
        waiting = reader.submit(next, items, end)
        while (item := waiting.result()) is not end:
            waiting = reader.submit(next, items, end)
            yield item  # pyright: ignore[reportReturnType]
            del item  # not held while the next one is waited for


def opened(source: Any, wanted: Wanted, targets: bool = True) -> BatchSource:
    """Open the source that the user names; without ``targets`` also an array X."""
    if isinstance(source, str | os.PathLike):
        source = _parquet(source)
    if type(source).__module__.partition(".")[0] == "pyarrow":
        return _of_dataset(source, wanted)
    if not targets and isinstance(source, np.ndarray):
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
    if callable(source) or isinstance(source, Iterable):

        def batches(targets: bool) -> Iterator[Batch]:
            items: Any = source() if callable(source) else source
            for k, item in enumerate(items):
                yield as_batch(item, wanted, f"batch {k}", targets)

        return BatchSource(batches)
    raise StreamError(
        f"A {type(source).__name__} is no source of rows. Give a folder of Parquet "
        "files, a pyarrow dataset, a tuple (X, y) of arrays, or something that can be "
        "iterated over twice."
    )


def _of_arrays(arrays: tuple[Any, ...], wanted: Wanted) -> BatchSource:
    """Batches of arrays (X, y) or (X, y, sample_weight), maybe mapped files."""
    sizes = [len(array) for array in arrays if array is not None]
    if len(set(sizes)) > 1:
        raise StreamError(f"The arrays have different numbers of rows: {sizes}.")

    def some(array: Any, rows: slice) -> Any:
        if array is None:
            return None
        taken = array.iloc[rows] if hasattr(array, "iloc") else array[rows]
        # A copy: a part of a file that is mapped would stay in memory as long as it.
        return np.array(taken) if isinstance(taken, np.memmap) else taken

    def batches(targets: bool) -> Iterator[Batch]:
        for start in range(0, sizes[0], _BATCH_ROWS):
            parts = [some(array, slice(start, start + _BATCH_ROWS)) for array in arrays]
            yield as_batch(parts, wanted, "the arrays", targets)._replace(offset=start)

    return BatchSource(batches, sizes[0])


def _parquet(path: str | os.PathLike[str]) -> Any:
    ds = imported("pyarrow.dataset", "Parquet files", "data")
    name = os.fspath(path)
    if "://" not in name and not os.path.exists(name):
        raise StreamError(f"There is no file or folder {name!r}.")
    with _naming(repr(name)):
        dataset = ds.dataset(name, format="parquet", partitioning="hive")
    if not dataset.files:
        raise StreamError(f"The folder {name!r} holds no Parquet files.")
    return dataset


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

    def batches(targets: bool) -> Iterator[Batch]:
        for part, where in parts:
            yield from _of_part(dataset, part, where, wanted, targets)

    return BatchSource(batches, n_rows)


def _of_part(
    dataset: Any, part: Any, where: str, wanted: Wanted, targets: bool
) -> Iterator[Batch]:
    import pyarrow as pa
    import pyarrow.dataset as ds

    with _naming(where):
        physical = part.physical_schema
        # Columns that stand in the names of folders are no columns of the files.
        keys = ds.get_partition_keys(part.partition_expression)
        virtual = [f for f in dataset.schema if f.name in keys]
        present = [*physical, *(f for f in virtual if f.name not in physical.names)]
        read = part.to_batches(
            schema=pa.schema(present),
            columns=wanted.columns([field.name for field in present], where, targets),
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
            yield as_batch(rows, wanted, where, targets)._replace(offset=offset)
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
