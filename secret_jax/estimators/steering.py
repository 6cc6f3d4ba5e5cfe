"""Change a fitted tree by hand: fewer leaves, new equations, no gates."""

import copy
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from secret_jax.data.given import ArrayLike, TableLike
from secret_jax.data.validation import checked_weight, validated
from secret_jax.estimators.targets import Targets
from secret_jax.fit.plan import Plan
from secret_jax.fit.prepare import CheckedRows, scaled_rows
from secret_jax.fit.prune.path import of_size
from secret_jax.fit.refit import refitted
from secret_jax.inspect.arguments import check_node
from secret_jax.inspect.intervals import forget_calibration
from secret_jax.runtime.values import is_integer
from secret_jax.tree.reshape import compact, hardened
from secret_jax.tree.structure import Tree


class Steering:
    """Methods that give a changed copy of a fitted estimator of one tree.

    The copy is fitted, and a further change of either leaves the other as it is. It
    must be calibrated again for intervals.
    """

    tree_: Tree

    def _plan(self) -> Plan:
        raise NotImplementedError

    def _targets(
        self,
        y: ArrayLike,
        X: TableLike,
        weight: np.ndarray,
        known: Targets | None = None,
    ) -> Targets:
        """Check outputs of checked rows; ``known`` are those of the training rows."""
        raise NotImplementedError

    def smaller(self, n_leaves: int) -> Self:
        """Cut the tree down to at most so many leaves, without a fit.

        The splits that save least of the training error go first (weakest links), and
        their nodes predict with the equations that they have. Pages show the errors of
        such trees on held-out rows. Splits of ``fixed_splits`` stay.

        Parameters
        ----------
        n_leaves : int
            At least 1.

        Returns
        -------
        estimator
            A copy.

        Raises
        ------
        ValueError
            If ``n_leaves`` is no count of at least 1.

        Examples
        --------
        >>> from secret_jax import SecretRegressor
        >>> from secret_jax.datasets import make_fried
        >>> X, y = make_fried(300, random_state=0)
        >>> model = SecretRegressor(prune=None, max_leaf_nodes=6).fit(X, y)
        >>> model.n_leaves_, model.smaller(3).n_leaves_
        (6, 3)
        """
        check_is_fitted(self)
        if not is_integer(n_leaves) or n_leaves < 1:
            raise ValueError(
                f"n_leaves must be a count of at least 1. Got {n_leaves!r}."
            )
        fits = self.tree_.n_leaves <= n_leaves
        tree = self.tree_ if fits else of_size(self.tree_, int(n_leaves))
        return self._with_tree(tree)

    def merge(self, *nodes: int) -> Self:
        """Prune at inner nodes: make leaves of them, without a fit.

        They predict with the equations that they have, which are in the ``model`` of
        `to_dataframe`. Nodes are numbered anew.

        Parameters
        ----------
        *nodes : int
            As `apply` and text number them.

        Returns
        -------
        estimator
            A copy.

        Raises
        ------
        ValueError
            If there is no such node, or it is a leaf.
        """
        check_is_fitted(self)
        for node in nodes:
            check_node(self.tree_, node)
            if self.tree_.is_leaf[node]:
                raise ValueError(
                    f"Node {node} is a leaf. Name an inner node, one that has a split."
                )
        keep = ~np.isin(np.arange(self.tree_.n_nodes), nodes)
        return self._with_tree(compact(self.tree_, keep))

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

        Raises
        ------
        ValueError
            If the rows do not fit those of the fit, or the tree has gates.

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
        check_is_fitted(self)
        if self.tree_.is_soft:
            raise ValueError(
                "The tree has gates, which were trained together with its equations. "
                "Take harden().refit(X, y)."
            )
        X = validated(self, X, reset=False)  # pyright: ignore[reportArgumentType]
        weight = checked_weight(sample_weight, X)
        schema = self.tree_.schema
        learned: dict[str, Any] = {"classes_": getattr(self, "classes_", None)}
        nothing = np.zeros((0, schema.n_outputs))
        known = Targets(nothing, schema.target_names, weight, learned)
        targets = self._targets(y, X, weight, known)
        rows = CheckedRows(X, targets.values, targets.weight)
        return self._with_tree(refitted(self._plan(), self.tree_, scaled_rows(rows)[0]))

    def harden(self) -> Self:
        """Copy the estimator with gates replaced by their thresholds.

        Every row then has one path and one equation. The models stay as they are: those
        of ``refine="soft"`` were trained to be mixed, so the error may rise a lot; fit
        with ``refine=None`` for a good hard tree.

        Returns
        -------
        estimator
            A copy.
        """
        check_is_fitted(self)
        return self._with_tree(hardened(self.tree_))

    def _with_tree(self, tree: Tree) -> Self:
        """Copy the estimator with another tree."""
        changed = copy.copy(self)
        changed.tree_ = tree
        forget_calibration(changed)
        return changed
