"""Decide the role of every column, and which of its values get an indicator."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from secret_jax.data.attributes import (
    DAYS,
    Attributes,
    Dates,
    Role,
    chosen_attributes,
)
from secret_jax.data.columns import OrderedText, numbers, refuse_numbers_as_text
from secret_jax.data.scaling import ColumnMoments

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
