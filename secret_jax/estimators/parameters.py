"""Parameters of the estimators: fields, what names stand for, the plan they make."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias

from sklearn.utils import check_random_state
from sklearn.utils._param_validation import StrOptions

from secret_jax.data.learning import ColumnOptions
from secret_jax.fit.interface import PruningRule, Refinement
from secret_jax.fit.plan import AlternativeLeaf, Plan
from secret_jax.fit.prune.rules import (
    CrossValidation,
    HoldOut,
    InformationCriterion,
    StandardErrors,
    Unpruned,
)
from secret_jax.fit.refine.distillation import Distillation
from secret_jax.fit.refine.gates import Blend, SoftGates
from secret_jax.fit.refine.tao import Tao
from secret_jax.learners.cart import CartSplits
from secret_jax.learners.conjunctive import ConjunctiveSplits
from secret_jax.learners.guide import GuideSplits, SupportSplits
from secret_jax.learners.m5 import M5Linear, M5Pruning, M5Splits
from secret_jax.learners.phd import PhdSplits
from secret_jax.learners.retis import RetisSplits
from secret_jax.losses.interface import Loss
from secret_jax.losses.numbers import (
    Gamma,
    Poisson,
    Quantile,
    QuasiPoisson,
    SquaredError,
)
from secret_jax.models.glm import ClassFrequencies, GLMLeaf, Logistic, leaf_for_loss
from secret_jax.models.interface import LeafModel
from secret_jax.models.linear import Constant, LeastSquares, MixtureLeaf, SimpleLinear
from secret_jax.models.ridge import Ridge
from secret_jax.runtime.values import (
    SHARE,
    DeclaredConstraints,
    Value,
    at_least,
    checked_parameters,
    real,
    refuse,
)
from secret_jax.splits.classes import ClassSplits
from secret_jax.splits.interface import SplitFinder
from secret_jax.splits.rss import RssSplits
from secret_jax.splits.secret import SecretSplits

# What names stand for, by parameter; None: nothing, or the fit decides.
# A value of one's own needs no name.
Named = Mapping[str, Mapping[Any, Value | None]]
_OF_TREES: Named = {
    "prune": {
        "auto": None,
        "holdout": HoldOut(),
        "cross-validation": CrossValidation(),
        "aic": InformationCriterion(criterion="aic"),
        "bic": InformationCriterion(criterion="bic"),
        "caic": InformationCriterion(criterion="caic"),
        "icomp": InformationCriterion(criterion="icomp"),
        "cart": StandardErrors(factor=1.0),
        "guide": StandardErrors(factor=0.5),
        "m5": M5Pruning(),
        None: Unpruned(),
    },
    "refine": {"tao": Tao(), "blend": Blend(), "soft": SoftGates(), None: None},
    "distill": {True: Distillation(), False: None},
}
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


def seed_of(random_state: Any) -> int:
    """Seed that a parameter ``random_state`` stands for."""
    try:
        return int(check_random_state(random_state).randint(2**31 - 1))
    except ValueError as error:
        raise ValueError(f"random_state={random_state!r}: {error}.") from None


def plan_of(estimator: Any, seed: int, caller: str = "") -> Plan:
    """Check an estimator's parameters and convert them to a plan.

    An InvalidParameterError says which one is invalid, or which two cannot be combined,
    and names the ``caller`` where that is another estimator.
    """
    caller, named = caller or type(estimator).__name__, estimator._named
    given = checked_parameters(estimator, caller)
    values: dict[str, Any] = {"loss": None}
    values |= {name: value_of(name, given[name], named) for name in named}
    for value in values.values():
        if value is not None:
            value.check()
    splits, leaf, loss = (values[name] for name in ("splits", "leaf", "loss"))
    values["leaf"] = leaf_for_loss(leaf, loss or leaf.loss)
    if values["leaf"] is None:
        allowed = f"'ridge', 'linear' or 'constant' with loss={loss!r}"
        refuse("leaf", caller, allowed, given["leaf"])
    for name in ("loss", "leaf", "prune", "refine", "splits"):
        part = values[name]
        if part is not None and (allowed := part.conflict(given | values)):
            refuse(name, caller, allowed, given[name])
    unchanged = (
        *("oblique", "max_leaf_nodes", "max_depth"),
        *("min_samples_split", "min_samples_leaf"),
    )
    return Plan(
        alternative_leaf=_alternative_leaf(given, values),
        columns=_column_options(given, splits, values["leaf"]),
        # Without random numbers in the search every seed gives the same tree.
        seed=seed if splits.n_random(1) > 0 else 0,
        equation_tolerance=float(given["equation_tolerance"]),
        pruning_tolerance=float(given["pruning_tolerance"]),
        **{name: values[name] for name in named if name != "loss"},
        **{name: given[name] for name in unchanged},
    )


def _alternative_leaf(
    given: Mapping[str, Any], values: Mapping[str, Any]
) -> AlternativeLeaf | None:
    """Leaf model that races with the one that stands for "auto"."""
    leaf, other, of_logarithms = values["leaf"], None, given.get("loss") == "auto"
    if of_logarithms and leaf.uses_regressors:
        other = leaf_for_loss(leaf, QuasiPoisson())
    elif given["leaf"] == "auto":
        other = ClassFrequencies()
    rules = [rule for rule in (values["prune"], values["refine"]) if rule is not None]
    if other is None or not all(rule.knows(other.loss) for rule in rules):
        return None
    columns = _column_options(given, values["splits"], other)
    return AlternativeLeaf(other, columns, of_logarithms)


def _column_options(
    given: Mapping[str, Any], splits: SplitFinder, leaf: LeafModel
) -> ColumnOptions:
    """How the columns are read for splits and a leaf model."""
    linear = leaf.uses_regressors
    options = ColumnOptions(
        categorical_features=given["categorical_features"],
        split_features=given["split_features"],
        monotonic_cst=given["monotonic_cst"],
        use_regressors=linear,
        missing=given["missing_values"],
        category_indicators=leaf.indicators if linear else False,
        missing_indicators=leaf.indicators,
        tail_share=leaf.tail_share if linear else 0.0,
    )
    return splits.columns_for(options)
