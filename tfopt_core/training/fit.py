"""Run one fit: Keras' `fit` trains the model, and callbacks time and record it."""

from __future__ import annotations

import math
from contextlib import nullcontext
from typing import Any

import attrs

from tfopt_core.data.stages import before_copy
from tfopt_core.records.fit import FitOutcome
from tfopt_core.records.messages import Tell
from tfopt_core.training.build import Built
from tfopt_core.training.checkpoints.checkpointer import Checkpointer
from tfopt_core.training.clock import running_ns
from tfopt_core.training.distributed.cluster import callbacks_of
from tfopt_core.training.distributed.distribution import distribution_of
from tfopt_core.training.fit_callbacks import (
    CutsShort,
    EpochHooks,
    StepTimer,
    fit_callbacks,
    with_data_loss,
)
from tfopt_core.training.keras_data import counted_as, weighed
from tfopt_core.training.shuffle_draws import ShuffleDraws
from tfopt_core.training.timed_function import TimedFunction, build_state


def train(
    built: Built,
    started: int,
    report: Tell,
    cuts_short: CutsShort | None = None,
    checkpointer: Checkpointer | None = None,
) -> FitOutcome:
    """Train to the end of the recipe's epochs, or until a plugin or callback stops.

    :param started: `running_ns` at the start of the build; the wall time counts from there.
    :param report: called with progress messages.
    :param cuts_short: called with the blocks so far; the training ends there once it returns True.
    :param checkpointer: writes checkpoints, and resumes from one.
    :raises TrainingDiverged: once the training loss is not finite.
    :raises PluginError: if a plugin's `on_epoch_end` fails.
    """
    timed = TimedFunction(built, distribution_of(built))
    timer = StepTimer(timed, report, cuts_short)
    hooks = EpochHooks(timer, report)
    callbacks = callbacks_of(built.training.callbacks, built.run.cluster)
    draws = built.shuffle_draws = ShuffleDraws()
    draws.install()
    try:
        timed.install()
        if checkpointer is None:
            _fit(timed, fit_callbacks(callbacks, timer, hooks), 0)
            ended = running_ns()
        else:
            checkpointer.before_fit(timed, hooks)
            if not checkpointer.finished:
                callbacks = fit_callbacks(callbacks, timer, hooks, checkpointer)
                _fit(timed, callbacks, checkpointer.initial_epoch)
            ended = running_ns()
            checkpointer.finish()
        timed.uninstall()
    finally:
        draws.remove()
    resumed = checkpointer is not None and checkpointer.start is not None
    return attrs.evolve(outcome_of(hooks, started, ended), resumed=resumed)


def outcome_of(
    hooks: EpochHooks, started: int, ended: int, *, initial_epoch: int = 0
) -> FitOutcome:
    """Return the outcome of a fit, as its callbacks recorded it.

    :param started, ended: the time of its begin and end, in nanoseconds.
    :param initial_epoch: the epochs that were trained before.
    """
    timer = hooks.timer
    clock, model, run = timer.clock, timer.built.model, timer.built.run
    return FitOutcome(
        # asking whether it is cut short, and stopping for another's turn, is no part of it
        wall_seconds=(ended - started - timer.check_nanoseconds) / 1e9,
        setup_seconds=((clock.first_step_start or ended) - started) / 1e9,
        blocks=tuple(clock.blocks),
        validation_seconds=tuple(clock.validation_seconds),
        epoch_begin_seconds=tuple((begin - started) / 1e9 for begin in clock.epoch_begins),
        epoch_end_seconds=tuple((end - started) / 1e9 for end in clock.epoch_ends),
        edge_seconds=tuple(clock.edge_seconds),
        traces=tuple(clock.step_traces),
        cut_short=timer.cut_short,
        planned_epochs=run.epochs,
        steps_per_epoch=run.steps_per_epoch,
        epochs=hooks.epochs_done - initial_epoch,
        steps=clock.steps,
        batch_size=run.batch_size,
        replicas=run.replicas,
        trainable_parameters=sum(math.prod(v.shape) for v in model.trainable_variables),
        jit_compile=bool(model.jit_compile),
        float32_layers=timer.built.float32_layers,
        stop_reason=hooks.stop_reason,
        counts=timer.counts(),
        history={name: tuple(values) for name, values in hooks.history.items()},
        workers=1 if run.cluster is None else len(run.cluster.workers),
    )


def _fit(timed: TimedFunction, callbacks: Any, initial_epoch: int) -> None:
    """Call Keras' own `fit` on the lowered data; batches are made already."""
    import tensorflow as tf

    built = timed.built
    train, validation = built.run.datasets["train"], built.run.datasets.get("validation")
    class_weight = built.workload.class_weight
    if timed.distribution is not None:
        train, validation = timed.distribution.data("train"), timed.distribution.data("validation")
        class_weight = None  # in the data already
    else:
        train, class_weight = weighed(counted_as(train, built.batches["train"]), class_weight)
        validation = counted_as(validation, built.batches.get("validation"))
    # Keras shuffles the batches of a PyDataset itself; a data set is shuffled already
    batches = isinstance(train, tf.data.Dataset | tf.distribute.DistributedDataset)
    shuffle = built.workload.shuffle and not batches
    timed.begin_fit()
    one_device = built.run.strategy.scope() if timed.distribution is None else nullcontext()
    with one_device:
        built.model.fit(
            train,
            validation_data=validation,
            epochs=built.run.epochs,
            initial_epoch=initial_epoch,
            class_weight=class_weight,
            callbacks=callbacks,
            shuffle=shuffle,
            verbose=0,
        )


def evaluated_metrics(built: Built) -> tuple[str, ...]:
    """Return the names of the metrics of an epoch, by evaluating one batch.

    A name is known only once Keras has built the metric.
    """
    import tensorflow as tf

    build_state(built)
    validation = "validation" in built.run.datasets
    data = built.run.datasets["validation" if validation else "train"]
    if isinstance(data, tf.data.Dataset):
        data = before_copy(data, lambda data: data.take(1))
        names = built.model.evaluate(data, return_dict=True, verbose=0)
    else:
        names = built.model.evaluate(data, steps=1, return_dict=True, verbose=0)
    if validation:
        names |= {f"val_{name}": value for name, value in names.items()}
    return tuple(with_data_loss(names, built.model))
