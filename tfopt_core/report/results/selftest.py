"""Render the result of `tfopt selftest`."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from rich.console import RenderableType
from rich.text import Text

from tfopt_core.hooks.machine import machine_in_words
from tfopt_core.measurement.selftest import NOMINAL_RATE, PAIRS, ControlTrial
from tfopt_core.report.style import units
from tfopt_core.report.style.layout import Page, grid, listed, paragraph, section, words

_EXPECTED = {
    "nothing": "does nothing: neither faster nor slower",
    "sleeps": "sleeps 5% of each step: slower",
}


def render_selftest(trials: Sequence[ControlTrial]) -> RenderableType:
    """Return the expected and actual result of each control, and the conclusion."""
    rows: list[tuple[RenderableType, ...]] = []
    for name in dict.fromkeys(trial.control for trial in trials):
        of_control = [trial for trial in trials if trial.control == name]
        met = sum(trial.as_expected for trial in of_control)
        mark = Text("✓", style="green") if met == len(of_control) else Text("✗", style="red")
        rows.append((mark, _EXPECTED[name], f"{met} of {len(of_control)}"))
    outcomes = (f"{trial.control}: {trial.results.comparison.statement}" for trial in trials)
    warned = dict.fromkeys(warning for trial in trials for warning in trial.results.warnings)
    machine = words(machine_in_words(trials[0].results.machine), "dim")
    return Page((
        section("Controls", machine, grid(rows)),
        listed("What was measured", outcomes),
        listed("Warnings", warned),
        section("Verdict", paragraph(*_verdict(trials)), _resolution(trials)),
    ))  # fmt: skip


def _resolution(trials: Sequence[ControlTrial]) -> Text | None:
    """Return how wide an interval is here, from the trials of the no-op."""
    widths, seconds = [], []
    for trial in trials:
        found = trial.results.comparison
        if trial.control == "nothing" and found.low is not None and found.high is not None:
            widths.append((found.high - found.low) / 2)
            seconds.append(trial.results.seconds)
    if not widths:
        return None
    took = units.seconds_text(median(seconds))
    return paragraph(f"an interval reaches {median(widths):.1%} to either side, after {took}")


def _verdict(trials: Sequence[ControlTrial]) -> tuple[str, str]:
    wrong = [trial for trial in trials if not trial.as_expected]
    if not wrong:
        return (
            f"{PAIRS} pairs of short trainings on one thread tell a loss of 5% from nothing on "
            "this machine; trainings on all threads may vary more, and their intervals say so"
        ), "bold green"
    missed = sum(trial.control == "sleeps" for trial in wrong)
    alarms = len(wrong) - missed
    sentences = []
    if missed:
        sentences.append(
            f"a loss of 5% was not found in {missed} of the selftests: this machine is too noisy "
            f"for differences of that size in {PAIRS} pairs; close what else runs, or trust larger "
            "differences only"
        )
    if alarms:
        sentences.append(
            f"a plugin that does nothing came out faster or slower {alarms} times: by chance that "
            f"happens in {NOMINAL_RATE:.0%} of all measurements; more often than that, figures of "
            "this machine are not to be trusted"
        )
    return "; ".join(sentences), "bold red"
