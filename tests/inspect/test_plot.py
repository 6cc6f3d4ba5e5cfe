"""The picture of a tree: complete, legible, and nothing over anything else."""

import dataclasses
import itertools
import re
import sys
from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from handmade import BUSHY, CHAIN, STUMP, build_tree
from matplotlib.collections import PathCollection
from matplotlib.colors import to_hex
from matplotlib.contour import QuadContourSet
from matplotlib.patches import FancyBboxPatch, PathPatch
from random_trees import NAMES, random_frame, random_tree, with_gates

from secret_jax import SecretRegressor
from secret_jax.data.encoding import encode
from secret_jax.inspect.picture import plot_leaf
from secret_jax.inspect.plot_partition import plot_partition
from secret_jax.inspect.plot_tree import plot_tree
from secret_jax.tree.routing import apply, predict
from secret_jax.tree.structure import SplitKind, StopReason


def extents(ax, kind):
    patches = [patch for patch in ax.patches if type(patch) is kind]
    return [patch.get_window_extent().padded(-1) for patch in patches]


def texts(ax) -> list[str]:
    return [text.get_text() for text in ax.texts]


def with_long_names(tree):
    """Names of 50 characters that differ at their ends only."""
    names = tuple(f"the average {'x' * 36} of {name}" for name in NAMES)
    long, known = "a long category of " * 3, tree.schema.categories
    categories = tuple(tuple(f"{long}{one}" for one in some) for some in known)
    schema = replace(tree.schema, names=names, categories=categories)
    return replace(tree, schema=schema)


@pytest.mark.parametrize("n_leaves", [1, 12])
@pytest.mark.parametrize("long_names", [False, True])
def test_boxes_do_not_touch_and_hold_their_text(n_leaves, long_names):
    tree = random_tree(n_leaves, n_leaves)
    ax = plot_tree(with_long_names(tree) if long_names else tree, max_depth=None).ax
    boxes = extents(ax, FancyBboxPatch)
    assert len(boxes) == tree.n_nodes
    for one, other in itertools.combinations(boxes, 2):
        assert not one.overlaps(other)
    figure = ax.get_figure()
    assert figure is not None
    page = figure.bbox
    for text in ax.texts:
        extent = text.get_window_extent()
        assert page.x0 <= extent.x0 <= extent.x1 <= page.x1
        assert page.y0 <= extent.y0 <= extent.y1 <= page.y1
        if text.get_text() in ("yes", "no"):
            assert not any(box.overlaps(extent) for box in boxes)
        elif not text.get_text().startswith(("rings: ", "mean of rings")):
            middle = (extent.y0 + extent.y1) / 2
            assert any(
                box.x0 <= extent.x0
                and extent.x1 <= box.x1
                and box.y0 <= middle <= box.y1
                for box in boxes
            )


def test_the_yes_branch_is_the_upper_one_and_edges_show_the_share_of_rows():
    tree = random_tree(0, 2)
    ax = plot_tree(tree).ax
    height = {
        text.get_text(): text.get_position()[1]
        for text in ax.texts
        if re.match(r"\[[12]\] |yes|no", text.get_text())
    }
    upper, lower = (
        min(height[name] for name in height if name.startswith(f"[{child}]"))
        for child in (tree.left[0], tree.right[0])
    )
    assert upper < lower  # the y axis points downwards
    assert height["yes"] < height["no"]
    widths = [patch.get_linewidth() for patch in ax.patches if type(patch) is PathPatch]
    shares = tree.weight[1:] / tree.weight[0]
    assert np.diff(widths) * np.diff(shares) > 0


def test_color_follows_the_mean_of_the_target():
    tree = random_tree(4, 5)
    level = np.arange(tree.n_nodes, dtype=float)
    tree = replace(tree, mean=level[:, None])
    ax = plot_tree(tree).ax
    boxes = [patch for patch in ax.patches if type(patch) is FancyBboxPatch]
    colors = {to_hex(box.get_facecolor()) for box in boxes}
    viridis = plt.colormaps["viridis"]
    assert {to_hex(viridis(0.0)), to_hex(viridis(1.0))} <= colors
    (bar,) = ax.child_axes
    limits = tree.schema.restore_target(level[[0, -1]])
    np.testing.assert_allclose(bar.get_xlim(), limits)
    assert "mean of rings" in texts(ax)
    weight = np.where(tree.is_leaf, 0.0, tree.weight)  # a leaf without rows has a mean
    (bar,) = plot_tree(replace(tree, weight=weight)).ax.child_axes
    assert np.isfinite(bar.get_xlim()).all()


def test_a_large_tree_is_cut_where_it_can_be_read():
    tree = random_tree(21, 21)
    ax = plot_tree(tree).ax
    (title,) = (text for text in texts(ax) if text.startswith("rings: "))
    depth = int(re.findall(r"the upper (\d) of (\d+) levels", title)[0][0])
    whole = plot_tree(tree, max_depth=depth).ax
    assert texts(ax) == texts(whole)
    ends = [text for text in texts(ax) if re.search(r", error ", text)]
    assert len(ends) <= 20
    assert "levels" not in "".join(texts(plot_tree(tree, max_depth=None).ax))


