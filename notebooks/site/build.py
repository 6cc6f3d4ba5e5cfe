"""Builds the site into build/site: python notebooks/site/build.py

Needs the extra "site" (``pip install -e ".[site]"``). Warnings, and links that lead
nowhere within the site, are errors. The pages need no server and no network: open
build/site/index.html.
"""

from __future__ import annotations

import sys
from pathlib import Path

from sphinx.cmd.build import main

ROOT = Path(__file__).parents[2]
SITE = ROOT / "build" / "site"
_FIRST = '<meta http-equiv="refresh" content="0; url=README.html">\n'

if __name__ == "__main__":
    settings = ["-c", str(Path(__file__).parent), "-W", "--keep-going", "-q"]
    failed = main([*settings, *sys.argv[1:], str(ROOT), str(SITE)])
    if not failed:
        (SITE / "index.html").write_text(_FIRST, encoding="utf-8")
        print(f"The site: {SITE / 'index.html'}")
    sys.exit(failed)
