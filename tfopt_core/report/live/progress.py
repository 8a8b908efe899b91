"""The state behind the live view, updated by the events of a measurement."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from tfopt_core.measurement.progress import (
    Certifying,
    Event,
    Noted,
    Preparing,
    Ready,
    RunEnded,
    RunProgress,
    RunStarted,
)
from tfopt_core.records.results import RunResult
from tfopt_core.report.style import units
from tfopt_core.report.style.vocabulary import variant_in_words


@attrs.frozen(kw_only=True)
class State:
    """What the events have reported so far. `runs_done` counts failed runs too; `ends_at` is the
    expected end in seconds of the view's clock."""

    certifying: bool = False
    ready: Ready | None = None
    run: RunStarted | None = None
    progress: RunProgress | None = None
    runs_done: int = 0
    failed: int = 0
    speedup_so_far: float | None = None
    ends_at: float | None = None


def after(state: State, event: Event, now: float) -> State:
    """Return the state after an event. Events may come in any order.

    :param now: seconds of a monotonic clock.
    """
    match event:
        case Preparing():
            return State()
        case Certifying():
            return attrs.evolve(state, certifying=True)
        case Noted():
            return state
        case Ready():
            ends_at = _later(now, event.estimated_seconds)
            return attrs.evolve(state, ready=event, ends_at=ends_at)
        case RunStarted():
            return attrs.evolve(state, run=event, progress=None)
        case RunProgress():
            return attrs.evolve(state, run=event.run, progress=event)
        case RunEnded():
            return attrs.evolve(
                state,
                progress=None,
                runs_done=state.runs_done + 1,
                failed=state.failed + (event.run.status == "failed"),
                speedup_so_far=event.speedup_so_far,
                ends_at=_later(now, event.seconds_left),
            )


def _later(now: float, seconds: float | None) -> float | None:
    return None if seconds is None else now + seconds


def which_run(index: int, total: int, variant: str) -> str:
    """Return `run 3 of 8, with the stack`."""
    return f"run {index + 1} of {total}, {variant_in_words(variant)}"


def metrics_in_words(metrics: Mapping[str, float]) -> tuple[str, ...]:
    """Return `loss 0.3120` and `val_accuracy 0.9012`, validation metrics last."""
    ordered = sorted(metrics.items(), key=lambda item: item[0].startswith("val_"))
    return tuple(f"{name} {units.metric_text(value)}" for name, value in ordered)


def validation_in_words(run: RunResult) -> str:
    """Return the first validation metric that is no loss, else the validation loss, else ""."""
    metrics = run.fit.metrics if run.fits else {}
    losses = ("val_loss", "val_data_loss")
    own = [name for name in metrics if name.startswith("val_") and name not in losses]
    name = next(iter((*own, *(loss for loss in losses if loss in metrics))), None)
    return "" if name is None else f"{name} {units.metric_text(metrics[name])}"
