"""The rows of the summary's table: medians of what the runs of both sides took."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median

import attrs

from tfopt_core.measure.figures import total_seconds
from tfopt_core.measure.schedule import BASELINE, FULL
from tfopt_core.report import units
from tfopt_core.store.results import FitResult, Results, RunResult
from tfopt_core.training.penalties import differs_from_loss

Read = Callable[[RunResult], float | None]
Show = Callable[[float], str]
Gain = Callable[[float, float], str]

# What Keras logs beside the metrics.
_NO_METRICS = frozenset({"lr", "learning_rate"})


@attrs.frozen
class Row:
    """One line of the table, in words; `gain` is empty where it would mislead."""

    label: str
    baseline: str
    optimized: str
    gain: str = ""


def figure_groups(results: Results) -> tuple[tuple[Row, ...], ...]:
    """The rows in their groups: time, memory, quality, model. Groups without a row are left out."""
    sides = results.of_variant(BASELINE), results.of_variant(FULL)
    times = _times(sides, results)
    if results.comparison.speedup is None:
        # without a verdict on the time a ratio of medians would pass for one
        times = tuple(attrs.evolve(row, gain="") for row in times)
    groups = (times, _memory(sides), _quality(sides), _model(sides))
    return tuple(rows for rows in groups if rows)


@attrs.frozen
class _Side:
    """One variant's runs, read by one figure."""

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


def _row(sides: Sides, label: str, read: Read, show: Show, gain: Gain) -> tuple[Row, ...]:
    """The row of a figure, or nothing where no run has it."""
    before, after = (_side(runs, read) for runs in sides)
    if not before.values and not after.values:
        return ()
    # a median over those runs alone that got there would flatter: no gain from it
    told = before.complete and after.complete
    gained = gain(median(before.values), median(after.values)) if told else ""
    return (Row(label, before.shown(show), after.shown(show), gained),)


def _side(runs: Sequence[RunResult], read: Read) -> _Side:
    values = (read(run) for run in runs)
    return _Side(tuple(v for v in values if v is not None), len(runs))


def _of_fit(read: Callable[[FitResult], float | None]) -> Read:
    return lambda run: read(run.fit) if run.fits else None


def _shorter(before: float, after: float) -> str:
    return units.ratio_text(before / after) if before > 0 and after > 0 else ""


def _untold(before: float, after: float) -> str:
    """Figures that were not steady are shown, but no gain is told from them."""
    return ""


def _more(before: float, after: float) -> str:
    return units.ratio_text(after / before) if before > 0 else ""


def _change(before: float, after: float) -> str:
    return units.percent_text(after / before - 1) if before > 0 else ""


def _times(sides: Sides, results: Results) -> tuple[Row, ...]:
    fits = [run.fit for runs in sides for run in runs if run.fits]
    steady = all(fit.steady for fit in fits)
    step = "step time" if steady else "step time, not steady"
    step_time = _of_fit(lambda fit: fit.step_seconds)
    rate = _of_fit(lambda fit: fit.examples_per_second)
    one_time = _of_fit(lambda fit: fit.one_time_seconds)
    cluster = _of_fit(lambda fit: fit.cluster_seconds)
    rows = (
        *_wall_time(sides, results.comparison.kind),
        *_row(sides, step, step_time, units.seconds_text, _shorter if steady else _untold),
        *_row(sides, "examples a second", rate, units.rate_text, _more if steady else _untold),
        *_row(sides, "one-time cost", one_time, units.seconds_text, _shorter),
        *_row(sides, "joining the cluster", cluster, units.seconds_text, _untold),
    )
    if not results.target:
        return rows
    epochs = _of_fit(lambda fit: fit.epochs_to_target)
    time = _of_fit(lambda fit: fit.seconds_to_target)
    to_target = (
        *_row(sides, "epochs to target", epochs, units.count_text, _shorter),
        *_row(sides, "time to target", time, units.seconds_text, _shorter),
    )
    missed = Row("time to target", "not reached", "not reached")
    return rows + (to_target or ((missed,) if fits else ()))


def _wall_time(sides: Sides, kind: str) -> tuple[Row, ...]:
    if kind != "steady":
        return _row(sides, "wall time", lambda run: run.wall_seconds, units.seconds_text, _shorter)
    # such runs end when the step time is known: how long they took compares nothing
    return (
        *_row(sides, "wall time, projected", _total_seconds, units.seconds_text, _shorter),
        *_row(sides, "until stopped", lambda run: run.wall_seconds, units.seconds_text, _untold),
    )


def _total_seconds(run: RunResult) -> float | None:
    return total_seconds(run) if run.fits else None


def _memory(sides: Sides) -> tuple[Row, ...]:
    several = any(run.fit.workers > 1 for runs in sides for run in runs if run.fits)
    whose = ", of the chief" if several else ""
    return (
        *_row(
            sides,
            f"peak memory{whose}",
            lambda run: run.peak_rss_bytes,
            units.bytes_text,
            _change,
        ),
        *_row(
            sides,
            f"peak device memory{whose}",
            lambda run: run.peak_device_bytes,
            units.bytes_text,
            _change,
        ),
    )


def _quality(sides: Sides) -> tuple[Row, ...]:
    names = dict.fromkeys(
        name for runs in sides for run in runs if run.fits for name in run.fit.metrics
    )
    rows: list[Row] = []
    for split in ("", "val_"):
        own = [name for name in names if name.startswith("val_") == bool(split)]
        losses = [name for name in (f"{split}loss", f"{split}data_loss") if name in own]
        if not _penalized(sides, split):
            losses = losses[:1]
        known = {f"{split}loss", f"{split}data_loss", *_NO_METRICS}
        for name in (*losses, *(name for name in own if name not in known)):
            rows += _row(sides, name, _metric(name), units.metric_text, units.difference_text)
    return tuple(rows)


def _metric(name: str) -> Read:
    return _of_fit(lambda fit: fit.metrics.get(name))


def _penalized(sides: Sides, split: str) -> bool:
    """Whether the loss holds more than the data's: penalties of weights, say."""
    fits = (run.fit for runs in sides for run in runs if run.fits)
    return any(differs_from_loss(fit.metrics, split) for fit in fits)


def _model(sides: Sides) -> tuple[Row, ...]:
    count = _of_fit(lambda fit: fit.trainable_parameters)
    return _row(sides, "trainable parameters", count, units.count_text, _parameters)


def _parameters(before: float, after: float) -> str:
    if before == after:
        return "same"
    change = _change(before, after)
    return change if change not in ("", "0%") else "differ"
