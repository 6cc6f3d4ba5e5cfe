"""Standard deviations of predictions, conformal intervals and sets of classes."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from secret_jax.data.given import ArrayLike, TableLike
from secret_jax.data.labels import validated_labels
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
    variance, on average over the node's training rows. Since splits are chosen, it is
    usually too small: for intervals with a promise see `conformal_factor`.

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


class _Calibrated:
    """Scores of rows that were not used for their predictions."""

    conformity_scores_: np.ndarray
    conformity_weight_: np.ndarray

    def _calibrate(
        self, residual: np.ndarray, deviation: np.ndarray, weight: np.ndarray
    ) -> None:
        """Store the conformity scores of rows; see `conformity_scores`."""
        scores, weight = conformity_scores(residual, deviation, weight)
        self.conformity_scores_, self.conformity_weight_ = scores, weight

    def _forget_calibration(self) -> None:
        """Drop the scores, which belong to one fit."""
        for name in ("conformity_scores_", "conformity_weight_"):
            self.__dict__.pop(name, None)

    def _factor(self, coverage: float, method: str) -> float:
        """Find the `conformal_factor` of a fitted estimator that was calibrated."""
        check_is_fitted(self)
        if not hasattr(self, "conformity_scores_"):
            raise NotFittedError(
                f"{method} needs calibration rows, and there are none since the last "
                "fit. Call conformalize(X, y) with rows that were not used in fit."
            )
        if not is_real(coverage) or not 0 < coverage < 1:
            raise ValueError(f"coverage must be a float in (0, 1). Got {coverage!r}.")
        scores, weight = self.conformity_scores_, self.conformity_weight_
        return conformal_factor(scores, weight, float(coverage))


class IntervalsMixin(_Calibrated):
    """Conformal intervals for a regressor whose `predict` knows ``return_std``."""

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
        prediction, deviation = self._prediction_and_deviation(X)
        if prediction.ndim > 1:
            raise ValueError(
                "conformalize knows a single output, and the model has "
                f"{prediction.shape[1]}. Fit a model for each of them."
            )
        residual = validated_targets(y, X)[:, 0] - prediction
        self._calibrate(residual, deviation, validated_weight(sample_weight, X))
        return self

    def predict_interval(
        self, X: TableLike, coverage: float = 0.9
    ) -> tuple[np.ndarray, np.ndarray]:
        """Predict intervals that cover new outputs with a given probability.

        The prediction plus and minus a number of standard deviations (those of
        ``predict(X, return_std=True)``) found on the rows of `conformalize`, or by a
        booster on rows left out (as the jackknife and cross-validation do; Barber et
        al. 2021). The probability is over new rows and calibration rows together, not
        one for every place in X.

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
        factor = self._factor(coverage, "predict_interval")
        prediction, deviation = self._prediction_and_deviation(X)
        return prediction - factor * deviation, prediction + factor * deviation

    def _prediction_and_deviation(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Predict rows, with deviations; 1 where predictions have no error."""
        model: Any = self
        prediction, deviation = model.predict(X, return_std=True)
        tiny = np.finfo(float).tiny
        return prediction, np.where(deviation > tiny, deviation, 1.0)


class ClassSetsMixin(_Calibrated):
    """Conformal sets for a classifier with ``predict_proba`` and ``classes_``."""

    classes_: np.ndarray

    def predict_proba(self, X: Any) -> np.ndarray:
        """Predict the probabilities of the classes."""
        raise NotImplementedError

    def predict_log_proba(self, X: TableLike) -> np.ndarray:
        """Predict the logarithms of class probabilities; see `predict_proba`."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def conformalize(
        self, X: TableLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Calibrate `predict_set` on rows that were not used in `fit`.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
        y : array-like of shape (n_rows,)
            A class that training never saw is in no set.
        sample_weight : array-like of shape (n_rows,), optional
            Integers are numbers of rows.

        Returns
        -------
        self
            Itself; another `fit` forgets the calibration.
        """
        check_is_fitted(self)
        probability = self.predict_proba(X)
        labels = validated_labels(y, X, type(self).__name__)
        member = labels[:, None] == self.classes_
        weight = validated_weight(sample_weight, X)
        self._calibrate_classes(probability, member, weight)
        return self

    def _calibrate_classes(
        self, probability: np.ndarray, member: np.ndarray, weight: np.ndarray
    ) -> None:
        """Store how unlikely the classes of rows were predicted to be."""
        unlikely = 1.0 - np.where(member, probability, 0.0).sum(axis=1)
        self._calibrate(unlikely, np.ones(len(unlikely)), weight)

    def predict_set(self, X: TableLike, coverage: float = 0.9) -> np.ndarray:
        """Predict sets of classes that hold that of a new row with a probability.

        All classes whose probability is at least a threshold, which was found on rows
        that were not used in `fit` (Sadinle, Lei & Wasserman 2019), and the likeliest
        one. The probability is over new rows and calibration rows together, not one for
        every class or every place in X.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
        coverage : float, default=0.9
            In (0, 1).

        Returns
        -------
        ndarray of shape (n_rows, n_classes), bool
            Whether each of ``classes_`` is in the set of a row.

        Raises
        ------
        ValueError
            If the calibration rows are too few for the coverage.
        sklearn.exceptions.NotFittedError
            If there are no calibration rows since the last `fit`.

        References
        ----------
        M. Sadinle, J. Lei and L. Wasserman. Least Ambiguous Set-Valued Classifiers with
        Bounded Error Levels. Journal of the American Statistical Association 114, 2019.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from secret_jax import SecretClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> model = SecretClassifier.cart(max_depth=2).fit(X[::2], y[::2])
        >>> model.conformalize(X[1::2], y[1::2]).predict_set(X[:1]).tolist()
        [[True, False, False]]
        """
        most = self._factor(coverage, "predict_set")
        probability = self.predict_proba(X)
        likely = 1.0 - probability <= most
        return likely | (probability == probability.max(axis=1, keepdims=True))
