"""The Markdown pages of the repository that its readers see."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [
    *ROOT.glob("*.md"),
    *ROOT.glob("docs/**/*.md"),
    *ROOT.glob("examples/*/*.md"),
    ROOT / "changelog.d" / "README.md",
    ROOT / "skills" / "tfopt" / "SKILL.md",
    ROOT / "workloads" / "README.md",
]


def page_id(page: Path) -> str:
    """Return the path of a page from the root of the repository."""
    return page.relative_to(ROOT).as_posix()


def text_of(page: str) -> str:
    """Return the text of a page, by its path from the root of the repository."""
    return (ROOT / page).read_text(encoding="utf-8")


def guide(page: str) -> str:
    """Return the text of a page of the guide."""
    return text_of(f"docs/guide/{page}")


def blocks(text: str, language: str) -> list[str]:
    """Return the blocks of code that a text shows in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def first_cells(text: str, word: str = r"\w+") -> set[str]:
    """Return the words in backticks in the first cells of a text's tables."""
    cells = re.findall(r"^\| ([^|]+) \|", text, re.MULTILINE)
    return {found for cell in cells for found in re.findall(f"`({word})", cell)}
