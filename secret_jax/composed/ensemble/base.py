"""Base of boosters: parameters, fits, and distillation into one tree."""

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any, Literal, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from secret_jax.composed.ensemble.boosting import Boosted, boosted
from secret_jax.composed.ensemble.distill import distilled, teacher_of
from secret_jax.composed.ensemble.estimator import OF_THE_TREE, EnsembleEstimator
from secret_jax.composed.ensemble.growth import BoostOptions
from secret_jax.data import validation
from secret_jax.data.rows import Rows
from secret_jax.data.schema import TableSchema
from secret_jax.data.validation import ArrayLike, TableLike
from secret_jax.estimators.common import Targets, forget_calibration
from secret_jax.estimators.parameters import plan_of
from secret_jax.fit.prepare import CheckedRows, rows_for
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
            Itself.

        Raises
        ------
        ValueError
            If the data or a parameter cannot be used, with what can be done about it.

        Notes
        -----
        A fit that is interrupted (by Ctrl-C, say) leaves the estimator as it was.
        """
        restored = validation.names_restored(self, "_boosted")
        with restored, self._fitting(X) as (reading, progress):
            X = validation.validated(self, X, reset=True)
            schema, rows, targets = self._read(
                reading, X, y, sample_weight, None, groups
            )
            others = self._eval_rows(eval_set, schema, targets)
            names = {each.name for each in fields(BoostOptions)} - {"loss", "seed"}
            own = {name: getattr(self, name) for name in names}
            options = BoostOptions(loss=self._loss, seed=reading.seed, **own)
            stage = Stage("boosting", progress)
            found = boosted(options, rows, schema, others, stage)
            new = object.__new__(type(self))
            vars(new).update(vars(self))
            new._learn(rows, found, targets)
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
            Rows to learn at, where those that trained the boosters are not at hand (a
            model from a file). Of other rows nothing is left out, so ``max_leaf_nodes``
            should be given.
        max_leaf_nodes : int or None, default=None
            Maximum number of leaves. None: students of the boosters of the folds choose
            it, on rows that neither has seen.
        oblique : bool or "auto", default="auto"
        equation_tolerance : float, default=0.03
            How short the equations are, see `SecretRegressor`.

        Returns
        -------
        SecretRegressor or SecretClassifier
            Fitted. Its attribute ``distillation_`` is a dict: ``error``, the mean
            squared error of such students on rows that neither they nor their teachers
            have seen, and ``booster_error``, that of the boosters, in units of the
            variance of the target; of classes both are mean cross-entropies in nats;
            ``fidelity``, their R² to the boosters on these rows, of classes in their
            probabilities; ``numbers``, how many there are to read. Without folds all
            but the last are NaN.

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
        model: Any = self._single_tree(
            oblique=oblique,
            equation_tolerance=equation_tolerance,
            max_leaf_nodes=max_leaf_nodes,
            **{name: getattr(self, name) for name in OF_THE_TREE},
        )
        plan, schema = plan_of(model, 0), self.ensemble_.schema
        with self._fitting(X) as (_, progress):
            boosted = None
            if X is not None:
                X = validation.validated(self, X, reset=False)
                _, rows, _ = self._read(plan, X, y, sample_weight, schema)
            elif "_rows" in vars(self):
                rows, boosted = self._rows, self._boosted
            else:
                raise ValueError(
                    "A model from a file knows no rows. Give some of them as X."
                )
            teacher = teacher_of(self.ensemble_, boosted, self._loss)
            plan = replace(plan, progress=progress)
            found = distilled(teacher, rows, plan, schema, max_leaf_nodes)
        known = validation.fitted_names(self)
        known |= {k: vars(self)[k] for k in _OF_CLASSES if k in vars(self)}
        for name, value in known.items():
            setattr(model, name, value)
        model.tree_, model.n_leaves_grown_ = found.tree, found.n_leaves_grown
        model.n_refine_steps_ = 0
        model.distillation_ = {
            "error": found.error,
            "booster_error": self.validation_error_ if teacher.folds else float("nan"),
            "fidelity": found.fidelity,
            "numbers": model.reading_cost_,
        }
        return model

    def _learn(self, rows: Rows, found: Boosted, targets: Targets) -> None:
        """Set the fitted attributes."""
        forget_calibration(self)
        vars(self).update(targets.learned)
        self.ensemble_, self.validation_errors_ = found.ensemble, found.errors
        errors, n_rounds = found.errors, found.ensemble.n_rounds
        self.validation_error_ = float(errors[n_rounds]) if errors.size else np.nan
        self._boosted, self._rows = found, rows

    def _eval_rows(
        self, eval_set: Any, schema: TableSchema, training: Targets
    ) -> Rows | None:
        if eval_set is None:
            return None
        X, y, weight = validation.given_beside(self, eval_set, "stop by")
        try:
            targets = self._targets(y, X, weight, schema, training.learned)
            weight = validation.scaled_weight(targets.weight)
            return rows_for(schema, CheckedRows(X, targets.values, weight)).take(None)
        except ValueError as error:
            raise ValueError(f"In eval_set: {error}") from None

    def _staged(self, X: TableLike) -> Iterator[np.ndarray]:
        """Predictions of the ensemble after every round, in the units of the target."""
        check_is_fitted(self)
        with self._computing(X, fall_back=True):
            table = self._encoded(X)
        stages = self.ensemble_.staged(table)
        while True:
            with self._computing(X, fall_back=True):
                found = next(stages, None)
            if found is None:
                return
            yield found

    @property
    def n_iter_(self) -> int:
        """Number of rounds, not counting the first models."""
        check_is_fitted(self)
        return self.ensemble_.n_rounds

    @property
    def n_trees_(self) -> int:
        """Number of trees of all boosters, not counting their first models."""
        check_is_fitted(self)
        return self.ensemble_.n_trees
