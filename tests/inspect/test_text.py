"""The printed tree: it says what the tree does, in the units of the data."""

import re
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from random_trees import NAMES, TOWNS, encode, random_rows, random_tree

from secret_jax import SecretRegressor
from secret_jax.inspect.code.export import export_code
from secret_jax.inspect.equations import (
    LinearSplit,
    conditions_at,
    model_in_original_units,
    rounded_split,
)
from secret_jax.inspect.tables import to_dataframe
from secret_jax.inspect.text import export_text
from secret_jax.inspect.view import as_view
from secret_jax.inspect.words import Wording, model_parts, split_sentence
from secret_jax.tree.routing import apply, predict
from secret_jax.tree.structure import SplitKind, StopReason, Tree

_NUMBER = r"\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?"
_TERM = re.compile(
    rf"([+-]?) ?(?:({_NUMBER}) )?(?:@(\d)|\(@(\d) ([+-]) ({_NUMBER})\))"
    rf"|([+-]?) ?({_NUMBER})"
)


def value_of(text: str) -> float:
    """A printed number; thousands are set apart."""
    return float(text.replace(",", ""))


def sum_of_terms(text: str, columns: list[np.ndarray]) -> np.ndarray:
    """What a printed sum is worth in every row; ``@3`` stands for column 3."""
    total = np.zeros(len(columns[0]))
    for term in _TERM.finditer(text):
        sign, factor, lone, moved, to, by, before, constant = term.groups()
        value = value_of(factor or constant or "1")
        if "-" in (sign, before):
            value = -value
        if lone or moved:
            column = columns[int(lone or moved)].astype(float)
            if moved:
                column = column + value_of(by) * (-1 if to == "-" else 1)
            total += value * column
        else:
            total += value
    return total


def holds(condition: str, columns: list[np.ndarray]) -> np.ndarray:
    """Rows for which a printed condition is true."""
    if " in " in condition:
        name, listed = re.fullmatch(r"@(\d)(?: not)? in \{(.*)\}", condition).groups()
        within = np.isin(columns[int(name)].astype(str), listed.split(", "))
        return ~within if " not in " in condition else within
    left, sign, right = re.fullmatch(r"(.*) (<=|>=|<|>) (.*)", condition).groups()
    compare = {"<=": np.less_equal, ">=": np.greater_equal, "<": np.less}
    return compare.get(sign, np.greater)(sum_of_terms(left, columns), value_of(right))


def predict_by_text(text: str, columns: list[np.ndarray]) -> np.ndarray:
    """Follow the printed tree, knowing nothing else."""
    for name in sorted(NAMES, key=len, reverse=True):
        for printed in (repr(name), name):
            text = re.sub(
                rf"(?<![\w']){re.escape(printed)}(?![\w'])",
                f"@{NAMES.index(name)}",
                text,
            )
    result = np.full(len(columns[0]), np.nan)
    way: list[np.ndarray] = [np.ones(len(columns[0]), bool)]
    last: dict[int, str] = {}
    statements: list[str] = []
    for line in text.split("\n\n", 1)[1].splitlines():
        indent, body = re.fullmatch(r"((?:\|   )*)(.*)", line).groups()
        if body.startswith("["):
            statements.append(f"{len(indent) // 4} {body}")
        elif "rows (" in body:
            statements[-1] += " ;" + body
        else:
            statements[-1] += " " + body.strip()
    for statement in statements:
        level, node, body = re.fullmatch(r"(\d+) \[(\d+)\] (.*)", statement).groups()
        way = way[: int(level) + 1]
        if body.startswith("if "):
            last[int(node)] = body[3:]
            way.append(way[-1] & holds(body[3:], columns))
        elif body.startswith("else "):
            condition = body[5:]
            if condition.startswith("("):  # only the comparison is repeated
                total = re.split(r" [<>]=", last[int(node)])[0]
                condition = f"{total} {condition[1:-1]}"
            way.append(way[-1] & holds(condition, columns))
        else:
            equation, facts = body.removeprefix("rings = ").split(" ;")
            value = sum_of_terms(equation, columns)
            clip = re.search(r"clipped to \[(.*), (.*)\]", facts)
            if clip:
                value = np.clip(value, *map(value_of, clip.groups()))
            assert np.isnan(result[way[-1]]).all(), "two leaves for one row"
            result[way[-1]] = value[way[-1]]
    return result


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("clip_margin", [0.1, None])
@pytest.mark.parametrize("max_categories", [None, 6])
def test_text_with_all_digits_predicts_like_the_tree(seed, clip_margin, max_categories):
    tree = random_tree(seed, 12, clip_margin=clip_margin)
    columns = random_rows(seed, 300)
    text = export_text(tree, precision=16, max_categories=max_categories)
    assert "more}" not in text  # one side of twelve is always short enough
    expected = predict(tree, encode(columns))
    np.testing.assert_allclose(predict_by_text(text, columns), expected, atol=1e-4)


