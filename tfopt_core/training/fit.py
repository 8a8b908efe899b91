"""Run one fit: Keras' `fit` trains the model, and a `FitMonitor` times and records it."""

from __future__ import annotations

import math
from time import perf_counter_ns
from typing import Any

from tfopt_core.records.fit import FitOutcome
from tfopt_core.records.messages import Tell
from tfopt_core.training.build import Built
from tfopt_core.training.checkpoints.checkpointer import Checkpointer
from tfopt_core.training.checkpoints.segments import begin_anew, segmented_callbacks
from tfopt_core.training.distributed.distribution import Distribution, distribution_of
from tfopt_core.training.distributed.writers import callbacks_of
from tfopt_core.training.fit_monitor import FitMonitor, Known
from tfopt_core.training.loops.exact_loops import Adapt
from tfopt_core.training.loops.switching import switching_loop
from tfopt_core.training.penalties import add_data_loss, remove_data_loss, with_data_loss


def train(
    built: Built,
    started: int,
    report: Tell,
    known: Known | None = None,
    adapt: Adapt | None = None,
    checkpointer: Checkpointer | None = None,
) -> FitOutcome:
    """Train to the end of the recipe's epochs, or until a plugin or callback stops.

    :param started: `perf_counter_ns` at the start of the build; the wall time counts from there.
    :param report: told of progress.
    :param known: told of the blocks so far; once it says that the step time is known, the training
        is cut short.
    :param adapt: makes what compares exact loops while the training goes on, and keeps one.
    :param checkpointer: writes checkpoints, and resumes from one; not together with
        `adapt`, which trains in an order of calls that no checkpoint holds.
    :raises TrainingDiverged: once the training loss is no finite number.
    :raises PluginError: if a plugin's `on_epoch_end` fails.
    """
    model, run = built.model, built.run
    monitor = FitMonitor(built, report, known=known)
    with run.strategy.scope():
        monitor.penalties = add_data_loss(model, run.element_spec)
    distribution = monitor.timed.distribution = distribution_of(built)
    if distribution is not None:
        distribution.install()
    if adapt is not None:
        monitor.timed.loop = switching_loop(built, monitor.clock, adapt, report)
    monitor.timed.install()
    callbacks = segmented_callbacks(
        monitor.around(callbacks_of(built.training.callbacks, run.cluster)),
        model,
        epochs=run.epochs,
        steps=run.steps_per_epoch,
    )
    if checkpointer is not None:
        assert adapt is None
        monitor.listener = checkpointer
        checkpointer.before_fit(monitor)
    while checkpointer is None or not checkpointer.finished:
        callbacks.last = True
        monitor.before_new_segment = lambda: setattr(callbacks, "last", False)
        monitor.begin_fit()
        initial = monitor.epochs_done if checkpointer is None else checkpointer.initial_epoch
        _fit(built, callbacks, initial, distribution)
        if callbacks.last:
            break
        if monitor.wants_new_data:
            built.rebuild_training_data()
        if monitor.timed.loop is not None:
            monitor.timed.loop.begin_segment()
        begin_anew(built)
    ended = perf_counter_ns()
    if checkpointer is not None:
        checkpointer.finish()
    kept = None if monitor.timed.loop is None else monitor.timed.loop.finish()
    communication = None if distribution is None else distribution.communication_seconds()
    monitor.timed.uninstall()
    if distribution is not None:
        distribution.uninstall()
    remove_data_loss(model)
    return outcome_of(
        monitor,
        built,
        started,
        ended,
        jit_compile=None if kept is None else kept.jit_compile,
        resumed=checkpointer is not None and checkpointer.start is not None,
        communication_step_seconds=communication,
    )


def outcome_of(
    monitor: FitMonitor,
    built: Built,
    started: int,
    ended: int,
    *,
    initial_epoch: int = 0,
    jit_compile: bool | None = None,
    resumed: bool = False,
    communication_step_seconds: float | None = None,
) -> FitOutcome:
    """What a monitor has seen of a fit that lasted from `started` to `ended`, in nanoseconds.

    :param initial_epoch: the epochs that were trained before.
    :param jit_compile: of the loop that trained in the end; None for the model's own.
    """
    clock, model, run = monitor.clock, built.model, built.run
    return FitOutcome(
        # whoever is never cut short was asked all along, and that is none of its training
        wall_seconds=(ended - started - monitor.asking_nanoseconds) / 1e9,
        setup_seconds=((clock.first_step_start or ended) - started) / 1e9,
        blocks=tuple(clock.blocks),
        validation_seconds=tuple(clock.validation_seconds),
        epoch_begin_seconds=tuple((begin - started) / 1e9 for begin in clock.epoch_begins),
        epoch_end_seconds=tuple((end - started) / 1e9 for end in clock.epoch_ends),
        edge_seconds=tuple(clock.edge_seconds),
        cut_short=monitor.cut_short,
        planned_epochs=run.epochs,
        steps_per_epoch=run.steps_per_epoch,
        epochs=monitor.epochs_done - initial_epoch,
        steps=clock.steps,
        batch_size=run.batch_size,
        replicas=run.replicas,
        trainable_parameters=sum(math.prod(v.shape) for v in model.trainable_variables),
        jit_compile=bool(model.jit_compile) if jit_compile is None else jit_compile,
        float32_layers=built.float32_layers,
        stop_reason=monitor.stop_reason,
        history={name: tuple(values) for name, values in monitor.history.items()},
        resumed=resumed,
        workers=1 if run.cluster is None else len(run.cluster.workers),
        communication_step_seconds=communication_step_seconds,
    )


def _fit(
    built: Built, callbacks: Any, initial_epoch: int, distribution: Distribution | None
) -> None:
    """Keras' own `fit` on the lowered data; batches are made already."""
    import tensorflow as tf

    train, validation = built.run.datasets["train"], built.run.datasets.get("validation")
    class_weight = built.workload.class_weight
    if distribution is not None:
        train, validation = distribution.data("train"), distribution.data("validation")
        class_weight = None  # in the data already
    # Keras shuffles the batches of a PyDataset itself; a data set is shuffled already
    batches = isinstance(train, tf.data.Dataset | tf.distribute.DistributedDataset)
    shuffle = built.workload.shuffle and not batches
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
    """The names of the metrics that a finished epoch will have, found by evaluating one batch.

    What a metric is called is known only once Keras has built it.
    """
    import tensorflow as tf

    with built.run.strategy.scope():
        penalties = add_data_loss(built.model, built.run.element_spec)
    validation = "validation" in built.run.datasets
    data = built.run.datasets["validation" if validation else "train"]
    if isinstance(data, tf.data.Dataset):
        data = data.take(1)
        names = built.model.evaluate(data, return_dict=True, verbose=0)
    else:
        names = built.model.evaluate(data, steps=1, return_dict=True, verbose=0)
    remove_data_loss(built.model)
    metrics = dict.fromkeys(with_data_loss(names, penalties))
    if validation:
        metrics |= dict.fromkeys(f"val_{name}" for name in list(metrics))
    return tuple(metrics)
