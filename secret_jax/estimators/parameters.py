"""Parameters of the estimators: fields, allowed values, and what names stand for."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from sklearn.utils._param_validation import Interval, RealNotInt, StrOptions

from secret_jax.fit.prune.cost_complexity import Unpruned
from secret_jax.fit.prune.criteria import InformationCriterion
from secret_jax.fit.prune.cross_validation import CrossValidation
from secret_jax.fit.prune.hold_out import HoldOut
from secret_jax.fit.prune.interface import PruningRule
from secret_jax.fit.prune.standard_errors import StandardErrors
from secret_jax.fit.refine.blend import Blend
from secret_jax.fit.refine.distillation import Distillation
from secret_jax.fit.refine.interface import Refinement
from secret_jax.fit.refine.soft.choose import SoftGates
from secret_jax.fit.refine.tao import Tao
from secret_jax.learners.cart import CartSplits
from secret_jax.learners.conjunctive import ConjunctiveSplits
from secret_jax.learners.guide import GuideSplits
from secret_jax.learners.m5 import M5Splits
from secret_jax.learners.m5_leaves import M5Linear
from secret_jax.learners.m5_pruning import M5Pruning
from secret_jax.learners.phd import PhdSplits
from secret_jax.learners.retis import RetisSplits
from secret_jax.learners.support import SupportSplits
from secret_jax.losses.deviance import Poisson, Tweedie
from secret_jax.losses.interface import Loss
from secret_jax.losses.numbers import Huber, SquaredError
from secret_jax.losses.quantile import Quantile
from secret_jax.models.glm import ClassFrequencies, GLMLeaf, Logistic
from secret_jax.models.interface import LeafModel
from secret_jax.models.linear import Constant, LeastSquares, MixtureLeaf, SimpleLinear
from secret_jax.models.ridge import Ridge
from secret_jax.runtime.values import Value, at_least, constraints_of, real
from secret_jax.splits.classes import ClassSplits
from secret_jax.splits.interface import SplitFinder
from secret_jax.splits.rss import RssSplits
from secret_jax.splits.secret import SecretSplits

# What names stand for, by parameter; None: nothing, or the fit decides.
# A value of one's own needs no name.
Named = Mapping[str, Mapping[Any, Value | None]]
_REFINEMENTS = {"tao": Tao(), "blend": Blend(), "soft": SoftGates(), None: None}
_DISTILLATIONS = {True: Distillation(), False: None}
_RULES = {
    "auto": None,
    "holdout": HoldOut(),
    "cross-validation": CrossValidation(),
    **{
        name: InformationCriterion(criterion=name)
        for name in ("aic", "bic", "caic", "icomp")
    },
    "cart": StandardErrors(factor=1.0),
    "guide": StandardErrors(factor=0.5),
    "m5": M5Pruning(),
    None: Unpruned(),
}
_OF_TREES = {"prune": _RULES, "refine": _REFINEMENTS, "distill": _DISTILLATIONS}
NAMED: Named = {
    "splits": {
        "rss": RssSplits(),
        "secret": SecretSplits(),
        "cart": CartSplits(),
        "guide": GuideSplits(),
        "m5": M5Splits(),
        "retis": RetisSplits(),
        "support": SupportSplits(),
        "phd": PhdSplits(),
        "conjunctive": ConjunctiveSplits(),
    },
    "leaf": {
        "ridge": Ridge(),
        "linear": LeastSquares(),
        "constant": Constant(),
        "implied": MixtureLeaf(),
        "simple": SimpleLinear(),
        "m5": M5Linear(),
    },
    **_OF_TREES,
    "loss": {
        "squared": SquaredError(),
        "auto": SquaredError(),  # and that of logarithms, see `secret_jax.fit.rivals`
        "absolute": Quantile(),
        "huber": Huber(),
        "poisson": Poisson(),
        "gamma": Tweedie(power=2.0),
        "tweedie": Tweedie(),
    },
}
CLASS_NAMED: Named = {
    "splits": {
        "rss": RssSplits(),
        "secret": ClassSplits(),
        "cart": CartSplits(criterion="gini"),
        "conjunctive": ConjunctiveSplits(),
    },
    "leaf": {
        "logistic": Logistic(),
        "constant": ClassFrequencies(),
        "auto": Logistic(),  # and constants, see `secret_jax.fit.rivals`
    },
    **_OF_TREES,
}


def value_of(name: str, parameter: Any, named: Named = NAMED) -> Any:
    """Value that a parameter stands for; None if there is none."""
    if isinstance(parameter, Value):
        return parameter
    try:
        return named.get(name, {}).get(parameter)
    except TypeError:  # of an unhashable parameter, which the constraints refuse
        return None


def _choices(name: str, kind: type[Value], named: Named = NAMED) -> list[Any]:
    names = set(named[name])
    allowed: list[Any] = [StrOptions(names - {None}), kind]
    return [*allowed, None] if None in names else allowed


# Numbers of rows, or shares of them.
_COUNT_OR_SHARE = [
    at_least(1),
    Interval(RealNotInt, 0.0, 1.0, closed="neither"),
    StrOptions({"auto"}),
]


@dataclass(kw_only=True, eq=False, repr=False)
class TableParameters:
    """Parameters of every estimator: how tables are read, and where it computes."""

    missing_values: Literal["learn", "mean", "error"] = "learn"
    categorical_features: Any = None
    split_features: Any = None
    monotonic_cst: Any = None
    random_state: Any = None
    device: str | None = None
    verbose: int = 0

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "missing_values": [StrOptions({"learn", "mean", "error"})],
        # Read by those that know the table, or random numbers.
        "categorical_features": "no_validation",
        "split_features": "no_validation",
        "monotonic_cst": "no_validation",
        "random_state": "no_validation",
        "device": [str, None],
        "verbose": [at_least(0), "boolean"],
    }

    def __init_subclass__(cls, **options: Any) -> None:
        """Add the constraints of the bases, for which scikit-learn does not look."""
        super().__init_subclass__(**options)
        cls._parameter_constraints = constraints_of(cls)


@dataclass(kw_only=True, eq=False, repr=False)
class TreeParameters:
    """Parameters of every estimator of a single tree."""

    max_leaf_nodes: int | None = None
    max_depth: int | None = None
    pruning_tolerance: float = 0.1
    equation_tolerance: float = 0.03
    oblique: bool | Literal["auto"] = "auto"
    leaf: str | LeafModel
    splits: str | SplitFinder = "rss"
    prune: str | PruningRule | None = "auto"
    refine: str | Refinement | None = None
    distill: bool | Distillation = True
    min_samples_leaf: float | Literal["auto"] = "auto"
    min_samples_split: float | Literal["auto"] = "auto"

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "max_leaf_nodes": [at_least(1), None],
        "max_depth": [at_least(0), None],
        "pruning_tolerance": [real(0.0)],
        "equation_tolerance": [real(0.0)],
        "oblique": ["boolean", StrOptions({"auto"})],
        "refine": _choices("refine", Refinement),
        "distill": ["boolean", Distillation],
        "min_samples_leaf": _COUNT_OR_SHARE,
        "min_samples_split": _COUNT_OR_SHARE,
    }


@dataclass(kw_only=True, eq=False, repr=False)
class RegressorParameters(TreeParameters):
    leaf: str | LeafModel = "ridge"
    loss: str | Loss = "squared"

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "leaf": _choices("leaf", LeafModel),
        "splits": _choices("splits", SplitFinder),
        "prune": _choices("prune", PruningRule),
        "loss": _choices("loss", Loss),
    }


@dataclass(kw_only=True, eq=False, repr=False)
class ClassifierParameters(TreeParameters):
    leaf: str | LeafModel = "logistic"
    class_weight: Any = None
    priors: Any = None
    costs: Any = None

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "leaf": _choices("leaf", GLMLeaf, CLASS_NAMED),
        "splits": _choices("splits", SplitFinder, CLASS_NAMED),
        "prune": _choices("prune", PruningRule, CLASS_NAMED),
        "class_weight": [StrOptions({"balanced"}), dict, None],
        "priors": "no_validation",
        "costs": "no_validation",
    }
