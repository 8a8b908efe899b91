"""What is known while a measurement is under way: the state behind the live view."""

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
    """What the events have told so far. `runs_done` counts those that ended well or not;
    `ends_at` is when, by the clock of the view, the measurement may be done."""

    certifying: bool = False
    ready: Ready | None = None
    run: RunStarted | None = None
    progress: RunProgress | None = None
    runs_done: int = 0
    failed: int = 0
    speedup_so_far: float | None = None
    ends_at: float | None = None


def after(state: State, event: Event, now: float) -> State:
    """The state once the event has happened. Any event may come at any time.

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
            return attrs.evolve(state, ready=event)
        case RunStarted():
            return attrs.evolve(state, run=event, progress=None)
        case RunProgress():
            return attrs.evolve(state, progress=event)
        case RunEnded():
            left = event.seconds_left
            return attrs.evolve(
                state,
                progress=None,
                runs_done=state.runs_done + 1,
                failed=state.failed + (event.run.status == "failed"),
                speedup_so_far=event.speedup_so_far,
                ends_at=None if left is None else now + left,
            )


def which_run(index: int, total: int, variant: str) -> str:
    """`run 3 of 8, with the stack`; more runs than were planned are counted on."""
    return f"run {index + 1} of {max(total, index + 1)}, {variant_in_words(variant)}"


def metrics_in_words(metrics: Mapping[str, float]) -> str:
    """`loss 0.3120, val_accuracy 0.9012`, those of the validation last."""
    ordered = sorted(metrics.items(), key=lambda item: item[0].startswith("val_"))
    return ", ".join(f"{name} {units.metric_text(value)}" for name, value in ordered)


def validation_in_words(run: RunResult) -> str:
    """The metric by which a reader knows the run: validation's own one, else its loss, or ""."""
    metrics = run.fit.metrics if run.fits else {}
    losses = ("val_loss", "val_data_loss")
    own = [name for name in metrics if name.startswith("val_") and name not in losses]
    name = next(iter((*own, *(loss for loss in losses if loss in metrics))), None)
    return "" if name is None else f"{name} {units.metric_text(metrics[name])}"
