"""Head that is a weighted mean of processes, with and without the tree's equations."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np
from scipy.optimize import nnls

from secret_jax.composed.kernel.gp import FittedProcess, GaussianProcess
from secret_jax.composed.kernel.interface import HeadFit, Regions, Voices
from secret_jax.tree.state import recorded

# How much the sum of the shares, which is one, counts beside the errors.
_SUM_COUNTS = 1e3


@dataclass(frozen=True, kw_only=True)
class Stacking(GaussianProcess):
    """Mean of processes, weighted by what they say of rows that they left out.

    One process of what the tree's equations leave, and one of the target, which knows
    of the tree its regions only; each with columns that count alike, and again with
    columns that count as is likeliest. Their shares are those of least squared
    leave-one-out error that are not negative and have a sum of one (Breiman 1996).

    Attributes
    ----------
    relevances : bool, default=True
        Whether the processes whose columns count more or less are among them.

    References
    ----------
    L. Breiman. Stacked Regressions. Machine Learning 24, 1996.
    """

    relevances: bool = True

    def fit(self, rows: Regions) -> HeadFit:
        options = {part.name: getattr(self, part.name) for part in fields(self)}
        # Over constants, which processes replace, there is nothing to add to.
        heads = [
            (part, GaussianProcess(**{**options, "relevances": by_column}))
            for part in ([1.0, 0.0] if rows.base.any() else [0.0])
            for by_column in sorted({False, self.relevances})
        ]
        fits = [head.fit(rows._replace(base=part * rows.base)) for part, head in heads]
        left_out = np.stack([fit.left_out for fit in fits])
        share = shares(left_out, rows.target, rows.weight)
        kept = np.flatnonzero(share)
        model = FittedStack([(heads[i][0], fits[i].model) for i in kept], share[kept])
        fitted = np.tensordot(share, [fit.fitted for fit in fits], 1)
        return HeadFit(model, fits[0].row, fitted, np.tensordot(share, left_out, 1))


def shares(left_out: np.ndarray, target: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Shares of predictions (n, n_rows, n_outputs) in their mean of least error.

    Examples
    --------
    >>> target = np.array([[1.0], [2.0]])
    >>> shares(np.stack([target - 1, target + 3, 0 * target]), target, np.ones(2))
    array([0.75, 0.25, 0.  ])
    """
    error = (np.sqrt(weight)[:, None] * (left_out - target)).reshape(len(left_out), -1)
    total = _SUM_COUNTS * (np.linalg.norm(error) or 1.0)
    share, _ = nnls(
        np.vstack([error.T, np.full(len(error), total)]),
        np.append(np.zeros(error.shape[1]), total),
    )
    return share / share.sum()


@recorded
class FittedStack(NamedTuple):
    """Processes, each with the part of the tree's prediction that it adds to."""

    models: Sequence[tuple[float, FittedProcess]]
    share: np.ndarray  # (n_models,), float64

    def predict(
        self, x: np.ndarray, leaf: np.ndarray, base: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """See `HeadFit`; the deviation is that of the mixture of the processes."""
        said = [model.predict(x, leaf, part * base) for part, model in self.models]
        value, deviation = np.moveaxis(np.array(said), 0, -1)
        mean = value @ self.share
        variance = deviation**2 + (value - mean[..., None]) ** 2
        return mean, np.sqrt(variance @ self.share)

    def voices(self, x: np.ndarray, leaf: np.ndarray, n: int) -> Voices:
        """See `HeadFit`; a row may speak once for each process."""
        every = [model.voices(x, leaf, n) for _, model in self.models]
        every = [
            one._replace(share=share * one.share)
            for share, one in zip(self.share, every, strict=True)
        ]
        leaves, center, said = (
            np.concatenate(one, 1) for one in zip(*every, strict=True)
        )
        loudest = np.argsort(-np.abs(said).sum(axis=2), axis=1, kind="stable")[:, :n]
        row = np.arange(len(x))[:, None]
        return Voices(leaves[row, loudest], center[row, loudest], said[row, loudest])
