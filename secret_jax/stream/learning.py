"""First pass over a stream: moments, categories and a sample, chunk by chunk.

The result is the same, to the bit, as for the same rows in memory: blocks of rows are
measured and added up as in `secret_jax.data.scaling`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from secret_jax.data.attributes import (
    Dates,
    attributes_of,
    calendar,
    places_in_order,
)
from secret_jax.data.columns import (
    MOST_CATEGORIES,
    OrderedText,
    categories_of,
    numbers,
    plain_values,
)
from secret_jax.data.roles import Attributes, ColumnOptions, roles_of, schema_of
from secret_jax.data.rows import Rows
from secret_jax.data.sampling import (
    ROW_ORDER,
    category_numbers,
    sampling_factors,
    sampling_hash,
)
from secret_jax.data.scaling import (
    ColumnMoments,
    ColumnSums,
    column_sums,
    joint_sums,
    moments_of,
    row_block,
)
from secret_jax.data.schema import Role, TableSchema
from secret_jax.fit.prepare import with_units_of
from secret_jax.losses.interface import Loss
from secret_jax.runtime.parallel import in_blocks
from secret_jax.stream.batches import Layout, StreamError
from secret_jax.stream.chunks import Chunk
from secret_jax.stream.pool import Pool, PoolRows

_HOUR = "hour"
# Maximum number of sums of blocks before they are added up: a megabyte of sums for a
# gigabyte of rows.
_MOST_SUMS = 1 << 16
# Maximum number of sums sent from one process to the others: two megabytes.
_MOST_SUMS_SENT = 1 << 12
# Beyond, whole numbers have gaps between them and are weights like any others.
_MOST_COPIES = 2.0**53


class Weights(NamedTuple):
    """Summary of the weights of rows.

    Attributes
    ----------
    n_rows : int
        All of them.
    n_used : int
        Number of rows of positive weight.
    whole : bool
        Whether all are whole numbers.
    """

    n_rows: int = 0
    n_used: int = 0
    total: float = 0.0
    largest: float = 0.0
    whole: bool = True

    def plus(self, other: Weights) -> Weights:
        """Merge with another `Weights`."""
        return Weights(
            self.n_rows + other.n_rows,
            self.n_used + other.n_used,
            self.total + other.total,
            max(self.largest, other.largest),
            self.whole and other.whole,
        )

    @property
    def are_counts(self) -> bool:
        """Whether all weights are integers whose sum is exact."""
        return self.whole and self.largest <= _MOST_COPIES / max(self.n_rows, 1)

    @property
    def factor(self) -> float:
        """Factor that scales weights to a mean of one; 1 for integer weights."""
        return 1.0 if self.are_counts or not self.total else self.n_used / self.total


class Learner:
    """State of the first pass.

    Parameters
    ----------
    enough : callable
        Maps a number of rows to the size of their sample.

    Attributes
    ----------
    layout : Layout or None
        None before the first chunk.
    attributes : Attributes
        With hours for every column of dates.
    digest : int
        Checksum of targets and weights, see `secret_jax.stream.chunks.Chunk.digest`.
    categories : list of dict
        For each discrete attribute the weight of every category, in the order in which
        they came up.
    hours : set of str
        Columns of dates with a time of the day somewhere.
    different : set of (str, str)
        Columns, and targets that differ from them in some row.
    """

    def __init__(
        self,
        options: ColumnOptions,
        target_names: tuple[str, ...],
        enough: Callable[[int], int],
    ):
        self.options, self.target_names = options, target_names
        self.layout: Layout | None = None
        self.attributes = Attributes((), False, [], (), ())
        self.weights = Weights()
        self.digest = 0
        self.sums: list[ColumnSums] = []
        self.target_sums: list[ColumnSums] = []
        self.categories: list[dict[Any, float]] = []
        self.hours: set[str] = set()
        self.hours_hashed: tuple[str, ...] = ()
        self.different: set[tuple[str, str]] = set()
        self.pool = Pool(enough)

    @property
    def _allow_missing(self) -> bool:
        return self.options.missing != "error"

    def begin(self, layout: Layout, columns: dict[str, np.ndarray]) -> None:
        """Decide the roles of the columns from the layout and the first rows."""
        attributes, dates = attributes_of(columns)
        hours = tuple(name for name, its in dates if f"{name} ({_HOUR})" in its)
        attributes, dates = _with_hours(attributes, columns)
        arrays, names = list(attributes.values()), tuple(attributes)
        roles = roles_of(arrays, names, dates, self.options)
        levels = tuple(
            (i, column.levels)
            for i, (column, role) in enumerate(zip(arrays, roles, strict=True))
            if isinstance(column, OrderedText) and role is not Role.DISCRETE
        )
        self.layout, self.hours_hashed = layout, hours
        self.attributes = Attributes(names, layout.named, roles, dates, levels)
        self.categories = [{} for role in roles if role is Role.DISCRETE]

    def add(self, layout: Layout, chunk: Chunk) -> None:
        """Add the rows of a chunk.

        Raises
        ------
        StreamError
            If a value cannot be used, or a column has too many categories.
        """
        with chunk.placing():
            if self.layout is None:
                self.begin(layout, chunk.columns)
            self._add(chunk)
            self.digest = chunk.digest(self.digest)

    def _add(self, chunk: Chunk) -> None:
        _refuse_targets(chunk.targets, self.target_names)
        self._weigh(chunk.weight)
        names, _, _, _, levels = self.attributes
        attributes, _ = _with_hours(chunk.columns, chunk.columns)
        columns = list(attributes.values())
        for i, its in levels:
            columns[i] = places_in_order(names[i], columns[i], its)
        continuous = self.attributes.of_role(Role.REGRESSOR, Role.SPLIT)
        values = [
            numbers(columns[i], names[i], self._allow_missing)
            if columns[i].dtype == object
            else columns[i]
            for i in continuous
        ]
        self._note(values, [names[i] for i in continuous], chunk.targets)
        self.sums += column_sums(
            values,
            [names[i] for i in continuous],
            chunk.weight,
            allow_missing=self._allow_missing,
        )
        self.target_sums += column_sums(
            list(chunk.targets.T), self.target_names, chunk.weight, allow_missing=False
        )
        if len(self.target_sums) > _MOST_SUMS:
            self.sums = [joint_sums(self.sums)] if self.sums else []
            self.target_sums = [joint_sums(self.target_sums)]
        discrete = [columns[i] for i in self.attributes.of_role(Role.DISCRETE)]
        targets, weight = chunk.targets, chunk.weight
        if not weight.all():
            used = weight > 0
            values, discrete = ([c[used] for c in part] for part in (values, discrete))
            targets, weight = targets[used], weight[used]
        codes = self._codes(discrete, weight)
        self.pool.add(self._chosen(values, codes, targets, weight), self.weights.n_used)

    def _weigh(self, weight: np.ndarray) -> None:
        bad = ~(np.isfinite(weight) & (weight >= 0))
        if bad.any():
            row = int(bad.argmax())
            raise ValueError(
                f"Bad sample weights: row {row} has {weight[row]}. Give finite numbers "
                "that are not negative."
            )
        self.weights = self.weights.plus(
            Weights(
                len(weight),
                int(np.count_nonzero(weight)),
                float(weight.sum()),
                float(weight.max(initial=0.0)),
                bool((weight == 1).all() or np.equal(np.mod(weight, 1), 0).all()),
            )
        )

    def _note(
        self, values: list[np.ndarray], names: list[str], targets: np.ndarray
    ) -> None:
        """Note the dates that have hours, and the columns that differ from a target."""
        by_name = dict(zip(names, values, strict=True))
        for name, _ in self.attributes.dates:
            hour = by_name.get(f"{name} ({_HOUR})")
            if hour is None or (name not in self.hours and np.nan_to_num(hour).any()):
                self.hours.add(name)
        for name, column in zip(names, values, strict=True):
            for output, y in zip(self.target_names, targets.T, strict=True):
                # Most columns differ in the first rows and are not compared again.
                if (name, output) not in self.different and any(
                    (column[:n] != y[:n]).any() for n in (64, None)
                ):
                    self.different.add((name, output))

    def _codes(self, columns: list[np.ndarray], weight: np.ndarray) -> np.ndarray:
        codes = np.empty((len(weight), len(columns)), np.int32)
        discrete = self.attributes.of_role(Role.DISCRETE)
        for attribute, column in enumerate(columns):
            name, its = (
                self.attributes.names[discrete[attribute]],
                self.categories[attribute],
            )
            place = {value: code for code, value in enumerate(its)}
            found = plain_values(column, name, self._allow_missing)
            codes[:, attribute] = [place.setdefault(v, len(place)) for v in found]
            if len(place) > MOST_CATEGORIES:
                raise ValueError(
                    f"Column {name!r} has more than {MOST_CATEGORIES} different "
                    "categories. Group the rare ones, or leave the column out "
                    "(columns=) if it only names the rows."
                )
            counts = np.bincount(codes[:, attribute], weight, minlength=len(place))
            for value, count in zip(place, counts.tolist(), strict=True):
                its[value] = its.get(value, 0.0) + count
        return codes

    def _chosen(
        self,
        values: list[np.ndarray],
        codes: np.ndarray,
        targets: np.ndarray,
        weight: np.ndarray,
    ) -> PoolRows:
        """Select the rows whose hash is below the limit of the pool."""
        names = self.attributes.names
        continuous = self.attributes.of_role(Role.REGRESSOR, Role.SPLIT)
        unhashed = {
            f"{name} ({_HOUR})"
            for name, _ in self.attributes.dates
            if name not in self.hours_hashed
        }
        written = [
            category_numbers(list(its))[column]
            for its, column in zip(self.categories, codes.T, strict=True)
        ]
        shown = [
            column
            for i, column in zip(continuous, values, strict=True)
            if names[i] not in unhashed
        ]
        columns = [*shown, *written, *targets.T]
        factors, limit = sampling_factors(len(columns), ROW_ORDER), self.pool.limit

        def below(part: slice) -> tuple[np.ndarray, np.ndarray]:
            with np.errstate(over="ignore"):
                block = row_block(columns, part, np.float32)
            hashed = sampling_hash(block.T, factors)
            index = np.flatnonzero(hashed < limit)
            return part.start + index, hashed[index]

        found = list(in_blocks(below, len(weight))) if len(weight) else []
        if not found:
            found = [(np.zeros(0, int), np.zeros(0, np.uint32))]
        index, hashed = (np.concatenate(arrays) for arrays in zip(*found, strict=True))
        return PoolRows(
            [column[index] for column in values],
            codes[index],
            targets[index],
            weight[index],
            np.ones(len(index), np.int64),
            hashed,
        )

    def reduce(self, n_used: Sequence[int], merged: Sequence[bool]) -> None:
        """Shrink the state to what the joint sample and sums of all processes need.

        Parameters
        ----------
        n_used : sequence of int
            Rows of every process.
        merged : sequence of bool
            Whether its pool has made copies one row: then the share of the rows does
            not say how many are wanted.
        """
        if not any(merged):
            self.pool.shrink(sum(n_used))
        if len(self.target_sums) > _MOST_SUMS_SENT:
            self.sums = [joint_sums(self.sums)] if self.sums else []
            self.target_sums = [joint_sums(self.target_sums)]

    def finished(self, loss: Loss) -> tuple[TableSchema, Rows]:
        """Schema and sample of all rows that were added.

        Parameters
        ----------
        loss : Loss
            Targets are in its units.

        Raises
        ------
        StreamError
            If there was no row.
        """
        if self.layout is None or not self.weights.n_rows:
            raise StreamError("The stream is empty: there is no row to fit.")
        if not self.weights.n_used:
            raise StreamError(
                "Sample weights must contain at least one non-zero number: all are "
                "zero."
            )
        schema, places = self._schema()
        self._drop_hours()
        pool = self.pool.rows()
        assert pool is not None
        # Of the rows beyond the sample, the most extreme targets are known.
        total = joint_sums(self.target_sums)
        extremes = np.stack([total.lowest, total.highest])
        loss.check_targets(np.concatenate([pool.targets, extremes]))
        schema = with_units_of(loss, schema, pool.targets, pool.weight)
        weights = self.weights
        rows = self.pool.sample(
            schema,
            places,
            weights.n_used,
            weights.factor,
            ROW_ORDER,
            counts=weights.are_counts,
        )
        return schema, rows

    def _schema(self) -> tuple[TableSchema, list[np.ndarray]]:
        names, factor = self.attributes.names, self.weights.factor
        continuous = self.attributes.of_role(Role.REGRESSOR, Role.SPLIT)
        measured = moments_of(self.sums, [names[i] for i in continuous])
        measured = measured._replace(
            mass=measured.mass * factor, missing_mass=measured.missing_mass * factor
        )
        targets = moments_of(self.target_sums, self.target_names, of_target=True)
        categories, counts, places = [], [], []
        for its in self.categories:
            ranked = _sorted(its)
            categories.append(ranked)
            counts.append(np.array([its[value] for value in ranked]) * factor)
            place = {value: code for code, value in enumerate(ranked)}
            places.append(np.array([place[value] for value in its], np.int32))
        attributes, kept = self._without_unused_hours()
        measured = ColumnMoments(*(array[kept] for array in measured))
        schema = schema_of(
            attributes,
            measured,
            categories,
            counts,
            targets,
            self.options,
            self.target_names,
        )
        return schema, places

    def _unused(self) -> set[str]:
        return {
            f"{name} ({_HOUR})"
            for name, _ in self.attributes.dates
            if name not in self.hours
        }

    def _without_unused_hours(self) -> tuple[Attributes, np.ndarray]:
        """Drop the hours of dates without times; return a mask of the kept columns."""
        names, named, roles, dates, levels = self.attributes
        unused = self._unused()
        continuous = self.attributes.of_role(Role.REGRESSOR, Role.SPLIT)
        kept = np.array([names[i] not in unused for i in continuous], bool)
        there = [i for i, name in enumerate(names) if name not in unused]
        return Attributes(
            tuple(names[i] for i in there),
            named,
            [roles[i] for i in there],
            tuple(
                (name, tuple(part for part in its if part not in unused))
                for name, its in dates
            ),
            tuple((there.index(i), its) for i, its in levels),
        ), kept

    def _drop_hours(self) -> None:
        unused, names = self._unused(), self.attributes.names
        rows = self.pool.rows()
        if unused and rows is not None:
            continuous = self.attributes.of_role(Role.REGRESSOR, Role.SPLIT)
            kept = zip(continuous, list(rows.values), strict=True)
            rows.values[:] = [c for i, c in kept if names[i] not in unused]


def _with_hours(
    attributes: dict[str, Any], columns: dict[str, np.ndarray]
) -> tuple[dict[str, Any], Dates]:
    """Split dates into attributes that always include the hour, for later rows."""
    if not any(column.dtype.kind == "M" for column in columns.values()):
        return attributes, ()
    made: dict[str, Any] = {}
    dates = []
    for name, column in columns.items():
        parts = calendar(name, column) if column.dtype.kind == "M" else {name: column}
        if column.dtype.kind == "M":
            dates.append((name, tuple(parts)))
        made |= parts
    return made, tuple(dates)


def _refuse_targets(targets: np.ndarray, names: Sequence[str]) -> None:
    good = np.isfinite(targets)
    if not good.all():
        row, output = np.argwhere(~good)[0]
        raise ValueError(
            f"The target {names[output]!r} contains NaN or infinity: row {row} is "
            f"{targets[row, output]}. Drop such rows before fitting."
        )


def _sorted(counts: dict[Any, float]) -> tuple[Any, ...]:
    """Sort categories as `secret_jax.data.columns.categories_of`."""
    column = np.empty(len(counts), object)
    column[:] = list(counts)
    return categories_of(column, "", True)
