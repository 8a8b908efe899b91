"""Draw lines: the step times of each run, with warm-up, epoch starts and stalls marked, and the
metrics over the epochs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, groupby, pairwise
from statistics import median

import attrs

from tfopt_core.records.results import FitResult, Results, RunResult
from tfopt_core.records.run import Block
from tfopt_core.records.variants import BASELINE, FULL
from tfopt_core.report.html.svg import (
    FONT,
    WIDTH,
    Chart,
    Scale,
    finite,
    shortened,
    tick_text,
    ticks,
)
from tfopt_core.report.style import units
from tfopt_core.report.style.vocabulary import variant_in_words

LEFT, RIGHT, TOP, BOTTOM = 48.0, 10.0, 24.0, 32.0
HEIGHT = 190.0
# Colors for variants besides the baseline and the full stack; more share the last.
OTHERS = 6


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

    def place(self, x: float, y: float) -> tuple[float, float]:
        """Return the place of a point of the data."""
        return self.x(x), self.y(y)


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


# A block is a stall if its steps took more than so many times the median of its run.
STALL = 2.0
# Points of all lines together, so that the page stays small.
MOST_POINTS = 7_000
LEAST_POINTS = 24
# The axis ends at so many medians: the first step, with its trace, may take a hundred.
CEILING = 3.0


@attrs.frozen
class TimedBlock:
    """A block of a run: the step in its middle, its seconds a step, and what it is."""

    step: float
    seconds: float
    epoch: int
    warm_up: bool
    stall: bool


def timed_blocks(fit: FitResult) -> tuple[TimedBlock, ...]:
    """Return the blocks of a fit in order. Warm-up ends with the first block that holds no trace
    and fills no cache."""
    blocks = [block for block in fit.blocks if block.steps > 0 and block.seconds > 0]
    if not blocks:
        return ()
    warm = [index for index, block in enumerate(blocks) if not block.cold]
    begin = warm[0] if warm else len(blocks)
    times = [block.seconds / block.steps for block in blocks]
    usual = median(times[index] for index in warm) if warm else median(times)
    ends = accumulate(block.steps for block in blocks)
    return tuple(
        TimedBlock(
            step=end - block.steps / 2,
            seconds=time,
            epoch=block.epoch,
            warm_up=index < begin or bool(block.cold),
            stall=index >= begin and _is_stall(blocks, index, time / usual),
        )
        for index, (block, time, end) in enumerate(zip(blocks, times, ends, strict=True))
    )


def blocks_of_run(run: RunResult) -> tuple[TimedBlock, ...]:
    """Return the blocks of all timed fits of a run, one fit after another."""
    blocks: list[TimedBlock] = []
    steps = epochs = 0
    for fit in run.timed_fits:
        for block in timed_blocks(fit):
            blocks.append(attrs.evolve(block, step=block.step + steps, epoch=block.epoch + epochs))
        steps += sum(block.steps for block in fit.blocks)
        epochs += max((block.epoch + 1 for block in fit.blocks), default=0)
    return tuple(blocks)


def _is_stall(blocks: Sequence[Block], index: int, ratio: float) -> bool:
    """Return whether a block is slow for no known reason: it holds no trace, fills no cache, and
    does not begin an epoch."""
    begins_epoch = index > 0 and blocks[index - 1].epoch != blocks[index].epoch
    return ratio > STALL and not blocks[index].cold and not begins_epoch


def step_charts(results: Results) -> tuple[str, ...]:
    """Return a chart for each variant with timed steps, all on the same axes, as SVG."""
    runs = {
        variant: [blocks_of_run(run) for run in results.of_variant(variant)]
        for variant in variants_of(results)
    }
    runs = {name: [run for run in timed if run] for name, timed in runs.items()}
    every = [block for timed in runs.values() for run in timed for block in run]
    if not every:
        return ()
    usual = max(
        median([b.seconds for b in run if not b.warm_up] or [b.seconds for b in run])
        for timed in runs.values()
        for run in timed
    )
    top = min(CEILING * usual, 1.05 * max(block.seconds for block in every))
    last = max(block.step for block in every)
    each = max(LEAST_POINTS, MOST_POINTS // sum(map(len, runs.values())))
    colors = colors_of(runs)
    charts = []
    for variant, timed in runs.items():
        if not timed:
            continue
        frame = Frame(_title(variant, timed), (0, last), (0, top), "step", units.seconds_text)
        _draw_epochs(frame, timed)
        for run in timed:
            _draw(frame, run, colors[variant], each)
        charts.append(frame.svg())
    return tuple(charts)


def _title(variant: str, timed: Sequence[Sequence[TimedBlock]]) -> str:
    stalls = sum(block.stall for run in timed for block in run)
    counted = f", {units.counted(stalls, 'stall')}" if stalls else ""
    return f"{variant_in_words(variant)[:28]}: {units.counted(len(timed), 'run')}{counted}"


def _draw(frame: Frame, run: Sequence[TimedBlock], color: str, points: int) -> None:
    """Draw one run: its warm-up dotted, then its line, then its marks."""
    begin = next((i for i, block in enumerate(run) if not block.warm_up), len(run))
    drawn = []
    for part, css in ((run[: begin + 1], f"line warm-up {color}"), (run[begin:], f"line {color}")):
        thinned = list(_thinned(part, points))
        frame.curve([frame.place(b.step, b.seconds) for b in thinned], css)
        drawn += thinned
    above = [block for block in drawn if block.warm_up and block.seconds > frame.y.high]
    for marked, css in ((above, color), ([b for b in drawn if b.stall], "stall")):
        tips = (frame.place(block.step, block.seconds) for block in marked)
        frame.triangles(tips, f"mark {css}")


def _draw_epochs(frame: Frame, runs: Sequence[Sequence[TimedBlock]]) -> None:
    """Draw a tick on the axis where an epoch begins; most runs begin theirs at the same steps."""
    begins = {
        round(frame.x((before.step + block.step) / 2))
        for run in runs
        for before, block in pairwise(run)
        if before.epoch != block.epoch
    }
    floor = frame.y(0)
    for x in sorted(begins):
        frame.line((x, floor), (x, floor - 5), "axis")


def _thinned(blocks: Sequence[TimedBlock], most: int) -> Iterator[TimedBlock]:
    """Yield at most about so many blocks: of each stretch the fastest and the slowest, in order."""
    if len(blocks) <= most:
        yield from blocks
        return
    stretch = -(-2 * len(blocks) // most)
    for start in range(0, len(blocks), stretch):
        part = blocks[start : start + stretch]
        ends = {end(part, key=lambda block: block.seconds) for end in (min, max)}
        yield from sorted(ends, key=lambda block: block.step)


MOST_METRICS = 6
# Points of all lines of a chart, so that the page stays small, and of one.
MOST_METRIC_POINTS = 1_500
LEAST_METRIC_POINTS = 8
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
    charts = (_quality_chart(results, metric) for metric in shown_metrics(results))
    return tuple(chart for chart in charts if chart)


def _quality_chart(results: Results, metric: str) -> str:
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
    frame = Frame(
        shortened(metric, TITLE_CHARACTERS), (0.5, epochs + 0.5) if epochs == 1 else (1, epochs),
        (low - margin, high + margin), "epoch",
    )  # fmt: skip
    colors = colors_of(variants)
    step = -(-epochs // max(LEAST_METRIC_POINTS, MOST_METRIC_POINTS // len(lines)))
    dotted = len(lines) * epochs <= MOST_DOTS
    for variant, line in lines:
        kept = [*range(0, len(line), step)]
        if line and kept[-1] != len(line) - 1:
            kept.append(len(line) - 1)
        # a metric that is not finite breaks the line
        for is_known, group in groupby(kept, key=lambda index: bool(finite((line[index],)))):
            if is_known:
                points = [frame.place(index + 1, line[index]) for index in group]
                frame.curve(points, f"line {colors[variant]}")
                if len(points) == 1 or dotted:
                    for point in points:
                        frame.dot(point, f"full {colors[variant]}")
    return frame.svg()
