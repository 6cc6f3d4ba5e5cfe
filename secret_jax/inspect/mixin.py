"""Methods of fitted estimators: text, tables, pictures, programs, explanations.

A method is the function of that name, which reads an estimator as well as a tree.
"""

import importlib.util
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from secret_jax.data.schema import TableSchema
from secret_jax.inspect.explain import feature_importances
from secret_jax.inspect.page import tree_fragment
from secret_jax.inspect.view import as_view
from secret_jax.tree.structure import Tree


class Importances:
    """Importances of the columns, for trees and boosters.

    Subclasses have a ``_schema``, and ``_importances`` of its columns for an output.
    """

    _schema: TableSchema
    _importances: Any

    @property
    def feature_importances_(self) -> np.ndarray:
        """Share of every column in the explained variance, shape (n_features_in_,).

        See `secret_jax.inspect.explain.feature_importances`; of several outputs the
        mean over those that are explained at all.
        """
        check_is_fitted(self)
        schema = self._schema
        outputs = [self._importances(output) for output in range(schema.n_outputs)]
        total = np.sum(outputs, axis=0)
        return schema.by_input(total / (total.sum() or 1.0))


class InspectionMixin(Importances):
    """Methods that read the tree of a fitted estimator.

    Of a tree with several outputs ``output``, a position or a name, says which one; of
    a tree of classes it may be left out, and reads one class against all others.
    Pictures without matplotlib are an ImportError.
    """

    tree_: Tree
    _tree_and_rows: Any  # of a table

    # Imported into the class, functions are its methods.
    from secret_jax.inspect.code.export import export_code
    from secret_jax.inspect.explain import explain
    from secret_jax.inspect.page import to_html
    from secret_jax.inspect.picture import plot_leaf
    from secret_jax.inspect.plot_partition import plot_partition
    from secret_jax.inspect.plot_tree import plot_tree
    from secret_jax.inspect.stability import stability
    from secret_jax.inspect.tables import coefficients, summary, to_dataframe
    from secret_jax.inspect.text import export_text

    @property
    def _schema(self) -> TableSchema:
        return self.tree_.schema

    def _importances(self, output: int) -> np.ndarray:
        return feature_importances(self.tree_, output)

    @property
    def reading_cost_(self) -> int:
        """Numbers to read in the splits and equations, of several outputs the sum."""
        return as_view(self, several=True).n_numbers()

    def _repr_html_inner(self) -> str:
        """Show the tree that folds in a notebook; unfitted, scikit-learn's box."""
        known = hasattr(self, "tree_") and importlib.util.find_spec("jinja2")
        if not known:
            return super()._repr_html_inner()  # pyright: ignore[reportAttributeAccessIssue]
        classes = hasattr(self, "classes_")
        outputs = [None] if classes else range(self.tree_.n_outputs)
        return tree_fragment([as_view(self, i) for i in outputs])

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        bundle = super()._repr_mimebundle_(**options)  # pyright: ignore[reportAttributeAccessIssue]
        if "text/html" in bundle:
            bundle["text/html"] = self._repr_html_inner()
        return bundle
