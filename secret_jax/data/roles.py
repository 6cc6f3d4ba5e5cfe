"""Learn a schema: the role, categories and scale of every column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from secret_jax.data.attributes import (
    DAYS,
    Dates,
    Levels,
    attributes_of,
    chosen_attributes,
    places_in_order,
)
from secret_jax.data.columns import (
    OrderedText,
    ReadTable,
    categories_of,
    codes_of,
    made_up_names,
    numbers,
    refuse_numbers_as_text,
)
from secret_jax.data.scaling import ColumnMoments, column_moments
from secret_jax.data.schema import Role, TableSchema, match_columns

# With fewer rows of a kind the coefficient of its indicator would be mostly noise.
# Weights count, and their sums are rounded.
_ROWS_PER_INDICATOR = 30 - 1e-6
# With few rows in all, this share of them is enough: shrinkage and cross-validation
# limit the effect of a noisy coefficient.
_SHARE_OF_FEW, _LEAST_OF_FEW = 0.05, 5 - 1e-6
# A side of fewer rows is no leaf: the least "auto" leaf has five.
_LEAST_MISSING = 5 - 1e-6


@dataclass(frozen=True, kw_only=True)
class ColumnOptions:
    """Options for reading the columns of a table.

    Attributes
    ----------
    categorical_features, split_features : sequence of str or int, or mask, optional
        Columns, by name or position, that are discrete or split-only.
    use_regressors : bool
        False makes every continuous attribute split-only (constant leaves).
    missing : {"learn", "mean", "error"}
        What a missing number is: the mean of its column with an indicator beside it,
        the mean alone, or an error. A missing category is a category or an error.
    category_indicators, missing_indicators : bool or "auto"
        Whether the models see indicators of categories, and of missing values; "auto":
        those with many rows each.
    """

    categorical_features: Sequence[Any] | None = None
    split_features: Sequence[Any] | None = None
    use_regressors: bool = True
    missing: str = "error"
    category_indicators: bool | str = False
    missing_indicators: bool | str = False


def numeric_schema(
    center: np.ndarray,
    scale: np.ndarray,
    targets: np.ndarray,
    weight: np.ndarray,
    *,
    allow_missing: bool,
    target_names: tuple[str, ...] = ("y",),
) -> TableSchema:
    """Build the schema of an array of regressors without missing values.

    Parameters
    ----------
    center, scale : ndarray of shape (n_columns,), float64
    targets : ndarray of shape (n_rows, n_outputs), float64
    weight : ndarray of shape (n_rows,), float64
    allow_missing : bool
        Whether a missing value in other rows is no error.
    """
    n_columns = len(center)
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
        allow_missing=allow_missing,
        **_target_scaling(targets, weight, target_names),
    )


def learn_schema(
    table: ReadTable,
    targets: np.ndarray,
    weight: np.ndarray,
    options: ColumnOptions,
    target_names: tuple[str, ...] = ("y",),
    others: ReadTable | None = None,
) -> TableSchema:
    """Learn a schema: decide roles, collect categories and measure scales.

    Parameters
    ----------
    table : dict or list of ndarray of shape (n_rows,)
        As `secret_jax.data.columns.read_columns` gives it; text and boolean columns are
        discrete.
    targets : ndarray of shape (n_rows + n_others, n_outputs), float64
    weight : ndarray of shape (n_rows + n_others,), float64
        Rows of weight zero count for nothing.
    target_names : tuple of str
        Used in messages and pictures.
    others : dict or list of ndarray of shape (n_others,), optional
        The same columns of a ``eval_set`` whose rows train as well: their categories
        and gaps count, while roles follow from ``table`` alone.
    """
    named = isinstance(table, dict)
    if not isinstance(table, dict):
        table = dict(zip(made_up_names(len(table)), table, strict=True))
    attributes, dates = attributes_of(table)
    columns, names = list(attributes.values()), tuple(attributes)
    used = weight > 0
    allow_missing = options.missing != "error"
    roles = roles_of(columns, names, dates, options)
    levels = tuple(
        (i, column.levels)
        for i, (column, role) in enumerate(zip(columns, roles, strict=True))
        if isinstance(column, OrderedText) and role is not Role.DISCRETE
    )
    for i, its in levels:
        columns[i] = places_in_order(names[i], columns[i], its)
    if others is not None:
        try:
            below = match_columns(names, named, others, dates, levels)
            below = [
                _checked(*column, allow_missing)
                for column in zip(below, names, roles, strict=True)
            ]
        except ValueError as error:
            raise ValueError(f"In eval_set: {error}") from None
        columns = [np.concatenate(pair) for pair in zip(columns, below, strict=True)]
    found = Attributes(names, named, roles, dates, levels)
    continuous = found.of_role(Role.REGRESSOR, Role.SPLIT)
    measured = column_moments(
        [columns[i] for i in continuous],
        [names[i] for i in continuous],
        weight,
        allow_missing=allow_missing,
    )
    discrete_columns = [i for i, role in enumerate(roles) if role is Role.DISCRETE]
    categories = [
        categories_of(columns[i][used], names[i], allow_missing)
        for i in discrete_columns
    ]
    counts = [
        np.bincount(
            codes_of(columns[i][used], values, names[i], allow_missing)[0],
            weight[used],
            minlength=len(values),
        )
        for i, values in zip(discrete_columns, categories, strict=True)
    ]
    measured_targets = column_moments(
        list(targets.T), target_names, weight, allow_missing=False, of_target=True
    )
    return schema_of(
        found, measured, categories, counts, measured_targets, options, target_names
    )


class Attributes(NamedTuple):
    """Attributes of a table before anything is measured.

    Attributes
    ----------
    dates : tuple of (str, tuple of str)
    levels : tuple of (int, tuple of str)
        As those of `secret_jax.data.schema.TableSchema`.
    """

    names: tuple[str, ...]
    named: bool
    roles: list[Role]
    dates: Dates
    levels: Levels

    def of_role(self, *wanted: Role) -> list[int]:
        """Positions of the attributes of given roles, grouped by role in that order."""
        return [i for role in wanted for i, its in enumerate(self.roles) if its is role]


def schema_of(
    attributes: Attributes,
    measured: ColumnMoments,
    categories: Sequence[tuple[Any, ...]],
    counts: list[np.ndarray],
    targets: ColumnMoments,
    options: ColumnOptions,
    target_names: tuple[str, ...],
) -> TableSchema:
    """Build a schema from attributes and their measured moments.

    Parameters
    ----------
    measured : ColumnMoments
        Of the regressors, then of what is only split on.
    categories : sequence of tuple
        Sorted categories of each discrete attribute.
    counts : list of ndarray of shape (n_categories,)
        Weight of the rows of each of them.
    """
    names, named, roles, dates, levels = attributes
    regressors = attributes.of_role(Role.REGRESSOR)
    continuous = attributes.of_role(Role.REGRESSOR, Role.SPLIT)
    discrete_columns = attributes.of_role(Role.DISCRETE)
    modelled, split_only = [], []
    fewest = np.minimum(measured.mass, measured.missing_mass)
    for i, fewer in zip(continuous, fewest, strict=True):
        if options.missing == "learn" and fewer >= _LEAST_MISSING:
            wanted = _wanted(options.missing_indicators, fewer >= _ROWS_PER_INDICATOR)
            regressor = roles[i] is Role.REGRESSOR
            (modelled if wanted and regressor else split_only).append(i)
    shares = [
        (i, float(missing / (there + missing)))
        for i, there, missing in zip(
            continuous, measured.mass, measured.missing_mass, strict=True
        )
        if missing
    ]
    chosen = _indicators(counts, options.category_indicators)
    n_inserted = len(chosen) + len(modelled)

    def with_indicators(values: np.ndarray, value: float) -> np.ndarray:
        first, last = values[: len(regressors)], values[len(regressors) :]
        inserted, added = (np.full(n, value) for n in (n_inserted, len(split_only)))
        return np.concatenate([first, inserted, last, added])

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
        indicators=chosen,
        missing_modelled=tuple(modelled),
        missing_split=tuple(split_only),
        missing_shares=tuple(shares),
        allow_missing=options.missing != "error",
        dates=dates,
        levels=levels,
        **_scaling(targets, target_names),
    )


def roles_of(
    columns: list[np.ndarray],
    names: tuple[str, ...],
    dates: Dates,
    options: ColumnOptions,
) -> list[Role]:
    """Decide the role of every column, by the options or else by its content."""
    discrete, split = (
        chosen_attributes(getattr(options, argument), names, dates, argument)
        for argument in ("categorical_features", "split_features")
    )
    recurring = {
        names.index(part)
        for name, parts in dates
        for part in parts
        if part != f"{name} ({DAYS})"
    }
    for both in sorted(discrete & split):
        raise ValueError(
            f"Column {names[both]!r} is named in both categorical_features and "
            "split_features; keep it in one of them."
        )
    roles = []
    for position, column in enumerate(columns):
        if position in discrete:
            roles.append(Role.DISCRETE)
        elif isinstance(column, OrderedText) or position in recurring:
            roles.append(Role.SPLIT)
        elif position in split:
            # Names the first value that is no number.
            numbers(column, names[position], options.missing != "error")
            roles.append(Role.SPLIT)
        elif column.dtype == object or column.dtype == bool:
            refuse_numbers_as_text(column, names[position])
            roles.append(Role.DISCRETE)
        elif not options.use_regressors:
            roles.append(Role.SPLIT)
        else:
            roles.append(Role.REGRESSOR)
    return roles


def _checked(
    column: np.ndarray, name: str, role: Role, allow_missing: bool
) -> np.ndarray:
    """Check a column of ``eval_set`` against the role of its attribute."""
    if role is not Role.DISCRETE:
        return numbers(column, name, allow_missing)
    categories_of(column, name, allow_missing)
    return column


def _target_scaling(
    targets: np.ndarray, weight: np.ndarray, names: tuple[str, ...]
) -> dict[str, Any]:
    measured = column_moments(
        list(targets.T), names, weight, allow_missing=False, of_target=True
    )
    return _scaling(measured, names)


def _scaling(measured: ColumnMoments, names: tuple[str, ...]) -> dict[str, Any]:
    return {
        "target_names": tuple(names),
        "target_centers": tuple(measured.center.tolist()),
        "target_scales": tuple(measured.scale.tolist()),
    }


def _wanted(choice: bool | str, enough: bool) -> bool:
    """Whether to make indicators; "auto" does so if there are enough rows."""
    return choice is True or (choice == "auto" and enough)


def _indicators(
    counts: list[np.ndarray], choice: bool | str
) -> tuple[tuple[int, int], ...]:
    """Choose the categories that get an indicator: pairs of attribute and code.

    Rare categories are pooled: the models do not tell them apart.

    Parameters
    ----------
    counts : list of ndarray of shape (n_categories,)
        Weight of the rows of each category, per attribute.
    """
    chosen = []
    for attribute, count in enumerate(counts):
        total = float(count.sum())
        share = max(_LEAST_OF_FEW, _SHARE_OF_FEW * total)
        least = min(_ROWS_PER_INDICATOR, share)
        frequent = (count >= least) & (total - count >= least)
        codes = [code for code, there in enumerate(frequent) if _wanted(choice, there)]
        # Of two categories one indicator is enough.
        chosen += [(attribute, code) for code in codes[1 if len(count) == 2 else 0 :]]
    return tuple(chosen)
