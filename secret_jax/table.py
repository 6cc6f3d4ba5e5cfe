"""Tables in, arrays out: attribute roles, category codes, standardising, input errors.

Section 2 of Dobra & Gehrke 2002 knows three roles of a predictor attribute: *discrete*
(only split on), *split-only* continuous, and *regressor* (split on and in the models).
The schema that is learned here, once, travels with the fitted tree.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np

# More would take gigabytes in the search, and say nothing.
_MOST_CATEGORIES = 4096
# With fewer rows a category its coefficient would be mostly noise.
_ROWS_PER_INDICATOR = 30


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
        The regressors (standardised continuous attributes, then indicators of
        categories), then the standardised split-only attributes.
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
        ``x_encoded = (x - center) / scale``; 0 and 1 for indicators.
    discrete : tuple of int
        Input columns of the encoded discrete attributes.
    categories : tuple of tuple
        Sorted categories of each discrete attribute; a code is a position in them.
    target_name : str
    target_center, target_scale : float
    indicators : tuple of (int, int)
        Attribute (a position in ``discrete``) and code of each indicator column.
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

    @property
    def n_columns(self) -> int:
        """Number of encoded columns."""
        return len(self.continuous) + len(self.indicators)

    @property
    def input_columns(self) -> tuple[int, ...]:
        """Input column of every encoded column."""
        first = self.n_regressors - len(self.indicators)
        inserted = tuple(self.discrete[attribute] for attribute, _ in self.indicators)
        return self.continuous[:first] + inserted + self.continuous[first:]

    @property
    def labels(self) -> tuple[str, ...]:
        """Name of every encoded column: of the attribute, or of the category."""
        first = self.n_regressors - len(self.indicators)
        names = tuple(self.names[column] for column in self.continuous)
        inserted = tuple(
            f"[{self.names[self.discrete[attribute]]} = "
            f"{self.categories[attribute][code]}]"
            for attribute, code in self.indicators
        )
        return names[:first] + inserted + names[first:]

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
            If columns are missing or unknown, or values are missing or not numbers.
        """
        columns = self._matching(read_columns(X))
        if used is not None:
            columns = [column[used] for column in columns]
        n_rows = len(columns[0])
        codes = np.empty((n_rows, len(self.discrete)), np.int32)
        for position, column in enumerate(self.discrete):
            codes[:, position] = _codes(
                columns[column], self.categories[position], self.names[column]
            )
        x = np.empty((n_rows, self.n_columns), np.float32)
        first = self.n_regressors - len(self.indicators)
        for position, (attribute, code) in enumerate(self.indicators, first):
            x[:, position] = codes[:, attribute] == code
        for i, column in enumerate(self.continuous):
            position = i if i < first else i + len(self.indicators)
            values = _numbers(columns[column], self.names[column])
            scaled = (values - self.center[position]) / self.scale[position]
            # Far outside the training range float32 must saturate, not overflow.
            x[:, position] = np.clip(scaled, -1e30, 1e30)
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
            _numbers(column, names[position])  # names the first value that is none
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
    moments = [
        _center_and_scale(
            _numbers(columns[i], names[i])[used], weight[used], f"column {names[i]!r}"
        )
        for i in continuous
    ]
    discrete_columns = [i for i, role in enumerate(roles) if role is Role.DISCRETE]
    categories = [_categories(columns[i][used], names[i]) for i in discrete_columns]
    chosen = _indicators(categories, int(used.sum()), indicators)
    moments[len(regressors) : len(regressors)] = [(0.0, 1.0)] * len(chosen)
    target_center, target_scale = _center_and_scale(y[used], weight[used], "the target")
    return TableSchema(
        names=names,
        named=named,
        roles=tuple(roles),
        continuous=tuple(continuous),
        n_regressors=len(regressors) + len(chosen),
        center=np.array([center for center, _ in moments], np.float64),
        scale=np.array([scale for _, scale in moments], np.float64),
        discrete=tuple(discrete_columns),
        categories=tuple(categories),
        target_name=target_name,
        target_center=target_center,
        target_scale=target_scale,
        indicators=chosen,
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
        return _array_columns(frame.to_numpy())
    return _array_columns(np.asarray(X))


def _array_columns(array: np.ndarray) -> list[np.ndarray]:
    if array.ndim != 2:
        raise ValueError(
            f"Expected 2D array, got {array.ndim}D array instead. Reshape your data "
            "with array.reshape(-1, 1) if it has a single feature, or "
            "array.reshape(1, -1) if it is a single sample."
        )
    if np.iscomplexobj(array):
        raise ValueError("Complex data not supported: X holds complex numbers.")
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
            values = [np.nan if value is None else value for value in values]
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
        numbers = [np.nan if _is_missing(value) else value for value in column]
        return np.asarray(numbers, np.float64)
    except (TypeError, ValueError):
        return column


def _is_missing(value: Any) -> bool:
    if value is None:
        return True
    try:
        return bool(value != value)
    except TypeError:  # pandas.NA is neither equal to itself nor not
        return True


def _made_up(n_columns: int) -> tuple[str, ...]:
    return tuple(f"x{i}" for i in range(n_columns))


def _listed(names: Sequence[str], most: int = 8) -> str:
    shown = ", ".join(repr(name) for name in names[:most])
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")


def _positions(chosen: Any, names: tuple[str, ...], argument: str) -> set[int]:
    if chosen is None:
        return set()
    if isinstance(chosen, str) or not isinstance(chosen, Iterable):
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


def _numbers(column: np.ndarray, name: str) -> np.ndarray:
    """A column as finite float64, or an error that names the first bad value."""
    if column.dtype == object:
        for row, value in enumerate(column):
            try:
                float(value)
            except (TypeError, ValueError):
                raise ValueError(
                    f"Column {name!r} is continuous, but row {row} holds {value!r}, "
                    "which is no number. Mend the value, or name the column in "
                    "discrete_features."
                ) from None
    numbers = np.asarray(column, np.float64)
    finite = np.isfinite(numbers)
    if not finite.all():
        row = int(np.argmin(finite))
        kind = "NaN" if np.isnan(numbers[row]) else "infinity"
        raise ValueError(
            f"Input X contains {kind}: column {name!r}, row {row}. Drop the row or "
            "fill the value in (for example with sklearn.impute.SimpleImputer)."
        )
    return numbers


def _refuse_numbers_as_text(column: np.ndarray, name: str) -> None:
    """A text column that is mostly numbers is a damaged numeric one, not discrete."""
    if column.dtype == bool:
        return
    good, bad = 0, None
    for row, value in enumerate(column):
        if _is_missing(value):  # has a message of its own
            continue
        try:
            float(value)
            good += 1
        except (TypeError, ValueError):
            bad = (row, value) if bad is None else bad
    if good > len(column) / 2 and bad is not None:
        raise ValueError(
            f"Column {name!r} holds text in row {bad[0]} ({bad[1]!r}), but {good} of "
            f"its {len(column)} values are numbers. Mend the text, or name the column "
            "in discrete_features if it is meant to be discrete."
        )


def _center_and_scale(
    values: np.ndarray, weight: np.ndarray, what: str
) -> tuple[float, float]:
    """Weighted mean and standard deviation, the latter 1 for a constant."""
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


def _categories(column: np.ndarray, name: str) -> tuple[Any, ...]:
    _refuse_missing(column, name)
    distinct = set(column.tolist())
    if len(distinct) > _MOST_CATEGORIES:
        raise ValueError(
            f"Column {name!r} has {len(distinct)} different categories, more than "
            f"{_MOST_CATEGORIES}. Group the rare ones, or leave the column out if it "
            "only names the rows."
        )
    try:
        return tuple(sorted(distinct))
    except TypeError:  # mixed types have no order of their own
        return tuple(sorted(distinct, key=lambda value: (str(type(value)), str(value))))


def _refuse_missing(column: np.ndarray, name: str) -> None:
    for row, value in enumerate(column.tolist()):
        if _is_missing(value):
            raise ValueError(
                f"Input X contains NaN: discrete column {name!r}, row {row}. Fill it "
                "in with a category of its own, for example 'missing'."
            )


def _codes(column: np.ndarray, categories: tuple[Any, ...], name: str) -> np.ndarray:
    _refuse_missing(column, name)
    position = {category: code for code, category in enumerate(categories)}
    values = column.tolist()
    codes = np.array([position.get(value, -1) for value in values], np.int32)
    if (codes < 0).any():
        unseen = sorted({str(values[row]) for row in np.flatnonzero(codes < 0)})
        warnings.warn(
            f"Column {name!r} holds categories that training never saw: "
            f"{_listed(unseen)}. Their rows go to the larger child at each split on "
            f"{name!r}.",
            UnseenCategoryWarning,
            stacklevel=2,
        )
    return codes
