"""Columns padded to a few widths, so that tables of like size share programs.

A finder sees padding as columns without spread that it may not split on. What is no
program needs none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from secret_jax.data.schema import TableSchema
from secret_jax.runtime.shapes import next_power_of_two, padded
from secret_jax.splits.interface import Columns, Roles, Split
from secret_jax.tree.structure import SplitKind

# Widths of columns: the time of a search grows with their square, so that narrow tables
# have many. Beyond these widths multiples of the step.
_WIDTHS = (0, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128)
_STEP = 64
# Fewest discrete attributes, categories and columns with gaps, if there are any: up to
# these they cost little.
_FEWEST_DISCRETE = 2
_FEWEST_CATEGORIES = 8
_FEWEST_GAPS = 4


def width_of(n_columns: int) -> int:
    """How many columns so many are padded to.

    Examples
    --------
    >>> [width_of(n) for n in (0, 1, 10, 64, 150)]
    [0, 4, 12, 64, 192]
    """
    for width in _WIDTHS:
        if n_columns <= width:
            return width
    return -(-n_columns // _STEP) * _STEP


def _at_least(fewest: int, n: int) -> int:
    """None, or a power of two that is not below the fewest."""
    return max(fewest, next_power_of_two(n)) if n else 0


@dataclass(frozen=True)
class Padding:
    """Where the columns of a table stand among padded ones."""

    columns: Columns  # what programs know of the padded table
    roles: Roles
    position: np.ndarray  # (n_columns,), int: of each column among the padded ones
    # n_columns, n_discrete: with padding.
    n_columns: int
    n_discrete: int

    @classmethod
    def of(cls, schema: TableSchema, *, oblique: bool) -> Padding:
        """For tables of a schema; regressors stay before other columns."""
        n, others = schema.n_regressors, schema.n_columns - schema.n_regressors
        width = width_of(n)
        position = np.concatenate([np.arange(n), width + np.arange(others)])
        n_columns = width + width_of(others)
        roles = _roles(schema, position, n_columns)
        n_gaps = _at_least(_FEWEST_GAPS, len(roles.missing))
        roles = roles._replace(
            thresholded=padded(roles.thresholded, width_of(len(roles.thresholded)), -1),
            missing=padded(roles.missing, n_gaps, -1),
        )
        n_categories = _at_least(_FEWEST_CATEGORIES, _most_categories(schema))
        return cls(
            Columns(width, max(n_categories, 1), oblique and schema.n_columns > 1),
            roles,
            position,
            n_columns,
            _at_least(_FEWEST_DISCRETE, len(schema.discrete)),
        )

    @classmethod
    def none(cls, schema: TableSchema, *, oblique: bool) -> Padding:
        """Tables of a schema as they are."""
        n = schema.n_columns
        n_categories = max(_most_categories(schema), 1)
        return cls(
            Columns(schema.n_regressors, n_categories, oblique and n > 1),
            _roles(schema, np.arange(n), n),
            np.arange(n),
            n,
            len(schema.discrete),
        )

    @property
    def is_exact(self) -> bool:
        """Whether there is no padding among the continuous columns."""
        return len(self.position) == self.n_columns

    def wider(self, values: np.ndarray) -> np.ndarray:
        """Values with the columns along their last axis, and zeros between them."""
        if self.is_exact:
            return values
        found = np.zeros((*values.shape[:-1], self.n_columns), values.dtype)
        found[..., self.position] = values
        return found

    def wider_codes(self, codes: np.ndarray) -> np.ndarray:
        """Codes with the discrete attributes along their last axis, and zeros."""
        return _longer(codes, self.n_discrete)

    def wider_models(self, coefficient: np.ndarray) -> np.ndarray:
        """Intercepts and slopes along the last axis, with slopes of zero."""
        return _longer(coefficient, 1 + self.columns.n_regressors)

    def wider_allowed(self, allowed: np.ndarray) -> np.ndarray:
        """Which attributes are allowed; padding is not."""
        n = len(self.position)
        return np.concatenate(
            [self.wider(allowed[:, :n]), self.wider_codes(allowed[:, n:])], axis=1
        )

    def narrower(self, found: Split, n_regressors: int) -> Split:
        """Convert splits of padded columns to splits of the table.

        ``found``: with a leading axis of nodes; ``n_regressors``: of the table.
        """
        models: Any = found.child_models
        return found._replace(
            **self._narrower(found),
            child_models=None if models is None else models[..., : 1 + n_regressors],
            conditions=None
            if found.conditions is None
            else found.conditions._replace(**self._narrower(found.conditions)),
        )

    def _narrower(self, found: Any) -> dict[str, np.ndarray]:
        """Attributes and directions of splits or conditions in the table."""
        column = np.full(max(self.n_columns, self.n_discrete), -1, np.int32)
        column[self.position] = np.arange(len(self.position), dtype=np.int32)
        # Discrete attributes have numbers of their own, without gaps.
        along = (found.kind != SplitKind.DISCRETE) & (found.attribute >= 0)
        attribute = found.attribute.copy()
        attribute[along] = column[attribute[along]]
        direction = found.direction[..., self.position]
        return {"attribute": attribute, "direction": direction}


def _longer(values: np.ndarray, n: int) -> np.ndarray:
    """Values with zeros at the end of their last axis."""
    n_more = n - values.shape[-1]
    pairs = [(0, 0)] * (values.ndim - 1)
    return np.pad(values, [*pairs, (0, n_more)]) if n_more else values


def _most_categories(schema: TableSchema) -> int:
    return max((len(c) for c in schema.categories), default=0)


def _roles(schema: TableSchema, position: np.ndarray, n_columns: int) -> Roles:
    n, n_indicators = schema.n_regressors, schema.n_indicators
    indicators = range(n - n_indicators, n)
    with_gaps = [column for column, _ in schema.missing_columns]
    # Being missing is an attribute of its own; a category alone is none.
    thresholded = [
        column
        for column in (
            *(gap for _, gap in schema.missing_columns if gap in indicators),
            *(i for i in range(schema.n_columns) if i not in indicators),
        )
        if column not in with_gaps
    ]
    combined = np.zeros(n_columns, bool)
    combined[position] = True
    combined[position[n - n_indicators : n]] = False
    # Both sides of a sum in contrary directions could only predict the same.
    for attribute, _ in schema.monotonic:
        combined[position[schema.position_of(attribute)]] = False
    where = np.array(thresholded, int)
    missing = np.array(schema.missing_columns, int).reshape(-1, 2)
    return Roles(
        position[where].astype(np.int32), position[missing].astype(np.int32), combined
    )
