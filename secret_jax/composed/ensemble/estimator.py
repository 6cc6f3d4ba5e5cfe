"""Base of all estimators that are sums of trees: tables, files, what they tell."""

from dataclasses import replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from secret_jax.composed.ensemble.growth import Ensemble
from secret_jax.data.encoding import Lying, Unencoded, unencoded
from secret_jax.data.rows import Rows
from secret_jax.data.schema import TableSchema
from secret_jax.data.validation import TableLike, validated
from secret_jax.estimators.common import TableEstimator
from secret_jax.estimators.parameters import plan_of, seed_of
from secret_jax.estimators.regressor import SecretRegressor
from secret_jax.fit.plan import Plan
from secret_jax.inspect.code.export import check_language, program_code
from secret_jax.inspect.code.program import exported_sum
from secret_jax.inspect.explain import constant_loss, savings
from secret_jax.inspect.mixin import Importances
from secret_jax.inspect.view import Classes
from secret_jax.losses.interface import Loss
from secret_jax.runtime.values import checked_parameters
from secret_jax.splits.rss import RssSplits
from secret_jax.tree import routing
from secret_jax.tree.file import ModelFileError
from secret_jax.tree.functions import Model


class EnsembleEstimator(Importances, TableEstimator):
    """Base of all estimators that are sums of trees.

    Of several outputs ``output``, a position or a name, selects one; of classes it may
    be left out. `sklearn.inspection.PartialDependenceDisplay` draws predictions.
    """

    ensemble_: Ensemble
    _rows: Rows
    _predicts_with: ClassVar[str] = "ensemble_"
    _method: ClassVar[str] = "SECRET booster"
    # A tree that predicts the same outputs, and the parameters that go to it.
    _tree: ClassVar[Any] = SecretRegressor
    _of_the_tree: ClassVar[tuple[str, ...]] = (
        *("categorical_features", "split_features", "missing_values"),
        *("monotonic_cst", "random_state", "device", "verbose"),
    )

    def _single_tree(self, **parameters: Any) -> Any:
        """Unfitted tree that reads the same tables."""
        own = {name: getattr(self, name) for name in self._of_the_tree}
        return self._tree(**own, **parameters)

    def _reading(self) -> Plan:
        """Check the parameters, and plan how to read tables, as for a single tree."""
        checked_parameters(self)
        seed = 0 if self.random_state is None else seed_of(self.random_state)
        tree = self._single_tree(splits=RssSplits(max_samples=None))
        # The trees' own search is not random: the seed is for their rows.
        return replace(plan_of(tree, seed, type(self).__name__), seed=seed)

    @property
    def _loss(self) -> Loss:
        """Loss that says what the sum of the trees predicts."""
        return self.ensemble_.loss

    @property
    def n_outputs_(self) -> int:
        """Number of targets."""
        check_is_fitted(self)
        return self.ensemble_.schema.n_outputs

    @classmethod
    def load(cls, path: Any) -> Self:
        """Read a model written by `save`."""
        model = super().load(path)
        try:
            model.ensemble_ = Ensemble.loaded(model.ensemble_)  # pyright: ignore[reportArgumentType]
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            raise ModelFileError(
                f"{str(path)!r} holds no sound booster: {error}. Save it again."
            ) from None
        return model

    def _unencoded(self, X: TableLike) -> Lying | Unencoded:
        X = validated(self, X, reset=False)
        return unencoded(self.ensemble_.schema, X)

    def _model_and_loss(self) -> tuple[Model, Loss]:
        trees, weight = zip(*self.ensemble_.trees(), strict=True)
        return routing.model_of(trees, np.array(weight)), self._loss

    @property
    def _schema(self) -> TableSchema:
        return self.ensemble_.schema

    def _importances(self, output: int) -> np.ndarray:
        """Shares of the columns in the reduction of squared training error."""
        ensemble = self.ensemble_
        total = np.zeros(len(ensemble.schema.names))
        for booster in ensemble.boosters:
            for number, whole in enumerate(booster):
                tree = whole.restricted(output)
                step = ensemble.learning_rate if number else 1.0
                if tree.loss.least_squares:
                    square = float(tree.weight[0] * tree.deviation[0, 0] ** 2)
                else:
                    square = constant_loss(whole, output)
                # A share of a tree saves less of the error than the whole tree.
                total += step * (2.0 - step) * savings(tree, square)
        return total / total.sum() if total.sum() > 0 else total

    def export_code(
        self,
        language: Literal["python", "onnx"] = "python",
        *,
        function_name: str | None = None,
        output: int | str | None = None,
    ) -> Any:
        """Export all trees as Python functions or as an ONNX model.

        See `secret_jax.inspect.code.export.export_code`. With ``ensemble=False`` it is
        a sixth as long. SQL and DOT are a ValueError: databases take long over sums of
        so many trees.
        """
        check_is_fitted(self)
        check_language(language, {"function_name": function_name}, of_sum=True)
        classes, schema = Classes.of_estimator(self), self._schema
        trees, steps = zip(*self.ensemble_.trees(), strict=True)
        if classes is None and schema.n_outputs > 1:
            which = schema.output_position(output)
            trees = [tree.output(which) for tree in trees]
        model = exported_sum(
            trees, steps, loss=self._loss, classes=classes, output=output
        )
        return program_code(model, language, function_name)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = tags.regressor_tags is not None
        return tags
