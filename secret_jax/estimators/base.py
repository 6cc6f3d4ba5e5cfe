"""Base of the estimators of single trees: validate, call, store; no numerics."""

from copy import copy
from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.utils import Bunch
from sklearn.utils.validation import check_is_fitted

from secret_jax.data.encoding import Unencoded, unencoded
from secret_jax.data.given import ArrayLike, TableLike
from secret_jax.data.rows import Table
from secret_jax.data.sampling import group_numbers
from secret_jax.data.validation import (
    checked_weight,
    given_beside,
    names_restored,
    validated,
)
from secret_jax.estimators.common import NestedParameters, TableEstimator, Targets
from secret_jax.estimators.planning import plan_of, seed_of
from secret_jax.estimators.steering import Steering
from secret_jax.fit.alternatives import fit_tree
from secret_jax.fit.pipeline import Fit, refine
from secret_jax.fit.plan import Plan
from secret_jax.fit.prepare import CheckedRows, scaled_rows
from secret_jax.fit.prune.interface import PruningRule
from secret_jax.fit.prune.path import training_path
from secret_jax.fit.refine.interface import RefinementWarning
from secret_jax.inspect.intervals import forget_calibration
from secret_jax.inspect.mixin import InspectionMixin
from secret_jax.runtime.parallel import one_thread_for_products
from secret_jax.runtime.progress import shown
from secret_jax.runtime.warning import warn
from secret_jax.tree import routing
from secret_jax.tree.structure import Tree

# Types of rows that may take the fast path.
_FLOATS = (np.dtype(np.float32), np.dtype(np.float64))


