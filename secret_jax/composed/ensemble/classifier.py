"""Boosters of classes: sums of trees that predict log-odds."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.utils.validation import check_is_fitted

from secret_jax.composed.ensemble.base import BoostingEstimator
from secret_jax.data.schema import TableSchema
from secret_jax.data.validation import ArrayLike, TableLike
from secret_jax.estimators.classes import ClassesMixin
from secret_jax.estimators.classifier import SecretClassifier
from secret_jax.estimators.common import Targets
from secret_jax.inspect.view import with_all_classes
from secret_jax.losses.classes import CrossEntropy
from secret_jax.losses.interface import Loss


@dataclass(kw_only=True, eq=False, repr=False)
class SecretBoostingClassifier(ClassesMixin, BoostingEstimator):
    """Boosted trees with linear models in their leaves, for classes.

    The first model is a logistic regression; every round adds a small tree with linear
    models that is fitted to the steps of Newton's method (Friedman, Hastie & Tibshirani
    2000). For two classes the trees predict log-odds; for more a tree predicts a score
    of each class, and probabilities are proportional to the exponentials of the scores.
    The number of rounds is chosen by cross-entropy, as `SecretBoostingRegressor` does
    by squared error.

    Parameters
    ----------
    class_weight : dict, "balanced" or None, default=None
        Factors of the weights of the classes' rows, as in scikit-learn.
    max_leaf_nodes, learning_rate, max_iter, early_stopping, n_iter_no_change, \
            subsample, n_folds, ensemble, missing_values, \
            categorical_features, split_features, monotonic_cst, random_state, \
            device, verbose
        As in `SecretBoostingRegressor`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    target_name_ : str
        As in `SecretClassifier`.
    ensemble_, n_iter_, n_trees_, feature_importances_, n_features_in_, \
            feature_names_in_
        As in `SecretBoostingRegressor`; the first models are logistic regressions.
    validation_errors_, validation_error_
        As there, but mean cross-entropies in nats.

    References
    ----------
    J. Friedman, T. Hastie and R. Tibshirani. Additive Logistic Regression: A
    Statistical View of Boosting. Annals of Statistics 28, 2000.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from secret_jax import SecretBoostingClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = SecretBoostingClassifier(max_leaf_nodes=4, max_iter=5).fit(X, y)
    >>> model.score(X, y) > 0.95
    True
    >>> model.predict_proba(X[:2]).shape
    (2, 3)
    """

    class_weight: Literal["balanced"] | dict | None = None
    _loss: ClassVar[Loss] = CrossEntropy()

    def _probabilities(self, X: TableLike) -> np.ndarray:
        return _probabilities(self._scores(X))

    def decision_function(self, X: TableLike) -> np.ndarray:
        """Predict the log-odds or scores of the classes.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)

        Returns
        -------
        ndarray of shape (n_rows,), or (n_rows, n_classes), float64
            Log-odds of the second of two classes; of more, log-odds of every class up
            to a term that all share.
        """
        scores = self._scores(X)
        return scores if scores.shape[1] > 1 else scores[:, 0]

    def staged_predict_proba(self, X: TableLike) -> Iterator[np.ndarray]:
        """Predict probabilities after every round, beginning with the first models.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)

        Yields
        ------
        ndarray of shape (n_rows, n_classes), float64
        """
        for scores in self._staged(X):
            yield _probabilities(scores.reshape(len(scores), -1))

    def staged_predict(self, X: TableLike) -> Iterator[np.ndarray]:
        """Predict the class after every round; see `staged_predict_proba`."""
        for probability in self.staged_predict_proba(X):
            yield self.classes_[np.argmax(probability, axis=1)]

    def _scores(self, X: TableLike) -> np.ndarray:
        check_is_fitted(self)
        with self._computing(X, fall_back=True):
            return self.ensemble_.values(self._unencoded(X))

    def _targets(
        self,
        y: ArrayLike,
        X: TableLike,
        weight: np.ndarray,
        known: TableSchema | None = None,
        learned: Mapping[str, Any] | None = None,
    ) -> Targets:
        """See `EnsembleEstimator`: indicators of the classes."""
        classes = None if known is None else (learned or vars(self))["classes_"]
        return self._class_targets(y, X, weight, classes)

    def _single_tree(self, **parameters: Any) -> SecretClassifier:
        return SecretClassifier(class_weight=self.class_weight, **parameters)


def _probabilities(scores: np.ndarray) -> np.ndarray:
    return with_all_classes(CrossEntropy().prediction(scores))
