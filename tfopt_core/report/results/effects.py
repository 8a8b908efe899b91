"""What each plugin of the stack did, in words: applied, or not and why."""

from __future__ import annotations

from typing import Literal

import attrs
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tfopt_core.records.results import Attribution, Results
from tfopt_core.records.variants import FULL
from tfopt_core.report.style import units
from tfopt_core.report.style.layout import grid, section, words
from tfopt_core.report.style.vocabulary import settings_in_words

State = Literal["applied", "not applied", "mixed", "unknown"]

# A longer name is folded, so that there is room for what the plugin did.
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
    settings: str


def plugin_lines(results: Results) -> tuple[PluginLine, ...]:
    """The plugins in the order of the stack, from the runs with the whole stack that count."""
    runs = results.of_variant(FULL)
    names = dict.fromkeys((*results.resolved, *(name for run in runs for name in run.effects)))
    return tuple(_line(results, name) for name in names)


def _line(results: Results, name: str) -> PluginLine:
    runs = results.of_variant(FULL)
    settings = settings_in_words(results.resolved.get(name, {}))
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
    """What was read back, each once; what differs from run to run is not listed in full."""
    first, *others = [*dict.fromkeys(detail for detail in details if detail)] or [""]
    match others:
        case []:
            return first
        case [second]:
            return f"{first}; or {second}"
        case _:
            return f"{first}; or {len(others)} others"


def render_plugin_lines(results: Results) -> tuple[RenderableType, ...]:
    """The section on the stack's plugins; nothing where the stack is empty."""
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
        said = words(line.text)
        if line.settings:
            said = Group(said, words(line.settings, "dim"))  # type: ignore[assignment]
        table.add_row(Text(mark, style=style), words(line.name), said)
    return table


def render_attribution(results: Results) -> tuple[RenderableType, ...]:
    """What each plugin contributes, where that was measured. Who was not applied gets no number."""
    if not results.attribution:
        return ()
    states = {line.name: line for line in plugin_lines(results)}
    rows = [(words(item.plugin), _contribution(item, states)) for item in results.attribution]
    rest = (results.unattributed, results.unattributed_low, results.unattributed_high)
    # where the interval holds 1, nothing is known to be left
    if _is_shown(*rest):
        text = f"{_with_interval(*rest)}, which no single plugin's credit explains"
        rows.append((words("unattributed", "dim"), words(text, "dim")))
    return (section("What each plugin contributes", grid(rows, NAME_WIDTH)),)


def _contribution(item: Attribution, states: dict[str, PluginLine]) -> RenderableType:
    line = states.get(item.plugin)
    if line is not None and line.state == "not applied":
        return words(line.text)
    # without the name, which stands beside it
    statement = words(item.statement.removeprefix(f"{item.plugin}: "))
    parts = [
        f"{name} {_with_interval(*figures)}"
        for name, figures in (
            ("credit", (item.credit, item.credit_low, item.credit_high)),
            ("alone", (item.alone, item.alone_low, item.alone_high)),
        )
        if _is_shown(*figures)
    ]
    if item.alone is None or not parts:
        return statement  # it holds the only figure there is
    return Group(statement, words("; ".join(parts), "dim"))


def _is_shown(ratio: float | None, low: float | None, high: float | None) -> bool:
    """Whether there is an interval, and it excludes no difference."""
    return ratio is not None and low is not None and high is not None and not low <= 1 <= high


def _with_interval(ratio: float | None, low: float | None, high: float | None) -> str:
    """`1.25x (1.20 to 1.31)`."""
    texts = [units.ratio_text(end or 0.0) for end in (ratio, low, high)]
    return f"{texts[0]} ({texts[1].removesuffix('x')} to {texts[2].removesuffix('x')})"
