"""Sphinx settings of the site: ``python notebooks/site/build.py`` makes it.

Sources are the README, CONTRIBUTING, the notebooks and the pages of this folder where
they lie, so that links between them hold on a code host and on the site alike.
"""

from __future__ import annotations

import re
from typing import Any

from secret_jax import __version__

project = "secret_jax"
author = "The secret_jax developers"
copyright = f"2026, {author}. Apache-2.0"
release = version = __version__

root_doc = "README"
include_patterns = [
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "benchmarks/README.md",
    "benchmarks/scaling/*.md",
    "notebooks/*.ipynb",
    "notebooks/site/*.md",
]
extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
]
_ATTRIBUTE = re.compile(r"(?<![\w`.])([a-z]\w*_)(?=[\s,.;)])")
# Leads from a page's name to what stands beside it in the bar.
_CONTENTS = """
```{toctree}
:hidden:
:caption: Learn
notebooks/site/tour
notebooks/quick_start
notebooks/site/guide
notebooks/from_lightgbm
notebooks/site/gallery
notebooks/site/glossary
```

```{toctree}
:hidden:
:caption: Go deeper
notebooks/method
notebooks/oblique_ablation
notebooks/long_ablation
notebooks/million_rows
notebooks/learners
notebooks/accuracy
notebooks/table1_and_scaling
benchmarks/README
benchmarks/scaling/ENGINES
notebooks/site/comparison
```

```{toctree}
:hidden:
:caption: Look up
notebooks/site/reference
CONTRIBUTING
CHANGELOG
```
"""

# Notebooks are stored with their outputs; pages with code run at every build.
nb_execution_mode = "force"
nb_execution_excludepatterns = ["notebooks/*.ipynb"]
nb_execution_timeout = 600
nb_execution_raise_on_error = True
nb_execution_show_tb = True
nb_merge_streams = True
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4


autodoc_typehints = "none"
autodoc_member_order = "bysource"
napoleon_google_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False
default_role = "autolink"
nitpicky = False
suppress_warnings = ["myst.header", "misc.highlighting_failure"]
# Attributes of one name, of several classes: a list of them leads to none.
suppress_warnings += ["ref.python"]

html_theme = "furo"
html_title = "secret_jax"
html_copy_source = False
html_show_sourcelink = False
templates_path: list[str] = []


def add_contents(app: Any, name: str, source: list[str]) -> None:
    """Add the table of contents to the README, which has none on a code host."""
    if name == root_doc:
        source[0] += _CONTENTS


def skip_inherited(
    app: Any, what: str, name: str, member: Any, skip: bool, options: Any
) -> bool | None:
    """Skip what scikit-learn's bases add; its own site describes that."""
    foreign = (getattr(member, "__module__", None) or "").startswith("sklearn.")
    return True if foreign else None


def quote_attributes(
    app: Any, what: str, name: str, value: Any, options: Any, lines: list[str]
) -> None:
    """Quote names like ``n_features_in_``, whose end would be that of a link."""
    for place, line in enumerate(lines):
        names, colon, text = line.rpartition(" : ")
        lines[place] = names + colon + _ATTRIBUTE.sub(r"``\1``", text)


def setup(app: Any) -> None:
    """Connect the site's own steps with Sphinx."""
    app.connect("source-read", add_contents)
    app.connect("autodoc-skip-member", skip_inherited)
    # Before napoleon, which reads what stands there.
    app.connect("autodoc-process-docstring", quote_attributes, priority=400)
