"""Replay a short training for the equivalence certificate: without the stack, then with it.

The side without plugins goes first and stores in a folder what the other side needs: its first
batches, its initial variables and its final weights. Both train on the same batches in the same
order, each through its own train function, which compares the model, its precision, its compiler
and its loop. The data that each side would have read itself are compared as digests.
"""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import attrs

from tfopt_core.data import DataPlan
from tfopt_core.data.changes import changes
from tfopt_core.data.lower import lower
from tfopt_core.hooks.card import equivalence_of
from tfopt_core.hooks.contract import implementations
from tfopt_core.records.replay import SAME, Replayed
from tfopt_core.training.build import BuildsItself, Built, baseline_plans, build, load
from tfopt_core.training.distributed.distribution import Synchronous, distribution_of
from tfopt_core.training.job import Job
from tfopt_core.training.loops.train_functions import loop_of, made_function
from tfopt_core.training.replay.data import (
    ReplayData,
    read_alike,
    read_first,
    read_other,
    shortened,
)
from tfopt_core.training.replay.digests import FIRST_BATCHES, read_epoch
from tfopt_core.training.replay.weights import restore_variables, save_variables, weight_difference
from tfopt_core.training.sources import as_plan
from tfopt_core.training.workload import Workload

STEPS = 100
MOST_STEPS_A_CALL = 10
BATCHES, FACTS = "batches", "facts.json"
INITIAL, FINAL, OWN = "initial.npz", "final.npz", "own.npz"


def replay(job: Job, folder: Path, load: Callable[[Job], Any] = load) -> Replayed:
    """Replay one side, the one without plugins first. Return its losses and digests.

    :param folder: the folder that both sides share.
    :param load: loads the job's workload.
    :raises ReplayImpossible: if the models have different variables.
    :raises PluginError, PluginRefused, WorkloadError: as a run does.
    """
    return _other(job, folder, load) if job.plugins else _first(job, folder, load)


def _first(job: Job, folder: Path, load: Callable[[Job], Any]) -> Replayed:
    def plan_of(workload: Any) -> Any:
        return baseline_plans(job, workload)["train"]

    workload = load(job)
    again = workload.built_anew() if isinstance(workload, BuildsItself) else None
    data = read_first(workload, plan_of(workload), plan_of)
    folder.mkdir(parents=True, exist_ok=True)
    data.batches.save(str(folder / BATCHES))
    facts = {"batches": int(data.batches.cardinality()), "shortened_to": data.shortened_to}
    (folder / FACTS).write_text(json.dumps(facts), encoding="utf-8")

    built = build(job, _cut(load(job), data.shortened_to))
    trained = _train(built, folder, lambda model: save_variables(folder / INITIAL, model.variables))
    save_variables(folder / FINAL, built.model.weights)
    return attrs.evolve(
        trained,
        epochs=data.epochs,
        unread=data.unread,
        shortened_to=data.shortened_to,
        reproducible=_same_again(data, built, again if data.shortened_to is None else None),
    )


def _other(job: Job, folder: Path, load: Callable[[Job], Any]) -> Replayed:
    shortened_to = json.loads((folder / FACTS).read_text(encoding="utf-8"))["shortened_to"]
    workload = _cut(load(job), shortened_to)
    built = build(job, workload)
    own = as_plan(workload.train, "train").source
    data = read_other(built.plans["train"].without_model(), own, _go_on(workload))
    trained = _train_from_stored(built, folder)
    difference = weight_difference(folder / FINAL, built.model.weights)
    return attrs.evolve(
        trained,
        epochs=data.epochs,
        unread=data.unread,
        shortened_to=shortened_to,
        weight_difference=difference,
        own_difference=_own_difference(built, folder) if difference > SAME else None,
        left_out=(*_left_out(built), *_other_validation(built, baseline_plans(job, workload))),
    )


def _cut(workload: Any, count: int | None) -> Any:
    return workload if count is None else shortened(workload, count)


def _go_on(workload: Workload) -> Callable[[Any], None]:
    """Return what has a data set begin with the epoch that comes next in the workload's own."""
    if isinstance(workload, BuildsItself):
        return partial(workload.go_on, "train")
    return lambda dataset: None


def _same_again(data: ReplayData, built: Built, again: Any) -> bool | None:
    """Return whether the first batches, built anew under the same seed, are the same.

    :param again: the data of a workload that can't be loaded anew, built before they were read;
        None if there are none.
    """
    if not data.epochs or built.plans["train"].source.origin == "pydataset":
        return None  # which was read already, and may have changed its order
    first = data.epochs[0].first
    dataset = lower(built.plans["train"]) if again is None else again
    second = read_epoch(dataset, most_batches=FIRST_BATCHES).first
    count = min(len(first), len(second))  # fewer, if reading ran out of time
    return count > 0 and first[:count] == second[:count]


