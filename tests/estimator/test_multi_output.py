"""One tree for several targets: what it predicts, and what each of them sees of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from configurations import FEW, crease, refusal, regressor, shop, tree_bytes
from sklearn.exceptions import DataConversionWarning
from sklearn.metrics import r2_score

from secret_jax import HoldOut, SecretRegressor
from secret_jax.fit.refine.tao import Tao
from secret_jax.tree.structure import Tree

# With options under which the refinement finds something to do.
REFINEMENTS: dict[str, dict[str, Any]] = {
    "none": {"prune": "holdout"},
    "blend": {"prune": "holdout", "refine": "blend"},
    "tao": {
        "prune": None,
        "oblique": True,
        "max_leaf_nodes": 3,
        "refine": Tao(margin=0.0),
    },
    "soft": {"prune": "holdout", "refine": FEW},
}
# Searches of both kinds of splits.
rss_and_em = pytest.mark.parametrize("configuration", ["default", "paper"])
every_refinement = pytest.mark.parametrize("refine", REFINEMENTS)


def creases(
    n_rows: int = 128, seed: int = 0, bend: float = 0.0
) -> tuple[np.ndarray, np.ndarray]:
    """Two outputs of other units that bend in one place, sharply or over a width."""
    X, y = crease(n_rows, seed)
    noise = np.random.default_rng(seed + 1).normal(size=n_rows)
    across = 4 * X[:, 0] + X[:, 1]
    sharp, round_ = np.abs(across), np.hypot(across, bend)
    y = y + round_ - sharp
    other = round_ - 3 * X[:, 2] + 0.2 * noise
    return X, np.c_[y, 1000 + np.round(100 * other * 64) / 64]


def outputs_of(tree: Tree) -> list[Tree]:
    return [tree.output(i) for i in range(tree.n_outputs)]


@rss_and_em
def test_shapes_and_scores(configuration):
    X, Y = creases()
    model = regressor(configuration).fit(X, Y)
    assert model.n_outputs_ == model.tree_.n_outputs == 2
    found = model.predict(X)
    assert found.shape == (128, 2)
    assert found.dtype == np.float64
    prediction, deviation = model.predict(X, return_std=True)
    assert np.array_equal(prediction, found)
    assert deviation.shape == (128, 2)
    assert (deviation > 0).all()
    # The noise of the second output is a hundred times that of the first.
    ratio = np.median(deviation[:, 1] / deviation[:, 0])
    assert 30 < ratio < 300
    assert model.score(X, Y) == pytest.approx(r2_score(Y, found), rel=1e-9)
    weight = np.arange(1.0, 129.0)
    expected = r2_score(Y, found, sample_weight=weight)
    assert model.score(X, Y, weight) == pytest.approx(expected, rel=1e-9)
    assert model.feature_importances_.sum() == pytest.approx(1)


@every_refinement
def test_all_outputs_take_one_way_through_the_tree(refine):
    X, Y = creases(256)
    model = regressor("default", **REFINEMENTS[refine]).fit(X, Y)
    assert model.n_leaves_ > 1
    leaf, path = model.apply(X), model.decision_path(X)
    assert leaf.shape == (256,)
    assert path.shape == (256, model.depth_ + 1)
    length = (path >= 0).sum(axis=1)
    assert np.array_equal(path[np.arange(256), length - 1], leaf)
    for i, tree in enumerate(outputs_of(model.tree_)):
        assert tree.n_outputs == 1
        alone = SecretRegressor()
        alone.tree_, alone.n_features_in_ = tree, 3
        assert np.array_equal(alone.apply(X), leaf)
        assert np.array_equal(alone.decision_path(X), path)
        np.testing.assert_allclose(
            alone.predict(X), model.predict(X)[:, i], rtol=1e-6, atol=1e-6
        )


@every_refinement
def test_a_refinement_does_all_outputs_good_or_no_harm(refine):
    # Where the bend is round there is something to refine.
    X, Y = creases(256, bend=4.0)
    X_test, Y_test = creases(1024, seed=5, bend=4.0)
    plain = regressor("default", **REFINEMENTS[refine] | {"refine": None}).fit(X, Y)
    model = regressor("default", **REFINEMENTS[refine]).fit(X, Y)
    found = model.predict(X_test)
    assert np.isfinite(found).all()
    for i in range(2):
        own = r2_score(Y_test[:, i], found[:, i])
        assert own > 0.8
        assert own > r2_score(Y_test[:, i], plain.predict(X_test)[:, i]) - 0.03
    if refine == "none":
        assert tree_bytes(model.tree_) == tree_bytes(plain.tree_)
    if refine == "blend":
        assert model.tree_.is_soft
        assert model.smaller(gates=False).predict(X).shape == (256, 2)
    if refine in ("tao", "soft"):
        assert model.n_refine_steps_ > 0
    assert model.tree_.coefficient.shape == (model.tree_.n_nodes, 2, 4)


@rss_and_em
def test_a_column_of_one_output_is_a_vector(configuration):
    X, y = shop()
    alone = regressor(configuration).fit(X, y)
    with pytest.warns(DataConversionWarning):
        column = regressor(configuration).fit(X, y.to_numpy()[:, None])
    assert tree_bytes(column.tree_) == tree_bytes(alone.tree_)
    assert column.n_outputs_ == 1
    assert column.predict(X).shape == (128,)
    assert column.export_text() == alone.export_text().replace("price", "y")


def test_names_of_the_outputs():
    X, price = shop()
    mass = 2 * price + 1
    options = {"max_depth": 0}
    frame = pd.DataFrame({"price": price, "mass": mass})
    for Y, names in (
        (frame, ("price", "mass")),
        (pl.from_pandas(frame), ("price", "mass")),
        (frame.to_numpy().tolist(), ("y0", "y1")),
        (frame.set_axis([0, 1], axis=1), ("y0", "y1")),
        (frame.set_axis(["price", "price"], axis=1), ("y0", "y1")),
    ):
        model = regressor("paper", **options).fit(X, Y)
        assert model.tree_.schema.target_names == names
        np.testing.assert_allclose(
            model.predict(X)[:, 1], 2 * model.predict(X)[:, 0] + 1, atol=1e-4
        )
    with pytest.warns(DataConversionWarning):
        model = regressor("paper", **options).fit(X, frame[["mass"]])
    assert model.tree_.schema.target_names == ("mass",)


def test_rows_to_prune_on_have_all_outputs():
    X, Y = creases()
    others = creases(64, seed=3)
    rule = HoldOut(refit=False)
    model = regressor("default", prune=rule).fit(X, Y, eval_set=others)
    assert model.tree_.weight[0] == 128
    alone = regressor("default", prune=rule).fit(X, Y)
    assert alone.tree_.weight[0] == 96
    assert model.predict(X).shape == (128, 2)
    refit = regressor("default", prune="holdout").fit(X, Y, eval_set=others)
    assert refit.tree_.weight[0] == 192
    for wrong in (others[1][:, 0], np.c_[others[1], others[1]]):
        with refusal("eval_set", "y has 2."):
            regressor("default").fit(X, Y, eval_set=(others[0], wrong))
    with refusal("eval_set", "There are 2 output(s)", "y has 1."):
        regressor("default").fit(X, Y[:, 0], eval_set=others)
