"""Tables in, arrays out: attribute roles, category codes, standardising, input errors.

Section 2 of Dobra & Gehrke 2002 knows three roles of a predictor attribute: *discrete*
(only split on), *split-only* continuous, and *regressor* (split on and in the models).
The schema that is learned here, once, travels with the fitted tree.
"""

from __future__ import annotations

import datetime
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np

NO_TABLE = (
    "X is no table of shape (n_rows, n_columns): its rows differ in length, or its "
    "cells hold lists."
)
# More would take gigabytes in the search, and say nothing.
_MOST_CATEGORIES = 4096
# With fewer rows a category its coefficient would be mostly noise.
_ROWS_PER_INDICATOR = 30
# With fewer gaps, or fewer values, a column's gaps say nothing that could be learned.
_LEAST_GAPS = 5
_GAPS_PER_REGRESSOR = 30


class Role(StrEnum):
    """What an attribute may be used for."""

    REGRESSOR = "regressor"
    SPLIT = "split"
    DISCRETE = "discrete"


class UnseenCategoryWarning(UserWarning):
    """A category that training never saw; the row goes to the larger child."""


class Table(NamedTuple):
    """Encoded rows.

    Attributes
    ----------
    x : ndarray of shape (n_rows, n_columns), float32
        The regressors (standardised continuous attributes, indicators of categories,
        indicators of gaps), then what is only split on (standardised attributes,
        indicators of gaps). A missing value is 0, the mean of the column in training.
    codes : ndarray of shape (n_rows, n_discrete), int32
        Category codes; -1 for a category that training never saw.
    """

    x: np.ndarray
    codes: np.ndarray


