"""Readable regression trees with linear models: SECRET on JAX, and beyond."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from secret_jax.runtime.environment import VERSION

if TYPE_CHECKING:
    from secret_jax.composed.ensemble.boosters import (
        SecretBoostingClassifier as SecretBoostingClassifier,
    )
    from secret_jax.composed.ensemble.boosters import (
        SecretBoostingRegressor as SecretBoostingRegressor,
    )
    from secret_jax.composed.ensemble.forest import (
        SecretForestRegressor as SecretForestRegressor,
    )
    from secret_jax.composed.kernel.trees import (
        KernelTreeClassifier as KernelTreeClassifier,
    )
    from secret_jax.composed.kernel.trees import (
        KernelTreeRegressor as KernelTreeRegressor,
    )
    from secret_jax.composed.ordinal import (
        SecretOrdinalClassifier as SecretOrdinalClassifier,
    )
    from secret_jax.data.categories import (
        UnseenCategoryWarning as UnseenCategoryWarning,
    )
    from secret_jax.data.shards import shard_rows as shard_rows
    from secret_jax.estimators.classifier import SecretClassifier as SecretClassifier
    from secret_jax.estimators.regressor import SecretRegressor as SecretRegressor
    from secret_jax.estimators.stream.batches import StreamError as StreamError
    from secret_jax.fit.interface import RefinementWarning as RefinementWarning
    from secret_jax.fit.prune.rules import CostComplexity as CostComplexity
    from secret_jax.fit.prune.rules import CrossValidation as CrossValidation
    from secret_jax.fit.prune.rules import HoldOut as HoldOut
    from secret_jax.fit.prune.rules import StandardErrors as StandardErrors
    from secret_jax.fit.refine.distillation import Distillation as Distillation
    from secret_jax.fit.refine.gates import SoftGates as SoftGates
    from secret_jax.losses.numbers import Poisson as Poisson
    from secret_jax.losses.numbers import Quantile as Quantile
    from secret_jax.models.glm import Logistic as Logistic
    from secret_jax.models.linear import Constant as Constant
    from secret_jax.models.linear import LeastSquares as LeastSquares
    from secret_jax.models.ridge import Ridge as Ridge
    from secret_jax.runtime.programs import keep_programs as keep_programs
    from secret_jax.splits.rss import RssSplits as RssSplits
    from secret_jax.splits.secret import SecretSplits as SecretSplits

__version__ = VERSION

# Imported when first used: `secret-jax --help` need not wait for JAX.
_NAMES = {
    "composed.ensemble.boosters": "SecretBoostingClassifier SecretBoostingRegressor",
    "composed.ensemble.forest": "SecretForestRegressor",
    "composed.kernel.trees": "KernelTreeClassifier KernelTreeRegressor",
    "composed.ordinal": "SecretOrdinalClassifier",
    "data.categories": "UnseenCategoryWarning",
    "data.shards": "shard_rows",
    "estimators.classifier": "SecretClassifier",
    "estimators.regressor": "SecretRegressor",
    "estimators.stream.batches": "StreamError",
    "fit.interface": "RefinementWarning",
    "fit.prune.rules": "CostComplexity CrossValidation HoldOut StandardErrors",
    "fit.refine.distillation": "Distillation",
    "fit.refine.gates": "SoftGates",
    "losses.numbers": "Poisson Quantile",
    "models.glm": "Logistic",
    "models.linear": "Constant LeastSquares",
    "models.ridge": "Ridge",
    "runtime.programs": "keep_programs",
    "splits.rss": "RssSplits",
    "splits.secret": "SecretSplits",
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names.split()}
__all__ = sorted(_HOMES)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = importlib.import_module(f"{__name__}.{_HOMES[name]}")
    return getattr(home, name)


def __dir__() -> list[str]:
    """List the public names only, for completion."""
    return [*__all__, "__version__"]
