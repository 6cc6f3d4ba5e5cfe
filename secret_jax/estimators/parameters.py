"""Parameters of the estimators: fields, allowed values, and what names stand for."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias

from sklearn.utils._param_validation import StrOptions

from secret_jax.fit.prune.cost_complexity import Unpruned
from secret_jax.fit.prune.criteria import InformationCriterion
from secret_jax.fit.prune.cross_validation import CrossValidation, StandardErrors
from secret_jax.fit.prune.hold_out import HoldOut
from secret_jax.fit.prune.interface import PruningRule
from secret_jax.fit.refine.blend import Blend
from secret_jax.fit.refine.distillation import Distillation
from secret_jax.fit.refine.interface import Refinement
from secret_jax.fit.refine.soft.choose import SoftGates
from secret_jax.fit.refine.tao import Tao
from secret_jax.learners.cart import CartSplits
from secret_jax.learners.conjunctive import ConjunctiveSplits
from secret_jax.learners.guide import GuideSplits
from secret_jax.learners.m5 import M5Linear, M5Pruning, M5Splits
from secret_jax.learners.phd import PhdSplits
from secret_jax.learners.retis import RetisSplits
from secret_jax.learners.support import SupportSplits
from secret_jax.losses.interface import Loss
from secret_jax.losses.numbers import Gamma, Poisson, Quantile, SquaredError
from secret_jax.models.glm import ClassFrequencies, GLMLeaf, Logistic
from secret_jax.models.interface import LeafModel
from secret_jax.models.linear import Constant, LeastSquares, MixtureLeaf, SimpleLinear
from secret_jax.models.ridge import Ridge
from secret_jax.runtime.values import SHARE, DeclaredConstraints, Value, at_least, real
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
        "auto": SquaredError(),  # or that of logarithms: `secret_jax.fit.alternatives`
        "absolute": Quantile(),
        "poisson": Poisson(),
        "gamma": Gamma(),
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
        "auto": Logistic(),  # and constants, see `secret_jax.fit.alternatives`
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


CountOrShare: TypeAlias = (
    Annotated[int, at_least(1)] | Annotated[float, SHARE] | Literal["auto"]
)
"""A number of rows, or a share of them."""


@dataclass(kw_only=True, eq=False, repr=False)
class TableParameters:
    """Parameters of every estimator: how tables are read, and where it computes."""

    missing_values: Literal["learn", "mean", "error"] = "learn"
    categorical_features: Any = None
    split_features: Any = None
    monotonic_cst: Any = None
    random_state: Any = None
    device: str | None = None
    verbose: Annotated[int, at_least(0)] | bool = 0

    _parameter_constraints = DeclaredConstraints()


@dataclass(kw_only=True, eq=False, repr=False)
class TreeParameters:
    """Parameters of every estimator of a single tree."""

    max_leaf_nodes: Annotated[int, at_least(1)] | None = None
    max_depth: Annotated[int, at_least(0)] | None = None
    pruning_tolerance: Annotated[float, real(0.0)] = 0.05
    equation_tolerance: Annotated[float, real(0.0)] = 0.03
    oblique: bool | Literal["auto"] = "auto"
    leaf: str | LeafModel
    splits: str | SplitFinder = "rss"
    prune: Annotated[str | PruningRule | None, *_choices("prune", PruningRule)] = "auto"
    refine: Annotated[str | Refinement | None, *_choices("refine", Refinement)] = None
    distill: bool | Distillation = True
    min_samples_leaf: CountOrShare = "auto"
    min_samples_split: CountOrShare = "auto"


@dataclass(kw_only=True, eq=False, repr=False)
class RegressorParameters(TreeParameters):
    leaf: Annotated[str | LeafModel, *_choices("leaf", LeafModel)] = "ridge"
    splits: Annotated[str | SplitFinder, *_choices("splits", SplitFinder)] = "rss"
    loss: Annotated[str | Loss, *_choices("loss", Loss)] = "squared"


@dataclass(kw_only=True, eq=False, repr=False)
class ClassifierParameters(TreeParameters):
    leaf: Annotated[str | GLMLeaf, *_choices("leaf", GLMLeaf, CLASS_NAMED)] = "logistic"
    splits: Annotated[
        str | SplitFinder, *_choices("splits", SplitFinder, CLASS_NAMED)
    ] = "rss"
    class_weight: Literal["balanced"] | dict | None = None
    priors: Any = None
    costs: Any = None
