"""`tfopt skill`: print what a coding agent needs to know to use tfopt."""

from __future__ import annotations

from pathlib import Path

import rich_click as click

_PACKAGE = Path(__file__).parent.parent


@click.command()
def skill() -> None:
    """Print how a coding agent uses tfopt: which command when, and how to read a verdict.

    For an agent that reads skills from a folder: tfopt skill > .claude/skills/tfopt/SKILL.md
    """
    # beside the package in a wheel, in the checkout otherwise
    places = (_PACKAGE / "skills", _PACKAGE.parent / "skills")
    folder = next(one for one in places if one.is_dir())
    click.echo((folder / "tfopt" / "SKILL.md").read_text(encoding="utf-8"), nl=False)
