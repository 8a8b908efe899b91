"""Time what an epoch takes besides its steps: the validation, and each callback by its name."""

from __future__ import annotations

import copy
import functools
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter_ns
from typing import Any

import attrs

from tfopt_core.data.stages import before_copy
from tfopt_core.diagnosis.batches import first_batch, repeated
from tfopt_core.errors import describe
from tfopt_core.records.diagnosis import VALIDATION, EpochPart
from tfopt_core.statistics.intervals import median
from tfopt_core.training.build import Built
from tfopt_core.trials.step_timing import wrapped_test_step

# A validation that takes longer is projected from its first batches; sooner in a first look.
VALIDATION_SECONDS, QUICK_VALIDATION_SECONDS = 2.0, 0.5
# Epochs over one batch in memory; the first of them is not counted.
EPOCHS, STEPS = 4, 8
# The steps of a first look take about this long.
QUICK_SECONDS = 1.0
# A first look leaves out callbacks where their epochs would take longer than this.
LONGEST_QUICK_SECONDS = 8.0
# What Keras calls once an epoch, at each step, and at each batch of the validation.
EPOCH_METHODS = ("on_epoch_begin", "on_epoch_end", "on_test_begin", "on_test_end")
STEP_METHODS = (
    "on_batch_begin", "on_batch_end", "on_train_batch_begin", "on_train_batch_end",
)  # fmt: skip
TEST_METHODS = ("on_test_batch_begin", "on_test_batch_end")


def epoch_parts(
    built: Built, batch: Any, *, all_callbacks: bool, quick_step_seconds: float | None = None
) -> tuple[EpochPart, ...]:
    """Return what the validation and each callback take in an epoch.

    Callbacks see some epochs of a few steps over one batch, with their ends. The model is trained
    by them, and the training cannot go on from it.

    :param built: with the callbacks of `with_files_in`.
    :param batch: of the training data.
    :param all_callbacks: whether callbacks that are not Keras' own may be called, since whatever
        they write stays apart.
    :param quick_step_seconds: in a first look, the seconds of a step, so that few are made.
    """
    quick = quick_step_seconds or 0.0
    validation, batches = _validation(
        built, QUICK_VALIDATION_SECONDS if quick else VALIDATION_SECONDS
    )
    steps = max(1, min(STEPS, int(QUICK_SECONDS / EPOCHS / quick) if quick else STEPS))
    parts = [] if validation is None else [validation]
    names = _names(built.training.callbacks)
    timed = list[_TimedCallback]()
    rest = list[Any]()
    for callback in built.training.callbacks:
        if not _sends(callback) and (
            writes_elsewhere(callback) or all_callbacks or _harmless(callback)
        ):
            timed.append(_TimedCallback(callback))
        else:
            rest.append(callback)
    why = ""
    if EPOCHS * quick > LONGEST_QUICK_SECONDS:
        why = f"not timed: that takes {EPOCHS} steps, and one takes {quick:.2g} s"
    elif timed:
        try:
            _train(built, batch, timed, steps)
        except Exception as error:  # as above, of its beginning
            why = f"not timed: a training with the callbacks {describe(error)}"
    for one in timed:
        one.finish()
        name = names[id(one.callback)]
        part = one.part(name, built.run.steps_per_epoch, batches) if not why else None
        parts.append(part or EpochPart(name=name, note=why))
    why = (
        "not timed: it is not called at the end of an epoch here, since it may write where the "
        "training does"
    )
    return (*parts, *(EpochPart(name=names[id(other)], note=why) for other in rest))


