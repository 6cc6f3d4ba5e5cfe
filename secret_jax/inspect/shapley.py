"""Interventional Shapley values: what each column adds against given other rows."""

from collections.abc import Callable

import numpy as np

from secret_jax.data.rows import Table
from secret_jax.data.schema import TableSchema

# Orders of the columns, with as many reverses, and rows that are predicted at once.
_FEWEST_ORDERS, _MOST_AT_ONCE = 32, 1 << 15


def shapley_values(
    predict: Callable[[Table], np.ndarray],
    schema: TableSchema,
    table: Table,
    background: Table,
) -> tuple[np.ndarray, float]:
    """Contributions of columns to predictions against background rows; the baseline.

    The value of a set of columns is the mean prediction of the background rows with
    these columns replaced by those of the row; a column's Shapley value is the mean of
    what it adds, over all orders. Every background row comes with an order that is
    drawn for it, and with the reverse, which halves what chance adds; a few background
    rows come with several (Strumbelj & Kononenko, Explaining Prediction Models and
    Individual Predictions with Feature Contributions, Knowledge and Information Systems
    41, 2014). The time grows with the product of the rows and with the columns.
    """
    x, codes = (np.asarray(part) for part in table)
    others = Table(*(np.asarray(part) for part in background))
    encoded, discrete = np.array(schema.input_columns), np.array(schema.discrete, int)
    n_rows, n_columns, n_others = len(x), len(schema.names), len(others.x)
    alone = np.asarray(predict(others), np.float64)
    contributions = np.zeros((n_rows, n_columns))
    random = np.random.default_rng(0)
    n_times = -(-_FEWEST_ORDERS // n_others)
    at_once = max(1, _MOST_AT_ONCE // max(n_rows, 1))
    for first in range(0, n_others * n_times if n_rows else 0, at_once):
        rows = np.arange(first, min(first + at_once, n_others * n_times)) % n_others
        forward = np.array([random.permutation(n_columns) for _ in rows])
        for orders in (forward, forward[:, ::-1]):
            # A block for each background row: the rows, its values put in their place.
            mixed = np.repeat(others.x[rows][:, None], n_rows, axis=1)
            mixed_codes = np.repeat(others.codes[rows][:, None], n_rows, axis=1)
            before = np.repeat(alone[rows][:, None], n_rows, axis=1)
            for column in orders.T:
                of_column = encoded == column[:, None]
                of_code = discrete == column[:, None]
                mixed = np.where(of_column[:, None], x, mixed)
                mixed_codes = np.where(of_code[:, None], codes, mixed_codes)
                n_mixed = len(rows) * n_rows
                flat = Table(
                    mixed.reshape(n_mixed, x.shape[1]),
                    mixed_codes.reshape(n_mixed, codes.shape[1]),
                )
                after = np.asarray(predict(flat), np.float64).reshape(before.shape)
                np.add.at(contributions.T, column, after - before)
                before = after
    return contributions / (2 * n_others * n_times), float(alone.mean())
