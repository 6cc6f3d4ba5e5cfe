"""Leaf models of classes: logistic regression and class frequencies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from sklearn.utils._param_validation import StrOptions

from secret_jax.losses.classes import Brier, CrossEntropy
from secret_jax.losses.interface import Loss
from secret_jax.models.by_loss import LossModel


@dataclass(frozen=True, kw_only=True)
class Logistic(LossModel):
    """Logistic regression shrunk toward the parent's model, by a GCV penalty.

    Iterated weighted least squares (McCullagh & Nelder 1989) with the ridge of least
    generalised cross-validation error, as `secret_jax.Ridge` has it, in units of the
    curvature of the likelihood; the parent's mean probabilities count as ``prior`` rows
    more in the middle of the node's, so that none becomes 0 or 1.

    Attributes
    ----------
    clip_margin : float or None, default=0.1
        Log-odds are clipped to the range of those of the training rows in their leaf,
        widened on both sides by this share of it. None: no clipping.
    clip_min_samples : int, default=50
        A leaf of less weight takes that range from the nearest ancestor with more.
    prior, gcv_factor, n_steps
        See `secret_jax.models.by_loss.LossModel`.

    References
    ----------
    P. McCullagh and J. A. Nelder. Generalized Linear Models. Chapman & Hall, 1989.

    Examples
    --------
    >>> from secret_jax import Logistic, SecretClassifier
    >>> SecretClassifier(leaf=Logistic(prior=2.0)).leaf.prior
    2.0
    """

    @property
    def loss(self) -> Loss:
        """Cross-entropy loss."""
        return CrossEntropy()


@dataclass(frozen=True, kw_only=True)
class Shares(LossModel):
    """Class frequencies; every continuous attribute is split-only.

    Those of the parent count as ``prior`` further rows; with 0 they are the plain
    frequencies in the node.

    Attributes
    ----------
    impurity : {"entropy", "gini"}, default="entropy"
        Criterion of pruning: the entropy or the Gini impurity of the frequencies in a
        leaf; on other rows the cross-entropy or the Brier score.
    clip_margin, clip_min_samples, prior, gcv_factor, n_steps
        As in `Logistic`; the last two have no effect.
    """

    impurity: Literal["entropy", "gini"] = "entropy"

    _parameter_constraints: ClassVar[dict] = {
        "impurity": [StrOptions({"entropy", "gini"})],
    }
    uses_regressors: ClassVar[bool] = False

    @property
    def loss(self) -> Loss:
        """Cross-entropy loss, or the Brier score."""
        return CrossEntropy() if self.impurity == "entropy" else Brier()
