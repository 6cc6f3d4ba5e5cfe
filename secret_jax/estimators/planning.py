"""From the parameters of an estimator to the plan of its fit."""

from collections.abc import Mapping
from typing import Any

from sklearn.utils import check_random_state

from secret_jax.data.roles import ColumnOptions
from secret_jax.estimators.common import NestedParameters
from secret_jax.estimators.parameters import value_of
from secret_jax.fit.plan import AlternativeLeaf, Plan
from secret_jax.losses.numbers import QuasiPoisson
from secret_jax.models.glm import ClassFrequencies, leaf_for_loss
from secret_jax.models.interface import LeafModel
from secret_jax.runtime.values import checked_parameters, refuse
from secret_jax.splits.interface import SplitFinder


def seed_of(random_state: Any) -> int:
    """Seed that a parameter ``random_state`` stands for."""
    try:
        return int(check_random_state(random_state).randint(2**31 - 1))
    except ValueError as error:
        raise ValueError(f"random_state={random_state!r}: {error}.") from None


def plan_of(estimator: NestedParameters, seed: int, caller: str = "") -> Plan:
    """Check an estimator's parameters and convert them to a plan.

    An InvalidParameterError says which one is invalid, or which two cannot be combined,
    and names the ``caller`` where that is another estimator.
    """
    caller = caller or type(estimator).__name__
    parameters, named = checked_parameters(estimator, caller), estimator._named
    values = {name: value_of(name, parameters[name], named) for name in named}
    for value in values.values():
        if value is not None:
            value.check()
    names = ("splits", "leaf", "prune", "refine", "distill")
    splits, leaf, prune, refine, distill = (values[name] for name in names)
    loss = values.get("loss", leaf.loss)
    fitted_to_loss = leaf_for_loss(leaf, loss)
    if fitted_to_loss is None:
        allowed = f"'ridge', 'linear' or 'constant' with loss={loss!r}"
        refuse("leaf", caller, allowed, parameters["leaf"])
    leaf = fitted_to_loss
    parts = {"loss": values.get("loss"), "leaf": leaf, "prune": prune}
    parts |= {"refine": refine, "splits": splits}
    for name, part in parts.items():
        if part is not None and (allowed := part.conflict(parameters | parts)):
            refuse(name, caller, allowed, parameters[name])
    alternative = _alternative_leaf(parameters, splits, leaf)
    if alternative is not None:
        loss = alternative.leaf.loss
        if not all(rule is None or rule.knows(loss) for rule in (prune, refine)):
            alternative = None
    unchanged = (
        *("oblique", "max_leaf_nodes", "max_depth"),
        *("min_samples_split", "min_samples_leaf"),
    )
    # Without random numbers in the search every seed gives the same tree.
    is_random = splits.n_random(1) > 0
    return Plan(
        splits=splits,
        leaf=leaf,
        alternative_leaf=alternative,
        prune=prune,
        refine=refine,
        distill=distill,
        columns=_column_options(parameters, splits, leaf),
        seed=seed if is_random else 0,
        equation_tolerance=float(parameters["equation_tolerance"]),
        pruning_tolerance=float(parameters["pruning_tolerance"]),
        **{name: parameters[name] for name in unchanged},
    )


def _alternative_leaf(
    parameters: Mapping[str, Any], splits: SplitFinder, leaf: LeafModel
) -> AlternativeLeaf | None:
    """Leaf model that races with the one that stands for "auto"."""
    other, of_logarithms = None, parameters.get("loss") == "auto"
    if of_logarithms and leaf.uses_regressors:
        other = leaf_for_loss(leaf, QuasiPoisson())
    elif parameters["leaf"] == "auto":
        other = ClassFrequencies()
    if other is None:
        return None
    columns = _column_options(parameters, splits, other)
    return AlternativeLeaf(other, columns, of_logarithms)


def _column_options(
    parameters: Mapping[str, Any], splits: SplitFinder, leaf: LeafModel
) -> ColumnOptions:
    """How the columns are read for splits and a leaf model."""
    linear = leaf.uses_regressors
    options = ColumnOptions(
        categorical_features=parameters["categorical_features"],
        split_features=parameters["split_features"],
        monotonic_cst=parameters["monotonic_cst"],
        use_regressors=linear,
        missing=parameters["missing_values"],
        category_indicators=leaf.indicators if linear else False,
        missing_indicators=leaf.indicators,
        tail_share=leaf.tail_share if linear else 0.0,
    )
    return splits.columns_for(options)
