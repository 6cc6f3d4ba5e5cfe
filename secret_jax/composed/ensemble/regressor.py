"""Boosters of numeric targets: predictions, intervals, distillation."""

from collections.abc import Iterator
from typing import Literal, overload

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from secret_jax.composed.ensemble.base import BoostingEstimator
from secret_jax.composed.ensemble.boosting import Boosted
from secret_jax.data.rows import Rows
from secret_jax.data.validation import TableLike
from secret_jax.estimators.common import Targets
from secret_jax.estimators.conformal import ConformalMixin


class SecretBoostingRegressor(ConformalMixin, RegressorMixin, BoostingEstimator):
    """Boosted trees with linear models in their leaves.

    The first model is linear; every round adds a small tree with linear models that
    is fitted to the residuals (Friedman 2001, 2002). Five boosters that each
    leave out a fifth of the rows determine when to stop, and predict together with a
    sixth that has seen all rows.

    `distill` gives one readable tree fitted to the boosters' predictions;
    `sklearn.inspection.PartialDependenceDisplay` draws how they depend on a column.

    Parameters
    ----------
    max_leaf_nodes : int, default=16
        Maximum number of leaves of a tree, whose splits are on one column or on sums of
        several.
    learning_rate : float, default=0.2
        Share of each tree in the prediction.
    max_iter : int, default=1000
        Maximum number of trees of each booster after its first model. 0: the first
        model alone.
    early_stopping : bool, default=True
        Whether to stop where the error on rows left out, or on ``eval_set``, has not
        fallen for ``n_iter_no_change`` rounds. False: exactly ``max_iter`` rounds.
    n_iter_no_change : int, default=5
        Rounds without a lower error after which the boosters stop.
    subsample : float, default=0.7
        Share of the rows that each tree sees, drawn without replacement.
    n_folds : int, default=5
        Number of folds, each left out by one booster. Of more than 32,768 rows a
        tenth is left out by a single booster.
    ensemble : bool, default=True
        Whether to predict with the mean of the boosters of all folds and the one of all
        rows. False: only the latter; a sixth of the size, at a few per cent more error.
    missing_values, categorical_features, split_features, monotonic_cst
        Options for reading the table; see `SecretRegressor`.
    random_state : int, RandomState instance or None, default=None
        Draws the rows of the trees. None: the same rows in every fit.
    device, verbose
        See `SecretRegressor`.

    Attributes
    ----------
    ensemble_ : secret_jax.composed.ensemble.model.Ensemble
    n_iter_ : int
        Number of trees of a booster, after the linear model.
    n_trees_ : int
        Number of trees of all boosters, not counting the first models.
    validation_errors_ : ndarray of shape (n_iter_run + 1,)
        Mean squared error on rows left out, or on ``eval_set``, after each round, in
        units of the variance of the target. Empty if there were none.
    validation_error_ : float
        That of the round that predicts; NaN if there were no such rows.
    conformity_scores_, conformity_weight_ : ndarray of shape (n_rows,)
        Scores and weights for `predict_interval`.
    deviation_ : float, or ndarray of shape (n_outputs,) of several outputs
        Root of the mean squared error on rows left out (on the training rows, if none
        were), in units of the target.
    n_outputs_ : int
    feature_importances_ : ndarray of shape (n_features_in_,)
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Only if the training data had names.

    References
    ----------
    J. H. Friedman. Greedy Function Approximation: A Gradient Boosting Machine. Annals
    of Statistics 29, 2001.

    J. H. Friedman. Stochastic Gradient Boosting. Computational Statistics and Data
    Analysis 38, 2002.

    Y. Shi, J. Li and Z. Li. Gradient Boosting with Piece-Wise Linear Regression Trees.
    IJCAI 2019.

    Examples
    --------
    >>> from secret_jax import SecretBoostingRegressor
    >>> from secret_jax.datasets import make_fried
    >>> X, y = make_fried(400, random_state=0)
    >>> model = SecretBoostingRegressor(max_leaf_nodes=8, max_iter=10).fit(X, y)
    >>> model.n_iter_, model.n_trees_
    (10, 60)
    >>> model.score(X, y) > 0.9
    True
    """

    def _learn(self, rows: Rows, found: Boosted, targets: Targets) -> None:
        super()._learn(rows, found, targets)
        schema, unseen = found.ensemble.schema, found.unseen
        said = self.ensemble_.values(rows.table) if unseen is None else unseen
        residual = np.array(schema.target_scales) * (rows.targets - said)
        each = np.sqrt(rows.weight @ residual**2 / rows.weight.sum())
        self.deviation_ = float(each[0]) if len(each) == 1 else each
        if unseen is not None and schema.n_outputs == 1:
            deviation = np.full(len(residual), self.deviation_)
            self._calibrate(residual[:, 0], deviation, rows.weight)

    @overload
    def predict(
        self, X: TableLike, return_std: Literal[False] = False
    ) -> np.ndarray: ...

    @overload
    def predict(
        self, X: TableLike, return_std: Literal[True]
    ) -> tuple[np.ndarray, np.ndarray]: ...

    def predict(
        self, X: TableLike, return_std: bool = False
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Predict the target.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
        return_std : bool, default=False
            Also return the standard deviation of a new output about its prediction: the
            root of the mean squared error on rows left out, the same for all rows.

        Returns
        -------
        prediction : ndarray of shape (n_rows,), or (n_rows, n_outputs), float64
        deviation : ndarray of the same shape, float64
            Only with ``return_std``.
        """
        check_is_fitted(self)
        with self._computing(X, fall_back=True):
            prediction = self.ensemble_.predict(self._unencoded(X))
        if not return_std:
            return prediction
        return prediction, np.broadcast_to(self.deviation_, prediction.shape).copy()

    def staged_predict(self, X: TableLike) -> Iterator[np.ndarray]:
        """Predict after every round, beginning with the first models.

        There are as many as the longest of the boosters has trees.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)

        Yields
        ------
        ndarray of shape (n_rows,), or (n_rows, n_outputs), float64
        """
        yield from self._staged(X)
