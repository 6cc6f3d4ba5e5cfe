"""Estimator of classes: kernels over the leaves of a classification tree."""

from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from secret_jax.composed.base import ComposedClassifier, Given
from secret_jax.composed.kernel.base import HeadOption, KernelTree
from secret_jax.composed.kernel.criteria import of_classes
from secret_jax.composed.kernel.interface import Head, HeadFit, Regions
from secret_jax.composed.kernel.scoring import OptimalScores, ReachedScores
from secret_jax.data.given import TableLike
from secret_jax.data.labels import at_least, from_at_least
from secret_jax.estimators.classifier import SecretClassifier
from secret_jax.inspect.classes import with_all_classes

_USUAL = SecretClassifier(
    leaf="constant",
    splits="cart",
    oblique=False,
    prune=None,
    distill=False,
    min_samples_leaf=5,
    max_leaf_nodes=32,
)


@dataclass(eq=False, repr=False)
class KernelTreeClassifier(ComposedClassifier, KernelTree):
    """Classification tree with a kernel model over its regions.

    The head is a regression of class indicators, as `KernelTreeRegressor`'s of numbers;
    optimal scores make class probabilities of it (flexible discriminant analysis), from
    what it says of rows that it was fitted without.

    Parameters
    ----------
    tree : SecretClassifier, optional
        The tree; it is cloned. None: one by CART's splits with class
        frequencies in its leaves, up to 32 and unpruned: it says where regions are.
    head : {"kernel", "local", "rbf", "gp", "auto"} or Head, default="gp"
        As of `KernelTreeRegressor`.
    ordinal : bool, default=False
        Whether the classes are in order: that of ordered categories, else that of
        numbers or letters. The head then learns of each class but the first whether it
        is reached, and probabilities of later ones are no greater.
    search, random_state, verbose
        As of `KernelTreeRegressor`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Of ordered categories, with rows, in their order.
    tree_, head_, fitted_head_, search_, n_features_in_, feature_names_in_
        As of `KernelTreeRegressor`.
    scores_ : OptimalScores or ReachedScores

    References
    ----------
    T. Hastie, R. Tibshirani and A. Buja. Flexible Discriminant Analysis by Optimal
    Scoring. Journal of the American Statistical Association 89, 1994.

    J. M. Lanning. A Kernelized Genetic Algorithm Decision Tree with Information
    Criteria. Dissertation, University of Tennessee, 2008, chapters 5 and 6.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from secret_jax import KernelTreeClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> KernelTreeClassifier(head="rbf").fit(X, y).score(X, y) > 0.95
    True
    """

    tree: SecretClassifier | None = None
    _: KW_ONLY
    head: HeadOption = "gp"
    ordinal: bool = False
    if TYPE_CHECKING:  # no parameter
        scores_: OptimalScores | ReachedScores = field(init=False)

    def _fitted(self, given: Given) -> dict[str, Any]:
        classes, member = self._members(given)
        tree = given.fit(self._new_tree(_USUAL), given.y)
        target = at_least(member) if self.ordinal else member
        fitted, rows, fit = self._with_head(tree, given, target)
        return {"classes_": classes, "scores_": self._scores(fit, rows), **fitted}

    def _scores(self, fit: HeadFit, rows: Regions) -> OptimalScores | ReachedScores:
        kind = ReachedScores if self.ordinal else OptimalScores
        return kind.of(fit.left_out, rows.target[fit.row], rows.weight[fit.row])

    def _criterion(self, name: str, head: Head, fit: HeadFit, rows: Regions) -> float:
        member = rows.target[fit.row]
        member = from_at_least(member) if self.ordinal else member
        said = fit.left_out if name == "icomp" else fit.fitted
        probability = self._scores(fit, rows).probability(said)
        return of_classes(name, fit, rows, probability, member, head)

    def _probabilities(self, X: TableLike) -> np.ndarray:
        value, _ = self._predicted(X)
        return self.scores_.probability(value)

    def _base(self, outputs: np.ndarray) -> np.ndarray:
        probability = with_all_classes(outputs)
        return at_least(probability) if self.ordinal else probability
