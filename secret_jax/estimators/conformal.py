"""Mixin of conformal intervals, for estimators that predict standard deviations."""

from typing import Any, Self

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from secret_jax.data.given import ArrayLike, TableLike
from secret_jax.data.validation import validated_targets, validated_weight
from secret_jax.inspect.intervals import conformal_factor
from secret_jax.inspect.tables import check_coverage


class ConformalMixin:
    """Intervals around ``predict`` by its deviations; see `conformalize`."""

    conformity_scores_: np.ndarray
    conformity_weight_: np.ndarray
    predict: Any

    def conformalize(
        self, X: TableLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Calibrate `predict_interval` on rows that were not used in `fit`.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
        y : array-like of shape (n_rows,)
        sample_weight : array-like of shape (n_rows,), optional

        Returns
        -------
        self
            Another `fit` forgets the calibration.
        """
        prediction, deviation = self.predict(X, return_std=True)
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
        ``predict(X, return_std=True)``) that `conformalize` found on rows of its own,
        or, until then, the fit of a booster on rows that it left out (as the jackknife
        and cross-validation do; Barber et al. 2021). The probability is over new rows
        and calibration rows together, not one for every place in X, and exact only
        after `conformalize` (Lei et al. 2018).

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
        check_is_fitted(self)  # pyright: ignore[reportArgumentType]
        if not hasattr(self, "conformity_scores_"):
            raise NotFittedError(
                "predict_interval needs calibration rows: the last fit left none out, "
                "and conformalize has seen none since. Call conformalize(X, y) with "
                "rows that fit did not see."
            )
        check_coverage(coverage)
        scores, weight = self.conformity_scores_, self.conformity_weight_
        factor = conformal_factor(scores, weight, float(coverage))
        prediction, deviation = self.predict(X, return_std=True)
        width = factor * _unit(deviation)
        return np.maximum(prediction - width, self._lowest()), prediction + width

    def _lowest(self) -> float:
        """Least value of any target."""
        return -np.inf

    def _calibrate(
        self, residual: np.ndarray, deviation: np.ndarray, weight: np.ndarray
    ) -> None:
        """Store residuals of rows not used for their predictions, in deviations."""
        score = np.abs(residual) / _unit(deviation)
        order = np.argsort(score, kind="stable")
        order = order[weight[order] > 0]
        self.conformity_scores_, self.conformity_weight_ = score[order], weight[order]


def _unit(deviation: np.ndarray) -> np.ndarray:
    """Units of scores: deviations, or 1 where predictions have no error."""
    return np.where(deviation > np.finfo(float).tiny, deviation, 1.0)
