"""Base of the estimators of single trees: validate, call, store; no numerics."""

from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.utils import Bunch
from sklearn.utils.validation import check_is_fitted

from secret_jax.data.encoding import Lying, Unencoded, unencoded
from secret_jax.data.rows import Table
from secret_jax.data.seen import hashes_of, remembered
from secret_jax.data.shards import devices_of, is_sharded
from secret_jax.data.validation import (
    ArrayLike,
    CheckedRows,
    TableLike,
    scaled_rows,
    validated,
)
from secret_jax.estimators.common import NestedParameters, TableEstimator
from secret_jax.estimators.parameters import plan_of, seed_of
from secret_jax.fit.alternatives import fit_tree
from secret_jax.fit.interface import PruningRule, RefinementWarning
from secret_jax.fit.pipeline import Fit, refine, refitted
from secret_jax.fit.plan import Plan
from secret_jax.fit.prune.path import of_size, training_path
from secret_jax.inspect.equations import check_node
from secret_jax.inspect.mixin import InspectionMixin
from secret_jax.losses.interface import Loss
from secret_jax.runtime.environment import warn
from secret_jax.runtime.values import is_integer
from secret_jax.tree import routing
from secret_jax.tree.functions import Model
from secret_jax.tree.reshape import compact, hardened
from secret_jax.tree.structure import Tree

# Types of rows that may take the fast path.
_FLOATS = (np.dtype(np.float32), np.dtype(np.float64))


