"""The rooms of the package stand on floors, and imports point downwards only."""

from __future__ import annotations

import ast
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "secret_jax"
# From the ground up; CONTRIBUTING.md says what each room is for.
FLOORS = ["datasets", "runtime", "data", "additive", "losses", "tree", "models"]
FLOORS += ["splits", "grow", "prune", "refine", "learners", "inspect", "fit", "stream"]
FLOORS += ["estimators", "ensemble", "cli", "__main__"]


def room(module: str) -> str:
    return module.split(".")[1] if "." in module else "__init__"


def test_every_room_has_its_floor():
    rooms = {path.relative_to(PACKAGE).parts[0] for path in PACKAGE.rglob("*.py")}
    rooms = {name.removesuffix(".py") for name in rooms}
    assert rooms - {"__init__"} == set(FLOORS)


def test_imports_point_downwards():
    for path in PACKAGE.rglob("*.py"):
        own = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        if own == "__init__":
            continue  # the face of the package: it hands names on
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module:
                modules = [node.module]
                if node.module == "secret_jax":
                    modules = [f"secret_jax.{alias.name}" for alias in node.names]
            elif isinstance(node, ast.Import):
                modules = [alias.name for alias in node.names]
            else:
                continue
            for module in modules:
                if module.startswith("secret_jax.") and room(module) in FLOORS:
                    below = FLOORS.index(room(module)) <= FLOORS.index(own)
                    assert below, f"{path}:{node.lineno} imports {module}"
