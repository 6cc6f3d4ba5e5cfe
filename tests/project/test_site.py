"""What the site's pages name is there; ``notebooks/site/build.py`` checks the rest."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from urllib.parse import urlsplit

import secret_jax
from secret_jax import learners

ROOT = Path(__file__).parents[2]
SITE = ROOT / "notebooks" / "site"


def test_the_reference_has_every_public_name():
    text = (SITE / "reference.md").read_text(encoding="utf-8")
    shown = {
        name.rpartition(".")[2]
        for name in re.findall(r"auto(?:class|function|exception):: (\S+)", text)
    }
    assert {*secret_jax.__all__, *learners.__all__} <= shown


def test_every_page_is_in_the_contents():
    contents = (SITE / "conf.py").read_text(encoding="utf-8")
    pages = [*SITE.glob("*.md"), *SITE.parent.glob("*.ipynb")]
    for page in pages:
        assert str(page.relative_to(ROOT).with_suffix("")) + "\n" in contents


def test_code_of_the_pages_is_python():
    for page in SITE.glob("*.md"):
        text = page.read_text(encoding="utf-8")
        for code in re.findall(r"```\{code-cell\}\n(?::[^\n]*\n)*(.*?)```", text, re.S):
            ast.parse(code)


def test_links_that_leave_the_site_are_well_formed():
    patterns = ["*.md", "*.toml", "*.cff", "secret_jax/**/*.py", "benchmarks/**/*.md"]
    patterns += ["notebooks/*.ipynb", "notebooks/site/*.md"]
    paths = [path for pattern in patterns for path in ROOT.glob(pattern)]
    texts = "\n".join(path.read_text(encoding="utf-8") for path in paths)
    # In text, JSON or code: up to a space or what closes a link there.
    links = {
        link.rstrip(".,;:")
        for link in re.findall(r"https?://[^\s<>\"'`)\]}\\]*", texts)
    }
    assert "https://doi.org/10.1145/775047.775117" in links
    for link in links:
        parts = urlsplit(link)
        assert parts.scheme == "https", link
        assert "." in (parts.hostname or "").strip("."), link
