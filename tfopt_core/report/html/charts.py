"""Draw a report's charts: speedups with their intervals on a logarithmic axis, the step times of
each run, and the metrics over the epochs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, groupby
from statistics import median

import attrs

from tfopt_core.report.html.svg import (
    FONT,
    WIDTH,
    Chart,
    Point,
    Scale,
    finite,
    shortened,
    tick_text,
    ticks,
)
from tfopt_core.report.style import units
from tfopt_core.report.style.vocabulary import color_of, variant_in_words
from tfopt_core.statistics.figures import INDIFFERENCE
from tfopt_core.statistics.results import Addition, Attribution, Comparison, Results
from tfopt_core.statistics.runs import BASELINE, FULL, RunResult

LABEL_CHARACTERS, TITLE_CHARACTERS = 34, 44
ROW, MARGIN = 34.0, 10.0
ROUND_FACTORS = (1, 1.1, 1.2, 1.5, 2, 3, 5, 7, 10, 20, 50, 100, 200, 500, 1000)
LEFT, RIGHT, TOP, BOTTOM, HEIGHT = 56.0, 10.0, 24.0, 32.0, 190.0
# Colors for variants besides the baseline and the full stack; more share the last.
OTHERS = 6
# Points of all lines of a kind of chart, so that the page stays small, and of one line.
MOST_POINTS, LEAST_POINTS = 1_500, 10
# The axis ends at so many medians: the first step, with its trace, may take a hundred.
CEILING = 3.0
MOST_METRICS = 2
# Keras logs these beside the metrics; the loss without penalties is the same line in most runs.
_LEFT_OUT = ("lr", "learning_rate", "val_data_loss")


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
    factors = _round_factors(low, high)
    for value in factors:
        chart.text((x(value), bottom + FONT + 3), units.ratio_text(value), "", "middle")
    for index, gain in enumerate(drawn):
        _draw_gain(chart, x, gain, 4 + index * ROW, factors)
    chart.text((MARGIN, height - 3), "← slower", "dim")
    chart.text((WIDTH - MARGIN, height - 3), "faster →", "dim", "end")
    return chart.svg()


def _draw_gain(chart: Chart, x: Scale, gain: Gain, top: float, factors: Sequence[float]) -> None:
    # below the label, which is read on paper
    left, right, upper = x(1 / (1 + INDIFFERENCE)), x(1 + INDIFFERENCE), top + FONT + 5
    height = ROW - FONT - 7
    chart.box((left, upper), right - left, height, "band", f"within {INDIFFERENCE:.0%} of none")
    for value in factors:
        css = "axis" if value == 1 else "grid"
        chart.line((x(value), upper), (x(value), upper + height), css)
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


def variants_of(results: Results) -> list[str]:
    """Return the variants with runs that count: baseline, full stack, then each plugin left out, in
    the order of the stack."""
    names = {run.variant for run in results.runs if run.ok and run.fits}
    isolated = [f"without {name}" for name in results.resolved]
    known = [name for name in (BASELINE, FULL, *isolated) if name in names]
    return [*known, *sorted(names.difference(known))]


def colors_of(variants: Iterable[str]) -> dict[str, str]:
    """Return the class of the color of each variant."""
    others = (name for name in variants if name not in (BASELINE, FULL))
    colors = {name: f"c{min(index, OTHERS - 1)}" for index, name in enumerate(others)}
    return {BASELINE: "cb", FULL: "cf", **colors}


class Frame(Chart):
    """A chart with its title, grid and labels, to be drawn on.

    :param x_name: what the horizontal axis counts, in whole numbers.
    :param y_text: makes the labels of the vertical axis.
    """

    def __init__(
        self, title: str, x_range: tuple[float, float], y_range: tuple[float, float], x_name: str,
        y_text: Callable[[float], str] = tick_text,
    ) -> None:  # fmt: skip
        super().__init__(HEIGHT, title)
        self.x = x = Scale(*x_range, LEFT, WIDTH - RIGHT)
        self.y = y = Scale(*y_range, HEIGHT - BOTTOM, TOP)
        self.text((LEFT, FONT + 2), title, "title")
        for value in ticks(*y_range):
            self.line((LEFT, y(value)), (WIDTH - RIGHT, y(value)), "grid")
            self.text((LEFT - 5, y(value) + FONT / 3), y_text(value), "", "end")
        for value in ticks(*x_range):
            if value == int(value):
                self.text((x(value), HEIGHT - BOTTOM + FONT + 3), tick_text(value), "", "middle")
        self.line((LEFT, HEIGHT - BOTTOM), (WIDTH - RIGHT, HEIGHT - BOTTOM), "axis")
        self.text((WIDTH - RIGHT, HEIGHT - 3), x_name, "dim", "end")

    def draw(self, data: Sequence[Point], css: str, most: int) -> None:
        """Draw a line of at most about so many points, and a dot for a point alone; what is not
        finite breaks it."""
        for known, group in groupby(data, key=lambda point: math.isfinite(point[1])):
            if known:
                points = [(self.x(x), self.y(y)) for x, y in _thinned(list(group), most)]
                self.curve(points, f"line {css}")
                if len(points) == 1:
                    self.dot(points[0], f"full {css}")


def _thinned(points: Sequence[Point], most: int) -> Sequence[Point]:
    """Return of each stretch the lowest and the highest point, in order."""
    if len(points) <= most:
        return points
    stretch = -(-2 * len(points) // most)
    parts = (points[start : start + stretch] for start in range(0, len(points), stretch))
    ends = ({end(part, key=lambda point: point[1]) for end in (min, max)} for part in parts)
    return [point for pair in ends for point in sorted(pair)]


def step_times(run: RunResult) -> tuple[list[Point], list[Point]]:
    """Return the seconds of a step over the steps of all timed fits of a run, one after another:
    first the warm-up, which holds a trace or fills a cache, then the others."""
    blocks = [block for fit in run.timed_fits for block in fit.blocks]
    ends = accumulate(block.steps for block in blocks)
    kept = [(end - block.steps / 2, block) for end, block in zip(ends, blocks, strict=True)
            if block.steps > 0 and block.seconds > 0]  # fmt: skip
    points = [(x, block.seconds / block.steps) for x, block in kept]
    warm_up = next((i for i, (_, block) in enumerate(kept) if not block.cold), len(kept))
    return points[:warm_up], points[warm_up:]


def step_charts(results: Results) -> tuple[str, ...]:
    """Return a chart for each variant with timed steps, all on the same axes, as SVG."""
    runs = {
        variant: [timed for run in results.of_variant(variant) if any(timed := step_times(run))]
        for variant in variants_of(results)
    }
    every = [timed for of_variant in runs.values() for timed in of_variant]
    if not every:
        return ()
    usual = max(median(y for _, y in steady or warm_up) for warm_up, steady in every)
    highest = max(y for warm_up, steady in every for _, y in warm_up + steady)
    last = max((warm_up + steady)[-1][0] for warm_up, steady in every)
    most, colors = max(LEAST_POINTS, MOST_POINTS // len(every)), colors_of(runs)
    charts = []
    for variant, of_variant in runs.items():
        title = f"{variant_in_words(variant)[:28]}: {units.counted(len(of_variant), 'run')}"
        y_range = (0, min(CEILING * usual, 1.05 * highest))
        frame = Frame(title, (0, last), y_range, "step", units.seconds_text)
        for warm_up, steady in of_variant:
            if warm_up:
                frame.draw(warm_up + steady[:1], f"warm-up {colors[variant]}", most)
            frame.draw(steady, colors[variant], most)
        if of_variant:
            charts.append(frame.svg())
    return tuple(charts)


def quality_charts(results: Results) -> tuple[str, ...]:
    """Return a chart for each metric with a line for each run that counts, as SVG: the judged
    metric first, and its partners."""
    runs = [run for run in results.runs if run.ok and run.fits]
    names = dict.fromkeys(name for run in runs for name in run.fit.history)
    quality = results.comparison.quality
    judged = "" if quality is None else quality.metric
    order = sorted(
        (name for name in names if name == judged or name not in _LEFT_OUT),
        key=lambda name: (name != judged, name != judged.removeprefix("val_"), "loss" not in name),
    )
    charts = (_quality_chart(results, metric) for metric in order[:MOST_METRICS])
    return tuple(chart for chart in charts if chart)


def _quality_chart(results: Results, metric: str) -> str:
    variants = variants_of(results)
    lines = [
        (variant, list(enumerate(run.fit.history.get(metric, ()), start=1)))
        for variant in reversed(variants)  # the two sides above the others
        for run in results.of_variant(variant)
        if run.fits
    ]
    values = finite(value for _, line in lines for _, value in line)
    if not values:
        return ""
    epochs = max(len(line) for _, line in lines)
    low, high = min(values), max(values)
    margin = (high - low or abs(high) or 1.0) * 0.06
    frame = Frame(
        shortened(metric, TITLE_CHARACTERS), (0.5, epochs + 0.5) if epochs == 1 else (1, epochs),
        (low - margin, high + margin), "epoch",
    )  # fmt: skip
    most = max(LEAST_POINTS, MOST_POINTS // MOST_METRICS // len(lines))
    for variant, line in lines:
        frame.draw(line, colors_of(variants)[variant], most)
    return frame.svg()
