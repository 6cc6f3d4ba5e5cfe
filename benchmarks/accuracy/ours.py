"""The models of this package that are compared with others, and the ablation's.

An ablation is the default with one ingredient taken away: a parameter of the estimator,
or a field of one of the values that it is made of.
"""

from __future__ import annotations

import contextlib
import functools
import operator
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pandas

import secret_jax
from benchmarks.accuracy.data import not_numeric
from benchmarks.accuracy.peers import Candidate, Outcome
from benchmarks.shared import Experiment, code_version, say
from secret_jax import (
    HoldOut,
    RefinementWarning,
    Ridge,
    RssSplits,
    SecretRegressor,
    UnseenCategoryWarning,
)
from secret_jax.estimators.parameters import NAMED, plan_of, value_of
from secret_jax.learners import GuideSplits


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
# The literature's learners: any finder, leaf model and pruning on one grower. A new
# one is one line.
FINDERS: Mapping[str, Any] = {
    "rss": "rss",
    "secret": "secret",
    "cart": "cart",
    "m5": "m5",
    "retis": "retis",
    "support": "support",
    "guide": GuideSplits(thresholds="all", n_bootstraps=50),
    "guide(s)": GuideSplits(thresholds=0.01, n_bootstraps=50),
    "phd": "phd",
    "conjunctive": "conjunctive",
}
LEAVES = ("linear", "ridge", "constant", "simple", "m5")
PRUNINGS: Mapping[str, Any] = {
    name: None if name == "none" else name
    for name in ("cross-validation", "holdout", "bic", "cart", "guide", "m5", "none")
}
SPLITS = {"axis": False, "oblique": True}


def learners(
    finders: Iterable[str],
    leaves: Iterable[str],
    prunings: Iterable[str],
    splits: Iterable[str],
) -> dict[str, Setting]:
    """Every combination of the parts; oblique only where a finder knows how.

    Nothing is distilled: trees of two finders would differ by more than the finders.
    """
    return {
        f"{finder}, {leaf}, {pruning}, {kind}": Setting(
            {
                "splits": FINDERS[finder],
                "leaf": leaf,
                "prune": PRUNINGS[pruning],
                "oblique": SPLITS[kind],
                "distill": False,
            }
        )
        for kind, finder, leaf, pruning in product(splits, finders, leaves, prunings)
        if kind == "axis"
        or value_of("splits", FINDERS[finder], NAMED).max_attributes != 1
    }


def ours(settings: Mapping[str, Setting]) -> list[Candidate]:
    """Our models that the package can make; for the others a line on standard error."""
    found = []
    for name, setting in settings.items():
        try:
            model = setting.build()
            if isinstance(model, SecretRegressor):
                plan_of(model, 0)
        except (AttributeError, TypeError, ValueError) as error:
            say(f"{name} is left out: {error}")
            continue
        found.append(candidate_of(name, setting))
    return found


def candidate_of(name: str, setting: Setting, held_out: bool = True) -> Candidate:
    """A model of ours to be compared; all rows but the test's grow it, or prune it."""
    run = functools.partial(run_setting, setting, held_out=held_out)
    key = setting.key + ("" if held_out else " on all rows")
    return Candidate(name, key, run)


def run_setting(
    setting: Setting, experiment: Experiment, held_out: bool = True
) -> Outcome:
    """Fit a model of ours, on all rows but the test's if none are to be held out."""
    discrete = experiment.discrete
    if setting.numbers:
        discrete = not_numeric(experiment.train.X)
    model = setting.build().set_params(random_state=experiment.seed)
    if "categorical_features" in model.get_params():
        model.set_params(categorical_features=discrete)
    rule = getattr(model, "prune", None)
    prunes = rule in ("auto", "holdout") or isinstance(rule, HoldOut)
    with quietly():
        started = time.perf_counter()
        if held_out and prunes:
            model.fit(*experiment.train, eval_set=tuple(experiment.prune))
        else:
            model.fit(*joined(experiment))
        seconds = time.perf_counter() - started
        prediction = model.predict(experiment.test.X)
    leaves = getattr(model, "n_leaves_", 0)  # of an ensemble nobody reads them
    return Outcome(prediction, leaves, seconds, getattr(model, "reading_cost_", None))


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """Ignore warnings that are outcomes here."""
    with warnings.catch_warnings():
        # In small sets some categories occur in the pruning or the test part only.
        warnings.simplefilter("ignore", UnseenCategoryWarning)
        # A hard tree that was kept is an outcome as well.
        warnings.simplefilter("ignore", RefinementWarning)
        yield


def joined(experiment: Experiment) -> tuple[Any, np.ndarray]:
    """All rows but the test's."""
    train, prune = experiment.train, experiment.prune
    return pandas.concat([train.X, prune.X]), np.concatenate([train.y, prune.y])
