"""Time the steps, record the history and run the epoch hooks of one fit."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from time import perf_counter_ns
from typing import Any, Protocol

import attrs

from tfopt_core.data import Autotune
from tfopt_core.data.autotune_model import noting, read_tuning
from tfopt_core.errors import TrainingDiverged, WorkloadError
from tfopt_core.hooks import Control
from tfopt_core.records.fit import Block
from tfopt_core.records.messages import EpochDone, StepDone, Tell
from tfopt_core.training.build import Built
from tfopt_core.training.loops.function_cache import FunctionCache
from tfopt_core.training.loops.resident import ResidentFunction
from tfopt_core.training.loops.train_functions import loop_of
from tfopt_core.training.penalties import Penalties, with_data_loss
from tfopt_core.training.timed_function import TimedFunction
from tfopt_core.training.timing.clock import StepClock
from tfopt_core.training.timing.devices import device_sync

# Progress is told at most this often: the parent redraws once a second.
PROGRESS_NANOSECONDS = 250_000_000

# Whether the step time is known is asked after so many blocks, and each time after a tenth as many
# again: the search for changes of level costs more the more blocks there are.
FIRST_CHECK_BLOCKS, CHECK_GROWTH = 10, 1.1

Known = Callable[[Sequence[Block]], bool]


class TrainingListener(Protocol):
    """Told of a training as it goes: what writes checkpoints, say."""

    def begin_training(self) -> None:
        """Every callback has begun the training; no epoch has begun."""

    def begin_epoch(self, epoch: int) -> None:
        """An epoch's first step is about to fetch its input; metrics were reset."""

    def traced(self) -> None:
        """The step was traced just now."""

    def after_call(self, done: int) -> None:
        """So many steps of the epoch are done."""

    def end_epoch(self) -> None:
        """The epoch is done, its validation and the plugins' notifications included."""

    def refuse(self, what: str) -> None:
        """A plugin changes the training itself; raises InputError where that can't be kept."""


