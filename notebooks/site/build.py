"""Builds the site into build/site: python notebooks/site/build.py

Needs the extra "site" (``pip install -e ".[site]"``). Warnings, and links that lead
nowhere within the site, are errors. The pages need no server and no network: open
build/site/index.html. ``--links`` builds nothing: it opens the links that leave the
site, and says which are broken.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SITE = ROOT / "build" / "site"
_FIRST = '<meta http-equiv="refresh" content="0; url=README.html">\n'


def main(arguments: list[str]) -> int:
    """Build the site or open its links; 0 unless something is wrong."""
    from sphinx.cmd.build import main as build

    settings = ["-c", str(Path(__file__).parent), "--keep-going"]
    if "--links" in arguments:
        settings += ["-b", "linkcheck", "-D", "nb_execution_mode=off"]
        return build([*settings, str(ROOT), str(SITE.with_name("links"))])
    failed = build([*settings, "-W", "-q", *arguments, str(ROOT), str(SITE)])
    if not failed:
        (SITE / "index.html").write_text(_FIRST, encoding="utf-8")
        print(f"The site: {SITE / 'index.html'}")
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
