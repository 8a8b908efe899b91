"""Apply a stack to trainings in this process, for notebooks and custom loops."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import attrs

from tfopt_core.data import DataPlan
from tfopt_core.data.lower import lower
from tfopt_core.errors import InputError
from tfopt_core.hooks.stack import Stack
from tfopt_core.hooks.values import Effect, RuntimeOptions
from tfopt_core.lazy import keras, tf
from tfopt_core.scripts.fitting import effects_of, train_fit
from tfopt_core.scripts.session import Session
from tfopt_core.training.job import Job
from tfopt_core.training.messages import FitOutcome
from tfopt_core.training.runtime import seen_by_tensorflow

LATE = "TensorFlow reads this at its start, and has started already; use `tfopt train` for a script"


@attrs.define(eq=False)
class Stacked:
    """The results of the calls of `fit` under a stack."""

    fits: list[FitOutcome] = attrs.field(factory=list)
    late: tuple[str, ...] = ()

    @property
    def effects(self) -> dict[str, Effect]:
        """Every plugin's effect on the fits so far, by name: applied, or why not."""
        return {**effects_of(self.fits), **{name: Effect.not_applied(LATE) for name in self.late}}


@contextmanager
def stacked_here(job: Job, seed: int | None) -> Iterator[Stacked]:
    """Replace Keras' `compile` and `fit` in this process, and restore them at the end.

    :param seed: the seed to set first; None sets none.
    :raises InputError: for a stack over several processes.
    """
    job = seen_by_tensorflow(job)
    changed = _runtime(job)
    # the limits of the recipe's own workload do not apply here
    whole = attrs.evolve(job.recipe.workload, max_epochs=None, max_steps=None)
    job = attrs.evolve(job, recipe=attrs.evolve(job.recipe, workload=whole))
    stacked = Stacked(late=changed)
    if seed is not None:
        keras.utils.set_random_seed(seed)

    def on_fit(workload: Any, started: int) -> Any:
        built = workload.built(job)
        fit, history = train_fit(workload, built, started, lambda message: None)
        stacked.fits.append(fit)
        return history

    session = Session(job, on_fit, None)
    try:
        session.begin()
        yield stacked
    finally:
        session.end()


def _runtime(job: Job) -> tuple[str, ...]:
    """Return the plugins whose settings TensorFlow reads at its start only."""
    stack = Stack(job.plugins)
    options = stack.configure_runtime(job.machine, job.recipe)
    if options.builds_strategy_first:
        raise InputError(
            "the stack trains over several processes, which each have to be started for it; use "
            "`tfopt train` or `tfopt launch`"
        )
    if options == RuntimeOptions():
        return ()
    return tuple(dict.fromkeys(str(c.plugin) for c in stack.all_changes if c.changed and c.plugin))


def optimized_dataset(job: Job, dataset: Any, split: Any) -> Any:
    """Return the data set as the stack's `build_dataset` hooks rewrite it.

    :raises InputError: for anything but a `tf.data.Dataset`.
    """
    if not isinstance(dataset, tf.data.Dataset):
        raise InputError(f"optimize() takes a tf.data.Dataset, got a {type(dataset).__name__}")
    job = seen_by_tensorflow(job)
    plan = DataPlan.from_dataset(dataset)
    stack = Stack(job.plugins)
    steps = int(dataset.cardinality())
    run = job.context(
        stack, epochs=2, batch_size=plan.batch_size, element_spec=dataset.element_spec,
        steps_per_epoch=steps if steps > 0 else None, strategy=tf.distribute.get_strategy(),
    )  # fmt: skip
    return lower(stack.build_dataset(run, split, plan))
