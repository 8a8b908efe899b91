"""The page of the catalogue: a table of gains and memory with intervals. No process is started."""

from __future__ import annotations

import math
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any, Protocol

from catalogue_rows import PLACES, ROWS, Place
from measured import speedup

from tfopt_core.hooks import read_machine
from tfopt_core.statistics.disturbance import from_outside
from tfopt_core.statistics.intervals import log_ratios, t_interval

# Below this a gain needs more pairs before it is called one, as in a verdict of `tfopt apply`.
SMALL_GAIN, PAIRS_OF_SMALL_GAINS = 1.10, 8

INTRODUCTION = """\
# Catalogue

Each plugin alone against the baseline, on a workload where it should help and on one where it
should not. Time is the baseline's divided by that with the plugin, of whole trainings, start-up
included; of plugins that change the training algorithm it is the time to the target that is named
below. Memory is the baseline's peak divided by that with the plugin. So above 1 is better in both
columns, and the brackets are 95% intervals of pairs under the same seed, each for its row alone:
of twenty rows without any effect, one will lie beside 1. "faster", "slower", "less" and "more"
stand where the interval leaves out 1; a gain whose interval reaches below 1.10 takes eight pairs.

Written by `{command}` from real runs.
"""


class Rounds(Protocol):
    """What was measured; see `catalogue.Store`."""

    rounds: list[dict[str, Any]]

    def of(self, place: str, plugin: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        """Return the baseline's run and that of a plugin, of each round that has both."""


def page(store: Rounds, names: Sequence[str], pairs: int) -> str:
    """Return the page, in Markdown."""
    machine = read_machine()
    count = sum(len(one["runs"]) for one in store.rounds)
    disturbed = sum(
        from_outside(run.get("disturbance", {}))
        for one in store.rounds
        for run in one["runs"].values()
    )
    lines = [
        INTRODUCTION.format(command=".venv/bin/python benchmarks/catalogue.py"),
        f"Machine: {machine.cpu_model}, {machine.cpu_count} CPUs, "
        f"{machine.memory_bytes / 2**30:.0f} GiB, {len(machine.gpus) or 'no'} GPU; "
        f"TensorFlow {version('tensorflow')}, Keras {version('keras')}. "
        f"{count} runs, {pairs} pairs a row; other programs disturbed {disturbed} of them.",
        "",
        "| plugin | mathematics | it should | on | time | peak memory |",
        "|---|---|---|---|---|---|",
    ]
    for name in names:
        row = ROWS[name]
        lines += [line(store, name, "help", row.helps), line(store, name, "not help", row.harms)]
    used = {place for name in names for place in (ROWS[name].helps, ROWS[name].harms)}
    lines += [
        "",
        "| on | workload | what takes its time | epochs | target |",
        "|---|---|---|---|---|",
    ]
    lines += [legend(name, place) for name, place in PLACES.items() if name in used]
    return "\n".join(lines) + "\n"


def line(store: Rounds, name: str, expected: str, place: str) -> str:
    """Return one row of the table."""
    found = store.of(place, name)
    why_not = next((run["why_not"] for _, run in found if "why_not" in run), None)
    link = f"[{name}](plugins/{name}.md)"
    if why_not is not None:
        return f"| {link} | | {expected} | {place} | not applied: {_cell(why_not)} | |"
    if not found:
        return f"| {link} | | {expected} | {place} | not measured yet | |"
    declared = found[0][1]["math"]
    time = (
        to_target(found) if declared == "changes"
        else judged([base["seconds"] for base, _ in found],
                    [run["seconds"] for _, run in found], "faster", "slower")
    )  # fmt: skip
    memory = judged(
        [base["peak_rss_bytes"] for base, _ in found],
        [run["peak_rss_bytes"] for _, run in found], "less", "more",
    )  # fmt: skip
    return f"| {link} | {declared} | {expected} | {place} | {time} | {memory} |"


def to_target(found: Sequence[tuple[dict[str, Any], dict[str, Any]]]) -> str:
    """Return the ratio of the times to the target, or how many runs reached it."""
    before = [base["seconds_to_target"] for base, _ in found]
    after = [run["seconds_to_target"] for _, run in found]
    if None in (*before, *after):
        reached = [sum(seconds is not None for seconds in side) for side in (after, before)]
        return f"target reached in {reached[0]} of {len(found)} runs, without it in {reached[1]}"
    return f"{judged(before, after, 'faster', 'slower')} to the target"


def judged(before: Sequence[float], after: Sequence[float], better: str, worse: str) -> str:
    """Return `1.25x (1.20-1.31), faster`: the ratio, its interval, and what may be said of it."""
    interval = t_interval(log_ratios(list(before), list(after)), 0.05)
    text = speedup(list(before), list(after))
    low, high = math.exp(interval.low), math.exp(interval.high)
    if high < 1:
        return f"{text}, {worse}"
    if low > 1 and (low >= SMALL_GAIN or len(before) >= PAIRS_OF_SMALL_GAINS):
        return f"{text}, {better}"
    return text


def legend(name: str, place: Place) -> str:
    """Return what a place is, as a row."""
    options = "".join(f", {key} = {value}" for key, value in place.options.items())
    target = ""
    if place.target is not None:
        bound = "at_least" if "at_least" in place.target else "at_most"
        target = f"{place.target['metric']} {bound.replace('_', ' ')} {place.target[bound]}"
    return f"| {name} | {place.workload}{options} | {place.limits} | {place.epochs} | {target} |"


def _cell(text: str) -> str:
    """Return text that stays within one cell of a table."""
    return " ".join(text.replace("|", "/").split())
