"""The scikit-learn face: parameters, presets, tables in and out, models."""

from __future__ import annotations

import subprocess
import sys
from functools import partial

import numpy as np
import pytest
from configurations import (
    crease,
    every_configuration,
    planes,
    refusal,
    regressor,
    shop,
    tree_bytes,
)
from sklearn.exceptions import NotFittedError

import secret_jax
from secret_jax import (
    Constant,
    HoldOut,
    LeastSquares,
    Ridge,
    SecretClassifier,
    SecretRegressor,
    SecretSplits,
    learners,
)
from secret_jax.learners.guide import GuideSplits, SupportSplits
from secret_jax.learners.m5 import M5Splits
from secret_jax.learners.retis import RetisSplits


def test_the_setting_of_the_paper():
    model = SecretRegressor.paper(oblique=False, leaf="constant", random_state=3)
    expected = {
        "splits": SecretSplits(start="rows", n_starts=1, max_samples=None),
        "splits__gain": "normal",
        "oblique": False,
        "leaf": Constant(clip_margin=None, tail_share=0.0, drops_regressors=False),
        "prune": HoldOut(fraction=0.375, refit=False),
        "refine": None,
        "min_samples_split": 0.01,
        "min_samples_leaf": 1,
        **{"max_depth": None, "max_leaf_nodes": None, "random_state": 3},
    }
    found = model.get_params()
    assert {name: found[name] for name in expected} == expected
    assert SecretRegressor.paper().oblique is True
    assert SecretRegressor.paper().leaf == LeastSquares(
        clip_margin=None, tail_share=0.0, drops_regressors=False
    )


@every_configuration
def test_a_tree_weighs_what_its_rows_weigh(configuration):
    X, y = shop()
    weight = np.random.default_rng(2).integers(0, 3, len(y))
    model = regressor(configuration, prune=None).fit(X, y, weight)
    tree, mean = model.tree_, weight[weight > 0].mean()
    at_leaf = np.bincount(model.apply(X), weight / mean, tree.n_nodes)
    np.testing.assert_allclose(at_leaf[tree.is_leaf], tree.weight[tree.is_leaf])
    assert tree.weight[0] == pytest.approx(np.count_nonzero(weight))


def test_an_unfitted_model_says_so():
    X = np.eye(3)
    given = {"predict": [X], "apply": [X], "decision_path": [X], "score": [X, X[0]]}
    for name, arguments in (given | {"export_text": []}).items():
        with pytest.raises(NotFittedError, match="not fitted yet"):
            getattr(SecretRegressor(), name)(*arguments)
    for name in ("n_leaves_", "depth_"):
        with pytest.raises(NotFittedError, match="not fitted yet"):
            getattr(SecretRegressor(), name)


@every_configuration
def test_a_table_may_come_in_any_form(configuration):
    X, y = crease()
    model = regressor(configuration, prune=None).fit(X, y)
    expected, leaf = model.predict(X), model.apply(X)
    assert expected.dtype == np.float64
    forms = {
        "float32": X.astype(np.float32),
        "columns first": np.asfortranarray(X),
        "strided": np.repeat(X, 2, axis=0)[::2],
        "list": X.tolist(),
        "object": X.astype(object),
        "read-only": np.frombuffer(X.tobytes()).reshape(X.shape),
    }
    for name, form in forms.items():
        assert np.array_equal(model.predict(form), expected), name
        assert np.array_equal(model.apply(form), leaf), name
    again = regressor(configuration, prune=None)
    for name in ("float32", "columns first", "list"):
        again.fit(forms[name], y.tolist())
        assert tree_bytes(again.tree_) == tree_bytes(model.tree_), name


