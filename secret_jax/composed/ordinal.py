"""Estimator of classes in order: one tree of how likely each is reached."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from secret_jax.composed.base import ComposedClassifier, Given
from secret_jax.data.labels import at_least, from_at_least, warn_of_letters
from secret_jax.data.validation import TableLike, validated
from secret_jax.estimators.parameters import value_of
from secret_jax.estimators.regressor import SecretRegressor
from secret_jax.losses.classes import CumulativeLogits
from secret_jax.models.glm import LinearOfLoss, leaf_for_loss

_LOSS = CumulativeLogits()


def _with_logits(tree: SecretRegressor) -> SecretRegressor:
    """Give an unfitted tree leaves of cumulative logits, if its leaf model has them."""
    value = value_of("leaf", tree.leaf)
    leaf = None if value is None else leaf_for_loss(value, _LOSS)
    if isinstance(leaf, LinearOfLoss):  # the parent's mean counts as a row
        tree.set_params(loss=_LOSS, leaf=replace(leaf, prior=1.0))
    return tree


@dataclass(eq=False, repr=False)
class SecretOrdinalClassifier(ComposedClassifier):
    """Readable tree of classes in order.

    One tree with an output for each class but the first: the log-odds of that class or
    a later one (cumulative logits, McCullagh 1980, of Lanning's indicators, 2008,
    equation 6.8, from the other side). Equations say how each step is reached, with
    slopes of its own. Mistaking a class for a far one costs more than for its
    neighbour, and no later class is likelier to be reached than an earlier one.

    Parameters
    ----------
    tree : SecretRegressor, optional
        The tree; it is cloned, and leaves "ridge", "linear" and "constant" get the
        loss of cumulative logits (others are least squares of the indicators). None:
        ``SecretRegressor()``.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        In the order of a column of ordered categories, else of numbers or, with a
        warning, of letters.
    tree_ : SecretRegressor
        The fitted tree, which can be read, drawn and saved.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Only if the training data had names.

    See Also
    --------
    secret_jax.data.labels.rank_error : Mean number of places that classes are off.
    secret_jax.KernelTreeClassifier : ``ordinal=True`` puts kernels over a tree.

    References
    ----------
    P. McCullagh. Regression Models for Ordinal Data. Journal of the Royal Statistical
    Society B 42, 1980.

    J. M. Lanning. A Kernelized Genetic Algorithm Decision Tree with Information
    Criteria. Dissertation, University of Tennessee, 2008, chapter 6.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from secret_jax import SecretOrdinalClassifier
    >>> X = np.linspace(0, 3, 300)[:, None]
    >>> size = pd.cut(X[:, 0], 3, labels=["small", "middling", "large"])
    >>> model = SecretOrdinalClassifier().fit(X, pd.Series(size))
    >>> model.classes_.tolist()
    ['small', 'middling', 'large']
    >>> model.predict([[0.2], [1.5], [2.8]]).tolist()
    ['small', 'middling', 'large']
    """

    tree: SecretRegressor | None = None

    def _fitted(self, given: Given) -> dict[str, Any]:
        classes, member = self._members(given)
        warn_of_letters(classes, given.y)
        tree: Any = clone(SecretRegressor() if self.tree is None else self.tree)
        tree = _with_logits(tree)
        reached = at_least(member)
        reached = reached[:, 0] if len(classes) == 2 else reached
        tree.fit(given.X, reached, given.sample_weight, groups=given.groups)
        names = tuple(f"at least {name}" for name in classes[1:].tolist())
        schema = replace(tree.tree_.schema, target_names=names)
        tree.tree_ = replace(tree.tree_, schema=schema)
        return {"classes_": classes, "tree_": tree}

    def _probabilities(self, X: TableLike) -> np.ndarray:
        check_is_fitted(self)
        reached = self.tree_.predict(validated(self, X, reset=False))
        return from_at_least(np.asarray(reached, np.float64).reshape(len(reached), -1))
