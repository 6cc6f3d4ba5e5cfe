"""Methods of fitted sums of trees: importances of the columns, code export."""

from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.utils.validation import check_is_fitted

from secret_jax.data.rows import Rows
from secret_jax.data.schema import TableSchema
from secret_jax.ensemble.model import Ensemble
from secret_jax.inspect.classes import Classes
from secret_jax.inspect.code.export import exported_sum, written
from secret_jax.inspect.code.onnx.convert import onnx_model
from secret_jax.inspect.code.program import ExportedModel
from secret_jax.inspect.importances import savings
from secret_jax.inspect.mixin import Importances
from secret_jax.losses.interface import Loss
from secret_jax.losses.numbers import SQUARED_ERROR


class EnsembleInspection(Importances):
    """Methods to inspect the ensemble of a fitted estimator.

    With several outputs ``output``, a position or a name, selects one; of classes it
    may be left out. How a prediction depends on a column is drawn by
    `sklearn.inspection.PartialDependenceDisplay`.
    """

    ensemble_: Ensemble
    _rows: Rows
    _loss: ClassVar[Loss] = SQUARED_ERROR

    @property
    def _schema(self) -> TableSchema:
        return self.ensemble_.schema

    def _importances(self, output: int) -> np.ndarray:
        """Shares of the columns in the reduction of squared training error.

        A step of a share of a tree saves less than the tree by itself, ``s (2 - s)`` of
        it; `secret_jax.inspect.importances.feature_importances` shares out the rest.
        """
        ensemble = self.ensemble_
        total = np.zeros(len(ensemble.schema.names))
        for booster in ensemble.boosters:
            for number, whole in enumerate(booster):
                tree = whole.output(output) if whole.n_outputs > 1 else whole
                step = ensemble.learning_rate if number else 1.0
                square = float(tree.weight[0] * tree.deviation[0, 0] ** 2)
                total += step * (2.0 - step) * savings(tree, square)
        return total / total.sum() if total.sum() > 0 else total

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
        check_is_fitted(self)
        classes, schema = Classes.of_estimator(self), self._schema
        trees, steps = zip(*self.ensemble_.trees(), strict=True)
        if classes is None and schema.n_outputs > 1:
            which = schema.output_position(output)
            trees = [tree.output(which) for tree in trees]
        return exported_sum(
            trees,
            steps,
            loss=self._loss,
            classes=classes,
            output=output if classes else None,
        )
