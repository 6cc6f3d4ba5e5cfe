"""What the package imports is what its users are told to install."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
# Packages that are installed under another name than they are imported by.
IMPORTED_AS = {"scikit-learn": "sklearn", "lazy-loader": "lazy_loader"}
# These come with a package that is declared, which says how new they have to be.
COMES_WITH = {"contourpy": "matplotlib"}


def imports(requirements: list[str]) -> set[str]:
    """Names under which packages are imported that a list of requirements installs."""
    names = {re.match(r"[\w-]+", line)[0] for line in requirements}
    return {IMPORTED_AS.get(name, name) for name in names}


def outside(tree: ast.Module, *, when_called: bool) -> set[str]:
    """Packages of others that a file imports at once, or also when it is called."""
    found = set()
    to_read = list(tree.body)
    while to_read:
        node = to_read.pop()
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found.add(str(node.module).split(".")[0])
        function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for_types = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node)
        if when_called or not (function or for_types):
            to_read += ast.iter_child_nodes(node)
    return found - {*sys.stdlib_module_names, "secret_jax"}


def imported(*, when_called: bool) -> set[tuple[str, str]]:
    """Packages of others that this package imports, each with the files that do."""
    return {
        (name, path.relative_to(ROOT / "secret_jax").as_posix())
        for path in (ROOT / "secret_jax").rglob("*.py")
        for name in outside(ast.parse(path.read_text("utf-8")), when_called=when_called)
    }


def test_what_is_imported_at_once_is_a_dependency():
    declared = imports(PROJECT["dependencies"])
    # A command imports files of its own, and says what is absent.
    for_commands = declared | imports(PROJECT["optional-dependencies"]["data"])
    at_once = imported(when_called=False)
    assert {"scipy", "sklearn", "jax"} <= {name for name, _ in at_once}
    undeclared = {
        (name, path)
        for name, path in at_once
        if name not in (for_commands if path.startswith("cli/") else declared)
    }
    assert undeclared == set()


def test_what_is_imported_when_called_is_a_dependency_or_in_an_extra():
    extras = PROJECT["optional-dependencies"]
    for_users = [extras[name] for name in ("onnx", "plot", "data")]
    declared = imports(sum(for_users, PROJECT["dependencies"]))
    used = {COMES_WITH.get(name, name) for name, _ in imported(when_called=True)}
    assert used - declared == set()


def test_no_dependency_is_without_use():
    used = {name for name, _ in imported(when_called=True)}
    assert imports(PROJECT["dependencies"]) - used == set()
