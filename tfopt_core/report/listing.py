"""Render the lists of plugins, recipes and machine checks, and a plugin's card."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

import attrs
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tfopt_core.hooks.installed.inspection import PluginInfo, Setting
from tfopt_core.hooks.plugin_class import EQUIVALENCE_IN_WORDS
from tfopt_core.report.style.layout import (
    NAME_WIDTH,
    Fact,
    Facts,
    Page,
    grid,
    indented,
    paragraph,
    section,
    words,
)


@attrs.frozen
class DoctorFinding:
    """A fact about this machine or a plugin.

    `ok` is False if it needs a mend, None if it is neutral.
    """

    subject: str
    ok: bool | None
    detail: str
    mend: str = ""


def render_plugins(infos: Sequence[PluginInfo]) -> RenderableType:
    """Return a line for each plugin, under the distribution that provides it."""
    if not infos:
        return Page((words("no plugins are installed"),))

    def origin(info: PluginInfo) -> str:
        return f"{info.distribution} {info.version}".strip() or "unknown distribution"

    ordered = sorted(infos, key=lambda info: (origin(info), info.name))
    parts: list[RenderableType] = []
    for name, group in groupby(ordered, key=origin):
        lines = grid((_plugin(info) for info in group), NAME_WIDTH)
        parts += ["", words(name, "bold"), indented(lines)]
    hint = words("tfopt plugins show NAME says what one does, and when it does not help", "dim")
    return Page((*parts[1:], "", hint))


def _plugin(info: PluginInfo) -> tuple[RenderableType, ...]:
    if info.error is not None:
        return info.name, paragraph(f"cannot be loaded: {info.error}", "red")
    summary = words(info.summary)
    if info.traits is not None and info.traits.targets:
        summary.append_text(words(f" ({', '.join(info.traits.targets)})", "dim"))
    return info.name, summary


def render_card(info: PluginInfo) -> RenderableType:
    """Return a plugin's documentation: its card, its settings, and its relations to others."""
    settings = [_setting(row) for row in info.settings]
    return Page((
        words(info.name, "bold"),
        indented(words(info.summary)),
        section("", Facts(_known(info))),
        *(section(heading, paragraph(body)) for heading, body in info.sections),
        section("Settings", grid(settings, NAME_WIDTH) if settings else words("none")),
    ))  # fmt: skip


def _known(info: PluginInfo) -> Iterator[Fact]:
    if origin := f"{info.distribution} {info.version}".strip():
        yield Fact("from", origin)
    traits = info.traits
    if traits is not None:
        for label in ("targets", "requires", "conflicts", "before", "after"):
            if values := getattr(traits, label):
                yield Fact(label, ", ".join(values))
        if traits.role != "optimization":
            yield Fact("role", traits.role)
        if traits.model_change != "none":
            yield Fact("model change", traits.model_change)
    if info.equivalence:
        yield Fact("training", EQUIVALENCE_IN_WORDS.get(info.equivalence, info.equivalence))
    if info.hooks:
        yield Fact("hooks", ", ".join(info.hooks))


def _setting(row: Setting) -> tuple[RenderableType, ...]:
    value = "required" if row.default is None else f"default {row.default}"
    searched = "" if row.search is None else f"; `tfopt tune` searches {json.dumps(row.search)}"
    head = words(f"{row.type}, {value}{searched}", "dim")
    return row.name, Group(head, words(row.help)) if row.help else head


def render_recipes(summaries: Mapping[str, str]) -> RenderableType:
    """Return the shipped recipes by name, each with when to use it."""
    if not summaries:
        return Page((words("no recipes are shipped"),))
    hint = words("tfopt apply NAME measures one; tfopt recipes copy NAME makes it yours", "dim")
    lines = grid((words(name, "bold"), words(summary)) for name, summary in summaries.items())
    return Page((lines, "", hint))


def render_doctor(findings: Sequence[DoctorFinding]) -> RenderableType:
    """Return the findings on this machine, each with its mend."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold", max_width=NAME_WIDTH)
    table.add_column(overflow="fold")
    marks = {True: Text("✓", style="green"), False: Text("✗", style="red"), None: Text("-")}
    for finding in findings:
        detail: RenderableType = paragraph(finding.detail)
        if finding.mend and finding.ok is not True:
            detail = Group(detail, paragraph(finding.mend, "yellow"))
        table.add_row(marks[finding.ok], words(finding.subject), detail)
    bad = sum(finding.ok is False for finding in findings)
    verdict = f"{bad} of {len(findings)} need attention" if bad else "nothing needs attention"
    return Page((table, "", words(verdict, "yellow" if bad else "green")))