def test_leaves_from_the_mixture_are_its_own_and_survive_pruning():
    X, y = planes(64)
    y = y + 0.5 * np.random.default_rng(1).normal(size=64)
    models = {
        leaf: regressor(
            "secret", leaf=leaf, max_depth=1, equation_tolerance=0.0, distill=False
        ).fit(X, y, eval_set=(X, y))
        for leaf in ("linear", "implied")
    }
    linear, mixture = models["linear"].tree_, models["implied"].tree_
    assert linear.n_leaves == mixture.n_leaves == 2
    assert linear.threshold[0] == mixture.threshold[0]
    assert np.array_equal(linear.coefficient[0], mixture.coefficient[0])
    assert not np.allclose(linear.coefficient[1:], mixture.coefficient[1:], atol=1e-4)
    assert 0.9 < models["implied"].score(X, y) < models["linear"].score(X, y)


@every_configuration
def test_without_a_margin_predictions_are_not_clipped(configuration):
    X, y = crease()
    model = regressor(configuration, leaf__clip_margin=None, max_depth=1).fit(X, y)
    assert np.ptp(model.predict(100 * X)) > 10 * np.ptp(y)


def test_the_names_that_the_package_offers():
    assert secret_jax.SecretRegressor is SecretRegressor
    assert issubclass(secret_jax.UnseenCategoryWarning, UserWarning)
    assert set(dir(secret_jax)) == {*secret_jax.__all__, "__version__"}
    assert len(secret_jax.__all__) <= 27
    for home in (secret_jax, learners):
        for name in home.__all__:
            assert getattr(home, name).__name__ == name
    with pytest.raises(AttributeError, match="SecretRegresor"):
        secret_jax.SecretRegresor  # noqa: B018
    assert secret_jax.__version__


def test_an_import_changes_no_global_state():
    code = """
import os, warnings
import jax, numpy as np
def state():
    return (dict(jax.config.values), dict(os.environ), np.geterr(),
            list(warnings.filters), np.random.get_state()[1].tolist())
import sklearn.base, sklearn.utils.validation, narwhals
before = state()
import secret_jax
assert state() == before
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


PRESETS = {
    "guide": GuideSplits(thresholds="all", n_bootstraps=50, max_samples=None),
    "m5": M5Splits(max_samples=None),
    "retis": RetisSplits(max_samples=None),
    "support": SupportSplits(max_samples=None),
}


@pytest.mark.parametrize("name", PRESETS)
def test_keywords_override_and_the_tree_is_learned(name):
    preset = partial(SecretRegressor.literature, name)
    assert preset().splits == PRESETS[name]
    assert preset(prune="bic").prune == "bic"
    X, y = shop(500)
    few = {} if name == "m5" else {"prune": None, "max_leaf_nodes": 6}
    model = preset(random_state=0, **few).fit(X[:350], y[:350])
    assert model.oblique is False
    line = SecretRegressor(leaf=LeastSquares(indicators=False), max_leaf_nodes=1)
    line.fit(X[:350], y[:350])
    errors = [np.mean((y[350:] - m.predict(X[350:])) ** 2) for m in (model, line)]
    assert errors[0] < 0.35 * errors[1]


BUILDERS = [
    *(SecretRegressor.paper, SecretRegressor.accurate, SecretClassifier.accurate),
    partial(SecretClassifier.literature, "cart"),
    *(partial(SecretRegressor.literature, name) for name in ("cart", *PRESETS)),
]


@pytest.mark.parametrize("build", BUILDERS)
def test_presets_take_every_parameter_of_the_estimator(build):
    estimator = type(build())
    for name in estimator().get_params(deep=False):
        given = object()
        assert getattr(build(**{name: given}), name) is given
    with pytest.raises(TypeError, match="n_trees"):
        build(n_trees=3)


def test_an_unknown_learner_is_refused_and_leaves_of_the_paper_are_not_clipped():
    with refusal("SecretClassifier", "'cart'", "'guide'"):
        SecretClassifier.literature("guide")
    for name in ("linear", "constant", "implied"):
        assert SecretRegressor.paper(leaf=name).leaf.clip_margin is None
    assert SecretRegressor.paper(leaf="ridge").leaf == "ridge"
    assert SecretRegressor.paper(device="cpu", leaf=Ridge()).leaf == Ridge()
