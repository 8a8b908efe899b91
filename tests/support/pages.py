"""The Markdown pages of the repository that its readers see."""

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
