"""Run one fit: Keras' `fit` trains the model, and callbacks time and record it."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import attrs

from tfopt_core.lazy import tf
from tfopt_core.training.build import Built
from tfopt_core.training.callbacks import callbacks_of
from tfopt_core.training.checkpoints.checkpointer import Checkpointer
from tfopt_core.training.clock import running_ns
from tfopt_core.training.distributed.distribution import distribution_of
from tfopt_core.training.fit_monitor import CutsShort, FitMonitor
from tfopt_core.training.input.shuffle_draws import ShuffleDraws
from tfopt_core.training.input.sources import counted_as, weighed
from tfopt_core.training.messages import FitOutcome, Tell
from tfopt_core.training.timed_function import TimedFunction


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
    :raises TfoptError: once the training loss is not finite.
    :raises PluginError: if a plugin's `on_epoch_end` fails.
    """
    timed = TimedFunction(built, distribution_of(built))
    monitor = FitMonitor(timed, report, cuts_short)
    callbacks = callbacks_of(built.training.callbacks, built.run.cluster)
    draws = built.shuffle_draws = ShuffleDraws()
    draws.install()
    try:
        timed.install()
        if checkpointer is None:
            _fit(timed, monitor.callbacks(callbacks), 0)
            ended = running_ns()
        else:
            checkpointer.before_fit(monitor)
            if not checkpointer.finished:
                callbacks = monitor.callbacks(callbacks, checkpointer)
                _fit(timed, callbacks, checkpointer.initial_epoch)
            ended = running_ns()
            checkpointer.finish()
        timed.uninstall()
    finally:
        draws.remove()
    resumed = checkpointer is not None and checkpointer.start is not None
    return attrs.evolve(monitor.outcome(started, ended), resumed=resumed)


def _fit(timed: TimedFunction, callbacks: Any, initial_epoch: int) -> None:
    """Call Keras' own `fit` on the lowered data; batches are made already."""
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
    with one_device, built.stack.changes_noted():
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
