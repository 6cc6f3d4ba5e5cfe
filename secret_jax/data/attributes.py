"""Attributes of a table: its columns, with dates and ordered categories as numbers.

Dates are several attributes, see `secret_jax.data.dates`. Ordered categories become
their places in the order, which are only split on: their steps need not be alike.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from secret_jax.data.categories import UnseenCategoryWarning
from secret_jax.data.columns import ReadTable, is_missing, listed
from secret_jax.data.dates import (
    DAYS,
    WEEKDAY,
    WEEKDAYS,
    Dates,
    Zones,
    calendar,
    dates_again,
)
from secret_jax.runtime.values import is_integer
from secret_jax.runtime.warning import warn

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
        return input_names(self.names, self.dates)

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
        found = self._attributes(columns)
        for i, levels in self.levels:
            found[i] = places_in_order(self.names[i], found[i], levels)
        for name, column in zip(self.names, found, strict=True):
            if column.dtype.kind == "M":
                raise ValueError(
                    f"Column {name!r} holds dates, and held none in training. Give it "
                    "as it was then."
                )
        return found

    def _attributes(self, columns: ReadTable) -> list[np.ndarray]:
        names, inputs = self.names, self.input_names
        if isinstance(columns, list) or not self.named:
            given = list(columns if isinstance(columns, list) else columns.values())
            if len(given) not in (len(inputs), len(names)):
                raise ValueError(
                    f"X has {len(given)} features, but the tree was fitted with "
                    f"{len(inputs)} features: {listed(inputs)}."
                )
            order = inputs if len(given) == len(inputs) else names
            columns = dict(zip(order, given, strict=True))
        for name, parts in self.dates:
            if name in columns and parts[0] not in columns:
                zone = dict(self.zones).get(name)
                dates = dates_again(name, columns[name], zone)
                columns = columns | calendar(name, dates)
                del columns[name]
        lacking = tuple(name for name in names if name not in columns)
        extra = [name for name in columns if name not in names]
        if lacking or extra:
            lacks = f"lacks {listed(input_names(lacking, self.dates))}"
            has = f"has the unknown {listed(extra)}"
            problem = " and ".join([lacks] * bool(lacking) + [has] * bool(extra))
            raise ValueError(
                f"X {problem}. The feature names should match those of the fit: "
                f"{listed(inputs)}."
            )
        return [columns[name] for name in names]

    def place_written(self, position: int, place: int) -> tuple[str, str] | None:
        """Write a rank as level, a day as date or weekday; None for other numbers."""
        column, part, levels = self.origin(position)
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
                    None if place != place else self.place_written(position, int(place))
                    for place in plain
                )
                plain = [pair and pair[1] for pair in written]
            values[:, position] = plain
        return values


def input_names(names: tuple[str, ...], dates: Dates) -> tuple[str, ...]:
    """Names of the input columns that attributes come from."""
    owner = {part: name for name, parts in dates for part in parts}
    return tuple(dict.fromkeys(owner.get(name, name) for name in names))


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


def chosen_attributes(
    chosen: Any, names: tuple[str, ...], dates: Dates, argument: str
) -> set[int]:
    """Resolve columns (by name, place or mask) or attributes named by the user."""
    if chosen is None:
        return set()
    scalar = isinstance(chosen, np.ndarray) and chosen.ndim == 0
    if scalar or isinstance(chosen, str) or not isinstance(chosen, Iterable):
        chosen = [chosen]
    chosen, columns = list(chosen), input_names(names, dates)
    if len(chosen) and all(isinstance(c, bool | np.bool_) for c in chosen):
        if len(chosen) != len(columns):
            raise ValueError(
                f"{argument} is a mask of length {len(chosen)}, but X has "
                f"{len(columns)} columns."
            )
        chosen = np.flatnonzero(chosen).tolist()
    parts = {name: (name,) for name in (*columns, *names)} | dict(dates)
    found = set()
    for choice in chosen:
        if isinstance(choice, int | np.integer) and 0 <= choice < len(columns):
            choice = columns[int(choice)]
        if not isinstance(choice, str) or choice not in parts:
            raise ValueError(
                f"{argument} names the unknown column {choice!r}. "
                f"The columns of X are {listed(columns)}."
            )
        found |= {names.index(part) for part in parts[choice]}
    return found
