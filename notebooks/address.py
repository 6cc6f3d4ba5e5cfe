"""Writes into every notebook where it lies: python notebooks/address.py

The address is ``Repository`` of ``[project.urls]`` in pyproject.toml, on GitHub. With
it a badge at the top of each notebook opens it in Colab, and the first cell, which is
the same in all, installs the package from the repository; without one there is no
badge, and it installs from the folder of the source that the notebook lies in.
"""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
BRANCH = "main"
COLAB = "https://colab.research.google.com"
_GITHUB = re.compile(r"https://github\.com/([\w-]+/[\w.-]+?)(\.git)?/?")
_BADGE = re.compile(r"\[!\[Open in Colab\].*\n\n")
_INSTALL = """\
import importlib.util
from pathlib import Path

# Where secret_jax is not installed, as in Colab, it is installed from SOURCE: write the
# folder of a copy there, or a repository, "git+https://github.com/OWNER/NAME".
SOURCE = "{source}"
if importlib.util.find_spec("secret_jax") is None:
    source = SOURCE if "://" in SOURCE else Path(SOURCE).resolve().as_uri()
    %pip install -q "secret-jax[plot,data] @ {{source}}\""""


def repository() -> str | None:
    """Owner and name on GitHub, as in "owner/name", if pyproject.toml says so.

    Raises
    ------
    ValueError
        If the address is none of a repository on GitHub, where Colab opens notebooks.
    """
    project = tomllib.loads((FOLDER.parent / "pyproject.toml").read_text())["project"]
    address = project.get("urls", {}).get("Repository")
    if address is None:
        return None
    if not (found := _GITHUB.fullmatch(address)):
        raise ValueError(
            f"Repository = {address!r} is no address like "
            "https://github.com/owner/name, from which Colab opens notebooks."
        )
    return found[1]


def addressed(notebook: dict[str, Any], name: str, where: str | None) -> dict[str, Any]:
    """The notebook with a badge, and a first cell that installs, for an address.

    Parameters
    ----------
    notebook : dict
        As in its file, which begins with a cell of text and one of code.
    name : str
        Its file's, without the suffix.
    where : str or None
        Owner and name of the repository on GitHub; None: it lies nowhere.
    """
    text, first, *others = notebook["cells"]
    heading = _BADGE.sub("", "".join(text["source"]))
    source = f"git+https://github.com/{where}" if where else ".."
    if where:
        picture = f"![Open in Colab]({COLAB}/assets/colab-badge.svg)"
        link = f"{COLAB}/github/{where}/blob/{BRANCH}/notebooks/{name}.ipynb"
        heading = f"[{picture}]({link})\n\n{heading}"
    install = _INSTALL.format(source=source)
    text = text | {"source": heading.splitlines(keepends=True)}
    first = first | {"source": install.splitlines(keepends=True)}
    return notebook | {"cells": [text, first, *others]}


if __name__ == "__main__":
    for path in sorted(FOLDER.glob("*.ipynb")):
        notebook = json.loads(path.read_text(encoding="utf-8"))
        notebook = addressed(notebook, path.stem, repository())
        text = json.dumps(notebook, indent=1, ensure_ascii=False)
        path.write_text(text + "\n", encoding="utf-8")
