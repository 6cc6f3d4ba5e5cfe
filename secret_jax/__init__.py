"""Readable regression trees with linear models: SECRET on JAX, and beyond."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from secret_jax.runtime.version import VERSION

if TYPE_CHECKING:
    from secret_jax.composed.additive.estimator import (
        SecretAdditiveRegressor as SecretAdditiveRegressor,
    )
    from secret_jax.composed.kernel.classifier import (
        KernelTreeClassifier as KernelTreeClassifier,
    )
    from secret_jax.composed.kernel.estimator import (
        KernelTreeRegressor as KernelTreeRegressor,
    )
    from secret_jax.composed.ordinal import (
        SecretOrdinalClassifier as SecretOrdinalClassifier,
    )
    from secret_jax.data.categories import (
        UnseenCategoryWarning as UnseenCategoryWarning,
    )
    from secret_jax.data.shards import RowShards as RowShards
    from secret_jax.data.shards import shard_rows as shard_rows
    from secret_jax.ensemble.classifier import (
        SecretBoostingClassifier as SecretBoostingClassifier,
    )
    from secret_jax.ensemble.forest import (
        SecretForestRegressor as SecretForestRegressor,
    )
    from secret_jax.ensemble.options import TreeSize as TreeSize
    from secret_jax.ensemble.regressor import (
        SecretBoostingRegressor as SecretBoostingRegressor,
    )
    from secret_jax.estimators.classifier import SecretClassifier as SecretClassifier
    from secret_jax.estimators.regressor import SecretRegressor as SecretRegressor
    from secret_jax.fit.prune.cost_complexity import CostComplexity as CostComplexity
    from secret_jax.fit.prune.criteria import (
        InformationCriterion as InformationCriterion,
    )
    from secret_jax.fit.prune.cross_validation import CrossValidation as CrossValidation
    from secret_jax.fit.prune.hold_out import HoldOut as HoldOut
    from secret_jax.fit.prune.standard_errors import StandardErrors as StandardErrors
    from secret_jax.fit.refine.blend import Blend as Blend
    from secret_jax.fit.refine.distillation import Distillation as Distillation
    from secret_jax.fit.refine.interface import RefinementWarning as RefinementWarning
    from secret_jax.fit.refine.soft.choose import SoftGates as SoftGates
    from secret_jax.fit.refine.tao import Tao as Tao
    from secret_jax.losses.automatic import FunctionLoss as FunctionLoss
    from secret_jax.losses.deviance import Poisson as Poisson
    from secret_jax.losses.deviance import Tweedie as Tweedie
    from secret_jax.losses.numbers import Huber as Huber
    from secret_jax.losses.quantile import Quantile as Quantile
    from secret_jax.models.glm import ClassFrequencies as ClassFrequencies
    from secret_jax.models.glm import Logistic as Logistic
    from secret_jax.models.linear import Constant as Constant
    from secret_jax.models.linear import LeastSquares as LeastSquares
    from secret_jax.models.linear import MixtureLeaf as MixtureLeaf
    from secret_jax.models.linear import SimpleLinear as SimpleLinear
    from secret_jax.models.ridge import Ridge as Ridge
    from secret_jax.runtime.programs import keep_programs as keep_programs
    from secret_jax.splits.classes import ClassSplits as ClassSplits
    from secret_jax.splits.rss import RssSplits as RssSplits
    from secret_jax.splits.secret import SecretSplits as SecretSplits
    from secret_jax.stream.batches import StreamError as StreamError

__version__ = VERSION

# Imported when first used: `secret-jax --help` need not wait for JAX.
_HOMES = {
    "Blend": "fit.refine.blend",
    "ClassSplits": "splits.classes",
    "Constant": "models.linear",
    "CostComplexity": "fit.prune.cost_complexity",
    "CrossValidation": "fit.prune.cross_validation",
    "Distillation": "fit.refine.distillation",
    "FunctionLoss": "losses.automatic",
    "HoldOut": "fit.prune.hold_out",
    "Huber": "losses.numbers",
    "MixtureLeaf": "models.linear",
    "InformationCriterion": "fit.prune.criteria",
    "KernelTreeClassifier": "composed.kernel.classifier",
    "KernelTreeRegressor": "composed.kernel.estimator",
    "LeastSquares": "models.linear",
    "Logistic": "models.glm",
    "Poisson": "losses.deviance",
    "Quantile": "losses.quantile",
    "RefinementWarning": "fit.refine.interface",
    "Ridge": "models.ridge",
    "RowShards": "data.shards",
    "RssSplits": "splits.rss",
    "SecretAdditiveRegressor": "composed.additive.estimator",
    "SecretBoostingClassifier": "ensemble.classifier",
    "SecretBoostingRegressor": "ensemble.regressor",
    "SecretForestRegressor": "ensemble.forest",
    "SecretClassifier": "estimators.classifier",
    "SecretOrdinalClassifier": "composed.ordinal",
    "SecretRegressor": "estimators.regressor",
    "SecretSplits": "splits.secret",
    "ClassFrequencies": "models.glm",
    "SimpleLinear": "models.linear",
    "SoftGates": "fit.refine.soft.choose",
    "StandardErrors": "fit.prune.standard_errors",
    "StreamError": "stream.batches",
    "Tao": "fit.refine.tao",
    "TreeSize": "ensemble.options",
    "Tweedie": "losses.deviance",
    "UnseenCategoryWarning": "data.categories",
    "keep_programs": "runtime.programs",
    "shard_rows": "data.shards",
}
__all__ = sorted(_HOMES)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = importlib.import_module(f"{__name__}.{_HOMES[name]}")
    return getattr(home, name)


def __dir__() -> list[str]:
    """List the public names only, for completion."""
    return [*__all__, "__version__"]
