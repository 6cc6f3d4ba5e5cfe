"""How much of the target's variance a tree explains through each column."""

from __future__ import annotations

import numpy as np

from secret_jax.data.schema import TableSchema
from secret_jax.inspect.shares import column_shares, split_columns
from secret_jax.tree.structure import Tree

# The share of the variance that rounding leaves of a constant target.
_ROUNDING = 1e-9


def feature_importances(tree: Tree) -> np.ndarray:
    """Share of every input column in the variance that the tree explains in training.

    Parameters
    ----------
    tree : Tree

    Returns
    -------
    ndarray of shape (n_columns,), float64
        Not negative; sums to 1, or is zero everywhere if the tree explains nothing.

    Notes
    -----
    A tree with a model in every node explains variance in steps that add up: the root's
    equation explains a part of it, and every split what the models of its children
    save over the model of the node. Each step is shared among the columns in proportion
    to the variance of what it changes in the equation, columns taken as independent:

    - The part of the root's equation goes to its columns, by slope squared times
      variance.
    - A split changes the intercept (at the training means) and slopes. The change of
      the intercept is due to the columns that the split asks for (`split_columns`). A
      changed slope is an interaction of these with the column of the slope; as in
      Shapley's value, half of it goes to either.

    So the sum over the columns is exact, but the shares of columns that say the same
    are as arbitrary as their slopes, and permuting such a column may cost little.
    Categories are taken as equally frequent. A soft tree is judged by the models of its
    inner nodes, and in its leaves by the error of the mixture.

    Examples
    --------
    >>> from secret_jax import SecretRegressor
    >>> from secret_jax.datasets import make_fried
    >>> X, y = make_fried(500, random_state=0)
    >>> model = SecretRegressor(random_state=0).fit(X, y)
    >>> bool(model.feature_importances_[5:].sum() < 0.1)  # only the first five count
    True
    """
    schema, weight = tree.schema, tree.weight
    if weight[0] <= 0:
        return np.zeros(len(schema.names))
    coefficient = np.asarray(tree.coefficient[:, 0], np.float64)
    error = weight * tree.train_error[:, 0]
    variance = np.r_[1.0, _variances(schema)]
    of_root = (coefficient[0] ** 2 * variance)[1:]
    importance = max(weight[0] - error[0], 0.0) * column_shares(schema, of_root)
    for node in np.flatnonzero(~tree.is_leaf):
        children = [int(tree.left[node]), int(tree.right[node])]
        saved = max(float(error[node] - error[children].sum()), 0.0)
        change = (coefficient[children] - coefficient[node]) ** 2
        change = weight[children] @ change * variance
        of_split = split_columns(tree, int(node))
        total = change.sum()
        if total > 0:
            alone = (change[0] + 0.5 * change[1:].sum()) / total
            joint = 0.5 * change[1:].sum() / total
            of_split = alone * of_split + joint * column_shares(schema, change[1:])
        importance += saved * of_split
    total = importance.sum()
    explained = total > _ROUNDING * weight[0]
    return importance / total if explained else np.zeros_like(importance)


def _variances(schema: TableSchema) -> np.ndarray:
    """Of the standardised regressors, shape (n_regressors,): 1 for numbers."""
    variance = np.ones(schema.n_regressors)
    missing = dict(schema.missing_shares)
    for position, indicator in schema.missing_columns:
        share = missing[schema.input_columns[position]]
        if indicator < schema.n_regressors:
            variance[position] = 1.0 - share  # missing values do not vary
            variance[indicator] = share * (1.0 - share)
    first = schema.n_regressors - schema.n_indicators
    for position, (attribute, _) in enumerate(schema.indicators, first):
        share = 1.0 / len(schema.categories[attribute])
        variance[position] = share * (1.0 - share)
    return variance
