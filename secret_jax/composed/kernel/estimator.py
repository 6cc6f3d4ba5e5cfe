"""Estimator of kernel regression over the leaves of a tree."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.base import clone
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted

from secret_jax.composed.base import ComposedRegressor
from secret_jax.composed.kernel.smoothing import LeafRows
from secret_jax.data.encoding import encode
from secret_jax.data.given import ArrayLike, TableLike
from secret_jax.data.validation import checked_weight, validated, validated_targets
from secret_jax.estimators.regressor import SecretRegressor


class KernelTreeRegressor(ComposedRegressor):
    """Tree whose leaves smooth what they leave of their training rows.

    A tree is fitted first. Every leaf then keeps its training rows and corrects the
    tree's prediction by the residuals of the near ones, with Gaussian weights in the
    distance of the standardised regressors (of all numeric columns, if the leaves are
    constants). Each leaf has one bandwidth: the one of least leave-one-out error, over
    up to 512 of its rows.

    Parameters
    ----------
    tree : SecretRegressor, optional
        The tree; it is cloned. None: one with constants in its leaves for
        ``head="kernel"``, so that predictions are weighted means of the target, as
        Torgo's, and one with linear models for ``head="local"``.
    head : {"kernel", "local"}, default="kernel"
        Weighted mean (Nadaraya & Watson), or weighted linear model about each
        predicted row, which has no bias at the borders of a leaf.

    Attributes
    ----------
    tree_ : SecretRegressor
        The fitted tree, which can be read, drawn and saved.
    leaves_ : dict of int to secret_jax.composed.kernel.smoothing.LeafRows
        Rows, bandwidth and leave-one-out error of every leaf, by its node id.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Only if the training data had names.

    Notes
    -----
    The model grows with the data, and the time to predict a row with the rows of its
    leaf; the memory for it is bounded.

    References
    ----------
    E. A. Nadaraya. On Estimating Regression. Theory of Probability and its
    Applications 9, 1964.

    W. S. Cleveland and S. J. Devlin. Locally Weighted Regression: An Approach to
    Regression Analysis by Local Fitting. Journal of the American Statistical
    Association 83, 1988.

    L. Torgo. Functional Models for Regression Tree Leaves. ICML 1997.

    Examples
    --------
    >>> import numpy as np
    >>> from secret_jax import KernelTreeRegressor
    >>> X = np.linspace(0, 6, 200)[:, None]
    >>> model = KernelTreeRegressor().fit(X, np.sin(X[:, 0]))
    >>> model.score(X, np.sin(X[:, 0])) > 0.999
    True
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "tree": [SecretRegressor, None],
        "head": [StrOptions({"kernel", "local"})],
    }
    _predicts_with: ClassVar[str] = "leaves_"
    leaves_: dict[int, LeafRows]

    def __init__(
        self,
        tree: SecretRegressor | None = None,
        *,
        head: Literal["kernel", "local"] = "kernel",
    ):
        self.tree = tree
        self.head = head

    def _fitted(
        self, X: TableLike, y: ArrayLike, sample_weight: ArrayLike | None
    ) -> dict[str, Any]:
        targets = validated_targets(y, X, type(self).__name__)
        usual = SecretRegressor(leaf="constant" if self.head == "kernel" else "ridge")
        tree: Any = clone(usual if self.tree is None else self.tree)
        tree.fit(X, y, sample_weight)
        predicted, leaf, x = _through_tree(tree, X)
        weight = checked_weight(sample_weight, x)
        targets = targets - predicted
        used = weight > 0
        # A row is left out with all its copies: they would tell what it is.
        rows, copy_of = np.unique(
            np.column_stack([leaf, x, targets])[used], axis=0, return_inverse=True
        )
        weight = np.bincount(copy_of.ravel(), weight[used])
        first = np.flatnonzero(np.diff(rows[:, 0], prepend=-1))
        n_columns = 1 + x.shape[1]
        leaves = {
            int(part[0, 0]): LeafRows.of(
                part[:, 1:n_columns], part[:, n_columns:], own, linear=self._linear
            )
            for part, own in zip(
                np.split(rows, first[1:]), np.split(weight, first[1:]), strict=True
            )
        }
        return {"tree_": tree, "leaves_": leaves}

    def predict(
        self, X: TableLike, *, return_std: bool = False
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Predict rows.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
        return_std : bool, default=False
            Also return the leave-one-out error of every row's leaf.

        Returns
        -------
        prediction : ndarray of shape (n_rows,) or (n_rows, n_outputs), float64
        deviation : ndarray of the same shape
            Only with ``return_std``.
        """
        check_is_fitted(self)
        X = validated(self, X, reset=False)
        prediction, leaf, x = _through_tree(self.tree_, X)
        deviation = np.empty_like(prediction)
        for node in np.unique(leaf):
            here, rows = leaf == node, self.leaves_[int(node)]
            prediction[here] += rows.predict(x[here], linear=self._linear)
            deviation[here] = rows.deviation
        if self.tree_.n_outputs_ == 1:
            prediction, deviation = prediction[:, 0], deviation[:, 0]
        return (prediction, deviation) if return_std else prediction

    @property
    def _linear(self) -> bool:
        return self.head == "local"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


def _through_tree(
    tree: SecretRegressor, X: TableLike
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Prediction of the tree, leaf and standardised columns of every row."""
    predicted = np.array(tree.predict(X), np.float64)
    schema = tree.tree_.schema
    table = encode(schema, validated(tree, X, reset=False), asked=())
    columns = range(schema.n_regressors) or schema.continuous_positions
    x = table.on_host().x[:, list(columns)].astype(np.float64)
    return predicted.reshape(len(x), -1), tree.apply(X), x
