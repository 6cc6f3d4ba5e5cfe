"""Blended gates: a hard tree whose splits all become sigmoids of one relative width."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from secret_jax.fitting import FittedTree, LeafOptions, Rows, join, with_models
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
    leaf: LeafOptions,
    options: BlendOptions,
    *,
    refit: bool,
    progress: Progress | None = None,
) -> Blended:
    """Choose among the pruned trees, and one width for all gates, on the pruning rows.

    Nothing is trained, and the hard tree is among the choices. The models are those of
    the hard tree.

    Parameters
    ----------
    fitted : FittedTree
    training, pruning : Rows
    leaf : LeafOptions
    options : BlendOptions
    refit : bool
        Fit the models, and measure the deviations, again on all rows.
    progress : callable, optional

    Returns
    -------
    Blended
    """
    best, tree, width = np.inf, fitted.candidates[0].pruned, 0.0
    for candidate in fitted.candidates:
        deviation = deviations(candidate.pruned, training)
        for relative in options.widths if candidate.pruned.n_leaves > 1 else (0.0,):
            soft = with_widths(candidate.pruned, relative, deviation)
            error = squared_error(soft, pruning)
            if error < best:
                best, tree, width = error, candidate.pruned, relative
    if progress is not None:
        progress(f"blended gates of {width:g} deviations")
    if width == 0.0:
        return Blended(fitted.tree, width)
    rows = training
    if refit:
        rows = join(training, pruning)
        tree = with_models(tree, rows, tree.schema, leaf)
    return Blended(with_widths(tree, width, deviations(tree, rows)), width)


def squared_error(tree: Tree, rows: Rows) -> float:
    """Weighted sum of squared errors, in standardised units squared."""
    prediction = tree.schema.scale_target(predict(tree, rows.table))
    return float(rows.weight @ (prediction - rows.y) ** 2)
