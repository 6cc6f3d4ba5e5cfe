"""Methods of fitted estimators: text, tables, pictures, programs, explanations.

A method is the function of that name, which reads an estimator as well as a tree.
"""

import importlib.util
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from secret_jax.data.given import TableLike
from secret_jax.data.rows import Table
from secret_jax.data.schema import TableSchema
from secret_jax.inspect.code import export as _export
from secret_jax.inspect.code.onnx.convert import to_onnx as _to_onnx
from secret_jax.inspect.coefficients import coefficients as _coefficients
from secret_jax.inspect.dot import export_dot as _export_dot
from secret_jax.inspect.explain import explain as _explain
from secret_jax.inspect.frame import to_dataframe as _to_dataframe
from secret_jax.inspect.importances import feature_importances
from secret_jax.inspect.plot.importances import plot_importances as _plot_importances
from secret_jax.inspect.plot.leaf import plot_leaf as _plot_leaf
from secret_jax.inspect.plot.partition import plot_partition as _plot_partition
from secret_jax.inspect.plot.tree import plot_tree as _plot_tree
from secret_jax.inspect.regions import regions as _regions
from secret_jax.inspect.report.page import to_html as _to_html
from secret_jax.inspect.report.page import tree_fragment
from secret_jax.inspect.rounding import reading_cost
from secret_jax.inspect.stability import stability as _stability
from secret_jax.inspect.summary import summary as _summary
from secret_jax.inspect.text import export_text as _export_text
from secret_jax.inspect.views import as_view
from secret_jax.tree.structure import Tree

_NOTEBOOK_BYTES = 200_000  # a notebook keeps what it has shown


class Importances:
    """Importances of the columns, for trees and boosters."""

    @property
    def _schema(self) -> TableSchema:
        raise NotImplementedError

    def _importances(self, output: int) -> np.ndarray:
        """Compute the shares of the columns of the schema for an output."""
        raise NotImplementedError

    @property
    def feature_importances_(self) -> np.ndarray:
        """Share of every column in the explained variance, shape (n_features_in_,).

        See `secret_jax.inspect.importances.feature_importances`; of several outputs
        the mean over those that are explained at all.
        """
        check_is_fitted(self)
        schema = self._schema
        outputs = [self._importances(output) for output in range(schema.n_outputs)]
        total = np.sum(outputs, axis=0)
        return schema.by_input(total / (total.sum() or 1.0))

    plot_importances = _plot_importances


class InspectionMixin(Importances):
    """Methods that read the tree of a fitted estimator.

    Of a tree with several outputs ``output``, a position or a name, says which one; of
    a tree of classes it may be left out, and reads one class against all others.
    """

    tree_: Tree

    export_text = _export_text
    export_dot = _export_dot
    export_code = _export.export_code
    to_onnx = _to_onnx
    to_dataframe = _to_dataframe
    regions = _regions
    coefficients = _coefficients
    summary = _summary
    explain = _explain
    plot_tree = _plot_tree
    plot_partition = _plot_partition
    plot_leaf = _plot_leaf
    stability = _stability
    to_html = _to_html

    def _tree_and_rows(self, X: TableLike) -> tuple[Tree, Table]:
        raise NotImplementedError

    @property
    def _schema(self) -> TableSchema:
        return self.tree_.schema

    def _importances(self, output: int) -> np.ndarray:
        return feature_importances(self.tree_, output)

    @property
    def reading_cost_(self) -> int:
        """Numbers to read in the splits and equations, of several outputs the sum.

        See `secret_jax.inspect.rounding.reading_cost`.
        """
        check_is_fitted(self)
        return reading_cost(self.tree_)

    def _repr_html_inner(self) -> str:
        """Show the tree that folds in a notebook; unfitted, scikit-learn's box."""
        known = hasattr(self, "tree_") and importlib.util.find_spec("jinja2")
        if not known:
            return super()._repr_html_inner()  # pyright: ignore[reportAttributeAccessIssue]
        classes = hasattr(self, "classes_")
        outputs = [None] if classes else range(self.tree_.n_outputs)
        return tree_fragment([as_view(self, i) for i in outputs], _NOTEBOOK_BYTES)

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        bundle = super()._repr_mimebundle_(**options)  # pyright: ignore[reportAttributeAccessIssue]
        if "text/html" in bundle:
            bundle["text/html"] = self._repr_html_inner()
        return bundle
