"""Rows that repeat others in all columns and targets: observations, or copies of one.

A table of truth values has few different rows, and each of them is seen many times:
those are observations, which judge each other. In a table of measurements no two rows
agree by chance: who repeats one has drawn it twice, or joined tables wrongly, and what
repeats is one observation of their common weight. The whole table decides which it is.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from secret_jax.data.sampling import content_hash
from secret_jax.runtime.parallel import in_blocks

# A number is discrete with one value for so many different rows, or with two values,
# or fewer whole ones than these.
_FEW_VALUES = 10
# Of so many different rows not every one is seen as often as the others by chance.
_MANY_ROWS = 64
# Of a sample with a smaller share of different rows all rows are looked at.
LEAST_DIFFERENT = 0.9
# Rows are observations if this share of those that agree in all columns differ in y,
# or in their group.
_SHARE_THAT_DIFFERS = 0.5
_SEED = 1


class Repeats(NamedTuple):
    """Different rows of a table that repeats some."""

    first: np.ndarray  # (n_different,), int: where each of them comes first, rising
    member: np.ndarray  # (n_rows,), int: which of them each given row is
    number: np.ndarray  # (n_different,), int64: observations that each one is

    @property
    def are_many(self) -> bool:
        """Whether a sample of rows by their content tells too little of them."""
        return len(self.first) < LEAST_DIFFERENT * len(self.member)


def repeats_of(
    numbers: Sequence[np.ndarray],
    codes: np.ndarray,
    targets: np.ndarray,
    group: np.ndarray | None = None,
    times: np.ndarray | None = None,
) -> Repeats | None:
    """Find rows that repeat others, and how many observations they are; None: no row.

    ``numbers`` are columns (n_rows,), ``codes`` (n_rows, n_discrete) and ``targets``
    (n_rows, n_outputs); ``group`` as in `secret_jax.data.rows.Rows`; ``times``
    (n_rows,): how often each row was given.
    """
    columns = [*numbers, *codes.T]
    others = [*targets.T] if group is None else [*targets.T, group]

    def of_block(rows: slice) -> np.ndarray:
        return content_hash([column[rows] for column in [*columns, *others]], _SEED)

    hashed = np.concatenate(list(in_blocks(of_block, len(targets))))
    ranked = np.sort(hashed)
    if times is None and (ranked[1:] != ranked[:-1]).all():
        return None
    first, member = distinct(hashed)
    number = np.bincount(member, times).astype(np.int64)
    if len(first) >= _MANY_ROWS:
        number //= np.gcd.reduce(number)
    of_columns = content_hash([column[first] for column in columns], _SEED)
    _, place = np.unique(of_columns, return_inverse=True)
    n_different, n_seen = np.bincount(place), np.bincount(place, number)
    differ = n_different[n_seen > 1] > 1
    discrete = all(_is_discrete(column[first]) for column in numbers)
    if not discrete and differ.sum() < _SHARE_THAT_DIFFERS * len(differ):
        number = np.ones_like(number)
    return Repeats(first, member, number)


def distinct(hashed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where each different hash comes first, rising, and which of them each one is."""
    _, first, member = np.unique(hashed, return_index=True, return_inverse=True)
    order = np.argsort(first)
    return first[order], np.argsort(order)[member]


def _is_discrete(column: np.ndarray) -> bool:
    """Whether a number of different rows has so few values that some agree anyhow."""
    values = np.unique(column)
    few = len(values) < _FEW_VALUES and (values == np.floor(values)).all()
    return bool(few or len(values) <= max(2, len(column) // _FEW_VALUES))
