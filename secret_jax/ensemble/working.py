"""Targets of a booster's trees: residuals, or Newton steps of a loss.

Of classes a tree is fitted to the steps of Newton's method, one for each row, by
weighted least squares (Friedman, Hastie & Tibshirani 2000). All classes share the
splits of a tree, and so a row has one weight: a bound of the curvature in any direction
in place of the curvature of each class.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from secret_jax.data.rows import Rows
from secret_jax.losses.classes import CrossEntropy
from secret_jax.models.attach import attach
from secret_jax.models.logistic import Logistic
from secret_jax.tree.routing import values
from secret_jax.tree.structure import Tree

# Maximum Newton step of a row, reached where the probability is confidently wrong.
_LONGEST_STEP = 4.0
# Maximum weight of a row relative to the mean: where most rows are sure, the others
# would dominate.
_MOST_SHARE = 2.0
# The greatest curvature, of two classes and of more.
_OF_TWO, _OF_MORE = 0.25, 0.5


class Working(NamedTuple):
    """Working targets and weights of a tree.

    Attributes
    ----------
    targets : ndarray of shape (n_rows, n_outputs), float64
    weight : ndarray of shape (n_rows,), float64
    """

    targets: np.ndarray
    weight: np.ndarray


def working(loss: CrossEntropy | None, rows: Rows, value: np.ndarray) -> Working:
    """Compute residuals, or Newton steps and weights, at given predictions.

    Parameters
    ----------
    loss : CrossEntropy or None
        None: squared error.
    value : ndarray of shape (n_rows, n_outputs), float64
        Predictions of the trees so far.

    Returns
    -------
    Working
        Of classes the weights are those of the rows in other shares, less where the
        classes are sure: as many rows stand behind a leaf as before.
    """
    if loss is None:
        return Working(rows.targets - value, rows.weight)
    n_outputs = rows.targets.shape[1]
    pairs = [loss.working(rows.targets, value, output) for output in range(n_outputs)]
    slope, own = (np.stack(arrays, axis=1) for arrays in zip(*pairs, strict=True))
    # Of several classes: sums of the rows of the Hessian diag(p) - p p' are at most
    # 2 p (1 - p), and so are its eigenvalues (Gershgorin).
    curvature = own[:, 0] if n_outputs == 1 else 2.0 * own.max(axis=1)
    step = np.clip(slope / curvature[:, None], -_LONGEST_STEP, _LONGEST_STEP)
    total = rows.weight.sum()
    share = np.minimum(curvature / (rows.weight @ curvature / total), _MOST_SHARE)
    weight = rows.weight * share
    return Working(step, weight * (total / weight.sum()))


def total_error(loss: CrossEntropy | None, rows: Rows, value: np.ndarray) -> float:
    """Total weighted loss of rows: squared errors are averaged over outputs.

    Parameters
    ----------
    value : ndarray of shape (n_rows, n_outputs), float64
    """
    if loss is None:
        return float(rows.weight @ ((rows.targets - value) ** 2).mean(axis=1))
    return float(rows.weight @ loss.losses(rows.targets, value).sum(axis=1))


def started(trees: Sequence[Tree], parts: Sequence[Rows]) -> list[Tree]:
    """Fit logistic regressions as single leaves: the first models of classifiers.

    Their errors are in the units of the steps of further trees.

    Parameters
    ----------
    trees : sequence of Tree
        Single leaves.
    parts : sequence of Rows
        Training rows of each tree, with indicators of the classes.
    """
    found = []
    for tree, rows in zip(attach(trees, parts, Logistic()), parts, strict=True):
        loss = tree.loss or CrossEntropy()
        said = loss.prediction(values(tree, rows.table).astype(np.float64))
        share = rows.weight / rows.weight.sum()
        greatest = _OF_TWO if tree.n_outputs == 1 else _OF_MORE
        error = share @ (rows.targets - said) ** 2 / greatest**2
        new = replace(
            tree,
            loss=None,
            train_error=error[None],
            deviation=tree.deviation / greatest,
        )
        found.append(new)
    return found
