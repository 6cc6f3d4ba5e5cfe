"""Boosters of numbers and of classes: parameters, fits, distillation into one tree."""

from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any, ClassVar, Literal, Self, overload

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted

from secret_jax.composed.ensemble.distill import distilled, teacher_of
from secret_jax.composed.ensemble.estimator import EnsembleEstimator
from secret_jax.composed.ensemble.growth import Boosted, Boosting
from secret_jax.data.encoding import every_row
from secret_jax.data.foreign import of_kind_of_x
from secret_jax.data.rows import Rows
from secret_jax.data.validation import (
    ArrayLike,
    CheckedRows,
    TableLike,
    of_eval_set,
    scaled_rows,
)
from secret_jax.estimators.classifier import ClassesMixin, SecretClassifier
from secret_jax.estimators.conformal import ConformalMixin
from secret_jax.estimators.parameters import NAMED, plan_of
from secret_jax.estimators.regressor import LossMixin
from secret_jax.fit.prepare import read_rows, rows_for
from secret_jax.inspect.view import with_all_classes
from secret_jax.losses.classes import CrossEntropy
from secret_jax.losses.interface import Loss
from secret_jax.runtime.progress import Stage
from secret_jax.runtime.values import at_least, real

_OF_CLASSES = "classes_", "target_name_"


