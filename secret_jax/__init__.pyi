# Public names and their homes, for type checkers, and to be loaded when first used.
from .composed.ensemble.boosters import (
    SecretBoostingClassifier as SecretBoostingClassifier,
)
from .composed.ensemble.boosters import (
    SecretBoostingRegressor as SecretBoostingRegressor,
)
from .composed.ensemble.forest import SecretForestRegressor as SecretForestRegressor
from .composed.kernel.trees import KernelTreeClassifier as KernelTreeClassifier
from .composed.kernel.trees import KernelTreeRegressor as KernelTreeRegressor
from .composed.ordinal import SecretOrdinalClassifier as SecretOrdinalClassifier
from .data.columns import UnseenCategoryWarning as UnseenCategoryWarning
from .data.shards import shard_rows as shard_rows
from .estimators.classifier import SecretClassifier as SecretClassifier
from .estimators.regressor import SecretRegressor as SecretRegressor
from .estimators.stream.batches import StreamError as StreamError
from .fit.interface import RefinementWarning as RefinementWarning
from .fit.prune.rules import CostComplexity as CostComplexity
from .fit.prune.rules import CrossValidation as CrossValidation
from .fit.prune.rules import HoldOut as HoldOut
from .fit.prune.rules import StandardErrors as StandardErrors
from .fit.refine.distillation import Distillation as Distillation
from .fit.refine.gates import SoftGates as SoftGates
from .losses.numbers import Poisson as Poisson
from .losses.numbers import Quantile as Quantile
from .models.glm import Logistic as Logistic
from .models.linear import Constant as Constant
from .models.linear import LeastSquares as LeastSquares
from .models.ridge import Ridge as Ridge
from .runtime.programs import keep_programs as keep_programs
from .splits.rss import RssSplits as RssSplits
from .splits.secret import SecretSplits as SecretSplits

__version__: str
