"""The rooms of the package stand on floors, and imports point downwards only."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping, Set
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "secret_jax"
# From the ground up; CONTRIBUTING.md says what each room is for.
FLOORS = ["runtime", "datasets", "data", "losses", "tree", "models", "splits", "fit"]
FLOORS += ["learners", "inspect", "estimators", "composed", "cli"]
FLOORS += ["__main__"]


def room(module: str) -> str:
    return module.split(".")[1] if "." in module else "__init__"


@cache
def modules() -> dict[str, ast.Module]:
    """Every file of the package, by the name under which it is imported."""
    found = {}
    for path in PACKAGE.rglob("*.py"):
        *folders, last = path.relative_to(PACKAGE.parent).with_suffix("").parts
        name = ".".join(folders if last == "__init__" else [*folders, last])
        found[name] = ast.parse(path.read_text())
    return found


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """Statements at every depth, with what holds them: expressions import nothing."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):
            yield child
            yield from statements(child)


def imported(tree: ast.Module, known: Set[str]) -> set[str]:
    """Files that are imported when a file runs, anywhere in it."""
    for_types_only = {
        id(inner)
        for node in statements(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for line in node.body
        for inner in (line, *statements(line))
    }
    found = set()
    for node in statements(tree):
        if id(node) in for_types_only:
            continue
        if isinstance(node, ast.ImportFrom) and node.module:
            inside = {f"{node.module}.{alias.name}" for alias in node.names} & known
            found |= inside or {node.module}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found & known


def circles(imports: Mapping[str, Collection[str]]) -> list[set[str]]:
    """Files from which imports lead back to themselves, circle by circle."""
    reached = {name: set(its) for name, its in imports.items()}
    for middle in imports:  # Warshall's closure
        for name in imports:
            if middle in reached[name]:
                reached[name] |= reached[middle]
    each = {
        frozenset(other for other in reached[name] if name in reached[other])
        for name in imports
        if name in reached[name]
    }
    return sorted(map(set, each), key=sorted)


def test_circles_are_found():
    imports = {"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set(), "e": {"e"}}
    assert circles(imports) == [{"b", "c"}, {"e"}]


def test_every_room_has_its_floor():
    rooms = {path.relative_to(PACKAGE).parts[0] for path in PACKAGE.rglob("*.py")}
    rooms = {name.removesuffix(".py") for name in rooms}
    assert rooms - {"__init__"} == set(FLOORS)


def test_imports_point_downwards():
    for name, tree in modules().items():
        own = room(name)
        if own == "__init__":
            continue  # the face of the package: it hands names on
        for node in statements(tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                named = [node.module]
                if node.module == "secret_jax":
                    named = [f"secret_jax.{alias.name}" for alias in node.names]
            elif isinstance(node, ast.Import):
                named = [alias.name for alias in node.names]
            else:
                continue
            for module in named:
                if module.startswith("secret_jax.") and room(module) in FLOORS:
                    below = FLOORS.index(room(module)) <= FLOORS.index(own)
                    assert below, f"{name}:{node.lineno} imports {module}"


def test_files_do_not_import_each_other_in_a_circle():
    trees = modules()
    # The face of the package imports all of it, and hands it on.
    known = trees.keys() - {"secret_jax"}
    imports = {name: imported(trees[name], known) for name in known}
    assert circles(imports) == []