def test_one_leaf_says_its_whole_equation_and_that_no_split_pays():
    tree = random_tree(0, 1)
    said = texts(plot_tree(tree).ax)
    assert "no split pays: this is a linear regression" in said
    assert not any("smaller" in line for line in said)
    assert sum(name in line for name in NAMES for line in said) >= 4
    stopped = replace(tree, stop_reason=np.array([StopReason.MAX_DEPTH], np.int32))
    said = texts(plot_tree(stopped).ax)
    assert "max_depth reached: this is a linear regression" in said


def test_dollars_in_names_are_no_formula():
    tree = random_tree(2, 3)
    names = tuple(f"${name}_$ $x^" for name in NAMES)
    schema = replace(tree.schema, names=names, target_names=("$y^$",))
    ax = plot_tree(replace(tree, schema=schema)).ax
    ax.get_figure().canvas.draw()
    assert any("$length_$" in text for text in texts(ax))


def test_missing_matplotlib_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=re.escape("secret-jax[plot]")):
        plot_tree(random_tree(0, 1))


@pytest.fixture(autouse=True)
def coarse(monkeypatch):
    monkeypatch.setattr("secret_jax.inspect.plot_partition._RESOLUTION", 30)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("shape", [BUSHY, CHAIN])
def test_lines_are_where_leaves_meet_and_numbers_stand_in_their_leaves(shape, seed):
    tree = build_tree(shape, seed)
    ax = plot_partition(tree, "a", "b", at={"colour": "red"}).ax
    schema = tree.schema
    lines = [c for c in ax.collections if isinstance(c, QuadContourSet)]
    corners = [p for c in lines for path in c.get_paths() for p in path.vertices]
    x = (np.reshape(corners, (-1, 2)) - schema.center) / schema.scale
    beyond = x @ tree.direction.T - tree.threshold
    splits = ~tree.is_leaf & (tree.kind != SplitKind.DISCRETE)
    assert (np.abs(beyond[:, splits]).min(axis=1) < 1e-4).all()
    for text in ax.texts:
        at = ax.transData.inverted().transform(
            ax.transAxes.transform(text.get_position())
        )
        row = pd.DataFrame({"a": at[:1], "b": at[1:], "colour": ["red"]})
        assert text.get_text() == f"[{apply(tree, encode(schema, row))[0]}]"


def test_the_surface_is_the_prediction():
    tree = random_tree(3, 10)
    names = {"sex": "M", "place": "town3", "shell weight": 1992.0, "2nd (kg)": 4.1e6}
    ax = plot_partition(tree, "length", "age", at=names).ax
    image = ax.images[0]
    left, right, low, high = image.get_extent()
    middle = (np.arange(30) + 0.5) / 30  # of a pixel
    length, age = np.meshgrid(
        left + (right - left) * middle, low + (high - low) * middle
    )
    rows = pd.DataFrame({"length": length.ravel(), "age": age.ravel(), "a - b": -3e-5})
    rows = rows.assign(**names)
    expected = predict(tree, encode(tree.schema, rows)).reshape(30, 30)
    # Points on a split may fall on either side of it.
    differs = np.abs(image.get_array() - expected) > 1e-3
    assert differs.mean() < 0.01
    assert ax.get_xlabel() == "length"
    assert ax.get_ylabel() == "age"
    assert "sex = M" in ax.get_title(loc="left")
    assert "columns at their means" in " ".join(ax.get_title(loc="left").split())


def test_gates_are_dashed_and_leaves_numbered():
    hard = build_tree(BUSHY, seed=1)
    for tree in (hard, with_gates(hard, hard_share=0)):
        ax = plot_partition(tree, "a", "b").ax
        lines = [c for c in ax.collections if isinstance(c, QuadContourSet)]
        dashed = [line.get_linestyle()[0][1] is not None for line in lines]
        assert any(dashed) == tree.is_soft
        said = {int(text.get_text()[1:-1]) for text in ax.texts}
        assert said
        assert said <= set(np.flatnonzero(tree.is_leaf))


