"""The Keras callbacks that time a fit, record its history and call the plugins' epoch hooks."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs

from tfopt_core.errors import TrainingDiverged
from tfopt_core.hooks import Control
from tfopt_core.records.fit import Block, TrainingCounts
from tfopt_core.records.messages import EpochDone, StepDone, Tell
from tfopt_core.training.build import Built
from tfopt_core.training.callbacks import keras_callback
from tfopt_core.training.counting import BatchCounter, TrainingCounter, batch_counter
from tfopt_core.training.penalties import with_data_loss
from tfopt_core.training.timed_function import TimedFunction
from tfopt_core.training.timing.clock import StepClock
from tfopt_core.training.timing.running import running_ns

# Progress is reported at most this often: the parent redraws once a second.
PROGRESS_NANOSECONDS = 250_000_000

CutsShort = Callable[[Sequence[Block]], bool]


def fit_callbacks(callbacks: Sequence[Any], timer: StepTimer, *last: Any) -> list[Any]:
    """Return the callbacks of a fit with those of tfopt around them.

    The first one is called before any callback acts on the end of an epoch; the timer and those
    after it are called when all others have acted.
    """
    first: list[Any] = [StepsEnd(timer.clock), timer.counter]
    if timer.batches is not None:
        first.append(timer.batches)
    return [*map(keras_callback, first), *callbacks, *map(keras_callback, (timer, *last))]


@attrs.frozen(eq=False)
class StepsEnd:
    """Tells the clock that the steps of an epoch are over."""

    clock: StepClock

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Stop timing steps: the time of other callbacks is no step's time."""
        self.clock.end_steps()


@attrs.define(eq=False)
class StepTimer:
    """Times the steps, validations and epochs of a fit, and may cut it short.

    :param cuts_short: called after each block with those so far; the training ends there once it
        returns True. None trains to the end.
    :param check_nanoseconds: the time of these calls, which is no part of the training.
    """

    timed: TimedFunction
    report: Tell
    cuts_short: CutsShort | None = None
    cut_short: bool = False
    check_nanoseconds: int = 0
    counter: TrainingCounter = attrs.field(init=False)
    batches: BatchCounter | None = attrs.field(init=False)
    _reported: int = 0

    def __attrs_post_init__(self) -> None:
        self.clock.on_call = self._after_call
        self.counter, self.batches = TrainingCounter(self.built), batch_counter(self.built)

    def counts(self) -> TrainingCounts:
        """Return what the fit did."""
        counts = self.counter.counts()
        if self.batches is None:
            return counts
        return attrs.evolve(
            counts, batch_calls=self.batches.calls, batch_indices=self.batches.indices
        )

    @property
    def built(self) -> Built:
        """The training."""
        return self.timed.built

    @property
    def clock(self) -> StepClock:
        """The clock around the train function."""
        return self.timed.clock

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Start the epoch: its first step is about to fetch its input."""
        self.clock.begin_epoch(epoch)

    def on_test_begin(self, logs: Any = None) -> None:
        """Start a validation."""
        self.clock.begin_validation()

    def on_test_end(self, logs: Any = None) -> None:
        """End a validation."""
        self.clock.end_validation()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """End the epoch, or what there is of it if the training is cut short."""
        self.clock.end_epoch()

    def _after_call(self, epoch: int, done: int) -> None:
        now = running_ns()
        if now - self._reported >= PROGRESS_NANOSECONDS:
            self._reported = now
            self.report(StepDone(epoch, done))
        if self.cuts_short is not None and not self.cut_short and self.clock.at_edge:
            self._cut_if(self.cuts_short)

    def _cut_if(self, cuts_short: CutsShort) -> None:
        begin = running_ns()
        if cuts_short(self.clock.blocks):
            self.cut_short = self.built.model.stop_training = True
        self.check_nanoseconds += running_ns() - begin
        self.clock.leave_out()


@attrs.define(eq=False)
class EpochHooks:
    """Records the metrics of each epoch, calls the plugins' `on_epoch_end` and obeys them.

    :param tolerant: whether a loss that is not finite is only recorded in `diverged`.
    """

    timer: StepTimer
    report: Tell
    tolerant: bool = False
    epochs_done: int = 0
    history: dict[str, list[float]] = attrs.field(factory=dict)
    stop_reason: str | None = None
    diverged: TrainingDiverged | None = None

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Record the metrics of a whole epoch and call the plugins.

        :raises TrainingDiverged: if the training loss is not finite.
        :raises PluginError: if a plugin fails.
        """
        logs = logs or {}
        if self.timer.cut_short:
            self._check_finite(logs, epoch)
            return
        self.epochs_done = epoch + 1
        metrics = with_data_loss(
            {name: float(value) for name, value in logs.items() if _is_number(value)},
            self.timer.built.model,
        )
        for name, value in metrics.items():
            self.history.setdefault(name, []).append(value)
        self.report(EpochDone(epoch, metrics))
        self._check_finite(metrics, epoch)
        control, built = Control(), self.timer.built
        built.stack.on_epoch_end(built.run, built.model, epoch, metrics, control)
        if control.stop_reason is not None:
            self.stop_reason = control.stop_reason
            built.model.stop_training = True

    def _check_finite(self, metrics: Mapping[str, Any], epoch: int) -> None:
        loss = float(metrics.get("loss", 0.0))
        if math.isfinite(loss):
            return
        error = TrainingDiverged("loss", loss, epoch + 1)
        if not self.tolerant:
            raise error
        self.diverged = self.diverged or error


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True
