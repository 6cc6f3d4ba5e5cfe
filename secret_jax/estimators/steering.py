"""Change a fitted tree by hand: fewer leaves, new equations, no gates."""

import copy
from collections.abc import Iterable
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from secret_jax.data.given import ArrayLike, TableLike
from secret_jax.data.validation import checked_weight, validated
from secret_jax.estimators.common import Targets
from secret_jax.fit.plan import Plan
from secret_jax.fit.prepare import CheckedRows, scaled_rows
from secret_jax.fit.prune.path import of_size
from secret_jax.fit.refit import refitted
from secret_jax.inspect.equations import check_node
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

    def smaller(
        self,
        n_leaves: int | None = None,
        *,
        at: Iterable[int] = (),
        gates: bool = True,
    ) -> Self:
        """Cut the tree down, without a fit.

        Its nodes predict with the equations that they have, which are in the ``model``
        of `to_dataframe`. Nodes are numbered anew. Pages show the errors of trees with
        fewer leaves on held-out rows.

        Parameters
        ----------
        n_leaves : int, optional
            At most so many leaves, and at least 1: the splits that save least of the
            training error go first (weakest links). Those of ``fixed_splits`` stay.
        at : iterable of int
            Inner nodes to make leaves of, as `apply` and text number them.
        gates : bool, default=True
            False: gates are replaced by their thresholds, so that every row has one
            path and one equation. The models stay as they are: those of
            ``refine="soft"`` were trained to be mixed, so the error may rise a lot; fit
            with ``refine=None`` for a good hard tree.

        Returns
        -------
        estimator
            A copy.

        Raises
        ------
        ValueError
            If ``n_leaves`` is no count of at least 1, or there is no such inner node.

        Examples
        --------
        >>> from secret_jax import SecretRegressor
        >>> from secret_jax.datasets import make_fried
        >>> X, y = make_fried(300, random_state=0)
        >>> model = SecretRegressor(prune=None, max_leaf_nodes=6).fit(X, y)
        >>> model.n_leaves_, model.smaller(3).n_leaves_, model.smaller(at=[0]).n_leaves_
        (6, 3, 1)
        """
        check_is_fitted(self)
        tree, nodes = self.tree_, list(at)
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
                "Take smaller(gates=False).refit(X, y)."
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

    def _with_tree(self, tree: Tree) -> Self:
        """Copy the estimator with another tree."""
        changed = copy.copy(self)
        changed.tree_ = tree
        forget_calibration(changed)
        return changed
