"""Draw the metrics of all runs over their epochs."""

from __future__ import annotations

from itertools import groupby

from tfopt_core.records.results import Results
from tfopt_core.report.html.frame import colors_of, make_frame, variants_of
from tfopt_core.report.html.svg import finite, shortened

MOST_METRICS = 6
# Points of all lines of a chart, so that the page stays small, and of one.
MOST_POINTS = 1_500
LEAST_POINTS = 8
# The dots of a chart; a line of a single point always has one.
MOST_DOTS = 150
# Keras logs these beside the metrics; the loss without penalties is the same line in most runs.
_LEFT_OUT = ("lr", "learning_rate", "val_data_loss")
TITLE_CHARACTERS = 44


def shown_metrics(results: Results) -> tuple[str, ...]:
    """Return the metrics that are drawn: the judged one first, and its partners."""
    histories = [run.fit.history for run in results.runs if run.ok and run.fits]
    names = dict.fromkeys(name for history in histories for name in history)
    quality = results.comparison.quality
    judged = "" if quality is None else quality.metric
    kept = [name for name in names if name == judged or name not in _LEFT_OUT]
    order = sorted(
        kept,
        key=lambda name: (name != judged, name != judged.removeprefix("val_"), "loss" not in name),
    )
    return tuple(order[:MOST_METRICS])


def quality_charts(results: Results) -> tuple[str, ...]:
    """Return a chart for each metric with a line for each run that counts, as SVG."""
    charts = (_chart(results, metric) for metric in shown_metrics(results))
    return tuple(chart for chart in charts if chart)


def _chart(results: Results, metric: str) -> str:
    variants = variants_of(results)
    lines = [
        (variant, run.fit.history.get(metric, ()))
        for variant in reversed(variants)  # the two sides above the others
        for run in results.of_variant(variant)
        if run.fits
    ]
    values = finite(value for _, line in lines for value in line)
    if not values:
        return ""
    epochs = max(len(line) for _, line in lines)
    low, high = min(values), max(values)
    margin = (high - low or abs(high) or 1.0) * 0.06
    frame = make_frame(
        shortened(metric, TITLE_CHARACTERS), (0.5, epochs + 0.5) if epochs == 1 else (1, epochs),
        (low - margin, high + margin), "epoch",
    )  # fmt: skip
    colors = colors_of(variants)
    step = -(-epochs // max(LEAST_POINTS, MOST_POINTS // len(lines)))
    dotted = len(lines) * epochs <= MOST_DOTS
    for variant, line in lines:
        kept = [*range(0, len(line), step)]
        if line and kept[-1] != len(line) - 1:
            kept.append(len(line) - 1)
        # a metric that is not finite breaks the line
        for is_known, group in groupby(kept, key=lambda index: bool(finite((line[index],)))):
            if is_known:
                points = [frame.place(index + 1, line[index]) for index in group]
                frame.chart.curve(points, f"line {colors[variant]}")
                if len(points) == 1 or dotted:
                    for point in points:
                        frame.chart.dot(point, f"full {colors[variant]}")
    return frame.chart.svg()
