"""The models of this package that are compared with others, and the ablation's.

An ablation is the default with one ingredient taken away: a parameter of the estimator,
or a field of one of the values that it is made of.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import hashlib
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import secret_jax
from benchmarks.accuracy.data import not_numeric
from benchmarks.accuracy.peers import Candidate, Outcome
from benchmarks.shared import Experiment, say
from secret_jax import (
    HoldOut,
    RefinementWarning,
    Ridge,
    RssSplits,
    SecretBoostingRegressor,
    SecretRegressor,
    UnseenCategoryWarning,
)
from secret_jax.estimators.planning import plan_of
from secret_jax.inspect.rounding import reading_cost


class Setting(NamedTuple):
    """How one of our models differs from the default.

    Attributes
    ----------
    parameters : dict
        Of the estimator.
    paper : bool
        Start from `SecretRegressor.paper`.
    booster : bool
        `SecretBoostingRegressor`, or
    student : dict or None
        the tree that it teaches, by these parameters of its `distill`.
    numbers : bool
        Take columns of numbers as numbers, also where the paper takes them as
        discrete.
    """

    parameters: Mapping[str, Any] = {}
    paper: bool = False
    booster: bool = False
    student: Mapping[str, Any] | None = None
    numbers: bool = False


VARIANTS = {
    "paper": Setting(paper=True),
    "default": Setting(),
    "default_on_numbers": Setting(numbers=True),
    "blended": Setting({"refine": "blend"}),
    "refined_tao": Setting({"refine": "tao"}),
    "refined_soft": Setting({"refine": "soft"}),
    "boosted": Setting(booster=True),
    "boosted_single": Setting({"ensemble": False}, booster=True),
    "distilled": Setting(booster=True, student={}),
    "distilled_soft": Setting(booster=True, student={"refine": "soft"}),
}
ABLATIONS = {
    "no_oblique_splits": Setting({"oblique": False}),
    "no_axis_tree": Setting({"oblique": True}),
    "conjunctive_splits": Setting({"splits": "conjunctive"}),
    "no_hessian_directions": Setting({"splits": RssSplits(n_hessian=0)}),
    "no_hinge_steps": Setting({"splits": RssSplits(n_hinge=0)}),
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

# Folders that no fit runs through; a change in them leaves earlier results valid.
_READING = ("inspect", "cli", "datasets")


@functools.cache
def code_version() -> str:
    """Checksum of the code that fits, whatever its comments and docstrings say."""
    folder = Path(secret_jax.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        name = path.relative_to(folder)
        if name.parts[0] not in _READING:
            digest.update(str(name).encode())
            digest.update(_without_docstrings(path.read_text()).encode())
    return digest.hexdigest()[:8]


def ours(names: Iterable[str], code: str) -> list[Candidate]:
    """Our models that the package can make; for the others a line on standard error."""
    found = []
    for name in names:
        setting = (VARIANTS | ABLATIONS)[name]
        try:
            model = _model(setting)
            if isinstance(model, SecretRegressor):
                plan_of(model, 0)
        except (TypeError, ValueError) as error:
            say(f"{name} is left out: {error}")
            continue
        found.append(candidate_of(name, setting, key_of(name, code)))
    return found


def candidate_of(
    name: str, setting: Setting, key: str, *, held_out: bool = True
) -> Candidate:
    """A model of ours to be compared."""
    run = functools.partial(run_setting, setting, held_out=held_out)
    return Candidate(name, key, run)


def key_of(name: str, code: str) -> str:
    """Key of one of our models, by the code that ran and its settings."""
    return key_of_setting((VARIANTS | ABLATIONS)[name], code)


def key_of_setting(setting: Setting, code: str) -> str:
    """Key of a model that differs from the default by a setting."""
    parameters = setting.parameters.items()
    settings = ", ".join(f"{name}={value!r}" for name, value in parameters)
    start = "paper" if setting.paper else "default"
    if setting.booster:
        start = "booster" if setting.student is None else f"student {setting.student}"
    encoding = " numbers" if setting.numbers else ""
    return f"secret_jax {code}{encoding} {start}({settings})"


def run_setting(
    setting: Setting, experiment: Experiment, held_out: bool = True
) -> Outcome:
    """Fit a model of ours, on all rows but the test's if none are to be held out."""
    if not setting.booster:
        return _run_tree(setting, experiment, held_out)
    booster, seconds = fitted_booster(setting, experiment)
    outcome = outcome_of_booster(booster, setting.student, experiment)
    return outcome._replace(seconds=seconds + outcome.seconds)


def _run_tree(setting: Setting, experiment: Experiment, held_out: bool) -> Outcome:
    model: Any = _prepared(setting, experiment)
    rule = model.prune
    prunes = rule in ("auto", "holdout") or isinstance(rule, HoldOut)
    with _quietly():
        started = time.perf_counter()
        if held_out and prunes:
            model.fit(*experiment.train, eval_set=tuple(experiment.prune))
        else:
            model.fit(*_joined(experiment))
        seconds = time.perf_counter() - started
        prediction = model.predict(experiment.test.X)
    return Outcome(prediction, model.n_leaves_, seconds, model.reading_cost_)


def fitted_booster(
    setting: Setting, experiment: Experiment
) -> tuple[SecretBoostingRegressor, float]:
    """A booster of all rows but the test's, and the seconds of its fit."""
    booster: Any = _prepared(setting, experiment)
    with _quietly():
        started = time.perf_counter()
        booster.fit(*_joined(experiment))
    return booster, time.perf_counter() - started


def outcome_of_booster(
    booster: SecretBoostingRegressor,
    student: Mapping[str, Any] | None,
    experiment: Experiment,
) -> Outcome:
    """What a fitted booster predicts, or the tree that it teaches, with its seconds."""
    X = experiment.test.X
    with _quietly():
        if student is None:
            trees = [tree for one in booster.ensemble_.boosters for tree in one]
            leaves = sum(tree.n_leaves for tree in trees)
            numbers = sum(map(reading_cost, trees))
            return Outcome(booster.predict(X), leaves, 0.0, numbers)
        started = time.perf_counter()
        tree = booster.distill(**student)
        seconds = time.perf_counter() - started
        return Outcome(tree.predict(X), tree.n_leaves_, seconds, tree.reading_cost_)


def _prepared(
    setting: Setting, experiment: Experiment
) -> SecretRegressor | SecretBoostingRegressor:
    discrete = experiment.discrete
    if setting.numbers:
        discrete = not_numeric(experiment.train.X)
    return _model(setting).set_params(
        random_state=experiment.seed, categorical_features=discrete
    )


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    with warnings.catch_warnings():
        # In small sets some categories occur in the pruning or the test part only.
        warnings.simplefilter("ignore", UnseenCategoryWarning)
        # A hard tree that was kept is an outcome as well.
        warnings.simplefilter("ignore", RefinementWarning)
        yield


def _joined(experiment: Experiment) -> tuple[Any, Any]:
    import numpy as np
    import pandas

    train, prune = experiment.train, experiment.prune
    return pandas.concat([train.X, prune.X]), np.concatenate([train.y, prune.y])


def _model(setting: Setting) -> SecretRegressor | SecretBoostingRegressor:
    if setting.booster:
        return SecretBoostingRegressor(**setting.parameters)
    model = SecretRegressor.paper() if setting.paper else SecretRegressor()
    return model.set_params(**setting.parameters)


def _without_docstrings(source: str) -> str:
    tree = ast.parse(source)
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(tree):
        if isinstance(node, documented) and ast.get_docstring(node) is not None:
            node.body = node.body[1:]
    return ast.dump(tree)
