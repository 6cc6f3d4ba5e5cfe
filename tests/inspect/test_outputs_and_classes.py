"""Trees of classes and of several outputs are read in their words and numbers."""

import re
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest
from configurations import refusal, shop
from matplotlib.colors import to_hex
from matplotlib.patches import FancyBboxPatch, Rectangle
from random_trees import (
    TOWNS,
    class_tree,
    encode,
    random_frame,
    random_rows,
    random_tree,
    reading,
)
from sklearn.compose import TransformedTargetRegressor
from sklearn.metrics import log_loss
from sklearn.preprocessing import StandardScaler
from test_report import Reader

from secret_jax import SecretClassifier, SecretRegressor
from secret_jax.inspect.explain import explain
from secret_jax.inspect.page import to_html
from secret_jax.inspect.printing import channels
from secret_jax.inspect.stability import stability
from secret_jax.inspect.tables import node_table, summary, to_dataframe
from secret_jax.inspect.text import export_text
from secret_jax.inspect.view import as_view
from secret_jax.tree.routing import predict

LONG = [f"an occupation of {letter * 12}" for letter in "abcdefghi"]
SIX = ["Con", "Head", "Tabl", "Veh", "WinF", "WinNF"]


def fitted(names: list[str], n_leaves: int = 6, seed: int = 3) -> SecretClassifier:
    """A classifier that was fitted to nothing and reads a tree of these classes."""
    return reading(class_tree(seed, n_leaves, names), names)


def rows_of(model, n_rows: int = 300) -> tuple[pd.DataFrame, np.ndarray]:
    """Rows whose classes are drawn by what the model says of them."""
    X = random_frame(5, n_rows)
    drawn = np.random.default_rng(0).uniform(size=(n_rows, 1))
    place = (model.predict_proba(X).cumsum(axis=1) < drawn).sum(axis=1)
    return X, model.classes_[np.minimum(place, len(model.classes_) - 1)]


def test_text_says_shares_of_both_classes_and_probabilities():
    model = fitted(["no", "yes"])
    text = model.export_text()
    assert text.startswith("no / yes: a tree of 6 leaves")
    assert "probability of yes: 1 / (1 + exp(-log-odds))" in text
    assert not re.search(r"\bmean\b \d|error|clipped", text)
    for node in np.flatnonzero(model.tree_.is_leaf):
        share = 100 * model.tree_.mean[node, 0]
        pattern = rf"\[{node}\] log-odds of yes = (?:.|\n)*?, ([\d.]+) % yes"
        said = re.search(pattern, text)
        assert said is not None
        assert float(said[1]) == pytest.approx(share, rel=5e-3)
    leaf = int(np.flatnonzero(model.tree_.is_leaf)[0])
    low, high = (s[leaf, 0] for s in model.tree_.clip_range())
    bounds = [f"{100 / (1 + np.exp(-end)):.3g} %" for end in (low, high)]
    assert f"predicted: {bounds[0]} to {bounds[1]} yes" in text


def test_scores_of_absent_classes_are_left_out_only_where_some_are():
    model = fitted(SIX)
    said = "classes without rows in a leaf are left out there; predict_proba counts"
    assert said not in model.export_text()
    mean = model.tree_.mean.copy()
    mean[np.flatnonzero(model.tree_.is_leaf)[0], 0] = 0.0
    model.tree_ = replace(model.tree_, mean=mean)
    assert said in model.export_text()


def test_long_names_fit_into_the_lines():
    text = fitted(LONG).export_text()
    lines = text.splitlines()
    assert max(map(len, lines)) <= 100
    assert lines[0].startswith(f"{LONG[0]} / {LONG[1]} / 7 more: a tree of 6 leaves")
    # A category list of more than a line is broken between categories.
    towns = tuple(f"{town} {'x' * 20}" for town in TOWNS)
    tree = random_tree(1, 2, kinds=(3,))
    schema = replace(tree.schema, categories=(tree.schema.categories[0], towns))
    printed = export_text(replace(tree, schema=schema), max_categories=None)
    assert max(map(len, printed.splitlines())) <= 130


