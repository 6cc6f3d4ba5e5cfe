"""The DOT text: well formed, complete, and with the links of the tree."""

import re
from dataclasses import replace

import pytest
from random_trees import random_tree

from secret_jax.inspect.code.export import export_code
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
    boxes, edges, defaults = parse(export_code(tree, "dot"))
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


def test_quotes_backslashes_and_line_breaks_in_names_are_kept_apart():
    tree = random_tree(5, 6, kinds=(1,))
    names = tuple(f'a "{i}" \\n {{|}} ]; b\nc' for i in range(len(tree.schema.names)))
    schema = replace(tree.schema, names=names, target_names=('y"',))
    boxes, _, defaults = parse(export_code(replace(tree, schema=schema), "dot"))
    assert len(boxes) == tree.n_nodes
    assert defaults["graph"]["label"].startswith('y": 6 leaves')
    words = split_sentence(replace(tree, schema=schema), 0)
    assert in_one_line(boxes[0]["label"]) == f"[0] {words}"
