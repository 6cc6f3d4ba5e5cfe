"""Of a tree with several outputs every way of reading tells about the one asked for."""

from __future__ import annotations

import re

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from configurations import refusal, shop
from exported_code import assert_predicts, by_python, by_sql
from random_trees import NAMES, encode, random_rows, random_tree
from test_text import predict_by_text

from secret_jax import SecretRegressor
from secret_jax.tree.routing import apply, predict
from secret_jax.tree.structure import Tree

OUTPUTS = [(0, "rings"), (1, "rings1")]
each_output = pytest.mark.parametrize("output", [0, 1, "rings", "rings1"])
# Everything that reads a tree, with what it needs beside an output.
WAYS = {
    "export_text": (),
    "export_dot": (),
    "to_dataframe": (),
    "export_code": (),
    "plot_tree": (),
    "plot_partition": ("length",),
    "plot_leaf": (0,),
}


@pytest.fixture(autouse=True)
def no_figures():
    yield
    plt.close("all")


def reading(tree: Tree) -> SecretRegressor:
    """An estimator that was fitted to nothing and reads this tree."""
    model = SecretRegressor()
    model.tree_ = tree
    return model


def position_of(output: int | str) -> int:
    return dict((name, i) for i, name in OUTPUTS).get(output, output)


@pytest.fixture(scope="module")
def shop_of_two():
    """A fitted tree whose second output depends on other columns than the first."""
    X, price = shop(256)
    mass = 1000 + 50 * X["height"] + 20 * (X["colour"] == "blue")
    Y = pd.DataFrame({"price": price, "mass": mass})
    model = SecretRegressor(random_state=0, prune=None, max_leaf_nodes=4).fit(X, Y)
    assert model.n_leaves_ > 1
    return model, X, Y


@each_output
@pytest.mark.parametrize("seed", range(3))
def test_the_text_predicts_the_output(seed, output):
    tree, columns = random_tree(seed, 12, n_outputs=2), random_rows(seed, 300)
    model, which = reading(tree), position_of(output)
    text = model.export_text(precision=16, max_categories=None, output=output)
    name, other = OUTPUTS[which][1], OUTPUTS[1 - which][1]
    assert text.startswith(f"{name}: a tree of 12 leaves")
    assert not re.search(rf"\b{other}\b", text)
    printed = predict_by_text(re.sub(rf"\b{name}\b", "rings", text), columns)
    expected = predict(tree, encode(columns))[:, which]
    scale = tree.schema.target_scales[which]
    np.testing.assert_allclose(printed, expected, rtol=1e-5, atol=1e-5 * scale)


@each_output
def test_the_code_predicts_the_output(output):
    tree = random_tree(5, 12, n_outputs=2)
    which = position_of(output)
    columns = random_rows(5, 300)
    frame = pd.DataFrame(dict(zip(NAMES, columns, strict=True)))
    expected = predict(tree, encode(columns))[:, which]
    for language, run in (("python", by_python), ("sql", by_sql)):
        found = run(tree.output(output), frame)
        assert_predicts(found, expected, tree.output(output))
        code = reading(tree).export_code(language, output=output)
        assert code in reading(tree.output(which)).export_code(language)


@each_output
def test_the_table_is_of_the_output(output):
    tree = random_tree(4, 8, n_outputs=2)
    which = position_of(output)
    frame = reading(tree).to_dataframe(backend="pandas", output=output)
    scale = tree.schema.target_scales[which]
    center = tree.schema.target_centers[which]
    np.testing.assert_allclose(
        frame["error"], scale * np.sqrt(tree.train_error[:, which]), rtol=1e-12
    )
    low, high = (center + scale * side[:, which] for side in tree.clip_range())
    np.testing.assert_allclose(frame["low"], low)
    np.testing.assert_allclose(frame["high"], high)
    assert frame["model"].str.startswith(f"{OUTPUTS[which][1]} = ").all()
    np.testing.assert_array_equal(frame["left"], tree.left)
    np.testing.assert_allclose(frame["mean"], center + scale * tree.mean[:, which])
    every = reading(tree).to_dataframe(backend="pandas")
    assert list(every)[:14] == list(frame)[:14]
    for what in ("mean", "error", "model", "low", "high"):
        column = every[f"{what} of {OUTPUTS[which][1]}"]
        pd.testing.assert_series_equal(column, frame[what], check_names=False)


@each_output
def test_coefficients_of_all_outputs_are_those_of_each(output):
    tree = random_tree(4, 8, n_outputs=2)
    name = OUTPUTS[position_of(output)][1]
    every = reading(tree).coefficients(backend="pandas")
    assert list(every)[:2] == ["node", "output"]
    own = every[every["output"] == name].drop(columns="output")
    alone = reading(tree).coefficients(backend="pandas", output=output)
    pd.testing.assert_frame_equal(own.reset_index(drop=True), alone)


@each_output
def test_bars_and_points_of_a_leaf_are_of_the_output(output):
    tree, columns = random_tree(3, 6, n_outputs=2), random_rows(0, 200)
    which = position_of(output)
    X = pd.DataFrame(dict(zip(NAMES, columns, strict=True)))
    value = predict(tree, encode(columns))[:, which]
    bars, points = reading(tree).plot_leaf(0, X, value, output=output).axes
    effects = tree.schema.target_scales[which] * tree.coefficient[0, which, 1:]
    drawn = [bar.get_width() for bar in bars.patches]
    # Of the printed model, which has three digits.
    effects = sorted(effects, key=abs, reverse=True)
    np.testing.assert_allclose(drawn, effects, rtol=0.01)
    name = OUTPUTS[which][1]
    assert bars.get_xlabel().startswith(f"moves {name} by one standard deviation")
    assert points.get_ylabel() == f"actual {name}"
    leaf = int(np.flatnonzero(tree.is_leaf)[0])
    reached = apply(tree, encode(columns)) == leaf
    _, points = reading(tree).plot_leaf(leaf, X, value, output=output).axes
    offsets = np.asarray(points.collections[0].get_offsets())
    assert len(offsets) == reached.sum() > 0
    np.testing.assert_allclose(offsets[:, 0], offsets[:, 1], rtol=1e-5)


