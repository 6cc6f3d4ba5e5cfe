"""Mixin of boosters: distillation into one readable tree."""

from dataclasses import replace
from typing import Any, Literal

from sklearn.utils.validation import check_is_fitted

from secret_jax.data.given import ArrayLike, TableLike
from secret_jax.data.validation import fitted_names, validated
from secret_jax.ensemble.base import BoostingEstimator
from secret_jax.ensemble.distill import Lesson, Teacher
from secret_jax.ensemble.estimator import OF_THE_TREE
from secret_jax.estimators.planning import plan_of

_OF_CLASSES = "classes_", "target_name_"


class DistillingMixin(BoostingEstimator):
    """Base of boosters that can be distilled."""

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
        plan = plan_of(model, 0)
        schema = self.ensemble_.schema
        with self._fitting(X) as (_, progress):
            boosted = None
            if X is None:
                if "_rows" not in vars(self):
                    raise ValueError(
                        "A model from a file knows no rows. Give some of them as X."
                    )
                rows, boosted = self._rows, self._boosted
            else:
                X = validated(self, X, reset=False)
                _, rows, _ = self._read(plan, X, y, sample_weight, schema)
            teacher = Teacher.of(self.ensemble_, boosted, rows, self._loss)
            lesson = Lesson(
                teacher=teacher,
                rows=rows,
                plan=replace(plan, progress=progress),
                schema=schema,
                max_leaf_nodes=max_leaf_nodes,
            )
            found = lesson.learned()
        known = fitted_names(self)
        known |= {k: vars(self)[k] for k in _OF_CLASSES if k in vars(self)}
        for name, value in known.items():
            setattr(model, name, value)
        model.tree_, model.n_leaves_grown_ = found.tree, found.n_leaves_grown
        model.n_refine_steps_ = 0
        model.distillation_ = {
            "error": float(found.error),
            "booster_error": self.validation_error_ if teacher.folds else float("nan"),
            "fidelity": float(found.fidelity),
            "numbers": model.reading_cost_,
        }
        return model
