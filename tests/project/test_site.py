"""What the site's pages name is there; ``notebooks/site/build.py`` checks the rest."""

from __future__ import annotations

import ast
import re
import runpy
from pathlib import Path

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
    builder = runpy.run_path(str(SITE / "build.py"))
    links = builder["external_links"]()
    assert "https://doi.org/10.1145/775047.775117" in links
    assert [link for link in links if not builder["is_well_formed"](link)] == []
    for link in ("http://doi.org/1", "https://github", "https://", "https:///page"):
        assert not builder["is_well_formed"](link)
