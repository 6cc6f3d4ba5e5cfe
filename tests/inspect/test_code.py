"""Exported code predicts what the tree predicts: any tree, and at its edges."""

from __future__ import annotations

import dataclasses
import warnings
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd
import pytest
from exported_code import RUNS, assert_predicts, run_onnx
from handmade import CHAIN, SHAPES, STUMP, axis_stump, build_tree
from random_trees import random_frame, random_tree, with_gates

from secret_jax import SecretBoostingRegressor, SecretRegressor
from secret_jax.data import encoding
from secret_jax.datasets import load
from secret_jax.inspect.code.export import export_code
from secret_jax.inspect.code.program import (
    exact_conditions,
    exact_equation,
    plain_category,
)
from secret_jax.inspect.equations import LinearSplit
from secret_jax.losses.numbers import QuasiPoisson
from secret_jax.tree.routing import predict
from secret_jax.tree.structure import SplitKind, Tree


def strange_frame(seed: int) -> pd.DataFrame:
    frame = random_frame(seed, 300)
    frame.loc[::7, "sex"] = "never seen"
    return frame


def predicted(tree: Tree, frame: pd.DataFrame) -> np.ndarray:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return predict(tree, encoding.encode(tree.schema, frame))


OF_GATES = {language: run for language, run in RUNS.items() if language != "sql"}
every = pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)


@every
@pytest.mark.parametrize("n_leaves", [1, 2, 12, 40])
@pytest.mark.parametrize("clip_margin", [0.1, None])
def test_hard_trees_and_gates(run, n_leaves, clip_margin):
    hard = random_tree(n_leaves, n_leaves, clip_margin=clip_margin)
    frame = strange_frame(1)
    assert_predicts(run(hard, frame), predicted(hard, frame), hard)
    soft = with_gates(hard)
    if soft.is_soft and run is RUNS["sql"]:
        with pytest.raises(ValueError, match=r"smaller\(gates=False\)"):
            run(soft, frame)
        return
    for clip_leaves in (True, False):
        tree = dataclasses.replace(soft, clip_leaves=clip_leaves)
        assert_predicts(run(tree, frame), predicted(tree, frame), tree)


@every
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_splits_on_one_column_change_sides_at_the_same_number(run, sign):
    schema = dataclasses.replace(
        build_tree(STUMP, seed=0).schema,
        center=np.array([0.7, 0.0]),
        scale=np.array([0.3, 1.0]),
    )
    leaves = np.array([[[0.0, 0]], [[1, 0]], [[2, 0]]])
    tree = axis_stump(0, 0.1, sign, schema=schema, coefficient=leaves)
    # Neighbours of the threshold, as dense as float64 has them and less so.
    near = 0.7 + 0.3 * sign * float(np.float32(0.1))
    a = near + np.concatenate([np.arange(-500, 500) * 2.0**-k for k in (53, 36, 30)])
    frame = pd.DataFrame({"colour": "red", "a": a, "b": 0.0})
    expected = predicted(tree, frame)
    assert len(set(expected)) == 2
    assert np.array_equal(run(tree, frame), expected)


def test_long_chains_and_large_trees_compile():
    links = [(1, 2)]
    for node in range(1, 301, 2):
        links += [(-1, -1), (node + 2, node + 3)]
    links[-1] = (-1, -1)
    tree = build_tree(links, seed=0, clip_margin=0.1)
    frame = pd.DataFrame({"colour": ["red", "blue"], "a": [0.1, 1.2], "b": [2.0, -1.0]})
    for run in RUNS.values():
        assert_predicts(run(tree, frame), predicted(tree, frame), tree)
    deepest = max(len(s) - len(s.lstrip()) for s in export_code(tree).splitlines())
    assert deepest <= 4 * 12


# Equal in the form in which Python reads names; no letters; what the code itself uses.
STRANGE_NAMES = {
    "one name": ("\u00b5", "b", "\u03bc", "\ufb01", "fi", "e\u0301", "\u00e9"),
    "no names": ("area m²", "CO₂", "½ share", "2nd", "", "²", "\u2118\u00b7"),
    "helpers": ("gate", "clip", "missing", "number", "float", "exp", "total"),
    "more helpers": ("row", "columns", "max", "x_missing", "x", "predict", "None"),
    "syntax": ("class", "min", 'a "quoted"', "tree_1", "x-y", "x_y", "left_0"),
    "of the query": ("leaf", "value", "tree_leaf", "tree_", "a + -b", "it's", "y"),
}