def _own_difference(built: Built, folder: Path) -> float | None:
    """Return how far the weights differ if the same training is repeated. Some GPU kernels sum in
    another order each time. None if a plugin declares another rounding."""
    if any(equivalence_of(p.name, p.plugin) == "rounding" for p in built.job.plugins):
        return None
    save_variables(folder / OWN, built.model.weights)
    again = build(built.job, built.workload)
    _train_from_stored(again, folder)
    return weight_difference(folder / OWN, again.model.weights)


def _train_from_stored(built: Built, folder: Path) -> Replayed:
    return _train(built, folder, lambda model: restore_variables(folder / INITIAL, model.variables))


def _train(built: Built, folder: Path, begin: Callable[[Any], None]) -> Replayed:
    """Train on the stored batches and return the losses.

    :param begin: called with the model once it is built, before the first step.
    """
    model, wrap = built.model, built.training.wrap_train_step
    recorder = _recorder(begin)
    stored = data = _stored_batches(folder)
    if wrap is not None:
        model.train_step = wrap(model.train_step)
    for stage in built.plans["train"].model_stages:
        # the data were compared without this stage, so it computes on the same batches here
        data = stage.on_batches(data)
    class_weight = built.workload.class_weight
    distribution, scope = distribution_of(built), built.run.strategy.scope()
    if isinstance(distribution, Synchronous):
        scope = contextlib.nullcontext()
        distribution.install()
        data, class_weight = distribution.train_on(data), None
    else:
        _use_loop(built)
    with scope:
        model.fit(
            data,
            epochs=1,
            class_weight=class_weight,
            callbacks=[recorder],
            shuffle=False,
            verbose=0,
        )
    return Replayed(
        epochs=(),
        steps=int(stored.cardinality()),
        reported=tuple(recorder.reported),
        losses={name: tuple(values) for name, values in recorder.losses.items()},
    )


def _use_loop(built: Built) -> None:
    """Make `fit` call the stack's loop on the stored batches.

    A resident loop, which gathers its own batches, is replaced by a chunked one; what it would have
    gathered is compared as data.
    """
    loop = loop_of(built)
    if loop.kind == "keras":
        return
    # losses are compared at the end of each call
    loop = attrs.evolve(loop, kind="chunked", steps=min(loop.steps, MOST_STEPS_A_CALL))
    built.model.steps_per_execution = loop.steps
    built.model.train_function = made_function(built, loop)


def _stored_batches(folder: Path) -> Any:
    """Return the first side's batches in their order, repeated for about a hundred steps."""
    import tensorflow as tf

    batches = json.loads((folder / FACTS).read_text(encoding="utf-8"))["batches"]
    passes = max(1, STEPS // batches)
    options = tf.data.Options()
    options.autotune.enabled = False  # nothing to tune, and its thread would delay the end
    data = tf.data.Dataset.load(str(folder / BATCHES)).repeat(passes).with_options(options)
    return data.apply(tf.data.experimental.assert_cardinality(batches * passes))


def _recorder(begin: Callable[[Any], None]) -> Any:
    """Return the Keras callback that records the losses."""
    import keras

    class Recorder(keras.callbacks.Callback):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.reported: list[int] = []
            self.losses: dict[str, list[float]] = {}

        def on_train_begin(self, logs: Any = None) -> None:
            begin(self.model)

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            # the last call may make fewer steps than Keras counts
            self.reported.append(min(batch + 1, self.params["steps"]))
            for name, value in (logs or {}).items():
                if name.endswith("loss"):
                    self.losses.setdefault(name, []).append(float(value))

    return Recorder()


def _other_validation(built: Built, before: Mapping[str, DataPlan]) -> tuple[str, ...]:
    """Return what is not known to be the same of the validation, which no replay makes."""
    own, stack = before.get("validation"), built.plans.get("validation")
    if own is None or stack is None:
        return ()
    if built.plans["train"].model_stages:  # which were replayed, and compute the same here
        stack = stack.without_model()
    if not changes(own.stages, stack.stages):
        return ()
    return () if read_alike(own, stack) else ("the validation, whose data the stack changes",)


def _left_out(built: Built) -> tuple[str, ...]:
    """Return the callbacks and hooks that the stack adds or removes and that no replay calls."""
    own = Counter(type(callback).__name__ for callback in built.workload.callbacks())
    used = Counter(type(callback).__name__ for callback in built.training.callbacks)
    words = [f"the callback {name}" for name in (used - own) | (own - used)]
    if loop_of(built).kind == "resident":
        words.append("the loop over resident data")
    for stacked in built.job.plugins:
        if "on_epoch_end" in implementations(type(stacked.plugin)):
            words.append(f'on_epoch_end of "{stacked.name}"')
    return tuple(words)