def _validation(built: Built, most_seconds: float) -> tuple[EpochPart | None, int | None]:
    """Return what the validation takes, and the number of its batches if known.

    :param most_seconds: after which it is stopped and projected.
    """
    data = built.run.datasets.get("validation")
    if data is None:
        return None, None
    try:
        with wrapped_test_step(built):
            _evaluate(built.model, data, most_seconds)  # traces, and fills caches
            done, seconds, whole = _evaluate(built.model, data, most_seconds)
        reading = _reading_seconds(data, done, most_seconds)
    except Exception as error:  # the training will raise it
        return EpochPart(name=VALIDATION, note=f"not timed: it {describe(error)}"), None
    count = done if whole else built.plans["validation"].cardinality
    if whole or not done:
        note = f"{done:,} batches"
    elif count is None:
        note = f"at least: the first {done:,} batches, of an unknown number"
    else:
        seconds, note = seconds / done * count, f"projected from {done:,} of {count:,} batches"
        reading = None if reading is None else reading / done * count
    if reading is not None:  # another pass, which may have met a busier machine: a part, no more
        reading = min(reading, seconds)
    part = EpochPart(name=VALIDATION, seconds=seconds, note=note, reading_seconds=reading)
    return part, count


def _reading_seconds(data: Any, batches: int, most_seconds: float) -> float | None:
    """Return the seconds to read so many batches alone, projected where the time is over before;
    None for data that are no tf.data.Dataset."""
    import tensorflow as tf

    if not isinstance(data, tf.data.Dataset) or not batches:
        return None
    begin, read = perf_counter_ns(), 0
    for _ in before_copy(data, lambda data: data.take(batches)):
        read += 1
        if (perf_counter_ns() - begin) / 1e9 > most_seconds:
            break
    return (perf_counter_ns() - begin) / 1e9 / max(1, read) * batches


def _evaluate(model: Any, data: Any, most_seconds: float) -> tuple[int, float, bool]:
    """Evaluate until the data or the time is over. Return the batches, the seconds, and whether
    these were all."""
    import keras

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


