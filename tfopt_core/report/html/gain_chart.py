"""Draw speedups with their intervals, one below the other, on a logarithmic axis."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import attrs

from tfopt_core.records.results import Results
from tfopt_core.report.html.svg import FONT, WIDTH, Chart, Scale, finite, shortened
from tfopt_core.report.style import units
from tfopt_core.report.style.vocabulary import VERDICT_COLORS
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


def gains_of(results: Results) -> tuple[Gain, ...]:
    """Return the speedup of the stack, and of each plugin where it was isolated."""
    return tuple(_gains(results))


def _gains(results: Results) -> Iterator[Gain]:
    whole = results.comparison
    if whole.speedup is not None and whole.low is not None and whole.high is not None:
        color = VERDICT_COLORS[whole.verdict]
        yield Gain("the whole stack", whole.speedup, whole.low, whole.high, color)
    added = results.addition
    if (
        added is not None
        and added.speedup is not None
        and added.low is not None
        and added.high is not None
    ):
        label = f"{' and '.join(added.plugins)}, on top of it"
        color = _color(added.low, added.high)
        yield Gain(label, added.speedup, added.low, added.high, color, hollow=True)
    for item in results.attribution:
        ratio, low, high = item.left_out, item.low, item.high
        if ratio is not None and low is not None and high is not None:
            yield Gain(f"{item.plugin}, left out", ratio, low, high, _color(low, high))


def _color(low: float, high: float) -> str:
    if low > 1:
        return "green"
    return "red" if high < 1 else "yellow"


def gain_chart(gains: Sequence[Gain]) -> str:
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
