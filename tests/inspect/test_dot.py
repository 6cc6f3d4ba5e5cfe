"""The DOT text: well formed, complete, and with the links of the tree."""

import re
from dataclasses import replace

import matplotlib
import numpy as np
import pytest
from matplotlib.colors import to_rgb
from random_trees import random_tree

from secret_jax.inspect.dot import export_dot
from secret_jax.inspect.view import as_view
from secret_jax.inspect.words import model_equation, split_sentence
from secret_jax.tree.structure import StopReason

STRING = r'"((?:[^"\\]|\\.)*)"'
VALUE = rf"(?:{STRING}|([\w.]+))"


def parse(text: str):
    """Boxes and edges with their attributes; fails on what is not understood."""
    first, *statements, last = text.rstrip("\n").split("\n")
    assert (first, last) == ("digraph tree {", "}")
    boxes, edges, defaults = {}, {}, {}
    for statement in statements:
        match = re.fullmatch(r"    (\w+)(?: -> (\d+))? \[(.*)\];", statement)
        assert match, statement
        start, end, rest = match.groups()
        attributes = {}
        for i, (name, string, word) in enumerate(
            re.findall(rf"(\w+)={VALUE}(?:, |$)", rest)
        ):
            attributes[name] = re.sub(r"\\(.)", unescaped, string) or word
            assert i < 9
        rebuilt = re.sub(rf"\w+={VALUE}(?:, |$)", "", rest)
        assert rebuilt == "", statement
        if end is not None:
            edges[int(start), int(end)] = attributes
        elif start.isdecimal():
            boxes[int(start)] = attributes
        else:
            defaults[start] = attributes
    return boxes, edges, defaults


def unescaped(match: re.Match) -> str:
    return "\n" if match[1] == "n" else match[1]


def in_one_line(label: str) -> str:
    return " ".join(label.split("\n")[:-1])


@pytest.mark.parametrize("n_leaves", [1, 2, 9, 25])
def test_every_node_and_every_link_is_there(n_leaves):
    tree = random_tree(n_leaves, n_leaves)
    boxes, edges, defaults = parse(export_dot(tree))
    assert sorted(boxes) == list(range(tree.n_nodes))
    assert set(edges) == {(int(tree.parent[n]), n) for n in range(1, tree.n_nodes)}
    assert defaults["graph"]["rankdir"] == "TB"
    assert defaults["graph"]["label"].startswith(f"rings: {n_leaves} lea")
    for node, attributes in boxes.items():
        if tree.is_leaf[node]:
            words = model_equation(tree, node, max_terms=8)
            assert attributes["tooltip"] == StopReason.PRUNED.sentence
        else:
            words = split_sentence(tree, node, max_terms=8)
        label = attributes["label"]
        assert in_one_line(label) == f"[{node}] {words}"
        assert label.split("\n")[-1] == ", ".join(as_view(tree).facts(node))
        assert max(map(len, label.split("\n"))) < 80
    for (parent, child), attributes in edges.items():
        left = tree.left[parent] == child
        assert attributes["label"] == ("yes" if left else "no")
        share = tree.weight[child] / tree.weight[0]
        assert float(attributes["penwidth"]) == pytest.approx(0.5 + 5 * share, abs=0.01)


def test_deep_trees_are_cut():
    tree = random_tree(7, 20)
    boxes, edges, _ = parse(export_dot(tree, max_depth=1))
    assert sorted(boxes) == [0, 1, 2]
    assert set(edges) == {(0, 1), (0, 2)}
    cut = [node for node in (1, 2) if not tree.is_leaf[node]]
    assert cut
    for node in cut:
        assert boxes[node]["style"] == "rounded,filled,dashed"
        assert "leaves below" in boxes[node]["label"]
        assert "rings =" in boxes[node]["label"]


def test_quotes_backslashes_and_line_breaks_in_names_are_kept_apart():
    tree = random_tree(5, 6, kinds=(1,))
    names = tuple(f'a "{i}" \\n {{|}} ]; b\nc' for i in range(len(tree.schema.names)))
    schema = replace(tree.schema, names=names, target_names=('y"',))
    boxes, _, defaults = parse(export_dot(replace(tree, schema=schema)))
    assert len(boxes) == tree.n_nodes
    assert defaults["graph"]["label"].startswith('y": 6 leaves')
    words = split_sentence(replace(tree, schema=schema), 0)
    assert in_one_line(boxes[0]["label"]) == f"[0] {words}"


def test_boxes_are_coloured_by_the_mean():
    tree = random_tree(4, 8)
    level = np.arange(tree.n_nodes, dtype=float)[:, None]
    boxes, _, _ = parse(export_dot(replace(tree, mean=level)))
    viridis = matplotlib.colormaps["viridis"]
    for node, box in boxes.items():
        color = to_rgb(viridis(node / (tree.n_nodes - 1)))
        np.testing.assert_allclose(to_rgb(box["fillcolor"]), color, atol=0.06)
        assert box["fontcolor"] == ("black" if node > 8 else "white")
    (alone,) = parse(export_dot(random_tree(0, 1)))[0].values()
    assert (alone["fillcolor"], alone["fontcolor"]) == ("white", "black")
