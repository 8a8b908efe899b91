"""Render what `tfopt plan` prints: what the stack would change, before any training."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

import attrs
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.table import Table

from tfopt_core.hooks.card import MATHEMATICS
from tfopt_core.records.dry_build import PluginPlan, Prepared
from tfopt_core.records.memory import MemoryPlan, StageLine
from tfopt_core.report.style import units
from tfopt_core.report.style.layout import (
    Items,
    Page,
    bullets,
    facts,
    grid,
    indented,
    section,
    words,
)
from tfopt_core.report.style.vocabulary import setting_in_words

# In fewer columns, the two sides of a data plan are printed one above the other.
SIDE_BY_SIDE_WIDTH = 72
# Fits "build_dataset, validation"; the same for every plugin.
HOOK_WIDTHS = (26, 25)


def render_plan(prepared: Prepared, recipe_name: str) -> RenderableType:
    """Return the plugins in order, what each would change, and the data plan before and after."""
    splits = tuple(dict.fromkeys((*prepared.data_before, *prepared.data_after)))
    return Page((
        words(recipe_name, "bold"),
        indented(facts(_facts(prepared))),
        *(
            _plugin(number, plugin, prepared.not_applied.get(plugin.name, ""))
            for number, plugin in enumerate(prepared.plugins, start=1)
        ),
        *(_data(prepared, split) for split in splits),
        *(_stages(split, lines) for split, lines in prepared.stages.items() if lines),
        *((section("Memory", facts(_memory(prepared.memory))),) if prepared.memory else ()),
        *((section("Warnings", bullets(prepared.warnings)),) if prepared.warnings else ()),
        Group("", words(f"{_footer(prepared)}{units.seconds_text(prepared.seconds)}", "dim")),
    ))  # fmt: skip


def _footer(prepared: Prepared) -> str:
    if prepared.memory is None:
        return "nothing trained; took "
    return "nothing trained but a few steps on one batch, to see their memory; took "


def _facts(prepared: Prepared) -> Iterator[tuple[str, object]]:
    if prepared.baseline:
        yield "baseline", prepared.baseline
    yield "model", f"{units.count_text(prepared.trainable_parameters)} trainable parameters"
    xla = "XLA on" if prepared.jit_compile else "XLA off"
    yield "with the stack", f"dtype policy {prepared.policy}, {xla}"
    training = f"{prepared.epochs:,} {'epoch' if prepared.epochs == 1 else 'epochs'}"
    if prepared.steps_per_epoch is not None:
        training += f" of {prepared.steps_per_epoch:,} steps"
    if prepared.batch_size is not None:
        training += f", batch size {prepared.batch_size:,}"
    yield "training", training
    better = "higher" if prepared.quality_direction == "max" else "lower"
    judged = f"{prepared.quality_metric}, {better} is better"
    if not prepared.quality_metric:
        judged = "no metric that is known to be better high, or low"
    if prepared.validation_examples is not None:
        judged += f"; {prepared.validation_examples:,} validation examples"
    if prepared.to_target:
        judged = f"the time to the target of the recipe; {judged}"
    yield "judged by", judged
    versions = (("TensorFlow", "tensorflow"), ("Keras", "keras"))
    software = [f"{label} {prepared.versions[key]}" for label, key in versions
                if prepared.versions.get(key)]  # fmt: skip
    if software:
        yield "software", ", ".join(software)


def _plugin(number: int, plugin: PluginPlan, why_not: str) -> RenderableType:
    parts: list[RenderableType] = []
    if plugin.summary:
        parts.append(words(plugin.summary, "dim"))
    rows: list[tuple[RenderableType, ...]] = [
        (
            words("mathematics", "dim"),
            words(MATHEMATICS.get(plugin.equivalence, plugin.equivalence)),
        )
    ]
    if settings := _settings(plugin):
        rows.insert(0, (words("settings", "dim"), Items(settings)))
    for change in (change for change in plugin.changes if change.differences):
        where = change.hook + (f", {change.split}" if change.split else "")
        rows += [
            (words(where if index == 0 else "", "dim"), words(difference))
            for index, difference in enumerate(change.differences)
        ]
    if not plugin.differences:
        nothing = f"nothing here: {why_not}" if why_not else "nothing here"
        rows.append((words("changes", "dim"), words(nothing, "yellow")))
    return section(f"{number}. {plugin.name}", *parts, grid(rows, *HOOK_WIDTHS))


def _settings(plugin: PluginPlan) -> tuple[str, ...]:
    """Return `policy: auto -> mixed_bfloat16` and `keep: []`; an arrow means a resolved "auto"."""
    parts = []
    for key, value in plugin.settings.items():
        resolved = setting_in_words(value)
        before = setting_in_words(plugin.asked[key]) if key in plugin.asked else resolved
        parts.append(
            f"{key}: {resolved}" if before == resolved else f"{key}: {before} -> {resolved}"
        )
    return tuple(parts)


def _data(prepared: Prepared, split: str) -> RenderableType:
    before = prepared.data_before.get(split, ())
    after = prepared.data_after.get(split, ())
    title = f"Data plan, {split}"
    if before == after:
        stages = [(words(stage),) for stage in before]
        return section(title, grid(stages), words("unchanged by the stack", "dim"))
    return section(title, TwoPlans(before, after))


def _stages(split: str, lines: Sequence[StageLine]) -> RenderableType:
    """Return a table of what each stage of the stack's plan yields."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(overflow="fold")
    for _ in range(2):
        table.add_column(justify="right", no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row(
        *(
            words(head, "dim")
            for head in ("stage", "elements", "bytes each", "given the same input")
        )
    )
    for line in lines:
        elements = "unknown" if line.elements is None else units.count_text(line.elements)
        size = "unknown" if line.element_bytes is None else units.bytes_text(line.element_bytes)
        table.add_row(words(line.kind), words(elements), words(size), _repeats(line))
    return section(f"What the stages yield, {split}", table)


def _repeats(line: StageLine) -> RenderableType:
    if line.random_ops and line.random_ops != (line.kind,):
        return words(f"something else each time: {', '.join(line.random_ops)}", "yellow")
    return words("the same each time" if line.repeats else "something else each time")


def _memory(memory: MemoryPlan) -> Iterator[tuple[str, object]]:
    yield "process", f"{units.bytes_text(memory.process_bytes)}, new process, after a few steps"
    for item in memory.held:
        size = "unknown" if item.bytes is None else units.bytes_text(item.bytes)
        yield f"{item.stage}, {item.split}", size
    total = memory.total_bytes
    yield "in all", "unknown" if total is None else f"about {units.bytes_text(total)} resident"


@attrs.frozen
class TwoPlans:
    """Two lists of stages: side by side if the width allows, else as removed and added lines."""

    before: tuple[str, ...]
    after: tuple[str, ...]

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        rows = tuple(aligned(self.before, self.after))
        wide = options.max_width >= SIDE_BY_SIDE_WIDTH
        yield _side_by_side(rows) if wide else _above_each_other(rows)


def aligned(before: Sequence[str], after: Sequence[str]) -> Iterator[tuple[str | None, str | None]]:
    """Yield both lists in pairs, in order: equal stages and stages of one kind share a pair;
    None stands for a missing partner."""
    matcher = SequenceMatcher(a=list(before), b=list(after), autojunk=False)
    for tag, a, b, c, d in matcher.get_opcodes():
        if tag == "equal":
            yield from zip(before[a:b], after[c:d], strict=True)
        else:
            yield from _paired_by_kind(before[a:b], after[c:d])


def _paired_by_kind(
    gone: Sequence[str], new: Sequence[str]
) -> Iterator[tuple[str | None, str | None]]:
    """Yield the stages in pairs; stages that differ only in their settings share a pair."""
    left = list(gone)
    for stage in new:
        kinds = [_kind(other) for other in left]
        if _kind(stage) not in kinds:
            yield None, stage
            continue
        place = kinds.index(_kind(stage))
        yield from ((other, None) for other in left[:place])
        yield left[place], stage
        del left[: place + 1]
    yield from ((stage, None) for stage in left)


def _kind(stage: str) -> str:
    return stage.partition(":")[0]


def _side_by_side(rows: Sequence[tuple[str | None, str | None]]) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0), expand=True)
    table.add_column(ratio=1, overflow="fold")
    table.add_column(width=1)
    table.add_column(ratio=1, overflow="fold")
    table.add_row(words("before", "dim"), "", words("with the stack", "dim"))
    for old, new in rows:
        if new is None:
            table.add_row(words(old, "red"), words("-", "red"), "")
        elif old is None:
            table.add_row("", words("+", "green"), words(new, "green"))
        elif old != new:
            table.add_row(words(old, "red"), words(">", "green"), words(new, "green"))
        else:
            table.add_row(words(old), "", words(new))
    return table


def _above_each_other(rows: Sequence[tuple[str | None, str | None]]) -> Table:
    lines: list[tuple[RenderableType, ...]] = []
    for old, new in rows:
        if old == new:
            lines.append(("", words(old)))
            continue
        if old is not None:
            lines.append((words("-", "red"), words(old, "red")))
        if new is not None:
            lines.append((words("+", "green"), words(new, "green")))
    return grid(lines)
