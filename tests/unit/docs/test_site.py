"""The site has every page, each in one place of its contents; Sphinx is not needed to see that."""

from __future__ import annotations

from collections import Counter
from types import ModuleType

import pytest
from support.pages import PAGES, ROOT, page_id
from support.tools import load_file


@pytest.fixture(scope="module")
def conf() -> ModuleType:
    """Sphinx's settings, which hold the contents of the site."""
    return load_file(ROOT / "docs" / "conf.py")


def listed_from(conf: ModuleType, page: str) -> list[str]:
    """Return the pages below one, through as many index pages as there are."""
    if page not in conf.index_pages():
        return []
    found = [name for names in conf.contents(page).values() for name in names]
    return found + [deeper for name in found for deeper in listed_from(conf, name)]


def test_every_page_is_listed_once(conf: ModuleType) -> None:
    listed = Counter(listed_from(conf, conf.root_doc))
    pages = {page_id(page).removesuffix(".md") for page in PAGES}
    assert listed == Counter(pages - {conf.root_doc, conf.INDEX})


def test_an_index_page_gets_its_contents_and_any_other_page_none(conf: ModuleType) -> None:
    source = ["# tfopt\n"]
    conf.add_contents(None, conf.root_doc, source)
    assert "```{toctree}\n:hidden:\n:caption: Guide\n\n/docs/tutorial\n/docs/guide/" in source[0]
    assert "\n/CHANGELOG\n```\n" in source[0]
    source = ["# cache\n"]
    conf.add_contents(None, "docs/plugins/cache", source)
    assert source == ["# cache\n"]
