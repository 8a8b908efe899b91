"""Render lists: the plugins, one plugin's card, the recipes, the checks of this machine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

import attrs
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tfopt_core.hooks.card import MATHEMATICS
from tfopt_core.hooks.installed.inspection import PluginInfo
from tfopt_core.report.style.layout import Page, facts, grid, indented, paragraph, section, words

NAME_WIDTH = 26


@attrs.frozen(kw_only=True)
class PluginRow:
    """An installed plugin; `error` says why it cannot be imported, None if it can."""

    name: str
    summary: str = ""
    distribution: str = ""
    version: str = ""
    error: str | None = None
    targets: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class SettingRow:
    """One setting of a plugin; `default` as TOML writes it, None where a value is required."""

    name: str
    type: str
    default: str | None = None
    help: str = ""


@attrs.frozen(kw_only=True)
class RecipeRow:
    """A recipe that ships with tfopt."""

    name: str
    summary: str = ""
    path: str = ""


@attrs.frozen(kw_only=True)
class DoctorRow:
    """One check of this machine; `ok` is None for plain information."""

    subject: str
    ok: bool | None
    detail: str
    mend: str = ""


def render_plugins(rows: Sequence[PluginRow]) -> RenderableType:
    """Return a line for each plugin, grouped by distribution."""
    if not rows:
        return Page((words("no plugins are installed"),))

    def origin(row: PluginRow) -> str:
        return f"{row.distribution} {row.version}".strip() or "unknown distribution"

    ordered = sorted(rows, key=lambda row: (origin(row), row.name))
    parts: list[RenderableType] = []
    for name, group in groupby(ordered, key=origin):
        title = section(name, grid((_plugin(row) for row in group), NAME_WIDTH))
        parts.append(title)
    hint = words("tfopt plugins show NAME says what one does, and when it does not help", "dim")
    return Page((*_without_first_blank(parts), Group("", hint)))


def _plugin(row: PluginRow) -> tuple[RenderableType, ...]:
    if row.error is not None:
        return words(row.name), paragraph(f"cannot be loaded: {row.error}", "red")
    summary = words(row.summary)
    if row.targets:
        summary.append_text(words(f" ({', '.join(row.targets)})", "dim"))
    return words(row.name), summary


def _without_first_blank(sections: Sequence[RenderableType]) -> tuple[RenderableType, ...]:
    first, *rest = sections
    assert isinstance(first, Group)
    return (Group(*first.renderables[1:]), *rest)


def render_card(info: PluginInfo, settings: Sequence[SettingRow]) -> RenderableType:
    """Return a plugin's documentation: its card, settings, and relations to other plugins."""
    known = tuple(_known(info))
    return Page((
        words(info.name, "bold"),
        indented(words(info.summary)),
        *((Group("", indented(facts(known))),) if known else ()),
        *(section(heading, paragraph(body)) for heading, body in info.sections),
        section("Settings", _settings(settings)),
    ))  # fmt: skip


def _known(info: PluginInfo) -> Iterator[tuple[str, object]]:
    if origin := f"{info.distribution} {info.version}".strip():
        yield "from", origin
    traits = info.traits
    if traits is not None:
        for label in ("targets", "requires", "conflicts", "before", "after"):
            if values := getattr(traits, label):
                yield label, ", ".join(values)
        if traits.role != "optimization":
            yield "role", traits.role
        if traits.model_change != "none":
            yield "model change", traits.model_change
    if info.math:
        yield "training", MATHEMATICS.get(info.math, info.math)
    if info.hooks:
        yield "hooks", ", ".join(info.hooks)


def _settings(settings: Sequence[SettingRow]) -> RenderableType:
    if not settings:
        return words("none")
    return grid((_setting(row) for row in settings), NAME_WIDTH)


def _setting(row: SettingRow) -> tuple[RenderableType, ...]:
    value = "required" if row.default is None else f"default {row.default}"
    head = words(f"{row.type}, {value}", "dim")
    return words(row.name), Group(head, words(row.help)) if row.help else head


def render_recipes(rows: Sequence[RecipeRow]) -> RenderableType:
    """Return the shipped recipes, each with when to use it."""
    if not rows:
        return Page((words("no recipes are shipped"),))
    hint = words("tfopt apply NAME measures one; tfopt recipes copy NAME makes it yours", "dim")
    lines = grid((words(row.name, "bold"), words(row.summary)) for row in rows)
    return Page((lines, Group("", hint)))


def render_doctor(rows: Sequence[DoctorRow]) -> RenderableType:
    """Return what this machine can do, and how to mend what it cannot."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold", max_width=NAME_WIDTH)
    table.add_column(overflow="fold")
    marks = {True: Text("✓", style="green"), False: Text("✗", style="red"), None: Text("-")}
    for row in rows:
        detail: RenderableType = paragraph(row.detail)
        if row.mend and row.ok is not True:
            detail = Group(detail, paragraph(row.mend, "yellow"))
        table.add_row(marks[row.ok], words(row.subject), detail)
    bad = sum(row.ok is False for row in rows)
    verdict = f"{bad} of {len(rows)} need attention" if bad else "nothing needs attention"
    return Page((table, Group("", words(verdict, "yellow" if bad else "green"))))
