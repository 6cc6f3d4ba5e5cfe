"""Notebooks run from top to bottom, and are stored without outputs."""

from __future__ import annotations

import json
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))
PICTURES = {"accuracy": 2, "method": 7, "oblique_ablation": 3, "table1_and_scaling": 2}


def code_cells(path):
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_outputs_are_stripped(path):
    for cell in code_cells(path):
        assert cell["outputs"] == []
        assert cell["execution_count"] is None


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_first_cell_installs_for_colab(path):
    first = "".join(code_cells(path)[0]["source"])
    assert first.startswith('# %pip install -q "secret-jax[plot')


def run(path, monkeypatch):
    """The variables of a notebook after its last cell, and how much it showed."""
    shown = []

    def show():
        for number in plt.get_fignums():
            figure = plt.figure(number)
            figure.draw_without_rendering()  # warns where a layout does not fit
            shown.append(figure)
        plt.close("all")

    plt.close("all")
    with plt.rc_context(), monkeypatch.context() as patch:
        patch.setattr(plt, "show", show)
        scope = {}
        for cell in code_cells(path):
            exec("".join(cell["source"]), scope)
        show()
    return scope, len(shown)


@pytest.mark.parametrize("name", PICTURES)
def test_what_a_notebook_says_holds(name, monkeypatch):
    # Its cells assert what its words claim.
    path = NOTEBOOKS[0].with_name(f"{name}.ipynb")
    assert any("assert " in "".join(cell["source"]) for cell in code_cells(path))
    _, n_pictures = run(path, monkeypatch)
    assert n_pictures == PICTURES[name]


def test_quick_start_beats_least_squares(capsys, monkeypatch):
    scope, n_pictures = run(NOTEBOOKS[0].with_name("quick_start.ipynb"), monkeypatch)
    assert n_pictures == 1
    test = scope["X_test"], scope["y_test"]
    numbers = scope["numbers"]
    plain = scope["plain"].score(test[0][numbers], test[1])
    assert scope["model"].score(*test) > max(plain, 0.99)
    assert "radius" in capsys.readouterr().out
