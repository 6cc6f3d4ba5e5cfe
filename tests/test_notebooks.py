"""Notebooks run from top to bottom, and are stored without outputs."""

from __future__ import annotations

import json
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

NOTEBOOKS = sorted((Path(__file__).parent.parent / "notebooks").glob("*.ipynb"))


def code_cells(path):
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_outputs_are_stripped(path):
    for cell in code_cells(path):
        assert cell["outputs"] == []
        assert cell["execution_count"] is None


def test_quick_start_beats_least_squares(capsys):
    plt.close("all")
    scope = {}
    for cell in code_cells(NOTEBOOKS[0].with_name("quick_start.ipynb")):
        exec("".join(cell["source"]), scope)
    assert len(plt.get_fignums()) == 1
    plt.close("all")
    test = scope["X_test"], scope["y_test"]
    numbers = scope["numbers"]
    plain = scope["plain"].score(test[0][numbers], test[1])
    assert scope["model"].score(*test) > max(plain, 0.99)
    assert "radius" in capsys.readouterr().out