@pytest.mark.parametrize("names", STRANGE_NAMES)
def test_any_name_of_a_column(names):
    tree, frame = random_tree(5, 12), strange_frame(5)
    frame.iloc[::5, [0, 2, 4]] = np.nan
    renamed = frame.set_axis(list(STRANGE_NAMES[names]), axis=1)
    for made in (tree, with_gates(tree)):
        expected = predicted(made, frame)
        schema = dataclasses.replace(made.schema, names=STRANGE_NAMES[names])
        made = dataclasses.replace(made, schema=schema)
        for language, run in (OF_GATES if made.is_soft else RUNS).items():
            if language not in ("sql", "onnx") or "" not in renamed:
                assert_predicts(run(made, renamed), expected, made)


def test_keyword_arguments_and_the_name_of_the_function():
    tree = build_tree(CHAIN, seed=0)
    scope: dict = {}
    exec(export_code(tree, function_name="price_of"), scope)
    row = {"colour": "red", "a": 0.5, "b": -0.5}
    value = scope["price_of"](**row)
    assert isinstance(value, float)
    assert scope["price_of"](row | {"unused": None}) == value
    query = export_code(tree, "sql", function_name="it's", table="t")
    assert 'AS "it\'s"' in query
    assert 'FROM "t"' in query


def test_a_sum_is_written_once_however_it_is_clipped():
    free, clipped = (
        export_code(build_tree(CHAIN, seed=0, clip_margin=margin), "sql")
        for margin in (None, 0.1)
    )
    for column in ('"a"', '"b"'):
        assert clipped.count(column) == free.count(column) > 0
    assert "FROM" not in free
    assert 'FROM "' not in clipped  # a table is the user's to name


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"language": "cobol"}, "language is 'cobol'; choose 'python', 'sql'"),
        ({"function_name": "a b"}, "function_name is 'a b'"),
        ({"function_name": "class"}, "function_name is 'class'"),
        ({"function_name": "tree_0"}, "'tree_0', which the function itself uses"),
        ({"function_name": "clip"}, "'clip', which the function itself uses"),
        ({"function_name": "\uff4din"}, "'min', which the function itself uses"),
        ({"table": "t"}, "'t', which says nothing to 'python'"),
    ],
)
def test_wrong_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        export_code(build_tree(STUMP, seed=0), **options)


class Odds(QuasiPoisson):
    """Loss of one's own whose values are log-odds of a share."""

    link = "softmax"


class Cut(QuasiPoisson):
    """Loss of one's own whose values are cut at 0 and 1."""

    link = "clip"


@every
@pytest.mark.parametrize("loss", [QuasiPoisson(), Odds(), Cut()], ids=repr)
def test_a_link_is_undone(run, loss):
    tree = build_tree(SHAPES["bushy"], seed=3, clip_margin=0.1)
    schema = dataclasses.replace(
        tree.schema, target_centers=(0.0,), target_scales=(1.0,)
    )
    tree = dataclasses.replace(tree, schema=schema, loss=loss)
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"colour": "red", "a": rng.normal(size=50), "b": 0.3})
    expected = predicted(tree, frame)
    assert (expected >= 0).all()
    assert expected.std() > 0
    assert_predicts(run(tree, frame), expected, tree)


def test_categories_without_a_literal_are_named():
    tree = random_tree(0, 6, kinds=(SplitKind.DISCRETE,))
    dates = tuple(pd.Timestamp(2020, 1, day) for day in range(1, 13))
    schema = dataclasses.replace(tree.schema, categories=(dates[:3], dates))
    with pytest.raises(TypeError, match=r"has the category Timestamp\("):
        export_code(dataclasses.replace(tree, schema=schema))
    with pytest.raises(TypeError, match="category inf, a float, which cannot"):
        plain_category(np.inf, "x")


def test_a_tensor_holds_categories_of_one_kind_and_no_empty_texts_beside_gaps():
    pytest.importorskip("onnx")
    for values, message in (
        (["a", 1.0, "a"], "has texts and numbers as categories"),
        (["", "u", None], "cannot tell apart"),
    ):
        X = pd.DataFrame({"text": np.array(values * 60, object)})
        model = SecretRegressor(leaf="constant").fit(X, np.tile([0.0, 5.0, 9.0], 60))
        with pytest.raises(TypeError, match=message):
            model.export_code("onnx")
    model.fit(X, np.tile([0.0, 5.0, 0.0], 60))
    assert model.export_code("onnx").graph.input[0].name == "text"


