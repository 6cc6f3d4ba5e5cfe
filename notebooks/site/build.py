"""Builds the site into build/site: python notebooks/site/build.py

Needs the extra "site" (``pip install -e ".[site]"``). Warnings, and links that lead
nowhere within the site, are errors. The pages need no server and no network: open
build/site/index.html. ``--links`` builds nothing: it lists the links that leave the
site, says which are malformed, and opens each.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

ROOT = Path(__file__).parents[2]
SITE = ROOT / "build" / "site"
_FIRST = '<meta http-equiv="refresh" content="0; url=README.html">\n'
_SOURCES = ("*.md", "*.toml", "*.cff", "secret_jax/**/*.py", "benchmarks/**/*.md")
_SOURCES += ("notebooks/*.ipynb", "notebooks/site/*.md")
# In text, JSON or code: up to a space or what closes a link there.
_LINK = re.compile(r"https?://[^\s<>\"'`)\]}\\]*")
_SECONDS = 20


def external_links() -> list[str]:
    """Links of the sources of the site, and of the package, that leave it."""
    paths = [path for pattern in _SOURCES for path in ROOT.glob(pattern)]
    texts = [path.read_text(encoding="utf-8") for path in paths]
    return sorted(
        {link.rstrip(".,;:") for text in texts for link in _LINK.findall(text)}
    )


def is_well_formed(link: str) -> bool:
    """Whether a link is encrypted and names a host."""
    parts = urlsplit(link)
    return parts.scheme == "https" and "." in (parts.hostname or "").strip(".")


def answer_to(link: str) -> str:
    """What comes back from a link, in a word or two."""
    if not is_well_formed(link):
        return "MALFORMED"
    request = Request(link, headers={"User-Agent": "Mozilla/5.0"})
    try:
        with urlopen(request, timeout=_SECONDS) as answer:
            return str(answer.status)
    except HTTPError as error:
        return f"BROKEN: {error.code}" if error.code in (404, 410) else str(error.code)
    except OSError as error:
        return f"not reached: {error}"


def main(arguments: list[str]) -> int:
    """Build the site or list its links; 0 unless something is wrong."""
    if "--links" in arguments:
        answers = {link: answer_to(link) for link in external_links()}
        print("\n".join(f"{link}  {answer}" for link, answer in answers.items()))
        wrong = ("MALFORMED", "BROKEN")
        return int(any(answer.startswith(wrong) for answer in answers.values()))
    from sphinx.cmd.build import main as build

    settings = ["-c", str(Path(__file__).parent), "-W", "--keep-going", "-q"]
    failed = build([*settings, *arguments, str(ROOT), str(SITE)])
    if not failed:
        (SITE / "index.html").write_text(_FIRST, encoding="utf-8")
        print(f"The site: {SITE / 'index.html'}")
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
