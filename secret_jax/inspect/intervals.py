"""How far off a prediction may be: standard deviations and conformal intervals."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from secret_jax.data.given import ArrayLike, TableLike
from secret_jax.data.validation import validated_targets, validated_weight
from secret_jax.runtime.values import is_real
from secret_jax.tree.degrees import model_degrees
from secret_jax.tree.noise import noise_variance
from secret_jax.tree.structure import Tree

# Ranks and sums of weights may be rounding errors away from a whole number.
_SLACK = 1e-9


def node_deviations(tree: Tree) -> np.ndarray:
    """Standard deviation of a new output about the prediction of each node.

    The square of it is ``noise * (1 + degrees / weight)``: the variance of the outputs
    about the true mean (`secret_jax.tree.noise.noise_variance`), and the model's own
    variance, on average over the node's training rows.

    Neither the choice of the splits nor the clipping of predictions is allowed for,
    and outputs are taken to vary alike within a leaf. Since splits are chosen, the
    deviation is usually too small: for intervals with a promise see
    `conformal_factor`.

    Returns
    -------
    ndarray of shape (n_nodes,), float64
        In units of the target.
    """
    degrees = np.minimum(model_degrees(tree), tree.weight)
    noise = noise_variance(tree)[:, 0]
    variance = noise * (1.0 + degrees / np.maximum(tree.weight, 1.0))
    return np.sqrt(variance) * tree.schema.target_scale


def conformity_scores(
    residual: np.ndarray, deviation: np.ndarray, weight: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Residuals of calibration rows in units of their deviation, sorted.

    Parameters
    ----------
    residual, deviation, weight : ndarray of shape (n_rows,)
        Rows of weight zero are left out.

    Returns
    -------
    scores, weight : ndarray of shape (n_used,), float64
        Rising scores, and the weights of their rows.
    """
    score = np.abs(residual) / deviation
    order = np.argsort(score, kind="stable")
    order = order[weight[order] > 0]
    return score[order], weight[order]


def conformal_factor(scores: np.ndarray, weight: np.ndarray, coverage: float) -> float:
    """How many deviations an interval reaches to either side of a prediction.

    Split-conformal prediction: with n calibration rows it is their score of rank
    ``ceil((n + 1) * coverage)``. If they and a new row are exchangeable, the new output
    lies in its interval with at least that probability, whatever the tree is like.

    Parameters
    ----------
    scores, weight : ndarray of shape (n_rows,)
        From `conformity_scores`; a row of weight two is two rows.
    coverage : float
        In (0, 1).

    Raises
    ------
    ValueError
        If the rows are too few for the coverage.

    References
    ----------
    J. Lei, M. G'Sell, A. Rinaldo, R. J. Tibshirani and L. Wasserman.
    Distribution-Free Predictive Inference for Regression. Journal of the American
    Statistical Association 113, 2018, sections 2.2 and 5.2.

    Examples
    --------
    >>> conformal_factor(np.arange(1.0, 10.0), np.ones(9), coverage=0.8)
    8.0
    """
    total = float(np.sum(weight))
    rank = math.ceil((total + 1.0) * coverage - _SLACK)
    if rank > total + _SLACK:
        needed = math.ceil(coverage / (1.0 - coverage) - _SLACK)
        raise ValueError(
            f"coverage={coverage!r} needs at least {needed} calibration rows, but "
            f"conformalize saw {total:g}. Calibrate on more rows, or ask for a "
            f"coverage of at most {total / (total + 1.0):.3g}."
        )
    place = int(np.searchsorted(np.cumsum(weight), rank - _SLACK))
    return float(scores[min(place, len(scores) - 1)])


