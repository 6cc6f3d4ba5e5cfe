"""Shares of the columns in what a tree explains, in splits and changes of equations."""

import numpy as np

from secret_jax.tree.structure import SplitKind, Tree

# The share of the variance that rounding leaves of a constant target.
_ROUNDING = 1e-9
_NOTHING = 1e-300  # below every sum of squares; shares of zero stay zero


def feature_importances(tree: Tree, output: int = 0) -> np.ndarray:
    """Compute the share of every input column in the explained variance of training.

    Parameters
    ----------
    output : int
        Which of several.

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

    - The part of the root's equation goes to its columns, by slope squared times the
      variance of the column in training (of categories: of their terms together).
    - A split changes the equations of its children. By how much they differ from the
      equation of the node at the center of the child's own rows is due to the columns
      that the split asks for (`split_columns`). A changed slope, times the variance of
      its column in the child, is an interaction of these with the column of the slope;
      as in Shapley's value, half of it goes to either.

    So the sum over the columns is exact, but the shares of columns that say the same
    are as arbitrary as their slopes, and permuting such a column may cost little.

    Examples
    --------
    >>> from secret_jax import SecretRegressor
    >>> from secret_jax.datasets import make_fried
    >>> X, y = make_fried(500, random_state=0)
    >>> model = SecretRegressor(random_state=0).fit(X, y)
    >>> bool(model.feature_importances_[5:].sum() < 0.1)  # only the first five count
    True
    """
    weight = tree.weight
    if weight[0] <= 0:
        return np.zeros(len(tree.schema.names))
    # The mean error if the root said the same of all rows.
    constant = tree.loss.of_constant(tree.mean[0])
    if constant is None:  # as if errors grew with the variance of values
        error = tree.train_error[0]
        noise = np.maximum(tree.loss.noise(error, tree.mean[0]), _NOTHING)
        slopes = np.asarray(tree.coefficient[0, output, 1:], np.float64)
        constant = error * (1.0 + sum_variances(tree, 0, slopes).sum() / noise)
    square = float(weight[0] * constant[output])
    importance = savings(tree.restricted(output), square)
    total = importance.sum()
    explained = total > _ROUNDING * weight[0]
    return importance / total if explained else np.zeros_like(importance)


def savings(tree: Tree, square: float) -> np.ndarray:
    """Squared error that a tree of one output saves through every column.

    ``square`` is the total error if the root predicted the same for all rows.
    """
    weight = tree.weight
    coefficient = np.asarray(tree.coefficient[:, 0], np.float64)
    error = weight * tree.train_error[:, 0]
    of_root = sum_variances(tree, 0, coefficient[0, 1:])
    importance = max(square - error[0], 0.0) * in_proportion(of_root)
    for node in np.flatnonzero(~tree.is_leaf):
        children = [int(tree.left[node]), int(tree.right[node])]
        saved = max(float(error[node] - error[children].sum()), 0.0)
        change = coefficient[children] - coefficient[node]
        slopes = change[:, 1:]
        level = change[:, 0] + np.einsum("cj,cj->c", slopes, tree.center[children])
        alone = float(weight[children] @ level**2)
        joint = weight[children] @ [
            sum_variances(tree, child, slope)
            for child, slope in zip(children, slopes, strict=True)
        ]
        of_split = split_columns(tree, int(node))
        total = alone + joint.sum()
        if total > 0:
            half = 0.5 * joint.sum() / total
            of_split = (1.0 - half) * of_split + half * in_proportion(joint)
        importance += saved * of_split
    return importance


def in_proportion(parts: np.ndarray) -> np.ndarray:
    """Parts that are not negative as shares of their sum; zeros stay zeros."""
    return parts / max(parts.sum(), _NOTHING)


def sum_variances(tree: Tree, node: int, slopes: np.ndarray) -> np.ndarray:
    """Variance that each input column, with its indicators, adds to a sum in a node."""
    schema = tree.schema
    columns = np.array(schema.input_columns[: len(slopes)], int)
    first = len(slopes) - schema.n_indicators
    categories = slice(first, first + len(schema.indicators))
    square = (slopes * tree.spread[node]) ** 2
    share, worth = tree.center[node, categories], slopes[categories]
    square[categories] = share * worth**2
    variance, mean = np.zeros((2, len(schema.names)))
    np.add.at(variance, columns, square)
    np.add.at(mean, columns[categories], share * worth)
    return np.maximum(variance - mean**2, 0.0)


def split_columns(tree: Tree, node: int) -> np.ndarray:
    """Share of every input column in a split: squares of standardised coefficients."""
    schema = tree.schema
    total = np.zeros(len(schema.names))
    for one in tree.comparisons_at(node):
        if tree.kind[one] == SplitKind.DISCRETE:
            columns, parts = [schema.discrete[tree.attribute[one]]], 1.0
        else:
            columns = schema.input_columns
            parts = np.asarray(tree.direction[one], np.float64) ** 2
        shares = np.zeros_like(total)
        np.add.at(shares, np.array(columns, int), parts)
        total += in_proportion(shares)
    return in_proportion(total)
