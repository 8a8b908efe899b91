"""Sphinx's settings for the site that `make docs` builds from the Markdown files of the repository.

The source folder is the root of the repository, so a link to another file leads to its page, or to
the file itself, here as there. The site's contents are the links in the lists and tables of
docs/README.md and of the index pages that it links to. Only Sphinx imports what Sphinx needs: a
test reads the contents without it.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
INDEX = "docs/README"

project = "tfopt"
author = "The tfopt authors"
[release] = re.findall(
    r'^__version__ = "(.+)"$', (ROOT / "tfopt_core/version.py").read_text("utf-8"), re.MULTILINE
)
version = release

extensions = ["myst_parser"]
root_doc = "README"
include_patterns = [
    "*.md",
    "changelog.d/README.md",
    "docs/**.md",
    "examples/third_party_plugin/README.md",
    "skills/tfopt/SKILL.md",
    "workloads/README.md",
]
exclude_patterns = [".*", "**/.*", "build", "dist"]
nitpicky = True
smartquotes = False  # commands and options in the prose stay as they are typed

myst_heading_anchors = 4

html_theme = "furo"
html_title = "tfopt"
html_copy_source = False
html_show_sourcelink = False


def contents(page: str) -> dict[str, list[str]]:
    """Return the pages that an index page lists, by the heading above them.

    Pages are named as Sphinx does: by the path from the root, without the suffix.

    :param page: the index page; the first page's contents are those of docs/README.md.
    """
    path = ROOT / f"{INDEX if page == root_doc else page}.md"
    listed: dict[str, list[str]] = {}
    heading = ""
    for line in path.read_text("utf-8").splitlines():
        if line.startswith("## "):
            heading = line.removeprefix("## ")
        if line.startswith(("| [", "- [")):
            for link in re.findall(r"^[|-] \[[^]]*\]\(([^):#]+)\.md\)", line):
                target = (path.parent / link).resolve().relative_to(ROOT)
                listed.setdefault(heading, []).append(target.as_posix())
    return listed


def index_pages() -> Iterator[str]:
    """Yield the pages that list others: the first page, and each README below docs/."""
    yield root_doc
    for path in sorted(ROOT.glob("docs/*/README.md")):
        yield path.relative_to(ROOT).with_suffix("").as_posix()


def add_contents(app: Any, page: str, source: list[str]) -> None:
    """Append to an index page the contents that Sphinx shows beside it."""
    if page not in index_pages():
        return
    listed = contents(page)
    if page == root_doc:
        listed = {"": [INDEX], **listed}
    for heading, pages in listed.items():
        options = [":hidden:", *([f":caption: {heading}"] if heading else [])]
        lines = ["", "```{toctree}", *options, "", *(f"/{name}" for name in pages), "```", ""]
        source[0] += "\n".join(lines)


def write_index(app: Any, failure: Exception | None) -> None:
    """Give the first page the name that servers look for."""
    if failure is None and app.builder.format == "html":
        shutil.copyfile(Path(app.outdir, f"{root_doc}.html"), Path(app.outdir, "index.html"))


def setup(app: Any) -> None:
    """Connect the two functions to Sphinx."""
    app.connect("source-read", add_contents)
    app.connect("build-finished", write_index)
