"""Parameters of the estimators: names, allowed values and combinations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, ClassVar

from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import Interval, RealNotInt, StrOptions

from secret_jax.data.roles import ColumnOptions
from secret_jax.fit.plan import Plan
from secret_jax.learners.cart import CartSplits
from secret_jax.learners.guide import GuideSplits
from secret_jax.learners.m5 import M5Splits
from secret_jax.learners.m5_leaves import M5Linear
from secret_jax.learners.m5_pruning import M5Pruning
from secret_jax.learners.phd import PhdSplits
from secret_jax.learners.retis import RetisSplits
from secret_jax.learners.support import SupportSplits
from secret_jax.losses.classes import ClassLoss
from secret_jax.losses.interface import Loss
from secret_jax.losses.numbers import Huber, Poisson, SquaredError
from secret_jax.losses.quantile import Quantile
from secret_jax.models.glm import ClassFrequencies, GLMLeaf, Logistic, leaf_for_loss
from secret_jax.models.interface import LeafModel
from secret_jax.models.linear import Constant, LeastSquares, MixtureLeaf, SimpleLinear
from secret_jax.models.ridge import Ridge
from secret_jax.prune.cost_complexity import Unpruned
from secret_jax.prune.criteria import InformationCriterion
from secret_jax.prune.cross_validation import CrossValidation
from secret_jax.prune.hold_out import HoldOut
from secret_jax.prune.interface import PruningRule
from secret_jax.prune.standard_errors import StandardErrors
from secret_jax.refine.blend import Blend
from secret_jax.refine.distillation import Distillation
from secret_jax.refine.interface import Refinement
from secret_jax.refine.soft.choose import SoftGates
from secret_jax.refine.tao import Tao
from secret_jax.runtime.values import Value, at_least, check_constraints, real, refuse
from secret_jax.splits.classes import ClassSplits
from secret_jax.splits.interface import SplitFinder
from secret_jax.splits.rss import RssSplits
from secret_jax.splits.secret import SecretSplits

# Values that names stand for; a user's own value needs no name. "auto" of ``prune`` has
# no value: the number of rows decides.
Named = Mapping[str, Mapping[Any, Value]]
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
    },
    "leaf": {
        "ridge": Ridge(),
        "linear": LeastSquares(),
        "constant": Constant(),
        "implied": MixtureLeaf(),
        "simple": SimpleLinear(),
        "m5": M5Linear(),
    },
    "prune": {
        "holdout": HoldOut(),
        "cross-validation": CrossValidation(),
        "aic": InformationCriterion(criterion="aic"),
        "bic": InformationCriterion(criterion="bic"),
        "icomp": InformationCriterion(criterion="icomp"),
        "cart": StandardErrors(factor=1.0),
        "guide": StandardErrors(factor=0.5),
        "m5": M5Pruning(),
        None: Unpruned(),
    },
    "refine": {"tao": Tao(), "blend": Blend(), "soft": SoftGates()},
    "distill": {True: Distillation()},
    "loss": {
        "squared": SquaredError(),
        "absolute": Quantile(),
        "huber": Huber(),
        "poisson": Poisson(),
    },
}
# Numbers of rows, or shares of them.
_COUNT_OR_SHARE = [
    at_least(1),
    Interval(RealNotInt, 0.0, 1.0, closed="neither"),
    StrOptions({"auto"}),
]
_PRUNED = {"auto", "holdout", "cross-validation", "aic", "bic", "cart", "guide", "m5"}
# Columns and the seed are read by those that know the table, or random numbers.
CONSTRAINTS: dict[str, Any] = {
    "oblique": ["boolean", StrOptions({"auto"})],
    "splits": [StrOptions(set(NAMED["splits"])), SplitFinder],
    "leaf": [
        StrOptions({"ridge", "linear", "constant", "implied", "simple", "m5"}),
        LeafModel,
    ],
    "prune": [StrOptions(_PRUNED | {"icomp"}), PruningRule, None],
    "refine": [StrOptions({"tao", "blend", "soft"}), Refinement, None],
    "distill": ["boolean", Distillation],
    "loss": [
        StrOptions({"squared", "absolute", "huber", "poisson"}),
        Loss,
    ],
    "equation_tolerance": [real(0.0)],
    "pruning_tolerance": [real(0.0)],
    "min_samples_split": _COUNT_OR_SHARE,
    "min_samples_leaf": _COUNT_OR_SHARE,
    "min_gain": [real(0.0), StrOptions({"auto"})],
    "max_depth": [at_least(0), None],
    "max_leaf_nodes": [at_least(1), None],
    "max_features": [
        at_least(1),
        Interval(RealNotInt, 0.0, 1.0, closed="right"),
        StrOptions({"sqrt", "log2"}),
        None,
    ],
    "max_split_samples": [at_least(16), None],
    "categorical_features": "no_validation",
    "split_features": "no_validation",
    "indicators": ["boolean", StrOptions({"auto"})],
    "missing_values": [StrOptions({"learn", "mean", "error"})],
    "random_state": "no_validation",
    "device": [str, None],
    "max_memory": [at_least(1), None],
    "verbose": [at_least(0), "boolean"],
}

# The same for classes.
CLASS_NAMED: Named = {
    "splits": {
        "rss": RssSplits(),
        "secret": ClassSplits(),
        "cart": CartSplits(criterion="gini"),
    },
    "leaf": {"logistic": Logistic(), "constant": ClassFrequencies()},
    "prune": {
        "holdout": HoldOut(),
        "cross-validation": CrossValidation(),
        "aic": InformationCriterion(criterion="aic"),
        "bic": InformationCriterion(criterion="bic"),
        "cart": StandardErrors(factor=1.0),
        "guide": StandardErrors(factor=0.5),
        "m5": M5Pruning(),
        None: Unpruned(),
    },
    "refine": {"tao": Tao(), "blend": Blend(), "soft": SoftGates()},
    "distill": {True: Distillation()},
}
CLASS_CONSTRAINTS: dict[str, Any] = {
    name: allowed for name, allowed in CONSTRAINTS.items() if name != "loss"
} | {
    "splits": [StrOptions({"rss", "secret", "cart"}), SplitFinder],
    "leaf": [StrOptions({"logistic", "constant"}), GLMLeaf],
    "class_weight": [StrOptions({"balanced"}), dict, None],
    "priors": "no_validation",
    "costs": "no_validation",
    "prune": [StrOptions(_PRUNED), PruningRule, None],
}


def cart_preset(criterion: Any, leaf: LeafModel) -> dict[str, Any]:
    """Parameters of trees grown in full, as by CART."""
    return {
        "oblique": False,
        "splits": CartSplits(criterion=criterion),
        "leaf": leaf,
        "prune": Unpruned(),
        "distill": False,
        "equation_tolerance": 0.0,
        "pruning_tolerance": 0.0,
        "min_samples_split": 2,
        "min_samples_leaf": 1,
        "min_gain": 0.0,
        "max_split_samples": None,
    }


def linear_preset(splits: SplitFinder) -> dict[str, Any]:
    """Parameters of trees with least squares in their leaves, as in the literature."""
    return {
        "oblique": False,
        "splits": splits,
        "leaf": LeastSquares(clip_margin=None),
        "prune": StandardErrors(factor=0.0),
        "distill": False,
        "equation_tolerance": 0.0,
        "pruning_tolerance": 0.0,
        "min_gain": 0.0,
        "indicators": False,
        "max_split_samples": None,
    }


class NestedParameters(BaseEstimator):
    """Mixin for parameters of nested values, addressed by two underscores."""

    _named: ClassVar[Named] = NAMED

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters of this estimator, with ``deep`` also those of its values.

        A name like "rss" stands for a value with defaults: ``splits__n_thresholds`` is
        there as well.
        """
        found = super().get_params(deep=False)
        if deep:
            for name in self._named:
                value = value_of(name, found[name], self._named)
                if value is not None:
                    for field, its in value.get_params().items():
                        found[f"{name}__{field}"] = its
        return found

    def set_params(self, **params: Any) -> Any:
        """Set parameters of this estimator and, with two underscores, of its values.

        Values are frozen: one with another field takes the place of the old one. An
        unknown name changes nothing, whatever else is set with it.
        """
        before = self.get_params(deep=False)
        own = {name: value for name, value in params.items() if "__" not in name}
        nested = {name: value for name, value in params.items() if "__" in name}
        try:
            super().set_params(**own)
            self._set_fields(nested)
        except Exception:
            super().set_params(**before)
            raise
        return self

    def _set_fields(self, nested: dict[str, Any]) -> None:
        changes: dict[str, dict[str, Any]] = {}
        for name in nested:
            head, _, field = name.partition("__")
            changes.setdefault(head, {})[field] = nested[name]
        for head, fields_of_head in changes.items():
            value = value_of(head, getattr(self, head, None), self._named)
            known = {field.name for field in fields(value)} if value else set()
            unknown = sorted(fields_of_head.keys() - known)
            if value is None or unknown:
                name = f"{head}__{unknown[0] if unknown else min(fields_of_head)}"
                raise ValueError(
                    f"Invalid parameter {name!r} for estimator {self!r}. Valid "
                    f"parameters are: {sorted(self.get_params())}."
                )
            # A name stays a name if nothing is changed.
            if not all(_same(getattr(value, f), v) for f, v in fields_of_head.items()):
                setattr(self, head, replace(value, **fields_of_head))


