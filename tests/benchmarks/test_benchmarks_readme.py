"""The benchmarks as a whole: what is written of them exists, and starts."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "benchmarks"
MODULES = [path.relative_to(FOLDER) for path in sorted(FOLDER.rglob("*.py"))]
COMMANDS = [
    ".".join(["benchmarks", *path.with_suffix("").parts]).removesuffix(".__main__")
    for path in MODULES
    if "__name__ ==" in (FOLDER / path).read_text(encoding="utf-8")
]
NOTEBOOKS = sorted(ROOT.glob("notebooks/*.ipynb"))
README = (FOLDER / "README.md").read_text(encoding="utf-8")


def test_the_readme_names_every_file_and_every_command():
    files = {str(path) for path in MODULES if not path.name.startswith("__")}
    assert files == set(re.findall(r"`((?:\w+/)?\w+\.py)`", README))
    assert set(COMMANDS) == set(re.findall(r"python -m (benchmarks[.\w]*)", README))


@pytest.mark.parametrize(
    "path",
    [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *NOTEBOOKS],
    ids=lambda path: path.name,
)
def test_benchmarks_that_other_texts_name_exist(path):
    text = path.read_text(encoding="utf-8")
    assert set(re.findall(r"python -m (benchmarks[.\w]*)", text)) <= set(COMMANDS)
    for name in re.findall(r"\bbenchmarks/[\w/]+\.\w+", text):
        assert (ROOT / name).is_file(), name


def test_no_file_has_the_name_of_a_module_of_the_standard_library():
    assert not {path.stem for path in MODULES} & sys.stdlib_module_names


@pytest.mark.parametrize("command", COMMANDS)
def test_help_shows_how_a_command_is_called(command, capsys):
    package = (FOLDER.parent / command.replace(".", "/")).is_dir()
    module = importlib.import_module(f"{command}.__main__" if package else command)
    with pytest.raises(SystemExit):
        module.main(["--help"])
    assert capsys.readouterr().out.startswith(f"usage: python -m {command} ")
