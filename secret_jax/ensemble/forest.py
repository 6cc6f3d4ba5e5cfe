"""Forests of linear trees, with out-of-bag errors."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_is_fitted

from secret_jax.data.encoding import encode
from secret_jax.data.given import ArrayLike, TableLike
from secret_jax.data.rows import merged
from secret_jax.data.sampling import ROW_ORDER
from secret_jax.data.validation import (
    checked_weight,
    copies_of,
    fitted_names,
    restore_names,
    scaled_weight,
    validated,
)
from secret_jax.ensemble.bags import ForestPlan, grow_forest, out_of_bag
from secret_jax.ensemble.copies import Copies
from secret_jax.ensemble.estimator import EnsembleEstimator, encoded
from secret_jax.ensemble.model import Ensemble
from secret_jax.ensemble.of_numbers import OfNumbers
from secret_jax.ensemble.options import TreeRecipe, TreeSize
from secret_jax.estimators.parameters import CONSTRAINTS
from secret_jax.fit.plan import Plan
from secret_jax.fit.prepare import CheckedRows, read_rows
from secret_jax.runtime.parallel import one_thread_for_products
from secret_jax.runtime.progress import Progress, Stage
from secret_jax.runtime.progress_line import shown
from secret_jax.runtime.values import at_least


class SecretForestRegressor(OfNumbers, RegressorMixin, EnsembleEstimator):
    """Mean of many trees with linear models in their leaves.

    Every tree is grown on a bag of rows drawn with replacement, and every node is split
    on the best of a few attributes drawn for it alone (Breiman 2001). Out-of-bag
    predictions measure the error without further rows.

    Parameters
    ----------
    n_estimators : int, default=100
        Number of trees.
    max_features : int, float, "sqrt", "log2" or None, default=1/3
        Number of attributes that a node draws, or their share. None: all of them.
    min_samples_leaf : int or float, default=5
        Minimum number of rows of a leaf, or their share of the bag.
    max_leaf_nodes : int or None, default=None
    oblique : bool, default=False
        Whether splits may be linear inequalities in several of the drawn attributes.
    bootstrap : bool, default=True
        False: every tree has all rows, and nothing is out of a bag.
    random_state : int, RandomState instance or None, default=None
        Draws bags and attributes. None: the same in every fit.
    categorical_features, split_features, indicators, missing_values, device, \
            max_memory, verbose
        As in `secret_jax.SecretRegressor`.

    Attributes
    ----------
    ensemble_ : secret_jax.ensemble.model.Ensemble
        The trees are "boosters" of one tree each.
    oob_prediction_ : ndarray of shape (n_rows,), or (n_rows, n_outputs)
        Mean prediction for every training row of the trees that lack it, or NaN.
        Identical rows are in and out of bags one by one, and so are the copies that a
        row of integer weight stands for. Only with ``bootstrap``.
    oob_score_ : float
        R² of these predictions, by the rows' weights.
    n_outputs_ : int
    feature_importances_ : ndarray of shape (n_features_in_,)
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Only if the training data had names.

    References
    ----------
    L. Breiman. Random Forests. Machine Learning 45, 2001.

    Examples
    --------
    >>> from secret_jax import SecretForestRegressor
    >>> from secret_jax.datasets import make_fried
    >>> X, y = make_fried(400, random_state=0)
    >>> model = SecretForestRegressor(n_estimators=20, random_state=0).fit(X, y)
    >>> 0.8 < model.oob_score_ < model.score(X, y)
    True
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_estimators": [at_least(1)],
        "max_features": CONSTRAINTS["max_features"],
        "min_samples_leaf": TreeSize._parameter_constraints["min_samples_leaf"],
        "max_leaf_nodes": CONSTRAINTS["max_leaf_nodes"],
        "oblique": ["boolean"],
        "bootstrap": ["boolean"],
        **EnsembleEstimator._parameter_constraints,
    }

    def __init__(
        self,
        n_estimators: int = 100,
        *,
        max_features: float | Literal["sqrt", "log2"] | None = 1 / 3,
        min_samples_leaf: float = 5,
        max_leaf_nodes: int | None = None,
        oblique: bool = False,
        bootstrap: bool = True,
        categorical_features: Any = None,
        split_features: Any = None,
        indicators: bool | Literal["auto"] = "auto",
        missing_values: Literal["learn", "mean", "error"] = "learn",
        random_state: Any = None,
        device: str | None = None,
        max_memory: int | None = None,
        verbose: int = 0,
    ):
        self.n_estimators = n_estimators
        self.max_features = max_features
        self.min_samples_leaf = min_samples_leaf
        self.max_leaf_nodes = max_leaf_nodes
        self.oblique = oblique
        self.bootstrap = bootstrap
        self.categorical_features = categorical_features
        self.split_features = split_features
        self.indicators = indicators
        self.missing_values = missing_values
        self.random_state = random_state
        self.device = device
        self.max_memory = max_memory
        self.verbose = verbose

    def fit(
        self, X: TableLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Grow the trees of the forest.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
        y : array-like of shape (n_rows,) or (n_rows, n_outputs)
        sample_weight : array-like of shape (n_rows,), optional
            Weights by which rows are drawn; integers are numbers of rows.

        Returns
        -------
        self
            Itself. A fit that is interrupted leaves it as it was.

        Raises
        ------
        ValueError
            If the data or a parameter cannot be used, with what can be done about it.
        """
        reading = self._reading()
        names_before = fitted_names(self)
        try:
            with (
                shown(self.verbose) as progress,
                one_thread_for_products(),
                self._computing(X),
            ):
                self._fit(reading, progress, X, y, sample_weight)
        except BaseException:
            restore_names(self, names_before)
            raise
        return self

    def _fit(
        self,
        reading: Plan,
        progress: Progress,
        X: TableLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None,
    ) -> None:
        X = validated(self, X, reset=True)
        weight = checked_weight(sample_weight, X)
        number, targets = copies_of(weight), self._targets(y, X, weight)
        weight = scaled_weight(targets.weight, number)
        checked = CheckedRows(X, targets.values, weight, number, targets.names)
        schema = read_rows(reading, checked)[0]
        given = encoded(schema, X, targets.values, weight)
        rows = merged(given, ROW_ORDER).rows
        size = TreeSize(
            max_leaf_nodes=self.max_leaf_nodes or rows.n_rows,
            min_samples_leaf=self.min_samples_leaf,
            oblique=bool(self.oblique),
        )
        plan = ForestPlan(
            n_estimators=int(self.n_estimators),
            size=size,
            max_leaf_nodes=self.max_leaf_nodes,
            max_features=self.max_features,
            bootstrap=bool(self.bootstrap),
            recipe=TreeRecipe(learning_rate=1.0, seed=reading.seed),
            stage=Stage("growing a forest", progress),
        )
        forest = grow_forest(plan, rows, schema)
        ensemble = Ensemble.of([[tree] for tree in forest.trees], 1.0, size)
        found = None
        if self.bootstrap:
            outside = out_of_bag(
                forest, rows, Copies.of(rows, given, number[weight > 0])
            )
            score = _score(given.targets, outside, given.weight)
            said = np.zeros((len(weight), outside.shape[1]))
            said[weight > 0] = outside
            never = weight == 0  # in no bag
            if never.any():
                table = encode(schema, X).on_host().take(never)
                said[never] = ensemble.values(table)
            found = schema.restore_targets(said), score
        for name in ("oob_prediction_", "oob_score_"):
            self.__dict__.pop(name, None)
        if found is not None:
            self.oob_prediction_, self.oob_score_ = found
        self.ensemble_, self._rows = ensemble, rows

    def predict(self, X: TableLike) -> np.ndarray:
        """Predict the target.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)

        Returns
        -------
        ndarray of shape (n_rows,), or (n_rows, n_outputs), float64
        """
        check_is_fitted(self)
        with self._computing(X, fall_back=True):
            return self.ensemble_.predict(self._encoded(X))


def _score(targets: np.ndarray, said: np.ndarray, weight: np.ndarray) -> float:
    """Out-of-bag R², over rows that are out of some bag."""
    known = np.isfinite(said).all(axis=1)
    if known.sum() < 2:
        return float("nan")
    found = r2_score(targets[known], said[known], sample_weight=weight[known])
    return float(found)
