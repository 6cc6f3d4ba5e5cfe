"""Interventional Shapley values: what each column adds against given other rows."""

from __future__ import annotations

import numpy as np

from secret_jax.data.rows import Table
from secret_jax.tree.routing import said
from secret_jax.tree.structure import Tree


def shapley_values(
    tree: Tree, table: Table, background: Table, *, n_permutations: int = 32
) -> tuple[np.ndarray, float]:
    """Contributions of the columns to predictions, against those of background rows.

    The value of a set of columns is the mean prediction of the background rows with
    these columns replaced by those of the row; a column's Shapley value is the mean of
    what it adds, over all orders. Orders and background rows are drawn; every order
    comes with its reverse, which halves what chance adds.

    Parameters
    ----------
    tree : Tree
        Of a single output.
    table, background : Table
        Rows encoded with ``tree.schema``.
    n_permutations : int, default=32
        Orders that are drawn, with their reverses; each meets one background row.

    Returns
    -------
    contributions : ndarray of shape (n_rows, n_columns), float64
        With the baseline they sum to the prediction of each row.
    baseline : float
        Mean prediction of the background rows that were drawn.

    References
    ----------
    E. Strumbelj and I. Kononenko. Explaining Prediction Models and Individual
    Predictions with Feature Contributions. Knowledge and Information Systems 41, 2014.
    """
    schema, n_rows = tree.schema, len(table.x)
    n_columns = len(schema.names)
    encoded = np.array(schema.input_columns, int)
    discrete = np.array(schema.discrete, int)
    random = np.random.default_rng(0)
    x, others = np.asarray(table.x), np.asarray(background.x)
    contributions = np.zeros((n_rows, n_columns))
    baseline = 0.0
    # All background rows about equally often.
    drawn = np.resize(random.permutation(len(others)), n_permutations)
    for one in drawn:
        forward = random.permutation(n_columns)
        for order in (forward, forward[::-1]):
            mixed = np.repeat(others[one][None], n_rows, axis=0)
            codes = np.repeat(background.codes[one][None], n_rows, axis=0)
            before = said(tree, Table(mixed, codes))
            baseline += float(before[0]) if n_rows else 0.0
            for column in order:
                of_column, of_code = encoded == column, discrete == column
                mixed[:, of_column] = x[:, of_column]
                codes[:, of_code] = table.codes[:, of_code]
                after = said(tree, Table(mixed.copy(), codes.copy()))
                contributions[:, column] += after - before
                before = after
    n_orders = 2 * n_permutations
    return contributions / n_orders, baseline / n_orders
