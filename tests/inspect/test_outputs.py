"""Every way of reading tells about the output asked for, or a transformed target."""

from __future__ import annotations

import re
from functools import partial

import numpy as np
import pandas as pd
import pytest
from configurations import refusal, shop
from exported_code import assert_predicts, by_python, by_sql
from random_trees import encode, random_frame, random_rows, random_tree, reading
from sklearn.compose import TransformedTargetRegressor
from sklearn.preprocessing import StandardScaler
from test_text import predict_by_text

from secret_jax import SecretRegressor
from secret_jax.inspect.explain import explain
from secret_jax.inspect.page import to_html
from secret_jax.inspect.stability import stability
from secret_jax.inspect.tables import summary, to_dataframe
from secret_jax.inspect.text import export_text
from secret_jax.tree.routing import predict

OUTPUTS = "rings", "rings1"


@pytest.fixture(scope="module")
def shop_of_two():
    """A fitted tree whose second output depends on other columns than the first."""
    X, price = shop(256)
    mass = 1000 + 50 * X["height"] + 20 * (X["colour"] == "blue")
    Y = pd.DataFrame({"price": price, "mass": mass})
    model = SecretRegressor(random_state=0, prune=None, max_leaf_nodes=4).fit(X, Y)
    assert model.n_leaves_ > 1
    return model, X, Y


@pytest.mark.parametrize("output", [0, "rings1"])
def test_every_way_of_reading_is_of_the_output(output):
    tree, columns = random_tree(5, 12, n_outputs=2), random_rows(5, 200)
    which = {0: 0, "rings1": 1}[output]
    name, other = OUTPUTS[which], OUTPUTS[1 - which]
    model, alone = reading(tree), tree.output(which)
    expected = predict(tree, encode(columns))[:, which]
    text = model.export_text(precision=16, max_categories=None, output=output)
    assert text.startswith(f"{name}: a tree of 12 leaves")
    assert not re.search(rf"\b{other}\b", text)
    printed = predict_by_text(re.sub(rf"\b{name}\b", "rings", text), columns)
    scale = alone.schema.target_scale
    np.testing.assert_allclose(printed, expected, rtol=1e-5, atol=1e-5 * scale)
    rows = random_frame(5, 200)
    for language, run in (("python", by_python), ("sql", by_sql)):
        assert_predicts(run(alone, rows), expected, alone)
        code = model.export_code(language, output=output)
        assert code == reading(alone).export_code(language)
    frame = model.to_dataframe(output=output)
    error = scale * np.sqrt(tree.train_error[:, which])
    np.testing.assert_allclose(frame["error"], error, rtol=1e-12)
    every = model.to_dataframe()
    assert list(every)[:14] == list(frame)[:14]
    for what in ("mean", "error", "model", "low", "high"):
        column = every[f"{what} of {name}"]
        pd.testing.assert_series_equal(column, frame[what], check_names=False)
    terms = model.coefficients()
    terms = terms[terms["output"] == name].drop(columns="output")
    of_output = model.coefficients(output=output)
    pd.testing.assert_frame_equal(terms.reset_index(drop=True), of_output)
    assert f'[label="{name}: 12 leaves' in model.export_code("dot", output=output)
    surface = model.plot_partition("length", "age", output=output)
    assert surface.figure.axes[-1].get_ylabel() == name
    bars = model.plot_leaf(0, output=output).ax
    assert bars.get_xlabel().startswith(f"moves {name} by one standard deviation")


def test_which_output_has_to_be_said(shop_of_two):
    model, X, _ = shop_of_two
    ways = {name: () for name in ("export_text", "export_code")}
    ways |= {"plot_tree": (), "plot_leaf": (0,), "plot_partition": ("width", "height")}
    ways |= {"explain": (X,), "to_dataframe": (), "coefficients": ()}
    for name, given in ways.items():
        read = getattr(model, name)
        if name not in ("to_dataframe", "coefficients"):  # with columns for each
            with refusal("The tree has 2 outputs: 'price', 'mass'.", "output="):
                read(*given)
        for wrong in ("weight", True):
            with refusal(f"output={wrong!r} is none of", "'price', 'mass'", "below 2"):
                read(*given, output=wrong)


def test_importances_are_the_mean_over_the_outputs(shop_of_two):
    model, _, Y = shop_of_two
    alone = [reading(model.tree_.output(name)).feature_importances_ for name in Y]
    np.testing.assert_allclose(model.feature_importances_, np.mean(alone, axis=0))
    assert model.feature_importances_.sum() == pytest.approx(1)
    width, _, height = np.transpose(alone)
    assert width[0] > width[1]  # the price follows the width, the mass the height
    assert height[1] > max(height[0], 0.5)


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"func": np.log, "inverse_func": np.exp}, "log of y"),
        ({"func": lambda y: y + 1, "inverse_func": lambda y: y - 1}, "transformed y"),
        ({"func": partial(np.log), "inverse_func": np.exp}, "transformed y"),
        ({"transformer": StandardScaler()}, "StandardScaler of y"),
        ({}, "y"),
    ],
)
def test_the_target_is_named_for_what_the_tree_has_learned(options, name):
    X = np.random.default_rng(0).uniform(size=(200, 2))
    target = np.exp(np.abs(2 * X[:, 0] - 1))
    tree = SecretRegressor(max_leaf_nodes=2, oblique=False)
    model = TransformedTargetRegressor(tree, **options).fit(X, target)
    lines = export_text(model).splitlines()
    assert lines[0].startswith(f"{name}: a tree of 2 leaves")
    assert any(f"] {name} = " in line for line in lines)
    assert f"\n{name}: n = " in summary(model)
    assert to_dataframe(model)["model"][0].startswith(f"{name} = ")
    assert f"<h1>{name}</h1>" in to_html(model)
    own, targets = model.regressor_, model.regressor_.predict(X)
    np.testing.assert_allclose(explain(model, X).prediction, targets, atol=1e-5)
    drawn = {"n_resamples": 2, "random_state": 0, "verbose": 0}
    expected = own.stability(X, targets, **drawn)
    pd.testing.assert_frame_equal(stability(model, X, targets, **drawn), expected)
    assert model.regressor_.tree_.schema.target_name == "y"  # it is only read