@attrs.define(eq=False)
class FitMonitor:
    """Times a model's train function, records its history and calls the plugins' epoch hooks.

    :param known: asked now and then, with the blocks so far, whether the step time is known;
        then the training is cut short. None trains to the end.
    :param kept: the train functions that the model's fits share.
    :param one_call: whether there is but one call of `fit`: then no plugin may ask for other data.
    :param validate_again: makes one more validation, where the run's data do not tell how.
    :param tolerant: whether a loss that is no finite number is noted in `diverged` only.
    """

    built: Built
    report: Tell
    before_new_segment: Callable[[], None] = lambda: None
    known: Known | None = None
    clock: StepClock = attrs.field(init=False)
    history: dict[str, list[float]] = attrs.field(factory=dict)
    epochs_done: int = 0
    penalties: Penalties = "unknown"
    stop_reason: str | None = None
    cut_short: bool = False
    asking_nanoseconds: int = 0
    listener: TrainingListener | None = None
    kept: FunctionCache = attrs.field(factory=FunctionCache)
    timed: TimedFunction = attrs.field(init=False)
    tolerant: bool = False
    one_call: bool = False
    validate_again: Callable[[], object] | None = None
    diverged: TrainingDiverged | None = None
    wants_new_data: bool = False
    _told: int = 0
    _next_check: int = attrs.field(factory=lambda: FIRST_CHECK_BLOCKS)

    @clock.default
    def _make_clock(self) -> StepClock:
        return StepClock(
            steps_per_call=loop_of(self.built).steps,
            steps_per_epoch=self.built.run.steps_per_epoch,
            fills_cache=self.built.fills_cache,
            compiles=loop_of(self.built).compiles_tail,
            sync=device_sync(self.built.run.machine),
            on_call=self._after_call,
        )

    @timed.default
    def _make_timed(self) -> TimedFunction:
        return TimedFunction(self.built, self.clock, self.kept, self._traced_once)

    def begin_fit(self) -> None:
        """A call of `fit` follows, over the data that the run has now."""
        if self.wants_new_data:
            self.wants_new_data = False
            self.clock.new_data(self.epochs_done, self.built.run.steps_per_epoch)
            self.timed.take_new_data()
        if isinstance(self.timed.of_stack, ResidentFunction):
            self.timed.of_stack.begin_fit()

    def around(self, callbacks: Sequence[Any]) -> list[Any]:
        """Return the callbacks of a fit with those of this monitor around them.

        The first one sees an epoch's last step end before any callback acts on it, the last one
        sees what all of them have done.
        """
        import keras

        clock = self.clock

        class StepsEnd(keras.callbacks.Callback):  # type: ignore[misc]
            def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
                clock.end_steps()

        return [StepsEnd(), *callbacks, self.callback()]

    def callback(self) -> Any:
        """Return the Keras callback that reports to this monitor; it must be the last one."""
        import keras

        monitor = self

        class Watching(keras.callbacks.Callback):  # type: ignore[misc]
            def on_train_begin(self, logs: Any = None) -> None:
                if monitor.listener is not None:
                    monitor.listener.begin_training()

            def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
                monitor.begin_epoch(epoch)

            def on_test_begin(self, logs: Any = None) -> None:
                monitor.clock.begin_validation()

            def on_test_end(self, logs: Any = None) -> None:
                monitor.clock.end_validation()

            def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
                monitor.end_epoch(epoch, logs or {})

            def on_train_end(self, logs: Any = None) -> None:
                read_tuning(monitor.built.model)

        return Watching()

    def begin_epoch(self, epoch: int) -> None:
        """An epoch's first step is about to fetch its input."""
        model = self.built.model
        if self.built.plans["train"].find(Autotune) is not None:
            # what AUTOTUNE chose can be read from a living iterator only, and `fit` hides it
            model.train_function = noting(model, model.train_function)
        if self.timed.loop is not None:
            self.timed.loop.begin_epoch()
        self.clock.begin_epoch(epoch)
        if self.listener is not None:
            self.listener.begin_epoch(epoch)

    def end_epoch(self, epoch: int, logs: dict[str, Any]) -> None:
        """Keep the epoch's metrics, call the plugins, and do what they ask for.

        :raises TrainingDiverged: if the training loss is no finite number.
        """
        self.clock.end_epoch()
        if self.cut_short:
            self._check_finite(logs, epoch)
            self._validate_again()
            return
        self.epochs_done = epoch + 1
        metrics = with_data_loss(
            {name: float(value) for name, value in logs.items() if _is_number(value)},
            self.penalties,
        )
        for name, value in metrics.items():
            self.history.setdefault(name, []).append(value)
        self.report(EpochDone(epoch, metrics))
        self._check_finite(metrics, epoch)
        control = Control()
        self.built.stack.on_epoch_end(self.built.run, self.built.model, epoch, metrics, control)
        self._obey(control)
        if self.listener is not None:
            self.listener.end_epoch()

    def _check_finite(self, metrics: Mapping[str, Any], epoch: int) -> None:
        try:
            _check_finite(metrics, epoch)
        except TrainingDiverged as error:
            if not self.tolerant:
                raise
            self.diverged = self.diverged or error

    def _obey(self, control: Control) -> None:
        model, run = self.built.model, self.built.run
        if self.one_call and control.wants_new_data:
            raise WorkloadError(
                "a plugin rebuilds the data within a fit, which is a call of the script's own; use "
                "a factory for such a plugin"
            )
        if self.listener is not None and (control.wants_new_data or control.wants_retrace):
            self.listener.refuse("rebuilds the data or retraces the step")
        if control.wants_retrace:
            self.timed.trace_anew()
        if control.stop_reason is not None:
            self.stop_reason = control.stop_reason
            model.stop_training = True
        elif not model.stop_training and self.epochs_done < run.epochs:
            self.wants_new_data = control.wants_new_data
            if self.wants_new_data or self._wants_segment:
                self.before_new_segment()
                model.stop_training = True

    @property
    def _wants_segment(self) -> bool:
        loop = self.timed.loop
        return loop is not None and not self.one_call and loop.wants_segment

    def _traced_once(self) -> None:
        if self.listener is not None:
            self.listener.traced()

    def _after_call(self, epoch: int, done: int) -> None:
        self._tell_step(epoch, done)
        if self.listener is not None:
            begin = self.clock.now()
            self.listener.after_call(done)
            self.clock.leave_out_since(begin)
        if self.known is not None and not self.cut_short and self.clock.at_edge:
            self._ask_whether_known(self.known)

    def _ask_whether_known(self, known: Known) -> None:
        blocks = self.clock.blocks
        if len(blocks) < self._next_check:
            return
        self._next_check = math.ceil(CHECK_GROWTH * len(blocks))
        asked = perf_counter_ns()
        if known(blocks):
            self.cut_short = self.built.model.stop_training = True
        self.asking_nanoseconds += perf_counter_ns() - asked
        self.clock.leave_out()

    def _validate_again(self) -> None:
        """The first validation traces its function: a second one tells what later ones take."""
        if len(self.clock.validation_seconds) != 1:
            return
        if self.validate_again is not None:
            self.clock.begin_validation()
            self.validate_again()
            self.clock.end_validation()
            return
        validation = self.built.run.datasets.get("validation")
        if validation is None:
            return
        self.clock.begin_validation()
        if self.timed.distribution is not None:
            validation = self.timed.distribution.data("validation")
        self.built.model.evaluate(validation, verbose=0)
        self.clock.end_validation()

    def _tell_step(self, epoch: int, done: int) -> None:
        now = perf_counter_ns()
        if now - self._told >= PROGRESS_NANOSECONDS:
            self._told = now
            self.report(StepDone(epoch, done))


def _check_finite(metrics: Mapping[str, Any], epoch: int) -> None:
    """:raises TrainingDiverged: if the training loss is no finite number."""
    loss = float(metrics.get("loss", 0.0))
    if not math.isfinite(loss):
        raise TrainingDiverged("loss", loss, epoch + 1)


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True
