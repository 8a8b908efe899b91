"""Draw the step times of each variant's runs, with warm-up, epoch starts and stalls marked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from statistics import median

import attrs

from tfopt_core.records.fit import Block
from tfopt_core.records.results import FitResult, Results, RunResult
from tfopt_core.report.html.frame import Frame, colors_of, make_frame, variants_of
from tfopt_core.report.html.svg import tick_text
from tfopt_core.report.style.vocabulary import variant_in_words

# A block is a stall if its steps took more than so many times the median of its run.
STALL = 2.0
# Points of all lines together, so that the page stays small.
MOST_POINTS = 7_000
LEAST_POINTS = 24
# The axis ends at so many medians: the first step, with its trace, may take a hundred.
CEILING = 3.0
_UNITS = ((1e9, "ns"), (1e6, "µs"), (1e3, "ms"), (1.0, "s"))


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
        blocks += (
            attrs.evolve(block, step=block.step + steps, epoch=block.epoch + epochs)
            for block in timed_blocks(fit)
        )
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
    factor, unit = next((f, unit) for f, unit in _UNITS if top < 1000 / f or f == 1)

    def in_unit(seconds: float) -> str:
        return f"{tick_text(seconds * factor)} {unit}"

    charts = []
    for variant, timed in runs.items():
        if not timed:
            continue
        frame = make_frame(_title(variant, timed), (0, last), (0, top), "step", in_unit)
        _draw_epochs(frame, timed)
        for run in timed:
            _draw(frame, run, colors[variant], each)
        charts.append(frame.chart.svg())
    return tuple(charts)


def _title(variant: str, timed: Sequence[Sequence[TimedBlock]]) -> str:
    stalls = sum(block.stall for run in timed for block in run)
    counted = f", {stalls} {'stall' if stalls == 1 else 'stalls'}" if stalls else ""
    runs = f"{len(timed)} {'run' if len(timed) == 1 else 'runs'}"
    name = variant_in_words(variant)
    return f"{name[:28]}: {runs}{counted}"


def _draw(frame: Frame, run: Sequence[TimedBlock], color: str, points: int) -> None:
    """Draw one run: its warm-up dotted, then its line, then its marks."""
    begin = next((i for i, block in enumerate(run) if not block.warm_up), len(run))
    drawn = []
    for part, css in ((run[: begin + 1], f"line warm-up {color}"), (run[begin:], f"line {color}")):
        thinned = list(_thinned(part, points))
        frame.chart.curve([frame.place(b.step, b.seconds) for b in thinned], css)
        drawn += thinned
    above = [block for block in drawn if block.warm_up and block.seconds > frame.y.high]
    for marked, css in ((above, color), ([b for b in drawn if b.stall], "stall")):
        tips = (frame.place(block.step, block.seconds) for block in marked)
        frame.chart.triangles(tips, f"mark {css}")


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
        frame.chart.line((x, floor), (x, floor - 5), "axis")


def _thinned(blocks: Sequence[TimedBlock], most: int) -> Iterator[TimedBlock]:
    """Yield at most about so many blocks: of each stretch the fastest and the slowest, in order."""
    if len(blocks) <= most:
        yield from blocks
        return
    stretch = -(-2 * len(blocks) // most)
    for start in range(0, len(blocks), stretch):
        part = blocks[start : start + stretch]
        ends = {min(part, key=_seconds), max(part, key=_seconds)}
        yield from sorted(ends, key=lambda block: block.step)


def _seconds(block: TimedBlock) -> float:
    return block.seconds
