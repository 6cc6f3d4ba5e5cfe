"""Exported code goes where `predict` goes: at thresholds, far off, unseen, missing."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from exported_code import RUNS, assert_predicts, run_onnx, run_python

from secret_jax import SecretBoostingRegressor, SecretRegressor
from secret_jax.data import encoding
from secret_jax.datasets import load
from secret_jax.inspect.code.export import export_code
from secret_jax.inspect.code.program import plain_category, program_of
from secret_jax.inspect.equations import LinearSplit
from secret_jax.tree.routing import predict
from secret_jax.tree.structure import Tree


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
    rng, schema, program = np.random.default_rng(1), tree.schema, program_of([tree])
    marks: dict[str, list[Any]] = {}
    every = [one for conditions in program.splits.values() for one in conditions]
    sums = [one for one in every if isinstance(one, LinearSplit)]
    for split in sums:
        first, *others = split.terms
        at, found = split.threshold, marks.setdefault(first.name, [])
        if not others:
            found += [at, np.nextafter(at, np.inf), np.nextafter(at, -np.inf)]
    models = [model for (model,) in program.models.values()]
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
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = predict(tree, encoding.encode(tree.schema, frame))
    for run in RUNS.values():
        assert_predicts(run(tree, frame), expected, tree)


def test_numbers_beside_a_whole_one_go_where_predict_sends_them():
    hours = np.tile(np.arange(8.0), 50)
    y = np.where(hours <= 3, 1.0, 5.0)
    X = pd.DataFrame({"hours": hours})
    model = SecretRegressor(leaf="constant", oblique=False).fit(X, y)
    assert "hours <= 3\n" in model.export_text()
    near = [3.0, 0.1 * 30, np.nextafter(3.0, 9.0), 3.0 + 1e-9, 3.0 - 1e-9, 3.01]
    frame = pd.DataFrame({"hours": near})
    expected = model.predict(frame)
    assert expected[:3].tolist() == [expected[0]] * 3
    for run in RUNS.values():
        assert_predicts(run(model.tree_, frame), expected, model.tree_)


def test_truth_values_are_zero_and_one():
    flags = np.tile([False, True], 60)
    for given in (flags, 1.0 * flags):
        X, y = pd.DataFrame({"flag": given}), 3.0 + 4.0 * flags
        model = SecretRegressor(categorical_features=["flag"], leaf="constant")
        tree = model.fit(X, y).tree_
        rows = [{"flag": flag} for flag in (True, 1, False, 0)]
        found = run_python(export_code(tree), rows)
        np.testing.assert_allclose(found, [7.0, 7.0, 3.0, 3.0], atol=1e-4)


def test_infinite_categories_are_refused():
    with pytest.raises(TypeError, match="category inf, a float, which cannot"):
        plain_category(np.inf, "x")


def test_categories_of_one_kind_only_go_into_a_tensor():
    X = pd.DataFrame({"code": np.array(["a", 1.0] * 60, object)})
    model = SecretRegressor(leaf="constant").fit(X, np.tile([0.0, 5.0], 60))
    with pytest.raises(TypeError, match="has texts and numbers as categories"):
        model.to_onnx()


def test_a_booster_at_edges():
    X, y = mixed_table()
    X = X.drop(columns="sold")
    model = SecretBoostingRegressor(max_iter=3, max_leaf_nodes=4, ensemble=False).fit(
        X, y
    )
    frame = X.head(40).astype({"size": object})
    frame.loc[::3, "area"], frame.loc[::4, "zip"] = np.nan, "never seen"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = model.predict(frame)
    (found, *_) = run_onnx(model.to_onnx(), frame)
    np.testing.assert_allclose(found, expected, atol=1e-5 * y.std())
