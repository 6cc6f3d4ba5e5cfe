"""Source files that a program depends on, so that other edits do not invalidate it."""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Iterable
from pathlib import Path

_PACKAGE = __name__.partition(".")[0]
_IMPORT = re.compile(
    rf"^[ \t]*from ({_PACKAGE}[\w.]*) import (\([^)]*\)|[^\n]*)", re.MULTILINE
)
_FOR_CHECKERS = re.compile(r"^if TYPE_CHECKING:\n(?:[ \t]+[^\n]*\n|\n)+", re.MULTILINE)


def _read() -> dict[str, str]:
    """Read the sources of the package's modules, by module name."""
    root = Path(__file__).parent.parent
    sources = {}
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        sources[name] = path.read_text(encoding="utf-8")
    return sources


# Read when they are imported: what is edited later is not what runs in this process.
_SOURCES = _read()


def sources_of(modules: Iterable[str]) -> str:
    """Hash the sources of modules and of all their imports from this package.

    A module outside the package may call anything in it; then all sources are hashed.
    """
    return _hash_of(frozenset(modules))


@functools.cache
def _hash_of(modules: frozenset[str]) -> str:
    names = imported(modules) if modules <= set(_SOURCES) else set(_SOURCES)
    sources = hashlib.sha256()
    for name in sorted(names):
        sources.update(f"{name}\n{_SOURCES[name]}\n".encode())
    return sources.hexdigest()


def imported(modules: Iterable[str]) -> set[str]:
    """Names of the package's modules reachable by imports from given ones."""
    found: set[str] = set()
    ahead = list(modules)
    while ahead:
        name = ahead.pop()
        # The package itself imports lazily: names are taken from their own modules.
        if name not in found and name != _PACKAGE and name in _SOURCES:
            found.add(name)
            ahead += _imports_of(name)
    return found


@functools.cache
def _imports_of(name: str) -> tuple[str, ...]:
    found = []
    for match in _IMPORT.finditer(_FOR_CHECKERS.sub("", _SOURCES[name])):
        module, names = match.groups()
        for each in re.findall(r"\w+", names):
            inner = f"{module}.{each}"
            found.append(inner if inner in _SOURCES else module)
    return tuple(found)
