"""Stacking of two boosters, weighted by their error on held-out rows.

Stacking (Wolpert 1992; Breiman 1996) with a single weight: trees with linear models and
trees of constants are wrong in different places.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar

from secret_jax.data.rows import Rows
from secret_jax.ensemble.race import Runner
from secret_jax.ensemble.working import total_error
from secret_jax.losses.interface import Loss

# A member with a smaller weight is not worth its trees.
_LEAST_SHARE = 0.05


@dataclass(frozen=True, eq=False, kw_only=True)
class Mixture:
    """Weighted mean of boosters.

    Attributes
    ----------
    runners : tuple of Runner
        The first one leads.
    shares : tuple of float
        Weights, which sum to 1.
    unseen : ndarray of shape (n_rows, n_outputs), float64, or None
        Predictions of the mixture for rows that its boosters have not seen, or NaN;
        None where nothing was left out.
    error : float
        Mean loss there, as of a runner's errors; NaN where nothing was left out.
    """

    runners: tuple[Runner, ...]
    shares: tuple[float, ...]
    unseen: np.ndarray | None
    error: float


def mixed(leaders: Sequence[Runner], rows: Rows, loss: Loss) -> Mixture:
    """Choose the weights of the two best kinds of boosters.

    Parameters
    ----------
    leaders : sequence of Runner
        One of each kind, the best one first.

    Returns
    -------
    Mixture
        Mixture of the best one alone if the other adds next to nothing.
    """
    first = leaders[0]
    if first.unseen is None:
        return Mixture(runners=(first,), shares=(1.0,), unseen=None, error=np.nan)
    known = np.isfinite(first.unseen).all(axis=1)
    judges = rows.take(np.flatnonzero(known))

    def error(prediction: np.ndarray) -> float:
        total = total_error(loss, judges, prediction[known])
        return total / float(judges.weight.sum())

    alone = error(first.unseen)
    best = Mixture(runners=(first,), shares=(1.0,), unseen=first.unseen, error=alone)
    if len(leaders) == 1:
        return best
    second = leaders[1]
    assert second.unseen is not None
    base, change = first.unseen, second.unseen - first.unseen
    found = minimize_scalar(
        lambda share: error(base + share * change), bounds=(0.0, 1.0), method="bounded"
    )
    share, together = float(found.x), float(found.fun)  # pyright: ignore[reportAttributeAccessIssue]
    if min(share, 1.0 - share) < _LEAST_SHARE or together >= alone:
        return best
    return Mixture(
        runners=(first, second),
        shares=(1.0 - share, share),
        unseen=base + share * change,
        error=together,
    )
