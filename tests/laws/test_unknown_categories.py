"""Categories that training never saw, and gaps, count as the mean of the known ones."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from exported_code import RUNS, assert_predicts

from secret_jax import (
    KernelTreeRegressor,
    Quantile,
    SecretBoostingRegressor,
    SecretClassifier,
    SecretForestRegressor,
    SecretRegressor,
    UnseenCategoryWarning,
)

SHARES = {"a": 0.4, "b": 0.3, "c": 0.25, "d": 0.05}
ONE_LEAF = {"max_depth": 0, "equation_tolerance": 0.1}
UNKNOWN = pd.DataFrame({"code": [None, "new"], "x": [0.3, -1.0]})


def table(n: int = 600) -> tuple[pd.DataFrame, np.ndarray]:
    """A category that moves the target most by its rarest level, and a number."""
    random = np.random.default_rng(0)
    code = random.choice([*SHARES], n, p=[*SHARES.values()])
    x, level = random.normal(size=n), {"a": 1.0, "b": -0.7, "c": 0.3, "d": 2.2}
    y = pd.Series(level)[code].to_numpy() + 0.2 * x + 0.03 * random.normal(size=n)
    return pd.DataFrame({"code": code, "x": x}), y


def said(model, X) -> np.ndarray:
    """What equations say: logarithms of means, log-odds, or numbers."""
    if hasattr(model, "decision_function"):
        return model.decision_function(X)
    return np.log(model.predict(X)) if model.loss == "poisson" else model.predict(X)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    "model",
    [
        SecretRegressor(**ONE_LEAF),
        SecretRegressor(**ONE_LEAF, loss="poisson"),
        SecretRegressor(**ONE_LEAF, loss=Quantile(level=0.8)),
        SecretClassifier(**ONE_LEAF, leaf="logistic"),
    ],
    ids=["squares", "poisson", "quantile", "classes"],
)
def test_an_equation_says_the_mean_of_the_levels(model, weighted):
    X, y = table()
    if getattr(model, "loss", None) == "poisson":
        y = np.random.default_rng(1).poisson(np.exp(y))
    weight = pd.Series(np.where((X["code"] == "d") & weighted, 10.0, 1.0))
    y = y > 0.2 if isinstance(model, SecretClassifier) else y
    model.fit(X, y, sample_weight=weight)
    share = weight.groupby(X["code"]).sum() / weight.sum()
    known = [said(model, UNKNOWN.assign(code=level)) for level in share.index]
    with pytest.warns(UnseenCategoryWarning, match="'code' holds 'new' and missing"):
        found = said(model, UNKNOWN)
    np.testing.assert_allclose(found, share.to_numpy() @ known, atol=1e-5)


@pytest.mark.parametrize(
    "model",
    [
        SecretRegressor(),
        SecretRegressor.accurate(gates=False),
        SecretRegressor.accurate(),
        SecretForestRegressor(n_estimators=10),
        SecretBoostingRegressor(max_leaf_nodes=4, max_iter=30),
        KernelTreeRegressor(),
    ],
    ids=["tree", "accurate", "gates", "forest", "booster", "kernels"],
)
@pytest.mark.filterwarnings("ignore::secret_jax.fit.interface.RefinementWarning")
def test_predictions_are_between_those_of_the_levels(model):
    X, y = table()
    model.fit(X, y * (1 + (X["x"] > 0.5)))
    known = [model.predict(UNKNOWN.assign(code=level)) for level in SHARES]
    with pytest.warns(UnseenCategoryWarning):
        found = model.predict(UNKNOWN)
    assert (np.min(known, axis=0) < found).all()
    assert (found < np.max(known, axis=0)).all()


@pytest.mark.parametrize("language", RUNS)
@pytest.mark.parametrize("numeric", [False, True])
def test_programs_say_so(language, numeric):
    X, y = table()
    rows = UNKNOWN
    if numeric:
        X, rows = X.assign(code=X["code"].map(ord)), UNKNOWN.assign(code=[None, 7])
    kinds = {"categorical_features": ["code"]}
    model = SecretRegressor(**ONE_LEAF, **kinds).fit(X, y)
    with pytest.warns(UnseenCategoryWarning):
        expected = model.predict(rows)
    assert_predicts(RUNS[language](model.tree_, rows), expected, model.tree_)


def test_text_and_explanations_say_so():
    X, y = table()
    model = SecretRegressor(**ONE_LEAF).fit(X, y)
    words = "unknown categories count as the mean of the others in sums: code"
    assert words in model.export_text()
    with pytest.warns(UnseenCategoryWarning):
        why, expected = model.explain(UNKNOWN), model.predict(UNKNOWN)
    np.testing.assert_allclose(why.prediction, expected, atol=1e-5)
    assert "code = missing (not in training)" in str(why)
    assert "code = new (not in training)" in str(why)
    X["code"] = X["code"].replace("d", None)  # a gap of training is a level of its own
    model = SecretRegressor(**ONE_LEAF).fit(X, y)
    assert model.predict(UNKNOWN[:1]) == pytest.approx(2.2 + 0.06, abs=0.1)
