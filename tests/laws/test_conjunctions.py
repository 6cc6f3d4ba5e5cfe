"""Conjunctive splits: found where planted, and alike wherever a tree is read."""

from __future__ import annotations

import dataclasses
import functools
import re

import numpy as np
import pandas as pd
import pytest
from configurations import refusal
from exported_code import RUNS, assert_predicts
from handmade import load_tree, save_tree
from level_batches import NodeRows, find, level_of
from random_trees import encode, random_rows, random_tree, with_conjunctions

from secret_jax import SecretClassifier, SecretRegressor
from secret_jax.data.encoding import encode as encode_with
from secret_jax.data.rows import Table
from secret_jax.inspect.code.export import export_code
from secret_jax.inspect.view import as_view
from secret_jax.inspect.words import path_sentence, split_sentence
from secret_jax.learners import ConjunctiveSplits
from secret_jax.tree import packed, routing
from secret_jax.tree.plain import with_plain_splits
from secret_jax.tree.reshape import compact, joined, separated
from secret_jax.tree.routing import apply, predict
from secret_jax.tree.structure import SplitKind, Tree, flaw_of
from secret_jax.tree.totals import split_degrees, split_numbers
from secret_jax.tree.walk import descend


def leaf_by_loops(tree: Tree, x: np.ndarray, codes: np.ndarray) -> int:
    """The leaf of a row, condition by condition, in float32 as the tree has them."""

    def meets(kind, attribute, direction, threshold, listed, node) -> bool:
        if kind == SplitKind.DISCRETE:
            code = codes[attribute]
            return bool(tree.larger_left[node] if code < 0 else listed[code])
        return bool(np.float32(direction @ x) <= threshold)

    node = 0
    while tree.left[node] >= 0:
        names = ("kind", "attribute", "direction", "threshold", "goes_left")
        places = [node]
        for place, of in enumerate(tree.further):
            places += [tree.n_nodes + place] if of == node else []
        each = [[getattr(tree, name)[place] for name in names] for place in places]
        left = all(meets(*one, node) for one in each)
        node = int((tree.left if left else tree.right)[node])
    return node


def rows_with_strangers(n_rows: int, seed: int = 0) -> Table:
    table = encode(random_rows(seed, n_rows))
    codes = table.codes.copy()
    codes[np.random.default_rng(seed).random(codes.shape) < 0.1] = -1
    return Table(table.x, codes)


def tree_of(seed: int, n_leaves: int, **options) -> Tree:
    tree = with_conjunctions(random_tree(seed, n_leaves, **options), seed)
    assert flaw_of(tree) == ""
    return tree


@pytest.mark.parametrize(("n_leaves", "kinds"), [(2, (1,)), (12, (1, 3)), (40, (1, 2))])
def test_all_routers_agree_with_plain_loops(n_leaves, kinds, monkeypatch):
    table = rows_with_strangers(600)
    monkeypatch.setattr(routing, "_SMALLEST_BLOCK", 256)
    for seed in range(2):
        tree = tree_of(seed, n_leaves, kinds=kinds)
        expected = [leaf_by_loops(tree, *row) for row in zip(*table, strict=True)]
        assert len(set(expected)) > 1
        few = [apply(tree, table.take(slice(i, i + 1)))[0] for i in range(0, 600, 50)]
        assert few == expected[::50]
        assert descend(tree, table, np.zeros(600, int), 99).tolist() == expected
        values = predict(tree, table.take(slice(0, 20)))
        with monkeypatch.context() as patch:
            patch.setattr(routing, "FEW_PAIRS", 0)
            assert apply(tree, table).tolist() == expected
            patch.setattr(packed, "_PRODUCT", 100)
            assert apply(tree, table.take(slice(0, 599))).tolist() == expected[:-1]
            patch.setattr(routing, "on_accelerator", lambda: True)
            assert apply(tree, table).tolist() == expected
            np.testing.assert_allclose(
                predict(tree, table)[:20], values, rtol=1e-4, atol=1e-4
            )


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
@pytest.mark.parametrize("n_leaves", [2, 25])
def test_exported_code_predicts_alike(run, n_leaves):
    tree = tree_of(n_leaves, n_leaves)
    names = tree.schema.names
    frame = pd.DataFrame(dict(zip(names, random_rows(1, 200), strict=True)))
    frame.loc[::7, "sex"] = "never seen"
    with pytest.warns(UserWarning, match="never"):
        expected = predict(tree, encode_with(tree.schema, frame))
    assert_predicts(run(tree, frame), expected, tree)


