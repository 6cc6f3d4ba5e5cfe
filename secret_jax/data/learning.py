"""Learn a schema from rows that come in one chunk (memory) or in many (a stream)."""

from __future__ import annotations

from typing import Any

import numpy as np

from secret_jax.data.attributes import Attributes, Role
from secret_jax.data.categories import sorted_categories
from secret_jax.data.columns import (
    OrderedText,
    ReadTable,
    factorised,
    made_up_names,
    numbers,
)
from secret_jax.data.dates import with_calendars
from secret_jax.data.encoding import ReadColumns
from secret_jax.data.roles import (
    ColumnOptions,
    category_indicators,
    directions_of,
    missing_indicators,
    roles_of,
)
from secret_jax.data.scaling import (
    ColumnSums,
    column_sums,
    joint_sums,
    moments_of,
    no_sums,
)
from secret_jax.data.schema import TableSchema
from secret_jax.runtime.warning import warn

# More categories would take gigabytes in the search, and carry no information.
_MOST_CATEGORIES = 4096
# Number of rows that nearly always show that a column is not the target.
_FIRST_ROWS = 64


class Learner:
    """Roles, moments and categories of columns, learned chunk by chunk.

    ``sums`` and ``target_sums`` are over all rows; ``categories`` have, for each
    discrete attribute, the weight of every category, in the order in which they came
    up; ``alike`` are pairs of attributes and targets that have been equal in every row.
    """

    def __init__(self, options: ColumnOptions, target_names: tuple[str, ...] = ("y",)):
        self.options, self.target_names = options, target_names
        self.attributes: Attributes | None = None
        self.sums, self.target_sums = no_sums(0), no_sums(len(target_names))
        self.categories: list[dict[Any, float]] = []
        self.alike: set[tuple[int, int]] = set()

    def begin(self, table: ReadTable) -> Attributes:
        """Decide the roles of the columns from the first rows."""
        named = isinstance(table, dict)
        if not isinstance(table, dict):
            table = dict(zip(made_up_names(len(table)), table, strict=True))
        attributes, dates, zones = with_calendars(table)
        columns, names = list(attributes.values()), tuple(attributes)
        roles = roles_of(columns, names, dates, self.options)
        levels = tuple(
            (i, column.levels)
            for i, (column, role) in enumerate(zip(columns, roles, strict=True))
            if isinstance(column, OrderedText) and role is not Role.DISCRETE
        )
        self.attributes = Attributes(
            names=names,
            named=named,
            roles=roles,
            dates=dates,
            zones=zones,
            levels=levels,
        )
        self.categories = [{} for role in roles if role is Role.DISCRETE]
        numeric = self.attributes.of_role(Role.REGRESSOR, Role.SPLIT)
        self.sums = no_sums(len(numeric))
        self.alike = {(i, k) for i in numeric for k in range(len(self.target_names))}
        return self.attributes

    def add(
        self, table: ReadTable, targets: np.ndarray, weight: np.ndarray
    ) -> ReadColumns:
        """Add rows; return those of positive weight, with codes as of `places`."""
        attributes = self.attributes or self.begin(table)
        names, allow_missing = attributes.names, self.options.missing != "error"
        columns = attributes.matching(table)
        continuous = attributes.of_role(Role.REGRESSOR, Role.SPLIT)
        for i in continuous:
            if columns[i].dtype == object:
                columns[i] = numbers(columns[i], names[i], allow_missing)
        values = [columns[i] for i in continuous]
        of_names = [names[i] for i in continuous]
        sums = column_sums(values, of_names, weight, allow_missing=allow_missing)
        self.measure(sums, targets, weight)
        self.alike = {
            (i, k)
            for i, k in self.alike
            if all(
                (columns[i][:n] == targets[:n, k]).all() for n in (_FIRST_ROWS, None)
            )
        }
        discrete = [columns[i] for i in attributes.of_role(Role.DISCRETE)]
        if not weight.all():
            used = weight > 0
            values, discrete = ([c[used] for c in part] for part in (values, discrete))
            weight = weight[used]
        codes = np.empty((len(weight), len(discrete)), np.int32)
        for k, i in enumerate(attributes.of_role(Role.DISCRETE)):
            distinct, code = factorised(discrete[k], names[i], allow_missing)
            counts = np.bincount(code, weight, minlength=len(distinct))
            place = self._count(k, dict(zip(distinct, counts.tolist(), strict=True)))
            codes[:, k] = place[code]
        return ReadColumns(values, codes)

    def measure(
        self, sums: ColumnSums, targets: np.ndarray, weight: np.ndarray
    ) -> None:
        """Add sums over rows, as of numbers that were measured where they lie."""
        of_targets = column_sums(
            list(targets.T), self.target_names, weight, allow_missing=False
        )
        self.sums = joint_sums([self.sums, sums])
        self.target_sums = joint_sums([self.target_sums, of_targets])

    def _count(self, attribute: int, counts: dict[Any, float]) -> np.ndarray:
        """Add weights of categories; return their places in order of appearance."""
        known = self.categories[attribute]
        for value, count in counts.items():
            known[value] = known.get(value, 0.0) + count
        if len(known) > _MOST_CATEGORIES:
            assert self.attributes is not None
            column = self.attributes.of_role(Role.DISCRETE)[attribute]
            name = self.attributes.names[column]
            raise ValueError(
                f"Column {name!r} has more than {_MOST_CATEGORIES} different "
                "categories. Group the rare ones, or leave the column out if it only "
                "names the rows."
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
        assert attributes is not None
        n_regressors = len(attributes.of_role(Role.REGRESSOR))
        continuous = attributes.of_role(Role.REGRESSOR, Role.SPLIT)
        measured = moments_of(self.sums, [attributes.names[i] for i in continuous])
        mass, missing = measured.mass * factor, measured.missing_mass * factor
        measured = measured._replace(mass=mass, missing_mass=missing)
        targets = moments_of(self.target_sums, self.target_names, of_target=True)
        categories = tuple(map(sorted_categories, self.categories))
        counts = [
            np.array([known[value] for value in values]) * factor
            for known, values in zip(self.categories, categories, strict=True)
        ]
        discrete = attributes.of_role(Role.DISCRETE)
        indicators = tuple(
            (attribute, code)
            for attribute, code in category_indicators(
                counts, options.category_indicators
            )
            if attributes.names[discrete[attribute]] not in options.without_indicators
        )
        modelled, split_only = missing_indicators(attributes, measured, options)
        n_inserted = len(indicators) + len(modelled)

        def with_indicators(values: np.ndarray, value: float) -> np.ndarray:
            first, last = values[:n_regressors], values[n_regressors:]
            inserted, added = (np.full(n, value) for n in (n_inserted, len(split_only)))
            return np.concatenate([first, inserted, last, added])

        return TableSchema(
            **vars(attributes),
            continuous=continuous,
            n_regressors=n_regressors + n_inserted,
            center=with_indicators(measured.center, 0.0),
            scale=with_indicators(measured.scale, 1.0),
            discrete=discrete,
            categories=categories,
            indicators=indicators,
            indicator_shares=tuple(
                float(counts[attribute][code] / counts[attribute].sum())
                for attribute, code in indicators
            ),
            missing_modelled=modelled,
            missing_split=split_only,
            missing_shares=tuple(
                (i, float(missing[k] / (mass[k] + missing[k])))
                for k, i in enumerate(continuous)
                if missing[k]
            ),
            allow_missing=options.missing != "error",
            monotonic=directions_of(options.monotonic_cst, attributes),
            target_names=tuple(self.target_names),
            target_centers=tuple(targets.center.tolist()),
            target_scales=tuple(targets.scale.tolist()),
        )

    def warn_of_targets(self) -> None:
        """Warn of columns equal to a target in every row."""
        assert self.attributes is not None
        total = self.target_sums
        for i, k in sorted(self.alike):
            if total.lowest[k] < total.highest[k]:
                warn(
                    f"Column {self.attributes.names[i]!r} equals the target in every "
                    "row, so the tree only repeats it. Drop the column if it is the "
                    "target itself."
                )