@dataclass(frozen=True, eq=False, kw_only=True)
class TableSchema:
    """Names, roles, categories and scaling of the attributes and of the target.

    Attributes
    ----------
    names : tuple of str
        One per input column, in the order seen in training.
    named : bool
        Whether the names came with the data (a DataFrame) or were made up.
    roles : tuple of Role
        One per input column.
    continuous : tuple of int
        Input columns of the encoded continuous attributes, regressors first.
    n_regressors : int
        How many encoded columns the models use, indicators included.
    center, scale : ndarray of shape (n_columns,), float64
        ``x_encoded = (x - center) / scale``; 0 and 1 for indicators. The center is the
        mean of the values that are there, and stands for those that are missing.
    discrete : tuple of int
        Input columns of the encoded discrete attributes.
    categories : tuple of tuple
        Sorted categories of each discrete attribute; a code is a position in them. The
        last one is None if values were missing: a category like any other.
    target_name : str
    target_center, target_scale : float
    indicators : tuple of (int, int)
        Attribute (a position in ``discrete``) and code of each indicator column.
    gaps_modelled, gaps_split : tuple of int
        Input columns of the indicators of gaps (1 where the value is missing): those
        that the models see, and those that are only split on.
    missing_shares : tuple of (int, float)
        Input columns of continuous attributes that had gaps in training, and the share
        of the rows.
    allow_missing : bool
        Whether a missing value is no error.
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
    target_name: str
    target_center: float
    target_scale: float
    indicators: tuple[tuple[int, int], ...] = ()
    gaps_modelled: tuple[int, ...] = ()
    gaps_split: tuple[int, ...] = ()
    missing_shares: tuple[tuple[int, float], ...] = ()
    allow_missing: bool = True

    @property
    def n_columns(self) -> int:
        """Number of encoded columns."""
        n_gaps = len(self.gaps_modelled) + len(self.gaps_split)
        return len(self.continuous) + len(self.indicators) + n_gaps

    @property
    def n_indicators(self) -> int:
        """Number of regressors, the last ones, that are indicators of any kind."""
        return len(self.indicators) + len(self.gaps_modelled)

    @property
    def input_columns(self) -> tuple[int, ...]:
        """Input column of every encoded column."""
        inserted = tuple(self.discrete[attribute] for attribute, _ in self.indicators)
        return self._in_order(
            self.continuous, inserted, self.gaps_modelled, self.gaps_split
        )

    @property
    def labels(self) -> tuple[str, ...]:
        """Name of every encoded column: of the attribute, the category or the gaps."""
        return self._in_order(
            [self.names[column] for column in self.continuous],
            [
                f"[{self.names[self.discrete[attribute]]} "
                + (f"= {value}]" if value is not None else "is missing]")
                for attribute, code in self.indicators
                for value in [self.categories[attribute][code]]
            ],
            [f"[{self.names[column]} is missing]" for column in self.gaps_modelled],
            [f"[{self.names[column]} is missing]" for column in self.gaps_split],
        )

    @property
    def gap_columns(self) -> tuple[tuple[int, int], ...]:
        """Encoded columns with gaps, each with the column of its indicator."""
        first = self.n_regressors - len(self.gaps_modelled)
        position = {column: i for i, column in enumerate(self.gaps_modelled, first)}
        first = self.n_columns - len(self.gaps_split)
        position |= {column: i for i, column in enumerate(self.gaps_split, first)}
        return tuple(
            (i, position[column])
            for i, column in zip(
                self._continuous_positions, self.continuous, strict=True
            )
            if column in position
        )

    def position_of(self, column: int) -> int:
        """Encoded column of a continuous attribute, by its input column."""
        return self._continuous_positions[self.continuous.index(column)]

    @property
    def _continuous_positions(self) -> list[int]:
        """Where the continuous attributes stand among the encoded columns."""
        n_plain = self.n_regressors - self.n_indicators
        n_split = len(self.continuous) - n_plain
        split = range(self.n_regressors, self.n_regressors + n_split)
        return [*range(n_plain), *split]

    def _in_order(
        self, continuous: Sequence, inserted: Sequence, modelled: Sequence, split
    ) -> tuple:
        """What belongs to the kinds of columns, in the order of the encoded ones."""
        first = self.n_regressors - self.n_indicators
        return (
            *continuous[:first],
            *inserted,
            *modelled,
            *continuous[first:],
            *split,
        )

    def encode(self, X: Any, used: np.ndarray | None = None) -> Table:
        """Encode rows for this schema.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_columns)
            DataFrame columns are found by name, in any order, if training saw names.
        used : ndarray of shape (n_rows,), bool, optional
            Rows to encode; by default all.

        Returns
        -------
        Table

        Raises
        ------
        ValueError
            If columns are missing or unknown, or values are not numbers (or missing,
            unless that is allowed).
        """
        columns = self._matching(read_columns(X))
        if used is not None:
            columns = [column[used] for column in columns]
        n_rows = len(columns[0])
        codes = np.empty((n_rows, len(self.discrete)), np.int32)
        for position, column in enumerate(self.discrete):
            codes[:, position] = _codes(
                columns[column],
                self.categories[position],
                self.names[column],
                self.allow_missing,
            )
        x = np.empty((n_rows, self.n_columns), np.float32)
        first = self.n_regressors - self.n_indicators
        for position, (attribute, code) in enumerate(self.indicators, first):
            x[:, position] = codes[:, attribute] == code
        indicator = dict(self.gap_columns)
        for position, column in zip(
            self._continuous_positions, self.continuous, strict=True
        ):
            values = _numbers(columns[column], self.names[column], self.allow_missing)
            # Far outside the training range numbers must saturate, not overflow.
            with np.errstate(over="ignore"):
                scaled = (values - self.center[position]) / self.scale[position]
            scaled = np.clip(scaled, -1e30, 1e30)
            missing = np.isnan(scaled)
            x[:, position] = np.where(missing, 0.0, scaled)
            if position in indicator:
                x[:, indicator[position]] = missing
        return Table(x, codes)

    def columns_of(self, X: Any) -> list[np.ndarray]:
        """The columns of a table in the order of ``names``, as they are."""
        return self._matching(read_columns(X))

    def scale_target(self, y: np.ndarray) -> np.ndarray:
        """Target in standardised units, float64."""
        return (y - self.target_center) / self.target_scale

    def restore_target(self, value: np.ndarray) -> np.ndarray:
        """Target from standardised units back to its own, float64."""
        return np.asarray(value, np.float64) * self.target_scale + self.target_center

    def _matching(self, columns: dict[str, np.ndarray] | list[np.ndarray]):
        if isinstance(columns, list) or not self.named:
            found = list(columns if isinstance(columns, list) else columns.values())
            if len(found) != len(self.names):
                raise ValueError(
                    f"X has {len(found)} features, but the tree was fitted with "
                    f"{len(self.names)} features: {_listed(self.names)}."
                )
            return found
        missing = [name for name in self.names if name not in columns]
        extra = [name for name in columns if name not in self.names]
        if missing or extra:
            problem = " and ".join(
                f"{what} {_listed(names)}"
                for what, names in (("lacks", missing), ("has the unknown", extra))
                if names
            )
            raise ValueError(
                f"X {problem}. The feature names should match those of the fit: "
                f"{_listed(self.names)}."
            )
        return [columns[name] for name in self.names]


def learn_schema(
    X: Any,
    y: np.ndarray,
    weight: np.ndarray,
    *,
    discrete_features: Sequence[Any] | None = None,
    split_features: Sequence[Any] | None = None,
    use_regressors: bool = True,
    indicators: bool | str = False,
    missing: str = "error",
    missing_regressors: bool | str = False,
    target_name: str = "y",
) -> TableSchema:
    """Decide roles, collect categories and measure scales.

    Parameters
    ----------
    X : array-like or DataFrame of shape (n_rows, n_columns)
        In a DataFrame text, boolean and categorical columns are discrete.
    y : ndarray of shape (n_rows,), float64
    weight : ndarray of shape (n_rows,), float64
        Rows of weight zero count for nothing.
    discrete_features, split_features : sequence of str or int, or bool mask, optional
        Columns, by name or position, that are discrete or split-only.
    use_regressors : bool
        False makes every continuous attribute split-only (constant leaves).
    indicators : bool or "auto"
        Whether the models see indicators of the categories; "auto": those of
        attributes with many rows a category.
    missing : {"learn", "mean", "error"}
        What a missing number is: the mean of its column with an indicator of the gap
        beside it, the mean alone, or an error. A missing category is a category or an
        error.
    missing_regressors : bool or "auto"
        With "learn": whether the models see the indicators of gaps; "auto": those of
        columns with many gaps and many values.
    target_name : str
        Used in messages and pictures.

    Returns
    -------
    TableSchema
    """
    found = read_columns(X)
    named = isinstance(found, dict)
    columns = list(found.values()) if isinstance(found, dict) else found
    names = tuple(found) if isinstance(found, dict) else _made_up(len(columns))
    used = weight > 0

    discrete = _positions(discrete_features, names, "discrete_features")
    split = _positions(split_features, names, "split_features")
    for both in sorted(discrete & split):
        raise ValueError(
            f"Column {names[both]!r} is named in both discrete_features and "
            "split_features; keep it in one of them."
        )
    roles = []
    for position, column in enumerate(columns):
        if position in discrete:
            roles.append(Role.DISCRETE)
        elif position in split:
            # Names the first value that is no number.
            _numbers(column, names[position], missing != "error")
            roles.append(Role.SPLIT)
        elif column.dtype == object or column.dtype == bool:
            _refuse_numbers_as_text(column, names[position])
            roles.append(Role.DISCRETE)
        elif not use_regressors:
            roles.append(Role.SPLIT)
        else:
            roles.append(Role.REGRESSOR)

    regressors = [i for i, role in enumerate(roles) if role is Role.REGRESSOR]
    splits = [i for i, role in enumerate(roles) if role is Role.SPLIT]
    continuous = regressors + splits
    moments, gaps_modelled, gaps_split, shares = [], [], [], []
    for i in continuous:
        values = _numbers(columns[i], names[i], missing != "error")[used]
        there = ~np.isnan(values)
        moments.append(
            _center_and_scale(
                values[there], weight[used][there], f"column {names[i]!r}"
            )
        )
        if not there.all():
            share = weight[used][~there].sum() / weight[used].sum()
            shares.append((i, float(share)))
        fewest = min(int(there.sum()), int((~there).sum()))
        if missing == "learn" and fewest >= _LEAST_GAPS:
            many = missing_regressors == "auto" and fewest >= _GAPS_PER_REGRESSOR
            modelled = roles[i] is Role.REGRESSOR and (
                many or missing_regressors is True
            )
            (gaps_modelled if modelled else gaps_split).append(i)
    discrete_columns = [i for i, role in enumerate(roles) if role is Role.DISCRETE]
    categories = [
        _categories(columns[i][used], names[i], missing != "error")
        for i in discrete_columns
    ]
    chosen = _indicators(categories, int(used.sum()), indicators)
    n_inserted = len(chosen) + len(gaps_modelled)
    moments[len(regressors) : len(regressors)] = [(0.0, 1.0)] * n_inserted
    moments += [(0.0, 1.0)] * len(gaps_split)
    target_center, target_scale = _center_and_scale(y[used], weight[used], "the target")
    return TableSchema(
        names=names,
        named=named,
        roles=tuple(roles),
        continuous=tuple(continuous),
        n_regressors=len(regressors) + n_inserted,
        center=np.array([center for center, _ in moments], np.float64),
        scale=np.array([scale for _, scale in moments], np.float64),
        discrete=tuple(discrete_columns),
        categories=tuple(categories),
        target_name=target_name,
        target_center=target_center,
        target_scale=target_scale,
        indicators=chosen,
        gaps_modelled=tuple(gaps_modelled),
        gaps_split=tuple(gaps_split),
        missing_shares=tuple(shares),
        allow_missing=missing != "error",
    )


def _indicators(
    categories: list[tuple[Any, ...]], n_rows: int, wanted: bool | str
) -> tuple[tuple[int, int], ...]:
    """Attribute and code of the categories that the models see."""
    chosen = []
    for attribute, values in enumerate(categories):
        frequent = n_rows >= _ROWS_PER_INDICATOR * len(values)
        if len(values) > 1 and (wanted is True or (wanted == "auto" and frequent)):
            # Of two categories one says it all.
            codes = range(1 if len(values) == 2 else 0, len(values))
            chosen += [(attribute, code) for code in codes]
    return tuple(chosen)


def read_columns(X: Any) -> dict[str, np.ndarray] | list[np.ndarray]:
    """Columns of a table: a dict for a DataFrame with names, a list otherwise.

    Numeric columns come back as float64, all others as bool or object.
    """
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    if isinstance(frame, nw.DataFrame):
        names = frame.columns
        if all(isinstance(name, str) for name in names):
            return {name: _series_values(frame[name], name) for name in names}
        # scikit-learn's habit: names that are no strings are no names.
        columns = [column.to_numpy() for column in frame.iter_columns()]
        return _array_columns(_side_by_side(columns))
    try:
        array = np.asarray(X)
    except ValueError:
        raise ValueError(NO_TABLE) from None
    return _array_columns(array)


def read_target(y: Any) -> np.ndarray:
    """A target as float64; an error if it holds anything but real numbers."""
    try:
        values = np.asarray(y)
        if np.iscomplexobj(values):
            raise ValueError("Complex data not supported")
        if values.dtype.kind in "mM":
            raise ValueError(f"dates or times ({values.dtype}) are none")
        return np.asarray(values, np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"The target y must hold numbers: {error}.") from None


def _side_by_side(columns: list[np.ndarray]) -> np.ndarray:
    if all(column.dtype.kind in "fiub" for column in columns):
        return np.stack(columns, axis=1)
    table = np.empty((len(columns[0]), len(columns)), object)
    for position, column in enumerate(columns):
        table[:, position] = column
    return table


def _array_columns(array: np.ndarray) -> list[np.ndarray]:
    if array.ndim != 2:
        raise ValueError(
            f"Expected 2D array, got {array.ndim}D array instead. Reshape your data "
            "with array.reshape(-1, 1) if it has a single feature, or "
            "array.reshape(1, -1) if it is a single sample."
        )
    if np.iscomplexobj(array):
        raise ValueError("Complex data not supported: X holds complex numbers.")
    if array.dtype.kind in "mM":
        raise ValueError(
            f"X holds dates or times ({array.dtype}). Turn them into numbers (for "
            "example days since a start) or into text."
        )
    if array.dtype.kind in "fiub":
        return list(np.asarray(array, np.float64).T)
    return [_object_column(column) for column in np.asarray(array, object).T]


def _series_values(series: nw.Series, name: str) -> np.ndarray:
    dtype = series.dtype
    if dtype == nw.Boolean:
        values = series.to_numpy()
        return values if values.dtype == bool else np.asarray(values, object)
    if dtype.is_numeric():
        values = series.to_numpy()
        if values.dtype == object:  # nullable integers and decimals
            values = [np.nan if _is_missing(value) else value for value in values]
        return np.asarray(values, np.float64)
    if dtype in (nw.Categorical, nw.Enum):
        # Declared categories stay categories, even if they are numbers.
        return np.asarray(series.to_numpy(), object)
    if dtype.is_temporal():
        raise ValueError(
            f"Column {name!r} holds dates or times ({dtype}). Turn it into a number "
            "(for example days since a start) or into text before fitting."
        )
    return _object_column(np.asarray(series.to_numpy(), object))


def _object_column(column: np.ndarray) -> np.ndarray:
    """An object column: as numbers if nothing in it is text."""
    if any(isinstance(value, str | bytes) for value in column):
        return column
    try:
        values = [np.nan if _is_missing(value) else value for value in column]
        numbers = np.array([_real(value) for value in values], np.float64)
    except (TypeError, ValueError):
        return column
    return numbers if numbers.ndim == 1 else column  # not where cells are lists


def _real(value: Any) -> Any:
    """The value, or infinity for a whole number that no float can hold."""
    if isinstance(value, int) and not -(2**1023) < value < 2**1023:
        return np.inf if value > 0 else -np.inf
    return value


def _is_missing(value: Any) -> bool:
    if value is None:
        return True
    try:
        return bool(value != value)
    except TypeError:  # pandas.NA is neither equal to itself nor not
        return True
    except ValueError:  # an array, which is refused where its column has a name
        return False


def _made_up(n_columns: int) -> tuple[str, ...]:
    return tuple(f"x{i}" for i in range(n_columns))


def _listed(names: Sequence[str], most: int = 8) -> str:
    shown = ", ".join(repr(name) for name in names[:most])
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")


def _positions(chosen: Any, names: tuple[str, ...], argument: str) -> set[int]:
    if chosen is None:
        return set()
    scalar = isinstance(chosen, np.ndarray) and chosen.ndim == 0
    if scalar or isinstance(chosen, str) or not isinstance(chosen, Iterable):
        chosen = [chosen]
    chosen = list(chosen)
    if len(chosen) and all(isinstance(c, bool | np.bool_) for c in chosen):
        if len(chosen) != len(names):
            raise ValueError(
                f"{argument} is a mask of length {len(chosen)}, but X has "
                f"{len(names)} columns."
            )
        return {i for i, c in enumerate(chosen) if c}
    positions = set()
    for choice in chosen:
        if isinstance(choice, str) and choice in names:
            positions.add(names.index(choice))
        elif isinstance(choice, int | np.integer) and 0 <= choice < len(names):
            positions.add(int(choice))
        else:
            raise ValueError(
                f"{argument} names the unknown column {choice!r}. "
                f"The columns of X are {_listed(names)}."
            )
    return positions


def _numbers(column: np.ndarray, name: str, allow_missing: bool = False) -> np.ndarray:
    """A column as float64, or an error that names the first bad value.

    Missing values become NaN if they are allowed.
    """
    if column.dtype == object:
        column = np.array(
            [np.nan if _is_missing(value) else value for value in column], object
        )
        _refuse_odd_cells(column, name)
        for row, value in enumerate(column):
            try:
                float(_real(value))
            except (TypeError, ValueError):
                raise ValueError(
                    f"Column {name!r} is continuous, but row {row} holds {value!r}, "
                    "which is no number. Mend the value, or name the column in "
                    "discrete_features."
                ) from None
    numbers = np.asarray(column, np.float64)
    good = ~np.isinf(numbers) if allow_missing else np.isfinite(numbers)
    if not good.all():
        row = int(np.argmin(good))
        if np.isnan(numbers[row]):
            raise ValueError(
                f"Input X contains NaN: column {name!r}, row {row}. Drop the row, "
                "fill the value in (for example with sklearn.impute.SimpleImputer), or "
                "set missing_values='learn'."
            )
        raise ValueError(
            f"Input X contains infinity: column {name!r}, row {row}. Drop the row, or "
            "put a number or a missing value in its place."
        )
    return numbers


def _refuse_numbers_as_text(column: np.ndarray, name: str) -> None:
    """A text column that is mostly numbers is a damaged numeric one, not discrete."""
    if column.dtype == bool:
        return
    _refuse_odd_cells(column, name)
    good, bad = 0, None
    for row, value in enumerate(column):
        if _is_missing(value):  # has a message of its own
            continue
        try:
            float(_real(value))
            good += 1
        except (TypeError, ValueError):
            bad = (row, value) if bad is None else bad
    if good > len(column) / 2 and bad is not None:
        raise ValueError(
            f"Column {name!r} holds text in row {bad[0]} ({bad[1]!r}), but {good} of "
            f"its {len(column)} values are numbers. Mend the text, or name the column "
            "in discrete_features if it is meant to be discrete."
        )


def _refuse_odd_cells(column: np.ndarray, name: str) -> None:
    """Lists, dates and the like in cells are neither numbers nor categories."""
    values = column.tolist()
    odd = [kind for kind in set(map(type, values)) if _is_odd(kind)]
    for row, value in enumerate(values if odd else []):
        if isinstance(value, tuple(odd)) and not _is_missing(value):
            raise ValueError(
                f"Column {name!r} holds a {type(value).__name__} in row {row}: a cell "
                "must hold a number, text, a boolean or nothing. Turn dates into "
                "numbers or text, and spread lists over columns of their own."
            )


def _is_odd(kind: type) -> bool:
    temporal = datetime.date | datetime.time | datetime.timedelta
    return kind.__hash__ is None or issubclass(
        kind, temporal | np.datetime64 | np.timedelta64 | tuple
    )


def _center_and_scale(
    values: np.ndarray, weight: np.ndarray, what: str
) -> tuple[float, float]:
    """Weighted mean and standard deviation, the latter 1 for a constant."""
    if not len(values):  # all values of a column are missing
        return 0.0, 1.0
    if values.max() == values.min():
        return float(values[0]), 1.0
    share = weight / weight.sum()
    with np.errstate(over="ignore", invalid="ignore"):
        # Two passes, the second about the mean: no cancellation for large offsets.
        center = float(values[0] + np.sum(share * (values - values[0])))
        scale = float(np.sqrt(np.sum(share * (values - center) ** 2)))
    if not np.isfinite(scale):
        largest = float(np.abs(values).max())
        raise ValueError(
            f"The values of {what} are too large ({largest:.3g}) for their variance "
            "to be a number. Rescale them."
        )
    return center, scale if scale > 0 else 1.0


def _categories(column: np.ndarray, name: str, allow_missing: bool) -> tuple[Any, ...]:
    """Sorted categories; None, for missing values, is the last."""
    distinct = set(_plain_values(column, name, allow_missing))
    if len(distinct) > _MOST_CATEGORIES:
        raise ValueError(
            f"Column {name!r} has {len(distinct)} different categories, more than "
            f"{_MOST_CATEGORIES}. Group the rare ones, or leave the column out if it "
            "only names the rows."
        )
    missing = (None,) if None in distinct else ()
    distinct -= {None}
    try:
        return (*sorted(distinct), *missing)
    except TypeError:  # mixed types have no order of their own
        return (
            *sorted(distinct, key=lambda value: (str(type(value)), str(value))),
            *missing,
        )


def _plain_values(column: np.ndarray, name: str, allow_missing: bool) -> list[Any]:
    """The values of a discrete column, None where they are missing."""
    if column.dtype == object:
        _refuse_odd_cells(column, name)
    values = column.tolist()
    for row, value in enumerate(values):
        if _is_missing(value):
            if not allow_missing:
                raise ValueError(
                    f"Input X contains NaN: discrete column {name!r}, row {row}. Fill "
                    "it in with a category of its own, for example 'missing', or set "
                    "missing_values='learn'."
                )
            values[row] = None
    return values


def _codes(
    column: np.ndarray, categories: tuple[Any, ...], name: str, allow_missing: bool
) -> np.ndarray:
    position = {category: code for code, category in enumerate(categories)}
    values = _plain_values(column, name, allow_missing)
    codes = np.array([position.get(value, -1) for value in values], np.int32)
    unseen = {values[row] for row in np.flatnonzero(codes < 0)} - {None}
    if unseen:
        listed = _listed(sorted(map(str, unseen)))
        warnings.warn(
            f"Column {name!r} holds categories that training never saw: {listed}. "
            f"Their rows go to the larger child at each split on {name!r}.",
            UnseenCategoryWarning,
            stacklevel=2,
        )
    return codes