def test_files_cuts_and_forests_keep_the_conditions(tmp_path):
    tree, table = tree_of(3, 12), rows_with_strangers(200)
    save_tree(tree, tmp_path / "tree")
    assert np.array_equal(
        apply(load_tree(tmp_path / "tree"), table), apply(tree, table)
    )
    other = tree_of(4, 5)
    again = separated(joined([tree, other]), [tree.n_nodes, other.n_nodes])
    for one, found in zip((tree, other), again, strict=True):
        assert np.array_equal(apply(found, table), apply(one, table))
    cut = compact(tree, tree.depth < 2)
    assert flaw_of(cut) == ""
    assert not cut.is_leaf[cut.further].any()
    assert len(cut.further) == (tree.depth[tree.further] < 2).sum()
    away = tree.further + 99
    assert "of no node" in flaw_of(dataclasses.replace(tree, further=away))
    leaf = np.full_like(tree.further, np.flatnonzero(tree.is_leaf)[0])
    assert "of no node" in flaw_of(dataclasses.replace(tree, further=leaf))
    short = tree.further[1:]
    assert "shape" in flaw_of(dataclasses.replace(tree, further=short))


def test_plain_numbers_move_no_row_and_each_condition_counts():
    table = encode(random_rows(0, 2000))
    for seed in range(3):
        tree = tree_of(seed, 9, kinds=(1, 3))
        plain = with_plain_splits(tree, table)
        assert np.array_equal(apply(plain, table), apply(tree, table))
        held = np.flatnonzero(tree.kind == SplitKind.AXIS)
        held = held[held >= tree.n_nodes]
        moved = plain.threshold[held] != tree.threshold[held]
        assert moved.mean() > 0.5
        n = 1 + np.bincount(tree.further, minlength=tree.n_nodes)
        conjunction = n > 1
        assert np.array_equal(split_numbers(tree)[conjunction], n[conjunction])
        assert (split_degrees(tree)[conjunction] >= n[conjunction]).all()
        numbers = split_numbers(tree).sum()
        leaves = compact(tree, np.zeros(tree.n_nodes, bool))
        assert as_view(tree).n_numbers() > as_view(leaves).n_numbers() + numbers


# Found in data


