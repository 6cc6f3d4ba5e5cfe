"""Estimator of numbers: kernels over the leaves of a regression tree."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin

from secret_jax.composed.base import Given
from secret_jax.composed.kernel.base import KernelTree
from secret_jax.composed.kernel.criteria import of_numbers
from secret_jax.composed.kernel.interface import Head, HeadFit, Regions
from secret_jax.data.given import TableLike
from secret_jax.data.validation import validated_targets
from secret_jax.estimators.conformal import ConformalMixin
from secret_jax.estimators.regressor import SecretRegressor


@dataclass(eq=False, repr=False)
class KernelTreeRegressor(ConformalMixin, RegressorMixin, KernelTree):
    """Tree with a kernel model over its regions.

    A tree is fitted first; it can be read, drawn and saved, and knows nothing of rows
    that are kept. A *head* then models the target over its regions, by distances of
    the standardised regressors (of all numeric columns, if the leaves are constants).

    Parameters
    ----------
    tree : SecretRegressor, optional
        The tree; it is cloned. None: ``SecretRegressor()``, whose leaves are linear.
    head : {"kernel", "local", "rbf", "gp", "auto"} or Head, default="kernel"
        "kernel" and "local" add to the tree's prediction what it leaves of near
        training rows of the same leaf: their weighted mean, or a weighted linear model
        about the predicted row, which has no bias at the borders of a leaf
        (`Smoothing`). "rbf" is a network of one basis function for each leaf
        (`RadialBasis`), "gp" a Gaussian process of what that network leaves
        (`GaussianProcess`). Over linear models they learn what these leave; a tree of
        constants only says where regions are, and they predict without its jumps.
        The values in `secret_jax.composed.kernel` have options: kernels, smoothed
        covariances. "auto" takes the one of the least criterion: that of ``search``,
        else ICOMP.
    search : {"genetic", "greedy"} or Search, optional
        Which columns, kernel and smoothed covariance the head uses is then searched:
        those of the least information criterion (`GeneticSearch`, `GreedySearch`). The
        tree stays as it is.
    random_state : int, default=0
        Seed of the genetic search.
    verbose : bool or int, default=False
        Show the progress of the search.

    Attributes
    ----------
    tree_ : SecretRegressor
        The fitted tree.
    head_ : Head
        The head, as a value.
    fitted_head_ : object
        What the head has learned: centers, kept rows, weights.
    search_ : Found
        The head that was found, its criterion, and how many were fitted; only with
        ``search``.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Only if the training data had names.

    Notes
    -----
    "rbf" keeps one center for each leaf, "gp" at most ``max_centers`` rows; "kernel"
    and "local" keep all rows, and the time to predict a row grows with those of its
    leaf. Rows go through in blocks: the memory is bounded.

    References
    ----------
    L. Torgo. Functional Models for Regression Tree Leaves. ICML 1997.

    M. J. L. Orr. Introducing Radial Basis Function Networks from Regression Trees.
    University of Edinburgh, 1999.

    J. M. Lanning. A Kernelized Genetic Algorithm Decision Tree with Information
    Criteria. Dissertation, University of Tennessee, 2008.

    Examples
    --------
    >>> import numpy as np
    >>> from secret_jax import KernelTreeRegressor
    >>> X = np.linspace(0, 6, 200)[:, None]
    >>> model = KernelTreeRegressor(head="gp").fit(X, np.sin(X[:, 0]))
    >>> model.score(X, np.sin(X[:, 0])) > 0.999
    True
    """

    tree: SecretRegressor | None = None

    def _fitted(self, given: Given) -> dict[str, Any]:
        target = validated_targets(given.y, given.X, type(self).__name__)
        tree = given.fit(self._new_tree(SecretRegressor()), given.y)
        return self._with_head(tree, given, target)[0]

    def predict(
        self, X: TableLike, *, return_std: bool = False
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Predict rows.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
        return_std : bool, default=False
            Also return standard deviations: of ``head="gp"`` those of equation 4.55
            with the noise, else the leave-one-out error of every row's leaf.

        Returns
        -------
        prediction : ndarray of shape (n_rows,) or (n_rows, n_outputs), float64
        deviation : ndarray of the same shape
            Only with ``return_std``.
        """
        value, deviation = self._predicted(X)
        if value.shape[1] == 1:
            value, deviation = value[:, 0], deviation[:, 0]
        return (value, deviation) if return_std else value

    def _criterion(self, name: str, head: Head, fit: HeadFit, rows: Regions) -> float:
        return of_numbers(name, fit, rows)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
