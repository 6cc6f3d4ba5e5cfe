"""The models of this package that are compared with others, and the ablation's.

An ablation is the default with one ingredient taken away: a parameter of the estimator,
or a field of one of the values that it is made of.
"""

from __future__ import annotations

import functools
import operator
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas
from sklearn.base import is_regressor
from sklearn.model_selection import ParameterGrid

import secret_jax
from benchmarks.accuracy.data import not_numeric
from benchmarks.accuracy.peers import Candidate, Outcome
from benchmarks.shared import Experiment, InputError, code_version
from secret_jax import HoldOut, Ridge, RssSplits, SecretRegressor
from secret_jax.estimators.parameters import plan_of
from secret_jax.runtime.values import checked_parameters


class Setting(NamedTuple):
    """One of our models."""

    parameters: Mapping[str, Any] = {}
    model: str = "SecretRegressor"  # in `secret_jax`, or a constructor of one
    numbers: bool = False  # columns of numbers that the paper takes as discrete

    def build(self) -> Any:
        """Make the estimator."""
        model = operator.attrgetter(self.model)(secret_jax)()
        return model.set_params(**self.parameters)

    @property
    def key(self) -> str:
        """What tells results of this setting and of other code apart."""
        parameters = ", ".join(f"{k}={v!r}" for k, v in self.parameters.items())
        encoding = "numbers " if self.numbers else ""
        return f"secret_jax {code_version()} {encoding}{self.model}({parameters})"


VARIANTS = {
    "paper": Setting(model="SecretRegressor.paper"),
    "default": Setting(),
    "default_on_numbers": Setting(numbers=True),
    "accurate": Setting(model="SecretRegressor.accurate"),
    "accurate_hard": Setting({"refine": None}, model="SecretRegressor.accurate"),
    "blended": Setting({"refine": "blend"}),
    "refined_tao": Setting({"refine": "tao"}),
    "refined_soft": Setting({"refine": "soft"}),
    "kernel_rbf": Setting({"head": "rbf"}, model="KernelTreeRegressor"),
    "kernel_gp": Setting({"head": "gp"}, model="KernelTreeRegressor"),
    "boosted": Setting(model="SecretBoostingRegressor"),
    "forest": Setting({"n_estimators": 60}, model="SecretForestRegressor"),
}
ABLATIONS = {
    "no_oblique_splits": Setting({"oblique": False}),
    "no_axis_tree": Setting({"oblique": True}),
    "conjunctive_splits": Setting({"splits": "conjunctive"}),
    "no_hessian_directions": Setting({"splits": RssSplits(n_hessian=0)}),
    "no_hinge_steps": Setting({"splits": RssSplits(hinge_steps=0)}),
    "one_finalist": Setting({"splits": RssSplits(n_finalists=1)}),
    "no_least_gain": Setting({"splits": RssSplits(min_gain=0.0)}),
    "no_extra_count_of_degrees": Setting({"splits": RssSplits(gcv_factor=1.0)}),
    "no_sampling": Setting({"splits": RssSplits(max_samples=None)}),
    "no_linear_score": Setting({"splits": "secret"}),
    "no_shrinkage": Setting({"leaf": "linear"}),
    "no_linear_leaves": Setting({"leaf": "constant"}),
    "no_indicators": Setting({"leaf": Ridge(indicators=False)}),
    "no_cross_validation": Setting({"prune": "holdout"}),
    "no_distillation": Setting({"distill": False}),
    "no_refit": Setting({"prune": HoldOut(refit=False)}),
    "no_pruning": Setting({"prune": None}),
    "no_clipping": Setting({"leaf": Ridge(clip_margin=None)}),
    "no_inherited_ranges": Setting({"leaf": Ridge(clip_min_samples=0)}),
}
SETTINGS = VARIANTS | ABLATIONS


def grid_candidates(grid: Any) -> list[Candidate]:
    """Every combination of the values of parameters, see `ParameterGrid`.

    Raises `InputError` for one that the package cannot make.
    """
    found = []
    try:
        for chosen in ParameterGrid(grid):
            label = {name: _label(value) for name, value in chosen.items()}
            name = ", ".join(f"{k}={v}" for k, v in label.items()) or "default"
            setting = Setting(chosen, chosen.pop("estimator", Setting().model))
            _check(setting.build())
            found.append(candidate_of(name, setting)._replace(parameters=label))
    except (AttributeError, TypeError, ValueError) as error:
        raise InputError(f"The grid {grid} cannot be fitted: {error}") from error
    return found


def _check(model: Any) -> None:
    """Raise an error for parameters that no fit of it would accept."""
    if not is_regressor(model):
        raise ValueError(f"{type(model).__name__} does not predict numbers.")
    checked_parameters(model)
    if isinstance(model, SecretRegressor):
        plan_of(model, 0)


def _label(value: Any) -> Any:
    """A value as tables and files show it."""
    return value if isinstance(value, str | int | float) else repr(value)


def candidate_of(name: str, setting: Setting, held_out: bool = True) -> Candidate:
    """A model of ours to be compared; all rows but the test's grow it, or prune it."""
    run = functools.partial(run_setting, setting, held_out=held_out)
    key = setting.key + ("" if held_out else " on all rows")
    is_tree = setting.model.startswith("SecretRegressor")
    return Candidate(name, key, run, is_tree=is_tree)


def run_setting(
    setting: Setting, experiment: Experiment, held_out: bool = True
) -> Outcome:
    """Fit a model of ours, on all rows but the test's if none are to be held out."""
    discrete = experiment.discrete
    if setting.numbers:
        discrete = not_numeric(experiment.train.X)
    model = setting.build()
    usual = {"random_state": experiment.seed, "categorical_features": discrete}
    free = model.get_params().keys() - setting.parameters.keys()
    model.set_params(**{name: usual[name] for name in free & usual.keys()})
    rule = getattr(model, "prune", None)
    prunes = rule in ("auto", "holdout") or isinstance(rule, HoldOut)
    started = time.perf_counter()
    if held_out and prunes:
        model.fit(*experiment.train, eval_set=tuple(experiment.prune))
    else:
        model.fit(*joined(experiment))
    seconds = time.perf_counter() - started
    prediction = model.predict(experiment.test.X)
    leaves = getattr(model, "n_leaves_", 0)  # of an ensemble nobody reads them
    return Outcome(prediction, leaves, seconds, getattr(model, "reading_cost_", None))


def joined(experiment: Experiment) -> tuple[Any, np.ndarray]:
    """All rows but the test's."""
    train, prune = experiment.train, experiment.prune
    return pandas.concat([train.X, prune.X]), np.concatenate([train.y, prune.y])
