"""What looks on while Keras trains: the clock, the history, the epoch's notifications."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from time import perf_counter_ns
from typing import Any

import attrs

from tfopt_core.data import Autotune
from tfopt_core.data.autotune_model import noting, read_tuning
from tfopt_core.errors import TrainingDiverged, WorkloadError
from tfopt_core.hooks import Control
from tfopt_core.training.build import Built
from tfopt_core.training.chunked import ChunkedFunction
from tfopt_core.training.clock import StepClock, TimedBlock
from tfopt_core.training.devices import device_sync
from tfopt_core.training.distributed.distribution import Distribution, SharedFunction
from tfopt_core.training.keeper import Keeper
from tfopt_core.training.kept import KeptFunctions
from tfopt_core.training.penalties import Penalties, with_data_loss
from tfopt_core.training.resident_loop import ResidentFunction
from tfopt_core.training.switching import SwitchingLoop
from tfopt_core.training.train_functions import (
    TrainFunction,
    count_by,
    loop_function,
    loop_of,
)

# Progress is told at most this often: the parent redraws once a second.
PROGRESS_NANOSECONDS = 250_000_000

# Whether the step time is known is asked after so many blocks, and each time after half as many
# again: the search for changes of level costs more the more blocks there are.
FIRST_CHECK_BLOCKS, CHECK_GROWTH = 20, 1.5

Report = Callable[[dict[str, Any]], None]
Known = Callable[[Sequence[TimedBlock]], bool]


@attrs.define(eq=False)
class Watch:
    """Times a model's train function and calls the plugins after each epoch.

    The clock sits around `model.train_function`, not in a batch callback: a callback that acts
    on batches makes Keras convert the logs of every step.

    :param known: asked now and then, with the blocks so far, whether the step time is known;
        then the training is cut short. None trains to the end.
    :param kept: what earlier fits of the model have left, and later ones will find.
    :param one_call: whether there is but one call of `fit`: then no plugin may ask for other data.
    :param validate_again: makes one more validation, where the run's data do not tell how.
    :param tolerant: whether a loss that is no finite number is noted in `diverged` only.
    """

    built: Built
    report: Report
    before_new_segment: Callable[[], None] = lambda: None
    known: Known | None = None
    clock: StepClock = attrs.field(init=False)
    history: dict[str, list[float]] = attrs.field(factory=dict)
    epochs_done: int = 0
    penalties: Penalties = "unknown"
    stop_reason: str | None = None
    cut_short: bool = False
    asking_nanoseconds: int = 0
    loop: SwitchingLoop | None = None
    distribution: Distribution | None = None
    keeper: Keeper | None = None
    kept: KeptFunctions = attrs.field(factory=KeptFunctions)
    tolerant: bool = False
    one_call: bool = False
    validate_again: Callable[[], None] | None = None
    diverged: TrainingDiverged | None = None
    wants_new_data: bool = False
    shared: SharedFunction | None = None
    _function: TrainFunction | None = None
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

    def install(self) -> None:
        """Put the clock around the model's train function, and the plugins' step around its own."""
        model, wrap = self.built.model, self.built.training.wrap_train_step
        self.kept.on_trace, self.kept.on_traced = self.clock.count_trace, self._traced_once
        step = model.train_step if wrap is None else wrap(model.train_step)
        if not model.run_eagerly:
            step = self._traced(step)
        model.train_step = step
        self._wrap_train_function()

    def uninstall(self) -> None:
        """Leave the model as Keras made it."""
        model = self.built.model
        if "train_step" in vars(model):
            del model.train_step
        model.train_function = self._function = None
        self.kept.fit_is_over()
        if self.distribution is not None or self.built.training.loop != "keras":
            options = self.built.training
            count_by(model, options.steps_per_execution if options.loop == "keras" else 1)

    def begin_fit(self) -> None:
        """A call of `fit` follows, over the data that the run has now."""
        if self.wants_new_data:
            self.wants_new_data = False
            self.clock.new_data(self.epochs_done, self.built.run.steps_per_epoch)
            if (
                self.built.training.loop != "keras"
                or self.loop is not None
                or self.distribution is not None
            ):
                # these know the shapes of the old data, and the resident one the data themselves
                self._function = None
                self.kept.forget()
                self._wrap_train_function()
        if isinstance(self._function, ResidentFunction):
            self._function.begin_fit()

    def callback(self) -> Any:
        """The Keras callback that tells this watch of epochs and validations; put it last."""
        import keras

        watch = self

        class Watching(keras.callbacks.Callback):  # type: ignore[misc]
            def on_train_begin(self, logs: Any = None) -> None:
                if watch.keeper is not None:
                    watch.keeper.begin_training()

            def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
                watch.begin_epoch(epoch)

            def on_test_begin(self, logs: Any = None) -> None:
                watch.clock.begin_validation()

            def on_test_end(self, logs: Any = None) -> None:
                watch.clock.end_validation()

            def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
                watch.end_epoch(epoch, logs or {})

            def on_train_end(self, logs: Any = None) -> None:
                read_tuning(watch.built.model)

        return Watching()

    def begin_epoch(self, epoch: int) -> None:
        """An epoch's first step is about to fetch its input."""
        model = self.built.model
        if self.built.plans["train"].find(Autotune) is not None:
            # what AUTOTUNE chose can be read from a living iterator only, and `fit` hides it
            model.train_function = noting(model, model.train_function)
        if self.loop is not None:
            self.loop.begin_epoch()
        self.clock.begin_epoch(epoch)
        if self.keeper is not None:
            self.keeper.begin_epoch(epoch)

    @property
    def function(self) -> TrainFunction | None:
        """The train function of the stack's loop, None for Keras' own."""
        return self._function

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
        self.report({"type": "epoch", "epoch": epoch, "metrics": metrics})
        self._check_finite(metrics, epoch)
        control = Control()
        self.built.stack.on_epoch_end(self.built.run, self.built.model, epoch, metrics, control)
        self._obey(control)
        if self.keeper is not None:
            self.keeper.end_epoch()

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
        if self.keeper is not None and (control.wants_new_data or control.wants_retrace):
            self.keeper.refuse("rebuilds the data or retraces the step")
        if control.wants_retrace:
            # what is trainable, say, is read when the function is traced, and never again
            model.train_function = None
            self.kept.forget()
            self._wrap_train_function()
        if control.stop_reason is not None:
            self.stop_reason = control.stop_reason
            model.stop_training = True
        elif not model.stop_training and self.epochs_done < run.epochs:
            self.wants_new_data = control.wants_new_data
            if self.wants_new_data or (self._wants_segment):
                self.before_new_segment()
                model.stop_training = True

    @property
    def _wants_segment(self) -> bool:
        return self.loop is not None and not self.one_call and self.loop.wants_segment

    def _wrap_train_function(self) -> None:
        model, loop = self.built.model, self.loop
        if loop is not None:
            count_by(model, loop.steps_counted)
            loop.forget_functions()
            model.train_function = self.clock.timed(loop, lambda: loop.steps_made)
            return
        if self.distribution is not None:
            shared = self.shared = self.distribution.train_function()
            self.clock.steps_per_call = shared.steps
            count_by(model, shared.steps)
            model.train_function = self.clock.timed(shared, lambda: shared.made.last_call)
            return
        if self.built.training.loop != "keras":
            self.clock.steps_per_call = steps = loop_of(self.built).steps
            count_by(model, steps)
        before = self._function if isinstance(self._function, ResidentFunction) else None
        function = self._function = loop_function(self.built, before or self._kept_chunks())
        if function is not None:
            self.kept.function, self.kept.key = function, self._key()
            model.train_function = self.clock.timed(function, lambda: function.made.last_call)
            return
        if self.kept.key == self._key():
            model.train_function = self.kept.function  # None, or what an earlier fit has traced
        model.make_train_function()
        self.kept.function, self.kept.key = model.train_function, self._key()
        model.train_function = self.clock.timed(model.train_function)

    def _key(self) -> tuple[Any, ...]:
        training = self.built.training
        size = self.built.plans["train"].batch_size if training.loop != "keras" else None
        return (loop_of(self.built), size, training.wrap_train_step is None)

    def _kept_chunks(self) -> TrainFunction | None:
        """A chunked loop that an earlier fit has traced; one over resident data has other data."""
        kept = self.kept.function
        return kept if isinstance(kept, ChunkedFunction) and self.kept.key == self._key() else None

    def _traced_once(self) -> None:
        if self.keeper is not None:
            self.keeper.traced()

    def _traced(self, step: Callable[..., Any]) -> Callable[..., Any]:
        kept = self.kept

        @functools.wraps(step)
        def train_step(*args: Any, **kwargs: Any) -> Any:
            kept.on_trace()  # this line runs while the step is traced, and only then
            result = step(*args, **kwargs)
            kept.on_traced()
            return result

        return train_step

    def _after_call(self, epoch: int, done: int) -> None:
        self._tell_step(epoch, done)
        if self.keeper is not None:
            begin = self.clock.now()
            self.keeper.after_call(done)
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
        if self.distribution is not None:
            validation = self.distribution.data("validation")
        self.built.model.evaluate(validation, verbose=0)
        self.clock.end_validation()

    def _tell_step(self, epoch: int, done: int) -> None:
        now = perf_counter_ns()
        if now - self._told >= PROGRESS_NANOSECONDS:
            self._told = now
            self.report({"type": "step", "epoch": epoch, "step": done})


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
