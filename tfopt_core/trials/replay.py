"""Replay a side of a short training for the equivalence certificate: without the stack, or with it.

Both sides train two epochs as a run does: with their own data, loop, validation and callbacks. The
side without plugins leaves in a folder its initial variables and its final state, for which the
other one waits where both are under way at the same time.

Where the examples may come in another order, both train on the first batches that the side without
plugins has read. The data that each side reads are compared as digests then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import attrs

from tfopt_core.data import DataPlan
from tfopt_core.data.lower import lower, lower_plan
from tfopt_core.lazy import tf
from tfopt_core.scripts.fit_workload import FitWorkload
from tfopt_core.scripts.fitting import train_fit
from tfopt_core.training.build import Built, baseline_plans, build, load
from tfopt_core.training.callbacks import keras_callback
from tfopt_core.training.clock import running_ns
from tfopt_core.training.fit import train
from tfopt_core.training.input.sources import as_plan, first_batches
from tfopt_core.training.job import Job
from tfopt_core.training.loops.train_functions import loop_of
from tfopt_core.training.messages import FitOutcome, Tell
from tfopt_core.training.replay.data import (
    EPOCH_SECONDS,
    EPOCHS,
    FIRST_BATCHES,
    PATIENCE,
    FirstBatches,
    ReadEpoch,
    Replayed,
    read_epoch,
    read_epochs,
)
from tfopt_core.training.replay.state import StateFiles
from tfopt_core.training.workload import Workload
from tfopt_core.workers.task import ReplayTask

BATCHES = "batches"


def replay(task: ReplayTask, tell: Tell, load: Callable[[Job], Any] = load) -> Replayed:
    """Replay one side. Return what it did.

    :param load: loads the job's workload, anew each time; a fit of a script is cut already.
    :raises TfoptError: if the models have different variables.
    :raises PluginError, PluginRefused, WorkloadError: as a run does.
    """
    folder = task.replay_folder / task.part.replace(" ", "-")
    folder.mkdir(parents=True, exist_ok=True)
    side = _Replayer(task.job, folder, task.against, task.batches, load)
    if task.part == "training":
        return side.trained(build(*side.loaded()))
    return side.read(trains=task.part == "fixed batches")


@attrs.define(eq=False)
class _Replayer:
    job: Job
    folder: Path
    against: str
    batches: int | None
    load: Callable[[Job], Any]
    is_cut: bool = False

    def loaded(self) -> tuple[Job, Any]:
        """Return the job and its workload, whose epochs are few and short."""
        workload = self.load(self.job)
        if isinstance(workload, FitWorkload):
            self.is_cut = workload.is_cut
            return self.job, workload
        job, cut = short(self.job, workload, self.batches)
        self.is_cut = cut.train is not workload.train
        return job, cut

    def trained(self, built: Built) -> Replayed:
        """Train and return what was done, and how far the final state differs."""
        files = StateFiles(built.model, self.folder, self.job.variant, self.against)
        callbacks = (*built.training.callbacks, keras_callback(files))
        built.training = attrs.evolve(built.training, callbacks=callbacks)
        outcome = _fit(built)
        return Replayed(
            steps=outcome.steps, history=outcome.history, counts=outcome.counts,
            weight_difference=files.difference, initial_difference=files.initial_difference,
            cut_to=self.batches if self.is_cut else None,
        )  # fmt: skip

    def read(self, *, trains: bool) -> Replayed:
        """Read the data that a training would read, and train on the first batches of them."""
        job, workload = self.loaded()
        if not job.plugins:
            dataset = lower_plan(baseline_plans(job, workload)["train"])
            again = workload.built_anew() if isinstance(workload, FitWorkload) else None
            first = FirstBatches()
            epochs = read_epochs(dataset, keep=first)
            built = build(*self.loaded())
            if trains:
                first.save(self.folder / BATCHES, dataset.element_spec)
            # a script's data that are not built anew would go on where they have come to
            goes_on = again is None and isinstance(workload, FitWorkload)
            reproducible = None if trains and goes_on else _same_again(epochs, built, again)
        else:
            built, reproducible, epochs = build(job, workload), None, ()
            own = as_plan(workload.train, "train").source
            plan = built.plans["train"].without_model()
            untouched = len(plan.stages) == 1 and plan.source.value is own.value
            if not untouched or own.origin != "pydataset":  # which Keras reads itself
                dataset = lower_plan(plan)
                if isinstance(workload, FitWorkload):
                    workload.go_on("train", dataset)
                epochs = read_epochs(dataset, PATIENCE * EPOCH_SECONDS)
        made = Replayed(steps=0, history={}) if not trains else self._trained_on_stored(built)
        return attrs.evolve(made, epochs=epochs, reproducible=reproducible)

    def _trained_on_stored(self, built: Built) -> Replayed:
        """Train on the first side's batches in their order."""
        left_out = ("the loop over resident data",) if loop_of(built).kind == "resident" else ()
        options = tf.data.Options()
        options.autotune.enabled = False  # nothing to tune, and its thread would delay the end
        data = tf.data.Dataset.load(str(self.folder / BATCHES)).with_options(options)
        count = int(data.cardinality())
        for stage in built.plans["train"].model_stages:
            # the data were compared without this stage, so it computes on the same batches here
            data = stage.on_batches(data)
        data = data.apply(tf.data.experimental.assert_cardinality(count))
        others = {split: built.run.datasets[split] for split in built.plans if split != "train"}
        built.plans = {**built.plans, "train": DataPlan.from_dataset(data)}
        built.batches = {**built.batches, "train": count}
        built.run = attrs.evolve(
            built.run, datasets={"train": data, **others}, steps_per_epoch=count
        )
        return attrs.evolve(self.trained(built), left_out=left_out)


def _fit(built: Built) -> FitOutcome:
    if isinstance(built.workload, FitWorkload):
        return train_fit(built.workload, built, running_ns(), lambda message: None)[0]
    return train(built, running_ns(), lambda message: None)


def short(job: Job, workload: Workload, batches: int | None) -> tuple[Job, Workload]:
    """Return the job and the workload of a factory with two epochs of at most so many batches.

    :param batches: None for all.
    """
    spec = job.recipe.workload
    epochs = min(EPOCHS, job.epochs(workload))
    job = attrs.evolve(
        job, recipe=attrs.evolve(job.recipe, workload=attrs.evolve(spec, epochs=epochs))
    )
    if batches is None:
        return job, workload
    size, validation = spec.batch_size or workload.batch_size, workload.validation
    if validation is not None:
        validation = _first(validation, "validation", batches, size)
    train = _first(workload.train, "train", batches, size)
    return job, attrs.evolve(workload, train=train, validation=validation)


def _first(data: Any, split: str, batches: int, size: int) -> Any:
    """Return the data, or the plan of their first batches where there are more or unknown."""
    plan = as_plan(data, split)
    known = plan.cardinality
    if known is not None and known <= (batches if plan.batched else batches * size):
        return data
    return first_batches(plan, batches, size)


def _same_again(epochs: Sequence[ReadEpoch], built: Built, again: Any) -> bool | None:
    """Return whether the first batches, built anew under the same seed, are the same.

    :param again: the data of a workload that can't be loaded anew, built before they were read;
        None if there are none.
    """
    if built.plans["train"].source.origin == "pydataset":
        return None  # which was read already, and may have changed its order
    first = epochs[0].first
    dataset = lower(built.plans["train"]) if again is None else again
    second = read_epoch(dataset, most_batches=FIRST_BATCHES).first
    count = min(len(first), len(second))  # fewer, if reading ran out of time
    return count > 0 and first[:count] == second[:count]
