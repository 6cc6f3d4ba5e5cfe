"""Table schema: attributes, categories, scales and encoded columns.

Section 2 of Dobra & Gehrke 2002 knows three roles of a predictor attribute: *discrete*
(only split on), *split-only* continuous, and *regressor* (split on and in the models).
Dates are several attributes, see `secret_jax.data.dates`. Ordered categories become
their places in the order, which are only split on: their steps need not be alike. A
schema is learned once (`secret_jax.data.learning`) and travels with the fitted tree.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import jax
import numpy as np

from secret_jax.data.columns import (
    ReadTable,
    UnseenCategoryWarning,
    is_missing,
    listed,
    read_columns,
)
from secret_jax.data.dates import (
    DAYS,
    MINUTES,
    WEEKDAY,
    WEEKDAYS,
    Dates,
    Zones,
    calendar,
    dates_again,
    parts_of,
    time_written,
)
from secret_jax.runtime.environment import warn
from secret_jax.runtime.values import is_integer

# Encoded values saturate here, so that their sums with coefficients stay finite.
FAR = 1e30

# Positions of ordered categories, each with these from the least to the greatest.
Levels: TypeAlias = tuple[tuple[int, tuple[str, ...]], ...]


class Role(StrEnum):
    """Permitted use of an attribute."""

    REGRESSOR = "regressor"
    SPLIT = "split"
    DISCRETE = "discrete"
    UNUSED = "unused"


class Origin(NamedTuple):
    """Input column of an attribute, with the part of its dates or its levels."""

    column: str
    part: str = ""
    levels: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False, kw_only=True)
class Attributes:
    """Names and roles of the attributes of a table."""

    # In the order seen in training. A column of dates stands here as several.
    names: tuple[str, ...]
    named: bool  # whether the names came with the data (a DataFrame) or were made up
    roles: tuple[Role, ...]
    # dates, zones, levels: see `Dates`, `Zones` and `Levels`.
    dates: Dates = ()
    zones: Zones = ()
    levels: Levels = ()

    def of_role(self, *wanted: Role) -> tuple[int, ...]:
        """Positions of the attributes of given roles, grouped by role in that order."""
        return tuple(
            i for role in wanted for i, own in enumerate(self.roles) if own is role
        )

    @property
    def input_names(self) -> tuple[str, ...]:
        """Names of the input columns; the attributes of a date are one column."""
        owner = {part: name for name, parts in self.dates for part in parts}
        return tuple(dict.fromkeys(owner.get(name, name) for name in self.names))

    def index_of(self, attribute: Any) -> int:
        """Position of an attribute that is given by its position or name."""
        if isinstance(attribute, str) and attribute in self.names:
            return self.names.index(attribute)
        if is_integer(attribute) and 0 <= attribute < len(self.names):
            return int(attribute)
        raise ValueError(
            f"There is no column {attribute!r}. The columns are {listed(self.names)}."
        )

    def origin(self, position: int) -> Origin:
        """Find the input column of an attribute."""
        name = self.names[position]
        for column, parts in self.dates:
            if name in parts:
                return Origin(column, part=name[len(column) + 2 : -1])
        return Origin(name, levels=dict(self.levels).get(position, ()))

    def by_input(self, values: np.ndarray) -> np.ndarray:
        """Sum values per attribute over the attributes of each input column."""
        inputs = self.input_names
        summed = np.zeros(len(inputs))
        place = [inputs.index(self.origin(i).column) for i in range(len(self.names))]
        np.add.at(summed, place, values)
        return summed

    def matching(self, columns: ReadTable) -> list[np.ndarray]:
        """Reorder columns as in ``names``, and convert dates and levels."""
        inputs = self.input_names
        if isinstance(columns, list) or not self.named:
            given = list(columns if isinstance(columns, list) else columns.values())
            if len(given) not in (len(inputs), len(self.names)):
                raise ValueError(
                    f"X has {len(given)} features, but the tree was fitted with "
                    f"{len(inputs)} features: {listed(inputs)}."
                )
            order = inputs if len(given) == len(inputs) else self.names
            columns = dict(zip(order, given, strict=True))
        for name, parts in self.dates:
            if name in columns and parts[0] not in columns:
                zone = dict(self.zones).get(name)
                kind = "times of day" if MINUTES in parts[0] else "dates"
                dates = dates_again(name, columns[name], zone, kind)
                columns = columns | calendar(name, dates)
                del columns[name]
        self._refuse_other_names(columns)
        found = [columns[name] for name in self.names]
        for i, levels in self.levels:
            found[i] = places_in_order(self.names[i], found[i], levels)
        for name, column in zip(self.names, found, strict=True):
            if parts_of(column):
                raise ValueError(
                    f"Column {name!r} holds dates or times, and held none in training. "
                    "Give it as it was then."
                )
        return found

    def _refuse_other_names(self, columns: dict[str, np.ndarray]) -> None:
        lacking = dict.fromkeys(
            self.origin(i).column
            for i, name in enumerate(self.names)
            if name not in columns
        )
        known = set(self.names)
        extra = [name for name in columns if name not in known]
        lacks = [f"lacks {listed(lacking)}"] if lacking else []
        has = [f"has the unknown {listed(extra)}"] if extra else []
        if lacks or has:
            raise ValueError(
                f"X {' and '.join(lacks + has)}. The feature names should match those "
                f"of the fit: {listed(self.input_names)}."
            )

    def place_written(self, position: int, place: float) -> tuple[str, str] | None:
        """Write a rank as level, a day as date, weekday or time; None for others."""
        column, part, levels = self.origin(position)
        if part == MINUTES:
            return column, time_written(place)
        place = int(place)
        if levels:
            return column, levels[min(max(place, 0), len(levels) - 1)]
        if part == WEEKDAY:
            return self.names[position], WEEKDAYS[min(max(place, 1), 7) - 1]
        return (column, str(np.datetime64(place, "D"))) if part == DAYS else None

    def as_written(self, columns: Sequence[np.ndarray]) -> np.ndarray:
        """Convert numbers of attributes back to categories and dates."""
        values = np.empty((len(columns[0]), len(columns)), object)
        for position, column in enumerate(columns):
            plain = np.asarray(column).tolist()
            if self.place_written(position, 0) is not None:
                written = (
                    None if place != place else self.place_written(position, place)
                    for place in plain
                )
                plain = [pair and pair[1] for pair in written]
            values[:, position] = plain
        return values


def position_among(names: Sequence[str], output: Any, kind: str) -> int:
    """Position of an output, or class, that is given by its position or name."""
    if isinstance(output, str) and output in names:
        return names.index(output)
    if is_integer(output) and 0 <= output < len(names):
        return int(output)
    raise ValueError(
        f"output={output!r} is none of the {kind}: give one of "
        f"{', '.join(map(repr, names))}, or a position below {len(names)}."
    )


def places_in_order(
    name: str, column: np.ndarray, levels: tuple[str, ...]
) -> np.ndarray:
    """Encode ordered categories as ranks from 0, float64; NaN where missing.

    Places stay. A category that training never saw has none, with a warning.
    """
    if column.dtype.kind in "fiu":
        return np.asarray(column, np.float64)
    position = {level: float(place) for place, level in enumerate(levels)}
    values = column.tolist()
    unseen = {v for v in values if not is_missing(v) and v not in position}
    if unseen:
        warn(
            f"Column {name!r} holds categories that training never saw: "
            f"{listed(sorted(map(str, unseen)))}. They have no place in the order and "
            "count as missing.",
            UnseenCategoryWarning,
        )
    return np.array([position.get(value, np.nan) for value in values], np.float64)


@dataclass(frozen=True, eq=False, kw_only=True)
class TableSchema(Attributes):
    """Attributes of a table, with their categories and scaling, and its targets."""

    # Attributes of the encoded continuous columns, regressors first.
    continuous: tuple[int, ...]
    # Number of encoded columns that the models use, including indicators.
    n_regressors: int
    # center, scale (n_columns,), float64: ``x_encoded = (x - center) / scale``; 0 and 1
    # for indicators. The center is the mean of the values that are there, and stands
    # for those that are missing.
    center: np.ndarray
    scale: np.ndarray
    discrete: tuple[int, ...]  # discrete attributes
    # Sorted categories of each discrete attribute; a code is a position in them. The
    # last one is None if values were missing: a category like any other.
    categories: tuple[tuple[Any, ...], ...]
    target_names: tuple[str, ...]  # one per output
    # target_centers, target_scales: ``y_encoded = (y - center) / scale`` for each
    # output.
    target_centers: tuple[float, ...]
    target_scales: tuple[float, ...]
    # Code of the most frequent category of each discrete attribute; empty in files of
    # older versions.
    most_frequent: tuple[int, ...] = ()
    # Attribute (a position in ``discrete``) and code of each indicator column.
    indicators: tuple[tuple[int, int], ...] = ()
    # Share of the training rows in each of them: what it is for a value that training
    # never saw, among them a missing one, as the center is of a missing number.
    indicator_shares: tuple[float, ...] = ()
    # missing_modelled, missing_split: attributes with indicators of missing values (1
    # where one is): those that the models see, and those that are only split on.
    missing_modelled: tuple[int, ...] = ()
    missing_split: tuple[int, ...] = ()
    # Continuous attributes with values missing in training, and the share of the rows.
    missing_shares: tuple[tuple[int, float], ...] = ()
    allow_missing: bool = True  # whether a missing value is no error
    whole: tuple[int, ...] = ()  # continuous attributes that held only whole numbers
    # Continuous attributes with far tails, and the bounds in units of the data beyond
    # which values count as the bound; infinite on a side without a tail.
    tails: tuple[tuple[int, float, float], ...] = ()
    # Continuous attributes with which predictions may only rise (1) or fall (-1).
    monotonic: tuple[tuple[int, int], ...] = ()

    @property
    def n_columns(self) -> int:
        """Number of encoded columns."""
        n_missing_indicators = len(self.missing_modelled) + len(self.missing_split)
        return len(self.continuous) + len(self.indicators) + n_missing_indicators

    @property
    def n_indicators(self) -> int:
        """Number of regressors that are indicators; they come last."""
        return len(self.indicators) + len(self.missing_modelled)

    @cached_property
    def encoded(self) -> tuple[tuple[int, str], ...]:
        """Input column and label of every encoded column: its name, or what is told."""
        first = self.n_regressors - self.n_indicators
        numbers = [(column, self.names[column]) for column in self.continuous]
        categories = []
        for attribute, code in self.indicators:
            column, value = self.discrete[attribute], self.categories[attribute][code]
            if isinstance(value, float) and value.is_integer():
                value = int(value)
            told = "is missing" if value is None else f"= {value}"
            categories.append((column, f"[{self.names[column]} {told}]"))
        modelled, split = (
            [(column, f"[{self.names[column]} is missing]") for column in columns]
            for columns in (self.missing_modelled, self.missing_split)
        )
        return (*numbers[:first], *categories, *modelled, *numbers[first:], *split)

    @property
    def input_columns(self) -> tuple[int, ...]:
        """Input column of every encoded column."""
        return tuple(column for column, _ in self.encoded)

    @property
    def labels(self) -> tuple[str, ...]:
        """Label of every encoded column: the attribute, or the value indicated."""
        return tuple(label for _, label in self.encoded)

    @property
    def missing_columns(self) -> tuple[tuple[int, int], ...]:
        """Pairs (encoded column, its missing indicator), for columns that have one."""
        after = range(self.n_regressors - len(self.missing_modelled), self.n_regressors)
        last = range(self.n_columns - len(self.missing_split), self.n_columns)
        gaps = (*self.missing_modelled, *self.missing_split)
        place = dict(zip(gaps, (*after, *last), strict=True))
        pairs = zip(self.continuous_positions, self.continuous, strict=True)
        return tuple((i, place[column]) for i, column in pairs if column in place)

    def position_of(self, column: int) -> int:
        """Encoded column of a continuous attribute, by its input column."""
        return self.continuous_positions[self.continuous.index(column)]

    @property
    def is_plain(self) -> bool:
        """Whether encoded columns are the attributes, all of them continuous."""
        return len(self.continuous) == self.n_columns and not self.discrete

    def in_order(self, array: Any) -> Any:
        """Columns of an array of plain numbers, in the order of the encoded columns."""
        order = list(self.continuous)
        return array if order == [*range(array.shape[1])] else array[:, order]

    @property
    def continuous_positions(self) -> list[int]:
        """Positions of the continuous attributes among the encoded columns."""
        n_plain = self.n_regressors - self.n_indicators
        n_split = len(self.continuous) - n_plain
        split = range(self.n_regressors, self.n_regressors + n_split)
        return [*range(n_plain), *split]

    @cached_property
    def saturation(self) -> tuple[np.ndarray, np.ndarray]:
        """Bounds of every encoded column, in encoded units, shape (n_columns,) each."""
        low, high = np.array([[-FAR], [FAR]]).repeat(self.n_columns, axis=1)
        for column, *bounds in self.tails:
            i = self.position_of(column)
            if self.scale[i]:  # a constant is 0 wherever it lies
                low[i], high[i] = (np.array(bounds) - self.center[i]) / self.scale[i]
        return np.maximum(low, -FAR), np.minimum(high, FAR)

    def columns_of(self, X: Any) -> list[np.ndarray]:
        """Read the columns of a table, in the order of ``names``."""
        return self.matching(read_columns(X))

    @property
    def n_outputs(self) -> int:
        """Number of targets."""
        return len(self.target_names)

    def output_position(self, output: int | str | None) -> int:
        """Position of an output that is given by its position or name."""
        return position_among(self.target_names, output, "outputs")

    @property
    def target_name(self) -> str:
        """Name of the only target."""
        return self._only(self.target_names)

    @property
    def target_center(self) -> float:
        """Center of the only target."""
        return self._only(self.target_centers)

    @property
    def target_scale(self) -> float:
        """Scale of the only target."""
        return self._only(self.target_scales)

    def _only(self, values: tuple[Any, ...]) -> Any:
        if len(values) == 1:
            return values[0]
        raise ValueError(
            f"The tree has {len(values)} outputs: {listed(self.target_names)}. Say "
            "which one with output=, or take tree.output(i)."
        )

    def scale_targets(self, y: np.ndarray) -> np.ndarray:
        """Standardise targets, shape (n_rows, n_outputs), float64."""
        centers, scales = np.array([self.target_centers, self.target_scales])[..., None]
        # Along the rows: loops over a few outputs each would take ten times as long.
        return ((y.T - centers) / scales).T

    def restore_targets(self, value: np.ndarray) -> np.ndarray:
        """Convert standardised targets to original units; one output loses its axis."""
        own = self.restore_outputs(value)
        return own[:, 0] if self.n_outputs == 1 else own

    def restore_outputs(self, value: Any) -> Any:
        """Convert like `restore_targets`, to the shape (n_rows, n_outputs) always."""
        if not isinstance(value, jax.Array):
            value = np.asarray(value, np.float64)
        units = np.array([self.target_centers, self.target_scales], value.dtype)
        centers, scales = units[..., None]
        return (value.T * scales + centers).T

    def restore_target(self, value: Any) -> np.ndarray:
        """Convert standardised values of a single target back to its units, float64."""
        return np.asarray(value, np.float64) * self.target_scale + self.target_center
