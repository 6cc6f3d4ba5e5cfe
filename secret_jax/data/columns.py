"""Columns of a table as they are given, and taken as numbers or as categories.

Arrays, or DataFrames by narwhals. Numbers keep their type: a block of rows becomes
float64 only while it is looked at.
"""

import datetime
import re
from collections.abc import Iterable, Mapping
from typing import Any, Self, TypeAlias

import narwhals as nw
import numpy as np

from secret_jax.runtime.environment import warn

# Columns that were the index of a DataFrame, as pandas hands them to Arrow.
_INDEX = re.compile(r"__index_level_\d+__")


# Columns by name, or in order where they have none; see `read_columns`.
ReadTable: TypeAlias = dict[str, np.ndarray] | list[np.ndarray]


class Described(np.ndarray):
    """Array with what its values do not say, which its parts keep.

    ``levels``: of ordered categories (objects), from least to greatest; ``zone``: in
    which instants (datetime64[s], at Greenwich) were given.
    """

    levels: tuple[str, ...] = ()
    zone: str | None = None

    def __new__(cls, values: np.ndarray, **facts: Any) -> Self:
        found = values.view(cls)
        vars(found).update(facts)
        return found

    def __array_finalize__(self, other: Any) -> None:
        self.levels = getattr(other, "levels", ())
        self.zone = getattr(other, "zone", None)


def read_columns(X: Any) -> ReadTable:
    """Read the columns of a table: a dict for a DataFrame with names, else a list.

    Numeric columns come back as they are, dates as datetime64, times of day as
    timedelta64 since midnight, dates of a time zone and ordered categories as
    `Described`, all others as bool or object: among them those of a type for text that
    hold nothing. Numbers of more than 64 bits become float64.
    """
    frame = as_frame(X)
    if frame is not None:
        names = frame.columns
        read = map(_series_values, frame.iter_columns(), map(str, names))
        if all(isinstance(name, str) for name in names):
            return dict(zip(names, read, strict=True))
        return list(read)  # scikit-learn's habit: such names are none
    array = as_array(X)
    refuse_other_shapes(array)
    refuse_complex(array, "X")
    if array.dtype.kind == "m":
        raise ValueError(
            f"X holds times ({array.dtype}). Turn them into numbers, for example of "
            "seconds."
        )
    if array.dtype.kind in "Mfiub":
        array = _at_most_64(array)
        return list(array.T if array.dtype != bool else array.T.astype(np.float64))
    return [_object_column(column) for column in np.asarray(array, object).T]


def as_array(X: Any) -> np.ndarray:
    """Convert rows to an array, in which the cells of a list keep their types."""
    try:
        array = np.asarray(X)
    except ValueError:
        raise ValueError(
            "X is no table of shape (n_rows, n_columns): its rows differ in length, or "
            "its cells hold lists."
        ) from None
    # Beside text NumPy makes text of numbers, of truth values and of what is missing.
    made_text = isinstance(X, list | tuple) and array.dtype.kind in "US"
    return np.array(X, object) if made_text else array


def refuse_other_shapes(array: Any) -> None:
    """Refuse an array that is no table, as scikit-learn does."""
    if array.ndim != 2:
        raise ValueError(
            f"Expected 2D array, got {array.ndim}D array instead. Reshape your data "
            "with array.reshape(-1, 1) if it has a single feature, or "
            "array.reshape(1, -1) if it is a single sample."
        )


def refuse_complex(array: Any, name: str) -> None:
    """Refuse complex numbers; scikit-learn's own message would print them all."""
    if np.iscomplexobj(np.asarray(array)):
        raise ValueError(
            f"Complex data not supported: {name} holds complex numbers. Give real and "
            "imaginary parts apart."
        )


def refuse_none(y: Any, caller: str) -> None:
    if y is None:
        raise ValueError(
            f"This {caller} estimator requires y to be passed, but the target y is "
            "None."
        )


