"""The literature's learners: what the presets are, and that they learn."""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd
import pytest
from configurations import refusal

from secret_jax import LeastSquares, Ridge, SecretClassifier, SecretRegressor
from secret_jax.learners.guide import GuideSplits
from secret_jax.learners.m5 import M5Splits
from secret_jax.learners.retis import RetisSplits
from secret_jax.learners.support import SupportSplits

PRESETS = {
    "guide": GuideSplits(thresholds="all", n_bootstraps=50, max_samples=None),
    "m5": M5Splits(max_samples=None),
    "retis": RetisSplits(max_samples=None),
    "support": SupportSplits(max_samples=None),
}


@pytest.fixture(scope="module")
def shop():
    """Two planes by the first column, and a step by colour."""
    random = np.random.default_rng(0)
    frame = pd.DataFrame(random.normal(size=(500, 3)), columns=list("abc"))
    frame["colour"] = random.choice(["red", "green", "blue"], 500)
    slope = np.where(frame["a"] > 0.4, 3.0, -1.0)
    y = slope * frame["b"] + frame["c"] + 4.0 * (frame["colour"] == "red")
    return frame, y + 0.3 * random.normal(size=500)


@pytest.mark.parametrize("name", PRESETS)
def test_keywords_override_and_the_tree_is_learned(name, shop):
    (X, y), preset = shop, partial(SecretRegressor.literature, name)
    assert preset().splits == PRESETS[name]
    assert preset(prune="bic").prune == "bic"
    few = {} if name == "m5" else {"prune": None, "max_leaf_nodes": 6}
    model = preset(random_state=0, **few).fit(X[:350], y[:350])
    assert model.oblique is False
    rest = y[350:] - model.predict(X[350:])
    line = SecretRegressor(leaf=LeastSquares(indicators=False), max_leaf_nodes=1)
    line.fit(X[:350], y[:350])
    assert np.mean(rest**2) < 0.35 * np.mean((y[350:] - line.predict(X[350:])) ** 2)


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


def test_an_unknown_learner_is_refused():
    with refusal("SecretClassifier", "'cart'", "'guide'"):
        SecretClassifier.literature("guide")


def test_names_of_leaves_are_those_of_the_paper_without_clipping():
    for name in ("linear", "constant", "implied"):
        assert SecretRegressor.paper(leaf=name).leaf.clip_margin is None
    assert SecretRegressor.paper(leaf="ridge").leaf == "ridge"
    assert SecretRegressor.paper(device="cpu", leaf=Ridge()).leaf == Ridge()
