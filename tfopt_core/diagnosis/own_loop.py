"""Diagnose a training loop of a script's own: what an update takes, and which plugins to try."""

from __future__ import annotations

from collections.abc import Iterator
from time import perf_counter
from typing import Any

import attrs

from tfopt_core.data import DataPlan
from tfopt_core.diagnosis.input_findings import plan_findings
from tfopt_core.errors import InputError
from tfopt_core.hooks import Diagnosis, Finding
from tfopt_core.hooks.diagnosis import StepFacts
from tfopt_core.hooks.installed.settings import plain
from tfopt_core.hooks.installed.suggest import propose
from tfopt_core.hooks.machine import available_memory_bytes
from tfopt_core.recipe import WorkloadSpec
from tfopt_core.records.diagnosis import Bounds, Diagnosed, StepPart
from tfopt_core.records.messages import PartsMeasured, PluginAsked, Tell
from tfopt_core.training.scripts.own_effects import parameters, trained_models
from tfopt_core.training.timing.devices import as_tensorflow_sees
from tfopt_core.trials.scripts.own_loop import LoopOfScript, baseline_in_words
from tfopt_core.workers.task import DiagnoseTask

# Waiting for the input that takes a smaller share of a step is not reported.
INPUT_WORTH = 0.03


def diagnose_loop(task: DiagnoseTask, tell: Tell, own: LoopOfScript) -> Diagnosed:
    """Return the diagnosis of a script's own loop, from its first steps.

    It is also sent before plugins are asked for suggestions, so that none of them can lose it.
    """
    begun = perf_counter()
    diagnosis = _diagnosis(own)
    limit = task.job.recipe.workload.max_steps
    if limit is None and not own.ended:
        limit = own.loop.clock.updates  # a run ends where the look does
    result = attrs.evolve(
        _diagnosed(task, diagnosis, own, limit), measuring_seconds=own.loop.clock.seconds
    )
    tell(PartsMeasured(result))
    proposal = propose(
        task.asked_plugins, diagnosis, result.stack, tell=lambda plugin: tell(PluginAsked(plugin))
    )
    return attrs.evolve(
        result,
        suggestions=proposal.suggestions,
        proposed_stack=proposal.stack,
        silent=proposal.silent,
        measuring_seconds=result.measuring_seconds + perf_counter() - begun,
    )


def as_own_loop(spec: WorkloadSpec, diagnosed: Diagnosed) -> dict[str, Any]:
    """Return the keys of `[workload]` that a script with a loop of its own needs, {} for any other.

    :raises InputError: for a limit that is about calls of `fit`.
    """
    if not diagnosed.own_loop:
        return {}
    for option, value in (("--epochs", spec.max_epochs), ("--fit", spec.fit)):
        if value is not None:
            raise InputError(
                f"{option} is about calls of fit, and {spec.label} trains in a loop of its own; "
                "--max-steps ends a run after so many updates"
            )
    steps = {} if diagnosed.steps_per_epoch is None else {"max_steps": diagnosed.steps_per_epoch}
    return {"loop": "own", **steps}


def _diagnosis(own: LoopOfScript) -> Diagnosis:
    loop, job = own.loop, own.job
    step = own.step_seconds
    plans, waits = _plans(own), _waiting(own)
    train = plans.get("train")
    machine = as_tensorflow_sees(job.machine)
    passes = [] if loop.data is None else [one.passes for one in loop.data.of("train")]
    return Diagnosis(
        machine=machine,
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
        trainable_parameters=sum(map(parameters, trained_models(loop.variables))),
        policy=own.session.precision.policy,
        jit_compile=False,
        supports_jit=False,
        plans=plans,
        findings=tuple(_findings(own, plans, step, waits)),
    )


def _plans(own: LoopOfScript) -> dict[str, DataPlan]:
    """Return the plan of each split: that of the data set over which the loop began most often."""
    if own.loop.data is None:
        return {}
    most = {}
    for split in ("train", "validation"):
        sets = sorted(own.loop.data.of(split), key=lambda one: one.passes)
        if sets:
            most[split] = sets[-1].before
    return most


def _waiting(own: LoopOfScript) -> float:
    """Return the seconds of an update that the script waits for batches."""
    loop = own.loop
    if loop.data is None or not loop.clock.seconds:
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


def _diagnosed(
    task: DiagnoseTask, diagnosis: Diagnosis, own: LoopOfScript, limit: int | None
) -> Diagnosed:
    facts = {field.name: getattr(diagnosis, field.name) for field in attrs.fields(StepFacts)}
    recipe, share = task.job.recipe, diagnosis.input_seconds / diagnosis.step_seconds
    return Diagnosed(
        **{**facts, "steps_per_epoch": limit},
        recipe=recipe.name,
        recipe_sha256=recipe.sha256(),
        workload=recipe.workload.label,
        baseline=baseline_in_words(limit),
        stack=tuple(own.session.run.settings),
        resolved={name: plain(dict(each)) for name, each in own.session.run.settings.items()},
        machine=diagnosis.machine.to_dict(),
        data={split: plan.describe() for split, plan in diagnosis.plans.items()},
        input=_part(share),
        dispatch=_part(0.0),
        compute=_part(1 - share),
        bounds=Bounds.of(diagnosis),
        rounds=(),
        estimate=own.estimate(limit),
        measuring_seconds=0.0,
    )


def _part(share: float) -> StepPart:
    return StepPart(share=share, low=share, high=share)
