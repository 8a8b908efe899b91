"""The table of figures: means over the runs of both sides, and the gains of their pairs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean, geometric_mean
from typing import NamedTuple

from tfopt_core.report.style import units
from tfopt_core.statistics.figures import FIGURES
from tfopt_core.statistics.results import ComparisonKind, Results
from tfopt_core.statistics.runs import BASELINE, FULL, FitResult, RunResult
from tfopt_core.training.messages import NAME as DATA_LOSS
from tfopt_core.training.messages import differs_from_loss

Read = Callable[[RunResult], float | None]
Show = Callable[[float], str]
Change = Callable[[float, float], str]
# How the ratio of a figure, baseline over stack, reads: as a factor where less is better, as one
# where more is, as a change.
Turn = tuple[Callable[[float], float], Show]
LESS: Turn = (lambda ratio: ratio, units.ratio_text)
MORE: Turn = (lambda ratio: 1 / ratio, units.ratio_text)
CHANGE: Turn = (lambda ratio: 1 / ratio - 1, units.percent_text)

# Keras logs these with the metrics.
_NO_METRICS = frozenset({"lr", "learning_rate"})


class Row(NamedTuple):
    """One line of the table as text; `gain` is empty where the pairs show none, and `interval` if
    the gain has none."""

    label: str
    baseline: str
    optimized: str
    gain: str = ""
    interval: str = ""


Rows = tuple[Row, ...]


def figure_groups(results: Results) -> tuple[Rows, ...]:
    """Return the rows in groups: time, memory, quality, model. Empty groups are left out."""
    sides = _Sides(results)
    groups = (_times(sides), _memory(sides), _quality(sides), _model(sides))
    return tuple(rows for rows in groups if rows)


def memory_rows(results: Results) -> Rows:
    """Return the rows of peak memory, of the device last."""
    return _memory(_Sides(results))


class _Sides:
    """The runs of both sides that count, and the ratios of their pairs that exclude none."""

    def __init__(self, results: Results) -> None:
        self.results = results
        self.runs = [results.of_variant(variant) for variant in (BASELINE, FULL)]
        self.fits = [run.fit for runs in self.runs for run in runs if run.fits]
        self._ratios = {ratio.figure: ratio for ratio in results.ratios if ratio.shown}

    def row(
        self, label: str, read: Read, show: Show, change: Change | None = None, *,
        gain: str = "", interval: str = "", mean: Callable[[Sequence[float]], float] = fmean,
    ) -> Rows:  # fmt: skip
        """Return the row of a figure, or an empty tuple if no run has it.

        :param change: says how the means differ, as the gain, if each run has the figure.
        """
        values = [[v for run in runs if (v := read(run)) is not None] for runs in self.runs]
        if not any(values):
            return ()
        if change is not None and all(values) and [*map(len, values)] == [*map(len, self.runs)]:
            gain = change(*map(fmean, values))
        cells = []
        for side, runs in zip(values, self.runs, strict=True):
            some = "" if len(side) == len(runs) else f" ({len(side)} of {len(runs)} runs)"
            cells.append(f"{show(mean(side))}{some}" if side else units.NOTHING)
        before, after = cells
        return (Row(label, before, after, gain, interval),)

    def row_of(self, label: str, figure: str, show: Show, turn: Turn = LESS) -> Rows:
        """Return the row of one of the figures that have a ratio, with its gain."""
        gain = interval = ""
        if (found := self._ratios.get(figure)) is not None:
            change, text = turn
            low, high = sorted(map(change, (found.low, found.high)))
            gain, interval = text(change(found.ratio)), f"{text(low)} to {text(high)}"

        def read(run: RunResult) -> float | None:
            # what the pairs compare; a run of a script may hold no fit
            return FIGURES[figure](run) if run.fits else getattr(run, figure, None)

        return self.row(label, read, show, gain=gain, interval=interval, mean=_mean_of_ratios)


def _mean_of_ratios(values: Sequence[float]) -> float:
    """Return the mean whose ratio is the mean ratio of the pairs: the geometric one."""
    return geometric_mean(values) if 0 < min(values) < max(values) else fmean(values)


def _of_fit(read: Callable[[FitResult], float | None]) -> Read:
    return lambda run: read(run.fit) if run.fits else None


def _times(sides: _Sides) -> Rows:
    kind, seconds = sides.results.comparison.kind, units.seconds_text
    rows: Rows = ()
    if not kind.of_cut_runs:
        rows += sides.row_of("wall time", "wall_seconds", seconds)
    elif kind is not ComparisonKind.STEPS:
        rows += sides.row_of("wall time, projected", "wall_seconds", seconds)
    if kind.of_cut_runs:
        # these runs are cut after some seconds, so their lengths cannot be compared
        rows += sides.row("wall time of the cut runs", lambda run: run.wall_seconds, seconds)
    rows += sides.row_of("step time", "step_seconds", seconds)
    rows += sides.row_of("examples a second", "examples_per_second", units.rate_text, MORE)
    rows += sides.row_of("one-time cost", "one_time_seconds", seconds)
    rows += sides.row("joining the cluster", _of_fit(lambda fit: fit.cluster_seconds), seconds)
    if not sides.results.target:
        return rows
    to_target = sides.row_of("epochs to target", "epochs_to_target", units.count_text)
    to_target += sides.row_of("time to target", "seconds_to_target", seconds)
    missed = Row("time to target", "not reached", "not reached")
    return rows + (to_target or ((missed,) if sides.fits else ()))


def _memory(sides: _Sides) -> Rows:
    whose = ", of the chief" if any(fit.workers > 1 for fit in sides.fits) else ""
    size = units.bytes_text
    process = sides.row_of(f"peak memory{whose}", "peak_rss_bytes", size, CHANGE)
    return process + sides.row_of(f"peak device memory{whose}", "peak_device_bytes", size, CHANGE)


def _quality(sides: _Sides) -> Rows:
    names = dict.fromkeys(name for fit in sides.fits for name in fit.metrics)
    # whether the validation loss holds penalties, so that there are two of it
    penalized = any(differs_from_loss(fit.metrics) for fit in sides.fits)
    rows: Rows = ()
    for split in ("", "val_"):
        own = [name for name in names if name.startswith("val_") == bool(split)]
        losses = [name for name in (f"{split}loss", DATA_LOSS) if name in own]
        known = {f"{split}loss", DATA_LOSS, *_NO_METRICS}
        others = (name for name in own if name not in known)
        for name in (*losses[: None if penalized else 1], *others):
            rows += sides.row(name, _metric(name), units.metric_text, units.difference_text)
    return rows


def _metric(name: str) -> Read:
    return _of_fit(lambda fit: fit.metrics.get(name))


def _model(sides: _Sides) -> Rows:
    """Return how many parameters are trained; a count needs no interval."""

    def change(before: float, after: float) -> str:
        text = units.percent_text(after / before - 1) if before > 0 else "0%"
        return "same" if before == after else "differ" if text == "0%" else text

    count = _of_fit(lambda fit: fit.trainable_parameters)
    return sides.row("trainable parameters", count, units.count_text, change)
