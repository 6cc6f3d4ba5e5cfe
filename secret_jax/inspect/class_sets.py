"""Sets of classes that hold the class of a new row with a given probability."""

from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from secret_jax.data.given import TableLike
from secret_jax.data.labels import validated_labels
from secret_jax.data.validation import validated_weight
from secret_jax.inspect.intervals import calibrated_factor, conformity_scores


class ClassSetsMixin:
    """Conformal sets for a classifier with ``predict_proba`` and ``classes_``."""

    classes_: np.ndarray
    conformity_scores_: np.ndarray
    conformity_weight_: np.ndarray

    def predict_proba(self, X: Any) -> np.ndarray:
        raise NotImplementedError

    def predict_log_proba(self, X: TableLike) -> np.ndarray:
        """Predict the logarithms of class probabilities; see `predict_proba`."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def conformalize(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Calibrate `predict_set` on rows that were not used in `fit`.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
        y : array-like of shape (n_rows,)
            A class that training never saw is in no set.
        sample_weight : array-like of shape (n_rows,), optional

        Returns
        -------
        self
            Itself; another `fit` forgets the calibration.
        """
        check_is_fitted(self)
        probability = self.predict_proba(X)
        labels = validated_labels(y, X, type(self).__name__)
        member = labels[:, None] == self.classes_
        self._calibrated(probability, member, validated_weight(sample_weight, X))
        return self

    def _calibrated(
        self, probability: np.ndarray, member: np.ndarray, weight: np.ndarray
    ) -> None:
        """Note how unlikely the classes of rows were said to be."""
        unlikely = 1.0 - np.where(member, probability, 0.0).sum(axis=1)
        found = conformity_scores(unlikely, np.ones(len(unlikely)), weight)
        self.conformity_scores_, self.conformity_weight_ = found

    def predict_set(self, X: Any, coverage: float = 0.9) -> np.ndarray:
        """Classes among which that of a new row is, with a given probability.

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
            If no rows are there to tell.

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
        most = calibrated_factor(
            self,
            coverage,
            "predict_set needs rows that the model has not seen. Call "
            "conformalize(X, y) with rows that were not used in fit.",
        )
        probability = self.predict_proba(X)
        likely = 1.0 - probability <= most
        return likely | (probability == probability.max(axis=1, keepdims=True))
