"""The Keras callbacks that time and count a fit, record its history and call the epoch hooks."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs

from tfopt_core.errors import TfoptError
from tfopt_core.hooks.values import Control
from tfopt_core.lazy import keras
from tfopt_core.training.build import Built
from tfopt_core.training.callbacks import batch_callbacks, keras_callback
from tfopt_core.training.clock import StepClock, running_ns
from tfopt_core.training.messages import (
    NAME,
    Block,
    EpochDone,
    FitOutcome,
    StepDone,
    Tell,
    TrainingCounts,
)
from tfopt_core.training.model.layers import optimizers_of
from tfopt_core.training.model.loss_scaling import overflow_steps
from tfopt_core.training.timed_function import TimedFunction

# Progress is reported at most this often: the parent redraws once a second.
PROGRESS_NANOSECONDS = 250_000_000

CutsShort = Callable[[Sequence[Block]], bool]


@attrs.define(eq=False)
class FitMonitor:
    """Times and counts one fit, records its history, calls the epoch hooks and obeys them.

    :param report: called with progress messages.
    :param cuts_short: called after each block with those so far; the training ends there once it
        returns True. None trains to the end.
    :param tolerant: whether a loss that is not finite is only recorded in `diverged`.
    :ivar check_nanoseconds: the time of calling `cuts_short`, which is no part of the training.
    """

    timed: TimedFunction
    report: Tell
    cuts_short: CutsShort | None = None
    tolerant: bool = False
    epochs_done: int = 0
    history: dict[str, list[float]] = attrs.field(factory=dict)
    stop_reason: str | None = None
    diverged: str | None = None
    cut_short: bool = False
    check_nanoseconds: int = 0
    counter: TrainingCounter = attrs.field(init=False)
    _reported: int = 0

    def __attrs_post_init__(self) -> None:
        self.clock.on_call = self._after_call
        self.counter = TrainingCounter(self.built)

    @property
    def built(self) -> Built:
        """The training."""
        return self.timed.built

    @property
    def clock(self) -> StepClock:
        """The clock around the train function."""
        return self.timed.clock

    def callbacks(self, callbacks: Sequence[Any], *last: Any) -> list[Any]:
        """Return the callbacks of the fit with those of tfopt around them.

        The first one is called before any callback acts on the end of an epoch; the clock, this
        monitor and those after it are called when all others have acted.
        """
        # the time of other callbacks is no step's time
        end = keras.callbacks.LambdaCallback(on_epoch_end=lambda *_: self.clock.end_steps())
        behind = map(keras_callback, (self.clock, self, *last))
        return [end, *self.counter.callbacks(), *callbacks, *behind]

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Record the metrics of a whole epoch and call the plugins.

        :raises TfoptError: if the training loss is not finite.
        :raises PluginError: if a plugin fails.
        """
        logs = logs or {}
        if self.cut_short:
            self._check_finite(logs, epoch)
            return
        self.epochs_done, built = epoch + 1, self.built
        metrics = with_data_loss(
            {name: float(value) for name, value in logs.items() if _is_number(value)}, built.model
        )
        for name, value in metrics.items():
            self.history.setdefault(name, []).append(value)
        self.report(EpochDone(epoch, metrics))
        self._check_finite(metrics, epoch)
        control = Control()
        built.stack.on_epoch_end(built.run, built.model, epoch, metrics, control)
        if control.stop_reason is not None:
            self.stop_reason = control.stop_reason
            built.model.stop_training = True

    def outcome(self, started: int, ended: int, *, initial_epoch: int = 0) -> FitOutcome:
        """Return the outcome of the fit.

        :param started, ended: the time of its begin and end, in nanoseconds.
        :param initial_epoch: the epochs that were trained before.
        """
        clock, model, run = self.clock, self.built.model, self.built.run
        return FitOutcome(
            # asking whether it is cut short, and stopping for another's turn, is no part of it
            wall_seconds=(ended - started - self.check_nanoseconds) / 1e9,
            setup_seconds=((clock.first_step_start or ended) - started) / 1e9,
            blocks=tuple(clock.blocks),
            validation_seconds=tuple(clock.validation_seconds),
            epoch_end_seconds=tuple((end - started) / 1e9 for end in clock.epoch_ends),
            edge_seconds=tuple(clock.edge_seconds),
            traces=tuple(clock.step_traces),
            cut_short=self.cut_short,
            planned_epochs=run.epochs,
            steps_per_epoch=run.steps_per_epoch,
            epochs=self.epochs_done - initial_epoch,
            steps=clock.steps,
            batch_size=run.batch_size,
            replicas=run.replicas,
            trainable_parameters=sum(math.prod(v.shape) for v in model.trainable_variables),
            jit_compile=bool(model.jit_compile),
            stop_reason=self.stop_reason,
            diverged=self.diverged,
            counts=self.counter.counts(),
            history={name: tuple(values) for name, values in self.history.items()},
            workers=1 if run.cluster is None else len(run.cluster.workers),
        )

    def _after_call(self, epoch: int, done: int) -> None:
        now = running_ns()
        if now - self._reported >= PROGRESS_NANOSECONDS:
            self._reported = now
            self.report(StepDone(epoch, done))
        if self.cuts_short is None or self.cut_short or not self.clock.at_edge:
            return
        begin = running_ns()
        if self.cuts_short(self.clock.blocks):
            self.cut_short = self.built.model.stop_training = True
        self.check_nanoseconds += running_ns() - begin
        self.clock.leave_out()

    def _check_finite(self, metrics: Mapping[str, Any], epoch: int) -> None:
        loss = float(metrics.get("loss", 0.0))
        if math.isfinite(loss):
            return
        why = f'the metric "loss" was {loss} after epoch {epoch + 1}'
        if not self.tolerant:
            raise TfoptError(why)
        self.diverged = self.diverged or why


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


