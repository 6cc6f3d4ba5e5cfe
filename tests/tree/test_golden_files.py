"""Model files that earlier versions wrote are read, and predict what they predicted.

`golden_files` wrote them, with the rows, the predictions and the text of the tree.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from golden_files import GOLDEN

from secret_jax import SecretRegressor
from secret_jax.tree.file import FORMAT_VERSION
from secret_jax.tree.structure import SplitKind

FILES = sorted(GOLDEN.glob("v*/*.model"))
# float32 of other processors and compilers differs in the last digits.
TOLERANCE = {"rtol": 1e-5, "atol": 1e-5}


def test_every_kind_of_tree_has_a_file_of_this_version():
    found = {path.stem for path in FILES if path.parent.name == f"v{FORMAT_VERSION}"}
    assert found == {"axis", "oblique", "soft"}, (
        "run python tests/helpers/golden_files.py"
    )


@pytest.mark.parametrize("path", FILES, ids=lambda p: f"{p.parent.name} {p.stem}")
def test_a_file_predicts_and_reads_as_it_did(path: Path, tmp_path: Path):
    assert path.stat().st_size < 10_000
    header = json.loads(np.load(path)["header"].item())
    assert header["format_version"] == int(path.parent.name[1:])
    model = SecretRegressor.load(path)
    expected = pd.read_csv(path.with_suffix(".csv"))
    outputs = [c for c in ("prediction", "lower", "upper") if c in expected]
    rows = expected.drop(columns=outputs)
    found = {"prediction": model.predict(rows)}
    if "lower" in expected:
        found["lower"], found["upper"] = model.predict_interval(rows, 0.8)
    for name in outputs:
        np.testing.assert_allclose(found[name], expected[name], **TOLERANCE)
    assert model.feature_names_in_.tolist() == list(rows)
    kind = {"axis": SplitKind.AXIS, "oblique": SplitKind.OBLIQUE}
    if path.stem in kind:
        assert kind[path.stem] in model.tree_.kind
    assert model.tree_.is_soft == (path.stem == "soft")
    if path.parent.name == f"v{FORMAT_VERSION}":  # later versions may word it anew
        assert model.export_text() == path.with_suffix(".txt").read_text("utf-8")
    model.save(tmp_path / "again")
    again = SecretRegressor.load(tmp_path / "again")
    assert again.get_params() == model.get_params()
    assert again.export_text() == model.export_text()
