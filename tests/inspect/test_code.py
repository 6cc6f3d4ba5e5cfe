"""Exported code predicts what the tree predicts, whichever tree it is."""

import dataclasses
import warnings

import numpy as np
import pandas as pd
import pytest
from exported_code import RUNS, assert_predicts
from handmade import CHAIN, SHAPES, STUMP, axis_stump, build_tree
from random_trees import random_frame, random_tree, with_gates

from secret_jax import SecretRegressor
from secret_jax.data import encoding
from secret_jax.inspect.code import program
from secret_jax.inspect.code.export import export_code
from secret_jax.inspect.code.onnx import graph
from secret_jax.losses.deviance import QuasiPoisson
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


every = pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)


@every
@pytest.mark.parametrize("n_leaves", [1, 2, 12, 40])
@pytest.mark.parametrize("clip_margin", [0.1, None])
def test_hard_trees(run, n_leaves, clip_margin):
    tree = random_tree(n_leaves, n_leaves, clip_margin=clip_margin)
    frame = strange_frame(1)
    expected = predicted(tree, frame)
    assert_predicts(run(tree, frame), expected, tree)


OF_GATES = {language: run for language, run in RUNS.items() if language != "sql"}


@pytest.mark.parametrize("run", OF_GATES.values(), ids=OF_GATES)
@pytest.mark.parametrize("clip_leaves", [True, False])
@pytest.mark.parametrize("clip_margin", [0.1, None])
def test_soft_trees(run, clip_leaves, clip_margin):
    tree = with_gates(random_tree(3, 12, clip_margin=clip_margin))
    tree = dataclasses.replace(tree, clip_leaves=clip_leaves)
    frame = strange_frame(2)
    expected = predicted(tree, frame)
    assert_predicts(run(tree, frame), expected, tree)


def test_gates_are_no_sql():
    with pytest.raises(ValueError, match=r"harden\(\)"):
        export_code(with_gates(random_tree(3, 12)), "sql")


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
    assert 'AS "it\'s"' in export_code(tree, "sql", function_name="it's", table="t")
    assert 'FROM "t"' in export_code(tree, "sql", table="t")
    assert 'FROM "' not in export_code(tree, "sql")  # a table is the user's to name
    assert "FROM" not in export_code(build_tree(CHAIN, seed=0, clip_margin=None), "sql")


def test_a_sum_is_written_once_however_it_is_clipped():
    free, clipped = (
        export_code(build_tree(CHAIN, seed=0, clip_margin=margin), "sql")
        for margin in (None, 0.1)
    )
    for column in ('"a"', '"b"'):
        assert clipped.count(column) == free.count(column) > 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"language": "cobol"},
            "language is 'cobol'; choose 'python' or 'sql'",
        ),
        ({"function_name": "a b"}, "function_name is 'a b'"),
        ({"function_name": "class"}, "function_name is 'class'"),
        ({"function_name": "tree_0"}, "'tree_0', which the function itself uses"),
        ({"function_name": "clip"}, "'clip', which the function itself uses"),
        ({"function_name": "\uff4din"}, "'min', which the function itself uses"),
        ({"table": "t"}, "a function reads no table"),
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


def test_what_an_unknown_category_counts_as_is_asked_at_one_place(monkeypatch):
    """Were it a quarter of each of four levels, the mean of what these say."""
    levels, rng = np.array(list("abcd")), np.random.default_rng(0)
    X = pd.DataFrame({"code": rng.choice(levels, 300), "x": rng.normal(size=300)})
    y = X["code"].map(dict(a=10.0, b=-7.0, c=3.0, d=22.0)) + 2.0 * X["x"]
    tree = SecretRegressor(max_depth=0).fit(X, y).tree_
    known = pd.DataFrame({"code": levels, "x": 0.3})
    expected = predicted(tree, known)
    quarters = np.full(tree.schema.n_columns, 0.25)
    for module in (program, graph):
        monkeypatch.setattr(module, "unknown_values", lambda schema: quarters)
    for run in RUNS.values():
        found = run(tree, known)
        np.testing.assert_allclose(found, expected, atol=1e-4)
        unseen = run(tree, known.assign(code="never seen"))
        np.testing.assert_allclose(unseen, expected.mean(), atol=1e-4)


def test_onnx_refuses_to_take_empty_texts_for_missing_ones():
    pytest.importorskip("onnx")
    X = pd.DataFrame({"text": np.array(["", "u", None] * 60, object)})
    model = SecretRegressor(leaf="constant").fit(X, np.tile([0.0, 5.0, 9.0], 60))
    with pytest.raises(TypeError, match="cannot tell apart"):
        model.to_onnx()
    model.fit(X, np.tile([0.0, 5.0, 0.0], 60))
    assert model.to_onnx().graph.input[0].name == "text"
