"""Sources of rows: all rows in blocks, or a sample chosen by content.

Everything that looks at all rows does it block by block, and everything that grows a
tree does it on a sample; so rows may lie in memory, on devices or in files.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self, TypeVar

import numpy as np

from secret_jax.data.encoding import ReadColumns, Unencoded, encoded
from secret_jax.data.repeats import LEAST_DIFFERENT, Repeats, repeats_of
from secret_jax.data.rows import LEAST_DEALT, PLENTY, Rows, merged
from secret_jax.data.sampling import (
    ROW_ORDER,
    category_numbers,
    columns_hash,
    sampling_factors,
    sampling_limit,
)
from secret_jax.data.schema import TableSchema
from secret_jax.data.validation import rounded_weight
from secret_jax.runtime.parallel import in_blocks

# A sample with a smaller share of the rows that were wanted comes of a table that
# repeats many: all rows are looked at first then.
_LEAST_FOUND = 0.5

_Result = TypeVar("_Result")


class RowSource(ABC):
    """Source of a known number of rows: all of them in blocks, or a sample."""

    weight: np.ndarray

    @property
    def n_rows(self) -> int:
        return len(self.weight)

    @property
    def total_weight(self) -> float:
        return float(self.weight.sum())

    @abstractmethod
    def sample(self, n_wanted: int, seed: int) -> Rows:
        """Sample about ``n_wanted`` rows in hash order, or all if there are fewer.

        The same rows and seed give the same sample, wherever they lie. Identical rows
        are one, which is dealt as several, see `secret_jax.data.rows.Merged.dealt`.
        """

    @abstractmethod
    def blocks(
        self, function: Callable[[Rows], _Result], size: int
    ) -> Iterator[_Result]:
        """Apply a function to blocks that cover all rows, in their order.

        Blocks are processed in parallel. Rows of weight zero are no rows.
        """


@dataclass(frozen=True, eq=False)
class EncodedRows(RowSource):
    """Source of rows that are already encoded."""

    rows: Rows

    @property
    def weight(self) -> np.ndarray:
        return self.rows.weight

    def sample(self, n_wanted: int, seed: int) -> Rows:
        rows = merged(self.rows, seed).dealt(n_wanted)
        return rows.take(slice(n_wanted)) if n_wanted < rows.n_rows else rows

    def blocks(
        self, function: Callable[[Rows], _Result], size: int
    ) -> Iterator[_Result]:
        return in_blocks(lambda part: function(self.rows.take(part)), self.n_rows, size)


class DrawnRows(RowSource):
    """Source of rows of which those of least hashes are a sample.

    ``drawn`` are the indices of samples, by their arguments: `below` remembers them.
    """

    drawn: dict[tuple[int, int], np.ndarray]

    @abstractmethod
    def on_host(self, index: np.ndarray | None) -> "HostRows":
        """Rows (sorted indices, or all) in the memory of the host, not encoded."""

    @abstractmethod
    def _below(self, share: float, seed: int) -> np.ndarray:
        """Find about a share of the rows, those of least hashes."""

    def take(self, index: np.ndarray | None) -> Rows:
        """Encode rows (sorted indices, or all)."""
        return self.on_host(index).encoded()

    def values_at(self, index: np.ndarray | slice) -> list[np.ndarray]:
        """Continuous attributes of rows, or of all, in units of the data."""
        every = isinstance(index, slice)
        return self.on_host(None if every else index).columns.values

    def below(self, n_wanted: int, seed: int) -> np.ndarray | None:
        """Find about ``n_wanted`` rows of least hashes; None if there are no more."""
        if n_wanted >= self.n_rows:
            return None
        if (n_wanted, seed) not in self.drawn:
            self.drawn[n_wanted, seed] = self._below(n_wanted / self.n_rows, seed)
        return self.drawn[n_wanted, seed]

    def sample(self, n_wanted: int, seed: int) -> Rows:
        return self.sample_of(self.below(n_wanted, seed), n_wanted, seed)

    def sample_of(self, index: np.ndarray | None, n_wanted: int, seed: int) -> Rows:
        """Sample about ``n_wanted`` rows: those of an index, unless many repeat."""
        # Of few rows, each seen many times, the hash takes all or none.
        if index is not None and len(index) >= _LEAST_FOUND * n_wanted:
            single = merged(self.take(index), seed)
            if single.rows.n_rows >= LEAST_DIFFERENT * len(index):
                return single.dealt(n_wanted).take(slice(max(n_wanted, len(index))))
        return EncodedRows(self.take(None)).sample(n_wanted, seed)

    def observed(self, n_wanted: int) -> "DrawnRows":
        """Leave out copies of rows, of whose weight one has all.

        See `secret_jax.data.repeats`.
        Of many rows those decide that a sample of ``n_wanted`` holds, with all of their
        copies; few copies in it stay.
        """
        index = self.below(n_wanted, ROW_ORDER)
        if index is not None:
            found = self.on_host(index).repeats()
            if found is None or not found.are_many:
                return self
        every = self.on_host(None)
        found = every.repeats()
        if found is None or found.number.sum() == self.n_rows:
            return self
        return every.without_copies(found)

    def scaled(self, factor: float) -> Self:
        """Multiply the weights."""
        if factor == 1.0:
            return self
        return replace(self, weight=rounded_weight(factor * self.weight))  # pyright: ignore[reportArgumentType]


@dataclass(frozen=True, eq=False)
class HostRows(DrawnRows):
    """Source of unencoded rows in host memory.

    ``targets`` (n_rows, n_outputs) are in units of their own, weights positive,
    ``group`` as in `Rows`.
    """

    schema: TableSchema
    columns: ReadColumns
    targets: np.ndarray
    weight: np.ndarray
    group: np.ndarray | None = None
    drawn: dict[tuple[int, int], np.ndarray] = field(default_factory=dict)

    def _below(self, share: float, seed: int) -> np.ndarray:
        known = self.columns, self.schema.categories, self.targets
        return rows_below(*known, int(sampling_limit(share)), seed)[0]

    def on_host(self, index: np.ndarray | None) -> "HostRows":
        if index is None:
            return self
        return replace(
            self,
            columns=self.columns.take(index),
            targets=self.targets[index],
            weight=self.weight[index],
            group=None if self.group is None else self.group[index],
            drawn={},
        )

    def encoded(self) -> Rows:
        """Encode all rows."""
        table = encoded(self.schema, self.columns)
        targets = self.schema.scale_targets(self.targets)
        return Rows(table, targets, self.weight, self.group)

    def repeats(self, times: np.ndarray | None = None) -> Repeats | None:
        """Find rows that repeat others; ``times``: how often each was given."""
        numbers, codes = self.columns
        return repeats_of(numbers, codes, self.targets, self.group, times)

    def without_copies(self, found: Repeats, most: int | None = None) -> "HostRows":
        """Rows as often as they were observed, ``most`` times at most."""
        number = np.minimum(found.number, most or found.number)
        weight = np.bincount(found.member, self.weight) / number
        rows = self.on_host(np.repeat(found.first, number))
        return replace(rows, weight=np.repeat(weight, number))

    def blocks(
        self, function: Callable[[Rows], _Result], size: int
    ) -> Iterator[_Result]:
        table = Unencoded(self.schema, self.columns)

        def on_block(part: slice) -> _Result:
            targets = self.schema.scale_targets(self.targets[part])
            return function(Rows(table.block(part), targets, self.weight[part]))

        return in_blocks(on_block, self.n_rows, size)


def rows_below(
    columns: ReadColumns,
    categories: Sequence[Iterable[Any]],
    targets: np.ndarray,
    limit: int,
    seed: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Find the rows whose sampling hash is below a limit, and their hashes."""
    pairs = zip(categories, columns.codes.T, strict=True)
    numbers = [category_numbers([*values])[codes] for values, codes in pairs]
    every = [*columns.values, *numbers, *targets.T]
    factors = sampling_factors(len(every), seed)

    def below(part: slice) -> tuple[np.ndarray, np.ndarray]:
        hashed = columns_hash([column[part] for column in every], factors)
        index = np.flatnonzero(hashed < limit)
        return part.start + index, hashed[index]

    index, hashed = zip(*in_blocks(below, len(targets)), strict=True)
    return np.concatenate(index), np.concatenate(hashed)


def every_row(source: RowSource, seed: int) -> Rows:
    """Read all rows of a source in hash order, with those alike spread evenly."""
    # So many that not even those that are dealt are left out.
    return source.sample(max(LEAST_DEALT * source.n_rows, PLENTY), seed)
