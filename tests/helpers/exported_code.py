"""Predictions by exported code, which needs nothing of this package to run."""

from __future__ import annotations

import math
import sqlite3
from contextlib import closing
from typing import Any

import numpy as np
import pandas as pd
import pytest

from secret_jax.inspect.code.export import export_code
from secret_jax.tree.structure import Tree

# What `export_code` promises, in deviations of the target: hard trees, and gates.
HARD, SOFT = 3e-5, 3e-4


def assert_predicts(found: np.ndarray, expected: np.ndarray, tree: Tree) -> None:
    """The code predicts what the tree predicts, as nearly as is promised."""
    most = (SOFT if tree.is_soft else HARD) * tree.schema.target_scale
    np.testing.assert_allclose(found, expected, rtol=0, atol=most)


def by_python(tree: Tree, frame: pd.DataFrame, **options) -> np.ndarray:
    days = " (days since 1970)"
    dates = {
        name.removesuffix(days): pd.to_datetime(frame[name], unit="D")
        for name in map(str, frame)
        if name.endswith(days)
    }
    rows = frame.assign(**dates).to_dict("records")
    return run_python(export_code(tree, **options), rows)


def by_sql(tree: Tree, frame: pd.DataFrame, **options) -> np.ndarray:
    found = by_sqlite(frame, export_code(tree, "sql", table="some rows", **options))
    assert list(found)[:-1] == list(frame)
    return found.iloc[:, -1].to_numpy()


def by_sqlite(frame: pd.DataFrame, query: str) -> pd.DataFrame:
    """Result of a query on the rows as a table "some rows"."""
    with closing(sqlite3.connect(":memory:")) as connection:
        # It may be built without mathematical functions.
        connection.create_function("EXP", 1, math.exp)
        frame.to_sql("some rows", connection, index=False)
        return pd.read_sql(query, connection)


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows of plain values, with None for those that are missing."""
    kept = frame.astype(object).where(frame.notna(), None)
    return kept.to_dict("records")


def run_python(code: str, rows: list[dict[str, Any]]) -> np.ndarray:
    """Predictions of rows by Python."""
    scope: dict = {}
    exec(code, scope)
    return np.array([scope["predict"](row) for row in rows])


def by_onnx(tree: Tree, frame: pd.DataFrame) -> np.ndarray:
    return run_onnx(export_code(tree, "onnx"), frame)[0]


def run_onnx(model: Any, frame: pd.DataFrame) -> list[np.ndarray]:
    """Results of a graph by onnxruntime."""
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    feed = {}
    for each in session.get_inputs():
        if each.name == "X":
            feed["X"] = frame.to_numpy(float)
        elif each.type == "tensor(string)":
            feed[each.name] = frame[[each.name]].astype(object).fillna("").to_numpy()
        else:
            feed[each.name] = frame[[each.name]].astype(float).to_numpy()
    return session.run(None, feed)


RUNS = {"python": by_python, "sql": by_sql, "onnx": by_onnx}
