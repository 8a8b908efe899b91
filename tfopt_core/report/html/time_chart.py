"""Draw where the time goes, without and with the stack: of a training, and of a step."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from statistics import fmean

import attrs

from tfopt_core.hooks.diagnosis import PARTS
from tfopt_core.records.diagnosis import Diagnosed
from tfopt_core.records.results import FitResult, Results, RunResult
from tfopt_core.records.variants import BASELINE, FULL
from tfopt_core.report.html.svg import FONT, WIDTH, Chart, shortened
from tfopt_core.report.style import units
from tfopt_core.report.style.vocabulary import variant_in_words

MARGIN = 4.0
ROW = 46.0
# A part narrower than this has no room for its figure.
LABEL_WIDTH = 52.0
ONE_TIME, STEPS, REST = "one-time", "steps", "epoch ends and validation"
TRAINING_PARTS = (ONE_TIME, STEPS, REST)


@attrs.frozen
class TimeBar:
    """The seconds of each part, in the order of the parts, and of all of them together."""

    label: str
    seconds: tuple[float, ...]
    total: float


def training_bars(results: Results) -> tuple[TimeBar, ...]:
    """Return the mean seconds of a training's parts for baseline and stack; empty if runs were
    cut short, since what they trained differs in length."""
    return tuple(_training_bars(results))


def _training_bars(results: Results) -> Iterator[TimeBar]:
    sides = [(variant, results.of_variant(variant)) for variant in (BASELINE, FULL)]
    if not all(run.fits and run.complete for _, side in sides for run in side):
        return
    for variant, side in sides:
        parts = [found for run in side if (found := parts_of_training(run)) is not None]
        if parts:
            seconds = tuple(fmean(values) for values in zip(*parts, strict=True))
            yield TimeBar(variant_in_words(variant), seconds, math.fsum(seconds))


def parts_of_training(run: RunResult) -> tuple[float, float, float] | None:
    """Return the seconds of a run's one-time cost, of its steps, and of what is left of its wall
    time: validation and the ends of epochs. None if there is no wall time."""
    if run.wall_seconds is None:
        return None
    one_time = math.fsum(fit.one_time_seconds for fit in run.timed_fits)
    steps = math.fsum(map(_step_seconds, run.timed_fits))
    return one_time, steps, max(0.0, run.wall_seconds - one_time - steps)


def _step_seconds(fit: FitResult) -> float:
    """Return the seconds of all steps; of a block with a trace only its steady share, since the
    rest of it is one-time cost."""
    usual = fit.step_seconds or 0.0
    return math.fsum(
        min(block.seconds, block.steps * usual) if block.cold else block.seconds
        for block in fit.blocks
    )


def step_bars(diagnoses: Sequence[Diagnosed]) -> tuple[TimeBar, ...]:
    """Return the parts of a step, in the order of `PARTS`, the baseline first. A part that noise
    puts below zero is drawn as none."""
    ordered = sorted(diagnoses, key=lambda found: bool(found.stack))
    return tuple(
        TimeBar(
            variant_in_words(FULL if found.stack else BASELINE),
            tuple(max(0.0, getattr(found, f"{part}_seconds")) for part in PARTS),
            found.step_seconds,
        )
        for found in ordered
    )


def bar_chart(label: str, bars: Sequence[TimeBar]) -> str:
    """Return the bars below each other on one scale, as SVG; "" without one."""
    longest = max((math.fsum(bar.seconds) for bar in bars), default=0.0)
    if longest <= 0:
        return ""
    chart = Chart(ROW * len(bars), label)
    for index, bar in enumerate(bars):
        top = index * ROW
        chart.text((MARGIN, top + FONT + 2), shortened(bar.label, 30), "name")
        chart.text((WIDTH - MARGIN, top + FONT + 2), units.seconds_text(bar.total), "name", "end")
        left = MARGIN
        for number, seconds in enumerate(bar.seconds):
            width = seconds / longest * (WIDTH - 2 * MARGIN)
            shown = units.seconds_text(seconds)
            chart.box((left, top + FONT + 8), width, 18, f"part p{number}", shown)
            if width >= LABEL_WIDTH:
                at = (left + width / 2, top + FONT + 21)
                chart.text(at, shown, f"on p{number}", "middle")
            left += width
    return chart.svg()
