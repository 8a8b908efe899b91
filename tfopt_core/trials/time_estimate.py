"""Estimate how long a training will take, from its first steps."""

from __future__ import annotations

from time import perf_counter

import attrs

from tfopt_core.data.lower import lower
from tfopt_core.records.estimate import Estimate
from tfopt_core.records.variants import BASELINE
from tfopt_core.training.build import Built, baseline_plans, build
from tfopt_core.training.job import Job
from tfopt_core.training.workload import Workload
from tfopt_core.trials.probing import timed_steps

SECONDS = 0.5
# Longer than this nobody reads the data to learn how many steps an epoch has.
COUNT_SECONDS = 4.0
# A forward pass alone takes about a third of a step.
VALIDATION_SHARE = 1 / 3


def estimated(job: Job, workload: Workload, *, stacked: bool = False) -> Estimate | None:
    """Return what one training without the stack will take, from its first steps; good for "about".

    :param stacked: with the stack.
    :returns: None where the number of steps is unknown.
    :raises Exception: whatever the workload raises in a step; it would do so in every run.
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
    timed = timed_steps(built, SECONDS)
    set_up = of_set_up + max(0.0, perf_counter() - started - timed.seconds)
    steps *= built.run.epochs
    return Estimate(
        step_seconds=timed.step_seconds, seconds=set_up + steps * timed.step_seconds, steps=steps
    )


def training_seconds(job: Job, workload: Workload) -> float | None:
    """Return the seconds of `estimated` without the stack."""
    found = estimated(job, workload)
    return None if found is None else found.seconds


def _steps_per_epoch(built: Built) -> float | None:
    """Training steps, and what validation takes in their unit."""
    train = built.run.steps_per_epoch
    if train is None:
        train = _counted(built)
    if train is None:
        return None
    validation = built.plans.get("validation")
    if validation is None or validation.count is None or not built.run.batch_size:
        return float(train)
    return train + VALIDATION_SHARE * validation.count / built.run.batch_size


def _counted(built: Built) -> int | None:
    """The steps of an epoch, by reading one without the stack; None where that takes too long, or
    would use the data up."""
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
