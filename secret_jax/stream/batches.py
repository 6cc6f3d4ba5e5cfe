"""Batches of rows of a stream, normalised to one form.

All batches of a stream have the same columns, of the same kinds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from secret_jax.data.columns import (
    OrderedText,
    ReadTable,
    Zoned,
    is_index,
    listed,
    made_up_names,
    read_columns,
    read_target,
    zoned,
)
from secret_jax.runtime.scratch import Scratch


class StreamError(ValueError):
    """Error of a stream that cannot be read; the message says where."""


def sentence(words: str) -> str:
    """Capitalise the first letter only; names of files stay as they are."""
    return words[:1].upper() + words[1:]


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
        if lacking:
            raise StreamError(
                f"{sentence(where)} has no column {listed(lacking)}; its columns are "
                f"{listed(list(names))}."
            )
        return wanted


class Batch(NamedTuple):
    """Consecutive rows of a stream."""

    # (n_rows,) each, as
    # `secret_jax.data.columns.read_columns` gives them.
    columns: dict[str, np.ndarray]
    named: bool  # whether the names came with the data
    targets: np.ndarray  # (n_rows, n_outputs), float64
    weight: np.ndarray  # (n_rows,), float64
    # Files or batches in words, and the rows here at which they begin.
    marks: tuple[tuple[int, str], ...]
    start: int = 0  # row of the stream where it begins

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.weight)

    @property
    def stop(self) -> int:
        """Index in the stream of the row after the last one."""
        return self.start + self.n_rows

    @property
    def table(self) -> ReadTable:
        """Columns, with names if they came with the data."""
        return self.columns if self.named else list(self.columns.values())

    def take(self, rows: slice | np.ndarray) -> Batch:
        """Select rows; marks are moved by a slice."""
        begin = rows.start or 0 if isinstance(rows, slice) else 0
        return self._replace(
            columns={name: column[rows] for name, column in self.columns.items()},
            targets=self.targets[rows],
            weight=self.weight[rows],
            marks=tuple((row - begin, where) for row, where in self.marks),
        )

    @contextmanager
    def placing(self) -> Iterator[None]:
        """Rewrite row numbers in error messages to positions in the stream."""
        try:
            yield
        except StreamError:
            raise
        except ValueError as error:
            message = re.sub(r"\brow (\d+)", self._place, str(error))
            where = f"rows {self.start} to {self.stop - 1} of the stream"
            raise StreamError(f"In {where}: {message}") from None

    def _place(self, match: re.Match[str]) -> str:
        row = int(match[1])
        begin, where = max(mark for mark in self.marks if mark[0] <= row)
        return f"row {self.start + row} (row {row - begin} of {where})"


def joined(
    batches: Sequence[Batch], start: int, scratch: Scratch, place: str = ""
) -> Batch:
    """Concatenate batches of one layout.

    ``scratch``: memory for the numbers, of which ``place`` names a part.
    """
    if len(batches) == 1:
        return batches[0]._replace(start=start)

    def numbers(name: str, parts: list[np.ndarray]) -> np.ndarray:
        dtype, shape = np.result_type(*parts), parts[0].shape[1:]
        shape = sum(map(len, parts)), *shape
        return np.concatenate(parts, out=scratch.array(f"{place} {name}", shape, dtype))

    def column(name: str) -> np.ndarray:
        parts = [batch.columns[name] for batch in batches]
        if any(part.dtype == object or isinstance(part, Zoned) for part in parts):
            return _concatenated(parts)
        return numbers(f"column {name}", parts)

    weights = [batch.weight for batch in batches]
    # Also those of the user may take no memory.
    ones = all(weight.strides == (0,) and weight[0] == 1.0 for weight in weights)
    begins = np.cumsum([0, *(batch.n_rows for batch in batches[:-1])]).tolist()
    several = zip(begins, batches, strict=True)
    return Batch(
        {name: column(name) for name in batches[0].columns},
        batches[0].named,
        numbers("targets", [batch.targets for batch in batches]),
        _ones(sum(map(len, weights))) if ones else numbers("weights", weights),
        tuple((begin + row, where) for begin, b in several for row, where in b.marks),
        start,
    )


def _concatenated(parts: list[np.ndarray]) -> np.ndarray:
    whole = np.concatenate(parts)
    if isinstance(parts[0], Zoned):
        return zoned(np.asarray(whole), parts[0].zone)
    ordered = next((part for part in parts if isinstance(part, OrderedText)), None)
    if ordered is not None:
        return ordered_text(np.asarray(whole, object), ordered.levels)
    return whole


def as_batch(item: Any, wanted: Wanted, where: str, targets: bool = True) -> Batch:
    """Convert a table, or a tuple (X, y[, sample_weight]), to a batch."""
    try:
        if isinstance(item, tuple | list):
            return _of_arrays(item, wanted.targets if targets else None, where)
        return _of_table(_columns_of(item), wanted, where, targets)
    except StreamError:
        raise
    except (ValueError, TypeError) as error:
        raise StreamError(f"In {where}: {error}") from None


def _of_arrays(item: Sequence[Any], names: Sequence[str] | None, where: str) -> Batch:
    if len(item) not in (2, 3):
        raise StreamError(
            f"{sentence(where)} is a tuple of {len(item)}; give (X, y) or "
            "(X, y, sample_weight)."
        )
    X, y, weight = (*item, None)[:3]
    read = read_columns(X)
    columns = (
        read
        if isinstance(read, dict)
        else dict(zip(made_up_names(len(read)), read, strict=True))
    )
    n_rows = len(next(iter(columns.values()), ()))
    y = np.full(n_rows, np.nan) if y is None else read_target(y)
    y = y[:, None] if y.ndim == 1 else y
    weight = _ones(len(y)) if weight is None else np.asarray(weight, np.float64)
    if y.ndim != 2 or weight.ndim != 1:
        raise StreamError(
            f"In {where}: y has the shape {y.shape} and sample_weight {weight.shape}; "
            "give (n_rows,) or (n_rows, n_outputs), and (n_rows,)."
        )
    n_outputs = y.shape[-1]
    if names is not None and n_outputs != len(names):
        raise StreamError(
            f"In {where}: y has {n_outputs} outputs, and the target is called "
            f"{listed(names)}. Give a name of each, as target=('a', 'b')."
        )
    return _checked(columns, isinstance(read, dict), y, weight, where)


def _columns_of(item: Any) -> dict[str, np.ndarray]:
    if isinstance(item, dict):
        return {str(name): _one(np.asarray(column)) for name, column in item.items()}
    if type(item).__module__.partition(".")[0] == "pyarrow":
        return _of_arrow(item)
    read = read_columns(item)
    if isinstance(read, list):
        raise StreamError(
            "a batch without names of columns holds no target that could be found; "
            "give tuples (X, y)"
        )
    return read


def _of_arrow(item: Any) -> dict[str, np.ndarray]:
    import pyarrow as pa
    from pyarrow import types

    if isinstance(item, pa.RecordBatch):
        item = pa.Table.from_batches([item])
    read = read_columns(item)
    assert isinstance(read, dict)
    numbers = types.is_integer, types.is_floating, types.is_decimal, types.is_null
    for field in item.schema:
        column = read[field.name]
        # Of nothing but nulls NumPy cannot tell the type, and Arrow can.
        if column.dtype.kind == "f" and not any(is_a(field.type) for is_a in numbers):
            read[field.name] = np.full(len(column), None, object)
    return read


def _one(column: np.ndarray) -> np.ndarray:
    if column.ndim != 1:
        raise StreamError(f"a column has the shape {column.shape}, not (n_rows,)")
    if column.dtype.kind in "fiubM":
        return column
    return read_columns(np.asarray(column, object)[:, None])[0]  # type: ignore[index]


def _of_table(
    columns: dict[str, np.ndarray], wanted: Wanted, where: str, targets: bool
) -> Batch:
    used = wanted.columns(list(columns), where, targets)
    features = used[: -len(wanted.special)] if targets else used
    if not features:
        raise StreamError(f"{sentence(where)} has no columns but the target.")
    n_rows = len(columns[features[0]])
    weight = _ones(n_rows)
    if targets:
        read = [_target(columns[name], name) for name in wanted.targets]
        y = np.column_stack(read) if len(read) > 1 else read[0][:, None]
        if wanted.weight:
            weight = np.asarray(columns[wanted.weight], np.float64)
    else:
        y = np.full((n_rows, len(wanted.targets)), np.nan)
    return _checked({n: columns[n] for n in features}, True, y, weight, where)


def _ones(n_rows: int) -> np.ndarray:
    """Weights of one that take no memory."""
    return np.broadcast_to(1.0, n_rows)


def _target(column: np.ndarray, name: str) -> np.ndarray:
    try:
        return read_target(column)
    except ValueError as error:
        raise ValueError(f"column {name!r}: {error}") from None


def _checked(
    columns: dict[str, np.ndarray],
    named: bool,
    targets: np.ndarray,
    weight: np.ndarray,
    where: str,
) -> Batch:
    sizes = {len(targets), len(weight), *map(len, columns.values())}
    if len(sizes) > 1:
        raise StreamError(
            f"{sentence(where)} has columns of different lengths: {sorted(sizes)}."
        )
    # Columns of a larger array have no checksum, and sums with a rounding of their own.
    targets = np.ascontiguousarray(targets)
    if weight.strides != (0,):  # `_ones` stay as they are
        weight = np.ascontiguousarray(weight)
    return Batch(columns, named, targets, weight, ((0, where),))


def ordered_text(column: np.ndarray, levels: tuple[str, ...]) -> OrderedText:
    """Mark texts as ordered categories."""
    ordered = column.view(OrderedText)
    ordered.levels = levels
    return ordered
