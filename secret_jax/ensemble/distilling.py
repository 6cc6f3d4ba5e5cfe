"""Mixin of boosters: distillation into one readable tree."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np
from sklearn.utils.validation import check_is_fitted

from secret_jax.data.given import ArrayLike, TableLike
from secret_jax.data.rows import Rows, merged
from secret_jax.data.sampling import ROW_ORDER
from secret_jax.data.validation import (
    checked_weight,
    copies_of,
    fitted_names,
    scaled_weight,
    validated,
)
from secret_jax.ensemble.base import BoostingEstimator
from secret_jax.ensemble.distill import Teacher, distil, teacher_of, told_by
from secret_jax.ensemble.estimator import OF_THE_TREE, encoded
from secret_jax.estimators.parameters import plan_of
from secret_jax.refine.distillation import Distillation
from secret_jax.refine.interface import RefinementWarning
from secret_jax.runtime.parallel import one_thread_for_products
from secret_jax.runtime.progress_line import shown
from secret_jax.runtime.warning import warn


class DistillingMixin(BoostingEstimator):
    """Base of boosters that can be distilled; a subclass chooses the student."""

    def _student(self, **parameters: Any) -> Any:
        """Make the unfitted estimator of the tree."""
        raise NotImplementedError

    def distill(
        self,
        X: TableLike = None,
        y: ArrayLike = None,
        sample_weight: ArrayLike | None = None,
        *,
        max_leaf_nodes: int | None = None,
        refine: Literal["soft"] | None = None,
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
        refine : "soft" or None, default=None
            "soft": gates and leaves are trained on the boosters' predictions, see
            `SoftGates`; it is taken if it is better on rows held out.
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
            probabilities; ``numbers``, how many there are to read. NaN if
            unknown: without folds, and error and fidelity of a soft tree.

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
        model = self._student(
            oblique=oblique,
            refine=refine,
            equation_tolerance=equation_tolerance,
            max_leaf_nodes=max_leaf_nodes,
            max_split_samples=2048,
            **{name: getattr(self, name) for name in OF_THE_TREE},
        )
        plan = plan_of(
            model.get_params(deep=False),
            type(model).__name__,
            model._parameter_constraints,
            model._named,
            seed=0,
        )
        if refine not in (None, "soft"):
            raise ValueError(f"refine must be 'soft' or None. Got {refine!r}.")
        with (
            shown(self.verbose) as progress,
            one_thread_for_products(),
            self._computing(X),
        ):
            rows, teacher = self._teacher(X, y, sample_weight)
            found = distil(
                teacher,
                rows,
                replace(plan, progress=progress),
                self.ensemble_.schema,
                max_leaf_nodes=max_leaf_nodes,
                soft=refine == "soft",
                options=Distillation(),
            )
        if found.refusal:
            warn(f"The hard tree was kept: {found.refusal}.", RefinementWarning)
        for name, value in fitted_names(self).items():
            setattr(model, name, value)
        classes = getattr(self, "classes_", None)
        if classes is not None:
            model.classes_ = classes
        model.tree_ = found.tree
        model.n_leaves_grown_, model.n_refine_steps_ = (
            found.n_leaves_grown,
            found.n_steps,
        )
        of_folds = X is None and len(teacher.folds) > 0
        model.distillation_ = {
            "error": float(found.error),
            "booster_error": self.validation_error_ if of_folds else float("nan"),
            "fidelity": float(found.fidelity),
            "numbers": model.reading_cost_,
        }
        return model

    def _teacher(
        self, X: TableLike, y: ArrayLike, sample_weight: ArrayLike | None
    ) -> tuple[Rows, Teacher]:
        ensemble = self.ensemble_
        if X is None:
            rows, boosted = self._some_rows(None), self._boosted
            every = np.arange(rows.n_rows)
            parts = [np.isin(every, part) for part in boosted.parts]
            return rows, teacher_of(boosted, rows, parts, self._loss)
        X = validated(self, X, reset=False)
        weight = checked_weight(sample_weight, X)
        targets = self._targets(y, X, weight, ensemble.schema)
        copies = copies_of(weight)
        own = scaled_weight(targets.weight, copies)
        given = encoded(ensemble.schema, X, targets.values, own)
        rows = merged(given, ROW_ORDER, copies[weight > 0]).dealt()
        said = told_by(ensemble, self._loss)
        return rows, Teacher(said, said(rows.table), [], [])