@each_output
def test_pictures_name_the_output(output):
    tree = random_tree(3, 6, n_outputs=2)
    model, name = reading(tree), OUTPUTS[position_of(output)][1]
    said = [text.get_text() for text in model.plot_tree(output=output).ax.texts]
    assert f"{name}: 6 leaves, 1,000 rows" in said
    assert f'[label="{name}: 6 leaves' in model.export_dot(output=output)
    curve = model.plot_partition("length", output=output).ax
    assert curve.get_ylabel() == name
    surface = model.plot_partition("length", "age", resolution=20, output=output).ax
    values = np.asarray(surface.images[0].get_array())
    other = model.plot_partition(
        "length", "age", resolution=20, output=1 - position_of(output)
    ).ax
    assert not np.allclose(values, other.images[0].get_array())


@pytest.mark.parametrize("which", [0, 1])
def test_contributions_add_up_to_the_output(shop_of_two, which):
    model, X, Y = shop_of_two
    why = model.explain(X, output=which)
    total = why.baseline + why.contributions.sum(axis=1) + why.clipping
    scale = Y.iloc[:, which].std()
    np.testing.assert_allclose(total, why.prediction, rtol=1e-12)
    np.testing.assert_allclose(
        why.prediction, model.predict(X)[:, which], rtol=0, atol=1e-5 * scale
    )
    assert why.target == Y.columns[which]
    assert np.array_equal(why.leaf, model.apply(X))
    by_name = model.explain(X, output=Y.columns[which])
    assert np.array_equal(by_name.prediction, why.prediction)
    assert str(why).startswith(f"row 0: {Y.columns[which]} = ")


def test_fitted_outputs_are_read_as_predicted(shop_of_two):
    model, X, Y = shop_of_two
    for which, name in enumerate(Y):
        scope: dict = {}
        exec(model.export_code(output=name), scope)
        found = [scope["predict"](row) for row in X.to_dict("records")]
        np.testing.assert_allclose(
            found, model.predict(X)[:, which], rtol=0, atol=1e-5 * Y[name].std()
        )
        assert model.export_text(output=name) == model.export_text(output=which)


def test_importances_are_the_mean_over_the_outputs(shop_of_two):
    model, _, Y = shop_of_two
    alone = [reading(model.tree_.output(name)).feature_importances_ for name in Y]
    np.testing.assert_allclose(model.feature_importances_, np.mean(alone, axis=0))
    assert model.feature_importances_.sum() == pytest.approx(1)
    width, _, height = np.transpose(alone)
    assert width[0] > width[1]  # the price follows the width, the mass the height
    assert height[1] > max(height[0], 0.5)


def test_deviations_of_outputs_are_those_of_the_trees_alone(shop_of_two):
    model, X, Y = shop_of_two
    prediction, deviation = model.predict(X, return_std=True)
    assert prediction.shape == deviation.shape == Y.shape
    for which, name in enumerate(Y):
        alone = reading(model.tree_.output(name))
        alone.n_features_in_ = model.n_features_in_
        alone.feature_names_in_ = model.feature_names_in_
        _, expected = alone.predict(X, return_std=True)
        np.testing.assert_array_equal(deviation[:, which], expected)
    with refusal("conformalize knows a single output", "has 2", "each of them"):
        model.conformalize(X, Y)


@pytest.mark.parametrize("way", [*WAYS, "explain"])
def test_which_output_has_to_be_said(shop_of_two, way):
    model, X, _ = shop_of_two
    given = (X,) if way == "explain" else WAYS[way]
    if way == "plot_partition":
        given = ("width",)
    read = getattr(model, way)
    if way != "to_dataframe":  # which has columns for each
        with refusal("The tree has 2 outputs: 'price', 'mass'.", "output="):
            read(*given)
    for wrong in ("weight", 2, -1, True, 0.5, "0"):
        with refusal(f"output={wrong!r} is none of", "'price', 'mass'", "below 2"):
            read(*given, output=wrong)


@pytest.mark.parametrize("way", [*WAYS])
def test_a_single_output_need_not_be_said(way):
    model = reading(random_tree(2, 6))
    read, given = getattr(model, way), WAYS[way]
    unsaid, by_position, by_name = (
        read(*given),
        read(*given, output=0),
        read(*given, output="rings"),
    )
    if isinstance(unsaid, str):
        assert unsaid == by_position == by_name
    elif isinstance(unsaid, pd.DataFrame):
        pd.testing.assert_frame_equal(unsaid, by_position)
        pd.testing.assert_frame_equal(unsaid, by_name)
    else:
        labels = []
        for drawn in (unsaid, by_position, by_name):
            axes = drawn.ax
            words = [text.get_text() for text in axes.texts]
            labels.append((axes.get_xlabel(), axes.get_ylabel(), words))
        assert labels[0] == labels[1] == labels[2]
    with refusal("output=1 is none of the outputs", "'rings'"):
        read(*given, output=1)
