"""Ctrl-C at every stage of a fit: the estimator is as it was, to the last byte.

A fit that is interrupted during its refinement has its new hard tree, as `fit` says.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from configurations import FEW, crease, regressor, shop, tree_bytes
from golden_files import GOLDEN
from sklearn.base import clone

from secret_jax import CostComplexity, CrossValidation, SecretRegressor
from secret_jax.tree.file import ModelFileError

FILES = sorted(GOLDEN.glob("v*/*.model"))
# Functions that a fit passes through, early and late, and options that lead there.
# Two folds twice are stages like five.
FOLDS: dict[str, Any] = {"prune": CrossValidation(n_folds=2)}
STAGES: dict[str, tuple[str, dict[str, Any]]] = {
    "reading the table": ("fit.prepare.read_columns", FOLDS),
    "shuffling": ("data.rows.merged", FOLDS),
    "holding rows out": ("fit.prepare.without_share", {"prune": "holdout"}),
    "a level": ("fit.grow.on_host.partition", {"prune": "holdout"}),
    "models, also of the refit": ("fit.grow.trees.with_models", {"prune": "holdout"}),
    "pruning": ("fit.prune.rules.node_errors", {"prune": "holdout"}),
    "cutting the refitted tree": ("fit.pipeline.of_size", {"prune": "holdout"}),
    "distillation": ("fit.refine.distillation.student_rows", FOLDS),
    "cutting the distilled tree": ("fit.refine.distillation.of_size", FOLDS),
    "cross-validation": ("fit.prune.rules.weakest_links", FOLDS),
    "a criterion": ("fit.prune.rules.weakest_links", {"prune": "bic"}),
    "a penalty": (
        "fit.prune.rules.training_path",
        {"prune": CostComplexity(alpha=0.1)},
    ),
}


def at_call(number: int, function: Callable, calls: list[int]) -> Callable:
    """A function that interrupts the program when it is called for the n-th time."""

    def call(*args, **options):
        calls.append(len(calls))
        if len(calls) == number:
            raise KeyboardInterrupt
        return function(*args, **options)

    return call


@pytest.mark.parametrize("stage", STAGES)
def test_an_interrupted_fit_changes_nothing(stage, monkeypatch, tmp_path):
    place, options = STAGES[stage]
    module_name, _, name = place.rpartition(".")
    module = importlib.import_module(f"secret_jax.{module_name}")
    function, calls = getattr(module, name), []
    X, y = shop()
    fitted = regressor("default", max_depth=0).fit(X, y).conformalize(X, y + 1.0)
    fitted.set_params(**(regressor("default").get_params(deep=False) | options))
    before, text = dict(vars(fitted)), fitted.export_text()
    tree, rows = tree_bytes(fitted.tree_), shop()[0]
    prediction = fitted.predict(rows)
    unfitted = clone(fitted)

    monkeypatch.setattr(module, name, at_call(0, function, calls))
    expected = tree_bytes(clone(fitted).fit(*crease()).tree_)
    assert calls, "the stage is not on the way of this fit"
    n_calls = len(calls)
    for number in {1, n_calls}:
        for model in (fitted, unfitted):
            monkeypatch.setattr(module, name, at_call(number, function, []))
            with pytest.raises(KeyboardInterrupt):
                model.fit(*crease())
        assert vars(fitted) == before
        assert tree_bytes(fitted.tree_) == tree
        assert np.array_equal(fitted.predict(rows), prediction)
        assert fitted.export_text() == text
        assert vars(unfitted) == unfitted.get_params(deep=False)
    monkeypatch.undo()
    assert tree_bytes(fitted.fit(*crease()).tree_) == expected


@pytest.mark.parametrize(
    ("refine", "place"), [("tao", "tao._improve_level"), (FEW, "training.train_chunk")]
)
def test_an_interrupted_refinement_leaves_the_new_hard_tree(refine, place, monkeypatch):
    options = {"prune": "holdout", "refine": refine}
    hard = regressor("default", **options | {"refine": None}).fit(*crease(256))
    model = regressor("default", **options)
    stage = f"secret_jax.fit.refine.{place}"
    monkeypatch.setattr(stage, at_call(1, lambda *given: None, []))
    with pytest.raises(KeyboardInterrupt):
        model.fit(*crease(256))
    assert tree_bytes(model.tree_) == tree_bytes(hard.tree_)
    assert np.array_equal(model.predict(crease()[0]), hard.predict(crease()[0]))
    assert model.n_leaves_grown_ == hard.n_leaves_grown_
    assert model.n_features_in_ == 3
    assert "soft" not in model.export_text()


@pytest.mark.parametrize("way", ["flipped", "cut", "a hole", "a tail", "twice"])
@pytest.mark.parametrize("seed", range(12))
def test_a_damaged_file_is_refused_or_the_same(way, seed, tmp_path):
    rng = np.random.default_rng(seed)
    golden = FILES[rng.integers(len(FILES))]
    damaged = bytearray(golden.read_bytes())
    position, *bytes_ = rng.integers(len(damaged), size=1 + rng.integers(5))
    for each in bytes_:
        damaged[each] = rng.integers(256)
    match way:
        case "cut":
            del damaged[position:]
        case "a hole":
            del damaged[position : position + rng.integers(1, 65)]
        case "a tail":
            damaged += rng.bytes(rng.integers(65))
        case "twice":
            damaged *= 2
    path = tmp_path / "model"
    path.write_bytes(damaged)
    expected = SecretRegressor.load(golden)
    try:
        found = SecretRegressor.load(path)
    except ModelFileError as error:
        assert repr(str(path)) in str(error)  # noqa: PT017
        return
    assert tree_bytes(found.tree_) == tree_bytes(expected.tree_)
    assert found.get_params() == expected.get_params()
    assert found.export_text() == expected.export_text()
