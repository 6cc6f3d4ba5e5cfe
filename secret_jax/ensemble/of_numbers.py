"""Mixin of ensembles with one or several numeric targets."""

from __future__ import annotations

from typing import Any

import numpy as np

from secret_jax.data.given import ArrayLike, TableLike
from secret_jax.data.schema import TableSchema
from secret_jax.data.validation import names_of, validated_targets
from secret_jax.estimators.base import Targets
from secret_jax.estimators.planning import plan_of
from secret_jax.estimators.regressor import SecretRegressor
from secret_jax.fit.plan import Plan
from secret_jax.splits.rss import RssSplits


class OfNumbers:
    """Mixin that reads numeric targets, for `EnsembleEstimator`."""

    def _targets(
        self,
        y: ArrayLike,
        X: TableLike,
        weight: np.ndarray,
        known: TableSchema | None = None,
    ) -> Targets:
        """See `EnsembleEstimator`."""
        values = validated_targets(y, X, type(self).__name__)
        n_outputs = values.shape[1]
        if known is not None and n_outputs != known.n_outputs:
            raise ValueError(
                f"There are {n_outputs} outputs, but the trees were grown for "
                f"{known.n_outputs}. Give the same columns."
            )
        return Targets(values, names_of(y, n_outputs), weight, {})

    def _tree_plan(self, parameters: dict[str, Any], seed: int) -> Plan:
        """See `EnsembleEstimator`."""
        of_tree = SecretRegressor(splits=RssSplits(max_samples=None), **parameters)
        return plan_of(of_tree, seed, type(self).__name__)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # pyright: ignore[reportAttributeAccessIssue]
        tags.target_tags.multi_output = True
        return tags
