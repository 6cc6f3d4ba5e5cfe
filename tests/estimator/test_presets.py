"""The literature's learners: what the presets are, and that they learn."""

from __future__ import annotations

import inspect

import numpy as np
import pandas as pd
import pytest

from secret_jax import LeastSquares, Ridge, SecretClassifier, SecretRegressor
from secret_jax.learners.guide import GuideSplits
from secret_jax.learners.m5 import M5Splits
from secret_jax.learners.retis import RetisSplits
from secret_jax.learners.support import SupportSplits

PRESETS = {
    "guide": (
        SecretRegressor.guide,
        GuideSplits(thresholds="all", n_bootstraps=50, max_samples=None),
    ),
    "m5": (SecretRegressor.m5, M5Splits(max_samples=None)),
    "retis": (SecretRegressor.retis, RetisSplits(max_samples=None)),
    "support": (SecretRegressor.support, SupportSplits(max_samples=None)),
}
every_preset = pytest.mark.parametrize(
    ("preset", "splits"), PRESETS.values(), ids=PRESETS
)


@pytest.fixture(scope="module")
def shop():
    """Two planes by the first column, and a step by colour."""
    random = np.random.default_rng(0)
    frame = pd.DataFrame(random.normal(size=(500, 3)), columns=list("abc"))
    frame["colour"] = random.choice(["red", "green", "blue"], 500)
    slope = np.where(frame["a"] > 0.4, 3.0, -1.0)
    y = slope * frame["b"] + frame["c"] + 4.0 * (frame["colour"] == "red")
    return frame, y + 0.3 * random.normal(size=500)


@every_preset
def test_keywords_override_and_the_tree_is_learned(preset, splits, shop):
    X, y = shop
    assert preset().splits == splits
    assert preset(prune="bic").prune == "bic"
    few = {} if preset == SecretRegressor.m5 else {"prune": None, "max_leaf_nodes": 6}
    model = preset(random_state=0, **few).fit(X[:350], y[:350])
    assert model.oblique is False
    rest = y[350:] - model.predict(X[350:])
    line = SecretRegressor(leaf=LeastSquares(indicators=False), max_leaf_nodes=1)
    line.fit(X[:350], y[:350])
    assert np.mean(rest**2) < 0.35 * np.mean((y[350:] - line.predict(X[350:])) ** 2)


OF_REGRESSORS = ("paper", "accurate", "cart", "guide", "m5", "retis", "support")
ALL_PRESETS = [(SecretRegressor, name) for name in OF_REGRESSORS]
ALL_PRESETS += [(SecretClassifier, name) for name in ("accurate", "cart")]


@pytest.mark.parametrize(
    ("estimator", "preset"),
    ALL_PRESETS,
    ids=lambda part: getattr(part, "__name__", part),
)
def test_presets_take_every_parameter_of_the_estimator(estimator, preset):
    build = getattr(estimator, preset)
    for name in estimator().get_params(deep=False):
        given = object()
        model = build(**{name: given})
        assert getattr(model, name) is given
        assert type(model) is estimator
    with pytest.raises(TypeError, match="n_trees"):
        build(n_trees=3)


def test_every_preset_is_tested():
    for estimator in (SecretRegressor, SecretClassifier):
        made = {
            name
            for name in dir(estimator)
            if isinstance(inspect.getattr_static(estimator, name), classmethod)
            and not name.startswith("_")
            and name != "load"
        }
        assert {(estimator, name) for name in made} <= {*ALL_PRESETS}


def test_names_of_leaves_are_those_of_the_paper_without_clipping():
    for name in ("linear", "constant", "implied"):
        assert SecretRegressor.paper(leaf=name).leaf.clip_margin is None
    assert SecretRegressor.paper(leaf="ridge").leaf == "ridge"
    assert SecretRegressor.paper(device="cpu", leaf=Ridge()).leaf == Ridge()
