"""Blended gates: all splits of a hard tree become sigmoids of one relative width."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from secret_jax.fit.grow.trees import Recipe
from secret_jax.fit.refine.interface import Fitted, Gates, Refined
from secret_jax.fit.refine.soft.parameters import deviations, with_widths
from secret_jax.models.errors import total_error
from secret_jax.runtime.values import TupleOf, real

_WIDTHS = (0.0, 0.02, 0.04, 0.07, 0.1, 0.15, 0.2, 0.25, 0.3)


@dataclass(frozen=True, kw_only=True)
class Blend(Gates):
    """Gates of one relative width, chosen on held-out folds.

    Nothing is trained, the models are those of the hard tree, and width 0, the hard
    tree itself, is among the choices.

    Attributes
    ----------
    widths : tuple of float
        Relative widths that are tried, in deviations of a split's projection; 0 is the
        hard tree and wins ties where it comes first.

    Examples
    --------
    >>> from secret_jax import SecretRegressor
    >>> from secret_jax.fit.refine.blend import Blend
    >>> SecretRegressor(refine=Blend(widths=(0.0, 0.1))).refine.widths
    (0.0, 0.1)
    """

    widths: Annotated[tuple[float, ...], TupleOf(real(0.0))] = _WIDTHS

    def __call__(self, fitted: Fitted, recipe: Recipe) -> Refined:
        """Soften the tree with the width of least error on the folds."""
        if fitted.tree.n_leaves == 1:
            return Refined(fitted.tree)
        if not fitted.folds:
            reason = (
                "blending needs rows that did not grow the tree; give more, or set "
                "prune='auto', 'holdout' or 'cross-validation'"
            )
            return Refined(fitted.tree, 0, reason)
        errors = np.zeros(len(self.widths))
        stage = recipe.stage("blending")
        for fold, (tree, training, held_out) in enumerate(fitted.folds):
            stage.at(fold, len(fitted.folds))
            deviation = deviations(tree, training)
            for which, width in enumerate(self.widths):
                soft = with_widths(tree, width, deviation)
                errors[which] += total_error(soft, held_out)
        width = self.widths[int(np.argmin(errors))]
        deviation = deviations(fitted.tree, fitted.all_rows())
        return Refined(with_widths(fitted.tree, width, deviation))