class TreeEstimator(InspectionMixin, NestedParameters, TableEstimator):
    """Base of the estimators of one tree; a subclass adds parameters and `predict`.

    `smaller` and `refit` give a changed copy, which is fitted; a further change of
    either leaves the other as it is. It must be calibrated again for intervals.
    """

    prune: Any
    refine: Any
    n_leaves_grown_: int
    reading_: dict[str, Any]
    training_rows_: dict[str, Any] | None
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
            How much each row counts, in any unit. A row is one observation, whatever
            it weighs: of a table of counts give every row as often as it was counted,
            ``X.loc[X.index.repeat(counts)]``.
        groups : array-like of shape (n_rows,), optional
            Names of what rows belong to, as persons or places: the size of the tree is
            chosen on groups that did not grow it. Not with ``eval_set``. Rows that
            share all columns and differ in y are one group anyhow, if most rows do and
            the columns are measurements, as those of persons who were asked again.
        eval_set : tuple (X, y) or (X, y, sample_weight), optional
            Rows to prune on. Unless ``HoldOut(refit=False)`` prunes, the final tree is
            grown on them as well; up to 8192 rows, ``prune="auto"`` cross-validates
            both together. Without weights they weigh one each, beside weights of X that
            were scaled to a mean of one.

        Returns
        -------
        self
            A fit that is interrupted leaves it as it was, or, during the refinement,
            fitted with the new hard tree.

        Raises
        ------
        ValueError
            If the data or a parameter cannot be used, with what can be done about it.
        MemoryError
            If the device runs out of memory.

        Warns
        -----
        RefinementWarning
            If ``refine="soft"`` did not pay, and the hard tree was kept.
        """
        plan, seen = self._plan(), copy(self)  # which notes names of features
        with self._fitting(X) as progress:
            devices = devices_of(X, self.device)
            plan = replace(plan, progress=progress, devices=devices)
            given = seen._given(X, y, sample_weight, groups)
            others = seen._pruning_rows(eval_set, given)
            if groups is not None and others is not None:
                raise ValueError("Give groups or eval_set, not both.")
            if others is not None and len(eval_set) == 3:
                given, others = scaled_rows(given, others)
            else:
                (given,) = scaled_rows(given)
            finished = fit_tree(plan, given, others)
            rows = [(given, y)]
            if others is not None:
                rows.append((others, eval_set[1]))
            known = _hashes_of_fit(finished.tree, rows)
            self._keep(finished, **seen._noted(), **given.learned, training_rows_=known)
            return self._refined(plan, finished)

    def _keep(self, finished: Fit, **learned: Any) -> None:
        """Store a fitted tree and what else was learned."""
        grown = finished.fitted.candidates[0].trees[0].n_leaves
        new = {"tree_": finished.tree, "n_leaves_grown_": grown, "n_refine_steps_": 0}
        self._become(**new, **learned)

    def _refined(self, plan: Plan, finished: Fit) -> Self:
        if plan.refine is not None:
            shown_plan = replace(finished.plan, progress=plan.progress)
            refined = refine(finished._replace(plan=shown_plan))
            if refined.refusal:
                warn(f"The hard tree was kept: {refined.refusal}.", RefinementWarning)
            self.tree_, self.n_refine_steps_ = refined.tree, refined.n_steps
        return self

    def _plan(self) -> Plan:
        return plan_of(self, seed_of(self.random_state))

    def _pruning_rows(self, eval_set: Any, known: CheckedRows) -> CheckedRows | None:
        if eval_set is None:
            return None
        holds_out = isinstance(self.prune, PruningRule) and self.prune.fraction
        if self.prune not in ("auto", "holdout") and not holds_out:
            raise ValueError(
                f"eval_set was given, but prune={self.prune!r} uses no such rows. "
                "Set prune='auto' or 'holdout', or leave eval_set out."
            )
        return self._given_beside(eval_set, "prune on", known)

    def _outputs(self, X: TableLike) -> Any:
        with self._computing(X, fall_back=True):
            return routing.predict(*self._tree_and_unencoded(X))

    def _model_and_loss(self) -> tuple[Model, Loss]:
        tree = self._fitted_tree
        return routing.model_of([tree], np.ones(1)), tree.loss

    def cost_complexity_pruning_path(
        self, X: TableLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Bunch:
        """Compute the penalties per leaf at which weakest-link pruning cuts splits.

        Of a tree that is grown on all rows with these parameters, but not pruned
        (Breiman, Friedman, Olshen & Stone 1984, chapter 3).

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
        y : array-like of shape (n_rows,) or (n_rows, n_outputs)
        sample_weight : array-like of shape (n_rows,), optional

        Returns
        -------
        Bunch
            ``ccp_alphas`` (n_subtrees,), rising from 0, and ``impurities``, of the same
            shape: the mean squared training error, in units of the target squared and
            summed over the targets, of the subtree that ``CostComplexity(alpha=alpha)``
            keeps. Of very many rows both are of the sample that grows the tree.

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
        with self._fitting(X) as progress:
            (given,) = scaled_rows(model._given(X, y, sample_weight))
            devices = devices_of(X, self.device)
            plan = replace(plan, progress=progress, devices=devices)
            fitted = fit_tree(plan, given, None).fitted
        path, errors = training_path(fitted.candidates[0].trees[0], fitted.training)
        return Bunch(ccp_alphas=path.alphas, impurities=errors)

    def smaller(
        self, n_leaves: int | None = None, *, at: Iterable[int] = (), gates: bool = True
    ) -> Self:
        """Cut the tree down, without a fit.

        Its nodes predict with the equations that they have (``model`` of
        `to_dataframe`), and are numbered anew.

        Parameters
        ----------
        n_leaves : int, optional
            At most so many leaves, and at least 1: the splits that save least of the
            training error go first (weakest links). Those of ``fixed_splits`` stay.
        at : iterable of int
            Inner nodes to make leaves of, as `apply` and text number them.
        gates : bool, default=True
            False: gates are replaced by their thresholds, so that every row has one
            path. Models of ``refine="soft"`` were trained to be mixed, so the error may
            rise a lot; fit with ``refine=None`` for a good hard tree.

        Returns
        -------
        estimator
            A copy.

        Examples
        --------
        >>> from secret_jax import SecretRegressor
        >>> from secret_jax.datasets import make_fried
        >>> X, y = make_fried(300, random_state=0)
        >>> model = SecretRegressor(prune=None, max_leaf_nodes=6).fit(X, y)
        >>> model.n_leaves_, model.smaller(3).n_leaves_, model.smaller(at=[0]).n_leaves_
        (6, 3, 1)
        """
        tree, nodes = self._fitted_tree, list(at)
        for node in nodes:
            check_node(tree, node)
            if tree.is_leaf[node]:
                raise ValueError(
                    f"Node {node} is a leaf. Name an inner node, one that has a split."
                )
        if n_leaves is not None and (not is_integer(n_leaves) or n_leaves < 1):
            raise ValueError(
                f"n_leaves must be a count of at least 1. Got {n_leaves!r}."
            )
        if nodes:
            tree = compact(tree, ~np.isin(np.arange(tree.n_nodes), nodes))
        if n_leaves is not None and n_leaves < tree.n_leaves:
            tree = of_size(tree, int(n_leaves))
        return self._with_tree(tree if gates else hardened(tree))

    def refit(
        self, X: TableLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Fit the equations of all nodes to new rows, and keep the splits.

        For figures of a new year in the tree that is known, or for honest standard
        errors: of rows that chose neither splits nor, with ``equation_tolerance=0``,
        terms.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
            With the columns of the fit. A category that it never saw is none here.
        y : array-like of shape (n_rows,) or (n_rows, n_outputs)
        sample_weight : array-like of shape (n_rows,), optional

        Returns
        -------
        estimator
            A copy. A node that no row reaches predicts as the one above it.

        Examples
        --------
        >>> from secret_jax import SecretRegressor
        >>> from secret_jax.datasets import make_fried
        >>> X, y = make_fried(600, random_state=0)
        >>> model = SecretRegressor(max_leaf_nodes=4).fit(X[:300], y[:300])
        >>> again = model.refit(X[300:], y[300:] + 5)
        >>> bool((again.apply(X) == model.apply(X)).all())
        True
        >>> bool(4 < (again.predict(X) - model.predict(X)).mean() < 6)
        True
        """
        tree = self._fitted_tree
        if tree.is_soft:
            raise ValueError(
                "The tree has gates, which were trained together with its equations. "
                "Take smaller(gates=False).refit(X, y)."
            )
        known = self._fitted_targets(tree.schema)
        (rows,) = scaled_rows(self._given(X, y, sample_weight, None, known))
        model = self._with_tree(refitted(self._plan(), tree, rows))
        before = getattr(self, "training_rows_", None)
        model.training_rows_ = _hashes_of_fit(tree, [(rows, y)], before)
        return model

    def _with_tree(self, tree: Tree) -> Self:
        """Copy the estimator with another tree."""
        changed = copy(self)
        changed.tree_ = tree
        for name in ("conformity_scores_", "conformity_weight_"):
            vars(changed).pop(name, None)
        return changed

    @property
    def _fitted_tree(self) -> Tree:
        check_is_fitted(self)
        return self.tree_

    @property
    def n_leaves_(self) -> int:
        """Number of leaves."""
        return self._fitted_tree.n_leaves

    @property
    def n_outputs_(self) -> int:
        """Number of targets."""
        return self._fitted_tree.n_outputs

    @property
    def depth_(self) -> int:
        """Depth of the deepest leaf; a single leaf has depth 0."""
        return self._fitted_tree.max_depth

    def apply(self, X: TableLike) -> np.ndarray:
        """Find the leaf of every row, shape (n_rows,), int32."""
        with self._computing(X, fall_back=True):
            return routing.apply(*self._tree_and_rows(X))

    def decision_path(self, X: TableLike) -> np.ndarray:
        """Find the nodes on the path of every row, (n_rows, depth + 1), int32.

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

    def _tree_and_rows(self, X: TableLike) -> tuple[Tree, Table]:
        tree, table = self._tree_and_unencoded(X)
        return tree, table.encoded()

    def _tree_and_unencoded(self, X: TableLike) -> tuple[Tree, Lying | Unencoded]:
        tree = self._fitted_tree
        X = validated(self, X, reset=False)
        return tree, unencoded(tree.schema, X, tree.asked_attributes)


def _hashes_of_fit(
    tree: Tree,
    parts: Sequence[tuple[CheckedRows, ArrayLike]],
    before: dict[str, Any] | None = None,
) -> dict[str, Any] | None:
    """Hashes of the rows of a fit that count, with their targets as they were given.

    None: they are spread over devices, and are not read.
    """
    if any(is_sharded(rows.X) for rows, _ in parts):
        return before
    hashed = [hashes_of(tree.schema, rows.X, y)[rows.weight > 0] for rows, y in parts]
    return remembered(np.concatenate(hashed), before)
