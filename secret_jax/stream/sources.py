"""Sources of batches: Arrow datasets, arrays on disk, anything read twice.

A source can be read repeatedly, from any row on, and always in the same order.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np

from secret_jax.data.columns import is_index, listed
from secret_jax.stream.batches import Batch, StreamError, Wanted, as_batch, sentence

# Rows that a reader is asked for at a time.
_BATCH_ROWS = 1 << 17
# Rows that tell arrays from others of their shape.
_SAMPLED_ROWS = 256


class BatchSource(Protocol):
    """Source of batches that can be read repeatedly."""

    @property
    def n_rows(self) -> int | None:
        """Number of rows; None if only reading tells."""
        ...

    @property
    def identity(self) -> str:
        """Description that tells this source from another one without reading it."""
        ...

    def batches(self, start: int, targets: bool = True) -> Iterator[Batch]:
        """Read batches from a row on, which is the first row of the first batch."""
        ...


def opened(source: Any, wanted: Wanted, targets: bool = True) -> BatchSource:
    """Open the source of batches that the user names.

    Parameters
    ----------
    source : path, pyarrow dataset or table, tuple of arrays, iterable or callable
        See ``SecretRegressor.fit_stream``.
    targets : bool
        False: there need be none, and an array X is a source as well.

    Raises
    ------
    StreamError
        If it is nothing that can be read twice.
    ImportError
        If pyarrow is needed and not there.
    """
    if hasattr(source, "batches") and hasattr(source, "identity"):
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
    try:
        import pyarrow.dataset as ds
    except ImportError:
        raise ImportError(
            "pyarrow is needed to read Parquet files: pip install 'secret-jax[data]'"
        ) from None
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
        for number, fragment in enumerate(dataset.get_fragments()):
            path = getattr(fragment, "path", "")
            where = f"part file {path!r}" if path else f"part {number}"
            with _told_of(where):
                if hasattr(fragment, "split_by_row_group"):
                    for group in fragment.split_by_row_group():
                        number = group.row_groups[0].id
                        place = f"{where}, row group {number}"
                        n_rows = group.row_groups[0].num_rows
                        self._parts.append((group, place, n_rows))
                else:
                    self._parts.append((fragment, where, fragment.count_rows()))

    @property
    def n_rows(self) -> int:
        """See `BatchSource`."""
        return sum(n_rows for _, _, n_rows in self._parts)

    @property
    def identity(self) -> str:
        """Digest of names (without folder), row counts and state of the part files."""
        states = [_state_of(fragment) for fragment, _, _ in self._parts]
        counts = [n_rows for _, _, n_rows in self._parts]
        digest = _digest(list(zip(states, counts, strict=True)))
        return f"{len(self._parts)} parts, {digest}, {self._wanted.identity}"

    def batches(self, start: int, targets: bool = True) -> Iterator[Batch]:
        """See `BatchSource`."""
        begin = 0
        for fragment, where, n_rows in self._parts:
            skipped = min(max(start - begin, 0), n_rows)
            begin += n_rows
            if skipped < n_rows:
                yield from self._of_part(fragment, where, skipped, targets)

    def _of_part(
        self, fragment: Any, where: str, skipped: int, targets: bool
    ) -> Iterator[Batch]:
        import pyarrow as pa

        with _told_of(where):
            physical = fragment.physical_schema
        # Columns that stand in the names of folders are no columns of the files.
        virtual = [f for f in self._dataset.schema if f.name not in physical.names]
        partition = _keys_of(fragment)
        present = [*physical, *(f for f in virtual if f.name in partition)]
        wanted, names = self._wanted, [field.name for field in present]
        special = (*wanted.targets, *([wanted.weight] if wanted.weight else []))
        columns = list(
            wanted.features
            or [n for n in names if n not in special and not is_index(n)]
        )
        columns += special if targets else ()
        lacking = [name for name in columns if name not in names]
        if lacking:
            raise StreamError(
                f"{sentence(where)} has no column {listed(lacking)}; its columns "
                f"are {listed(names)}."
            )
        with _told_of(where):
            read = fragment.to_batches(
                schema=pa.schema(present),
                columns=columns,
                batch_size=_BATCH_ROWS,
                # More would be decoded, and held, long before it is looked at.
                batch_readahead=2,
                fragment_readahead=1,
            )
        offset = 0
        while True:
            with _told_of(where):
                found = next(read, None)
            if found is None:
                return
            inside = found.slice(skipped)
            if inside.num_rows:
                batch = as_batch(inside, wanted, where, targets)
                yield batch._replace(offset=offset + skipped)
            offset += found.num_rows
            skipped = max(skipped - found.num_rows, 0)


def _state_of(fragment: Any) -> tuple[Any, ...]:
    """Fingerprint of a part: file name, size and time, or its first rows in memory."""
    path = getattr(fragment, "path", "")
    if not path:
        return (fragment.head(_SAMPLED_ROWS).to_pydict(),)
    with _told_of(f"part file {path!r}"):
        info = fragment.filesystem.get_file_info(path)
    return os.path.basename(path), info.size, info.mtime_ns


def _digest(content: Any) -> str:
    return hashlib.sha256(repr(content).encode()).hexdigest()[:16]


def _keys_of(fragment: Any) -> dict[str, Any]:
    import pyarrow.dataset as ds

    try:
        return ds.get_partition_keys(fragment.partition_expression)
    except (AttributeError, TypeError):
        return {}


@contextmanager
def _told_of(where: str) -> Iterator[None]:
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
    """Batches of arrays, in memory or mapped from disk.

    Parameters
    ----------
    arrays : tuple (X,), (X, y) or (X, y, sample_weight)
        Arrays of NumPy, ``numpy.load(..., mmap_mode="r")``, or of the same manners.
    """

    def __init__(self, arrays: tuple[Any, ...], wanted: Wanted):
        self._arrays = tuple(array for array in arrays if array is not None)
        self._wanted = wanted
        sizes = [len(array) for array in self._arrays]
        if len(set(sizes)) > 1:
            raise StreamError(f"The arrays have different numbers of rows: {sizes}.")

    @property
    def n_rows(self) -> int:
        """See `BatchSource`."""
        return len(self._arrays[0])

    @property
    def identity(self) -> str:
        """Shapes and types of the arrays, and a digest of some rows."""
        shapes = [
            f"{getattr(a, 'dtype', type(a).__name__)}{getattr(a, 'shape', len(a))}"
            for a in self._arrays
        ]
        some = slice(0, None, max(1, self.n_rows // _SAMPLED_ROWS))
        rows = [np.asarray(_rows_of(array, some)).tolist() for array in self._arrays]
        return ", ".join([*shapes, _digest(rows), self._wanted.identity])

    def batches(self, start: int, targets: bool = True) -> Iterator[Batch]:
        """See `BatchSource`."""
        for begin in range(start, self.n_rows, _BATCH_ROWS):
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
    """Batches of something that can be iterated repeatedly.

    Parameters
    ----------
    iterable : iterable, or callable that returns an iterable
        Items that `as_batch` accepts; the same batches in the same order every time.
    """

    n_rows = None

    def __init__(
        self, iterable: Iterable[Any] | Callable[[], Iterable[Any]], wanted: Wanted
    ):
        self._iterable, self._wanted = iterable, wanted

    @property
    def identity(self) -> str:
        """Names of the columns used; nothing else is known without reading."""
        return f"batches, {self._wanted.identity}"

    def batches(self, start: int, targets: bool = True) -> Iterator[Batch]:
        """See `BatchSource`; batches before ``start`` are read and dropped."""
        made = self._iterable() if callable(self._iterable) else self._iterable
        begin = 0
        for number, item in enumerate(made):
            batch = as_batch(item, self._wanted, f"batch {number}", targets)
            skipped = min(max(start - begin, 0), batch.n_rows)
            begin += batch.n_rows
            if skipped < batch.n_rows:
                yield batch.take(slice(skipped, None))
