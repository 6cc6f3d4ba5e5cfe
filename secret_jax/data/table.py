"""Tables in, arrays out: attribute roles, category codes, standardising, input errors.

Section 2 of Dobra & Gehrke 2002 knows three roles of a predictor attribute: *discrete*
(only split on), *split-only* continuous, and *regressor* (split on and in the models).
The schema that is learned here, once, travels with the fitted tree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

import numpy as np

from secret_jax.data import device as device_rows
from secret_jax.data.columns import (
    categories_of,
    codes_of,
    listed,
    made_up_names,
    numbers,
    positions,
    read_columns,
    refuse_numbers_as_text,
)
from secret_jax.data.rows import in_blocks
from secret_jax.data.scaling import column_moments, row_block

# With fewer rows a category its coefficient would be mostly noise.
_ROWS_PER_INDICATOR = 30
# With fewer gaps, or fewer values, a column's gaps say nothing that could be learned.
_LEAST_GAPS = 5
_GAPS_PER_REGRESSOR = 30
# Encoded values saturate here.
_FAR = 1e30


class Role(StrEnum):
    """What an attribute may be used for."""

    REGRESSOR = "regressor"
    SPLIT = "split"
    DISCRETE = "discrete"


class Table(NamedTuple):
    """Encoded rows.

    Attributes
    ----------
    x : ndarray or jax.Array of shape (n_rows, n_columns), float32
        The regressors (standardised continuous attributes, indicators of categories,
        indicators of gaps), then what is only split on (standardised attributes,
        indicators of gaps). A missing value is 0, the mean of the column in training.
        On a device only if the rows were given there.
    codes : ndarray of shape (n_rows, n_discrete), int32
        Category codes; -1 for a category that training never saw.
    """

    x: Any
    codes: np.ndarray

    def on_host(self) -> Table:
        """The same rows in the memory of the host."""
        return Table(np.asarray(self.x), self.codes)


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
        if device_rows.is_resident(X):
            if self._is_plain and X.shape[1] == self.n_columns:
                x = device_rows.encode(X, self.center, self.scale)
                if x is not None:
                    return Table(x, np.zeros((len(X), 0), np.int32))
            X = np.asarray(X)
        columns = self._matching(read_columns(X))
        if used is not None and not used.all():
            columns = [column[used] for column in columns]
        n_rows = len(columns[0])
        codes = np.empty((n_rows, len(self.discrete)), np.int32)
        for attribute, column in enumerate(self.discrete):
            codes[:, attribute] = codes_of(
                columns[column],
                self.categories[attribute],
                self.names[column],
                self.allow_missing,
            )
        x = np.empty((n_rows, self.n_columns), np.float32)
        first = self.n_regressors - self.n_indicators
        for position, (attribute, code) in enumerate(self.indicators, first):
            x[:, position] = codes[:, attribute] == code
        if self.continuous:
            self._encode_continuous(columns, x)
        return Table(x, codes)

    @property
    def _is_plain(self) -> bool:
        """Whether all columns are regressors, and nothing was added to them."""
        return self.continuous == tuple(range(self.n_columns)) and not self.discrete

    def _encode_continuous(self, columns: list[np.ndarray], x: np.ndarray) -> None:
        """Standardise the continuous attributes into their columns of ``x``."""
        names = [self.names[column] for column in self.continuous]
        values = [
            numbers(columns[column], name, self.allow_missing)
            if columns[column].dtype == object
            else columns[column]
            for column, name in zip(self.continuous, names, strict=True)
        ]
        position = np.array(self._continuous_positions)
        center = self.center[position, None]
        scale = self.scale[position, None]
        # The attributes are at most two runs of columns: slices copy faster.
        n_plain = self.n_regressors - self.n_indicators
        plain, split = slice(n_plain), slice(n_plain, None)
        split_columns = slice(
            self.n_regressors, self.n_regressors + len(position) - n_plain
        )
        place = {i: which for which, i in enumerate(position)}
        gaps = [(place[i], indicator) for i, indicator in self.gap_columns]

        def encode(rows: slice) -> None:
            block = row_block(values, rows)
            with np.errstate(over="ignore"):
                block -= center
                block /= scale
            missing = None
            extremes = block.max(initial=0.0), -block.min(initial=0.0)
            if not np.maximum(*extremes) <= _FAR:  # or one is NaN
                missing = np.isnan(block)
                if np.isinf(block).any() or not (self.allow_missing or ~missing.any()):
                    for column, name in zip(values, names, strict=True):
                        numbers(column, name, self.allow_missing)  # may refuse it
                # Far outside the training range numbers saturate.
                np.clip(block, -_FAR, _FAR, out=block)
                block[missing] = 0.0
            for which, indicator in gaps:
                x[rows, indicator] = 0.0 if missing is None else missing[which]
            x[rows, plain] = block[plain].T
            x[rows, split_columns] = block[split].T

        for _ in in_blocks(encode, len(x)):
            pass

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
                    f"{len(self.names)} features: {listed(self.names)}."
                )
            return found
        missing = [name for name in self.names if name not in columns]
        extra = [name for name in columns if name not in self.names]
        if missing or extra:
            problem = " and ".join(
                f"{what} {listed(names)}"
                for what, names in (("lacks", missing), ("has the unknown", extra))
                if names
            )
            raise ValueError(
                f"X {problem}. The feature names should match those of the fit: "
                f"{listed(self.names)}."
            )
        return [columns[name] for name in self.names]


def numeric_schema(
    center: np.ndarray,
    scale: np.ndarray,
    y: np.ndarray,
    weight: np.ndarray,
    *,
    allow_missing: bool,
    target_name: str = "y",
) -> TableSchema:
    """The schema of an array without gaps whose columns are all regressors.

    Parameters
    ----------
    center, scale : ndarray of shape (n_columns,), float64
    y, weight : ndarray of shape (n_rows,), float64
    allow_missing : bool
        Whether a missing value in other rows is no error.
    target_name : str

    Returns
    -------
    TableSchema
    """
    n_columns = len(center)
    target = column_moments(
        [y], [target_name], weight, allow_missing=False, what="the target"
    )
    return TableSchema(
        names=made_up_names(n_columns),
        named=False,
        roles=(Role.REGRESSOR,) * n_columns,
        continuous=tuple(range(n_columns)),
        n_regressors=n_columns,
        center=center,
        scale=scale,
        discrete=(),
        categories=(),
        target_name=target_name,
        target_center=float(target.center[0]),
        target_scale=float(target.scale[0]),
        allow_missing=allow_missing,
    )


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
    names = tuple(found) if isinstance(found, dict) else made_up_names(len(columns))
    used = weight > 0

    discrete = positions(discrete_features, names, "discrete_features")
    split = positions(split_features, names, "split_features")
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
            numbers(column, names[position], missing != "error")
            roles.append(Role.SPLIT)
        elif column.dtype == object or column.dtype == bool:
            refuse_numbers_as_text(column, names[position])
            roles.append(Role.DISCRETE)
        elif not use_regressors:
            roles.append(Role.SPLIT)
        else:
            roles.append(Role.REGRESSOR)

    regressors = [i for i, role in enumerate(roles) if role is Role.REGRESSOR]
    splits = [i for i, role in enumerate(roles) if role is Role.SPLIT]
    continuous = regressors + splits
    measured = column_moments(
        [columns[i] for i in continuous],
        [names[i] for i in continuous],
        weight,
        allow_missing=missing != "error",
    )
    gaps_modelled, gaps_split = [], []
    fewest = np.minimum(measured.n_there, measured.n_missing)
    for i, fewer in zip(continuous, fewest, strict=True):
        if missing == "learn" and fewer >= _LEAST_GAPS:
            many = missing_regressors == "auto" and fewer >= _GAPS_PER_REGRESSOR
            modelled = roles[i] is Role.REGRESSOR and (
                many or missing_regressors is True
            )
            (gaps_modelled if modelled else gaps_split).append(i)
    shares = [
        (i, float(share))
        for i, share, n_missing in zip(
            continuous, measured.missing_share, measured.n_missing, strict=True
        )
        if n_missing
    ]
    discrete_columns = [i for i, role in enumerate(roles) if role is Role.DISCRETE]
    categories = [
        categories_of(columns[i][used], names[i], missing != "error")
        for i in discrete_columns
    ]
    chosen = _indicators(categories, int(used.sum()), indicators)
    n_inserted = len(chosen) + len(gaps_modelled)

    def with_indicators(values: np.ndarray, value: float) -> np.ndarray:
        first, last = values[: len(regressors)], values[len(regressors) :]
        inserted, added = (np.full(n, value) for n in (n_inserted, len(gaps_split)))
        return np.concatenate([first, inserted, last, added])

    target = column_moments(
        [y], [target_name], weight, allow_missing=False, what="the target"
    )
    return TableSchema(
        names=names,
        named=named,
        roles=tuple(roles),
        continuous=tuple(continuous),
        n_regressors=len(regressors) + n_inserted,
        center=with_indicators(measured.center, 0.0),
        scale=with_indicators(measured.scale, 1.0),
        discrete=tuple(discrete_columns),
        categories=tuple(categories),
        target_name=target_name,
        target_center=float(target.center[0]),
        target_scale=float(target.scale[0]),
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