def test_one_class_is_read_against_the_others():
    model = fitted(SIX)
    text = model.export_text(output="Veh")
    assert text.startswith("others / Veh: a tree of 6 leaves")
    assert not re.search("Head|WinF", text)
    X, y = rows_of(model)
    view = as_view(model.tree_, output="Veh")
    said = view.predict(encode(random_rows(5, 300)))
    np.testing.assert_allclose(said[:, 1], model.predict_proba(X)[:, 3], rtol=1e-5)
    found = view.targets(X, y)
    np.testing.assert_array_equal(found, y == "Veh")


@pytest.mark.parametrize("names", [["no", "yes"], LONG])
def test_every_box_has_a_bar_of_its_shares(names):
    model = fitted(names)
    ax = model.plot_tree().ax
    colors = as_view(model.tree_).colors
    boxes = [p.get_window_extent() for p in ax.patches if type(p) is FancyBboxPatch]
    parts = [p for p in ax.patches if type(p) is Rectangle and p.get_zorder() == 3]
    shares = as_view(model.tree_).shares
    n_classes = len(names)
    assert len(boxes) == len(shares)
    found = np.array([part.get_width() for part in parts]).reshape(-1, n_classes)
    found /= found.sum(axis=1, keepdims=True)
    order = np.lexsort(found.T)
    np.testing.assert_allclose(found[order], shares[np.lexsort(shares.T)], rtol=1e-6)
    assert [to_hex(part.get_facecolor()) for part in parts[:n_classes]] == colors
    for part in parts:
        extent = part.get_window_extent()
        assert any(box.x0 <= extent.x0 and extent.x1 <= box.x1 for box in boxes)


@pytest.mark.parametrize("names", [["no", "yes"], SIX])
def test_leaves_show_the_equation_of_their_most_frequent_class(names):
    model = fitted(names)
    tree = model.tree_
    for leaf in np.flatnonzero(tree.is_leaf).tolist():
        which = int(as_view(tree).shares[leaf].argmax()) if len(names) > 2 else 1
        ax = model.plot_leaf(leaf).ax
        said = "log-odds" if len(names) == 2 else "score"
        assert f"moves {said} of {names[which]} by one" in ax.get_xlabel()
        largest = model.coefficients(leaf, output=names[which])["effect"].max()
        widths = [abs(bar.get_width()) for bar in ax.patches]
        assert max(widths) == pytest.approx(largest, abs=2e-3, rel=1e-2)


def test_scores_are_sums_of_the_cells_of_a_table():
    model = fitted(SIX)
    leaf = int(np.flatnonzero(model.tree_.is_leaf)[0])
    table = node_table(as_view(model.tree_), leaf, 12)
    classes = [SIX[i] for i in as_view(model.tree_).shown_in(leaf)]
    assert table.heads == ["term", *classes]
    own = {"length": 0.52, "shell weight": 1990.0, "a - b": -3e-5, "2nd (kg)": 4e6}
    score = np.zeros(len(classes))
    for name, *cells in table.lines:
        factors = [float(cell.replace(",", "") or 0) for cell in cells]
        score += np.array(factors) * (1 if name == "constant" else _counted(name, own))
    at_center = model.tree_.coefficient[leaf, :, 0]
    np.testing.assert_allclose(score, at_center, atol=0.02)


def _counted(name: str, values: dict[str, float]) -> float:
    """What a term's factor is multiplied by."""
    name = name.replace("'", "")
    found = re.fullmatch(r"\((.+) ([+-]) ([\d.,e-]+)\)", name)
    if found is None:
        return values[name]
    away = float(found[3].replace(",", ""))
    return values[found[1]] + (away if found[2] == "+" else -away)


@pytest.fixture
def coarse(monkeypatch):
    monkeypatch.setattr("secret_jax.inspect.plot_partition._RESOLUTION", 20)


@pytest.mark.usefixtures("coarse")
def test_slices_of_several_classes_have_a_colour_for_each():
    model = fitted(SIX)
    X, y = rows_of(model)
    surface = model.plot_partition("length", "age", data=(X, y)).ax
    assert [text.get_text() for text in surface.get_legend().get_texts()] == SIX
    image = np.asarray(surface.images[0].get_array())
    assert image.shape == (20, 20, 3)
    # Every cell is a class's colour mixed with white.
    colors = 1.0 - channels(as_view(model.tree_).colors)
    dark = 1.0 - image.reshape(-1, 3)
    along = (dark @ colors.T) ** 2 / ((dark**2).sum(1)[:, None] * (colors**2).sum(1))
    np.testing.assert_allclose(along.max(axis=1), 1.0, atol=1e-6)
    one = model.plot_partition("length", "age", output="Veh").ax
    assert one.figure.axes[-1].get_ylabel() == "probability of Veh"


