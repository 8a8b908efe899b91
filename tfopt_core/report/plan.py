"""Render what `tfopt plan` prints: what the stack would change, before any training."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from rich.console import RenderableType

from tfopt_core.hooks.plugin_class import EQUIVALENCE_IN_WORDS
from tfopt_core.report.results.sections import software_in_words
from tfopt_core.report.style import units
from tfopt_core.report.style.layout import (
    Fact,
    Facts,
    Items,
    Page,
    grid,
    indented,
    listed,
    section,
    words,
)
from tfopt_core.report.style.vocabulary import setting_in_words
from tfopt_core.trials.request import PluginPlan, Prepared

# Fits "build_dataset, validation"; the same for every plugin.
HOOK_WIDTHS = (26, 25)


def render_plan(prepared: Prepared, recipe_name: str) -> RenderableType:
    """Return the plugins in order, what each would change, and the data plan before and after."""
    splits = tuple(dict.fromkeys((*prepared.data_before, *prepared.data_after)))
    return Page((
        words(recipe_name, "bold"),
        indented(Facts(_facts(prepared))),
        *(
            _plugin(number, plugin, prepared.not_applied.get(plugin.name, ""))
            for number, plugin in enumerate(prepared.plugins, start=1)
        ),
        *(_data(prepared, split) for split in splits),
        listed("Warnings", prepared.warnings),
        "",
        words(f"nothing measured; took {units.seconds_text(prepared.seconds)}", "dim"),
    ))  # fmt: skip


def _facts(prepared: Prepared) -> Iterator[Fact]:
    if prepared.baseline:
        yield Fact("baseline", prepared.baseline)
    count = units.count_text(prepared.trainable_parameters)
    yield Fact("model", f"{count} trainable parameters")
    xla = "XLA on" if prepared.jit_compile else "XLA off"
    yield Fact("with the stack", f"dtype policy {prepared.policy}, {xla}")
    training = units.counted(prepared.epochs, "epoch")
    if prepared.own_loop:
        training = "as long as the script's own loop goes on"
        if prepared.steps_per_epoch is not None:
            training = f"{prepared.steps_per_epoch:,} updates, after which a run ends"
    elif prepared.steps_per_epoch is not None:
        training += f" of {prepared.steps_per_epoch:,} steps"
    if prepared.batch_size is not None:
        training += f", batch size {prepared.batch_size:,}"
    yield Fact("training", training)
    better = "higher" if prepared.quality_direction == "max" else "lower"
    judged = f"{prepared.quality_metric}, {better} is better"
    if prepared.own_loop:
        judged = "its time alone: a loop of the script's own reports no metric"
    elif not prepared.quality_metric:
        judged = "no metric that is known to be better high, or low"
    if prepared.validation_examples is not None:
        judged += f"; {prepared.validation_examples:,} validation examples"
    if prepared.to_target:
        judged = f"the time to a target; {judged}"
    yield Fact("judged by", judged)
    if software := software_in_words(prepared.versions):
        yield Fact("software", software)


def _plugin(number: int, plugin: PluginPlan, why_not: str) -> RenderableType:
    summary = words(plugin.summary, "dim") if plugin.summary else None
    declared = EQUIVALENCE_IN_WORDS.get(plugin.equivalence, plugin.equivalence)
    rows: list[tuple[RenderableType, ...]] = [(words("training", "dim"), declared)]
    if settings := _settings(plugin):
        rows.insert(0, (words("settings", "dim"), Items(settings)))
    for change in (change for change in plugin.changes if change.differences):
        where = change.hook + (f", {change.split}" if change.split else "")
        rows += [
            (words(where if index == 0 else "", "dim"), difference)
            for index, difference in enumerate(change.differences)
        ]
    if not plugin.differences:
        nothing = f"nothing here: {why_not}" if why_not else "nothing here"
        rows.append((words("changes", "dim"), words(nothing, "yellow")))
    return section(f"{number}. {plugin.name}", summary, grid(rows, *HOOK_WIDTHS))


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
        stages = grid((stage,) for stage in before)
        return section(title, stages, words("unchanged by the stack", "dim"))
    return section(title, _compared(before, after))


def _compared(before: Sequence[str], after: Sequence[str]) -> RenderableType:
    """Return the stages of both plans in order: "-" for what the stack removes, "+" for what it
    adds."""
    rows: list[tuple[RenderableType, ...]] = []
    for tag, a, b, c, d in SequenceMatcher(a=before, b=after, autojunk=False).get_opcodes():
        if tag == "equal":
            rows += (("", stage) for stage in before[a:b])
            continue
        rows += ((words("-", "red"), words(stage, "red")) for stage in before[a:b])
        rows += ((words("+", "green"), words(stage, "green")) for stage in after[c:d])
    return grid(rows)
