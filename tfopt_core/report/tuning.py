"""Render what `tfopt tune` prints: each trial as it ends, then all, the winner and its proof."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rich import box
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from tfopt_core.hooks.machine import machine_in_words
from tfopt_core.report.live import make_phases
from tfopt_core.report.results.sections import verdict_section
from tfopt_core.report.style import units
from tfopt_core.report.style.layout import (
    Bullets,
    Fact,
    Facts,
    Page,
    indented,
    listed,
    paragraph,
    section,
    words,
)
from tfopt_core.report.style.vocabulary import settings_in_words
from tfopt_core.tuning.results import (
    SettingsTrial,
    SharedSearch,
    StackTrial,
    TrialOutcome,
    TuneResult,
)

Event = str | StackTrial | SettingsTrial
NOTE = (
    "A figure is the time (or peak memory) without a plugin over that with it, from short runs, "
    "with an 80% interval: above 1 the plugin helps. These figures only choose plugins: the "
    "largest of many noisy ones is larger than the truth, so none of them is a measured gain."
)
SETTINGS_NOTE = (
    "A figure is that of one pair of runs. It only chooses values, and is no measured gain."
)
NOT_TRIED_NOTE = (
    "A diagnosis of few steps chose what to try; --plugin NAME tries one that it left out."
)


@contextmanager
def show_search(console: Console) -> Iterator[Callable[[Event], None]]:
    """Yield a function that shows what a search does, and prints each trial that has ended."""

    def show(event: Event) -> None:
        if isinstance(event, str):
            on_phase(event)
        else:
            console.print(render_trial(event), soft_wrap=True)

    with make_phases(console) as on_phase:
        yield show


def render_tuned(result: TuneResult) -> RenderableType:
    """Return the whole page of a search."""
    return Page((
        words(f"{result.recipe}: search for the best stack", "bold"),
        indented(Facts(_facts(result))),
        *_trials(result.trials),
        _not_tried(result),
        *_settings(result),
        listed("Best stack", (
            f"{one.name}: {settings_in_words(one.settings)}".removesuffix(": ")
            for one in result.stack
        )),
        *_proof(result),
        listed("Warnings", result.warnings),
        "",
        *_closing(result),
    ))  # fmt: skip


def _facts(result: TuneResult) -> Iterator[Fact]:
    yield Fact("workload", result.workload)
    yield Fact("machine", machine_in_words(result.machine))
    if result.baseline:
        yield Fact("baseline", result.baseline)
    if result.objective != "time":
        yield Fact("objective", result.objective)
    for bound in result.bounds:
        name = f"with {', '.join(bound.stack)}" if bound.stack else "a step"
        yield Fact(name, bound.sentence)
    if result.begun_from:
        named = ", ".join(result.begun_from)
        yield Fact("begins from", f"the trials of {named}, on this machine with the same code")
    if result.resumed:
        yield Fact("resumed", units.counted(result.resumed, "time"))


def _table(*columns: str) -> Table:
    table = Table(
        box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1), collapse_padding=True,
    )  # fmt: skip
    for name in columns:
        table.add_column(name, overflow="fold", no_wrap=name == "figure")
    return table


def _trials(trials: list[StackTrial]) -> Iterator[RenderableType]:
    if not trials:
        return
    table = _table("trial", "beside", "figure", "outcome")
    for trial in trials:
        tried = " + ".join(trial.plugins)
        name = tried if trial.action == "add" else f"{tried} taken out"
        if trial.replaces:
            name += f", in place of {' + '.join(trial.replaces)}"
        beside = " + ".join(trial.beside) or "-"
        table.add_row(words(name), words(beside), paragraph(_figures(trial)), _outcome(trial))
    yield section("Trials", table, paragraph(f"\n{NOTE}", "dim"))


def _figures(trial: StackTrial | SettingsTrial) -> str:
    """Return `1.25x (1.20 to 1.31)` and, in a second line, `2 pairs`; "-" for none."""
    if isinstance(trial, SettingsTrial):
        return "-" if trial.figure is None else units.ratio_text(trial.figure)
    if trial.ratio is None:
        return "-"
    if trial.low is None or trial.high is None:
        return f"{units.ratio_text(trial.ratio)}, 1 pair"
    figures = units.ratio_with_interval(trial.ratio, trial.low, trial.high)
    return f"{figures}\n{trial.pairs} pairs"


def _outcome(trial: StackTrial | SettingsTrial) -> Text:
    """Return the outcome in its color, with the reason where that is no figure."""
    outcome, color = trial.outcome, ""
    if outcome in (TrialOutcome.IN, TrialOutcome.STAYS):
        color = "green"
    elif not outcome.measured:
        failed = outcome in (TrialOutcome.FAILED, TrialOutcome.OUT_OF_MEMORY)
        color = "red" if failed else "yellow"
    has_figure = isinstance(trial, StackTrial) and trial.ratio is not None
    text = str(outcome) if has_figure or not trial.reason else f"{outcome}: {trial.reason}"
    if isinstance(trial, SettingsTrial) and trial.machine:
        text += f", on {trial.machine}"
    return words(text, color)


def render_trial(trial: StackTrial | SettingsTrial) -> Text:
    """Return a trial as one line."""
    outcome = _outcome(trial)
    line = (
        trial.in_words if isinstance(trial, StackTrial)
        else f"{values_in_words(trial.values)}: {_figures(trial)}, {outcome.plain}"
    )  # fmt: skip
    kept = f" (kept from {trial.kept_from})" if trial.kept_from else ""
    return words(f"{line}{kept}", str(outcome.style))


def _not_tried(result: TuneResult) -> RenderableType:
    """Return the plugins that were not tried, those with the same reason together."""
    by_reason: dict[str, list[str]] = {}
    for one in result.not_tried:
        by_reason.setdefault(one.reason, []).append(one.plugin)
    lines = Bullets(f"{', '.join(names)}: {reason}" for reason, names in by_reason.items())
    return section("Not tried", lines, lines and paragraph(f"\n{NOT_TRIED_NOTE}", "dim"))


def _settings(result: TuneResult) -> Iterator[RenderableType]:
    """Yield the trials of settings, and the best values."""
    found = result.settings
    if found is None:
        return
    if found.trials:
        table = _table("values", "figure", "outcome")
        for trial in found.trials:
            table.add_row(
                words(values_in_words(trial.values)), words(_figures(trial)), _outcome(trial)
            )
        how = f"sampler {found.sampler}, {found.planned} trials at most"
        if found.metric:
            how += f", pruner {found.pruner} by {found.metric} of a part of the training data"
        how = f"{how}. {SETTINGS_NOTE}{_shared(found.shared)}"
        yield section("Settings", table, paragraph(f"\n{how}", "dim"))
    yield listed("Best values", (
        values_in_words({key: value})
        + (f" in place of {_value_in_words(before)}" if before is not None else "")
        for key, value in found.best.items()
        for before in (found.untuned.get(key),)
    ))  # fmt: skip
    if found.statement and found.statement not in result.statement:
        yield paragraph(found.statement)


def values_in_words(values: Mapping[str, Any]) -> str:
    """Return `learning_rate 0.001, l2.strength 1e-05`."""
    return ", ".join(
        f"{key.removeprefix('options.').removeprefix('plugins.')} {_value_in_words(value)}"
        for key, value in values.items()
    )


def _value_in_words(value: Any) -> str:
    """Return a value of TOML, a number to three digits."""
    return f"{value:.3g}" if isinstance(value, float) else json.dumps(value)


def _shared(shared: SharedSearch | None) -> str:
    """Return what other machines have done of the search; "" if it was not shared."""
    if shared is None:
        return ""
    own = shared.made.get("", 0)
    total = sum(shared.made.values())
    others = [f"{count} on {name}" for name, count in shared.made.items() if name]
    text = f" Shared by {shared.storage}: {total} trials, {own} of them on this machine"
    text += "".join(f", {one}" for one in others)
    if shared.under_way:
        text += f"; {shared.under_way} still under way"
    return f"{text}. Each trial compares with the untuned training of its own machine."


def _proof(result: TuneResult) -> Iterator[RenderableType]:
    if result.proof is not None:
        yield verdict_section(result.proof.comparison)
        ids = f"fresh pairs, measured as {result.proof.id}; tfopt report {result.proof.id} has all"
        yield indented(words(ids, "dim"))


def _closing(result: TuneResult) -> Iterator[RenderableType]:
    if result.why_ended:
        yield words(result.why_ended, "yellow")
    if result.statement:
        yield paragraph(result.statement)
    if result.written:
        use = f"tfopt apply {result.written} measures it again"
        yield words(f"recipe: {result.written}   ({use})")
    elif result.why_not_written:
        yield paragraph(f"no recipe was written: {result.why_not_written}")
    yield words(f"kept as {result.id}; the same command begins from its trials", "dim")
