"""Predictions by exported code, which needs nothing of this package to run."""

from __future__ import annotations

import math
import sqlite3

import numpy as np
import pandas as pd

from secret_jax.inspect.code.export import export_code
from secret_jax.tree.structure import Tree

# What `export_code` promises, in deviations of the target: hard trees, and gates.
HARD, SOFT = 3e-5, 3e-4


def assert_predicts(found: np.ndarray, expected: np.ndarray, tree: Tree) -> None:
    """The code predicts what the tree predicts, as nearly as is promised."""
    most = (SOFT if tree.is_soft else HARD) * tree.schema.target_scale
    np.testing.assert_allclose(found, expected, rtol=0, atol=most)


def by_python(tree: Tree, frame: pd.DataFrame, **options) -> np.ndarray:
    scope: dict = {}
    code = export_code(tree, **options)
    exec(code, scope)
    return np.array([scope["predict"](row) for row in frame.to_dict("records")])


def by_sql(tree: Tree, frame: pd.DataFrame, **options) -> np.ndarray:
    connection = sqlite3.connect(":memory:")
    try:
        connection.execute("SELECT EXP(1.0)")
    except sqlite3.OperationalError:  # built without mathematical functions
        connection.create_function("EXP", 1, math.exp)
    frame.to_sql("some rows", connection, index=False)
    query = export_code(tree, "sql", table="some rows", **options)
    found = pd.read_sql(query, connection)
    connection.close()
    assert list(found)[:-1] == list(frame)
    return found.iloc[:, -1].to_numpy()
