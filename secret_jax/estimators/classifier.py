"""Classification trees, and labels from probabilities for all estimators of classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from secret_jax.data.foreign import of_kind_of_x, taken
from secret_jax.data.labels import (
    checked_costs,
    checked_priors,
    class_weights,
    classes_of,
    indicators,
    validated_labels,
)
from secret_jax.data.validation import ArrayLike, CheckedRows, TableLike
from secret_jax.estimators.base import TreeEstimator
from secret_jax.estimators.parameters import CLASS_NAMED, ClassifierParameters, Named
from secret_jax.estimators.presets import CLASS_LITERATURE, Presets
from secret_jax.inspect.view import Classes, with_all_classes
from secret_jax.runtime.environment import warn
from secret_jax.tree import routing


class ClassesMixin(ClassifierMixin):
    """Labels of rows, from the ``_probabilities`` that a subclass has."""

    class_weight: Any
    classes_: np.ndarray
    _probabilities: Any  # of the rows of a table, (n_rows, n_classes)

    @property
    def n_classes_(self) -> int:
        """Number of classes."""
        check_is_fitted(self)  # pyright: ignore[reportArgumentType]
        return len(self.classes_)

    @of_kind_of_x
    def predict(self, X: TableLike) -> np.ndarray:
        """Predict the class of every row, shape (n_rows,), of the type of the labels.

        The most likely one, or that of least expected cost, by ``costs``.
        """
        probability = np.asarray(self.predict_proba(X), np.float64)
        costs = checked_costs(getattr(self, "costs", None), self.classes_)
        known = Classes(tuple(self.classes_.tolist()), costs)
        return self.classes_[known.predicted(probability)]

    @of_kind_of_x
    def predict_proba(self, X: TableLike) -> np.ndarray:
        """Predict probabilities (n_rows, n_classes), in the order of ``classes_``."""
        return self._probabilities(X)

    def score(
        self, X: TableLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> float:
        """Share of the rows, by weight, whose class is predicted."""
        labels = validated_labels(y, X, type(self).__name__)
        return super().score(X, labels, taken(sample_weight))

    @of_kind_of_x
    def predict_log_proba(self, X: TableLike) -> np.ndarray:
        """Predict the logarithms of class probabilities; see `predict_proba`."""
        with np.errstate(divide="ignore"):
            return np.log(np.asarray(self.predict_proba(X), np.float64))

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


@dataclass(kw_only=True, eq=False, repr=False)
class SecretClassifier(Presets, ClassesMixin, TreeEstimator, ClassifierParameters):
    """Readable classification tree with logistic regressions in its leaves.

    The tree is grown as by `secret_jax.SecretRegressor`, on indicators of the classes;
    the models of its leaves predict log-odds. For two classes a leaf has one equation,
    the log-odds of the second; for more it has one per class, and probabilities are
    proportional to their exponentials.

    Parameters
    ----------
    equation_tolerance : float, default=0.03
        How short the equations are: each is the shortest that raises the cross-entropy
        by about this share of the tree's, times the share that the tree explains.
    oblique : bool or "auto", default="auto"
        As in `secret_jax.SecretRegressor`, by cross-entropy.
    leaf : str or LeafModel, default="logistic"
        "logistic", regression shrunk toward the parent's (`Logistic`), or "constant",
        shares of the classes shrunk toward the parent's; "auto":
        of both trees the one of less cross-entropy on rows that did not grow it.
    splits : str or SplitFinder, default="rss"
        Method of finding splits: "rss", by how much better linear models of the
        indicators fit the sides (`RssSplits`); "secret", by the paper's discriminants,
        with the classes in place of a mixture's labels; "cart", by the
        Gini impurity (``CartSplits(criterion="gini")``, which knows entropy and
        misclassification as well).
    prune : str, PruningRule or None, default="auto"
        As in `secret_jax.SecretRegressor`, by cross-entropy.
    refine : str, Refinement or None, default=None
        As in `secret_jax.SecretRegressor`, by cross-entropy; log-odds are mixed.
    distill : bool or Distillation, default=True
        Grow a cross-validated tree again on the mean probabilities of the fold trees.
    class_weight : dict, "balanced" or None, default=None
        Factors of the weights of the classes' rows, as in scikit-learn.
    priors : array-like of shape (n_classes,), dict or None, default=None
        Shares of the classes among the rows that will be predicted, where they differ
        from those of the training rows: rows are weighted accordingly.
    costs : array-like of shape (n_classes, n_classes) or None, default=None
        Cost of taking a class (row) for another (column). `predict` gives the
        class of least expected cost, by the probabilities; the tree does not depend
        on it.
    max_leaf_nodes, max_depth, pruning_tolerance, min_samples_leaf, min_samples_split, \
            missing_values, categorical_features, split_features, \
            monotonic_cst, random_state, device, verbose
        As in `secret_jax.SecretRegressor`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Sorted; of ordered categories, with rows, in their order.
    target_name_ : str
        Name of ``y``, if it is a Series or a table of one column; else empty.
    n_classes_ : int
    tree_, n_leaves_, depth_, n_leaves_grown_, n_refine_steps_, feature_importances_, \
            n_features_in_, feature_names_in_
        As in `secret_jax.SecretRegressor`.

    See Also
    --------
    secret_jax.SecretOrdinalClassifier : For labels in order. Here ordered categories
        give ``classes_`` their order and no more: equations are log-odds of one class
        against all, and what is in order are sums of classes, so that it takes other
        outputs, which every reader of the tree then tells of.

    References
    ----------
    A. Dobra and J. Gehrke. SECRET: A Scalable Linear Regression Tree Algorithm. KDD
    2002.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from secret_jax import SecretClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = SecretClassifier(oblique=False, distill=False).fit(X, y)
    >>> model.score(X, y) > 0.9
    True
    >>> model.predict_proba(X[:1]).shape
    (1, 3)
    """

    _named: ClassVar[Named] = CLASS_NAMED
    _accurate: ClassVar[dict[str, Any]] = {"leaf": "auto"}
    _literature: ClassVar[dict[str, dict[str, Any]]] = CLASS_LITERATURE

    def _probabilities(self, X: TableLike) -> Any:
        probability = self._outputs(X)
        return with_all_classes(probability.reshape(len(probability), -1))

    @of_kind_of_x
    def decision_function(self, X: TableLike) -> np.ndarray:
        """Evaluate the equations of the leaves: log-odds, or scores.

        Returns
        -------
        ndarray of shape (n_rows,), or (n_rows, n_classes), float64
            Log-odds of the second of two classes; of more, log-odds of every class up
            to a term that all share. For leaves that predict frequencies directly
            (`ClassFrequencies` with Gini's impurity) how much the share of the second
            class is above that of the first, or every share. ``costs`` have no part in
            it.
        """
        with self._computing(X, fall_back=True):
            value = routing.values(*self._tree_and_rows(X)).astype(np.float64)
        if value.shape[1] > 1:
            return value
        return self.tree_.loss.margin(value[:, 0])

    def _targets(
        self, y: ArrayLike, X: Any, weight: np.ndarray, known: CheckedRows | None
    ) -> CheckedRows:
        rows = super()._targets(y, X, weight, known)
        if known is not None:
            return rows
        count = with_all_classes(rows.targets).sum(axis=0)
        for label in rows.learned["classes_"][count == 1][:1].tolist():
            warn(
                f"The class {label!r} has a single row: no rows are left to tell how "
                "well it is predicted. Give more of them, or leave the class out."
            )
        return rows
