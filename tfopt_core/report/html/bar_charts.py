"""Draw speedups with their intervals on a logarithmic axis, and bars of where the time of a
training and of a step goes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from statistics import fmean

import attrs

from tfopt_core.hooks.diagnosis import PARTS
from tfopt_core.records.diagnosis import Diagnosed
from tfopt_core.records.results import (
    Addition,
    Attribution,
    Comparison,
    FitResult,
    Results,
    RunResult,
)
from tfopt_core.records.variants import BASELINE, FULL
from tfopt_core.report.html.svg import FONT, WIDTH, Chart, Scale, finite, shortened
from tfopt_core.report.style import units
from tfopt_core.report.style.vocabulary import color_of, variant_in_words
from tfopt_core.statistics.judgement import INDIFFERENCE

LABEL_CHARACTERS = 34
ROW = 34.0
MARGIN = 10.0
ROUND_FACTORS = (1, 1.1, 1.2, 1.5, 2, 3, 5, 7, 10, 20, 50, 100, 200, 500, 1000)


@attrs.frozen
class Gain:
    """A speedup to draw: `css` is its color, `hollow` marks one that is no contrast of the stack
    as a whole."""

    label: str
    ratio: float
    low: float
    high: float
    css: str
    hollow: bool = False


def gains_of(results: Results) -> Iterator[Gain]:
    """Yield the speedup of the stack, and of each plugin where it was isolated."""
    whole, more = results.comparison, results.addition
    contrasts: list[tuple[str, float | None, Comparison | Addition | Attribution]]
    contrasts = [("the whole stack", whole.speedup, whole)]
    if more is not None:
        contrasts.append((f"{' and '.join(more.plugins)}, on top of it", more.speedup, more))
    contrasts += [(f"{one.plugin}, left out", one.left_out, one) for one in results.attribution]
    for label, ratio, one in contrasts:
        if ratio is not None and one.low is not None and one.high is not None:
            color = "green" if one.low > 1 else "red" if one.high < 1 else "yellow"
            color = color_of(whole.verdict) if one is whole else color
            yield Gain(label, ratio, one.low, one.high, color, hollow=one is more)


def gain_chart(gains: Iterable[Gain]) -> str:
    """Return the chart as SVG, "" without a gain whose interval can be drawn."""
    drawn = [gain for gain in gains if min(gain.ratio, gain.low, gain.high) > 0
             and len(finite((gain.ratio, gain.low, gain.high))) == 3]  # fmt: skip
    if not drawn:
        return ""
    low = min(0.95, *(gain.low for gain in drawn)) / 1.02
    high = max(1.05, *(gain.high for gain in drawn)) * 1.02
    height = ROW * len(drawn) + 36
    chart = Chart(height, "speedups with their intervals")
    x = Scale(low, high, MARGIN, WIDTH - MARGIN, logarithmic=True)
    bottom = height - 30
    left, right = x(1 / (1 + INDIFFERENCE)), x(1 + INDIFFERENCE)
    chart.box((left, 4), right - left, bottom - 4, "band", "within 2% of no difference")
    for value in _round_factors(low, high):
        chart.line((x(value), 4), (x(value), bottom), "axis" if value == 1 else "grid")
        chart.text((x(value), bottom + FONT + 3), units.ratio_text(value), "", "middle")
    for index, gain in enumerate(drawn):
        _draw(chart, x, gain, 4 + index * ROW)
    chart.text((MARGIN, height - 3), "← slower", "dim")
    chart.text((WIDTH - MARGIN, height - 3), "faster →", "dim", "end")
    return chart.svg()


def _draw(chart: Chart, x: Scale, gain: Gain, top: float) -> None:
    chart.text((MARGIN, top + FONT + 1), shortened(gain.label, LABEL_CHARACTERS), "name")
    interval = units.ratio_with_interval(gain.ratio, gain.low, gain.high)
    chart.text((WIDTH - MARGIN, top + FONT + 1), interval, "name", "end")
    middle = top + FONT + 12
    chart.line((x(gain.low), middle), (x(gain.high), middle), f"whisker {gain.css}")
    for end in (gain.low, gain.high):
        chart.line((x(end), middle - 4), (x(end), middle + 4), f"whisker {gain.css}")
    chart.dot((x(gain.ratio), middle), f"{'hollow' if gain.hollow else 'full'} {gain.css}", 4)


def _round_factors(low: float, high: float) -> list[float]:
    """Return round factors within the range, at most about six, always 1."""
    both = sorted({*ROUND_FACTORS, *(1 / factor for factor in ROUND_FACTORS)})
    inside = [value for value in both if low <= value <= high]
    # labels need about a ninth of the width each
    apart = math.log(high / low) / 9
    kept = [1.0]
    for value in [v for v in inside if v > 1] + [v for v in reversed(inside) if v < 1]:
        if all(abs(math.log(value / other)) >= apart for other in kept):
            kept.append(value)
    return sorted(kept)


BAR_MARGIN = 4.0
BAR_ROW = 46.0
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
    sides = [(variant, results.of_variant(variant)) for variant in (BASELINE, FULL)]
    if not all(run.fits and run.complete for _, side in sides for run in side):
        return ()
    bars = []
    for variant, side in sides:
        parts = [found for run in side if (found := parts_of_training(run)) is not None]
        if parts:
            seconds = tuple(fmean(values) for values in zip(*parts, strict=True))
            bars.append(TimeBar(variant_in_words(variant), seconds, math.fsum(seconds)))
    return tuple(bars)


def parts_of_training(run: RunResult) -> tuple[float, float, float] | None:
    """Return the seconds of a run's one-time cost, of its steps, and of what is left of its wall
    time: validation and the ends of epochs. None if there is no wall time."""
    if run.wall_seconds is None:
        return None
    one_time = math.fsum(fit.one_time_seconds for fit in run.timed_fits)
    steps = math.fsum(_step_seconds(fit) for fit in run.timed_fits)
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
    chart = Chart(BAR_ROW * len(bars), label)
    for index, bar in enumerate(bars):
        top = index * BAR_ROW
        chart.text((BAR_MARGIN, top + FONT + 2), shortened(bar.label, 30), "name")
        chart.text(
            (WIDTH - BAR_MARGIN, top + FONT + 2), units.seconds_text(bar.total), "name", "end"
        )
        left = BAR_MARGIN
        for number, seconds in enumerate(bar.seconds):
            width = seconds / longest * (WIDTH - 2 * BAR_MARGIN)
            shown = units.seconds_text(seconds)
            chart.box((left, top + FONT + 8), width, 18, f"part p{number}", shown)
            if width >= LABEL_WIDTH:
                at = (left + width / 2, top + FONT + 21)
                chart.text(at, shown, f"on p{number}", "middle")
            left += width
    return chart.svg()