@dataclass(kw_only=True, eq=False, repr=False)
class BoostingEstimator(EnsembleEstimator):
    """Base of the boosters; a subclass defines the outputs and predictions."""

    max_leaf_nodes: Annotated[int, at_least(1)] = 16
    learning_rate: Annotated[float, real(0.0, 1.0, closed="right")] = 0.2
    max_iter: Annotated[int, at_least(0)] = 1000
    early_stopping: bool = True
    n_iter_no_change: Annotated[int, at_least(1)] = 5
    subsample: Annotated[float, real(0.0, 1.0, closed="right")] = 0.7
    n_folds: Annotated[int, at_least(2)] = 5
    ensemble: bool = True

    def fit(
        self,
        X: TableLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        groups: ArrayLike | None = None,
        eval_set: Any = None,
    ) -> Self:
        """Grow boosters, and choose the number of rounds.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
        y : array-like of shape (n_rows,), or (n_rows, n_outputs) of numbers
        sample_weight : array-like of shape (n_rows,), optional
        groups : array-like of shape (n_rows,), optional
            Names of what rows belong to, as persons or places: folds keep them
            together.
        eval_set : tuple (X, y) or (X, y, sample_weight), optional
            Rows that determine, in place of folds, when to stop. One booster is grown,
            on all rows of X, and none of these train it.

        Returns
        -------
        self
            A fit that is interrupted leaves it as it was.

        Raises
        ------
        ValueError
            If the data or a parameter cannot be used, with what can be done about it.
        """
        reading, new = self._reading(), copy(self)
        with self._fitting(X) as progress:
            given = new._given(X, y, sample_weight, groups)
            schema, source, _ = read_rows(reading, *scaled_rows(given))
            others = None
            if eval_set is not None:
                beside = new._given_beside(eval_set, "stop by", given)
                with of_eval_set():
                    others = rows_for(schema, *scaled_rows(beside)).take(None)
            names = {each.name for each in fields(Boosting)} - {"leaf", "seed"}
            own = {name: getattr(self, name) for name in names}
            boosting = Boosting(leaf=reading.leaf, seed=reading.seed, **own)
            rows = every_row(source)
            found = boosting(rows, schema, others, Stage("boosting", progress))
            new._learn(rows, found, given)
            self.__dict__ = vars(new)  # at one stroke
        return self

    def distill(
        self,
        X: TableLike = None,
        y: ArrayLike = None,
        sample_weight: ArrayLike | None = None,
        *,
        max_leaf_nodes: int | None = None,
        oblique: bool | Literal["auto"] = "auto",
        equation_tolerance: float = 0.03,
    ) -> Any:
        """Distil the boosters into one readable tree.

        Parameters
        ----------
        X, y, sample_weight : optional
            Rows to learn at, of a model from a file. Nothing is left out of them, so
            ``max_leaf_nodes`` should be given.
        max_leaf_nodes : int or None, default=None
            Maximum number of leaves. None: students of the boosters of the folds choose
            it, on rows that neither has seen.
        oblique : bool or "auto", default="auto"
        equation_tolerance : float, default=0.03
            How short the equations are, see `SecretRegressor`.

        Returns
        -------
        SecretRegressor or SecretClassifier
            Fitted. Its ``distillation_`` is a dict: ``error`` of such students on rows
            that neither they nor their teachers have seen, ``booster_error``, both as
            ``validation_error_``; ``fidelity``, their R² to the boosters on these rows
            (of classes in probabilities); ``numbers`` to read. Without folds all but
            the last are NaN.

        Examples
        --------
        >>> from secret_jax import SecretBoostingRegressor
        >>> from secret_jax.datasets import make_fried
        >>> X, y = make_fried(400, random_state=0)
        >>> booster = SecretBoostingRegressor(max_leaf_nodes=8, max_iter=10).fit(X, y)
        >>> tree = booster.distill(max_leaf_nodes=4)
        >>> tree.n_leaves_, tree.distillation_["fidelity"] > 0.8
        (4, True)
        """
        check_is_fitted(self)
        if not self._loss.predicts_mean:
            raise ValueError(
                f"A tree learns means from boosters, and these were fitted with "
                f"{self._loss!r}. Fit a SecretRegressor with this loss."
            )
        model = self._single_tree(
            oblique=oblique,
            equation_tolerance=equation_tolerance,
            max_leaf_nodes=max_leaf_nodes,
        )
        schema = self.ensemble_.schema
        with self._fitting(X) as progress:
            boosted = None
            if X is not None:
                known = self._fitted_targets(schema)
                given = self._given(X, y, sample_weight, None, known)
                source = rows_for(schema, *scaled_rows(given))
                rows = every_row(source)
            elif "_rows" in vars(self):
                rows, boosted = self._rows, self._boosted
            else:
                raise ValueError(
                    "A model from a file knows no rows. Give some of them as X."
                )
            teacher = teacher_of(self.ensemble_, boosted, self._loss)
            plan = replace(plan_of(model, 0), progress=progress)
            tree, grown, told = distilled(teacher, rows, plan, schema, max_leaf_nodes)
        known = {k: vars(self)[k] for k in _OF_CLASSES if k in vars(self)}
        vars(model).update(self._noted() | known)
        model.tree_, model.n_leaves_grown_, model.n_refine_steps_ = tree, grown, 0
        error = self.validation_error_ if teacher.folds else float("nan")
        told |= {"booster_error": error, "numbers": model.reading_cost_}
        model.distillation_ = told
        return model

    def _learn(self, rows: Rows, found: Boosted, given: CheckedRows) -> None:
        """Set the fitted attributes."""
        self._become(**self._noted(), **given.learned)
        self.ensemble_, self.validation_errors_ = found.ensemble, found.errors
        errors = found.errors
        self.validation_error_ = float(errors[self.n_iter_]) if errors.size else np.nan
        self._boosted, self._rows = found, rows

    def staged_predict(self, X: TableLike) -> Iterator[np.ndarray]:
        """Predict after every round, beginning with the first models.

        Yields
        ------
        ndarray of shape (n_rows,), or (n_rows, n_outputs), float64
            Of classes the most likely ones, shape (n_rows,).
        """
        check_is_fitted(self)
        with self._computing(X, fall_back=True):
            stages = self.ensemble_.staged(self._unencoded(X).encoded().on_host())
        for _ in range(1 + self.n_iter_):
            with self._computing(X, fall_back=True):
                found = next(stages)
            yield found

    @property
    def n_iter_(self) -> int:
        """Number of rounds, not counting the first models."""
        check_is_fitted(self)
        return len(self.ensemble_.boosters[0]) - 1

    @property
    def n_trees_(self) -> int:
        """Number of trees of all boosters, not counting their first models."""
        check_is_fitted(self)
        return self.n_iter_ * len(self.ensemble_.boosters)


