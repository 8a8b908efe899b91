"""Time what an epoch takes besides its steps: the validation, and each callback by its name."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from time import perf_counter_ns
from typing import Any

import attrs

from tfopt_core.diagnosis.results import VALIDATION, EpochPart
from tfopt_core.diagnosis.step_loops import repeated
from tfopt_core.errors import describe
from tfopt_core.lazy import keras
from tfopt_core.training.build import Built
from tfopt_core.trials.step_timing import wrapped_step

# A validation that takes longer is projected from its first batches; sooner in a first look.
VALIDATION_SECONDS, QUICK_VALIDATION_SECONDS = 2.0, 0.5
# Epochs in which a callback is called, if it takes no longer; the first of them is not counted.
EPOCHS, STEPS, CALLBACK_SECONDS = 4, 8, 2.0


def epoch_parts(
    built: Built, batch: Any, *, all_callbacks: bool, quick: bool = False
) -> tuple[EpochPart, ...]:
    """Return what the validation and each callback take in an epoch.

    Callbacks are called as in some epochs of a few steps, with the model as it is; the training
    cannot go on from what they make of it.

    :param built: with the callbacks of `with_files_in`.
    :param batch: of the training data.
    :param all_callbacks: whether callbacks that are not Keras' own may be called, since whatever
        they write stays apart.
    :param quick: whether this is a first look.
    """
    validation, batches = _validation(
        built, QUICK_VALIDATION_SECONDS if quick else VALIDATION_SECONDS
    )
    parts = [] if validation is None else [validation]
    if not built.training.callbacks:
        return tuple(parts)
    names = _names(built.training.callbacks)
    try:
        logs = _logs(built, batch)
    except Exception as error:  # the training will raise it
        note = f"not timed: for one batch evaluate {describe(error)}"
        return (*parts, *(EpochPart(name=name, note=note) for name in names))
    for name, callback in zip(names, built.training.callbacks, strict=True):
        if _may_be_called(callback, all_callbacks):
            parts.append(_callback(built, callback, name, logs, batches))
    why = (
        "not timed: it is not called at the end of an epoch here, since it may write where the "
        "training does"
    )
    timed = {part.name for part in parts}
    return (*parts, *(EpochPart(name=name, note=why) for name in names if name not in timed))


def _validation(built: Built, most_seconds: float) -> tuple[EpochPart | None, int | None]:
    """Return what the validation takes, and the number of its batches if known.

    :param most_seconds: after which it is stopped and projected.
    """
    data = built.run.datasets.get("validation")
    if data is None:
        return None, None
    try:
        with wrapped_step(built, "test"):
            _evaluate(built.model, data, most_seconds)  # traces, and fills caches
            done, seconds, whole = _evaluate(built.model, data, most_seconds)
    except Exception as error:  # the training will raise it
        return EpochPart(name=VALIDATION, note=f"not timed: it {describe(error)}"), None
    count = done if whole else built.plans["validation"].cardinality
    if whole or not done:
        note = f"{done:,} batches"
    elif count is None:
        note = f"at least: the first {done:,} batches, of an unknown number"
    else:
        seconds, note = seconds / done * count, f"projected from {done:,} of {count:,} batches"
    return EpochPart(name=VALIDATION, seconds=seconds, note=note), count


def _evaluate(model: Any, data: Any, most_seconds: float) -> tuple[int, float, bool]:
    """Evaluate until the data or the time is over. Return the batches, the seconds, and whether
    these were all."""
    begin, done, whole = perf_counter_ns(), 0, True

    class Limit(keras.callbacks.Callback):  # type: ignore[misc]
        async_safe = True  # or the logs of every batch would be converted for it

        def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
            nonlocal done, whole
            done = batch + 1
            if (perf_counter_ns() - begin) / 1e9 > most_seconds:
                model.stop_evaluating, whole = True, False

    model.evaluate(data, callbacks=[Limit()], verbose=0)
    return done, (perf_counter_ns() - begin) / 1e9, whole


def _logs(built: Built, batch: Any) -> dict[str, float]:
    """Return what a callback is given at the end of an epoch, of this batch."""
    with wrapped_step(built, "test"):
        one = repeated(batch, None, 1)
        logs = dict(built.model.evaluate(one, verbose=0, return_dict=True))
    if "validation" in built.run.datasets:
        logs |= {f"val_{name}": value for name, value in logs.items()}
    return logs


def _callback(
    built: Built, callback: Any, name: str, logs: Mapping[str, float], batches: int | None
) -> EpochPart:
    """Return what a callback takes in an epoch, by its calls in a few.

    :param batches: of the validation; None if unknown.
    """
    model, steps = built.model, built.run.steps_per_epoch
    saves, note = _save_each_epoch(callback)
    # its seconds in each epoch: at the edges, in all steps, in all batches of the validation
    edges, of_steps, of_batches = list[float](), list[float](), list[float]()
    given, begin = dict(logs), perf_counter_ns()
    try:
        callback.set_params({"epochs": built.run.epochs, "steps": steps, "verbose": 0})
        callback.set_model(model)
        callback.on_train_begin()
        for epoch in range(EPOCHS):
            edge = _seconds(callback.on_epoch_begin, epoch)
            of_steps.append(_seconds(_each, callback, "train", given))
            edge += _seconds(callback.on_test_begin)
            of_batches.append(_seconds(_each, callback, "test", given))
            edge += _seconds(callback.on_test_end, given)
            edges.append(edge + _seconds(callback.on_epoch_end, epoch, given))
            if epoch and (perf_counter_ns() - begin) / 1e9 > CALLBACK_SECONDS:
                break
    except Exception as error:  # the training will raise it
        return EpochPart(name=name, note=f"not timed: it {describe(error)}")
    finally:
        model.stop_training = False
    seconds = median(edges[1:])
    if saves and steps is not None:
        seconds *= steps // saves
        count = f"{steps // saves:,} save{'' if steps // saves == 1 else 's'}"
        note = f"{count}, one every {saves:,} steps"
    elif saves:
        note = f"a save, one every {saves:,} steps"
    seconds += median(of_steps[1:]) / STEPS * (steps or 0)
    seconds += median(of_batches[1:]) / STEPS * (batches or 0)
    return EpochPart(name=name, seconds=seconds, note=note)


def _save_each_epoch(callback: Any) -> tuple[int, str]:
    """Have a callback that saves do so in each epoch. Return how many steps apart it would, 0 for
    once an epoch, and a note."""
    if not isinstance(callback, keras.callbacks.ModelCheckpoint | keras.callbacks.BackupAndRestore):
        return 0, ""
    frequency, callback.save_freq = callback.save_freq, "epoch"
    note = ""
    if getattr(callback, "save_best_only", False):
        callback.save_best_only, note = False, "a save, which is made in epochs that improve"
    return 0 if frequency == "epoch" else int(frequency), note


def _each(callback: Any, kind: str, logs: dict[str, float]) -> None:
    """Call a callback as in some steps ("train"), or batches of the validation ("test")."""
    for index in range(STEPS):
        getattr(callback, f"on_{kind}_batch_begin")(index)
        getattr(callback, f"on_{kind}_batch_end")(index, logs)


def _seconds(call: Callable[..., Any], *arguments: Any) -> float:
    begin = perf_counter_ns()
    call(*arguments)
    return (perf_counter_ns() - begin) / 1e9


def _may_be_called(callback: Any, all_callbacks: bool) -> bool:
    """Return whether calls of a callback do no harm: it sends nothing, and is one of Keras that
    calls no function of the workload, unless what it writes stays apart."""
    if isinstance(callback, keras.callbacks.RemoteMonitor):
        return False
    of_keras = type(callback).__module__.startswith("keras.")
    harmless = of_keras and not isinstance(callback, keras.callbacks.LambdaCallback)
    return harmless or all_callbacks or bool(_path_attribute(callback))


def _names(callbacks: Sequence[Any]) -> list[str]:
    """Return the class names of the callbacks, numbered from the second on."""
    seen = Counter[str]()
    names = []
    for name in (type(callback).__name__ for callback in callbacks):
        seen[name] += 1
        names.append(name if seen[name] == 1 else f"{name} {seen[name]}")
    return names


# The files of callbacks


def with_files_in(built: Built, folder: Path) -> Built:
    """Return the training with copies of Keras' writing callbacks, which write into `folder`.

    The callbacks of a training that is diagnosed begin epochs and make steps, for which a
    `CSVLogger` empties its log and a `ModelCheckpoint` of every N steps saves.
    """
    callbacks = tuple(
        _elsewhere(callback, folder / str(number))
        for number, callback in enumerate(built.training.callbacks)
    )
    return attrs.evolve(built, training=attrs.evolve(built.training, callbacks=callbacks))


def _path_attribute(callback: Any) -> str:
    """Return the attribute in which a callback of Keras keeps where it writes; "" for any other."""
    callbacks = keras.callbacks
    attributes = {
        callbacks.ModelCheckpoint: "filepath", callbacks.CSVLogger: "filename",
        callbacks.TensorBoard: "log_dir", callbacks.BackupAndRestore: "backup_dir",
    }  # fmt: skip
    return next((name for kind, name in attributes.items() if isinstance(callback, kind)), "")


def _elsewhere(callback: Any, folder: Path) -> Any:
    """Return a copy of this callback that writes into a folder, or itself if it does not write."""
    attribute = _path_attribute(callback)
    if not attribute:
        return callback
    folder.mkdir(parents=True, exist_ok=True)
    if isinstance(callback, keras.callbacks.BackupAndRestore):
        # its paths are computed when it is made
        return keras.callbacks.BackupAndRestore(
            str(folder), save_freq=callback.save_freq, double_checkpoint=callback.double_checkpoint,
            delete_checkpoint=callback.delete_checkpoint,
        )  # fmt: skip
    other = copy.copy(callback)
    setattr(other, attribute, str(folder / Path(getattr(callback, attribute)).name))
    return other
