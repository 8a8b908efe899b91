"""Render what each plugin of the stack did: applied, or not applied and why."""

from __future__ import annotations

from typing import Literal

import attrs
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tfopt_core.records.results import Attribution, Results
from tfopt_core.records.variants import FULL
from tfopt_core.report.style.layout import Items, grid, section, words
from tfopt_core.report.style.vocabulary import each_setting_in_words

State = Literal["applied", "not applied", "mixed", "unknown"]

# Longer names are folded, to leave room for the effect.
NAME_WIDTH = 26
NO_REASON = "no reason was given"
_MARKS = {"applied": ("✓", "green"), "not applied": ("✗", "yellow"), "mixed": ("!", "yellow"),
          "unknown": ("?", "dim")}  # fmt: skip


@attrs.frozen
class PluginLine:
    """One plugin of the stack: whether it took effect, and its settings."""

    name: str
    state: State
    text: str
    settings: tuple[str, ...]


def plugin_lines(results: Results) -> tuple[PluginLine, ...]:
    """Return the plugins in stack order, as the counted runs with the full stack report them."""
    runs = results.of_variant(FULL)
    names = dict.fromkeys((*results.resolved, *(name for run in runs for name in run.effects)))
    return tuple(_line(results, name) for name in names)


def _line(results: Results, name: str) -> PluginLine:
    runs = results.of_variant(FULL)
    settings = each_setting_in_words(results.resolved.get(name, {}))
    effects = [run.effects[name] for run in runs if name in run.effects]
    applied = [effect.detail for effect in effects if effect.applied]
    reasons = _distinct([effect.detail or NO_REASON for effect in effects if not effect.applied])
    if not runs:
        return PluginLine(name, "unknown", "unknown: no run with the stack ended well", settings)
    if not effects:
        return PluginLine(name, "unknown", "unknown: no effect was reported", settings)
    if not applied:
        return PluginLine(name, "not applied", f"not applied: {reasons}", settings)
    if not reasons and len(effects) == len(runs):
        details = _distinct(applied)
        return PluginLine(
            name, "applied", f"applied: {details}" if details else "applied", settings
        )
    why = f"; otherwise not applied: {reasons}" if reasons else ""
    text = f"applied in {len(applied)} of {len(runs)} runs only{why}"
    return PluginLine(name, "mixed", text, settings)


def _distinct(details: list[str]) -> str:
    """Return what was read back, without repeats; three or more different texts are abbreviated."""
    first, *others = [*dict.fromkeys(detail for detail in details if detail)] or [""]
    match others:
        case []:
            return first
        case [second]:
            return f"{first}; or {second}"
        case _:
            return f"{first}; or {len(others)} others"


def render_plugin_lines(results: Results) -> tuple[RenderableType, ...]:
    """Return the section on the stack's plugins, empty for an empty stack."""
    lines = plugin_lines(results)
    if not lines:
        return ()
    return (section("Plugins", _marked(lines)),)


def _marked(lines: tuple[PluginLine, ...]) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(width=1)
    table.add_column(overflow="fold", max_width=NAME_WIDTH)
    table.add_column(overflow="fold")
    for line in lines:
        mark, style = _MARKS[line.state]
        text = Group(words(line.text))
        if line.settings:
            text.renderables.append(Items(line.settings, style="dim"))
        table.add_row(Text(mark, style=style), words(line.name), text)
    return table


@attrs.frozen
class Contribution:
    """The measured share of a plugin in words."""

    name: str
    text: str


def contributions(results: Results) -> tuple[Contribution, ...]:
    """Return the share of each isolated plugin; one that was not applied gets no number."""
    states = {line.name: line for line in plugin_lines(results)}
    return tuple(_contribution(item, states) for item in results.attribution)


def render_attribution(results: Results) -> tuple[RenderableType, ...]:
    """Return the measured share of each plugin."""
    rows = [(words(item.name), words(item.text)) for item in contributions(results)]
    return (section("What each plugin contributes", grid(rows, NAME_WIDTH)),) if rows else ()


def _contribution(item: Attribution, states: dict[str, PluginLine]) -> Contribution:
    line = states.get(item.plugin)
    if line is not None and line.state == "not applied":
        return Contribution(item.plugin, line.text)
    # the name is in the first column
    return Contribution(item.plugin, item.statement.removeprefix(f"{item.plugin}: "))