@attrs.define(eq=False)
class _TimedCallback:
    """A callback whose methods are timed.

    :param saves: None for a callback that does not save; else how many steps apart it does, 0 for
        once an epoch.
    """

    callback: Any
    saves: int | None = None
    note: str = ""
    failure: str = ""
    epochs: list[int] = attrs.field(factory=list)
    nanoseconds: Counter[str] = attrs.field(factory=Counter)
    calls: Counter[str] = attrs.field(factory=Counter)

    def __attrs_post_init__(self) -> None:
        import keras

        callback = self.callback
        if isinstance(callback, keras.callbacks.ModelCheckpoint | keras.callbacks.BackupAndRestore):
            self._save_each_epoch()
        for name in (*EPOCH_METHODS, *STEP_METHODS, *TEST_METHODS):
            method = getattr(callback, name)
            if getattr(method, "__func__", None) is not getattr(keras.callbacks.Callback, name):
                setattr(callback, name, self._timed(name, method))

    def _save_each_epoch(self) -> None:
        frequency = self.callback.save_freq
        self.saves = 0 if frequency == "epoch" else int(frequency)
        self.callback.save_freq = "epoch"
        if getattr(self.callback, "save_best_only", False):
            self.callback.save_best_only = False
            self.note = "a save, which is made in epochs that improve"

    def _timed(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def timed(*args: Any, **kwargs: Any) -> None:
            if self.failure:
                return
            begin = perf_counter_ns()
            try:
                method(*args, **kwargs)
            except Exception as error:  # the training will raise it
                self.failure = f"not timed: {name} {describe(error)}"
            self.nanoseconds[name] += perf_counter_ns() - begin
            self.calls[name] += 1

        return timed

    def end_epoch(self) -> None:
        """Note the time of the epoch's begin and end."""
        self.epochs.append(sum(self.nanoseconds.pop(name, 0) for name in EPOCH_METHODS))

    def finish(self) -> None:
        """Leave the callback as it was, but for how often it saves."""
        for name in (*EPOCH_METHODS, *STEP_METHODS, *TEST_METHODS):
            vars(self.callback).pop(name, None)

    def part(self, name: str, steps: int | None, batches: int | None) -> EpochPart:
        """Return what it takes in an epoch of so many steps and batches of the validation."""
        if self.failure:
            return EpochPart(name=name, note=self.failure)
        seconds, note = median([float(n) for n in self.epochs[1:]]) / 1e9, self.note
        if self.saves and steps is not None:
            times = steps // self.saves
            seconds *= times
            note = f"{times:,} save{'' if times == 1 else 's'}, one every {self.saves:,} steps"
        elif self.saves:
            note = f"a save, one every {self.saves:,} steps"
        seconds += self._each(STEP_METHODS) * (steps or 0)
        seconds += self._each(TEST_METHODS) * (batches or 0)
        return EpochPart(name=name, seconds=seconds, note=note)

    def _each(self, methods: Sequence[str]) -> float:
        """Return the seconds of a step, or of a batch of the validation."""
        return sum(
            self.nanoseconds[name] / self.calls[name] / 1e9 for name in methods if self.calls[name]
        )


def _harmless(callback: Any) -> bool:
    """Return whether this is a callback of Keras that calls no function of the workload."""
    import keras

    ours = type(callback).__module__.startswith("keras.")
    return ours and not isinstance(callback, keras.callbacks.LambdaCallback)


def _sends(callback: Any) -> bool:
    import keras

    return isinstance(callback, keras.callbacks.RemoteMonitor)


def _names(callbacks: Sequence[Any]) -> dict[int, str]:
    """Return the class names by the identity of the callbacks, numbered from the second on."""
    seen: Counter[str] = Counter()
    names = {}
    for callback in callbacks:
        name = type(callback).__name__
        seen[name] += 1
        names[id(callback)] = name if seen[name] == 1 else f"{name} {seen[name]}"
    return names


def _train(built: Built, batch: Any, timed: Sequence[_TimedCallback], steps: int) -> None:
    """Train some epochs of a few steps over one batch, with whole ends of epochs."""
    import keras

    model = built.model

    class Epochs(keras.callbacks.CallbackList):  # type: ignore[misc]
        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            super().on_epoch_end(epoch, logs)
            model.stop_training = False  # a callback may want to stop: the data are no training's
            for one in timed:
                one.end_epoch()

        def on_train_end(self, logs: Any = None) -> None:
            pass

    validation = None
    if "validation" in built.run.datasets:
        validation = repeated(first_batch(built, "validation"), None, 1)
    model.fit(
        repeated(batch, built.run.element_spec, steps),
        validation_data=validation,
        epochs=EPOCHS,
        callbacks=Epochs(
            [one.callback for one in timed], add_history=True, model=model, verbose=0,
            epochs=built.run.epochs, steps=built.run.steps_per_epoch,
        ),
        shuffle=False,
        verbose=0,
    )  # fmt: skip


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


def writes_elsewhere(callback: Any) -> bool:
    """Return whether the callback is one of those that `with_files_in` copies."""
    import keras

    kinds = keras.callbacks
    return isinstance(
        callback,
        kinds.ModelCheckpoint | kinds.CSVLogger | kinds.TensorBoard | kinds.BackupAndRestore,
    )


def _elsewhere(callback: Any, folder: Path) -> Any:
    """Return a copy of this callback that writes into a folder, or itself if it does not write."""
    import keras

    if not writes_elsewhere(callback):
        return callback
    folder.mkdir(parents=True, exist_ok=True)
    if isinstance(callback, keras.callbacks.BackupAndRestore):
        # its paths are computed when it is made
        return keras.callbacks.BackupAndRestore(
            str(folder), save_freq=callback.save_freq, double_checkpoint=callback.double_checkpoint,
            delete_checkpoint=callback.delete_checkpoint,
        )  # fmt: skip
    other = copy.copy(callback)
    for kind, attribute in (
        (keras.callbacks.ModelCheckpoint, "filepath"),
        (keras.callbacks.CSVLogger, "filename"),
        (keras.callbacks.TensorBoard, "log_dir"),
    ):
        if isinstance(callback, kind):
            setattr(other, attribute, str(folder / Path(getattr(callback, attribute)).name))
    return other
