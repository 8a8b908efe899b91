"""Render the curves of a pair of whole trainings, on which no verdict depends."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType

from tfopt_core.records.results import Results, RunResult
from tfopt_core.report.style import units
from tfopt_core.report.style.layout import grid, section, words
from tfopt_core.report.style.vocabulary import variant_in_words

TITLE = "A pair of whole trainings"
NOTE = "one run of each, for their curves: the verdict does not rest on it"
# As many epochs as fit into a line.
MOST_EPOCHS = 5
# Beside the judged metric.
LOSSES = ("val_loss", "loss")


def render_whole_pair(results: Results) -> tuple[RenderableType, ...]:
    """Return the section of the curves, empty if there is no pair."""
    rows = [tuple(words(cell) for cell in row) for row in curve_rows(results)]
    return (section(TITLE, words(NOTE, "dim"), grid(rows)),) if rows else ()


def curve_rows(results: Results) -> tuple[tuple[str, ...], ...]:
    """Return a head with some epochs, and for each metric and run its values there."""
    runs = [run for run in results.whole_pair if run.fits]
    epochs = max((len(values) for run in runs for values in run.fit.history.values()), default=0)
    if not epochs:
        return ()
    shown = _some(epochs)
    head = ("epoch", "", *(f"{index + 1:,}" for index in shown))
    return (head, *_rows(runs, _metrics(results, runs), shown))


def _some(count: int) -> tuple[int, ...]:
    """Return indices spread over so many, the first and the last among them."""
    if count <= MOST_EPOCHS:
        return tuple(range(count))
    last = MOST_EPOCHS - 1
    return tuple(dict.fromkeys(round(place * (count - 1) / last) for place in range(MOST_EPOCHS)))


def _metrics(results: Results, runs: Sequence[RunResult]) -> tuple[str, ...]:
    known = {name for run in runs for name in run.fit.history}
    quality = results.comparison.quality
    judged = "" if quality is None else quality.metric
    loss = next((name for name in LOSSES if name in known), "")
    return tuple(name for name in dict.fromkeys((judged, loss)) if name in known)


def _rows(
    runs: Sequence[RunResult], metrics: Sequence[str], shown: Sequence[int]
) -> Iterator[tuple[str, ...]]:
    for metric in metrics:
        for place, run in enumerate(runs):
            values = run.fit.history.get(metric, ())
            cells = (
                units.metric_text(values[index]) if index < len(values) else "" for index in shown
            )
            wall = "" if run.wall_seconds is None else f", {units.seconds_text(run.wall_seconds)}"
            name = f"{variant_in_words(run.variant)}{wall}"
            yield metric if place == 0 else "", name, *cells