class TreeEstimator(Steering, InspectionMixin, NestedParameters, TableEstimator):
    """Base of the estimators of one tree; a subclass adds parameters and `predict`."""

    prune: Any
    refine: Any
    n_leaves_grown_: int
    reading_: dict[str, Any]
    distillation_: dict[str, Any]

    def fit(
        self,
        X: TableLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        groups: ArrayLike | None = None,
        eval_set: Any = None,
    ) -> Self:
        """Grow and prune a tree.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
        y : array-like of shape (n_rows,) or (n_rows, n_outputs)
        sample_weight : array-like of shape (n_rows,), optional
            How much each row counts, in any unit: weights twice as large give the same
            fit. A row is one observation, whatever it weighs. Of a table of counts give
            every row as often as it was counted: ``X.loc[X.index.repeat(counts)]``.
        groups : array-like of shape (n_rows,), optional
            Names of what rows belong to, as persons or places: the size of the tree is
            chosen on rows of groups that did not grow it. Without ``eval_set``, which
            says what to choose it on.
        eval_set : tuple (X, y) or (X, y, sample_weight), optional
            Rows to prune on. Unless ``HoldOut(refit=False)`` prunes, the final tree is
            grown on them as well, and their categories are those of the tree; up to
            8192 rows, ``prune="auto"`` cross-validates both together. Without weights
            they weigh one each, beside weights of X that were scaled to a mean of one.

        Returns
        -------
        self
            Itself.

        Raises
        ------
        ValueError
            If the data or a parameter cannot be used, with what can be done about it.
        MemoryError
            If the device runs out of memory.

        Warns
        -----
        RefinementWarning
            If ``refine="soft"`` did not pay, or there were no rows for gates to be
            chosen on, and the hard tree was kept.

        Notes
        -----
        A fit that is interrupted (by Ctrl-C, say) leaves the estimator as it was; one
        that is interrupted during the refinement leaves it fitted with the new hard
        tree. The KeyboardInterrupt is passed on in both cases.
        """
        plan = self._plan()
        with shown(self.verbose) as progress, one_thread_for_products():
            return self._fit(
                replace(plan, progress=progress), X, y, sample_weight, eval_set, groups
            )

    def _fit(
        self,
        plan: Plan,
        X: TableLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None,
        eval_set: Any = None,
        groups: ArrayLike | None = None,
    ) -> Self:
        with self._computing(X):
            with names_restored(self, "tree_"):
                given, targets = self._given(X, y, sample_weight, groups)
                others = self._pruning_rows(eval_set, targets)
                if groups is not None and others is not None:
                    raise ValueError("Give groups or eval_set, not both.")
                together = others is not None and len(eval_set) == 3
                given, others = scaled_rows(given, others, together)
                finished = fit_tree(plan, given, others)
                self._keep(finished, **targets.learned)
            return self._refined(plan, finished)

    def _keep(self, finished: Fit, **learned: Any) -> None:
        """Store a fitted tree and what else was learned, at one stroke."""
        new = object.__new__(type(self))
        vars(new).update(vars(self))
        forget_calibration(new)
        for name in ("reading_", "distillation_"):
            vars(new).pop(name, None)
        new.tree_ = finished.tree
        new.n_leaves_grown_ = finished.fitted.candidates[0].grown.n_leaves
        new.n_refine_steps_ = 0
        self.__dict__ = vars(new) | learned

    def _refined(self, plan: Plan, finished: Fit) -> Self:
        """Refine the stored tree if requested."""
        if plan.refine is not None:
            told = replace(finished.plan, progress=plan.progress)
            refined = refine(finished._replace(plan=told))
            if refined.refusal:
                warn(f"The hard tree was kept: {refined.refusal}.", RefinementWarning)
            self.tree_, self.n_refine_steps_ = refined.tree, refined.n_steps
        return self

    def _plan(self) -> Plan:
        """Check the parameters and convert them to a plan."""
        return plan_of(self, seed_of(self.random_state))

    def _given(
        self,
        X: TableLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None,
        groups: ArrayLike | None = None,
    ) -> tuple[CheckedRows, Targets]:
        """Check training rows, and note the names of the features."""
        X = validated(self, X, reset=True)
        weight = checked_weight(sample_weight, X)
        targets = self._targets(y, X, weight)
        group = None if groups is None else group_numbers(groups, len(weight))
        known = targets.values, targets.weight
        return CheckedRows(X, *known, targets.names, group), targets

    def _pruning_rows(self, eval_set: Any, known: Targets) -> CheckedRows | None:
        if eval_set is None:
            return None
        holds_out = isinstance(self.prune, PruningRule) and self.prune.fraction
        if self.prune not in ("auto", "holdout") and not holds_out:
            raise ValueError(
                f"eval_set was given, but prune={self.prune!r} uses no such rows. "
                "Set prune='auto' or 'holdout', or leave eval_set out."
            )
        X, y, weight = given_beside(self, eval_set, "prune on")
        try:
            targets = self._targets(y, X, weight, known)
        except ValueError as error:
            raise ValueError(f"In eval_set: {error}") from None
        return CheckedRows(X, targets.values, targets.weight)

    def _outputs(self, X: TableLike) -> np.ndarray:
        """Predict the outputs in the form that `_targets` gives them."""
        with self._computing(X, fall_back=True):
            return routing.predict(*self._tree_and_unencoded(X))

    def cost_complexity_pruning_path(
        self, X: TableLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Bunch:
        """Compute the penalties per leaf at which weakest-link pruning cuts splits.

        A tree is grown on all rows with the parameters of this estimator, but without
        any pruning; the estimator stays as it is.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
        y : array-like of shape (n_rows,) or (n_rows, n_outputs)
        sample_weight : array-like of shape (n_rows,), optional

        Returns
        -------
        Bunch
            ``ccp_alphas``, ndarray of shape (n_subtrees,), rising from 0, and
            ``impurities``, of the same shape: the mean squared training error, in units
            of the target squared and summed over the targets, of the subtree that
            ``CostComplexity(alpha=alpha)`` keeps. Of very many rows (see
            ``max_samples`` of the split finder) both are measured on the sample that
            grows the tree, before all rows give its models.

        References
        ----------
        L. Breiman, J. H. Friedman, R. A. Olshen and C. J. Stone. Classification and
        Regression Trees. Wadsworth, 1984, chapter 3.

        Examples
        --------
        >>> from secret_jax import SecretRegressor
        >>> from secret_jax.datasets import make_fried
        >>> X, y = make_fried(500, random_state=0)
        >>> path = SecretRegressor().cost_complexity_pruning_path(X, y)
        >>> bool((path.ccp_alphas[:-1] < path.ccp_alphas[1:]).all())
        True
        """
        model = copy(self)
        model.prune = model.refine = None
        plan = model._plan()
        with (
            shown(self.verbose) as progress,
            self._computing(X),
            one_thread_for_products(),
        ):
            given, _ = scaled_rows(model._given(X, y, sample_weight)[0])
            fitted = fit_tree(replace(plan, progress=progress), given, None).fitted
        path, errors = training_path(fitted.candidates[0].grown, fitted.training)
        return Bunch(ccp_alphas=path.alphas, impurities=errors)

    @property
    def n_leaves_(self) -> int:
        """Number of leaves."""
        check_is_fitted(self)
        return self.tree_.n_leaves

    @property
    def n_outputs_(self) -> int:
        """Number of targets."""
        check_is_fitted(self)
        return self.tree_.n_outputs

    @property
    def depth_(self) -> int:
        """Depth of the deepest leaf; a single leaf has depth 0."""
        check_is_fitted(self)
        return self.tree_.max_depth

    def get_n_leaves(self) -> int:
        """Number of leaves, as in scikit-learn's trees; see ``n_leaves_``."""
        return self.n_leaves_

    def get_depth(self) -> int:
        """Depth of the tree, as in scikit-learn's trees; see ``depth_``."""
        return self.depth_

    def apply(self, X: TableLike) -> np.ndarray:
        """Find the leaf of every row, shape (n_rows,), int32."""
        with self._computing(X, fall_back=True):
            return routing.apply(*self._tree_and_rows(X))

    def decision_path(self, X: TableLike) -> np.ndarray:
        """Find the nodes on the path of every row.

        Returns
        -------
        ndarray of shape (n_rows, depth + 1), int32
            Node ids from the root down; below its leaf a row has -1.
        """
        with self._computing(X, fall_back=True):
            path = routing.paths_of(*self._tree_and_rows(X)).T.copy()
        path[:, 1:][path[:, 1:] == path[:, :-1]] = -1
        return path

    def _plain_row(self, X: TableLike) -> Table | None:
        """Encode one row of floats that needs no validation; None for all else."""
        if not (
            type(X) is np.ndarray
            and X.shape == (1, self.__dict__.get("n_features_in_"))
            and X.dtype in _FLOATS
            and "feature_names_in_" not in self.__dict__
            and "tree_" in self.__dict__
            and self.tree_.schema.is_plain
            and np.isfinite(X).all()
        ):
            return None
        schema = self.tree_.schema
        with np.errstate(over="ignore"):
            x = (schema.in_order(X) - schema.center) / schema.scale
            x = np.clip(x, *schema.saturation)
        return Table(x.astype(np.float32), np.zeros((1, 0), np.int32))

    def _is_plain_hard_tree(self) -> bool:
        """Whether rows in shards can be predicted on their devices."""
        check_is_fitted(self)
        tree = self.tree_
        return tree.schema.is_plain and not tree.is_soft and tree.says_targets

    def _tree_and_rows(self, X: TableLike) -> tuple[Tree, Table]:
        tree, table = self._tree_and_unencoded(X)
        return tree, table.encoded() if isinstance(table, Unencoded) else table

    def _tree_and_unencoded(self, X: TableLike) -> tuple[Tree, Table | Unencoded]:
        check_is_fitted(self)
        X = validated(self, X, reset=False)
        return self.tree_, unencoded(self.tree_.schema, X, self.tree_.asked_attributes)