def read_target(y: Any) -> np.ndarray:
    """Convert a target to float64; raise an error unless it holds real numbers."""
    try:
        values = np.asarray(y)
        refuse_complex(values, "y")
        if values.dtype.kind in "mM":
            raise ValueError(f"dates or times ({values.dtype}) are none")
        return np.asarray(values, np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(
            f"The target y must hold numbers: {error}. For classes: SecretClassifier."
        ) from None


def as_frame(X: Any) -> nw.DataFrame[Any] | None:
    """Wrap a table as a narwhals DataFrame; None if it is not a DataFrame."""
    if isinstance(X, np.ndarray):  # spares narwhals's long list of questions
        return None
    frame = nw.from_native(X, pass_through=True)
    if isinstance(frame, nw.LazyFrame):
        raise TypeError(
            f"X is a table whose rows are not read yet ({type(X).__name__}). Read "
            "them first: of polars X.collect(), of DuckDB X.df()."
        )
    return frame if isinstance(frame, nw.DataFrame) else None


def is_index(name: object) -> bool:
    """Whether the name is that of a former pandas index."""
    return isinstance(name, str) and _INDEX.fullmatch(name) is not None


def _series_values(series: nw.Series, name: str) -> np.ndarray:
    dtype = series.dtype
    if isinstance(dtype, nw.Enum | nw.Categorical):
        # They stay categories, even if they are numbers.
        values, levels = _categories(series)
        in_order = levels and all(isinstance(level, str) for level in levels)
        return Described(values, levels=levels) if in_order else values
    zone = getattr(dtype, "time_zone", None)
    if zone is not None:
        series = series.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
    if dtype in (nw.Datetime, nw.Date):
        values = np.asarray(series.to_numpy(), "datetime64[s]")
        return values if zone is None else Described(values, zone=str(zone))
    if dtype == nw.Time:
        return _object_column(np.array(series.to_list(), object))
    if dtype.is_temporal():
        raise ValueError(
            f"Column {name!r} holds times ({dtype}). Turn it into a number (for "
            "example of hours) or into text before fitting."
        )
    values = series.to_numpy()
    if dtype.is_numeric():  # nullable integers and decimals are objects
        return without_gaps(values) if values.dtype == object else _at_most_64(values)
    if values.dtype == bool:
        return values
    refuse_complex(values, f"column {name!r}")
    values = np.asarray(values, object)
    nothing = all(map(is_missing, values))
    return np.full(len(values), None, object) if nothing else _object_column(values)


def _categories(series: nw.Series) -> tuple[np.ndarray, tuple[Any, ...] | None]:
    """Values, and categories from least to greatest; None where they have no order."""
    native, dtype = series.to_native(), series.dtype
    if not hasattr(getattr(native, "type", None), "ordered"):
        levels = tuple(dtype.categories) if isinstance(dtype, nw.Enum) else None
        return np.asarray(series.to_numpy(), object), levels
    # Of Arrow, whose own conversion takes missing values for the last category.
    whole = native.unify_dictionaries().combine_chunks()
    known, places = whole.dictionary.to_pylist(), whole.indices.cast("int64")
    values = np.array([*known, None], object)[places.fill_null(-1).to_numpy()]
    return values, tuple(known) if native.type.ordered else None


def _object_column(column: np.ndarray) -> np.ndarray:
    """Convert objects to numbers or dates, unless some are others or booleans."""
    if any(isinstance(value, str | bytes) for value in column):
        return column
    # A period of pandas is the date on which it starts.
    starts = [getattr(value, "start_time", value) for value in column]
    there = [value for value in starts if not is_missing(value)]
    if there and all(isinstance(v, datetime.date | np.datetime64) for v in there):
        return _dates(starts, [getattr(value, "tzinfo", None) for value in there])
    if there and all(isinstance(value, datetime.time) for value in there):
        return np.array([*map(_since_midnight, starts)], "timedelta64[s]")
    if there and all(isinstance(value, bool | np.bool_) for value in there):
        return column
    if not there and not all(isinstance(value, float) for value in column):
        return column
    try:
        found = without_gaps(column)
    except (TypeError, ValueError):
        return column
    return found if found.ndim == 1 else column  # not where cells are lists


def _at_most_64(values: np.ndarray) -> np.ndarray:
    """Convert numbers of more than 64 bits to float64."""
    is_long = values.dtype.kind == "f" and values.dtype.itemsize > 8
    return values.astype(np.float64) if is_long else values


def _since_midnight(value: Any) -> np.timedelta64:
    if is_missing(value):
        return np.timedelta64("NaT")
    return np.timedelta64(3600 * value.hour + 60 * value.minute + value.second, "s")


def without_gaps(column: Iterable[Any]) -> np.ndarray:
    """Convert objects to float64, missing ones to NaN."""
    values = (np.nan if is_missing(value) else real(value) for value in column)
    return np.array([*values], np.float64)


def _dates(values: list[Any], zones: list[datetime.tzinfo | None]) -> np.ndarray:
    """Convert dates to datetime64[s]; ``zones``: those of the dates that are there."""
    if any(zones) and not all(zones):
        raise ValueError(
            "A column holds times with a time zone and times without one. Give all of "
            "them a zone, or none, for example with pandas.to_datetime(..., utc=True)."
        )

    def date(value: Any) -> np.datetime64:
        if is_missing(value):
            return np.datetime64("NaT")
        if any(zones):
            value = value.astimezone(datetime.UTC).replace(tzinfo=None)
        return np.datetime64(value, "s")

    found = np.array([date(value) for value in values], "datetime64[s]")
    if not any(zones):
        return found
    # The clocks of several zones are those of none of them.
    names = {str(zone) for zone in zones}
    return Described(found, zone=names.pop() if len(names) == 1 else "UTC")


def real(value: Any) -> Any:
    """Replace an integer too large for float64 by infinity of its sign."""
    if isinstance(value, int) and not -(2**1023) < value < 2**1023:
        return np.inf if value > 0 else -np.inf
    return value


def is_missing(value: Any) -> bool:
    if value is None:
        return True
    try:
        return bool(value != value)
    except TypeError:  # pandas.NA is neither equal to itself nor not
        return True
    except ValueError:  # an array, which is refused where its column has a name
        return False


def listed(names: Iterable[Any], most: int = 8) -> str:
    """List the first of several names, and how many more there are."""
    texts = [repr(str(name)) for name in names]
    more = f" and {len(texts) - most} more" if len(texts) > most else ""
    return ", ".join(texts[:most]) + more


class UnseenCategoryWarning(UserWarning):
    """Warning that a row holds a category, or a gap, absent from training."""


def _refuse_odd_cells(column: np.ndarray, name: str) -> None:
    """Refuse cells that are neither numbers nor categories (lists, dates)."""
    temporal = (datetime.date, datetime.time, datetime.timedelta)
    others = (*temporal, np.datetime64, np.timedelta64, tuple)
    values = column.tolist()
    kinds = set(map(type, values))
    odd = {k for k in kinds if k.__hash__ is None or issubclass(k, others)}
    for row, value in enumerate(values if odd else []):
        if type(value) in odd and not is_missing(value):
            raise ValueError(
                f"Column {name!r} holds a {type(value).__name__} in row {row}: a cell "
                "must hold a number, text, a boolean or nothing. Make a column "
                "nothing but dates or none, and spread lists over columns of their own."
            )


def factorised(
    column: np.ndarray, name: str, allow_missing: bool
) -> tuple[list[Any], np.ndarray]:
    """Distinct values of a discrete column, and the position of each row's value.

    Missing values of all kinds are one None. Numbers are float64, so that a category is
    the same in every type.
    """
    if column.dtype.kind in "fiu":
        distinct, codes = np.unique(column.astype(np.float64), return_inverse=True)
        distinct = distinct.tolist()
    else:
        if column.dtype == object:
            _refuse_odd_cells(column, name)
        place: dict[Any, int] = {}
        codes = np.array(
            [place.setdefault(value, len(place)) for value in column.tolist()], np.intp
        )
        distinct = list(place)
    missing = np.array([is_missing(value) for value in distinct], bool)
    if missing.any():
        if not allow_missing:
            raise ValueError(
                f"Input X contains NaN: discrete column {name!r}, row "
                f"{int(missing[codes].argmax())}. Fill it in with a category of its "
                "own, for example 'missing', or set missing_values='learn'."
            )
        there = [v for v, absent in zip(distinct, missing, strict=True) if not absent]
        new = np.where(missing, len(there), np.cumsum(~missing) - 1)
        distinct, codes = [*there, None], new[codes]
    return distinct, codes


def sorted_categories(values: Iterable[Any]) -> tuple[Any, ...]:
    """Sort the categories of a column; None, for missing values, comes last."""
    distinct = set(values)
    missing = distinct & {None}
    try:
        return (*sorted(distinct - missing), *missing)
    except TypeError:  # mixed types have no order of their own
        by_type = sorted(distinct - missing, key=lambda v: (str(type(v)), str(v)))
        return (*by_type, *missing)


def warn_of_unseen(unseen: Mapping[str, set[Any]]) -> None:
    """Warn once of all columns with categories absent from training."""
    if not unseen:
        return

    held = []
    for name, values in unseen.items():
        found = sorted(str(value) for value in values - {None})
        gaps = ["missing values"] if None in values else []
        told = " and ".join([listed(found), *gaps] if found else gaps)
        held.append(f"column {name!r} holds {told}")
    warn(
        f"There are categories that training never saw: {'; '.join(held)}. Their rows "
        "go to the larger child at a split on the column; equations and sums count "
        "them as the mean of the known categories.",
        UnseenCategoryWarning,
    )


def numbers(column: np.ndarray, name: str, allow_missing: bool = False) -> np.ndarray:
    """Convert a column to float64; raise an error that names the first bad value.

    Missing values become NaN if they are allowed.
    """
    if column.dtype == object:
        row, _ = _first_text(column, name)
        if row is not None:
            raise ValueError(
                f"Column {name!r} is continuous, but row {row} holds {column[row]!r}, "
                "which is no number. Mend the value, or name the column in "
                "categorical_features."
            )
        column = without_gaps(column)
    values = np.asarray(column, np.float64)
    good = ~np.isinf(values) if allow_missing else np.isfinite(values)
    if not good.all():
        row = int(np.argmin(good))
        if np.isnan(values[row]):
            raise ValueError(
                f"Input X contains NaN: column {name!r}, row {row}. Drop the row, "
                "fill the value in (for example with sklearn.impute.SimpleImputer), or "
                "set missing_values='learn'."
            )
        raise ValueError(
            f"Input X contains infinity: column {name!r}, row {row}. Drop the row, or "
            "put a number or a missing value in its place."
        )
    return values


def refuse_numbers_as_text(column: np.ndarray, name: str) -> None:
    """Refuse a text column that is mostly numbers: a damaged numeric column."""
    row, n_numbers = _first_text(column, name) if column.dtype != bool else (None, 0)
    if row is not None and n_numbers > len(column) / 2:
        raise ValueError(
            f"Column {name!r} holds text in row {row} ({column[row]!r}), but "
            f"{n_numbers} of its {len(column)} values are numbers. Mend the text, or "
            "name the column in categorical_features if it is meant to be discrete."
        )


def _first_text(column: np.ndarray, name: str) -> tuple[int | None, int]:
    """First row with neither a number nor nothing, and how many rows have numbers."""

    def is_number(value: Any) -> bool:
        try:
            float(real(value))
            return True
        except (TypeError, ValueError):
            return False

    distinct, codes = factorised(column, name, allow_missing=True)
    known = np.array([is_number(value) for value in distinct], bool)[codes]
    missing = np.array([value is None for value in distinct], bool)[codes]
    rows = np.flatnonzero(~(known | missing))
    return int(rows[0]) if len(rows) else None, int(known.sum())
