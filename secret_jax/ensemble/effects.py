"""Effects of columns in boosters: importances, partial dependence, interactions."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np

from secret_jax.data.rows import Rows, Table
from secret_jax.data.schema import TableSchema
from secret_jax.ensemble.model import Ensemble
from secret_jax.inspect.importances import savings

# Predictions that are asked for together.
_MOST_ROWS = 1 << 16


def booster_importances(ensemble: Ensemble, output: int = 0) -> np.ndarray:
    """Share of every column in the reduction of squared training error.

    Returns (n_columns,), float64: not negative; sums to 1, or is zero everywhere if
    nothing is explained. A step of a share of a tree saves less than the tree by
    itself, ``s (2 - s)`` of it. What a single tree saves is shared out by
    `secret_jax.inspect.importances.feature_importances`.
    """
    total = np.zeros(len(ensemble.schema.names))
    for booster, share in zip(ensemble.boosters, ensemble.shares, strict=True):
        for number, whole in enumerate(booster):
            tree = whole.output(output) if whole.n_outputs > 1 else whole
            step = ensemble.learning_rate if number else 1.0
            square = float(tree.weight[0] * tree.deviation[0, 0] ** 2)
            total += share * step * (2.0 - step) * savings(tree, square)
    return total / total.sum() if total.sum() > 0 else total


class Quantity(NamedTuple):
    """What is analysed of an ensemble."""

    ensemble: Ensemble
    label: str  # name of what is averaged
    # Computes it, of shape (n_rows, n_numbers), from predictions of the ensemble in
    # standardised units.
    of_values: Callable[[np.ndarray], np.ndarray]
    # (n_columns,), float64: importances of the columns for it; see
    # `booster_importances`.
    importances: np.ndarray
    # Whose probabilities the numbers are, if there are several.
    classes: tuple[str, ...] = ()

    def of(self, table: Table) -> np.ndarray:
        """Predict it, shape (n_rows, n_numbers)."""
        starts = range(0, len(table.x), _MOST_ROWS)
        blocks = [table.take(slice(start, start + _MOST_ROWS)) for start in starts]
        each = [self.of_values(self.ensemble.values(block)) for block in blocks]
        return np.concatenate(each)


@dataclass(frozen=True, eq=False, kw_only=True)
class Effect:
    """Partial dependence of the prediction on one column."""

    name: str
    values: np.ndarray  # (n_values,): numbers in the units of the column, or categories
    # (n_values,), or (n_values, n_classes), float64: in the units of the target; of
    # classes mean probabilities.
    mean: np.ndarray
    is_category: bool
    label: str  # "mean of price" or "mean probability of yes"
    classes: tuple[str, ...] = ()  # names of several classes


class Interaction(NamedTuple):
    """Pair of columns with the strength of its interaction."""

    first: str
    second: str
    # Share of the variance of the predictions due to the joint effect of the two,
    # beyond their single effects.
    share: float


def effect(quantity: Quantity, rows: Rows, name: str | int, n_points: int) -> Effect:
    """Compute the partial dependence on one column (Friedman 2001, section 8.2).

    Every row takes each of the values in turn while its other columns stay, and the
    predictions are averaged: exactly, over all rows.
    """
    schema = quantity.ensemble.schema
    column = schema.index_of(name)
    if column in schema.discrete:
        attribute = schema.discrete.index(column)
        observed = rows.table.codes[:, attribute]
        codes, source = np.unique(observed, return_index=True)
        codes, source = codes[codes >= 0], source[codes >= 0]
        categories = schema.categories[attribute]
        values = np.array([categories[code] for code in codes.tolist()], object)
    else:
        position = schema.position_of(column)
        numbers, source = _quantiles(schema, rows, position, n_points)
        values = schema.center[position] + schema.scale[position] * numbers
    n_rows = rows.n_rows
    tables = (
        _taking(schema, rows.table, [column], np.full(n_rows, row)) for row in source
    )
    share = rows.weight / rows.weight.sum()
    mean = np.array([share @ quantity.of(table) for table in tables])
    return Effect(
        name=schema.names[column],
        values=values,
        mean=mean if quantity.classes else mean[:, 0],
        is_category=column in schema.discrete,
        label=quantity.label,
        classes=quantity.classes,
    )


def interactions(quantity: Quantity, rows: Rows, n_rows: int) -> list[Interaction]:
    """Compute the strength of all pairs of columns (Friedman & Popescu 2008).

    ``n_rows``: number of rows used, the first in hash order: the predictions that are
    needed grow with their square. The largest comes first. The share is the numerator
    of H squared (Friedman & Popescu 2008, equation 44) over the variance of the
    predictions, both summed over the classes, if there are several.
    """
    schema, few = quantity.ensemble.schema, rows.take(slice(n_rows))
    share = few.weight / few.weight.sum()
    used = np.flatnonzero(quantity.importances > 0).tolist()
    own = _centred(quantity.of(few.table), share)
    variance = float((share @ own**2).sum())
    if variance <= 0:
        return []
    single = {c: _dependence(quantity, few, [c], share) for c in used}
    found = []
    for pair in combinations(used, 2):
        both = _dependence(quantity, few, pair, share)
        beyond = both - single[pair[0]] - single[pair[1]]
        names = schema.names[pair[0]], schema.names[pair[1]]
        together = float((share @ beyond**2).sum())
        found.append(Interaction(*names, together / variance))
    return sorted(found, key=lambda each: -each.share)


def _dependence(
    quantity: Quantity, rows: Rows, columns: Sequence[int], share: np.ndarray
) -> np.ndarray:
    """Centred partial dependence on columns, at the rows' own values of them."""
    n_rows = rows.n_rows
    # Every row, with the columns of each row in turn.
    other, own = np.divmod(np.arange(n_rows * n_rows), n_rows)
    table = _taking(quantity.ensemble.schema, rows.table, columns, other, own)
    value = quantity.of(table).reshape(n_rows, n_rows, -1)
    return _centred(np.einsum("ijk,j->ik", value, share), share)


