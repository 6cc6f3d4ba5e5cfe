"""Imports point downwards, from room to room, and to what users are told to install."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "secret_jax"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
# From the ground up; CONTRIBUTING.md says what each room is for.
FLOORS = ["runtime", "datasets", "data", "losses", "tree", "models", "splits", "fit"]
FLOORS += ["learners", "inspect", "estimators", "composed", "cli", "__main__"]
# Packages that are installed under another name than they are imported by.
IMPORTED_AS = {"scikit-learn": "sklearn", "lazy-loader": "lazy_loader"}
# These come with a package that is declared, which says how new they have to be.
COMES_WITH = {"contourpy": "matplotlib"}
# Every file of the package, by the name under which it is imported.
FILES = {
    ".".join(
        ("secret_jax", *path.with_suffix("").relative_to(PACKAGE).parts)
    ).removesuffix(".__init__"): ast.parse(path.read_text("utf-8"))
    for path in PACKAGE.rglob("*.py")
}


def imports(node: ast.AST, *, when_called: bool = True) -> set[str]:
    """What a file imports when it runs, at once or also when it is called."""
    found = set()
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            found |= {alias.name for alias in child.names}
        elif isinstance(child, ast.ImportFrom):
            inside = {f"{child.module}.{alias.name}" for alias in child.names}
            found |= (inside & FILES.keys()) or {str(child.module)}
        function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
        for_types = isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child)
        if not for_types and (when_called or not function):
            found |= imports(child, when_called=when_called)
    return found


def room(file: str) -> str:
    return file.split(".")[1] if "." in file else "__init__"


def test_every_room_has_its_floor():
    assert {*map(room, FILES)} - {"__init__"} == {*FLOORS}


def test_imports_point_downwards():
    for name, tree in FILES.items():
        for other in imports(tree) & FILES.keys():
            # The face of the package imports all of it, and hands it on.
            if "__init__" not in (room(name), room(other)):
                below = FLOORS.index(room(other)) <= FLOORS.index(room(name))
                assert below, f"{name} imports {other}"


def test_files_do_not_import_each_other_in_a_circle():
    known = FILES.keys() - {"secret_jax"}
    TopologicalSorter({one: imports(FILES[one]) & known for one in known}).prepare()


def packages(requirements: list[str]) -> set[str]:
    """Names under which packages are imported that a list of requirements installs."""
    names = {re.match(r"[\w-]+", line)[0] for line in requirements}
    return {IMPORTED_AS.get(name, name) for name in names}


def of_others(*, when_called: bool) -> set[tuple[str, str]]:
    """Packages of others that this package imports, each with the rooms that do."""
    ours = {*sys.stdlib_module_names, "secret_jax"}
    found = {
        (module.split(".")[0], room(name))
        for name, tree in FILES.items()
        for module in imports(tree, when_called=when_called)
    }
    return {(name, place) for name, place in found if name not in ours}


def test_what_is_imported_at_once_is_a_dependency():
    declared = packages(PROJECT["dependencies"])
    # A command imports files of its own, and says what is absent.
    for_commands = declared | packages(PROJECT["optional-dependencies"]["data"])
    at_once = of_others(when_called=False)
    assert {"scipy", "sklearn", "jax"} <= {name for name, _ in at_once}
    for name, place in at_once:
        assert name in (for_commands if place == "cli" else declared), (name, place)


def test_what_is_imported_when_called_is_a_dependency_or_in_an_extra():
    extras = PROJECT["optional-dependencies"]
    for_users = [extras[name] for name in ("onnx", "plot", "data")]
    declared = packages(sum(for_users, PROJECT["dependencies"]))
    used = {name for name, _ in of_others(when_called=True)}
    assert {COMES_WITH.get(name, name) for name in used} - declared == set()
    assert packages(PROJECT["dependencies"]) - used == set()  # none is without use
