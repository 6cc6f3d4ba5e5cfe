"""Table schema: names, roles, categories, scales and encoded columns.

Section 2 of Dobra & Gehrke 2002 knows three roles of a predictor attribute: *discrete*
(only split on), *split-only* continuous, and *regressor* (split on and in the models).
A schema is learned once (`secret_jax.data.roles`) and travels with the fitted tree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from secret_jax.data.attributes import (
    Dates,
    Levels,
    calendar,
    dates_again,
    day_written,
    input_names,
    places_in_order,
)
from secret_jax.data.columns import ReadTable, listed, read_columns


class Role(StrEnum):
    """Permitted use of an attribute."""

    REGRESSOR = "regressor"
    SPLIT = "split"
    DISCRETE = "discrete"


@dataclass(frozen=True, eq=False, kw_only=True)
class TableSchema:
    """Names, roles, categories and scaling of the attributes and of the targets.

    Attributes
    ----------
    names : tuple of str
        One per input column, in the order seen in training. A column of dates stands
        here as several, its parts (`secret_jax.data.attributes`).
    named : bool
        Whether the names came with the data (a DataFrame) or were made up.
    roles : tuple of Role
        One per input column.
    continuous : tuple of int
        Input columns of the encoded continuous attributes, regressors first.
    n_regressors : int
        Number of encoded columns that the models use, including indicators.
    center, scale : ndarray of shape (n_columns,), float64
        ``x_encoded = (x - center) / scale``; 0 and 1 for indicators. The center is the
        mean of the values that are there, and stands for those that are missing.
    discrete : tuple of int
        Input columns of the encoded discrete attributes.
    categories : tuple of tuple
        Sorted categories of each discrete attribute; a code is a position in them. The
        last one is None if values were missing: a category like any other.
    target_names : tuple of str
        One per output.
    target_centers, target_scales : tuple of float
        ``y_encoded = (y - center) / scale`` for each output.
    indicators : tuple of (int, int)
        Attribute (a position in ``discrete``) and code of each indicator column.
    missing_modelled, missing_split : tuple of int
        Input columns of the indicators of missing values (1 where one is): those that
        the models see, and those that are only split on.
    missing_shares : tuple of (int, float)
        Input columns of continuous attributes with values missing in training, and the
        share of the rows.
    allow_missing : bool
        Whether a missing value is no error.
    whole : tuple of int
        Input columns of continuous attributes that held only whole numbers.
    dates : tuple of (str, tuple of str)
        Columns of dates by name, each with the names of its parts.
    levels : tuple of (int, tuple of str)
        Input columns that are places of ordered categories, and these from the least to
        the greatest.
    """

    names: tuple[str, ...]
    named: bool
    roles: tuple[Role, ...]
    continuous: tuple[int, ...]
    n_regressors: int
    center: np.ndarray
    scale: np.ndarray
    discrete: tuple[int, ...]
    categories: tuple[tuple[Any, ...], ...]
    target_names: tuple[str, ...]
    target_centers: tuple[float, ...]
    target_scales: tuple[float, ...]
    indicators: tuple[tuple[int, int], ...] = ()
    missing_modelled: tuple[int, ...] = ()
    missing_split: tuple[int, ...] = ()
    missing_shares: tuple[tuple[int, float], ...] = ()
    allow_missing: bool = True
    whole: tuple[int, ...] = ()
    dates: Dates = ()
    levels: Levels = ()

    @property
    def input_names(self) -> tuple[str, ...]:
        """Names of the input columns; the attributes of a date are one column."""
        return input_names(self.names, self.dates)

    @property
    def n_columns(self) -> int:
        """Number of encoded columns."""
        n_missing_indicators = len(self.missing_modelled) + len(self.missing_split)
        return len(self.continuous) + len(self.indicators) + n_missing_indicators

    @property
    def n_indicators(self) -> int:
        """Number of regressors that are indicators; they come last."""
        return len(self.indicators) + len(self.missing_modelled)

    @property
    def input_columns(self) -> tuple[int, ...]:
        """Input column of every encoded column."""
        inserted = tuple(self.discrete[attribute] for attribute, _ in self.indicators)
        return self._in_order(
            self.continuous, inserted, self.missing_modelled, self.missing_split
        )

    @property
    def labels(self) -> tuple[str, ...]:
        """Label of every encoded column: the attribute, or the value indicated."""
        return self._in_order(
            [self.names[column] for column in self.continuous],
            [
                f"[{self.names[self.discrete[attribute]]} "
                + (f"= {value}]" if value is not None else "is missing]")
                for attribute, code in self.indicators
                for value in [self.categories[attribute][code]]
            ],
            [f"[{self.names[column]} is missing]" for column in self.missing_modelled],
            [f"[{self.names[column]} is missing]" for column in self.missing_split],
        )

    @property
    def missing_columns(self) -> tuple[tuple[int, int], ...]:
        """Pairs (encoded column, its missing indicator), for columns that have one."""
        first = self.n_regressors - len(self.missing_modelled)
        position = {column: i for i, column in enumerate(self.missing_modelled, first)}
        first = self.n_columns - len(self.missing_split)
        position |= {column: i for i, column in enumerate(self.missing_split, first)}
        return tuple(
            (i, position[column])
            for i, column in zip(
                self.continuous_positions, self.continuous, strict=True
            )
            if column in position
        )

    def position_of(self, column: int) -> int:
        """Encoded column of a continuous attribute, by its input column."""
        return self.continuous_positions[self.continuous.index(column)]

    @property
    def is_plain(self) -> bool:
        """Whether encoded columns are the attributes, all continuous and in order."""
        return self.continuous == tuple(range(self.n_columns)) and not self.discrete

    @property
    def continuous_positions(self) -> list[int]:
        """Positions of the continuous attributes among the encoded columns."""
        n_plain = self.n_regressors - self.n_indicators
        n_split = len(self.continuous) - n_plain
        split = range(self.n_regressors, self.n_regressors + n_split)
        return [*range(n_plain), *split]

    def _in_order(
        self, continuous: Sequence, inserted: Sequence, modelled: Sequence, split
    ) -> tuple:
        """Concatenate values per kind of column in the order of the encoded columns."""
        first = self.n_regressors - self.n_indicators
        return (
            *continuous[:first],
            *inserted,
            *modelled,
            *continuous[first:],
            *split,
        )

    def columns_of(self, X: Any) -> list[np.ndarray]:
        """Read the columns of a table, in the order of ``names``."""
        return self.matching(read_columns(X))

    @property
    def n_outputs(self) -> int:
        """Number of targets."""
        return len(self.target_names)

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
        center, scale = self._target_columns
        # Along the rows: loops over a few outputs each would take ten times as long.
        return ((y.T - center) / scale).T

    def restore_targets(self, value: np.ndarray) -> np.ndarray:
        """Convert standardised targets back to their original units, float64.

        Parameters
        ----------
        value : ndarray of shape (n_rows, n_outputs)

        Returns
        -------
        ndarray of shape (n_rows, n_outputs), or (n_rows,) of a single output
        """
        center, scale = self._target_columns
        own = (np.asarray(value, np.float64).T * scale + center).T
        return own[:, 0] if self.n_outputs == 1 else own

    @property
    def _target_columns(self) -> tuple[np.ndarray, np.ndarray]:
        """Centers and scales of the targets, shape (n_outputs, 1) each."""
        center, scale = np.array(self.target_centers), np.array(self.target_scales)
        return center[:, None], scale[:, None]

    def restore_target(self, value: Any) -> np.ndarray:
        """Convert standardised values of a single target back to its units, float64."""
        return np.asarray(value, np.float64) * self.target_scale + self.target_center

    def matching(self, columns: ReadTable) -> list[np.ndarray]:
        """Reorder the columns of a table as in ``names``; see `match_columns`."""
        return match_columns(self.names, self.named, columns, self.dates, self.levels)

    def place_written(self, column: int, place: int) -> tuple[str, str] | None:
        """Write a rank as level or date, with its column name; None for plain numbers.

        Parameters
        ----------
        column : int
            Position in ``names``.
        place : int
            Rank of an ordered category, or a day since 1970.

        Returns
        -------
        (str, str) or None
            Name of the column, and the category or the date.
        """
        levels = dict(self.levels).get(column)
        if levels is not None:
            return self.names[column], levels[min(max(place, 0), len(levels) - 1)]
        for name, parts in self.dates:
            if self.names[column] == parts[-1]:  # the days
                return name, day_written(place)
        return None

    def as_written(self, columns: Sequence[np.ndarray]) -> np.ndarray:
        """Convert encoded values back to categories and dates.

        Parameters
        ----------
        columns : sequence of ndarray of shape (n_rows,)
            Columns of ``names``, with ranks of ordered categories and numbers of dates.

        Returns
        -------
        ndarray of shape (n_rows, n_columns), object
        """
        values = np.empty((len(columns[0]), len(columns)), object)
        for position, column in enumerate(columns):
            found = np.asarray(column).tolist()
            if self.place_written(position, 0) is not None:
                written = (
                    None if place != place else self.place_written(position, int(place))
                    for place in found
                )
                found = [what and what[1] for what in written]
            values[:, position] = found
        return values

    def by_input(self, values: np.ndarray) -> np.ndarray:
        """Sum values per attribute over the attributes of each input column."""
        owner = {part: name for name, parts in self.dates for part in parts}
        inputs = self.input_names
        place = [inputs.index(owner.get(name, name)) for name in self.names]
        summed = np.zeros(len(inputs))
        np.add.at(summed, place, values)
        return summed


def match_columns(
    names: tuple[str, ...],
    named: bool,
    columns: ReadTable,
    dates: Dates = (),
    levels: Levels = (),
) -> list[np.ndarray]:
    """Reorder columns as in ``names``; raise an error if names do not match.

    Parameters
    ----------
    named : bool
        Whether they came with the data: then columns are found by name.
    columns : dict or list of ndarray of shape (n_rows,)
        Dates in one piece or as their parts, ordered categories as text or as their
        places.
    dates, levels : tuple
        As in `TableSchema`.
    """
    found = _attributes(names, named, columns, dates)
    for column, its in levels:
        found[column] = places_in_order(names[column], found[column], its)
    for name, column in zip(names, found, strict=True):
        if column.dtype.kind == "M":
            raise ValueError(
                f"Column {name!r} holds dates, and held none in training. Give it as "
                "it was then."
            )
    return found


def _attributes(
    names: tuple[str, ...], named: bool, columns: ReadTable, dates: Dates
) -> list[np.ndarray]:
    inputs = input_names(names, dates)
    if isinstance(columns, list) or not named:
        given = list(columns if isinstance(columns, list) else columns.values())
        if len(given) == len(names):
            return given
        if len(given) != len(inputs):
            raise ValueError(
                f"X has {len(given)} features, but the tree was fitted with "
                f"{len(inputs)} features: {listed(inputs)}."
            )
        columns = dict(zip(inputs, given, strict=True))
    for name, parts in dates:
        if name in columns and parts[0] not in columns:
            made = calendar(name, dates_again(name, columns[name]))
            others = {n: column for n, column in columns.items() if n != name}
            columns = others | {part: made[part] for part in parts}
    lacking = tuple(name for name in names if name not in columns)
    extra = [name for name in columns if name not in names]
    if lacking or extra:
        problem = " and ".join(
            f"{what} {listed(which)}"
            for what, which in (
                ("lacks", input_names(lacking, dates)),
                ("has the unknown", extra),
            )
            if which
        )
        raise ValueError(
            f"X {problem}. The feature names should match those of the fit: "
            f"{listed(inputs)}."
        )
    return [columns[name] for name in names]
