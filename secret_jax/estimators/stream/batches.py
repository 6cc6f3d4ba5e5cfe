"""Batches of rows of a stream, whatever form they come in."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from secret_jax.data.columns import (
    ReadTable,
    is_index,
    listed,
    read_columns,
    read_target,
)


class StreamError(ValueError):
    """Error of a stream that cannot be read; the message says where."""


class Wanted(NamedTuple):
    """Names of the target, weight and feature columns of a stream; None: all others."""

    targets: tuple[str, ...]
    weight: str | None = None
    features: tuple[str, ...] | None = None

    @property
    def special(self) -> tuple[str, ...]:
        """Columns that are no features."""
        return (*self.targets, *([self.weight] if self.weight else []))

    def columns(self, names: Sequence[str], where: str, targets: bool) -> list[str]:
        """Choose the features, and the targets and weight if ``targets``, by name."""
        features = self.features
        if features is None:
            others = (name for name in names if name not in self.special)
            features = tuple(name for name in others if not is_index(name))
        wanted = [*features, *(self.special if targets else ())]
        lacking = [name for name in wanted if name not in names]
        if lacking or not features:
            raise StreamError(
                f"In {where}: there is no column {listed(lacking) or 'of features'}; "
                f"its columns are {listed(names)}."
            )
        return wanted


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
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.weight)

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


def as_batch(item: Any, wanted: Wanted, where: str, targets: bool = True) -> Batch:
    """Convert a table, or a tuple (X, y[, sample_weight]), to a batch."""
    try:
        if isinstance(item, tuple | list):
            batch = _of_arrays(item, wanted.targets if targets else None, where)
        else:
            batch = _of_table(_columns_of(item), wanted, where, targets)
        sizes = {len(batch.targets), batch.n_rows, *map(len, batch.columns.values())}
        if len(sizes) > 1:
            raise ValueError(f"the columns have different lengths: {sorted(sizes)}.")
        return batch
    except StreamError:
        raise
    except (ValueError, TypeError) as error:
        raise StreamError(f"In {where}: {error}") from None


def _of_arrays(item: Sequence[Any], names: Sequence[str] | None, where: str) -> Batch:
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
    n_outputs = y.shape[-1]
    if names is not None and n_outputs != len(names):
        raise ValueError(
            f"y has {n_outputs} outputs, and the target is called {listed(names)}. "
            "Give a name of each, as target=('a', 'b')."
        )
    return Batch(columns, named, y, weight, where)


def _of_table(
    columns: dict[str, np.ndarray], wanted: Wanted, where: str, targets: bool
) -> Batch:
    used = wanted.columns(list(columns), where, targets)
    features = used[: -len(wanted.special)] if targets else used
    n_rows = len(columns[features[0]])
    y, weight = np.full((n_rows, len(wanted.targets)), np.nan), np.ones(n_rows)
    if targets:
        y = np.column_stack([_target(columns[name], name) for name in wanted.targets])
    if targets and wanted.weight:
        weight = np.asarray(columns[wanted.weight], np.float64)
    features = {name: columns[name] for name in features}
    return Batch(features, True, y, weight, where)


def _target(column: np.ndarray, name: str) -> np.ndarray:
    try:
        return read_target(column)
    except ValueError as error:
        raise ValueError(f"column {name!r}: {error}") from None


def _columns_of(item: Any) -> dict[str, np.ndarray]:
    if isinstance(item, dict):
        return {str(name): _one(np.asarray(column)) for name, column in item.items()}
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


def _one(column: np.ndarray) -> np.ndarray:
    if column.ndim != 1:
        raise ValueError(f"a column has the shape {column.shape}, not (n_rows,)")
    if column.dtype.kind in "fiubM":
        return column
    return read_columns(np.asarray(column, object)[:, None])[0]  # type: ignore[index]
