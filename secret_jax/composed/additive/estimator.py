"""Estimator of a sum of curves, and a tree of what they leave."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from secret_jax.composed.additive.basis import curve_terms
from secret_jax.composed.additive.curve import Curve
from secret_jax.composed.additive.fit import fit_curves
from secret_jax.composed.additive.plot import plot_curves
from secret_jax.composed.additive.words import curve_views, curves_text
from secret_jax.composed.base import ComposedRegressor, Given
from secret_jax.data.columns import read_columns
from secret_jax.data.encoding import encode
from secret_jax.data.given import TableLike
from secret_jax.data.learning import learn_schema
from secret_jax.data.rows import Table
from secret_jax.data.schema import TableSchema
from secret_jax.data.validation import (
    names_of,
    validated,
    validated_targets,
)
from secret_jax.estimators.regressor import SecretRegressor
from secret_jax.inspect.arguments import check_counts
from secret_jax.inspect.plot.picture import Picture
from secret_jax.inspect.printing import number, quoted
from secret_jax.runtime.values import at_least, real


@dataclass(eq=False, repr=False)
class SecretAdditiveRegressor(ComposedRegressor):
    """Sum of one-column curves, and a tree for what they leave.

    Curves are piecewise linear in numbers, and a number for each category, month and
    weekday, fitted together by ridge regression. The tree learns the residuals of rows
    from curves that were fitted without them. This pays where the target is a sum of
    effects, such as those of a weekday, a season and a trend: a tree alone has to
    multiply its leaves for each.

    Parameters
    ----------
    tree : SecretRegressor, optional
        The tree; it is cloned, and its parameters say how columns are read.
    n_knots : int, default=10
        Places, at quantiles of a numeric column, where the slope of its curve may
        change; fewer of tables with very many columns.
    n_folds : int, default=5
        Parts of the rows that curves are fitted without, for the residuals.
    curve_tolerance : float, default=0.03
        How far simplified curves may be from the best ones: a share of the noise
        variance, times the share of the variance that they explain.

    Attributes
    ----------
    tree_ : SecretRegressor
        The fitted tree, of what the curves leave.
    curves_ : list of secret_jax.composed.additive.curve.Curve
    intercept_ : float
        What is predicted before the curves and the tree add their parts.
    schema_ : secret_jax.data.schema.TableSchema
        Encoding of the columns for the curves.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Only if the training data had names.

    References
    ----------
    T. Hastie and R. Tibshirani. Generalized Additive Models. Chapman & Hall, 1990.

    Examples
    --------
    >>> import numpy as np
    >>> from secret_jax import SecretAdditiveRegressor
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> y = np.abs(X[:, 0]) + np.sin(X[:, 1])
    >>> model = SecretAdditiveRegressor().fit(X, y)
    >>> model.score(X, y) > 0.98
    True
    """

    _predicts_with: ClassVar[str] = "curves_"
    _method: ClassVar[str] = "SECRET curves and tree"
    tree: SecretRegressor | None = None
    _: KW_ONLY
    n_knots: Annotated[int, at_least(0)] = 10
    n_folds: Annotated[int, at_least(2)] = 5
    curve_tolerance: Annotated[float, real(0.0)] = 0.03
    if TYPE_CHECKING:  # no parameters
        intercept_: float = field(init=False)
        curves_: list[Curve] = field(init=False)
        schema_: TableSchema = field(init=False)

    def _fitted(self, given: Given) -> dict[str, Any]:
        tree = clone(SecretRegressor() if self.tree is None else self.tree)
        tree = self._without_order(tree)
        X, weight = given.X, given.weight
        targets = validated_targets(given.y, X, type(self).__name__)
        if targets.shape[1] > 1:
            raise ValueError(
                f"Curves are fitted to a single output, and y has {targets.shape[1]}. "
                "Fit a model for each of them."
            )
        target, name = targets[:, 0], names_of(given.y, 1)[0]
        schema = learn_schema(
            read_columns(X), targets, weight, tree._plan().columns, (name,)
        )
        every_row, used = encode(schema, X).on_host(), weight > 0
        table, weight_used = every_row.take(used), weight[used]
        intercept, curves, residual = fit_curves(
            curve_terms(schema, table, weight_used, self.n_knots),
            table,
            target[used],
            weight_used,
            _folds(table, target[used], self.n_folds),
            self.curve_tolerance,
        )
        rest = target - _sum_of_curves(intercept, curves, every_row)
        rest[used] = residual
        given.fit(tree, rest)
        named = replace(tree.tree_.schema, target_names=(f"rest of {name}",))
        tree.tree_ = replace(tree.tree_, schema=named)
        found = {"schema_": schema, "intercept_": intercept, "curves_": curves}
        return found | {"tree_": tree}

    def predict(
        self, X: TableLike, return_std: bool = False
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Predict rows.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
        return_std : bool, default=False
            Also return standard deviations, as `SecretRegressor.predict`.

        Returns
        -------
        prediction, deviation : ndarray of shape (n_rows,), float64
            The second one only with ``return_std``.
        """
        table = self._table(X)
        curves = _sum_of_curves(self.intercept_, self.curves_, table)
        if not return_std:
            return curves + self.tree_.predict(X)
        rest, deviation = self.tree_.predict(X, return_std=True)
        return curves + rest, deviation

    def contributions(self, X: TableLike) -> np.ndarray:
        """Compute what each curve adds to predictions, shape (n_rows, n_curves).

        The columns are those of ``curves_``; the tree adds ``tree_.predict(X)``.
        """
        table = self._table(X)
        columns = [curve.of_rows(table) for curve in self.curves_]
        return np.stack([np.zeros(len(table.codes)), *columns], axis=1)[:, 1:]

    def export_text(self, **options: Any) -> str:
        """The curves and the tree in words; options as of `SecretRegressor`."""
        check_is_fitted(self)
        views = curve_views(self.curves_, self.schema_)
        text = curves_text(views, self.intercept_, self.schema_.target_name)
        return text + self.tree_.export_text(**options)

    def plot_curves(self, *, max_curves: int | None = 12) -> Picture:
        """Draw the curves, those that add most first.

        Parameters
        ----------
        max_curves : int or None
            Maximum number of curves; None: all.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        ValueError
            If there are no curves.
        """
        check_is_fitted(self)
        check_counts(max_curves=max_curves)
        views = curve_views(self.curves_, self.schema_)[:max_curves]
        if not views:
            raise ValueError("There are no curves: no column says anything.")
        target = quoted(self.schema_.target_name)
        start = number(self.intercept_, digits=5)
        title = f"{target} = {start} + these curves + what the tree says of the rest"
        return plot_curves(views, title)

    @property
    def _schema(self) -> TableSchema:
        return self.schema_

    def _table(self, X: TableLike) -> Table:
        check_is_fitted(self)
        return encode(self.schema_, validated(self, X, reset=False), asked=()).on_host()


def _sum_of_curves(
    intercept: float, curves: Sequence[Curve], table: Table
) -> np.ndarray:
    total = np.full(len(table.codes), intercept)
    for curve in curves:
        total += curve.of_rows(table)
    return total


def _folds(table: Table, target: np.ndarray, n_folds: int) -> np.ndarray:
    """Deal distinct rows to folds in the order of their targets; copies go together."""
    columns = np.column_stack([target, table.x, table.codes])
    _, distinct = np.unique(columns, axis=0, return_inverse=True)
    return distinct.ravel() % n_folds
