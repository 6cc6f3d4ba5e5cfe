"""Columns of a stream, which all of its batches have alike."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np

from secret_jax.data.columns import OrderedText, Zoned, is_missing, listed, zoned
from secret_jax.stream.batches import Batch, StreamError, ordered_text, sentence

# Columns that hold other things than before, in a message.
_MOST_TOLD = 8
_WORDS = {
    "number": "numbers",
    "category": "text or truth values",
    "ordered": "ordered categories",
    "date": "dates without a time zone",
    "zoned": "dates of a time zone",
}


class Layout(NamedTuple):
    """Columns, their kinds (see `_WORDS`) and number of outputs of a stream."""

    names: tuple[str, ...]
    kinds: tuple[str, ...]
    n_outputs: int
    # Of ordered categories by column, from least to greatest.
    levels: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @classmethod
    def of(cls, batch: Batch) -> Layout:
        """Derive the layout from the first batch."""
        kinds = tuple(map(_kind_of, batch.columns.values()))
        levels = tuple(
            (name, column.levels)
            for name, column in batch.columns.items()
            if isinstance(column, OrderedText)
        )
        return cls(tuple(batch.columns), kinds, batch.targets.shape[1], levels)

    def differences(self, other: Layout) -> str:
        """Say what is other in these columns than in those of another layout."""
        here, there = self.contents, other.contents
        lacking = [name for name in there if name not in here]
        further = [name for name in here if name not in there]
        words = ("lacks", lacking), ("has the further", further)
        found = [
            f"{verb} column{'s' * (len(names) > 1)} {listed(names)}"
            for verb, names in words
            if names
        ]
        changed = [name for name in there if here.get(name, there[name]) != there[name]]
        found += [
            f"has {_in_words(*here[name], there[name][1])} in column {name!r}, and not "
            f"{_in_words(*there[name], here[name][1])}"
            for name in changed[:_MOST_TOLD]
        ]
        if len(changed) > _MOST_TOLD:
            found.append(f"has other contents in {len(changed) - _MOST_TOLD} more")
        if self.n_outputs != other.n_outputs:
            found.append(f"has {self.n_outputs} target(s), and not {other.n_outputs}")
        return ", ".join(found) or f"has the columns in the order {listed(self.names)}"

    @property
    def contents(self) -> dict[str, tuple[str, tuple[str, ...]]]:
        """Kinds of the columns, and levels of those that are ordered, by name."""
        levels, kinds = dict(self.levels), zip(self.names, self.kinds, strict=True)
        return {name: (kind, levels.get(name, ())) for name, kind in kinds}


def _in_words(kind: str, levels: tuple[str, ...], others: tuple[str, ...]) -> str:
    """Say what a column holds; of many ordered categories those about other ones."""
    if kind != "ordered":
        return _WORDS[kind]
    begin, end = 0, len(levels)
    if end > _MOST_TOLD:
        alike = (one == other for one, other in zip(levels, others, strict=False))
        begin = sum(itertools.takewhile(bool, alike))
        begin = max(min(begin, end - _MOST_TOLD), 0)
        end = begin + _MOST_TOLD
    dots = ["..."]
    shown = dots * (begin > 0) + [*levels[begin:end]] + dots * (end < len(levels))
    return f"{_WORDS[kind]} ({' < '.join(shown)})"


def _kind_of(column: np.ndarray) -> str:
    if isinstance(column, OrderedText):
        return "ordered"
    if column.dtype.kind == "M":
        return "zoned" if isinstance(column, Zoned) else "date"
    return "number" if column.dtype.kind in "fiu" else "category"


def conformed(batch: Batch, layout: Layout) -> Batch:
    """Put the columns of a batch in the order of a layout; refuse any others."""
    levels, kinds = dict(layout.levels), dict(zip(*layout[:2], strict=True))
    columns = {
        name: _of_kind(column, kinds.get(name, ""), levels.get(name, ()))
        for name, column in batch.columns.items()
    }
    own = Layout.of(batch._replace(columns=columns))
    told = {name: its for name, its in own.levels if name in levels}
    for name, its in told.items():  # some may be lacking
        if its == tuple(level for level in levels[name] if level in its):
            told[name] = levels[name]
    own = own._replace(levels=tuple(told.items()))
    if own.contents != layout.contents or own.n_outputs != layout.n_outputs:
        raise StreamError(
            f"{sentence(batch.marks[0][1])} {own.differences(layout)}, unlike the "
            "first batch. Write all batches with the same columns, types and ordered "
            "categories, or name the columns to use in columns=."
        )
    return batch._replace(columns={name: columns[name] for name in layout.names})


def _of_kind(column: np.ndarray, kind: str, levels: tuple[str, ...]) -> np.ndarray:
    """Make a column of nothing but missing values one of a kind."""
    if _kind_of(column) == kind or not all(map(is_missing, column.tolist())):
        return column
    if kind == "number":
        return np.full(len(column), np.nan)
    if kind in ("date", "zoned"):
        nothing = np.full(len(column), np.datetime64("NaT"), "datetime64[s]")
        return zoned(nothing, "UTC") if kind == "zoned" else nothing
    nothing = np.full(len(column), None, object)
    return ordered_text(nothing, levels) if kind == "ordered" else nothing
