"""Parts of a source of rows, selected by a hash of each row's content."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from secret_jax.data.columns import is_missing
from secret_jax.data.sampling import (
    category_numbers,
    sampling_factors,
    sampling_hash,
    sampling_limit,
)
from secret_jax.stream.batches import Batch
from secret_jax.stream.sources import BatchSource

# Seed that differs from that of the sample, which would otherwise lie in one part.
_SEED = 1


class PartOfRows:
    """Source of the rows whose hash is below (or not below) a limit.

    Parameters
    ----------
    share : float
        In (0, 1).
    inside : bool
        Whether this is the part of that share, or the rest.
    seed : int
        Another seed gives other parts.
    """

    n_rows = None

    def __init__(self, source: BatchSource, share: float, *, inside: bool, seed: int):
        self._source, self._share, self._inside = source, share, inside
        self._seed = seed

    @property
    def identity(self) -> str:
        """See `secret_jax.stream.sources.BatchSource`."""
        side = "below" if self._inside else "above"
        chosen = f"{side} {self._share} by seed {self._seed}"
        return f"{self._source.identity}, {chosen}"

    def batches(self, start: int, targets: bool = True) -> Iterator[Batch]:
        """See `secret_jax.stream.sources.BatchSource`; reads the rows before too."""
        limit, begin = sampling_limit(self._share), 0
        for batch in self._source.batches(0, targets):
            kept = (_hashes(batch, self._seed) < limit) == self._inside
            batch = batch.choose(np.flatnonzero(kept))
            skipped = min(max(start - begin, 0), batch.n_rows)
            begin += batch.n_rows
            if skipped < batch.n_rows:
                yield batch.take(slice(skipped, None))


def _hashes(batch: Batch, seed: int) -> np.ndarray:
    columns = [_numbers(column) for column in batch.columns.values()]
    values = np.column_stack([*columns, batch.targets.astype(np.float32)])
    factors = sampling_factors(values.shape[1], _SEED + 2 * seed)
    return sampling_hash(values, factors)


def _numbers(column: np.ndarray) -> np.ndarray:
    """Convert a column of any kind to float32 for hashing."""
    if column.dtype.kind == "M":
        column = column.astype("datetime64[s]").astype(np.int64) / 86400
    if column.dtype.kind in "fiu":
        with np.errstate(over="ignore"):
            return column.astype(np.float32)
    values = [None if is_missing(value) else value for value in column.tolist()]
    place = {value: code for code, value in enumerate(dict.fromkeys(values))}
    return category_numbers(list(place))[[place[value] for value in values]]
