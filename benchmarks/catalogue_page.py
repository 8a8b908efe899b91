"""The page of the catalogue: what each plugin brought where, with intervals. Nothing is started."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from statistics import median

from catalogue_figures import (
    LOOK_LEVEL,
    Sides,
    judged_seconds,
    peak_bytes,
    start_seconds,
    step_seconds,
    training_seconds,
    verdict_of,
)
from catalogue_rounds import Catalogue
from catalogue_rows import ROWS, Place
from measured import speedup

from tfopt_core.hooks.machine import read_machine
from tfopt_core.statistics.figures import INDIFFERENCE
from tfopt_core.statistics.intervals import MINIMUM_PAIRS
from tfopt_core.statistics.results import Verdict
from tfopt_core.statistics.runs import Pair
from tfopt_core.workers.telemetry import seen_in_words

HEADS = ("plugin", "equivalence", "it should", "on", "steps", "start-up", "whole training",
         "peak memory", "pairs")  # fmt: skip
IDLE = "not applied"
INTRODUCTION = """\
# Catalogue

Each plugin alone against the same training without it, on a workload where it should help and on
one where it should not. Written by `benchmarks/catalogue.py` from real runs, losses as well as
gains.

## How to read it

- **Above 1 is better** in the columns of ratios: a figure of the training without the plugin,
  divided by that with it. So "1.25x" says that it took 1.25 times as long, or as much memory,
  without the plugin.
- **steps**: the time of an epoch's training steps once they are warm, input included. This is what
  a long training gains.
- **start-up**: the seconds that a training costs once, without -> with the plugin, as medians:
  building the model, tracing, compiling, filling a cache, starting other processes. Importing
  TensorFlow is not in it.