def calibrated_factor(model: Any, coverage: float, remedy: str) -> float:
    """Find the `conformal_factor` of a fitted estimator that was calibrated.

    Parameters
    ----------
    model : estimator
        With ``conformity_scores_`` and ``conformity_weight_``, once calibrated.
    coverage : float
        In (0, 1).
    remedy : str
        What is missing without a calibration, and how to get it.

    Raises
    ------
    ValueError
        If the coverage is no share, or the calibration rows are too few for it.
    sklearn.exceptions.NotFittedError
        If the estimator is not fitted, or not calibrated since.
    """
    check_is_fitted(model)
    if not hasattr(model, "conformity_scores_"):
        raise NotFittedError(remedy)
    if not is_real(coverage) or not 0 < coverage < 1:
        raise ValueError(f"coverage must be a float in (0, 1). Got {coverage!r}.")
    scores, weight = model.conformity_scores_, model.conformity_weight_
    return conformal_factor(scores, weight, float(coverage))


class IntervalsMixin:
    """Conformal intervals of regressors, from `predict` with ``return_std``."""

    _no_calibration: ClassVar[str] = (
        "predict_interval needs calibration rows, and conformalize has seen none since "
        "the last fit. Call conformalize(X, y) with rows that fit did not see."
    )

    def conformalize(
        self, X: TableLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Calibrate `predict_interval` on rows that were not used in `fit`.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
        y : array-like of shape (n_rows,)
        sample_weight : array-like of shape (n_rows,), optional
            Integers are numbers of rows.

        Returns
        -------
        self
            Itself; another `fit` forgets the calibration.
        """
        prediction, deviation = self._with_deviation(X)
        if prediction.ndim > 1:
            raise ValueError(
                f"conformalize knows a single output, and the model has "
                f"{prediction.shape[1]}. Fit a model for each of them."
            )
        y = validated_targets(y, X, type(self).__name__)[:, 0]
        weight = validated_weight(sample_weight, X)
        self._calibrate(y - prediction, deviation, weight)
        return self

    def predict_interval(
        self, X: TableLike, coverage: float = 0.9
    ) -> tuple[np.ndarray, np.ndarray]:
        """Predict intervals that cover new outputs with a given probability.

        The prediction plus and minus a number of standard deviations (those of
        ``predict(X, return_std=True)``): a quantile of the errors on calibration rows,
        which are those of `conformalize`, whose promise is exact (Lei et al. 2018), or
        of boosters the rows left out in `fit` (as the jackknife and cross-validation
        do; Barber et al. 2021). The probability is over new rows and calibration rows
        together, not one for every place in X.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
        coverage : float, default=0.9
            In (0, 1).

        Returns
        -------
        lower, upper : ndarray of shape (n_rows,), float64

        Raises
        ------
        ValueError
            If the calibration rows are too few for the coverage.
        sklearn.exceptions.NotFittedError
            If there are no calibration rows since the last `fit`.

        Examples
        --------
        >>> from secret_jax import SecretRegressor
        >>> from secret_jax.datasets import make_fried
        >>> X, y = make_fried(1500, random_state=0)
        >>> model = SecretRegressor(random_state=0).fit(X[:1000], y[:1000])
        >>> model = model.conformalize(X[1000:1300], y[1000:1300])
        >>> lower, upper = model.predict_interval(X[1300:], coverage=0.8)
        >>> bool(0.7 < ((lower <= y[1300:]) & (y[1300:] <= upper)).mean() < 0.9)
        True
        """
        factor = calibrated_factor(self, coverage, self._no_calibration)
        prediction, deviation = self._with_deviation(X)
        return prediction - factor * deviation, prediction + factor * deviation

    def _calibrate(
        self, residual: np.ndarray, deviation: np.ndarray, weight: np.ndarray
    ) -> None:
        """Store the conformity scores of rows not used for their predictions."""
        scores = conformity_scores(residual, deviation, weight)
        self.conformity_scores_, self.conformity_weight_ = scores

    def _with_deviation(self, X: TableLike) -> tuple[np.ndarray, np.ndarray]:
        prediction, deviation = self.predict(X, return_std=True)  # pyright: ignore[reportAttributeAccessIssue]
        return prediction, without_zeros(deviation)


def without_zeros(deviation: np.ndarray) -> np.ndarray:
    """Units of conformity scores: 1 where predictions have no error."""
    return np.where(deviation > np.finfo(float).tiny, deviation, 1.0)
