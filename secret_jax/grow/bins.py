"""Columns of a table cut into bins, once for all trees that grow on it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from secret_jax.data.rows import Table
from secret_jax.data.schema import TableSchema
from secret_jax.splits.interface import Roles

# Maximum number of rows whose quantiles bound the bins; rows are shuffled.
_QUANTILE_ROWS = 1 << 16
# Maximum number of regressors that score splits, and not their principal components.
_MOST_REGRESSORS = 24


@dataclass(frozen=True, eq=False, kw_only=True)
class Bins:
    """Bins of the continuous attributes of a table."""

    column: np.ndarray  # (n_attributes,), int: column of each attribute
    # (n_attributes,), int: column that indicates its missing values; -1 without any.
    indicator: np.ndarray
    # (n_rows, n_attributes), uint8: bin of every row; ``n_bins`` where the value is
    # missing.
    code: np.ndarray
    # (n_attributes, n_bins), float32: upper bounds: values up to the bound are in the
    # bin or one before. That of the last bin, and of those that are not used, is the
    # highest value.
    edge: np.ndarray
    # (3, n_attributes, n_bins + 2), float64: numbers of rows of the table, and their
    # sums of values and of squares, in all bins before each one; that of missing values
    # is the last.
    sums: np.ndarray
    # (n_regressors, n_coordinates), float32, or None: combinations of the regressors
    # that score splits; None: the regressors.
    loading: np.ndarray | None

    @classmethod
    def of(cls, table: Table, schema: TableSchema, n_bins: int = 128) -> Bins:
        """Cut the columns of a table at quantiles, or between all values if few.

        ``table``: on the host, its rows shuffled; ``n_bins``: a power of two, at most
        128.
        """
        roles = Roles.of(schema)
        column = np.concatenate([roles.thresholded, roles.missing[:, 0]])
        no_gaps = np.full(len(roles.thresholded), -1)
        indicator = np.concatenate([no_gaps, roles.missing[:, 1]])
        x = table.x
        code = np.empty((len(x), len(column)), np.uint8)
        edge = np.empty((len(column), n_bins), np.float32)
        sums = np.zeros((3, len(column), n_bins + 2))
        for i, (own, gap) in enumerate(zip(column, indicator, strict=True)):
            value = np.ascontiguousarray(x[:, own])
            there = x[:, gap] <= 0 if gap >= 0 else np.ones(len(x), bool)
            bounds = _bounds(value[there][:_QUANTILE_ROWS], n_bins)
            highest = value[there].max(initial=-np.inf)
            edge[i] = highest if np.isfinite(highest) else 0.0
            edge[i, : len(bounds)] = bounds
            code[:, i] = np.searchsorted(bounds, value)
            code[~there, i] = n_bins
            for power, total in enumerate(sums[:, i]):
                of_bins = np.bincount(code[:, i], value**power, n_bins + 1)
                np.cumsum(of_bins, out=total[1:])
        n = schema.n_regressors
        loading = _loading(x[:_QUANTILE_ROWS, :n]) if n > _MOST_REGRESSORS else None
        return cls(
            column=column,
            indicator=indicator,
            code=code,
            edge=edge,
            sums=sums,
            loading=loading,
        )

    @property
    def n_bins(self) -> int:
        """Number of bins of each attribute, without that of missing values."""
        return self.edge.shape[1]

    @cached_property
    def with_gaps(self) -> np.ndarray:
        """Positions of the attributes with missing values."""
        return np.flatnonzero(self.indicator >= 0)

    @cached_property
    def n_values(self) -> np.ndarray:
        """Number of different bounds of each attribute; its values, if they are few."""
        return 1 + (np.diff(self.edge, axis=1) > 0).sum(axis=1)

    def means(
        self, attribute: np.ndarray, start: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Means of the table's values, and of their squares, in ranges of bins.

        ``attribute`` (n_nodes, n_attributes), int; ``start`` (n_nodes, n_attributes,
        n_ranges + 1), int: where the ranges begin, and the last one ends. Returns
        (n_nodes, n_attributes, n_ranges), float32: zero where there is nothing.
        """
        number, *totals = (
            np.diff(sums[attribute[..., None], start], axis=-1) for sums in self.sums
        )
        number = np.maximum(number, 1)
        value, square = ((total / number).astype(np.float32) for total in totals)
        return value, square


def _bounds(values: np.ndarray, n_bins: int) -> np.ndarray:
    """Bounds between neighbouring values: all of them, or near quantiles."""
    values = np.sort(values)
    last = np.flatnonzero(values[1:] > values[:-1])  # of each value but the highest
    if len(last) >= n_bins:
        wanted = np.arange(1, n_bins) / n_bins * len(values)
        after = np.searchsorted(last + 1, wanted).clip(0, len(last) - 1)
        before = np.maximum(after - 1, 0)
        nearer = wanted - last[before] < last[after] + 2 - wanted
        last = last[np.unique(np.where(nearer, before, after))]
    low, high = values[last], values[last + 1]
    middle = 0.5 * (low + high)
    # Between neighbouring floats the middle is one of them: never the higher one.
    return np.where(middle < high, middle, low)


def _loading(x: np.ndarray) -> np.ndarray:
    """Leading principal components of columns."""
    centred = x - x.mean(axis=0)
    vectors = np.linalg.eigh(centred.T @ centred)[1]
    return vectors[:, ::-1][:, :_MOST_REGRESSORS].astype(np.float32)
