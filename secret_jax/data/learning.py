"""Learn a schema from rows that come in one chunk (memory) or in many (a stream)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from secret_jax.data.columns import (
    ReadTable,
    factorised,
    listed,
    numbers,
    refuse_numbers_as_text,
    sorted_categories,
)
from secret_jax.data.dates import DAYS, MINUTES, parts_of
from secret_jax.data.rows import ReadColumns, all_count
from secret_jax.data.scaling import (
    ColumnSums,
    column_sums,
    joint_sums,
    moments_of,
    no_sums,
)
from secret_jax.data.schema import Attributes, Role, TableSchema
from secret_jax.runtime.environment import warn
from secret_jax.runtime.values import is_real

# More categories would take gigabytes in the search, and carry no information.
_MOST_CATEGORIES = 4096
# Number of rows that nearly always show that a column is not the target.
_FIRST_ROWS = 64
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
    # unused, without_indicators: names of attributes that nothing looks at, and of
    # discrete ones that models do not see.
    unused: tuple[str, ...] = ()
    without_indicators: tuple[str, ...] = ()
    monotonic_cst: Any = None  # columns with which predictions may only rise or fall


class Learner:
    """Roles, moments and categories of columns, learned chunk by chunk.

    ``sums`` and ``target_sums`` are over all rows; ``categories`` have, for each
    discrete attribute, the weight of every category, in the order in which they came
    up; ``alike`` are pairs of attributes and targets that have been equal in every row.
    """

    def __init__(self, options: ColumnOptions, target_names: tuple[str, ...] = ("y",)):
        self.options, self.target_names = options, target_names
        self.attributes = Attributes(names=(), named=True, roles=())
        self.sums, self.target_sums = no_sums(0), no_sums(len(target_names))
        self.categories: list[dict[Any, float]] = []
        self.alike: set[tuple[int, int]] = set()

    def begin(self, table: ReadTable) -> None:
        """Decide the roles of the columns, by the options or by the first rows."""
        named = isinstance(table, dict)
        if not isinstance(table, dict):
            table = {f"x{i}": column for i, column in enumerate(table)}
        columns: dict[str, np.ndarray] = {}
        dates, zones = (), ()
        for name, column in table.items():
            parts = tuple(f"{name} ({part})" for part in parts_of(column))
            if not parts:
                columns[name] = column
                continue
            for both in sorted(table.keys() & set(parts)):
                raise ValueError(
                    f"The dates or times of column {name!r} need the name {both!r}, "
                    "which is that of another column. Rename one of them."
                )
            columns |= dict.fromkeys(parts, column)
            dates = *dates, (name, parts)
            if (zone := getattr(column, "zone", None)) is not None:
                zones = *zones, (name, zone)
        known = Attributes(
            names=tuple(columns), named=named, roles=(), dates=dates, zones=zones
        )
        roles = _roles_of(columns, known, self.options)
        orders = [getattr(column, "levels", ()) for column in columns.values()]
        levels = tuple(
            (i, order)
            for i, (order, role) in enumerate(zip(orders, roles, strict=True))
            if order and role is not Role.DISCRETE
        )
        self.attributes = replace(known, roles=roles, levels=levels)
        self.categories = [{} for role in roles if role is Role.DISCRETE]
        numeric = self.attributes.of_role(Role.REGRESSOR, Role.SPLIT)
        self.sums = no_sums(len(numeric))
        self.alike = {(i, k) for i in numeric for k in range(len(self.target_names))}

    def add(
        self, table: ReadTable, targets: np.ndarray, weight: np.ndarray
    ) -> ReadColumns:
        """Add rows; return those of positive weight, with codes as of `places`."""
        if not self.attributes.names:
            self.begin(table)
        names, allow_missing = self.attributes.names, self.options.missing != "error"
        columns = self.attributes.matching(table)
        continuous = self.attributes.of_role(Role.REGRESSOR, Role.SPLIT)
        for i in continuous:
            if columns[i].dtype == object:
                columns[i] = numbers(columns[i], names[i], allow_missing)
        sums = column_sums(
            [columns[i] for i in continuous],
            [names[i] for i in continuous],
            weight,
            allow_missing=allow_missing,
        )
        of_targets = column_sums(
            [*targets.T], self.target_names, weight, allow_missing=False
        )
        self.measure(sums, of_targets)
        self.alike = {
            (i, k)
            for i, k in self.alike
            if all(
                (columns[i][:n] == targets[:n, k]).all() for n in (_FIRST_ROWS, None)
            )
        }
        if not all_count(weight):
            used = weight > 0
            columns, weight = [column[used] for column in columns], weight[used]
        discrete = self.attributes.of_role(Role.DISCRETE)
        codes = np.empty((len(weight), len(discrete)), np.int32)
        for k, i in enumerate(discrete):
            distinct, code = factorised(columns[i], names[i], allow_missing)
            counts = np.bincount(code, weight, minlength=len(distinct))
            place = self._count(k, dict(zip(distinct, counts.tolist(), strict=True)))
            codes[:, k] = place[code]
        return ReadColumns([columns[i] for i in continuous], codes)

    def measure(self, sums: ColumnSums, of_targets: ColumnSums) -> None:
        """Add sums over rows, as of numbers that were measured where they lie."""
        self.sums = joint_sums([self.sums, sums])
        self.target_sums = joint_sums([self.target_sums, of_targets])

    def _count(self, attribute: int, counts: dict[Any, float]) -> np.ndarray:
        """Add weights of categories; return their places in order of appearance."""
        known = self.categories[attribute]
        for value, count in counts.items():
            known[value] = known.get(value, 0.0) + count
        if len(known) > _MOST_CATEGORIES:
            column = self.attributes.of_role(Role.DISCRETE)[attribute]
            raise ValueError(
                f"Column {self.attributes.names[column]!r} has more than "
                f"{_MOST_CATEGORIES} different categories. Group the rare ones, or "
                "leave the column out if it only names the rows."
            )
        place = {value: code for code, value in enumerate(known)}
        return np.array([place[value] for value in counts], np.int32)

    def merge(self, other: Learner) -> list[np.ndarray]:
        """Add the rows of another learner; return where its codes are here."""
        self.sums = joint_sums([self.sums, other.sums])
        self.target_sums = joint_sums([self.target_sums, other.target_sums])
        self.alike &= other.alike
        return [self._count(k, counts) for k, counts in enumerate(other.categories)]

    def places(self) -> list[np.ndarray]:
        """Map the codes of `add` to those of the schema, per discrete attribute."""
        found = []
        for known in self.categories:
            place = {value: code for code, value in enumerate(sorted_categories(known))}
            found.append(np.array([place[value] for value in known], np.int32))
        return found

    def schema(self, factor: float = 1.0) -> TableSchema:
        """Make the schema; weights are multiplied by ``factor``."""
        attributes, options = self.attributes, self.options
        names = attributes.names
        discrete = attributes.of_role(Role.DISCRETE)
        continuous = attributes.of_role(Role.REGRESSOR, Role.SPLIT)
        centers, scales = moments_of(self.sums, [names[i] for i in continuous])
        targets = moments_of(self.target_sums, self.target_names, of_target=True)
        categories = tuple(map(sorted_categories, self.categories))
        counts = [
            np.array([known[value] for value in values]) * factor
            for known, values in zip(self.categories, categories, strict=True)
        ]
        indicators = tuple(
            (attribute, code)
            for attribute, count in enumerate(counts)
            if names[discrete[attribute]] not in options.without_indicators
            for code in _indicated(count, options.category_indicators)
        )
        mass, missing = self.sums.mass * factor, self.sums.missing_mass * factor
        missing_indicators = options.missing_indicators
        modelled, split_only = [], []
        for i, fewer in zip(continuous, np.minimum(mass, missing), strict=True):
            if options.missing == "learn" and fewer >= _LEAST_MISSING:
                enough = fewer >= _ROWS_PER_INDICATOR or missing_indicators is True
                regressor = attributes.roles[i] is Role.REGRESSOR
                seen = missing_indicators and enough and regressor
                (modelled if seen else split_only).append(i)
        n_regressors = len(attributes.of_role(Role.REGRESSOR))
        n_inserted = len(indicators) + len(modelled)

        def with_indicators(values: np.ndarray, value: float) -> np.ndarray:
            first, last = values[:n_regressors], values[n_regressors:]
            inserted, added = (np.full(n, value) for n in (n_inserted, len(split_only)))
            return np.concatenate([first, inserted, last, added])

        return TableSchema(
            **vars(attributes),
            continuous=continuous,
            n_regressors=n_regressors + n_inserted,
            center=with_indicators(centers, 0.0),
            scale=with_indicators(scales, 1.0),
            discrete=discrete,
            categories=categories,
            most_frequent=tuple(int(count.argmax()) for count in counts),
            indicators=indicators,
            indicator_shares=tuple(
                float(counts[attribute][code] / counts[attribute].sum())
                for attribute, code in indicators
            ),
            missing_modelled=tuple(modelled),
            missing_split=tuple(split_only),
            missing_shares=tuple(
                (i, float(missing[k] / (mass[k] + missing[k])))
                for k, i in enumerate(continuous)
                if missing[k]
            ),
            allow_missing=options.missing != "error",
            monotonic=_directions_of(options.monotonic_cst, attributes),
            target_names=tuple(self.target_names),
            target_centers=tuple(targets[0].tolist()),
            target_scales=tuple(targets[1].tolist()),
        )

    def warn_of_targets(self) -> None:
        """Warn of columns equal to a target in every row."""
        total = self.target_sums
        for i, k in sorted(self.alike):
            if total.lowest[k] < total.highest[k]:
                warn(
                    f"Column {self.attributes.names[i]!r} equals the target in every "
                    "row, so the tree only repeats it. Drop the column if it is the "
                    "target itself."
                )


def _roles_of(
    columns: Mapping[str, np.ndarray], known: Attributes, options: ColumnOptions
) -> tuple[Role, ...]:
    """Decide the role of every attribute, by the options or else by its content."""
    discrete, split = (
        _chosen_attributes(getattr(options, argument), known, argument)
        for argument in ("categorical_features", "split_features")
    )
    for both in sorted(discrete & split):
        raise ValueError(
            f"Column {known.names[both]!r} is named in both categorical_features and "
            "split_features; keep it in one of them."
        )
    roles = []
    for position, (name, column) in enumerate(columns.items()):
        recurs = known.origin(position).part not in ("", DAYS, MINUTES)
        if name in options.unused:
            roles.append(Role.UNUSED)
        elif position in discrete:
            roles.append(Role.DISCRETE)
        elif recurs or getattr(column, "levels", ()):
            roles.append(Role.SPLIT)
        elif position in split:
            # Names the first value that is no number; parts of dates are none yet.
            if not parts_of(column):
                numbers(column, name, options.missing != "error")
            roles.append(Role.SPLIT)
        elif column.dtype == object or column.dtype == bool:
            refuse_numbers_as_text(column, name)
            roles.append(Role.DISCRETE)
        else:
            roles.append(Role.REGRESSOR if options.use_regressors else Role.SPLIT)
    return tuple(roles)


def _chosen_attributes(chosen: Any, known: Attributes, argument: str) -> set[int]:
    """Resolve columns (by name, place or mask) or attributes named by the user."""
    if chosen is None:
        return set()
    scalar = isinstance(chosen, np.ndarray) and chosen.ndim == 0
    if scalar or isinstance(chosen, str) or not isinstance(chosen, Iterable):
        chosen = [chosen]
    chosen, columns = list(chosen), known.input_names
    if len(chosen) and all(isinstance(c, bool | np.bool_) for c in chosen):
        if len(chosen) != len(columns):
            raise ValueError(
                f"{argument} is a mask of length {len(chosen)}, but X has "
                f"{len(columns)} columns."
            )
        chosen = np.flatnonzero(chosen).tolist()
    parts = {name: (name,) for name in (*columns, *known.names)} | dict(known.dates)
    found = set()
    for choice in chosen:
        if isinstance(choice, int | np.integer) and 0 <= choice < len(columns):
            choice = columns[int(choice)]
        if not isinstance(choice, str) or choice not in parts:
            raise ValueError(
                f"{argument} names the unknown column {choice!r}. "
                f"The columns of X are {listed(columns)}."
            )
        found |= {known.names.index(part) for part in parts[choice]}
    return found


def _indicated(count: np.ndarray, choice: bool | str) -> list[int]:
    """Codes of the categories of a column that get an indicator: rare ones are pooled.

    ``count``: the weight of each; ``choice``: all (True), frequent ones ("auto"), none.
    """
    if not choice:
        return []
    total = float(count.sum())
    share = max(_LEAST_OF_FEW, _SHARE_OF_FEW * total)
    least = min(_ROWS_PER_INDICATOR, share)
    frequent = (count >= least) & (total - count >= least)
    codes = np.flatnonzero(frequent | (choice is True)).tolist()
    # Of two categories one indicator is enough.
    return codes[1 if len(count) == 2 else 0 :]


def _directions_of(
    monotonic_cst: Any, attributes: Attributes
) -> tuple[tuple[int, int], ...]:
    """Pairs of attribute and direction, given by name or for all columns in order."""
    if monotonic_cst is None:
        return ()
    names = attributes.input_names
    if isinstance(monotonic_cst, Mapping):
        directions = dict(monotonic_cst)
        if unknown := [name for name in directions if name not in names]:
            raise ValueError(
                f"monotonic_cst names {unknown[0]!r}, but there is no such column. The "
                f"columns are {', '.join(map(repr, names))}."
            )
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
        if not is_real(direction) or direction not in (-1, 0, 1):
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
