"""Predictions by exported code, which needs nothing of this package to run."""

from __future__ import annotations

import ctypes
import json
import math
import re
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from secret_jax.inspect.code.export import export_code
from secret_jax.inspect.code.onnx.convert import to_onnx
from secret_jax.tree.structure import Tree

# What `export_code` promises, in deviations of the target: hard trees, and gates.
HARD, SOFT = 3e-5, 3e-4


def assert_predicts(found: np.ndarray, expected: np.ndarray, tree: Tree) -> None:
    """The code predicts what the tree predicts, as nearly as is promised."""
    most = (SOFT if tree.is_soft else HARD) * tree.schema.target_scale
    np.testing.assert_allclose(found, expected, rtol=0, atol=most)


def by_python(tree: Tree, frame: pd.DataFrame, **options) -> np.ndarray:
    return run_python(export_code(tree, **options), frame.to_dict("records"))


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


def by_c(tree: Tree, frame: pd.DataFrame, **options) -> np.ndarray:
    return run_c(export_code(tree, "c", **options), records(frame))


def by_javascript(tree: Tree, frame: pd.DataFrame, **options) -> np.ndarray:
    return run_javascript(export_code(tree, "javascript", **options), records(frame))


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows of plain values, with None for those that are missing."""
    kept = frame.astype(object).where(frame.notna(), None)
    return kept.to_dict("records")


def run_python(code: str, rows: list[dict[str, Any]]) -> np.ndarray:
    """Predictions of rows by Python."""
    scope: dict = {}
    exec(code, scope)
    return np.array([scope["predict"](row) for row in rows])


def run_c(code: str, rows: list[dict[str, Any]]) -> np.ndarray:
    """Predictions of rows by C, from a shared library."""
    return np.array([*map(compiled(code), rows)])


def run_javascript(code: str, rows: list[dict[str, Any]]) -> np.ndarray:
    """Predictions of rows by Node."""
    return np.array(by_node(code, rows, "predict(row)"), float)


PROGRAMS = {"python": run_python, "c": run_c, "javascript": run_javascript}


def by_node(code: str, rows: list[dict[str, Any]], call: str) -> list:
    """Values of an expression of ``row`` after the code."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("Node is not installed")
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder, "program.js")
        program.write_text(
            f"{code}\nconst rows = {json.dumps(rows)};\n"
            f"console.log(JSON.stringify(rows.map((row) => {call})));"
        )
        done = subprocess.run([node, program], capture_output=True, check=True)
    return json.loads(done.stdout)


_FIELD = re.compile(r"    (double |const char \*)\w+; // (.*)")


def compiled(code: str, n_chances: int = 0, text: bool = False) -> Callable:
    """Function of a row from code in C; of classes it gives both chances and class."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no compiler of C is installed")
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder, "program.c"), Path(folder, "program.so")
        source.write_text(code)
        options = "-std=c99 -Wall -Wextra -Wno-unused -Werror -shared -fPIC"
        command = [compiler, *options.split(), "-o", library, source, "-lm"]
        subprocess.run(command, check=True)
        loaded = ctypes.CDLL(str(library))
    kinds = {"double ": ctypes.c_double, "const char *": ctypes.c_char_p}
    found = [(kinds[kind], json.loads(name)) for kind, name in _FIELD.findall(code)]
    fields = [(f"f{i}", kind) for i, (kind, _) in enumerate(found)]
    row_type = type("Row", (ctypes.Structure,), {"_fields_": fields})
    loaded.predict.restype = ctypes.c_char_p if text else ctypes.c_double

    def predict(row: dict[str, Any]) -> Any:
        made = row_type()
        for (field, kind), (_, name) in zip(fields, found, strict=True):
            value = row[name]
            if kind is ctypes.c_char_p:
                value = None if value is None else value.encode()
            else:
                value = math.nan if value is None else float(value)
            setattr(made, field, value)
        said = loaded.predict(ctypes.byref(made))
        if not n_chances:
            return said
        chances = (ctypes.c_double * n_chances)()
        loaded.predict_proba(ctypes.byref(made), chances)
        return [*chances], said.decode() if text else said

    return predict


def by_onnx(tree: Tree, frame: pd.DataFrame) -> np.ndarray:
    return run_onnx(to_onnx(tree), frame)[0]


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


RUNS = {
    "python": by_python,
    "sql": by_sql,
    "c": by_c,
    "javascript": by_javascript,
    "onnx": by_onnx,
}
