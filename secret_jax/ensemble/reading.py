"""Methods of fitted boosters: importances, effects, interactions, code export."""

from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.utils.validation import check_is_fitted

from secret_jax.data.encoding import encode
from secret_jax.data.rows import Rows
from secret_jax.data.schema import TableSchema
from secret_jax.data.validation import validated
from secret_jax.ensemble import effects
from secret_jax.ensemble.model import Ensemble
from secret_jax.ensemble.plot import drawn_effects
from secret_jax.inspect.classes import Classes, with_all_classes
from secret_jax.inspect.code.export import exported_sum, written
from secret_jax.inspect.code.onnx.convert import onnx_model
from secret_jax.inspect.code.program import ExportedModel
from secret_jax.inspect.mixin import Importances
from secret_jax.inspect.plot.picture import Picture
from secret_jax.losses.classes import class_in_words
from secret_jax.losses.interface import Loss
from secret_jax.losses.numbers import SQUARED_ERROR
from secret_jax.runtime.values import is_integer


class BoosterInspection(Importances):
    """Methods to inspect the ensemble of a fitted booster.

    With several outputs ``output``, a position or a name, selects one; for classes it
    may be left out: curves are then of the probability of the second of two classes, or
    of all.
    """

    ensemble_: Ensemble
    _rows: Rows
    _loss: ClassVar[Loss] = SQUARED_ERROR

    @property
    def _schema(self) -> TableSchema:
        return self.ensemble_.schema

    def _importances(self, output: int) -> np.ndarray:
        return effects.booster_importances(self.ensemble_, output)

    def effect(
        self,
        column: str | int,
        X: Any = None,
        *,
        n_points: int = 21,
        output: int | str | None = None,
    ) -> effects.Effect:
        """Compute the average prediction for values of one column.

        Parameters
        ----------
        column : str or int
            Its name or position; parts of dates are columns of their own.
        X : array-like or DataFrame, optional
            Rows to average over; by default those that trained the model.
        n_points : int, default=21
            Number of quantiles of the column to evaluate, or all values if fewer.

        Returns
        -------
        Effect
            ``values`` and ``mean``, of equal length; exact averages over the rows.

        Examples
        --------
        >>> from secret_jax import SecretBoostingRegressor
        >>> from secret_jax.datasets import make_fried
        >>> X, y = make_fried(400, random_state=0)
        >>> model = SecretBoostingRegressor(max_leaf_nodes=8, max_iter=10).fit(X, y)
        >>> curve = model.effect("x3", n_points=5)  # y rises by 10 with it
        >>> bool(8 < curve.mean[-1] - curve.mean[0] < 11)
        True
        """
        if not is_integer(n_points) or n_points < 2:
            raise ValueError(
                f"n_points must be a count of at least 2. Got {n_points!r}."
            )
        quantity = self._quantity(output)
        return effects.effect(quantity, self._some_rows(X), column, n_points)

    def interactions(
        self, X: Any = None, *, n_rows: int = 60, output: int | str | None = None
    ) -> list[effects.Interaction]:
        """Rank pairs of columns by the strength of their interaction.

        Parameters
        ----------
        X : array-like or DataFrame, optional
            Rows to look at; by default those that trained the model.
        n_rows : int, default=60
            Number of rows used: the time grows with their square.

        Returns
        -------
        list of Interaction
            See `secret_jax.ensemble.effects.interactions`.
        """
        return effects.interactions(self._quantity(output), self._some_rows(X), n_rows)

    def plot_effects(
        self,
        columns: list[str] | None = None,
        X: Any = None,
        *,
        n_points: int = 21,
        most: int = 6,
        output: int | str | None = None,
    ) -> Picture:
        """Draw the curves of columns, and the pairs that interact most.

        Parameters
        ----------
        columns : list of str, optional
            By default the ``most`` important ones.
        X : array-like or DataFrame, optional
            As in `effect`.
        n_points : int, default=21
        most : int, default=6
            Curves and pairs at most.

        Returns
        -------
        secret_jax.inspect.plot.picture.Picture
            Ticks below the curves, and numbers beside categories, are the rows.
        """
        quantity, rows = self._quantity(output), self._some_rows(X)
        names = self.ensemble_.schema.names
        if columns is None:
            shares = quantity.importances
            columns = [names[i] for i in np.argsort(-shares)[:most] if shares[i] > 0]
        curves = [self.effect(c, X, n_points=n_points, output=output) for c in columns]
        pairs = effects.interactions(quantity, rows, 40)[:most]
        return drawn_effects(curves, pairs, rows, self.ensemble_.schema)

    def export_code(
        self,
        language: Literal["python"] = "python",
        *,
        function_name: str | None = None,
        output: int | str | None = None,
    ) -> str:
        """Export all trees as Python functions.

        See `secret_jax.inspect.code.export.export_code` for the parameters and what
        exported classifiers return. With ``ensemble=False`` it is a sixth as long.

        Raises
        ------
        ValueError
            If SQL is asked for: databases take long over sums of so many trees.
        """
        return written(self._exported(output), language, function_name)

    def to_onnx(self, *, output: int | str | None = None) -> Any:
        """Convert all trees to an ONNX model.

        See `secret_jax.inspect.code.onnx.convert.to_onnx`.
        """
        return onnx_model(self._exported(output))

    def _exported(self, output: int | str | None) -> ExportedModel:
        """Convert the trees to what programs of any language compute."""
        check_is_fitted(self)
        classes = Classes.of_estimator(self)
        trees, steps = zip(*self.ensemble_.trees(), strict=True)
        if classes is None and self.ensemble_.schema.n_outputs > 1:
            trees = [tree.output(self._output(output)) for tree in trees]
        return exported_sum(
            trees,
            steps,
            loss=self._loss,
            classes=classes,
            output=output if classes else None,
        )

    def _quantity(self, output: int | str | None) -> effects.Quantity:
        """Choose what to analyse: an output, or probabilities."""
        check_is_fitted(self)
        ensemble, schema = self.ensemble_, self._schema
        loss, classes = self._loss, Classes.of_estimator(self)
        if classes is None:
            which = self._output(output)
            return effects.Quantity(
                ensemble,
                f"mean of {schema.target_names[which]}",
                lambda value: schema.restore_outputs(value)[:, [which]],
                effects.booster_importances(ensemble, which),
            )
        names, n_outputs = tuple(map(str, classes.labels)), schema.n_outputs
        if output is None and n_outputs > 1:
            each = [effects.booster_importances(ensemble, i) for i in range(n_outputs)]
            mean = np.mean(each, axis=0)
            return effects.Quantity(
                ensemble, "mean probability", loss.prediction, mean, names
            )
        which = 1 if output is None else classes.position(output)
        return effects.Quantity(
            ensemble,
            f"mean probability of {class_in_words(names[which])}",
            lambda value: with_all_classes(loss.prediction(value))[:, [which]],
            effects.booster_importances(ensemble, which if n_outputs > 1 else 0),
        )

    def _output(self, output: int | str | None) -> int:
        """Position of an output; it may be left out of one only."""
        single = output is None and self._schema.n_outputs == 1
        return self._schema.output_position(0 if single else output)

    def _some_rows(self, X: Any) -> Rows:
        """Encode the given rows, or return those that trained the model."""
        if X is None:
            rows = self.__dict__.get("_rows")
            if rows is None:
                raise ValueError(
                    "A model from a file knows no rows. Give some of them as X."
                )
            return rows
        table = encode(self._schema, validated(self, X, reset=False)).on_host()  # pyright: ignore[reportArgumentType]
        targets = np.zeros((len(table.x), self._schema.n_outputs))
        return Rows(table, targets, np.ones(len(targets)))
