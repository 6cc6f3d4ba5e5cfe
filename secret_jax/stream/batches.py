"""Batches of rows of a stream, normalised to one form.

A batch is a table with the target among its columns, or a tuple of arrays. All batches
of a stream have the same columns, of the same kinds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from secret_jax.data.columns import (
    OrderedText,
    is_index,
    is_missing,
    listed,
    made_up_names,
    read_columns,
    read_target,
)


class StreamError(ValueError):
    """Error of a stream that cannot be read; the message says where."""


def sentence(words: str) -> str:
    """Capitalise the first letter only; names of files stay as they are."""
    return words[:1].upper() + words[1:]


class Wanted(NamedTuple):
    """Names of the target, weight and feature columns of a stream.

    Attributes
    ----------
    features : tuple of str or None
        None: all others.
    """

    targets: tuple[str, ...]
    weight: str | None = None
    features: tuple[str, ...] | None = None

    @property
    def identity(self) -> str:
        """Description that tells this choice of columns from another one."""
        columns = "all columns" if self.features is None else f"columns {self.features}"
        return f"{columns}, weighted by {self.weight!r}"


class Batch(NamedTuple):
    """Batch of rows of a stream.

    Attributes
    ----------
    columns : dict of str to ndarray of shape (n_rows,)
        As `secret_jax.data.columns.read_columns` gives them.
    named : bool
        Whether the names came with the data.
    targets : ndarray of shape (n_rows, n_outputs), float64
    weight : ndarray of shape (n_rows,), float64
    where : str
        Where it is from, in words.
    offset : int
        Its first row there.
    """

    columns: dict[str, np.ndarray]
    named: bool
    targets: np.ndarray
    weight: np.ndarray
    where: str
    offset: int = 0

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.weight)

    def take(self, rows: slice) -> Batch:
        """Select a slice of rows."""
        columns = {name: column[rows] for name, column in self.columns.items()}
        return self._replace(
            columns=columns,
            targets=self.targets[rows],
            weight=self.weight[rows],
            offset=self.offset + (rows.start or 0),
        )

    def choose(self, index: np.ndarray) -> Batch:
        """Select rows by their positions."""
        columns = {name: column[index] for name, column in self.columns.items()}
        return self._replace(
            columns=columns, targets=self.targets[index], weight=self.weight[index]
        )


class Layout(NamedTuple):
    """Columns, kinds and number of outputs shared by all batches of a stream.

    Attributes
    ----------
    kinds : tuple of str
        "number", "category", "ordered" or "date" for each column.
    """

    names: tuple[str, ...]
    named: bool
    kinds: tuple[str, ...]
    n_outputs: int

    @classmethod
    def of(cls, batch: Batch) -> Layout:
        """Derive the layout from the first batch."""
        kinds = tuple(map(kind_of, batch.columns.values()))
        return cls(tuple(batch.columns), batch.named, kinds, batch.targets.shape[1])


def as_batch(item: Any, wanted: Wanted, where: str, targets: bool = True) -> Batch:
    """Convert an item of a reader to a batch.

    Parameters
    ----------
    item : table, or tuple (X, y) or (X, y, sample_weight)
        A table is a DataFrame of any kind, an Arrow table or record batch, or a dict of
        columns.
    targets : bool
        False: only the features are read; targets are NaN.

    Raises
    ------
    StreamError
        If it is no such thing, or lacks a column.
    """
    try:
        if isinstance(item, tuple | list):
            return _of_arrays(item, where)
        columns = _columns_of(item)
        return _of_table(columns, wanted, where, targets)
    except StreamError:
        raise
    except (ValueError, TypeError) as error:
        raise StreamError(f"In {where}: {error}") from None


def _of_arrays(item: Sequence[Any], where: str) -> Batch:
    if len(item) not in (2, 3):
        raise StreamError(
            f"{sentence(where)} is a tuple of {len(item)}; give (X, y) or "
            "(X, y, sample_weight)."
        )
    read = read_columns(item[0])
    columns = (
        read
        if isinstance(read, dict)
        else dict(zip(made_up_names(len(read)), read, strict=True))
    )
    n_rows = len(next(iter(columns.values()), ()))
    y = np.full(n_rows, np.nan) if item[1] is None else read_target(item[1])
    y = y[:, None] if y.ndim == 1 else y
    weight = np.ones(len(y))
    if len(item) == 3 and item[2] is not None:
        weight = np.asarray(item[2], np.float64)
    if y.ndim != 2 or weight.ndim != 1:
        raise StreamError(
            f"In {where}: y has the shape {y.shape} and sample_weight {weight.shape}; "
            "give (n_rows,) or (n_rows, n_outputs), and (n_rows,)."
        )
    return _checked(columns, isinstance(read, dict), y, weight, where)


def _columns_of(item: Any) -> dict[str, np.ndarray]:
    if isinstance(item, dict):
        return {str(name): _one(np.asarray(its)) for name, its in item.items()}
    of_arrow = type(item).__module__.partition(".")[0] == "pyarrow"
    if of_arrow:
        import pyarrow as pa

        if isinstance(item, pa.RecordBatch):
            item = pa.Table.from_batches([item])
    read = read_columns(item)
    if isinstance(read, list):
        raise StreamError(
            "a batch without names of columns holds no target that could be found; "
            "give tuples (X, y)"
        )
    if of_arrow:
        for field in item.schema:
            column = read[field.name]
            # Of nothing but nulls NumPy cannot tell the type, and Arrow can.
            if column.dtype.kind == "f" and not _is_number(field.type):
                read[field.name] = np.full(len(column), None, object)
    return read


def _is_number(kind: Any) -> bool:
    import pyarrow.types as types

    return (
        types.is_integer(kind)
        or types.is_floating(kind)
        or types.is_decimal(kind)
        or types.is_null(kind)
    )


def _one(column: np.ndarray) -> np.ndarray:
    if column.ndim != 1:
        raise StreamError(f"a column has the shape {column.shape}, not (n_rows,)")
    if column.dtype.kind in "fiubM":
        return column
    return read_columns(np.asarray(column, object)[:, None])[0]  # type: ignore[index]


def _of_table(
    columns: dict[str, np.ndarray], wanted: Wanted, where: str, targets: bool
) -> Batch:
    special = [*wanted.targets] + ([wanted.weight] if wanted.weight else [])
    asked = [*(special if targets else []), *(wanted.features or ())]
    lacking = [name for name in asked if name not in columns]
    if lacking:
        raise StreamError(
            f"{sentence(where)} has no column {listed(lacking)}; its columns are "
            f"{listed(list(columns))}."
        )
    features = wanted.features
    if features is None:
        features = tuple(
            name for name in columns if name not in special and not is_index(name)
        )
    if not features:
        raise StreamError(f"{sentence(where)} has no columns but the target.")
    n_rows = len(columns[features[0]])
    used = [*special, *features] if targets else features
    sizes = {name: len(columns[name]) for name in used}
    if len(set(sizes.values())) > 1:
        raise StreamError(
            f"{sentence(where)} has columns of different lengths: {sizes}."
        )
    y, weight = np.full((n_rows, len(wanted.targets)), np.nan), np.ones(n_rows)
    if targets:
        for output, name in enumerate(wanted.targets):
            y[:, output] = _target(columns[name], name)
        if wanted.weight:
            weight = np.asarray(columns[wanted.weight], np.float64)
    chosen = {name: columns[name] for name in features}
    return _checked(chosen, True, y, weight, where)


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
    return Batch(columns, named, targets, weight, where)


def kind_of(column: np.ndarray) -> str:
    """Kind of a column: "number", "category", "ordered" or "date"."""
    if isinstance(column, OrderedText):
        return "ordered"
    if column.dtype.kind == "M":
        return "date"
    return "number" if column.dtype.kind in "fiu" else "category"


_WORDS = {
    "number": "numbers",
    "category": "text or truth values",
    "ordered": "ordered categories",
    "date": "dates",
}


def conformed(batch: Batch, layout: Layout) -> Batch:
    """Reorder the columns of a batch to match the layout.

    Raises
    ------
    StreamError
        If it has other columns, or columns of other kinds.
    """
    lacking = [name for name in layout.names if name not in batch.columns]
    extra = [name for name in batch.columns if name not in layout.names]
    if lacking or extra:
        words = [
            f"{what} {listed(which)}"
            for what, which in (("lacks", lacking), ("has the further", extra))
            if which
        ]
        raise StreamError(
            f"{sentence(batch.where)} {' and '.join(words)}: its columns are not "
            f"those of the first batch, {listed(list(layout.names))}. Write it again "
            "with these columns, or name those to use in columns=."
        )
    if batch.targets.shape[1] != layout.n_outputs:
        raise StreamError(
            f"{sentence(batch.where)} has {batch.targets.shape[1]} target(s), and "
            f"the first batch has {layout.n_outputs}."
        )
    columns = {}
    for name, kind in zip(layout.names, layout.kinds, strict=True):
        column = batch.columns[name]
        if kind_of(column) != kind:
            column = _of_kind(column, kind, name, batch.where)
        columns[name] = column
    return batch._replace(columns=columns)


def _of_kind(column: np.ndarray, kind: str, name: str, where: str) -> np.ndarray:
    """Convert a column of missing values to a kind; raise an error for any other."""
    if all(map(is_missing, column.tolist())):
        if kind == "number":
            return np.full(len(column), np.nan)
        if kind == "date":
            return np.full(len(column), np.datetime64("NaT"), "datetime64[s]")
        return np.full(len(column), None, object)
    raise StreamError(
        f"{sentence(where)}: column {name!r} holds {_WORDS[kind_of(column)]}, and "
        f"held {_WORDS[kind]} in the first batch. Write the batch again with the type "
        "of the others, or leave the column out with columns=."
    )
