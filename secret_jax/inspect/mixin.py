"""What a fitted estimator tells: text, tables, pictures, code, explanations."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from sklearn.utils.validation import check_is_fitted

from secret_jax.data.given import ArrayLike, TableLike
from secret_jax.data.rows import Table
from secret_jax.inspect.arguments import MOST_BARS, MOST_CATEGORIES, MOST_TERMS
from secret_jax.inspect.classes import Classes
from secret_jax.inspect.other_names import no_other_names
from secret_jax.tree.structure import Tree

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from secret_jax.inspect.explain import Explanation
    from secret_jax.inspect.plot.picture import Picture
    from secret_jax.inspect.stability import Stability
    from secret_jax.inspect.tree_view import TreeView

_NOTEBOOK_BYTES = 200_000  # a notebook keeps what it has shown


class ReadingMixin:
    """Ways to read the tree of a fitted estimator.

    Of a tree with several outputs ``output``, a position or a name, says which one; of
    a tree of classes it may be left out, and reads one class against all others.
    """

    tree_: Tree

    def _tree_and_rows(self, X: TableLike) -> tuple[Tree, Table]:
        raise NotImplementedError

    def _view_of(self, output: int | str | None) -> TreeView:
        """The fitted tree as it is read: of numbers one output, of classes all."""
        from secret_jax.inspect.views import view_of

        check_is_fitted(self)
        return view_of(self.tree_, Classes.of_estimator(self), output)

    def _outputs_of(self, output: int | str | None) -> Tree:
        """The tree with all outputs, or one that is named."""
        check_is_fitted(self)
        if output is None and self.tree_.n_outputs > 1:
            return self.tree_
        (tree,) = self._view_of(output).equations
        classes = Classes.of_estimator(self)
        if classes and output is not None and self.tree_.n_outputs == 1:
            *_, second = classes.labels
            if classes.position(output) == 0:
                raise ValueError(
                    f"Of two classes the tree has the equation of the second, "
                    f"{second!r}; leave output={output!r} out."
                )
        return tree

    @property
    def feature_importances_(self) -> np.ndarray:
        """Share of every column in the explained variance, shape (n_features_in_,).

        See `secret_jax.inspect.importances.feature_importances`; of several outputs
        the mean.
        """
        from secret_jax.inspect.importances import feature_importances

        check_is_fitted(self)
        tree = self.tree_
        each = [feature_importances(tree, i) for i in range(tree.n_outputs)]
        return tree.schema.by_input(np.mean(each, axis=0))

    @property
    def reading_cost_(self) -> int:
        """Numbers to read in the splits and equations, of several outputs the sum.

        See `secret_jax.inspect.cost.reading_cost`.
        """
        from secret_jax.inspect.cost import reading_cost

        check_is_fitted(self)
        costs = [
            reading_cost(self.tree_.output(i)) for i in range(self.tree_.n_outputs)
        ]
        # The splits are the same for all outputs.
        return costs[0].splits + sum(cost.leaves for cost in costs)

    @no_other_names
    def export_text(
        self,
        *,
        max_depth: int | None = None,
        precision: int | None = None,
        show_models: Literal["leaves", "all", "none"] = "leaves",
        max_terms: int | None = None,
        max_categories: int | None = MOST_CATEGORIES,
        feature_names: Sequence[str] | None = None,
        output: int | str | None = None,
    ) -> str:
        """The tree as indented text, in the units and column names of the data.

        See `secret_jax.inspect.text.export_text` for the parameters. ``feature_names``
        are other names for the columns, one for each.
        """
        from secret_jax.inspect.text import export_text

        return export_text(
            self._view_of(output).named(feature_names),
            max_depth=max_depth,
            precision=precision,
            show_models=show_models,
            max_terms=max_terms,
            max_categories=max_categories,
        )

    @no_other_names
    def export_dot(
        self,
        *,
        max_depth: int | None = None,
        precision: int | None = None,
        max_terms: int | None = MOST_TERMS,
        max_categories: int | None = MOST_CATEGORIES,
        rotate: bool = False,
        feature_names: Sequence[str] | None = None,
        output: int | str | None = None,
    ) -> str:
        """The tree as text for Graphviz.

        See `secret_jax.inspect.dot.export_dot` for the parameters. ``feature_names``
        are other names for the columns, one for each.
        """
        from secret_jax.inspect.dot import export_dot

        return export_dot(
            self._view_of(output).named(feature_names),
            max_depth=max_depth,
            precision=precision,
            max_terms=max_terms,
            max_categories=max_categories,
            rotate=rotate,
        )

    def to_dataframe(
        self,
        *,
        backend: str | None = None,
        precision: int | None = None,
        output: int | str | None = None,
    ) -> Any:
        """The nodes of the tree as a DataFrame, with columns for each of its outputs.

        See `secret_jax.inspect.frame.to_dataframe` for the parameters and columns.
        """
        from secret_jax.inspect.frame import to_dataframe

        tree = self._outputs_of(output)
        return to_dataframe(tree, backend=backend, precision=precision)

    def coefficients(
        self,
        node: int | None = None,
        *,
        coverage: float = 0.95,
        backend: str | None = None,
        output: int | str | None = None,
    ) -> Any:
        """The coefficients of one node, or of all leaves, with standard errors.

        See `secret_jax.inspect.coefficients.coefficients` for the columns, and for what
        the intervals assume.
        """
        from secret_jax.inspect.coefficients import coefficients

        tree = self._outputs_of(output)
        return coefficients(tree, node, coverage=coverage, backend=backend)

    def export_code(
        self,
        language: Literal["python", "sql"] = "python",
        *,
        function_name: str | None = None,
        precision: int | None = None,
        table: str | None = None,
        output: int | str | None = None,
    ) -> str:
        """The tree as Python functions, or as an SQL expression or query.

        See `secret_jax.inspect.code.export.export_code` for the parameters and what
        programs of classes say. Of several outputs of numbers ``output`` says which
        one; of classes it asks for the probability of one alone.
        """
        from secret_jax.inspect.code.export import export_code

        check_is_fitted(self)
        classes = Classes.of_estimator(self)
        whole = classes or (output is None and self.tree_.n_outputs == 1)
        return export_code(
            self.tree_ if whole else self._view_of(output).tree,
            language,
            function_name=function_name,
            precision=precision,
            table=table,
            classes=classes,
            output=output if classes else None,
        )

    def to_html(
        self,
        X: TableLike = None,
        y: ArrayLike = None,
        *,
        comparison: Mapping[str, Mapping[str, Any]] | None = None,
        title: str | None = None,
        max_points: int = 300,
        output: int | str | None = None,
    ) -> str:
        """The tree as a page of HTML to give away: one file that needs no network.

        Parameters
        ----------
        X, y : optional
            Rows that were not used in `fit`, and their targets: for errors, points in
            the leaves, and the ways of some rows through the tree.
        comparison, title, max_points : optional
            See `secret_jax.inspect.report.page.report_page`.
        output : int or str, optional
            Which one, of several.

        Returns
        -------
        str

        Raises
        ------
        ImportError
            If jinja2 is not installed.
        ValueError
            If only one of X and y is given, or they do not match.
        """
        from secret_jax.inspect.report.page import held_out_rows, report_page

        if (X is None) != (y is None):
            raise ValueError("Give both X and y, or neither of them.")
        view, rows = self._view_of(output), None
        if X is not None:
            _, table = self._tree_and_rows(X)
            columns = self.tree_.schema.columns_of(X)
            rows = held_out_rows(view, table.on_host(), columns, X, y)
        return report_page(
            view, rows, comparison=comparison, title=title, max_points=max_points
        )

    def _repr_html_inner(self) -> str:
        """What a notebook shows: the tree that folds; unfitted, scikit-learn's box."""
        known = hasattr(self, "tree_") and importlib.util.find_spec("jinja2")
        if not known:
            return super()._repr_html_inner()  # pyright: ignore[reportAttributeAccessIssue]
        from secret_jax.inspect.report.page import tree_fragment

        classes = hasattr(self, "classes_")
        outputs = [None] if classes else range(self.tree_.n_outputs)
        return tree_fragment([self._view_of(i) for i in outputs], _NOTEBOOK_BYTES)

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        bundle = super()._repr_mimebundle_(**options)  # pyright: ignore[reportAttributeAccessIssue]
        if "text/html" in bundle:
            bundle["text/html"] = self._repr_html_inner()
        return bundle

    @no_other_names
    def plot_tree(
        self,
        *,
        ax: Axes | None = None,
        max_depth: int | Literal["auto"] | None = "auto",
        precision: int | None = None,
        feature_names: Sequence[str] | None = None,
        output: int | str | None = None,
    ) -> Picture:
        """Draw the tree, with the splits and equations in the units of the data.

        See `secret_jax.inspect.plot.tree.plot_tree` for the parameters.
        ``feature_names`` are other names for the columns, one for each.
        """
        from secret_jax.inspect.plot.tree import plot_tree

        return plot_tree(
            self._view_of(output).named(feature_names),
            ax=ax,
            max_depth=max_depth,
            precision=precision,
        )

    def plot_partition(
        self,
        x: Any,
        y: Any = None,
        *,
        at: Mapping[Any, Any] | None = None,
        data: tuple[Any, Any] | None = None,
        average: bool = False,
        resolution: int = 400,
        ax: Axes | None = None,
        output: int | str | None = None,
    ) -> Picture:
        """Draw the prediction over one or two columns, with the splits.

        See `secret_jax.inspect.plot.partition.plot_partition` for the parameters.
        """
        from secret_jax.inspect.plot.partition import plot_partition

        return plot_partition(
            self._view_of(output),
            x,
            y,
            at=at,
            data=data,
            average=average,
            resolution=resolution,
            ax=ax,
        )

    def plot_leaf(
        self,
        node: int,
        X: TableLike = None,
        y: ArrayLike = None,
        *,
        max_terms: int | None = MOST_BARS,
        ax: Any = None,
        output: int | str | None = None,
    ) -> Picture:
        """Draw the equation of a node, and its predictions against the targets.

        See `secret_jax.inspect.plot.leaf.plot_leaf` for the parameters.
        """
        from secret_jax.inspect.plot.leaf import plot_leaf

        return plot_leaf(self._view_of(output), node, X, y, max_terms=max_terms, ax=ax)

    def plot_importances(
        self, *, max_columns: int | None = MOST_BARS, ax: Axes | None = None
    ) -> Picture:
        """Draw `feature_importances_` as bars, the largest first.

        See `secret_jax.inspect.plot.importances.plot_importances` for the parameters.
        """
        from secret_jax.inspect.plot.importances import plot_importances

        shares = self.feature_importances_
        names = self.tree_.schema.input_names
        return plot_importances(names, shares, max_columns=max_columns, ax=ax)

    def explain(
        self,
        X: TableLike,
        *,
        precision: int | None = None,
        background: Any = None,
        output: int | str | None = None,
    ) -> Explanation:
        """Why rows get their predictions: ways in words and additive contributions.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
        precision : int, optional
            Significant digits of the words; see `export_text`.
        background : array-like or DataFrame of shape (n_others, n_features), optional
            Contributions are then interventional Shapley values against these rows, as
            SHAP means them, instead of what the splits and the equation on the row's
            own way add; see `secret_jax.inspect.shapley`. All of these rows are used,
            and the baseline is the mean of what is said of them: the time grows with
            their number.
        output : int or str, optional
            Which one, of several outputs of numbers. Of several classes each row tells
            of its predicted class, unless one is named here.

        Returns
        -------
        secret_jax.inspect.explain.Explanation
            Of classes with their probabilities; what is taken apart are log-odds.

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
        from secret_jax.inspect.class_view import ClassView
        from secret_jax.inspect.explain import explain
        from secret_jax.inspect.explain_classes import explain_classes

        view = self._view_of(output)
        whole, table = self._tree_and_rows(X)
        others = None
        if background is not None:
            others = self._tree_and_rows(background)[1].on_host()
        values = whole.schema.as_written(whole.schema.columns_of(X))
        options = {"precision": precision, "background": others}
        if isinstance(view, ClassView):
            return explain_classes(view, table.on_host(), values, **options)
        return explain(view.tree, table, values, **options)

    def stability(
        self,
        X: TableLike,
        y: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        n_resamples: int = 30,
        method: Literal["bootstrap", "subsample"] = "bootstrap",
        fraction: float = 0.8,
        random_state: Any = None,
    ) -> Stability:
        """How much of the tree stays when it is grown on resamples of the rows.

        See `secret_jax.inspect.stability.stability` for the parameters.

        Returns
        -------
        secret_jax.inspect.stability.Stability
            Frequencies of columns, thresholds, categories, sizes, and how far the
            predictions lie apart; ``print`` it, or call its ``plot()``.
        """
        from secret_jax.inspect.stability import stability

        check_is_fitted(self)
        return stability(
            self,
            X,
            y,
            sample_weight=sample_weight,
            n_resamples=n_resamples,
            method=method,
            fraction=fraction,
            random_state=random_state,
        )