@attrs.define(eq=False)
class TrainingCounter:
    """Counts updates and examples of a fit at the ends of its epochs and validations, and the
    batches that callbacks see.

    It reads the optimizers' own numbers of iterations, and the examples that Keras' mean of the
    loss has counted, which takes no time in a step.
    """

    built: Built
    _optimizers: list[Any] = attrs.field(factory=list)
    _before: list[int] = attrs.field(factory=list)
    _updates: list[list[int]] = attrs.field(factory=list)
    _examples: list[int] = attrs.field(factory=list)
    _validation_examples: list[int] = attrs.field(factory=list)
    _counted: bool = False
    _batch_calls: int | None = None
    _batch_indices: Any = attrs.field(factory=lambda: hashlib.blake2b(digest_size=8))

    def callbacks(self) -> list[Any]:
        """Return the callbacks that count, to be called before the others."""
        own = [keras_callback(self)]
        # only for a callback that acts on batches: else it would slow the steps
        if batch_callbacks(self.built.training.callbacks):
            self._batch_calls = 0
            own.append(keras.callbacks.LambdaCallback(on_train_batch_end=self._count_batch))
        return own

    def on_train_begin(self, logs: Any = None) -> None:
        """Note the numbers before the training."""
        run, own = self.built.run, self.built.workload.own_strategy
        if (run.replicas > 1 and own is None) or run.cluster is not None:
            return  # their optimizers count elsewhere
        self._optimizers = optimizers_of(self.built.model)
        self._before = _iterations(self._optimizers)
        self._updates = [[] for _ in self._optimizers]

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Note that the epoch's examples are not counted yet."""
        self._counted = False

    def on_test_begin(self, logs: Any = None) -> None:
        """Count the examples of the epoch, before a validation counts its own."""
        self._count_examples()

    def on_test_end(self, logs: Any = None) -> None:
        """Count the examples of a validation."""
        self._validation_examples += _examples_of_loss(self.built)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Count the updates of the epoch."""
        self._count_examples()
        now = _iterations(self._optimizers)
        for updates, before, after in zip(self._updates, self._before, now, strict=True):
            updates.append(after - before)
        self._before = now

    def counts(self) -> TrainingCounts:
        """Return what was counted."""
        return TrainingCounts(
            updates=tuple(map(tuple, self._updates)),
            examples=tuple(self._examples),
            validation_examples=tuple(self._validation_examples),
            learning_rate=_learning_rate(self.built.model.optimizer),
            batch_calls=self._batch_calls,
            batch_indices=None if self._batch_calls is None else self._batch_indices.hexdigest(),
        )

    def _count_batch(self, batch: int, logs: Any = None) -> None:
        self._batch_calls = (self._batch_calls or 0) + 1
        self._batch_indices.update(f"{batch},".encode())

    def _count_examples(self) -> None:
        if not self._counted:
            self._examples += _examples_of_loss(self.built)
        self._counted = True


def _iterations(optimizers: Sequence[Any]) -> list[int]:
    return [int(one.iterations.numpy()) + (overflow_steps(one) or 0) for one in optimizers]


def _examples_of_loss(built: Built) -> list[int]:
    """Return the number of examples that the mean of the loss holds; none if that is unknown."""
    stages = [stage for plan in built.plans.values() for stage in plan.stages]
    fills_up = any(hasattr(getattr(stage, "function", None), "filled_to") for stage in stages)
    if built.run.replicas > 1 or fills_up:
        return []  # each replica counts its own; examples that fill a batch up are counted too
    means = (m for m in built.model.metrics if m.name == "loss" and hasattr(m, "count"))
    mean = next(means, None)
    return [] if mean is None else [round(float(keras.ops.convert_to_numpy(mean.count)))]


def _learning_rate(optimizer: Any) -> float | None:
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)
    rate = getattr(optimizer, "learning_rate", None)
    return None if rate is None else float(keras.ops.convert_to_numpy(rate))


def with_data_loss(metrics: Mapping[str, float], model: Any) -> dict[str, float]:
    """Return the metrics of an epoch with `val_data_loss`: `val_loss` less the penalties on the
    weights as they are. Losses that a layer adds itself stay in both."""
    if "val_loss" not in metrics:
        return dict(metrics)
    penalty = sum(
        float(variable.regularizer(variable))
        for variable in model.trainable_variables
        if getattr(variable, "regularizer", None) is not None
    )
    return {**metrics, NAME: metrics["val_loss"] - penalty}
