"""Sources of batches: Arrow datasets, arrays on disk, anything read twice.

A source can be read repeatedly, and always in the same order.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np

from secret_jax.runtime.optional import imported
from secret_jax.stream.batches import Batch, StreamError, Wanted, as_batch, sentence

# Rows that a reader is asked for at a time.
_BATCH_ROWS = 1 << 18


class BatchSource(Protocol):
    """Source of batches that can be read repeatedly."""

    @property
    def n_rows(self) -> int | None:
        """Number of rows; None if only reading tells."""
        ...

    def batches(self, targets: bool = True) -> Iterator[Batch]:
        """Read all batches."""
        ...


def opened(source: Any, wanted: Wanted, targets: bool = True) -> BatchSource:
    """Open the source that the user names; without ``targets`` also an array X."""
    if hasattr(source, "batches") and hasattr(source, "n_rows"):
        return source
    if isinstance(source, str | os.PathLike):
        return ArrowBatches(_dataset(source), wanted)
    if type(source).__module__.partition(".")[0] == "pyarrow":
        import pyarrow.dataset as ds

        if not isinstance(source, ds.Dataset):
            source = ds.dataset(source)
        return ArrowBatches(source, wanted)
    if not targets and isinstance(source, np.ndarray):
        return ArrayBatches((source,), wanted)
    if (
        isinstance(source, tuple)
        and len(source) in (2, 3)
        and all(hasattr(array, "__getitem__") for array in source[:2])
    ):
        return ArrayBatches(source, wanted)
    if isinstance(source, Iterator):
        raise StreamError(
            f"A {type(source).__name__} can be read only once, and the rows are read "
            "twice. Give a function that makes a new one, or a list of batches."
        )
    if callable(source) or isinstance(source, Iterable):
        batches: Any = source
        return IterableBatches(batches, wanted)
    raise StreamError(
        f"A {type(source).__name__} is no source of rows. Give a folder of Parquet "
        "files, a pyarrow dataset, a tuple (X, y) of arrays, or something that can be "
        "iterated over twice."
    )


def _dataset(path: str | os.PathLike[str]) -> Any:
    ds = imported("pyarrow.dataset", "Parquet files", "data")
    name = os.fspath(path)
    if "://" not in name and not os.path.exists(name):
        raise StreamError(f"There is no file or folder {name!r}.")
    try:
        dataset = ds.dataset(name, format="parquet", partitioning="hive")
    except (OSError, ValueError) as error:
        raise StreamError(f"{name!r} cannot be read as Parquet: {error}") from None
    if not dataset.files:
        raise StreamError(f"The folder {name!r} holds no Parquet files.")
    return dataset


class ArrowBatches:
    """Batches of an Arrow dataset, read by row group or part.

    Raises
    ------
    StreamError
        If a part file cannot be opened or has no footer.
    """

    def __init__(self, dataset: Any, wanted: Wanted):
        self._dataset, self._wanted = dataset, wanted
        self._parts: list[tuple[Any, str, int]] = []
        for number, part in enumerate(dataset.get_fragments()):
            path = getattr(part, "path", "")
            where = f"part file {path!r}" if path else f"part {number}"
            with _naming(where):
                if not hasattr(part, "split_by_row_group"):
                    self._parts.append((part, where, part.count_rows()))
                    continue
                for group in part.split_by_row_group():
                    row_group = group.row_groups[0]
                    place = f"{where}, row group {row_group.id}"
                    self._parts.append((group, place, row_group.num_rows))

    @property
    def n_rows(self) -> int:
        return sum(n_rows for _, _, n_rows in self._parts)

    def batches(self, targets: bool = True) -> Iterator[Batch]:
        for part, where, n_rows in self._parts:
            if n_rows:
                yield from self._of_part(part, where, targets)

    def _of_part(self, part: Any, where: str, targets: bool) -> Iterator[Batch]:
        import pyarrow as pa
        import pyarrow.dataset as ds

        with _naming(where):
            physical = part.physical_schema
        # Columns that stand in the names of folders are no columns of the files.
        keys = ds.get_partition_keys(part.partition_expression)
        virtual = [f for f in self._dataset.schema if f.name in keys]
        present = [*physical, *(f for f in virtual if f.name not in physical.names)]
        names = [field.name for field in present]
        with _naming(where):
            read = part.to_batches(
                schema=pa.schema(present),
                columns=self._wanted.columns(names, where, targets),
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
                batch = as_batch(rows, self._wanted, where, targets)
                yield batch._replace(marks=((-offset, where),))
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
            f"{sentence(where)} cannot be read: {error}. Write the file again, or "
            "take it out of the folder."
        ) from None


class ArrayBatches:
    """Batches of arrays (X,), (X, y) or (X, y, sample_weight), maybe mapped files."""

    def __init__(self, arrays: tuple[Any, ...], wanted: Wanted):
        self._arrays = tuple(array for array in arrays if array is not None)
        self._wanted = wanted
        sizes = [len(array) for array in self._arrays]
        if len(set(sizes)) > 1:
            raise StreamError(f"The arrays have different numbers of rows: {sizes}.")

    @property
    def n_rows(self) -> int:
        return len(self._arrays[0])

    def batches(self, targets: bool = True) -> Iterator[Batch]:
        for begin in range(0, self.n_rows, _BATCH_ROWS):
            rows = slice(begin, min(begin + _BATCH_ROWS, self.n_rows))
            where = f"rows {rows.start} to {rows.stop - 1} of the arrays"
            parts = [_rows_of(array, rows) for array in self._arrays]
            parts += [None] * (2 - len(parts))
            yield as_batch(parts, self._wanted, where)


def _rows_of(array: Any, rows: slice) -> Any:
    taken = array.iloc[rows] if hasattr(array, "iloc") else array[rows]
    # A copy: a part of a file that is mapped would stay in memory as long as it.
    return np.array(taken) if isinstance(taken, np.memmap) else taken


class IterableBatches:
    """Batches of items that `as_batch` accepts, in the same order every time."""

    n_rows = None

    def __init__(
        self, iterable: Iterable[Any] | Callable[[], Iterable[Any]], wanted: Wanted
    ):
        self._iterable, self._wanted = iterable, wanted

    def batches(self, targets: bool = True) -> Iterator[Batch]:
        made = self._iterable() if callable(self._iterable) else self._iterable
        for k, item in enumerate(made):
            yield as_batch(item, self._wanted, f"batch {k}", targets)