def test_rows_are_points_in_their_colours_and_columns_may_be_positions():
    tree, rows = random_tree(3, 6), random_frame(0, 60)
    y = np.arange(60.0)
    ax = plot_partition(tree, "length", "age", data=(rows, y)).ax
    (points,) = [c for c in ax.collections if isinstance(c, PathCollection)]
    np.testing.assert_allclose(points.get_offsets()[:, 0], rows["length"], rtol=1e-5)
    np.testing.assert_array_equal(points.get_array(), y)
    by_position = plot_partition(tree, 0, 4, at={1: "F"}, data=(rows, y)).ax
    assert ax.get_ylabel() == by_position.get_ylabel()
    assert np.array_equal(ax.images[0].get_array(), by_position.images[0].get_array())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("weight", "age"), "no column 'weight'"),
        (("length", "length"), "x and y are both 'length'"),
        ((99, 0), "no column 99"),
        (("place", "length"), "'place' holds categories; draw columns of numbers"),
    ],
)
def test_columns_that_cannot_be_drawn(arguments, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        plot_partition(random_tree(3, 6), *arguments)


def test_bars_are_what_columns_move_in_the_node(monkeypatch):
    tree = random_tree(3, 6)
    spread = np.tile([0.5, 2.0, 0.0, 0.1], (tree.n_nodes, 1))
    tree = dataclasses.replace(tree, spread=spread)
    ax = plot_leaf(tree, 0).ax
    moved = 3.2 * tree.coefficient[0, 0, 1:] * spread[0]
    order = [i for i in np.argsort(-np.abs(moved)) if moved[i] != 0]
    widths = [bar.get_width() for bar in ax.patches]
    # Coefficients are rounded in steps of a thousandth of the target's deviation.
    np.testing.assert_allclose(widths, moved[order], atol=2e-3 * 3.2)
    names = np.array(["length", "shell weight", "a - b", "2nd (kg)"])[order]
    labels = [label.get_text() for label in ax.get_yticklabels()]
    assert len(labels) == 3  # one column is the same for all rows
    for label, name in zip(labels, names, strict=True):
        assert name in label
    assert ax.get_title(loc="left").startswith("[0] all rows\n1,000 rows")
    assert "among the node's rows" in " ".join(ax.get_xlabel().split())
    monkeypatch.setattr("secret_jax.inspect.picture._MAX_BARS", 2)
    ax = plot_leaf(tree, 0).ax
    assert len(ax.patches) == 2
    assert "1 smaller ones not shown" in " ".join(ax.get_xlabel().split())


@pytest.fixture(scope="module")
def houses():
    rng = np.random.default_rng(0)
    n_rows = 400
    kind = rng.choice(["a hut", "house"], n_rows, p=[0.2, 0.8])
    age = np.floor(rng.exponential(30, n_rows))
    X = pd.DataFrame({"age": age, "area": rng.normal(120, 30, n_rows), "kind": kind})
    y = X["area"] - 0.2 * age + 20.0 * (kind == "house") + rng.normal(size=n_rows)
    return SecretRegressor(max_depth=0).fit(X, y), X, y


def test_what_is_not_there_is_not_drawn(houses):
    model, X, y = houses
    for data in (None, (X, y)):
        ax = model.plot_partition("age", "area", data=data).ax
        assert ax.get_xlim()[0] == pytest.approx(0, abs=1e-4)
        assert ax.get_xlim()[1] < 1.1 * X["age"].max()
        assert ax.get_ylim()[0] > X["area"].min() - 5
        assert "kind = house" in ax.get_title(loc="left")


def test_numbers_of_leaves_do_not_cover_each_other():
    for seed in range(2):
        ax = plot_partition(random_tree(seed, 30), "length", "age").ax
        ax.figure.canvas.draw()
        boxes = [text.get_window_extent() for text in ax.texts]
        assert not any(a.overlaps(b) for a, b in itertools.combinations(boxes, 2))


def test_a_constant_leaf_says_its_value_and_unknown_nodes_are_refused():
    tree = build_tree(STUMP, seed=0)
    coefficient = tree.coefficient.copy()
    coefficient[1, 0, 1] = 0
    ax = plot_leaf(dataclasses.replace(tree, coefficient=coefficient), 1).ax
    assert any("constant: " in text.get_text() for text in ax.texts)
    with pytest.raises(ValueError, match="Node 99 does not exist"):
        plot_leaf(tree, 99)


def test_dates_and_levels_are_said_at_the_axes():
    n_rows = 200
    X = pd.DataFrame({"sold": pd.date_range("2020-01-01", periods=n_rows, freq="W")})
    sizes = pd.CategoricalDtype(["small", "medium", "large"], ordered=True)
    X["size"] = pd.Series(np.resize(sizes.categories, n_rows), dtype=sizes)
    model = SecretRegressor(max_depth=1).fit(X, np.arange(n_rows) % 4)
    ax = model.plot_partition("sold (days since 1970)", "size").ax
    ax.figure.canvas.draw()
    dates = [label.get_text() for label in ax.get_xticklabels()]
    assert all(re.fullmatch(r"20\d\d-\d\d-\d\d", date) for date in dates)
    said = {label.get_text() for label in ax.get_yticklabels()}
    assert said <= set(sizes.categories)


def test_a_column_without_any_value_in_the_rows_is_held_at_its_mean():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(100, 2)), columns=["a", "b"]).assign(c=np.nan)
    model = SecretRegressor(max_leaf_nodes=2).fit(X, X["a"].abs())
    plot_partition(model, "a", "b", data=(X, X["a"].abs()))
