"""Decide what columns are for: roles, indicators, and directions of predictions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from secret_jax.data.attributes import (
    Attributes,
    Role,
    chosen_attributes,
    input_names,
)
from secret_jax.data.columns import OrderedText, numbers, refuse_numbers_as_text
from secret_jax.data.dates import DAYS, Dates
from secret_jax.data.scaling import ColumnMoments
from secret_jax.runtime.values import is_real

# With fewer rows of a kind the coefficient of its indicator would be mostly noise.
# Weights count, and their sums are rounded.
_ROWS_PER_INDICATOR = 30 - 1e-6
# With few rows in all, this share of them is enough: shrinkage and cross-validation
# limit the effect of a noisy coefficient.
_SHARE_OF_FEW, _LEAST_OF_FEW = 0.05, 5 - 1e-6
# A side of fewer rows is no leaf: the least "auto" leaf has five.
_LEAST_MISSING = 5 - 1e-6
_DIRECTIONS = (-1, 0, 1)


@dataclass(frozen=True, kw_only=True)
class ColumnOptions:
    """Options for reading the columns of a table."""

    # categorical_features, split_features: columns, by name or position, that are
    # discrete or split-only.
    categorical_features: Sequence[Any] | None = None
    split_features: Sequence[Any] | None = None
    # False makes every continuous attribute split-only (constant leaves).
    use_regressors: bool = True
    # What a missing number is: the mean of its column with an indicator beside it, the
    # mean alone, or an error. A missing category is a category or an error.
    missing: str = "error"
    # category_indicators, missing_indicators: whether the models see them; "auto":
    # those with many rows each.
    category_indicators: bool | str = False
    missing_indicators: bool | str = False
    # Share of the rows beyond each bound of columns with far tails; 0: no bounds.
    tail_share: float = 0.0
    # unused, without_indicators: names of attributes that nothing looks at, and of
    # discrete ones that models do not see.
    unused: tuple[str, ...] = ()
    without_indicators: tuple[str, ...] = ()
    monotonic_cst: Any = None  # columns with which predictions may only rise or fall


def roles_of(
    columns: list[np.ndarray],
    names: tuple[str, ...],
    dates: Dates,
    options: ColumnOptions,
) -> tuple[Role, ...]:
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
    for position, (column, name) in enumerate(zip(columns, names, strict=True)):
        if name in options.unused:
            roles.append(Role.UNUSED)
        elif position in discrete:
            roles.append(Role.DISCRETE)
        elif isinstance(column, OrderedText) or position in recurring:
            roles.append(Role.SPLIT)
        elif position in split:
            # Names the first value that is no number.
            numbers(column, name, options.missing != "error")
            roles.append(Role.SPLIT)
        elif column.dtype == object or column.dtype == bool:
            refuse_numbers_as_text(column, name)
            roles.append(Role.DISCRETE)
        elif not options.use_regressors:
            roles.append(Role.SPLIT)
        else:
            roles.append(Role.REGRESSOR)
    return tuple(roles)


def missing_indicators(
    attributes: Attributes, measured: ColumnMoments, options: ColumnOptions
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Choose the attributes with indicators of missing values: modelled, split-only."""
    modelled, split_only = [], []
    fewest = np.minimum(measured.mass, measured.missing_mass)
    continuous = attributes.of_role(Role.REGRESSOR, Role.SPLIT)
    for i, fewer in zip(continuous, fewest, strict=True):
        if options.missing == "learn" and fewer >= _LEAST_MISSING:
            wanted = _wanted(options.missing_indicators, fewer >= _ROWS_PER_INDICATOR)
            regressor = attributes.roles[i] is Role.REGRESSOR
            (modelled if wanted and regressor else split_only).append(i)
    return tuple(modelled), tuple(split_only)


def _wanted(choice: bool | str, enough: bool) -> bool:
    """Whether to make indicators; "auto" does so if there are enough rows."""
    return choice is True or (choice == "auto" and enough)


def category_indicators(
    counts: list[np.ndarray], choice: bool | str
) -> tuple[tuple[int, int], ...]:
    """Choose the categories that get an indicator: pairs of attribute and code.

    Rare categories are pooled: the models do not tell them apart.
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


def directions_of(
    monotonic_cst: Any, attributes: Attributes
) -> tuple[tuple[int, int], ...]:
    """Pairs of attribute and direction, given by name or for all columns in order.

    1: rises; -1: falls; 0: no constraint. A ValueError names a column that is unknown
    or holds no numbers, and any other direction.
    """
    if monotonic_cst is None:
        return ()
    names = input_names(attributes.names, attributes.dates)
    if isinstance(monotonic_cst, Mapping):
        unknown = [name for name in monotonic_cst if name not in names]
        if unknown:
            raise ValueError(
                f"monotonic_cst names {unknown[0]!r}, but there is no such column. The "
                f"columns are {', '.join(map(repr, names))}."
            )
        directions = dict(monotonic_cst)
    else:
        try:
            given = np.asarray(monotonic_cst)
        except ValueError:  # ragged
            given = np.empty(0)
        if given.shape != (len(names),):
            raise ValueError(
                f"monotonic_cst has shape {given.shape}; give one direction for each "
                f"of the {len(names)} columns, or a dict of names and directions."
            )
        directions = dict(zip(names, given.tolist(), strict=True))
    found = []
    for name, direction in directions.items():
        if not is_real(direction) or direction not in _DIRECTIONS:
            raise ValueError(
                f"monotonic_cst has {direction!r} for column {name!r}; give 1 for "
                "rising, -1 for falling or 0 for no constraint."
            )
        if direction == 0:
            continue
        if name not in attributes.names:
            raise ValueError(
                f"monotonic_cst constrains column {name!r}, which holds dates. Give "
                "the numbers that you mean, such as days, as a column of their own."
            )
        attribute = attributes.names.index(name)
        if attributes.roles[attribute] is Role.DISCRETE:
            raise ValueError(
                f"monotonic_cst constrains column {name!r}, whose values are "
                "categories. Give numbers, or an ordered categorical column."
            )
        if attributes.roles[attribute] is not Role.UNUSED:
            found.append((attribute, int(direction)))
    return tuple(sorted(found))