def test_of_two_classes_only_the_second_has_an_equation():
    model = fitted(["no", "yes"])
    for read in (model.coefficients, model.to_dataframe):
        for output in ("yes", 1):
            pd.testing.assert_frame_equal(read(output=output), read())
        for output in ("no", 0):
            with pytest.raises(ValueError, match="equation of the second, 'yes'"):
                read(output=output)
        with pytest.raises(ValueError, match="none of the classes"):
            read(output="maybe")


@pytest.mark.parametrize("names", [["no", "yes"], SIX, LONG])
def test_a_page_of_classes_says_how_good_it_is(names):
    model = fitted(names)
    X, y = rows_of(model)
    html = model.to_html(
        X, y, comparison={"another": {"error": 0.25, "log_loss": 0.5, "leaves": 3}}
    )
    page = Reader(html)
    text = " ".join("".join(page.text).split())
    right = np.mean(model.predict(X) == y)
    assert f"{100 * right:.1f} %" in text
    loss = log_loss(y, model.predict_proba(X), labels=names)
    assert re.search(rf"log-loss ?{loss:.3g}", text)
    assert "75.0 %" in text  # of the other method
    for word in ("R²", "error 2", "mean and standard deviation", "clipped"):
        assert word not in text
    for name in names:
        assert f" {name}" in page.text  # the key
    assert page.count("img") == 1  # of the confusion
    assert len(page.ids) == len(set(page.ids))


@pytest.mark.parametrize("costs", [None, [[0, 1], [9, 0]]])
def test_rows_of_a_class_never_seen_are_wrong_and_costs_decide(costs):
    model = fitted(["no", "yes"]).set_params(costs=costs)
    X, y = rows_of(model, 50)
    y = np.where(np.arange(50) < 5, "maybe", y)
    text = "".join(Reader(model.to_html(X, y)).text)
    assert f"{100 * np.mean(model.predict(X) == y):.1f} %" in text


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
def test_reading_an_output_is_reading_the_tree_of_it_alone(output):
    tree, rows = random_tree(5, 12, n_outputs=2), encode(random_rows(5, 200))
    which = {0: 0, "rings1": 1}[output]
    name, other = OUTPUTS[which], OUTPUTS[1 - which]
    model, alone = reading(tree), reading(tree.output(which))
    np.testing.assert_array_equal(
        predict(alone.tree_, rows), predict(tree, rows)[:, which]
    )
    text = model.export_text(output=output)
    assert text == alone.export_text()
    assert text.startswith(f"{name}: a tree of 12 leaves")
    assert not re.search(rf"\b{other}\b", text)
    for language in ("python", "sql", "dot"):
        code = model.export_code(language, output=output)
        assert code == alone.export_code(language)
    terms = model.coefficients()
    terms = terms[terms["output"] == name].drop(columns="output")
    pd.testing.assert_frame_equal(terms.reset_index(drop=True), alone.coefficients())
    frame, every = alone.to_dataframe(), model.to_dataframe()
    pd.testing.assert_frame_equal(model.to_dataframe(output=output), frame)
    own = [f"{what} of {name}" for what in ("mean", "error", "model", "low", "high")]
    pd.testing.assert_frame_equal(
        every[[*every][:15] + own].set_axis([*frame], axis=1), frame
    )
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


def test_deviations_of_outputs_are_those_of_the_trees_alone(shop_of_two):
    model, X, Y = shop_of_two
    prediction, deviation = model.predict(X, return_std=True)
    assert prediction.shape == deviation.shape == Y.shape
    for which, name in enumerate(Y):
        _, expected = reading(model.tree_.output(name)).predict(X, return_std=True)
        np.testing.assert_array_equal(deviation[:, which], expected)
    with refusal("conformalize knows a single output", "has 2", "each of them"):
        model.conformalize(X, Y)


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