def test_default_rounding_is_negligible_and_more_digits_deviate_less():
    tree, columns = random_tree(3, 8, kinds=(3,)), random_rows(3, 500)  # no thresholds
    expected = predict(tree, encode(columns))
    deviations = []
    for precision in (1, None, 5):
        text = export_text(tree, precision=precision, max_categories=None)
        deviation = np.abs(predict_by_text(text, columns) - expected)
        deviations.append(deviation.max() / tree.schema.target_scale)
    assert all(b < a / 4 for a, b in pairwise(deviations))
    assert deviations[1] < 0.007


def linear_tree(direction, threshold, coefficient=(0, 0, 0, 0, 0), **changes) -> Tree:
    """Two leaves under a split on continuous attributes."""
    tree = random_tree(0, 2, kinds=(SplitKind.OBLIQUE,))
    directions = np.zeros_like(tree.direction)
    directions[0] = direction
    thresholds = np.array([threshold, 0, 0], np.float32)
    coefficients = np.tile(np.asarray(coefficient, float), (3, 1, 1))
    return replace(
        tree,
        direction=directions,
        threshold=thresholds,
        coefficient=coefficients,
        **changes,
    )


def test_oblique_split_begins_with_the_largest_effect_and_a_factor_of_one():
    tree = linear_tree([-0.5, 2, 0, 0, 0], 0.25)
    # 2 (w - 1990)/8 - 0.5 (l - 0.52)/0.12 <= 0.25, times 8/2.
    assert split_sentence(tree, 0) == "shell weight - 16.6667 length <= 1982.333316"
    negative = linear_tree([0, -2, 0, 0, 0], 0.25)  # turns the inequality round
    for side, words in (("left", ">= 1989"), ("right", "< 1989")):
        assert split_sentence(negative, 0, side) == f"shell weight {words}"


def test_a_rounded_gate_is_right_at_the_center_and_may_leave_out_a_term():
    tree = linear_tree([0.3, -0.7, 0.2, 1e-5, 0.111], 0.3)
    tree = replace(tree, gate_width=np.array([0.5, 0, 0], np.float32))
    (exact,) = conditions_at(tree, 0)
    assert isinstance(exact, LinearSplit)
    rounded = rounded_split(exact, 2)
    assert len(rounded.terms) == len(exact.terms) - 1
    slack, rounded_slack = (
        split.threshold - sum(term.factor * term.center for term in split.terms)
        for split in (exact, rounded)
    )
    assert abs(rounded_slack - slack) < 0.002 * exact.terms[0].spread


def discrete_tree(left: list[int], attribute: int) -> Tree:
    tree = random_tree(0, 2, kinds=(SplitKind.DISCRETE,))
    goes_left = np.zeros_like(tree.goes_left)
    goes_left[0, left] = True
    return replace(
        tree, goes_left=goes_left, attribute=np.array([attribute, -1, -1], np.int32)
    )


@pytest.mark.parametrize(
    ("left", "max_categories", "yes", "no"),
    [
        (range(1, 12), 8, "not in {town0}", "in {town0}"),
        (range(6), 2, "in {town0, town1, ... 4 more}", "in {town6, town7, ... 4 more}"),
        (range(11), None, f"in {{{', '.join(TOWNS[:11])}}}", "in {town11}"),
    ],
)
def test_the_shorter_of_two_lists_of_categories(left, max_categories, yes, no):
    tree = discrete_tree([*left], 1)
    for side, words in (("left", yes), ("right", no)):
        said = split_sentence(tree, 0, side, max_categories=max_categories)
        assert said == f"place {words}"


def test_categories_that_cannot_reach_a_node_are_not_listed():
    tree = random_tree(0, 3, kinds=(SplitKind.DISCRETE,))
    inner = np.flatnonzero(~tree.is_leaf)
    child = int(inner[1])
    goes_left = np.zeros_like(tree.goes_left)
    first_goes_left = tree.left[0] == child
    goes_left[0, [0, 1] if first_goes_left else [2]] = True  # F and I reach the child
    goes_left[child, [0, 2]] = True
    attribute = np.where(tree.is_leaf, -1, 0).astype(np.int32)
    tree = replace(tree, goes_left=goes_left, attribute=attribute)
    assert split_sentence(tree, child) == "sex in {F}"
    assert split_sentence(tree, child, side="right") == "sex in {I}"


