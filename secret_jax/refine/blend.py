"""Blended gates: a hard tree whose splits all become sigmoids of one relative width."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from secret_jax.fitting import FittedTree, Rows
from secret_jax.grow.grower import Progress
from secret_jax.options import BlendOptions
from secret_jax.refine.soft.parameters import deviations, with_widths
from secret_jax.tree.routing import predict
from secret_jax.tree.structure import Tree


class Blended(NamedTuple):
    """A tree with gates of one relative width; hard if that is 0."""

    tree: Tree
    width: float


def blend(
    fitted: FittedTree,
    rows: Rows,
    options: BlendOptions,
    *,
    progress: Progress | None = None,
) -> Blended:
    """Choose one relative width for all gates on rows that were held out.

    Nothing is trained, the models are those of the hard tree, and width 0, the hard
    tree itself, is among the choices.

    Parameters
    ----------
    fitted : FittedTree
        Its trials choose the width.
    rows : Rows
        Those that trained its tree.
    options : BlendOptions
    progress : callable, optional

    Returns
    -------
    Blended
    """
    if fitted.tree.n_leaves == 1:
        return Blended(fitted.tree, 0.0)
    errors = np.zeros(len(options.widths))
    for tree, training, held_out in fitted.trials:
        deviation = deviations(tree, training)
        for which, width in enumerate(options.widths):
            soft = with_widths(tree, width, deviation)
            errors[which] += squared_error(soft, held_out)
    width = options.widths[int(np.argmin(errors))]
    if progress is not None:
        progress(f"blended gates of {width:g} deviations")
    deviation = deviations(fitted.tree, rows)
    return Blended(with_widths(fitted.tree, width, deviation), width)


def squared_error(tree: Tree, rows: Rows) -> float:
    """Weighted sum of squared errors, in standardised units squared."""
    prediction = tree.schema.scale_target(predict(tree, rows.table))
    return float(rows.weight @ (prediction - rows.y) ** 2)
