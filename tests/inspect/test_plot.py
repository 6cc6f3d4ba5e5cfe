"""The picture of a tree: complete, legible, and nothing over anything else."""

import itertools
import re
import sys
from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.patches import FancyBboxPatch, PathPatch
from random_trees import NAMES, random_tree

from secret_jax.inspect.plot_tree import plot_tree
from secret_jax.tree.structure import StopReason


def extents(ax, kind):
    return [
        patch.get_window_extent().padded(-1)
        for patch in ax.patches
        if type(patch) is kind
    ]


def texts(ax) -> list[str]:
    return [text.get_text() for text in ax.texts]


def with_long_names(tree):
    """Names of 50 characters that differ at their ends only."""
    names = tuple(f"the average {'x' * 36} of {name}" for name in NAMES)
    categories = tuple(
        tuple(f"{'a long category of ' * 3}{value}" for value in values)
        for values in tree.schema.categories
    )
    return replace(
        tree, schema=replace(tree.schema, names=names, categories=categories)
    )


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


def test_every_split_and_leaf_is_described():
    tree = random_tree(4, 8)
    ax = plot_tree(tree).ax
    said = "\n".join(texts(ax))
    nodes = {int(node) for node in re.findall(r"^\[(\d+)\] ", said, re.M)}
    assert nodes == set(range(tree.n_nodes))
    assert texts(ax).count("yes") == texts(ax).count("no") == tree.n_leaves - 1
    assert "rings: 8 leaves, 1,000 rows" in said
    assert (
        len(re.findall(r"^\[\d+\] .* rows? \(.* %\), mean .*, error ", said, re.M)) == 8
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
    tree = replace(
        tree, schema=replace(tree.schema, names=names, target_names=("$y^$",))
    )
    ax = plot_tree(tree).ax
    ax.get_figure().canvas.draw()
    assert any("$length_$" in text for text in texts(ax))


def test_missing_matplotlib_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=re.escape("secret-jax[plot]")):
        plot_tree(random_tree(0, 1))