@dataclass(kw_only=True, eq=False, repr=False)
class SecretBoostingRegressor(
    ConformalMixin, RegressorMixin, LossMixin, BoostingEstimator
):
    """Boosted trees with linear models in their leaves.

    The first model is linear; every round adds a small tree with linear models that
    is fitted to the residuals (Friedman 2001, 2002). Five boosters that each
    leave out a fifth of the rows determine when to stop, and predict together with a
    sixth that has seen all rows. `distill` gives one readable tree that learned from
    them.

    Parameters
    ----------
    max_leaf_nodes : int, default=16
        Of a tree, whose splits are on one column or on sums of several.
    learning_rate : float, default=0.2
        Share of each tree in the prediction.
    max_iter : int, default=1000
        Most rounds: trees of each booster after its first model.
    early_stopping : bool, default=True
        Whether to stop after ``n_iter_no_change`` rounds without a lower error on rows
        left out, or on ``eval_set``. False: exactly ``max_iter`` rounds.
    n_iter_no_change : int, default=5
    subsample : float, default=0.7
        Share of the rows that each tree sees, drawn without replacement.
    n_folds : int, default=5
        Of more than 32,768 rows a tenth is left out by a single booster.
    ensemble : bool, default=True
        False: the boosters of the folds do not predict; a sixth of the size, at a few
        per cent more error.
    loss : str or Loss, default="squared"
        As in `SecretRegressor`, but for "auto": also "absolute", "poisson", "gamma" or
        ``Quantile(level=0.9)``. The first model, and those in the leaves of all trees,
        are fitted to it. `distill` needs one of means.
    random_state : int, RandomState instance or None, default=None
        Draws the rows of the trees. None: the same rows in every fit.
    missing_values, categorical_features, split_features, monotonic_cst, device, \
            verbose
        As in `SecretRegressor`.

    Attributes
    ----------
    ensemble_ : secret_jax.composed.ensemble.growth.Ensemble
    n_iter_, n_trees_ : int
        Trees of a booster, and of all, not counting the first models.
    validation_errors_ : ndarray of shape (n_iter_run + 1,)
        Mean squared error on rows left out, or on ``eval_set``, after each round, in
        units of the variance of the target; with another loss its mean, in units in
        which the target is encoded. Empty if there were none.
    validation_error_ : float
        That of the round that predicts; NaN if there were no such rows.
    conformity_scores_, conformity_weight_ : ndarray of shape (n_rows,)
        Scores and weights for `predict_interval`.
    deviation_ : float, or ndarray of shape (n_outputs,) of several outputs
        Root of the mean squared error on rows left out (on the training rows, if none
        were), in units of the target; with the loss "poisson" or "gamma" of the squared
        error over the prediction, or its square. Not for quantiles.
    feature_importances_ : ndarray of shape (n_features_in_,)
    n_outputs_, n_features_in_ : int
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
    >>> model.n_iter_, model.n_trees_, model.score(X, y) > 0.9
    (10, 60, True)
    """

    loss: Annotated[str | Loss, StrOptions({*NAMED["loss"]} - {"auto"}), Loss] = (
        "squared"
    )
    _of_the_tree: ClassVar = (*BoostingEstimator._of_the_tree, "loss")

    def _learn(self, rows: Rows, found: Boosted, given: CheckedRows) -> None:
        super()._learn(rows, found, given)
        schema, unseen, loss = found.ensemble.schema, found.unseen, self._loss
        if not loss.predicts_mean:
            return
        said = self.ensemble_.values(rows.table) if unseen is None else unseen
        scale, prediction = np.array(schema.target_scales), loss.prediction(said)
        residual, unit = scale * (rows.targets - prediction), scale * prediction
        unit = np.abs(unit) ** (0.5 * loss.power)  # of deviations, at these means
        each = np.sqrt(rows.weight @ (residual / unit) ** 2 / rows.weight.sum())
        self.deviation_ = float(each[0]) if len(each) == 1 else each
        if unseen is not None and schema.n_outputs == 1:
            deviation = self.deviation_ * unit[:, 0]
            self._calibrate(residual[:, 0], deviation, rows.weight)

    @property
    def _lowest(self) -> float:
        return 0.0 if self._loss.link == "exponential" else -np.inf

    @overload
    def predict(
        self, X: TableLike, return_std: Literal[False] = False
    ) -> np.ndarray: ...

    @overload
    def predict(
        self, X: TableLike, return_std: Literal[True]
    ) -> tuple[np.ndarray, np.ndarray]: ...

    @of_kind_of_x
    def predict(
        self, X: TableLike, return_std: bool = False
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Predict the target.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
        return_std : bool, default=False
            Also return the deviation of a new output about its prediction:
            ``deviation_``, with the loss "poisson" times the root of the prediction,
            with "gamma" times the prediction.

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
        self._loss.check_deviations()
        unit = np.abs(prediction) ** (0.5 * self._loss.power)
        return prediction, self.deviation_ * unit


@dataclass(kw_only=True, eq=False, repr=False)
class SecretBoostingClassifier(ClassesMixin, BoostingEstimator):
    """Boosted trees with linear models in their leaves, for classes.

    The first model is a logistic regression; every round adds a small tree with linear
    models that is fitted to the steps of Newton's method (Friedman, Hastie & Tibshirani
    2000). For two classes the trees predict log-odds; for more a tree predicts a score
    of each class, and probabilities are proportional to the exponentials of the scores.
    Cross-entropy chooses the number of rounds.

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
    classes_, target_name_
        As in `SecretClassifier`.
    ensemble_, n_iter_, n_trees_, validation_errors_, validation_error_, \
            feature_importances_, n_features_in_, feature_names_in_
        As in `SecretBoostingRegressor`; errors are mean cross-entropies in nats.

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
    """

    class_weight: Literal["balanced"] | dict | None = None
    _tree: ClassVar[Any] = SecretClassifier
    _of_the_tree: ClassVar = (*BoostingEstimator._of_the_tree, "class_weight")

    @property
    def _loss(self) -> Loss:
        return CrossEntropy()

    def _probabilities(self, X: TableLike) -> Any:
        check_is_fitted(self)
        with self._computing(X, fall_back=True):
            found = self.ensemble_.predict(self._unencoded(X), self._loss)
        return with_all_classes(found.reshape(len(found), -1))

    @of_kind_of_x
    def decision_function(self, X: TableLike) -> np.ndarray:
        """Predict log-odds.

        Returns
        -------
        ndarray of shape (n_rows,), or (n_rows, n_classes), float64
            Of the second of two classes; of more, of every class up to a term that all
            share.
        """
        scores = self._scores(X)
        return scores if scores.shape[1] > 1 else scores[:, 0]

    def staged_predict_proba(self, X: TableLike) -> Iterator[np.ndarray]:
        """Predict probabilities, (n_rows, n_classes); see `staged_predict`."""
        for scores in super().staged_predict(X):
            value = self._loss.prediction(scores.reshape(len(scores), -1))
            yield with_all_classes(value)

    def staged_predict(self, X: TableLike) -> Iterator[np.ndarray]:
        for probability in self.staged_predict_proba(X):
            yield self.classes_[np.argmax(probability, axis=1)]

    def _scores(self, X: TableLike) -> np.ndarray:
        check_is_fitted(self)
        with self._computing(X, fall_back=True):
            return self.ensemble_.values(self._unencoded(X).encoded())
