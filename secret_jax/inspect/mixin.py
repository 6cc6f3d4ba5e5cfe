"""What a fitted estimator tells: text, tables, pictures, code, explanations."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from secret_jax.data.table import Table
from secret_jax.tree.structure import Tree


class ReadingMixin:
    """Ways to read the tree of a fitted estimator."""

    tree_: Tree

    def _tree_and_rows(self, X: Any) -> tuple[Tree, Table]:
        raise NotImplementedError

    @property
    def feature_importances_(self) -> np.ndarray:
        """Share of every column in the explained variance, shape (n_features_in_,).

        See `secret_jax.inspect.importances.feature_importances`.
        """
        from secret_jax.inspect.importances import feature_importances

        check_is_fitted(self)
        return feature_importances(self.tree_)

    def export_text(self, **options: Any) -> str:
        """The tree as text; see `secret_jax.inspect.text.export_text`."""
        from secret_jax.inspect.text import export_text

        check_is_fitted(self)
        return export_text(self.tree_, **options)

    def export_dot(self, **options: Any) -> str:
        """The tree for Graphviz; see `secret_jax.inspect.dot.export_dot`."""
        from secret_jax.inspect.dot import export_dot

        check_is_fitted(self)
        return export_dot(self.tree_, **options)

    def to_dataframe(self, **options: Any) -> Any:
        """A table of the nodes; see `secret_jax.inspect.frame.to_dataframe`."""
        from secret_jax.inspect.frame import to_dataframe

        check_is_fitted(self)
        return to_dataframe(self.tree_, **options)

    def export_code(self, language: Any = "python", **options: Any) -> str:
        """The tree as Python or SQL; see `secret_jax.inspect.code.export.export_code`."""
        from secret_jax.inspect.code.export import export_code

        check_is_fitted(self)
        return export_code(self.tree_, language, **options)

    def plot_tree(self, **options: Any) -> Any:
        """A picture of the tree; see `secret_jax.inspect.plot.tree.plot_tree`."""
        from secret_jax.inspect.plot.tree import plot_tree

        check_is_fitted(self)
        return plot_tree(self.tree_, **options)

    def plot_partition(self, x: Any, y: Any = None, **options: Any) -> Any:
        """The prediction over one or two columns, with the splits.

        See `secret_jax.inspect.plot.partition.plot_partition`.
        """
        from secret_jax.inspect.plot.partition import plot_partition

        check_is_fitted(self)
        return plot_partition(self.tree_, x, y, **options)

    def plot_leaf(self, node: int, X: Any = None, y: Any = None, **options: Any) -> Any:
        """The equation of a node, and how it fits; see `secret_jax.inspect.plot.leaf`."""
        from secret_jax.inspect.plot.leaf import plot_leaf

        check_is_fitted(self)
        return plot_leaf(self.tree_, node, X, y, **options)

    def explain(self, X: Any, *, precision: int | None = None) -> Any:
        """Why rows get their predictions: ways in words and additive contributions.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
        precision : int, optional
            Significant digits of the words; see `export_text`.

        Returns
        -------
        secret_jax.inspect.explain.Explanation

        Examples
        --------
        >>> from secret_jax import SecretRegressor
        >>> from secret_jax.datasets import make_fried
        >>> X, y = make_fried(500, random_state=0)
        >>> why = SecretRegressor(random_state=0).fit(X, y).explain(X[:3])
        >>> total = why.baseline + why.contributions.sum(axis=1) + why.clipping
        >>> bool(abs(total - why.prediction).max() < 1e-9)
        True
        """
        from secret_jax.inspect.explain import explain

        tree, table = self._tree_and_rows(X)
        columns = tree.schema.columns_of(X)
        values = np.empty((len(table.x), len(columns)), object)
        for position, column in enumerate(columns):
            values[:, position] = column.tolist()
        return explain(tree, table, values, precision=precision)