def _same(one: Any, other: Any) -> bool:
    """Whether two fields are equal; fields that hold arrays never are."""
    try:
        return type(one) is type(other) and bool(one == other)
    except (TypeError, ValueError):
        return False


def value_of(name: str, parameter: Any, named: Named = NAMED) -> Any:
    """Value that a parameter stands for; None if there is none."""
    if isinstance(parameter, Value):
        return parameter
    try:
        return named.get(name, {}).get(parameter)
    except TypeError:  # of an unhashable parameter, which the constraints refuse
        return None


def plan_of(
    parameters: Mapping[str, Any],
    caller: str,
    constraints: Mapping[str, Any] = CONSTRAINTS,
    named: Named = NAMED,
    *,
    seed: int,
) -> Plan:
    """Check an estimator's parameters and convert them to a plan.

    Parameters
    ----------
    caller : str
        Name of the estimator, for messages.
    constraints : dict of str to list
        Constraints of each parameter.
    named : dict of str to dict
        The values that names stand for.

    Raises
    ------
    sklearn.utils._param_validation.InvalidParameterError
        If a parameter or a field of a value is invalid, or two cannot be combined.
    """
    check_constraints(constraints, parameters, caller)
    values = {name: value_of(name, parameters[name], named) for name in named}
    for value in values.values():
        if value is not None:
            value.check()
    names = ("splits", "leaf", "prune", "refine", "distill")
    splits, leaf, prune, refine, distill = (values[name] for name in names)
    loss = values.get("loss", leaf.loss)
    if "loss" in values and isinstance(loss, ClassLoss):
        allowed = "a loss of numbers; for classes use SecretClassifier"
        refuse("loss", caller, allowed, parameters["loss"])
    fitted_to_loss = leaf_for_loss(leaf, loss)
    if fitted_to_loss is None:
        allowed = f"'ridge', 'linear' or 'constant' with loss={loss!r}"
        refuse("leaf", caller, allowed, parameters["leaf"])
    leaf = fitted_to_loss
    if not loss.predicts_means:
        distill = None  # the mean of medians and rows is no median
    if isinstance(leaf, MixtureLeaf) and not splits.implies_models:
        allowed = "another one with these splits: they imply no models of the leaves"
        refuse("leaf", caller, allowed, parameters["leaf"])
    for name, value in (("prune", prune), ("refine", refine)):
        if value is not None and not value.knows(leaf.loss):
            allowed = f"another one: it is not defined for {leaf.loss!r}"
            refuse(name, caller, allowed, parameters[name])
    learned = parameters["missing_values"] != "learn" or splits.knows_indicators
    linear = leaf.uses_regressors and splits.knows_indicators
    columns = ColumnOptions(
        categorical_features=parameters["categorical_features"],
        split_features=parameters["split_features"],
        use_regressors=leaf.uses_regressors,
        missing=parameters["missing_values"] if learned else "mean",
        category_indicators=parameters["indicators"] if linear else False,
        missing_indicators=parameters["indicators"],
    )
    random_attributes = parameters["max_features"] is not None
    return Plan(
        splits=splits,
        leaf=leaf,
        prune=prune,
        refine=refine,
        distill=distill,
        oblique=parameters["oblique"],
        min_samples_split=parameters["min_samples_split"],
        min_samples_leaf=parameters["min_samples_leaf"],
        min_gain=parameters["min_gain"],
        max_depth=parameters["max_depth"],
        max_leaf_nodes=parameters["max_leaf_nodes"],
        max_features=parameters["max_features"],
        max_split_samples=parameters["max_split_samples"],
        columns=columns,
        equation_tolerance=float(parameters["equation_tolerance"]),
        pruning_tolerance=float(parameters["pruning_tolerance"]),
        seed=seed if splits.is_random or random_attributes else 0,
    )