def _taking(
    schema: TableSchema,
    table: Table,
    columns: Sequence[int],
    other: np.ndarray,
    own: np.ndarray | slice = slice(None),
) -> Table:
    """Rows ``own`` of a table, with some columns as rows ``other`` have them."""
    x, codes = table.x[own].copy(), table.codes[own].copy()
    for column in columns:
        for position, its in enumerate(schema.input_columns):
            if its == column:
                x[:, position] = table.x[other, position]
        if column in schema.discrete:
            attribute = schema.discrete.index(column)
            codes[:, attribute] = table.codes[other, attribute]
    return Table(x, codes)


def _quantiles(
    schema: TableSchema, rows: Rows, position: int, n: int
) -> tuple[np.ndarray, np.ndarray]:
    """Observed values at even steps of the rows' weight, each with a row that has it.

    All values if there are few; rows where the value is missing do not count.
    """
    there = np.arange(rows.n_rows)
    indicator = dict(schema.missing_columns).get(position)
    if indicator is not None:
        there = np.flatnonzero(rows.table.x[:, indicator] == 0)
    value, weight = rows.table.x[there, position], rows.weight[there]
    distinct, row, which = np.unique(value, return_index=True, return_inverse=True)
    chosen = np.arange(len(distinct))
    if len(distinct) > n:
        share = np.cumsum(np.bincount(which, weight)) / weight.sum()
        place = np.searchsorted(share, np.linspace(0.0, 1.0, n) - 1e-9)
        chosen = np.unique(np.minimum(place, len(distinct) - 1))
    return distinct[chosen].astype(np.float64), there[row[chosen]]


def _centred(value: np.ndarray, share: np.ndarray) -> np.ndarray:
    return value - share @ value
