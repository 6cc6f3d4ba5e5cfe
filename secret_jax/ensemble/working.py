"""First models of a booster for classes, and the total error of its predictions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from secret_jax.data.rows import Rows
from secret_jax.losses.interface import Loss
from secret_jax.losses.numbers import SQUARED_ERROR
from secret_jax.models.errors import weighted_errors
from secret_jax.models.fitting import fit_models
from secret_jax.models.glm import Logistic
from secret_jax.tree.routing import values
from secret_jax.tree.structure import Tree

# The greatest curvature, of two classes and of more.
_OF_TWO, _OF_MORE = 0.25, 0.5


def total_error(loss: Loss, rows: Rows, value: np.ndarray) -> float:
    """Total weighted loss of rows at raw predictions (n_rows, n_outputs), float64.

    Squared errors are averaged over the outputs.
    """
    total = float(weighted_errors(value, rows, loss).sum())
    return total / (value.shape[1] if loss == SQUARED_ERROR else 1)


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
    for tree, rows in zip(fit_models(trees, parts, Logistic()), parts, strict=True):
        said = tree.loss.prediction(values(tree, rows.table).astype(np.float64))
        share = rows.weight / rows.weight.sum()
        greatest = _OF_TWO if tree.n_outputs == 1 else _OF_MORE
        error = share @ (rows.targets - said) ** 2 / greatest**2
        new = replace(
            tree,
            loss=SQUARED_ERROR,
            train_error=error[None],
            deviation=tree.deviation / greatest,
        )
        found.append(new)
    return found
