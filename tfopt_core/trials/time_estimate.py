"""Estimate how long a training will take, from its first steps."""

from __future__ import annotations

from functools import partial
from time import perf_counter

import attrs

from tfopt_core.data.lower import lower
from tfopt_core.errors import WorkloadError
from tfopt_core.records.dry_build import Estimate
from tfopt_core.records.variants import BASELINE
from tfopt_core.training.build import Built, baseline_plans, build
from tfopt_core.training.job import Job
from tfopt_core.training.workload import Workload
from tfopt_core.trials.step_timing import time_steps

SECONDS = 0.5
# The longest time to read the data for the number of steps in an epoch.
COUNT_SECONDS = 4.0
# A forward pass takes about a third of a step.
VALIDATION_SHARE = 1 / 3


def estimated(job: Job, workload: Workload, *, stacked: bool = False) -> Estimate | None:
    """Return about how long one training without the stack will take, from its first steps.

    :param stacked: estimate it with the stack instead.
    :returns: None if the number of steps is unknown.
    :raises Exception: whatever the workload raises in a step, as it would in every run.
    """
    started = perf_counter()
    if not stacked:
        job = attrs.evolve(job, plugins=(), variant=BASELINE)
    built = build(job, workload)
    of_set_up = perf_counter() - started
    steps = _steps_per_epoch(built)
    if steps is None:
        return None
    started = perf_counter()
    [timed] = time_steps([lambda: built], SECONDS)
    set_up = of_set_up + max(0.0, perf_counter() - started - timed.seconds)
    steps *= built.run.epochs
    return Estimate(
        step_seconds=timed.step_seconds, seconds=set_up + steps * timed.step_seconds, steps=steps
    )


def estimated_in_turns(job: Job, workload: Workload) -> tuple[Estimate, Estimate] | None:
    """Return the estimates without the stack and with it, of steps that were timed in turns.

    :returns: None if the number of steps is unknown.
    :raises WorkloadError: if one of them cannot make a step, as it could not in a run.
    """
    bare = attrs.evolve(job, plugins=(), variant=BASELINE)
    made: list[Built] = []

    def built_of(job: Job) -> Built:
        made.append(build(job, workload))
        return made[-1]

    timed = time_steps([partial(built_of, one) for one in (bare, job)], SECONDS)
    for one in timed:
        if one.why_not:
            raise WorkloadError(f"timing some steps {one.why_not}")
    an_epoch = _steps_per_epoch(made[-1])
    if an_epoch is None:
        return None
    steps = an_epoch * made[-1].run.epochs
    without, with_ = (
        Estimate(one.step_seconds, one.set_up_seconds + steps * one.step_seconds, steps)
        for one in timed
    )
    return without, with_


def training_seconds(job: Job, workload: Workload) -> float | None:
    """Return the seconds of a training without the stack, None if unknown."""
    estimate = estimated(job, workload)
    return None if estimate is None else estimate.seconds


def _steps_per_epoch(built: Built) -> float | None:
    """Return the training steps of an epoch, plus the validation's time in steps."""
    train = built.run.steps_per_epoch
    if train is None:
        train = _counted(built)
    if train is None:
        return None
    validation = built.plans.get("validation")
    if validation is None or validation.examples is None or not built.run.batch_size:
        return float(train)
    return train + VALIDATION_SHARE * validation.examples / built.run.batch_size


def _counted(built: Built) -> int | None:
    """Return the steps of an epoch by reading one without the stack. None if that takes too long,
    or would use the data up."""
    import tensorflow as tf

    plan = baseline_plans(built.job, built.workload)["train"]
    if plan.source.origin in ("generator", "pydataset"):
        return None
    dataset = lower(plan)
    if not isinstance(dataset, tf.data.Dataset):
        return None
    end, steps = perf_counter() + COUNT_SECONDS, 0
    for _ in dataset:
        steps += 1
        if perf_counter() > end:
            return None
    return steps or None