def test_breaks_in_names_and_categories_break_no_line():
    place = np.resize(["a\nb", "c", "d"], 300)
    X = pd.DataFrame({"Area\n(m2)": np.arange(300.0) % 17, "Kind\nof house": place})
    y = np.select([place == "c", place == "d"], [1.0, 2.0], 5.0) + X["Area\n(m2)"]
    model = SecretRegressor(max_depth=0).fit(X, y)
    text = model.export_text()
    assert r"['Kind\nof house' = c]" in text
    assert r"'Area\n(m2)'" in text
    assert len(text.split("\n\n")[1].splitlines()) == 2  # equation, facts
    summary = str(model.summary())
    assert r"['Kind\nof house' = c]" in summary
    assert summary.startswith("Area (m2): 1 leaf, depth 0\n")


def test_max_depth_shows_the_models_of_the_last_level():
    tree = random_tree(5, 12)
    text = export_text(tree, max_depth=1)
    nodes = {int(node) for node in re.findall(r"^\|   \[(\d+)\] rings", text, re.M)}
    assert nodes == {int(tree.left[0]), int(tree.right[0])}
    below = sum(int(n) for n in re.findall(r"\.\.\. (\d+) lea(?:f|ves) below", text))
    alone = sum(bool(tree.is_leaf[node]) for node in nodes)
    assert below + alone == tree.n_leaves


def test_leaves_have_no_split_and_unknown_nodes_nothing():
    tree = random_tree(0, 2)
    with pytest.raises(ValueError, match="Node 1 is a leaf"):
        conditions_at(tree, 1)
    with pytest.raises(ValueError, match="Node 3 does not exist"):
        model_in_original_units(tree, 3)


@pytest.mark.parametrize("loss", ["squared", "poisson"])
def test_one_target_alone_is_told(loss):
    X = np.arange(40.0)[:, None]
    model = SecretRegressor(loss=loss, max_leaf_nodes=1).fit(X, np.full(40, 3.0))
    assert "mean 3, " in model.export_text()


_VALUE = r'"((?:[^"\\]|\\.)*)"|([\w.]+)'


def parse(text: str):
    """Boxes, edges and defaults with their attributes; fails on anything else."""
    first, *statements, last = text.rstrip("\n").split("\n")
    assert (first, last) == ("digraph tree {", "}")
    found = {}
    for statement in statements:
        start, end, rest = re.fullmatch(
            r"    (\w+)(?: -> (\d+))? \[(.*)\];", statement
        ).groups()
        assert re.sub(rf"\w+=(?:{_VALUE})(?:, |$)", "", rest) == "", statement
        found[start if end is None else (int(start), int(end))] = {
            name: re.sub(r"\\(.)", lambda m: "\n" if m[1] == "n" else m[1], text)
            or word
            for name, text, word in re.findall(rf"(\w+)=(?:{_VALUE})", rest)
        }
    edges = {key: one for key, one in found.items() if isinstance(key, tuple)}
    boxes = {int(key): one for key, one in found.items() if str(key).isdecimal()}
    return boxes, edges, found["graph"]


def in_one_line(label: str) -> str:
    return " ".join(label.split("\n")[:-1])


@pytest.mark.parametrize("n_leaves", [1, 2, 9, 25])
def test_every_node_and_every_link_is_there(n_leaves):
    tree = random_tree(n_leaves, n_leaves)
    boxes, edges, graph = parse(export_code(tree, "dot"))
    assert sorted(boxes) == list(range(tree.n_nodes))
    assert set(edges) == {(int(tree.parent[n]), n) for n in range(1, tree.n_nodes)}
    assert graph["rankdir"] == "TB"
    assert graph["label"].startswith(f"rings: {n_leaves} lea")
    for node, attributes in boxes.items():
        if tree.is_leaf[node]:
            equation = model_in_original_units(tree, node)
            words = " ".join(model_parts(equation, Wording(max_terms=8)))
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
    boxes, _, graph = parse(export_code(replace(tree, schema=schema), "dot"))
    assert len(boxes) == tree.n_nodes
    assert graph["label"].startswith('y": 6 leaves')
    words = split_sentence(replace(tree, schema=schema), 0)
    assert in_one_line(boxes[0]["label"]) == f"[0] {words}"


def test_following_the_table_is_following_the_tree():
    tree = random_tree(11, 12, kinds=(SplitKind.AXIS, SplitKind.DISCRETE))
    columns = random_rows(5, 200)
    table = to_dataframe(tree).to_dict("list")
    names = list(tree.schema.names)

    def next_node(node, row):
        value = columns[names.index(table["attribute"][node])][row]
        if table["kind"][node] == "axis":
            left = value <= table["threshold"][node]
        else:
            codes = tree.schema.categories[tree.attribute[node]]
            left = tree.goes_left[node, codes.index(value)]
        return table["left" if left else "right"][node]

    reached = []
    for row in range(200):
        node = 0
        while table["kind"][node] != "leaf":
            child = next_node(node, row)
            assert table["parent"][child] == node
            assert table["depth"][child] == table["depth"][node] + 1
            node = child
        reached.append(node)
    np.testing.assert_array_equal(reached, apply(tree, encode(columns)))
