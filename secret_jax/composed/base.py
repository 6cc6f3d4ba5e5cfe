"""Base of estimators that put a model of their own over a tree."""

from copy import copy
from typing import Any, NamedTuple, Self

import numpy as np

from secret_jax.data.labels import classes_of, validated_labels
from secret_jax.data.schema import TableSchema
from secret_jax.data.validation import (
    ArrayLike,
    TableLike,
    checked_weight,
    scaled_weight,
    validated,
)
from secret_jax.estimators.classifier import ClassesMixin, SecretClassifier
from secret_jax.estimators.common import SavedEstimator
from secret_jax.estimators.regressor import SecretRegressor
from secret_jax.runtime.values import DeclaredConstraints, checked_parameters
from secret_jax.tree.file import recorded

recorded(SecretRegressor)
recorded(SecretClassifier)


class Given(NamedTuple):
    """What a fit is given; the columns of X are checked."""

    X: TableLike
    y: ArrayLike
    sample_weight: ArrayLike | None
    groups: ArrayLike | None


class ComposedEstimator(SavedEstimator):
    """Base of estimators with a parameter ``tree`` and its fitted clone ``tree_``.

    A subclass implements `_fitted`, and names its own fitted attribute in
    ``_predicts_with``.
    """

    tree: Any
    tree_: Any
    _parameter_constraints = DeclaredConstraints()

    def fit(
        self,
        X: TableLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Fit the tree and what belongs to it.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
        y : array-like of shape (n_rows,)
            Numbers or classes; of trees with kernels also (n_rows, n_outputs).
        sample_weight : array-like of shape (n_rows,), optional
        groups : array-like of shape (n_rows,), optional
            Names of what rows belong to, as persons or places: the size of the tree is
            chosen on rows of groups that did not grow it. Kernels leave out rows, not
            groups: what they leave of unseen groups is mostly what is unlike in these.

        Returns
        -------
        self
            Itself. A fit that fails leaves it as it was.
        """
        checked_parameters(self)
        seen = copy(self)  # which notes names of features
        given = Given(validated(seen, X, reset=True), y, sample_weight, groups)
        self._become(**seen._noted(), **self._fitted(given))
        return self

    def _fitted(self, given: Given) -> dict[str, Any]:
        """Fitted attributes by name."""
        raise NotImplementedError

    @property
    def _schema(self) -> TableSchema:
        """Columns that the fitted model reads."""
        return self.tree_._schema

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        of_tree = (self.tree or SecretRegressor()).__sklearn_tags__()
        tags.input_tags = of_tree.input_tags
        return tags


class ComposedClassifier(ClassesMixin, ComposedEstimator):
    """Base of composed estimators of classes."""

    def _members(self, given: Given) -> tuple[np.ndarray, np.ndarray]:
        """Checked classes, and indicators of them (n_rows, n_classes)."""
        caller = type(self).__name__
        labels = validated_labels(given.y, given.X, caller)
        weight = scaled_weight(checked_weight(given.sample_weight, given.X))
        classes = classes_of(labels, weight, caller, given.y)
        return classes, (labels[:, None] == classes).astype(float)
