"""Leaf models of a regressor's loss: like ridge regression and means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from secret_jax.losses.interface import Loss
from secret_jax.losses.quantile import Quantile
from secret_jax.models.by_loss import LossModel
from secret_jax.models.interface import LeafModel
from secret_jax.models.least_squares import Constant, LeastSquares
from secret_jax.models.ridge import Ridge

# Fields before it have defaults, so it has one as well.
_MEDIAN = Quantile()


@dataclass(frozen=True, kw_only=True)
class Generalised(LossModel):
    """Linear model of the raw prediction of a loss, shrunk toward the parent's.

    Attributes
    ----------
    clip_margin, clip_min_samples, prior, gcv_factor, n_steps
        See `secret_jax.models.by_loss.LossModel`.
    """

    of: Loss = _MEDIAN
    prior: float = 0.0

    @property
    def loss(self) -> Loss:
        """See `LossModel`."""
        return self.of


@dataclass(frozen=True, kw_only=True)
class GeneralisedConstant(Generalised):
    """Constant of least loss."""

    uses_regressors: ClassVar[bool] = False


def generalised(leaf: LeafModel, loss: Loss) -> LeafModel | None:
    """Counterpart of a squared-error leaf model for a loss; None if there is none."""
    if leaf.loss == loss:
        return leaf
    options = {"clip_margin": leaf.clip_margin, "of": loss}
    options["clip_min_samples"] = leaf.clip_min_samples
    if type(leaf) is Constant:
        return GeneralisedConstant(**options)
    if type(leaf) is LeastSquares:
        return Generalised(gcv_factor=0.0, **options)
    if isinstance(leaf, Ridge):
        return Generalised(gcv_factor=leaf.gcv_factor, **options)
    return None
