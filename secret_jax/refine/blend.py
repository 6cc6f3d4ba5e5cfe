"""Blended gates: a hard tree whose splits all become sigmoids of one relative width."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from secret_jax.fitting import FittedTree, Rows, join
from secret_jax.grow import Progress
from secret_jax.options import BlendOptions
from secret_jax.refine.gates import deviations, with_widths
from secret_jax.tree import Tree, predict


class Blended(NamedTuple):
    """A tree with gates of one relative width; hard if that is 0."""

    tree: Tree
    width: float


def blend(
    fitted: FittedTree,
    training: Rows,
    pruning: Rows,
    options: BlendOptions,
    *,
    refit: bool,
    progress: Progress | None = None,
) -> Blended:
    """Choose one relative width for all gates of the pruned tree on the pruning rows.

    Nothing is trained, the models are those of the hard tree, and width 0, the hard
    tree itself, is among the choices.

    Parameters
    ----------
    fitted : FittedTree
    training, pruning : Rows
    options : BlendOptions
    refit : bool
        Measure the deviations again on all rows, as the models of the tree were.
    progress : callable, optional

    Returns
    -------
    Blended
    """
    pruned, tree = fitted.candidates[0].pruned, fitted.tree
    if tree.n_leaves == 1:
        return Blended(tree, 0.0)
    deviation = deviations(pruned, training)
    errors = [
        squared_error(with_widths(pruned, width, deviation), pruning)
        for width in options.widths
    ]
    width = options.widths[int(np.argmin(errors))]
    if progress is not None:
        progress(f"blended gates of {width:g} deviations")
    rows = join(training, pruning) if refit else training
    return Blended(with_widths(tree, width, deviations(tree, rows)), width)


def squared_error(tree: Tree, rows: Rows) -> float:
    """Weighted sum of squared errors, in standardised units squared."""
    prediction = tree.schema.scale_target(predict(tree, rows.table))
    return float(rows.weight @ (prediction - rows.y) ** 2)
