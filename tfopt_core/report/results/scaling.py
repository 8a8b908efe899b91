"""Render the gain from several replicas."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from rich.console import RenderableType

from tfopt_core.records.results import Results, Scaling
from tfopt_core.records.variants import BASELINE, FULL
from tfopt_core.records.verdict import ComparisonKind
from tfopt_core.report.style import units
from tfopt_core.report.style.layout import bullets, section

# A smaller share of the lost time is not reported as a cause.
WORTH_SAYING = 0.1


def render_scaling(results: Results) -> tuple[RenderableType, ...]:
    """Return the section of a stack with several replicas, empty for any other."""
    lines = scaling_lines(results)
    return (section("Scaling", bullets(lines)),) if lines else ()


def scaling_lines(results: Results) -> tuple[str, ...]:
    """Return the efficiency, the communication and the reasons for a loss, in sentences; empty for
    a stack without replicas."""
    return () if results.scaling is None else tuple(_lines(results.scaling, results))


def _lines(scaling: Scaling, results: Results) -> Iterator[str]:
    if scaling.speedup is not None and scaling.efficiency is not None:
        ideal = scaling.replicas / scaling.baseline_replicas
        interval = ""
        if scaling.low is not None and scaling.high is not None:
            interval = f" ({100 * scaling.low / ideal:.0f} to {scaling.high / ideal:.0%})"
        yield (
            f"scaling efficiency: {scaling.efficiency:.0%} of {scaling.replicas} replicas"
            f"{interval}, {units.ratio_text(scaling.speedup)} of {ideal:.3g}x"
            f"{_of_what(scaling, results)}"
        )
    step, communication = scaling.step_seconds, scaling.communication_step_seconds
    if communication is not None:
        text = f"communication: {units.seconds_text(communication)}"
        if step is not None and scaling.communication_share is not None:
            share = f"{scaling.communication_share:.0%}"
            text += f", at most {share} of a step's {units.seconds_text(step)}"
        yield f"{text}, an all-reduce timed alone"
    # a point below 1 is no loss where the interval holds 1: the headline then claims none either
    if scaling.high is not None and scaling.high < 1:
        yield _why_slower(scaling, results)


def _of_what(scaling: Scaling, results: Results) -> str:
    """Return what else the figure includes."""
    to_target = results.comparison.kind is ComparisonKind.TIME_TO_TARGET
    text = ", in time to the target" if to_target else ""
    if scaling.plugin is None and len(results.resolved) > 1:
        text += ", all plugins of the stack together"
    return text


def _why_slower(scaling: Scaling, results: Results) -> str:
    reasons = []
    reasons += [reason for reason in (_shared(scaling, results), _once(results)) if reason]
    if scaling.communication_share is not None:
        share = f"{scaling.communication_share:.0%}"
        reasons.append(f"communication took at most {share} of a step, an all-reduce timed alone")
    why = "; ".join(reasons) or "where the time went was not timed"
    return f"slower than one device: {why}"


def _once(results: Results) -> str | None:
    """Return how much of the lost time is one-time cost, None if too little of it."""
    sides = [results.of_variant(variant) for variant in (BASELINE, FULL)]
    if results.comparison.kind is not ComparisonKind.END_TO_END or not all(sides):
        return None
    walls = [median(run.wall_seconds or 0.0 for run in side) for side in sides]
    once = [median(run.fit.one_time_seconds for run in side) for side in sides]
    lost, paid_once = walls[1] - walls[0], once[1] - once[0]
    if lost <= 0 or paid_once < WORTH_SAYING * lost:
        return None
    share = min(1.0, paid_once / lost)
    return f"one-time cost is {share:.0%} of the time lost, and weighs less in a longer training"


def _shared(scaling: Scaling, results: Results) -> str | None:
    """Return which device the replicas share; one device would have it alone. None if none."""
    several = scaling.workers > 1
    count, who = (scaling.workers, "workers") if several else (scaling.replicas, "replicas")
    all_of_them = f"both {who}" if count == 2 else f"all {count} {who}"
    gpus = len(results.machine.get("gpus") or ())
    cpus = results.machine.get("cpu_count")
    if gpus and gpus < scaling.replicas:
        there = "the one GPU" if gpus == 1 else f"the {gpus} GPUs"
    elif not gpus and cpus:
        there = "the one CPU" if cpus == 1 else f"the {cpus} CPUs"
    else:
        return None
    return (
        f"{all_of_them} share {there} of this machine, which one device has to itself, so there "
        "was nothing to gain here"
    )