def people(n_rows: int = 900, seed: int = 0, gaps: float = 0.1):
    """Wages by a conjunction of an age and a school, with gaps in both."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 80, n_rows).astype(float),
            "school": rng.choice(["HS", "BA", "PhD"], n_rows).astype(object),
            "hours": rng.normal(size=n_rows).round(3),
        }
    )
    both = (frame["age"] <= 40) & frame["school"].isin(["HS", "BA"])
    y = 5.0 * both + 0.1 * rng.normal(size=n_rows)
    return frame.mask(rng.random(frame.shape) < gaps), y.to_numpy()


FEW = {"leaf": "constant", "distill": False, "random_state": 0}


@pytest.mark.parametrize("classes", [False, True])
def test_a_planted_conjunction_is_found(classes):
    X, y = people(gaps=0.0)
    splits = ConjunctiveSplits(max_samples=512, max_conditions=2)
    options = {"splits": splits, "max_depth": 1, "prune": None} | FEW
    if classes:
        options["splits"], y = "conjunctive", np.where(y > 2.5, "rich", "poor")
    kind = SecretClassifier if classes else SecretRegressor
    tree = kind(**options).fit(X, y).tree_
    both = {"age <= 40", "school in {BA, HS}"}
    assert set(split_sentence(tree, 0).split(" and ")) == both
    other = {"age > 40", "school in {PhD}"}
    assert set(split_sentence(tree, 0, side="right").split(" or ")) == other


@functools.cache
def fitted() -> tuple[SecretRegressor, pd.DataFrame]:
    X, y = people()
    y = y + 2.0 * (X["hours"].fillna(1) > 0.5) * (X["age"] > 60) * X["hours"].fillna(0)
    model = SecretRegressor(
        splits="conjunctive", prune=None, max_leaf_nodes=8, distill=False
    )
    model.fit(X, y)
    assert len(set(model.tree_.further)) >= 2
    return model, people(400, seed=1, gaps=0.2)[0]


def holds(words: str, row: dict) -> bool:
    """What a path in words says of a row, knowing nothing else."""
    if words == "all rows":
        return True
    top, depth = [""], 0
    for part in re.split(r"( and |\(|\))", words):
        depth += (part == "(") - (part == ")")
        if part == " and " and depth == 0:
            top.append("")
        elif part not in "()":
            top[-1] += part
    return all(_clause(clause, row) for clause in top)


def _clause(words: str, row: dict) -> bool:
    name = ""
    for part in words.split(" or "):
        if part != "missing":
            name, sign, value = part.split(" ", 2)
        gone = pd.isna(row[name])
        if part == "missing":
            met = gone
        elif sign == "is":
            met = gone == (value == "missing")
        elif sign in ("in", "not"):
            listed = value.removeprefix("in ").strip("{}").split(", ")
            met = (("missing" if gone else row[name]) in listed) == (sign == "in")
        else:
            number = float(value.replace(",", ""))
            than = {"<=": row[name] <= number, ">": row[name] > number}
            than |= {"<": row[name] < number, ">=": row[name] >= number}
            met = than[sign] and not gone
        if met:
            return True
    return False


def test_text_and_tree_agree_on_gaps():
    model, X = fitted()
    tree = model.tree_
    leaf = apply(tree, encode_with(tree.schema, X))
    for node in np.flatnonzero(tree.is_leaf).tolist():
        words = path_sentence(tree, node)
        said = [holds(words, row) for row in X.to_dict("records")]
        assert np.array_equal(said, leaf == node), words
    assert " and " in export_code(tree)
    node = int(tree.further[0])
    words, table = split_sentence(tree, node), model.to_dataframe()
    assert " and " in words
    assert (table["kind"][node], table["split"][node]) == ("conjunction", words)
    assert words.split(" and ")[0] in model.export_text()
    assert " and " in model.export_code("dot")
    asked = model.explain(X[:20]).contributions[:, [0, 1]]
    assert (np.abs(asked).sum(axis=0) > 0).all()


def test_the_gain_is_that_of_the_two_means():
    rng = np.random.default_rng(0)
    n = 256
    x = rng.normal(size=(3, n, 4)).astype(np.float32)
    codes = rng.integers(0, 5, (3, n, 1)).astype(np.int32)
    both = (x[..., 1] > 0.2) & (codes[..., 0] < 3) & (x[..., 1] < 1.2)
    y = (3 * both + 0.3 * rng.normal(size=both.shape)).astype(np.float32)
    y = y - y.mean(axis=1, keepdims=True)
    finder = ConjunctiveSplits()
    nodes = list(map(NodeRows, x, y, codes))
    found = find(level_of(finder, nodes, n_categories=5, n_regressors=0), finder)
    assert len(found.comparisons) == 3
    for i in range(3):
        left = np.ones(n, bool)
        for one in found.comparisons:
            kind, attribute, direction, threshold, listed = (array[i] for array in one)
            assert kind != SplitKind.LEAF
            left &= (
                listed[codes[i, :, attribute]]
                if kind == SplitKind.DISCRETE
                else x[i] @ direction <= threshold
            )
        saved = sum(y[i, side].sum() ** 2 / side.sum() for side in (left, ~left))
        np.testing.assert_allclose(found.gain[i], saved, rtol=1e-3)
        assert (left == both[i]).mean() > 0.97


def test_gates_and_orders_are_refused():
    X, y = people(60)
    ordered = SecretRegressor(splits="conjunctive", monotonic_cst={"age": 1})
    with refusal("conjunctions keep no order"):
        ordered.fit(X, y)
    model = SecretRegressor(splits="conjunctive", refine="soft")
    with refusal("'tao' with these splits: a conjunction is no gate"):
        model.fit(X, y)