- **whole training**: everything from building the model to the end of the last epoch, validation
  included. The trainings here are short (see
  [the workloads](#the-workloads-and-what-was-scaled-down)), so start-up weighs more than in yours.
  For a plugin that changes the training algorithm it is the time to the target that is named there,
  and the row is judged by it; the other rows are judged by their steps.
- **peak memory** is that of the process that trains, TensorFlow included.
- **equivalence**: "exact" is the same training, "order" the same examples in another order,
  "rounding" another precision, "changes" another algorithm. Only the time to a target says anything
  of quality here; `tfopt apply` also compares the metrics.
- **Brackets** are 98% intervals over the pairs. They are wider than the 95% of `tfopt apply`
  ([measuring](guide/measuring.md)), because the figures decide after some pairs whether more are
  made. "Faster", "slower", "less" and "more" mean that the interval excludes 1, and "no difference"
  that it lies within {indifference:.0%} of 1. Without a word the pairs do not decide. A row errs in
  about 5% of cases: of forty rows without any effect, two will exclude 1.
- **pairs**: how many the figures of the row rest on. {pairs} are planned for each row, and up to
  {most} where its verdict is open and time remains.
- **not applied** says why the plugin did nothing there. It was run once and has no figures.

## How it was measured

In a round, the training without a plugin and the one with each plugin run once, one after the
other, in an order that is drawn and under one seed, each in a process of its own. A pair is a
plugin's run with that of the training without it in the same round: one baseline serves all rows of
a workload, so a slow baseline touches all of them alike. Runs are forks of a process that has
imported TensorFlow, as in `tfopt apply`; a plugin that changes the environment of its process or
trains in several processes starts new ones, and so does its baseline. Settings of "auto" are
resolved once, before the runs.
"""


def page(catalogue: Catalogue, *, smoke: bool) -> str:
    """Return the page, in Markdown."""
    intro = INTRODUCTION.format(
        pairs=catalogue.pairs, most=catalogue.most, indifference=INDIFFERENCE
    )
    parts = [intro, "## Machine and versions\n", _machine(catalogue)]
    if smoke:
        parts.append("\n**Only a try of the benchmark on little data: its figures mean nothing.**")
    parts += ["\n## What helped\n", *_summary(catalogue), "\n## Every row\n", table(catalogue)]
    parts += ["## The workloads, and what was scaled down\n", _legend(catalogue)]
    return "\n".join(parts)


def table(catalogue: Catalogue) -> str:
    """Return the table of all rows."""
    rows = [
        _cells(catalogue, name, expected, place)
        for name in catalogue.names
        for expected, place in (("help", ROWS[name].helps), ("not help", ROWS[name].harms))
        if place in catalogue.places
    ]
    return _table(HEADS, rows)


def judged(sides: Sides, better: str, worse: str) -> str:
    """Return `1.25x (1.20-1.31), faster`: the ratio, its interval, and what may be said of it."""
    words = {Verdict.FASTER: better, Verdict.SLOWER: worse, Verdict.NO_DIFFERENCE: "no difference"}
    word = words.get(verdict_of(sides))
    return speedup(*sides, level=LOOK_LEVEL) + (f", {word}" if word else "")


def _cells(catalogue: Catalogue, name: str, expected: str, place: str) -> list[str]:
    """Return the cells of one row."""
    runs, pairs = catalogue.runs_of(place, name), catalogue.pairs_of(place, name)
    math = catalogue.math_of(runs)
    first = [f"[{name}](plugins/{name}.md)", math or "", expected, place]
    why_none = catalogue.why_none(place, name)
    if why_none:
        return [*first, _cell(why_none), "", "", "", ""]
    if len(pairs) < MINIMUM_PAIRS:
        return [*first, f"too few pairs: {len(pairs)} of {catalogue.pairs}", "", "", "", ""]
    without = [f"{why}" for run in runs if (why := run.why_not or run.failed)]
    left_out = f"; {len(without)} more without it: {_cell(without[0])}" if without else ""
    steps, training = step_seconds(pairs), training_seconds(pairs, math)
    to_target = " to the target" if math == "changes" else ""
    return [
        *first,
        "not known" if steps is None else judged(steps, "faster", "slower"),
        _start_up(pairs),
        training if isinstance(training, str) else judged(training, "faster", "slower") + to_target,
        judged(peak_bytes(pairs), "less", "more"),
        f"{len(pairs)}{left_out}",
    ]


def _start_up(pairs: Sequence[Pair]) -> str:
    before, after = (median(side) for side in start_seconds(pairs))
    return f"{before:.1f} -> {after:.1f} s"


def _summary(catalogue: Catalogue) -> list[str]:
    """Return which plugins helped somewhere, and which nowhere."""
    groups: dict[str, list[str]] = {
        "Faster": [], "Not faster, but with less memory": [], "Helped nowhere here": [],
        "Not applied on either of its workloads": [], "Not measured to the end": [],
    }  # fmt: skip
    faster, less, nowhere, idle, unknown = groups.values()
    for name in catalogue.names:
        places = [p for p in (ROWS[name].helps, ROWS[name].harms) if p in catalogue.places]
        kinds = {place: _kind(catalogue, place, name) for place in places}
        helped = [place for place, kind in kinds.items() if kind == "faster"]
        if helped:
            faster.append(f"{name} ({', '.join(helped)})")
        elif lighter := [place for place, kind in kinds.items() if kind == "less"]:
            less.append(f"{name} ({', '.join(lighter)})")
        elif "unknown" in kinds.values():
            unknown.append(name)
        elif set(kinds.values()) == {IDLE}:
            idle.append(name)
        else:
            each = (f"{place}: {kind}" for place, kind in kinds.items())
            nowhere.append(f"{name} ({'; '.join(each)})")
    return [f"- {title}: {', '.join(found)}." for title, found in groups.items() if found]


def _kind(catalogue: Catalogue, place: str, name: str) -> str:
    """Return "faster" or "less" (memory), or in a word why a row is no gain."""
    why_none = catalogue.why_none(place, name)
    if why_none:
        return IDLE if why_none.startswith(IDLE) else "failed"
    pairs = catalogue.pairs_of(place, name)
    if len(pairs) < MINIMUM_PAIRS:
        return "unknown"
    seconds = judged_seconds(pairs, catalogue.math_of(catalogue.runs_of(place, name)))
    verdict = None if isinstance(seconds, str) else verdict_of(seconds)
    if verdict is Verdict.FASTER:
        return "faster"
    if verdict_of(peak_bytes(pairs)) is Verdict.FASTER:
        return "less"
    if isinstance(seconds, str):
        return "target missed"
    return {Verdict.SLOWER: "slower", Verdict.NO_DIFFERENCE: "no difference"}.get(
        verdict or Verdict.NONE, "no clear difference"
    )


def _machine(catalogue: Catalogue) -> str:
    machine, runs = read_machine(), catalogue.all_runs()
    seen = seen_in_words([run.run for run in runs if run.run is not None])
    gpus = ", ".join(gpu.name for gpu in machine.gpus) or "no GPU"
    return (
        f"{machine.cpu_model}, {machine.cpu_count} CPUs, {machine.memory_bytes / 2**30:.0f} GiB of "
        f"memory, {gpus}; TensorFlow {version('tensorflow')}, Keras {version('keras')}, "
        f"{machine.system}; {datetime.now(UTC):%-d %B %Y}.\n{len(runs)} runs"
        f"{f'; {seen}' if seen else ''}."
    )


def _legend(catalogue: Catalogue) -> str:
    """Return the table of the workloads."""
    used = {place for name in catalogue.names for place in (ROWS[name].helps, ROWS[name].harms)}
    rows = [_place(name, place) for name, place in catalogue.places.items() if name in used]
    heads = ["on", "workload and its options", "what takes its time", "epochs", "by itself it has",
             "target"]  # fmt: skip
    return (
        "Trainings are shortened: they have fewer examples and epochs than the workload has by "
        "itself, and in\nsome rows fewer classes or another length of texts. Models and pictures "
        "keep their sizes unless an\noption says otherwise.\n\n" + _table(heads, rows)
    )


def _place(name: str, place: Place) -> list[str]:
    options = "".join(f", {key} = {value}" for key, value in place.options.items())
    if place.batch_size is not None:
        options += f", batches of {place.batch_size}"
    target = ""
    if place.target is not None:
        bound = "at_least" if "at_least" in place.target else "at_most"
        target = f"{place.target['metric']} {bound.replace('_', ' ')} {place.target[bound]}"
    workload = f"{place.workload}{options}"
    return [name, workload, place.limits, str(place.epochs), place.whole, target]


def _cell(text: str) -> str:
    """Return text that stays within one cell of a table."""
    return " ".join(text.replace("|", "/").split())


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"
