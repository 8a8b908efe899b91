"""Diagnose a training loop of a script's own: what an update takes, and which plugins to try."""

from __future__ import annotations

from collections.abc import Iterator
from time import perf_counter

import attrs

from tfopt_core.data import DataPlan
from tfopt_core.diagnosis.input_findings import plan_findings
from tfopt_core.diagnosis.training_findings import INPUT_WORTH
from tfopt_core.diagnosis.work import diagnosed_of, with_suggestions
from tfopt_core.hooks import Diagnosis, Finding
from tfopt_core.hooks.machine import available_memory_bytes
from tfopt_core.records.diagnosis import Diagnosed, StepPart
from tfopt_core.records.messages import Tell
from tfopt_core.scripts.own.effects import parameters, trained_models
from tfopt_core.trials.scripts.own_loop import LoopOfScript, baseline_in_words
from tfopt_core.workers.task import DiagnoseTask


def diagnose_loop(task: DiagnoseTask, tell: Tell, own: LoopOfScript) -> Diagnosed:
    """Return the diagnosis of a script's own loop, from its first steps."""
    begun = perf_counter()
    diagnosis = _diagnosis(own)
    limit = task.job.recipe.workload.max_steps
    if limit is None and own.loop.ended is None:
        limit = own.loop.clock.updates  # a run ends where the look does
    measuring_seconds, share = own.loop.clock.seconds, diagnosis.input_seconds / own.step_seconds
    result = diagnosed_of(
        attrs.evolve(diagnosis, steps_per_epoch=limit),
        task.job.recipe,
        own.session.run.settings,
        baseline=baseline_in_words(limit),
        input=_part(share),
        dispatch=_part(0.0),
        compute=_part(1 - share),
        rounds=(),
        estimate=own.estimate(limit),
        measuring_seconds=measuring_seconds,
    )
    result = with_suggestions(result, diagnosis, task.asked_plugins, tell)
    return attrs.evolve(result, measuring_seconds=measuring_seconds + perf_counter() - begun)


def _diagnosis(own: LoopOfScript) -> Diagnosis:
    loop, job = own.loop, own.job
    step = own.step_seconds
    plans, waits = _plans(own), _waiting(own)
    train = plans.get("train")
    passes = [one.passes for one in loop.data.of("train")]
    return Diagnosis(
        machine=job.machine,
        own_loop=True,
        epochs=max(passes, default=1),
        steps_per_epoch=None,
        batch_size=None if train is None else train.batch_size,
        examples=None,
        step_seconds=step,
        input_seconds=waits,
        dispatch_seconds=0.0,
        compute_seconds=step - waits,
        dispatch_known=False,
        data_seconds=waits,
        example_bytes=None,
        available_memory_bytes=available_memory_bytes(),
        trainable_parameters=sum(map(parameters, trained_models(loop.updated))),
        policy=own.session.precision.policy,
        jit_compile=False,
        supports_jit=False,
        plans=plans,
        findings=tuple(_findings(own, plans, step, waits)),
    )


def _plans(own: LoopOfScript) -> dict[str, DataPlan]:
    """Return the plan of each split: that of the data set over which the loop began most often."""
    most = {}
    for split in ("train", "validation"):
        sets = sorted(own.loop.data.of(split), key=lambda one: one.passes)
        if sets:
            most[split] = sets[-1].before
    return most


def _waiting(own: LoopOfScript) -> float:
    """Return the seconds of an update that the script waits for batches."""
    loop = own.loop
    if not loop.clock.seconds:
        return 0.0
    share = min(1.0, loop.data.waited_ns / 1e9 / loop.clock.seconds)
    return share * own.step_seconds


def _findings(
    own: LoopOfScript, plans: dict[str, DataPlan], step: float, waits: float
) -> Iterator[Finding]:
    yield from own.loop.findings()
    for split, plan in plans.items():
        worth = split == "train" and waits >= INPUT_WORTH * step
        yield from plan_findings(split, plan, (), step, worth)


def _part(share: float) -> StepPart:
    return StepPart(share=share, low=share, high=share)
