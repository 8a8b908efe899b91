"""Render what `tfopt tune` prints: the trials, the winner, its proof, and what the search cost."""

from __future__ import annotations

from collections.abc import Iterator

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table

from tfopt_core.report.results.sections import machine_in_words, verdict_section
from tfopt_core.report.style import units
from tfopt_core.report.style.layout import Page, bullets, facts, indented, paragraph, section, words
from tfopt_core.report.style.sections import render_section
from tfopt_core.report.style.vocabulary import (
    color_of,
    others_of,
    outcome_in_words,
    settings_figure,
    settings_in_words,
    value_in_words,
    values_in_words,
)
from tfopt_core.tuning.results import SharedSearch, StackTrial, TuneResult

NOTE = (
    "A figure is the time (or peak memory) without a plugin over that with it, from short runs, "
    "with an 80% interval: above 1 the plugin helps. These figures only choose plugins: the "
    "largest of many noisy ones is larger than the truth, so none of them is a measured gain."
)
SETTINGS_NOTE = (
    "A figure is that of one pair, or of one training that is as long as the untuned one. It only "
    "chooses values, and is no measured gain."
)

NOT_TRIED_NOTE = (
    "A diagnosis of few steps chose what to try; --plugin NAME tries one that it left out."
)


def render_tuned(result: TuneResult) -> RenderableType:
    """Return the whole page of a search."""
    return Page((
        words(f"{result.recipe}: search for the best stack", "bold"),
        indented(facts(_facts(result))),
        *((section("Trials", _trials(result.trials), "", paragraph(NOTE, "dim")),)
          if result.trials else ()),
        *_not_tried(result),
        *_settings(result),
        *_winner(result),
        *_proof(result),
        *((section("Warnings", bullets(result.warnings)),) if result.warnings else ()),
        Group("", *_closing(result)),
    ))  # fmt: skip


def _facts(result: TuneResult) -> Iterator[tuple[str, object]]:
    yield "workload", result.workload
    yield "machine", machine_in_words(result.machine)
    if result.baseline:
        yield "baseline", result.baseline
    if result.objective != "time":
        yield "objective", result.objective
    for bound in result.bounds:
        name = f"with {', '.join(bound.stack)}" if bound.stack else "a step"
        yield name, bound.sentence
    if result.begun_from:
        named = ", ".join(result.begun_from)
        yield "begins from", f"the trials of {named}, on this machine with the same code"
    if result.resumed:
        yield "resumed", units.counted(result.resumed, "time")


def _trials(trials: tuple[StackTrial, ...]) -> RenderableType:
    table = Table(
        box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1), collapse_padding=True,
    )  # fmt: skip
    for name in ("trial", "beside", "figure", "outcome"):
        table.add_column(name, overflow="fold", no_wrap=name == "figure")
    for trial in trials:
        tried = " + ".join(trial.plugins)
        name = tried if trial.action == "add" else f"{tried} taken out"
        if trial.replaces:
            name += f", in place of {' + '.join(trial.replaces)}"
        table.add_row(
            words(name), words(" + ".join(others_of(trial)) or "-"),
            paragraph(_figures(trial)),
            words(outcome_in_words(trial), color_of(trial.outcome)),
        )  # fmt: skip
    return table


def _figures(trial: StackTrial) -> str:
    """Return `1.25x (1.20 to 1.31)` and, in a second line, `2 pairs`; "-" for none."""
    if trial.ratio is None:
        return "-"
    if trial.low is None or trial.high is None:
        return f"{units.ratio_text(trial.ratio)}, 1 pair"
    figures = units.ratio_with_interval(trial.ratio, trial.low, trial.high)
    return f"{figures}\n{trial.pairs} pairs"


def _not_tried(result: TuneResult) -> Iterator[RenderableType]:
    """Yield the plugins that were not tried, those with the same reason together."""
    by_reason: dict[str, list[str]] = {}
    for one in result.not_tried:
        by_reason.setdefault(one.reason, []).append(one.plugin)
    if by_reason:
        lines = (f"{', '.join(names)}: {reason}" for reason, names in by_reason.items())
        yield section("Not tried", bullets(lines), "", paragraph(NOT_TRIED_NOTE, "dim"))


def _settings(result: TuneResult) -> Iterator[RenderableType]:
    """Yield the trials of settings, the best values with what each earned, and their proof."""
    found = result.settings
    if found is None:
        return
    if found.trials:
        table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1))
        for name in ("values", _figure_name(result), "outcome"):
            table.add_column(name, overflow="fold")
        for trial in found.trials:
            outcome = f"{trial.outcome}: {trial.reason}" if trial.reason else str(trial.outcome)
            if trial.values and trial.values == found.untuned:
                outcome += ", with the untuned values"
            if trial.machine:
                outcome += f", on {trial.machine}"
            table.add_row(
                words(values_in_words(trial.values)),
                words(settings_figure(trial) or "-"),
                words(outcome, color_of(trial.outcome)),
            )  # fmt: skip
        how = f"sampler {found.sampler}, {found.planned} trials at most"
        if result.objective in ("time-to-target", "quality"):
            how += f", pruner {found.pruner} by {found.metric} of a part of the training data"
        how = f"{how}. {SETTINGS_NOTE}{_shared(found.shared)}"
        yield section("Settings", table, "", paragraph(how, "dim"))
    earned = {one.key: one for one in found.earned if one.stays}
    lines = [
        f"{values_in_words({key: value})}"
        + (f" in place of {value_in_words(before)}" if before is not None else "")
        + (f": {earned[key].reason}" if key in earned else "")
        for key, value in found.best.items()
        for before in (found.untuned.get(key),)
    ]
    lines += [
        f"{values_in_words({one.key: one.value})} put back: {one.reason}"
        for one in found.earned
        if not one.stays
    ]
    if lines:
        yield section("Best values", bullets(lines))
    if found.statement and found.statement not in result.statement:
        yield paragraph(found.statement)
    if found.proof is not None:
        yield section("Fresh pairs", paragraph(found.proof.statement, "bold"))


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


def _figure_name(result: TuneResult) -> str:
    if result.objective == "quality":
        return result.settings.metric if result.settings else "quality"
    return "figure"


def _winner(result: TuneResult) -> Iterator[RenderableType]:
    as_it_was = result.settings is not None and not result.settings.best
    if not result.stack or (result.objective == "quality" and as_it_was):
        return
    lines = (
        f"{one.name}: {settings}" if (settings := settings_in_words(one.settings)) else one.name
        for one in result.stack
    )
    yield section("Best stack", bullets(lines))


def _proof(result: TuneResult) -> Iterator[RenderableType]:
    if result.proof is not None:
        yield render_section(verdict_section(result.proof.comparison))
        ids = f"fresh pairs, measured as {result.proof.id}; tfopt report {result.proof.id} has all"
        yield indented(words(ids, "dim"))


def _closing(result: TuneResult) -> Iterator[RenderableType]:
    if result.why_ended:
        yield words(result.why_ended, "yellow")
    if result.statement:
        yield paragraph(result.statement)
    if result.written:
        use = f"tfopt apply {result.written} measures it again"
        if result.tuned_options and result.objective == "quality":
            use = f"tfopt train {result.written} trains with it"
        yield words(f"recipe: {result.written}   ({use})")
    elif result.why_not_written:
        yield paragraph(f"no recipe was written: {result.why_not_written}")
    yield words(f"kept as {result.id}; the same command begins from its trials", "dim")
