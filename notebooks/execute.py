"""Runs notebooks and stores their outputs: python notebooks/execute.py [NAME ...]

A code host and the site show what is stored. Pictures are reduced to 128 colours and
stay below 100 kB; times and names of machines are left out. Needs the extra "site".
"""

from __future__ import annotations

import base64
import io
import sys
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from PIL import Image

FOLDER = Path(__file__).parent
COLOURS = 128
SECONDS = 1800


def small_picture(png: str) -> str:
    """Reduce the colours of a picture in base64."""
    picture = Image.open(io.BytesIO(base64.b64decode(png))).convert("RGB")
    file = io.BytesIO()
    picture.quantize(COLOURS, Image.Quantize.MAXCOVERAGE).save(
        file, "PNG", optimize=True
    )
    return base64.b64encode(file.getvalue()).decode()


def executed(notebook: Any) -> Any:
    """Run a notebook, and make its outputs small."""
    client = NotebookClient(
        notebook,
        timeout=SECONDS,
        kernel_name="python3",
        record_timing=False,
        resources={"metadata": {"path": str(FOLDER)}},
    )
    client.execute()
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            if "image/png" in (data := output.get("data", {})):
                data["image/png"] = small_picture(data["image/png"])
    notebook.metadata.pop("widgets", None)
    notebook.metadata["language_info"] = {"name": "python"}
    return notebook


if __name__ == "__main__":
    names = sys.argv[1:] or sorted(path.stem for path in FOLDER.glob("*.ipynb"))
    for name in names:
        path = FOLDER / f"{name}.ipynb"
        notebook = nbformat.read(path, as_version=4)
        text = nbformat.writes(executed(notebook), ensure_ascii=False)
        path.write_text(text.rstrip("\n") + "\n", encoding="utf-8")
        print(f"{path.name}: {path.stat().st_size / 1000:.0f} kB")
