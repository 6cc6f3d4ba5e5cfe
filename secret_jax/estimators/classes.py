"""Base of all estimators of classes: labels from probabilities."""

from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from secret_jax.data.labels import (
    checked_costs,
    checked_priors,
    class_weights,
    classes_of,
    indicators,
    validated_labels,
)
from secret_jax.data.validation import ArrayLike, CheckedRows, TableLike
from secret_jax.inspect.view import Classes


class ClassesMixin(ClassifierMixin):
    """Labels of rows, from the ``_probabilities`` that a subclass has."""

    class_weight: Any
    classes_: np.ndarray

    @property
    def n_classes_(self) -> int:
        """Number of classes."""
        check_is_fitted(self)  # pyright: ignore[reportArgumentType]
        return len(self.classes_)

    def predict(self, X: TableLike) -> np.ndarray:
        """Predict the most likely class of every row, or that of least expected cost.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)

        Returns
        -------
        ndarray of shape (n_rows,)
            Predicted classes, of the type of the labels.
        """
        probability = self.predict_proba(X)
        costs = checked_costs(getattr(self, "costs", None), self.classes_)
        known = Classes(tuple(self.classes_.tolist()), costs)
        return self.classes_[known.predicted(probability)]

    def predict_proba(self, X: TableLike) -> np.ndarray:
        """Predict the probabilities of the classes, in the order of ``classes_``.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)

        Returns
        -------
        ndarray of shape (n_rows, n_classes), float64
        """
        return self._probabilities(X)

    def score(
        self, X: TableLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> float:
        """Share of the rows, by weight, whose class is predicted.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
        y : array-like of shape (n_rows,)
        sample_weight : array-like of shape (n_rows,), optional
        """
        labels = validated_labels(y, X, type(self).__name__)
        return super().score(X, labels, sample_weight)

    def predict_log_proba(self, X: TableLike) -> np.ndarray:
        """Predict the logarithms of class probabilities; see `predict_proba`."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def _probabilities(self, X: TableLike) -> np.ndarray:
        raise NotImplementedError

    def _targets(
        self, y: ArrayLike, X: Any, weight: np.ndarray, known: CheckedRows | None
    ) -> CheckedRows:
        """Indicators of the classes of the ``known`` rows, or else of these."""
        caller, where = type(self).__name__, "y" if known is None else "its y"
        labels = validated_labels(y, X, caller)
        if known is None:
            classes = classes_of(labels, weight, caller, y)
        else:
            classes = known.learned["classes_"]
        values = indicators(labels, classes, where)
        checked_costs(getattr(self, "costs", None), classes)
        priors = checked_priors(getattr(self, "priors", None), classes)
        weight = class_weights(labels, classes, weight, self.class_weight, priors)
        names = tuple(map(str, classes[-values.shape[1] :].tolist()))
        named = getattr(y, "columns", [getattr(y, "name", "")])
        name = named[0] if len(named) and isinstance(named[0], str) else ""
        learned = {"classes_": classes, "target_name_": name}
        return CheckedRows(X, values, weight, names, learned=learned)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        assert tags.classifier_tags is not None
        tags.classifier_tags.multi_class = True
        return tags
