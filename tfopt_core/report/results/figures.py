"""Rows of the summary's table: medians over the runs of both sides."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import median

import attrs

from tfopt_core.records.fit import NAME as DATA_LOSS
from tfopt_core.records.fit import differs_from_loss
from tfopt_core.records.results import FigureRatio, FitResult, Results, RunResult
from tfopt_core.records.variants import BASELINE, FULL
from tfopt_core.records.verdict import ComparisonKind
from tfopt_core.report.style import units
from tfopt_core.statistics.figures import not_projected, total_seconds

Read = Callable[[RunResult], float | None]
Show = Callable[[float], str]

# Keras logs these with the metrics.
_NO_METRICS = frozenset({"lr", "learning_rate"})


@attrs.frozen
class Row:
    """One line of the table as text; `gain` is empty where the pairs show none, and `interval` if
    the gain has none."""

    label: str
    baseline: str
    optimized: str
    gain: str = ""
    interval: str = ""


def figure_groups(results: Results) -> tuple[tuple[Row, ...], ...]:
    """Return the rows in groups: time, memory, quality, model. Empty groups are left out."""
    sides = results.of_variant(BASELINE), results.of_variant(FULL)
    groups = (_times(sides, results), _memory(sides, results), _quality(sides), _model(sides))
    return tuple(rows for rows in groups if rows)


def memory_rows(results: Results) -> tuple[Row, ...]:
    """Return the rows of peak memory, of the device last."""
    return _memory((results.of_variant(BASELINE), results.of_variant(FULL)), results)


@attrs.frozen
class _Side:
    """The values of one figure over the runs of a variant."""

    values: tuple[float, ...]
    runs: int

    @property
    def complete(self) -> bool:
        return 0 < len(self.values) == self.runs

    def shown(self, show: Show) -> str:
        if not self.values:
            return units.NOTHING
        text = show(median(self.values))
        return text if self.complete else f"{text} ({len(self.values)} of {self.runs} runs)"


Sides = tuple[Sequence[RunResult], Sequence[RunResult]]


def _row(
    sides: Sides, label: str, read: Read, show: Show, gain: str = "", interval: str = ""
) -> tuple[Row, ...]:
    """Return the row of a figure, or an empty tuple if no run has it."""
    before, after = (_side(runs, read) for runs in sides)
    if not before.values and not after.values:
        return ()
    return (Row(label, before.shown(show), after.shown(show), gain, interval),)


def _side(runs: Sequence[RunResult], read: Read) -> _Side:
    values = (read(run) for run in runs)
    return _Side(tuple(v for v in values if v is not None), len(runs))


def _of_fit(read: Callable[[FitResult], float | None]) -> Read:
    return lambda run: read(run.fit) if run.fits else None


@attrs.frozen
class _Gains:
    """The ratios of a measurement as text; empty if the interval of a ratio holds 1."""

    by_figure: Mapping[str, FigureRatio]

    @classmethod
    def of(cls, results: Results) -> _Gains:
        return cls({ratio.figure: ratio for ratio in results.ratios if ratio.shown})

    def less(self, figure: str) -> tuple[str, str]:
        """Return the gain in a figure where less is better, and its interval: `1.25x`."""
        return self._of(figure, lambda ratio: ratio, units.ratio_text)

    def more(self, figure: str) -> tuple[str, str]:
        """Return the gain in a figure where more is better, and its interval: `1.25x`."""
        return self._of(figure, lambda ratio: 1 / ratio, units.ratio_text)

    def change(self, figure: str) -> tuple[str, str]:
        """Return the change of a figure, and its interval: `+12%`."""
        return self._of(figure, lambda ratio: 1 / ratio - 1, units.percent_text)

    def _of(self, figure: str, turn: Callable[[float], float], show: Show) -> tuple[str, str]:
        found = self.by_figure.get(figure)
        if found is None:
            return "", ""
        low, high = sorted(map(turn, (found.low, found.high)))
        return show(turn(found.ratio)), f"{show(low)} to {show(high)}"


def _times(sides: Sides, results: Results) -> tuple[Row, ...]:
    fits = [run.fit for runs in sides for run in runs if run.fits]
    step_time = _of_fit(lambda fit: fit.step_seconds)
    rate = _of_fit(lambda fit: fit.examples_per_second)
    one_time = _of_fit(lambda fit: fit.one_time_seconds)
    cluster = _of_fit(lambda fit: fit.cluster_seconds)
    gains = _Gains.of(results)
    rows = (
        *_wall_time(sides, results.comparison.kind, gains),
        *_row(sides, "step time", step_time, units.seconds_text, *gains.less("step_seconds")),
        *_row(
            sides, "examples a second", rate, units.rate_text, *gains.more("examples_per_second")
        ),
        *_row(
            sides, "one-time cost", one_time, units.seconds_text, *gains.less("one_time_seconds")
        ),
        *_row(sides, "joining the cluster", cluster, units.seconds_text),
    )
    if not results.target:
        return rows
    epochs = _of_fit(lambda fit: fit.epochs_to_target)
    time = _of_fit(lambda fit: fit.seconds_to_target)
    to_target = (
        *_row(sides, "epochs to target", epochs, units.count_text, *gains.less("epochs_to_target")),
        *_row(sides, "time to target", time, units.seconds_text, *gains.less("seconds_to_target")),
    )
    missed = Row("time to target", "not reached", "not reached")
    return rows + (to_target or ((missed,) if fits else ()))


def _wall_time(sides: Sides, kind: ComparisonKind, gains: _Gains) -> tuple[Row, ...]:
    gain = gains.less("wall_seconds")
    if not kind.of_cut_runs:
        return _row(sides, "wall time", lambda run: run.wall_seconds, units.seconds_text, *gain)
    # these runs are cut after some seconds, so their lengths cannot be compared
    stopped = _row(sides, "until stopped", lambda run: run.wall_seconds, units.seconds_text)
    if kind is ComparisonKind.STEPS:
        return stopped
    total = _row(sides, "wall time, projected", _total_seconds, units.seconds_text, *gain)
    return (*total, *stopped)


def _total_seconds(run: RunResult) -> float | None:
    return total_seconds(run) if run.fits and not_projected(run) is None else None


def _memory(sides: Sides, results: Results) -> tuple[Row, ...]:
    several = any(run.fit.workers > 1 for runs in sides for run in runs if run.fits)
    whose = ", of the chief" if several else ""
    gains = _Gains.of(results)
    return (
        *_row(
            sides,
            f"peak memory{whose}",
            lambda run: run.peak_rss_bytes,
            units.bytes_text,
            *gains.change("peak_rss_bytes"),
        ),
        *_row(
            sides,
            f"peak device memory{whose}",
            lambda run: run.peak_device_bytes,
            units.bytes_text,
            *gains.change("peak_device_bytes"),
        ),
    )


def _quality(sides: Sides) -> tuple[Row, ...]:
    names = dict.fromkeys(
        name for runs in sides for run in runs if run.fits for name in run.fit.metrics
    )
    rows: list[Row] = []
    for split in ("", "val_"):
        own = [name for name in names if name.startswith("val_") == bool(split)]
        losses = [name for name in (f"{split}loss", DATA_LOSS) if name in own]
        if not _penalized(sides):
            losses = losses[:1]
        known = {f"{split}loss", DATA_LOSS, *_NO_METRICS}
        for name in (*losses, *(name for name in own if name not in known)):
            rows += _row(
                sides, name, _metric(name), units.metric_text, _apart(sides, _metric(name))
            )
    return tuple(rows)


def _apart(sides: Sides, read: Read) -> str:
    """Return the difference of a metric's medians, empty if a run lacks it."""
    before, after = (_side(runs, read) for runs in sides)
    if not before.complete or not after.complete:
        return ""
    return units.difference_text(median(before.values), median(after.values))


def _metric(name: str) -> Read:
    return _of_fit(lambda fit: fit.metrics.get(name))


def _penalized(sides: Sides) -> bool:
    """Return whether the validation loss holds penalties."""
    fits = (run.fit for runs in sides for run in runs if run.fits)
    return any(differs_from_loss(fit.metrics) for fit in fits)


def _model(sides: Sides) -> tuple[Row, ...]:
    count = _of_fit(lambda fit: fit.trainable_parameters)
    before, after = (_side(runs, count) for runs in sides)
    change = ""
    if before.complete and after.complete:
        change = _parameters(median(before.values), median(after.values))
    return _row(sides, "trainable parameters", count, units.count_text, change)


def _parameters(before: float, after: float) -> str:
    """Return how much larger the stack's model is; a count needs no interval."""
    if before == after:
        return "same"
    change = units.percent_text(after / before - 1) if before > 0 else ""
    return change if change not in ("", "0%") else "differ"