def mixed_table() -> tuple[pd.DataFrame, np.ndarray]:
    rng, n = np.random.default_rng(5), 400
    sizes = pd.CategoricalDtype(["s", "m", "l"], ordered=True)
    X = pd.DataFrame(
        {
            "fenced": rng.random(n) < 0.5,
            "size": pd.Series(rng.choice(["s", "m", "l", None], n), dtype=sizes),
            "zip": rng.choice(["a", "it's", "10"], n),
            "kind": rng.choice([0.0, 1.0, 2.5], n),
            "area": rng.normal(100.0, 20.0, n).round(1),
            "sold": pd.Timestamp("2020-01-01")
            + pd.to_timedelta(rng.integers(0, 900, n), "D"),
        }
    )
    y = (1.0 + X["fenced"]) * X["area"] / 40.0 + 3.0 * (X["zip"] == "10")
    y += 2.0 * (X["kind"] == 1.0) + 4.0 * (X["size"] == "l")
    y += 3.0 * (X["sold"].dt.month > 6)
    X.loc[rng.random(n) < 0.1, "area"] = np.nan
    return X, y.fillna(5.0).to_numpy() + rng.normal(0.0, 0.3, n)


def edge_rows(tree: Tree, X: pd.DataFrame, n: int = 150) -> pd.DataFrame:
    """Rows with cells at thresholds and bounds, far away, missing and unseen."""
    rng, schema, leaves = np.random.default_rng(1), tree.schema, tree.is_leaf
    marks: dict[str, list[Any]] = {}
    every = [exact_conditions(tree, node) for node in np.flatnonzero(~leaves).tolist()]
    sums = [one for one in chain(*every) if isinstance(one, LinearSplit)]
    for split in sums:
        first, *others = split.terms
        at, found = split.threshold, marks.setdefault(first.name, [])
        if not others:
            found += [at, np.nextafter(at, np.inf), np.nextafter(at, -np.inf)]
    nodes = np.flatnonzero(leaves).tolist()
    models = [exact_equation(tree, node) for node in nodes]
    for term in (term for part in (*sums, *models) for term in part.terms):
        ends = [end for end in (term.low, term.high) if np.isfinite(end)]
        marks.setdefault(term.name, []).extend(ends)
    picked = X.iloc[rng.integers(len(X), size=n)].reset_index(drop=True)
    columns = dict(zip(schema.names, schema.columns_of(picked), strict=True))
    for position, (name, column) in enumerate(columns.items()):
        _, part, levels = schema.origin(position)
        cells, odd = np.array(column, object), [*marks.get(name, []), 1e12, -1e12, 0.0]
        if levels:
            cells = np.array([None if v != v else levels[int(v)] for v in column])
            odd = ["never seen"]
        elif position in schema.discrete:
            known = schema.categories[schema.discrete.index(position)]
            odd = {str: ["never seen"], float: [0.0, 7.0], bool: []}[type(known[0])]
        odd = [*odd, None] if schema.allow_missing or not odd else odd
        for row in np.flatnonzero(rng.random(n) < (0.0 if part else 0.25)):
            cells[row] = odd[rng.integers(len(odd))]
        texts = levels or position in schema.discrete
        columns[name] = cells if texts else cells.astype(float)
    return pd.DataFrame(columns)


@pytest.mark.parametrize(
    "name",
    [
        "mixed",
        *(pytest.param(n, marks=pytest.mark.data) for n in ("bikeshare", "servo")),
    ],
)
def test_programs_and_predict_agree_at_edges(name, request):
    if name == "mixed":
        X, y = mixed_table()
        kinds = {"categorical_features": ["kind"]}
    else:
        data, kinds = load(name, request.getfixturevalue("data_home")), {}
        kept = np.random.default_rng(0).permutation(len(data.y))[:500]
        X, y = pd.DataFrame(data.X).iloc[kept], np.asarray(data.y)[kept]
    tree = SecretRegressor(max_leaf_nodes=8, **kinds).fit(X, y).tree_
    assert tree.n_leaves > 2
    frame = edge_rows(tree, X)
    expected = predicted(tree, frame)
    for run in RUNS.values():
        assert_predicts(run(tree, frame), expected, tree)


def test_a_booster_agrees_at_edges():
    X, y = mixed_table()
    X = X.drop(columns="sold")
    options = {"max_iter": 3, "max_leaf_nodes": 4, "ensemble": False}
    model = SecretBoostingRegressor(**options).fit(X, y)
    trees = model.ensemble_.boosters[0]
    frame = pd.concat([edge_rows(tree, X, 40) for tree in trees])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = model.predict(frame)
    (found,) = run_onnx(model.export_code("onnx"), frame)
    np.testing.assert_allclose(found, expected, atol=1e-5 * y.std())
