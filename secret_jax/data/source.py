"""Sources of rows: all rows in blocks, or a sample chosen by content.

Everything that looks at all rows does it block by block, and everything that grows a
tree does it on a sample; so rows may lie in the memory of the host or of a device.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np

from secret_jax.data.encoding import ReadColumns, Unencoded, encoded
from secret_jax.data.rows import LEAST_DEALT, PLENTY, Rows, merged
from secret_jax.data.sampling import (
    category_numbers,
    columns_hash,
    sampling_factors,
    sampling_limit,
)
from secret_jax.data.schema import TableSchema
from secret_jax.runtime.parallel import in_blocks

# A sample with a smaller share of distinct rows, or of the rows that were wanted, comes
# of a table of many copies: all rows are merged first then.
_LEAST_DISTINCT = 0.9
_LEAST_FOUND = 0.5

_Result = TypeVar("_Result")


@runtime_checkable
class RowSource(Protocol):
    """Source of a known number of rows, encoded on demand."""

    @property
    def n_rows(self) -> int: ...

    @property
    def total_weight(self) -> float: ...

    def sample(self, n_wanted: int, seed: int) -> Rows:
        """Sample about ``n_wanted`` rows in hash order, or all if there are fewer.

        The same rows and seed give the same sample, wherever they lie. Identical rows
        are one, which is dealt as several, see `secret_jax.data.rows.Merged.dealt`.
        """
        ...

    def blocks(
        self, function: Callable[[Rows], _Result], size: int
    ) -> Iterator[_Result]:
        """Apply a function to blocks that cover all rows.

        Results come in the order of the rows; blocks are processed in parallel.
        """
        ...


@runtime_checkable
class AddingSource(RowSource, Protocol):
    """Source whose sums span several processes."""

    def add_up(
        self,
        function: Callable[[Rows], Any],
        size: int,
        sums: Any,
        add: Callable[..., None],
    ) -> None:
        """Apply a function to blocks, and add the results to ``sums`` in place."""
        ...


class WeighedRows:
    """Source of rows whose weights are in memory."""

    weight: np.ndarray

    @property
    def n_rows(self) -> int:
        return len(self.weight)

    @property
    def total_weight(self) -> float:
        return float(self.weight.sum())


@dataclass(frozen=True, eq=False)
class EncodedRows(WeighedRows):
    """Source of rows that are already encoded, each of which stands for ``copies``."""

    rows: Rows
    copies: np.ndarray | None = None

    @property
    def weight(self) -> np.ndarray:
        return self.rows.weight

    def sample(self, n_wanted: int, seed: int) -> Rows:
        """Sample a prefix of the rows in hash order; see `RowSource`."""
        rows = merged(self.rows, seed, self.copies).dealt(n_wanted)
        return rows.take(slice(n_wanted)) if n_wanted < rows.n_rows else rows

    def blocks(
        self, function: Callable[[Rows], _Result], size: int
    ) -> Iterator[_Result]:
        return in_blocks(lambda part: function(self.rows.take(part)), self.n_rows, size)


class DrawnRows(WeighedRows):
    """Source of rows of which those of least hashes are a sample."""

    copies: np.ndarray | None
    drawn: dict[tuple[int, int], np.ndarray]

    @abstractmethod
    def take(self, index: np.ndarray | None) -> Rows:
        """Encode rows (sorted indices, or all)."""

    @abstractmethod
    def _below(self, share: float, seed: int) -> np.ndarray:
        """Find about a share of the rows, those of least hashes."""

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
        """Sample about ``n_wanted`` rows: those of an index, unless many are copies."""
        if index is not None:
            copies = None if self.copies is None else self.copies[index]
            found = few_copies(self.take(index), copies, n_wanted, seed)
            if found is not None:
                return found
        return EncodedRows(self.take(None), self.copies).sample(n_wanted, seed)


@dataclass(frozen=True, eq=False)
class HostRows(DrawnRows):
    """Source of unencoded rows in host memory.

    ``targets`` (n_rows, n_outputs) are in units of their own, weights positive,
    ``copies`` the numbers of rows that each one stands for (None: one), ``group`` as in
    `Rows`. ``drawn`` are the indices of samples, by their arguments: `below` remembers
    them.
    """

    schema: TableSchema
    columns: ReadColumns
    targets: np.ndarray
    weight: np.ndarray
    copies: np.ndarray | None = None
    group: np.ndarray | None = None
    drawn: dict[tuple[int, int], np.ndarray] = field(default_factory=dict)

    def _below(self, share: float, seed: int) -> np.ndarray:
        columns = hashed_columns(self.columns, self.schema.categories, self.targets)
        return rows_below(columns, int(sampling_limit(share)), seed)[0]

    def values_at(self, index: np.ndarray | slice) -> list[np.ndarray]:
        """Continuous attributes of rows, in units of the data."""
        return [column[index] for column in self.columns.values]

    def take(self, index: np.ndarray | None) -> Rows:
        columns, targets = self.columns, self.targets
        weight, group = self.weight, self.group
        if index is not None:
            columns = columns.take(index)
            targets, weight = targets[index], weight[index]
            group = None if group is None else group[index]
        table = encoded(self.schema, columns)
        return Rows(table, self.schema.scale_targets(targets), weight, group)

    def blocks(
        self, function: Callable[[Rows], _Result], size: int
    ) -> Iterator[_Result]:
        table = Unencoded(self.schema, self.columns)

        def on_block(part: slice) -> _Result:
            targets = self.schema.scale_targets(self.targets[part])
            return function(Rows(table.block(part), targets, self.weight[part]))

        return in_blocks(on_block, self.n_rows, size)


def hashed_columns(
    columns: ReadColumns, categories: Sequence[Iterable[Any]], targets: np.ndarray
) -> list[np.ndarray]:
    """Columns whose content `rows_below` hashes."""
    pairs = zip(categories, columns.codes.T, strict=True)
    numbers = [category_numbers([*values])[codes] for values, codes in pairs]
    return [*columns.values, *numbers, *targets.T]


def rows_below(
    columns: list[np.ndarray], limit: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Find the rows whose sampling hash is below a limit, and their hashes."""
    factors = sampling_factors(len(columns), seed)

    def below(part: slice) -> tuple[np.ndarray, np.ndarray]:
        hashed = columns_hash([column[part] for column in columns], factors)
        index = np.flatnonzero(hashed < limit)
        return part.start + index, hashed[index]

    index, hashed = zip(*in_blocks(below, len(columns[-1])), strict=True)
    return np.concatenate(index), np.concatenate(hashed)


def every_row(source: RowSource, seed: int) -> Rows:
    """Read all rows of a source in hash order, with copies spread evenly."""
    # So many that not even those of copies that are dealt are left out.
    return source.sample(max(LEAST_DEALT * source.n_rows, PLENTY), seed)


def few_copies(
    found: Rows, copies: np.ndarray | None, n_wanted: int, seed: int
) -> Rows | None:
    """Put a hash-selected sample in order; None if many rows are identical."""
    # Of many copies of few rows the hash takes all or none.
    if found.n_rows < _LEAST_FOUND * n_wanted:
        return None
    single = merged(found, seed, copies)
    if single.rows.n_rows < _LEAST_DISTINCT * found.n_rows:
        return None
    return single.dealt(n_wanted).take(slice(max(n_wanted, found.n_rows)))
