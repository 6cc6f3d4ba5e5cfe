"""Contributions of the columns to predictions, and paths in words."""

from dataclasses import replace
from typing import Any

import numpy as np

from secret_jax.data.rows import Table
from secret_jax.inspect.explanation import Explanation
from secret_jax.inspect.importances import node_levels, split_levels
from secret_jax.inspect.view import View, as_view, estimator_of
from secret_jax.inspect.words import path_sentence
from secret_jax.tree.routing import leaf_shares_of
from secret_jax.tree.structure import Tree

_ROW_BLOCK = 16384  # bounds the memory: a block needs n_leaves shares per row


def explain(model: Any, X: Any, *, output: int | str | None = None) -> Explanation:
    """Take predictions apart: paths in words and additive contributions.

    On the way down every split moves the level, what a node's equation says at the
    center of its own rows and usually their mean, and that step is due to the columns
    that the split asks for. From the center of the leaf the equation is then moved to
    the row, column by column (its *linear* part). Of a soft tree the terms of all
    leaves are mixed by their shares of the row.

    Parameters
    ----------
    X : array-like or DataFrame of shape (n_rows, n_features)
    output : int or str, optional
        Which of several outputs of numbers. Of several classes each row tells of its
        predicted class, unless one is named here.

    Returns
    -------
    secret_jax.inspect.explanation.Explanation
        Of classes with their probabilities; what is taken apart are log-odds. Of
        losses whose equations are of logarithms these are.

    Examples
    --------
    >>> from secret_jax import SecretRegressor
    >>> from secret_jax.datasets import make_fried
    >>> X, y = make_fried(500, random_state=0)
    >>> why = SecretRegressor(random_state=0).fit(X, y).explain(X[:3])
    >>> total = why.baseline + why.contributions.sum(axis=1) + why.clipping
    >>> bool(abs(total - why.prediction).max() < 1e-9)
    True
    """
    model = estimator_of(model)
    view = as_view(model, output)
    tree, table = model._tree_and_rows(X)
    values = tree.schema.as_written(tree.schema.columns_of(X))
    return explain_rows(view, table.on_host(), values)


def explain_rows(view: View, table: Table, values: np.ndarray) -> Explanation:
    """Take the predictions for encoded rows apart; ``values`` are those of the words.

    Of several classes, unless the view reads one, each row tells of the one that is
    predicted.
    """
    equations = view.equations
    schema, n_rows = equations[0].schema, len(table.x)
    of_row = np.zeros(n_rows, int)
    classes, probability, predicted = (), np.zeros((n_rows, 0)), None
    if view.classes:
        classes = view.classes.labels
        probability = replace(view, only=None).predict(table)
        chosen = view.classes.chosen(probability)
        of_row = chosen if len(equations) > 1 else of_row
        labels = np.empty(len(classes), object)
        labels[:] = classes
        predicted = labels[chosen]
    linear, splits = np.zeros((2, n_rows, len(schema.names)))
    clipping, share = np.zeros((2, n_rows))
    unknown = np.zeros(linear.shape, bool)
    unknown[:, schema.discrete] = table.codes < 0
    leaf = np.zeros(n_rows, np.int32)
    shown = np.unique(of_row).tolist() or [0]
    for which in shown:
        rows = np.flatnonzero(of_row == which)
        for start in range(0, len(rows), _ROW_BLOCK):
            block = rows[start : start + _ROW_BLOCK]
            part = _contributions(equations[which], table.take(block))
            linear[block], splits[block], clipping[block] = part[:3]
            leaf[block], share[block] = part[3:]
    levels = [(tree.schema, node_levels(tree)[0]) for tree in equations]
    starts = [float(schema.restore_target(level)) for schema, level in levels]
    alike, baseline = len(shown) == 1, np.array(starts)[of_row]
    targets = [tree.schema.target_name for tree in equations]
    words = {n: path_sentence(equations[0], n) for n in {*leaf.tolist()}}
    prediction = baseline + (linear + splits).sum(axis=1) + clipping
    outcome = ""
    if not (classes or view.tree.says_targets):
        outcome = view.target
        predicted = view.tree.loss.prediction(prediction)
    return Explanation(
        target=targets[shown[0]] if alike else tuple(targets[i] for i in of_row),
        names=schema.names,
        values=values,
        categorical=tuple(i in schema.discrete for i in range(len(schema.names))),
        unknown=unknown,
        baseline=starts[shown[0]] if alike else baseline,
        linear=linear,
        splits=splits,
        clipping=clipping,
        prediction=prediction,
        leaf=leaf,
        share=share,
        path=tuple(words[node] for node in leaf.tolist()),
        classes=classes,
        outcome=outcome,
        predicted=prediction if predicted is None else predicted,
        probability=probability,
    )


def _contributions(tree: Tree, table: Table) -> tuple[np.ndarray, ...]:
    """Take the predictions of a tree of one output apart along the rows' paths.

    Returns what `Explanation` calls linear, splits, clipping, leaf and share.
    """
    schema, leaves = tree.schema, np.flatnonzero(tree.is_leaf)
    n_regressors, scale = schema.n_regressors, schema.target_scale
    coefficient = np.asarray(tree.coefficient[leaves, 0], np.float64)
    slope, center = coefficient[:, 1:], tree.center[leaves]
    to_input = np.zeros((n_regressors, len(schema.names)))
    inputs = np.array(schema.input_columns[:n_regressors], int)
    to_input[np.arange(n_regressors), inputs] = 1.0
    low, high = (side[:, 0] for side in tree.clip_range())
    x = table.x[:, :n_regressors].astype(np.float64)
    shares = leaf_shares_of(tree, table).astype(np.float64)
    shares /= shares.sum(axis=1, keepdims=True)
    moved = x * (shares @ slope) - shares @ (slope * center)
    value = x @ slope.T + coefficient[:, 0]
    if tree.clip_leaves or not tree.is_soft:
        clipped = np.clip(value, low[leaves], high[leaves])
        clipping = (shares * (clipped - value)).sum(axis=1)
    else:
        mixed = (shares * value).sum(axis=1)
        clipping = np.clip(mixed, low[0], high[0]) - mixed
    largest = np.argmax(shares, axis=1)
    share, of_splits = shares[np.arange(len(x)), largest], split_levels(tree)[leaves]
    parts = (moved @ to_input, shares @ of_splits, clipping)
    return *(scale * part for part in parts), leaves[largest], share
