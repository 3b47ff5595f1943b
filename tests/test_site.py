"""The documentation site: nothing public is left out. That it builds is seen by .ci/run."""

from __future__ import annotations

import re
from pathlib import Path

import dualq

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
MAP = (ROOT / "mkdocs.yml").read_text()
MADE = {"reference/cli.md", "measured.md", "contributing.md", "changelog.md"}  # by docs/hooks.py


def test_every_public_name_is_in_the_reference():
    text = "\n".join(path.read_text() for path in (DOCS / "reference").glob("*.md"))
    shown = set(re.findall(r"^::: dualq\.(\w+)", text, flags=re.MULTILINE))
    assert set(dualq.__all__) - {"__version__"} - shown == set(), "name it on a page of docs/reference"


def test_every_page_is_in_the_navigation_and_every_entry_is_a_page():
    named = set(re.findall(r"^ +- .*?: (\S+\.md)$", MAP, flags=re.MULTILINE))
    pages = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")} - {"reproduced/README.md"}
    assert pages == named - MADE
    assert named >= MADE


def test_docstrings_that_pages_ask_for_exist():
    text = "\n".join(path.read_text() for path in DOCS.rglob("*.md"))
    asked = re.findall(r"<!-- mathematics: (\S+) -->", text)
    assert len(asked) > 5
    assert all((ROOT / "src" / "dualq" / name).exists() for name in asked)
