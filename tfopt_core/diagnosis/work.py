"""Diagnose a training in the process of `tfopt diagnose`: time loops, find causes, ask plugins."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import chain
from time import monotonic, perf_counter
from typing import Any

import attrs

from tfopt_core.data import Cache, DataPlan
from tfopt_core.diagnosis.epoch_parts import epoch_parts, with_files_in
from tfopt_core.diagnosis.input_findings import plan_findings
from tfopt_core.diagnosis.matmul import matmul_peaks, matmul_share, operations_of
from tfopt_core.diagnosis.results import Bounds, Diagnosed, PartsMeasured, PluginAsked, StepPart
from tfopt_core.diagnosis.step_graph import supports_xla
from tfopt_core.diagnosis.step_parts import parts_of
from tfopt_core.diagnosis.step_rounds import LOOK_SECONDS, time_rounds
from tfopt_core.diagnosis.training_findings import (
    INPUT_WORTH,
    epoch_findings,
    examples_of,
    input_findings,
    model_findings,
)
from tfopt_core.errors import describe
from tfopt_core.hooks.diagnosis import Diagnosis, StepFacts
from tfopt_core.hooks.installed.suggest import propose
from tfopt_core.hooks.machine import available_memory_bytes
from tfopt_core.private_api import disabled_so_far, why_without
from tfopt_core.recipe.table import to_json
from tfopt_core.toolkit.graphs import StepGraph, traced_step
from tfopt_core.training.build import Built, build, load
from tfopt_core.training.callbacks import batch_callbacks
from tfopt_core.training.job import Job
from tfopt_core.training.messages import Note, Tell
from tfopt_core.training.model.layers import nested_layers, runs_eagerly
from tfopt_core.training.runtime import device_sync
from tfopt_core.training.workload import Workload
from tfopt_core.trials.dry_build import estimates, resolve_all, without_stack
from tfopt_core.trials.probing import ProcessProbe
from tfopt_core.trials.scripts.own_loop import LoopOfScript, baseline_in_words
from tfopt_core.workers.task import DiagnoseTask

# The folder of the process in which Keras' own callbacks write.
CALLBACK_FILES = "callbacks"


def diagnose(task: DiagnoseTask, tell: Tell, load: Callable[[Job], Workload] = load) -> Diagnosed:
    """Diagnose the job's training and return the diagnosis.

    :param load: loads the job's workload.

    :raises InputError, PluginError: for whatever would stop a training.
    """

    def begin(phase: str) -> None:
        tell(Note(phase))

    begun, ends_at = perf_counter(), monotonic() + LOOK_SECONDS if task.quick else None
    begin("building the model")
    workload = load(task.job)
    resolved, search_notes = resolve_all(task.job, workload)
    job = attrs.evolve(task.job, plugins=resolved)
    estimate = estimates(workload, without_stack(job))[0] if task.quick else None
    built = build(job, workload)
    built = with_files_in(built, built.run.folder / CALLBACK_FILES)
    loops = time_rounds(
        built, begin, ends_at=ends_at,
        step_seconds=None if estimate is None else estimate.step_seconds,
    )  # fmt: skip
    parts = parts_of(loops.rounds)
    begin("looking at the data and the graph")
    graph, no_graph = _traced(built, loops.batch)
    stages = ends_at is None or monotonic() < ends_at
    findings = [*input_findings(built, loops, parts, stages=stages)]
    findings += model_findings(built, parts, graph)
    begin("timing validation and callbacks")
    # what a script writes stays in a private folder
    ends = epoch_parts(built, loops.batch, all_callbacks=task.is_private, quick=task.quick)
    findings += epoch_findings(ends, parts.step_seconds, built.run.steps_per_epoch)
    begin("timing matrix products")
    share, peaks = _matmul(built, graph, parts.step_seconds * parts.compute.share)
    probe = ProcessProbe(job, workload, 0)
    layers = () if why_without("nested-layers") else nested_layers(built.model)
    diagnosis = Diagnosis(
        machine=job.machine,
        epochs=built.run.epochs,
        steps_per_epoch=built.run.steps_per_epoch,
        batch_size=built.run.batch_size,
        examples=examples_of(built),
        step_seconds=parts.step_seconds,
        input_seconds=parts.step_seconds * parts.input.share,
        dispatch_seconds=parts.step_seconds * parts.dispatch.share,
        compute_seconds=parts.step_seconds * parts.compute.share,
        data_seconds=parts.data_seconds,
        dispatch_known=parts.dispatch_known,
        example_bytes=_example_bytes(probe),
        available_memory_bytes=probe.available_memory_bytes(),
        trainable_parameters=sum(v.numpy().size for v in built.model.trainable_variables),
        policy=built.precision.policy,
        jit_compile=bool(built.model.jit_compile),
        supports_jit=supports_xla(built.model),
        batch_callbacks=batch_callbacks(built.training.callbacks),
        plans=built.plans,
        findings=tuple(findings),
        layers=tuple(sorted({type(layer).__name__ for layer in layers})),
        matmul_share=share,
        matmul_peaks=peaks,
    )
    warnings = [*loops.warnings, *no_graph, *chain.from_iterable(search_notes.values())]
    if built.plans["train"].find(Cache) is not None and built.run.epochs == 1:
        warnings.append("with one epoch a cache is only ever filled")
    return _answered(
        task,
        diagnosis,
        built.stack.settings,
        tell,
        baseline=workload.baseline,
        input=parts.input,
        dispatch=parts.dispatch,
        compute=parts.compute,
        rounds=tuple(loops.rounds),
        warnings=(*warnings, *disabled_so_far()),
        epoch_parts=ends,
        estimate=estimate,
        measuring_seconds=perf_counter() - begun,
    )


def _answered(
    task: DiagnoseTask,
    diagnosis: Diagnosis,
    settings: Mapping[str, Mapping[str, Any]],
    tell: Tell,
    **more: Any,
) -> Diagnosed:
    """Return the result for what plugins read of a training, with what they propose.

    It is sent before they are asked, so that none of them can lose it. Nothing shortens a call of
    `fit` for one batch, most of which is what `fit` does around it.

    :param settings: of the plugins in effect.
    :param more: the fields that are only in the result, or differ there.
    """
    recipe = task.job.recipe
    facts = {field.name: getattr(diagnosis, field.name) for field in attrs.fields(StepFacts)}
    diagnosed = Diagnosed(
        recipe=recipe.name,
        recipe_sha256=recipe.sha256(),
        workload=recipe.workload.label,
        stack=tuple(settings),
        resolved={name: to_json(dict(each)) for name, each in settings.items()},
        machine=diagnosis.machine.to_dict(),
        data={split: plan.describe() for split, plan in diagnosis.plans.items()},
        bounds=Bounds.of(diagnosis),
        **{**facts, **more},
    )
    tell(PartsMeasured(diagnosed))
    if diagnosis.found("fit-for-a-batch"):
        return diagnosed
    proposal = propose(
        task.asked_plugins, diagnosis, diagnosed.stack,
        tell=lambda plugin: tell(PluginAsked(plugin)),
    )  # fmt: skip
    return attrs.evolve(
        diagnosed,
        suggestions=proposal.suggestions,
        proposed_stack=proposal.stack,
        silent=proposal.silent,
    )


def _traced(built: Built, batch: Any) -> tuple[StepGraph | None, tuple[str, ...]]:
    """Return the traced step, None for one that has no graph; and a warning if it fails."""
    if runs_eagerly(built.model):
        return None, ()
    try:
        return traced_step(built.model, batch), ()
    except Exception as error:
        return None, (f"no graph was looked at: tracing the step for one batch {describe(error)}",)


def _matmul(
    built: Built, graph: StepGraph | None, compute_seconds: float
) -> tuple[float | None, dict[str, float]]:
    """Return the share of the peak that the model reaches while it computes, and the peaks."""
    machine, policy = built.run.machine, built.precision.policy
    peaks = matmul_peaks(machine, policy, device_sync(machine))
    operations = None if graph is None else operations_of(graph.graph)
    peak = peaks.get(policy.removeprefix("mixed_"))
    return (None if peak is None else matmul_share(operations, compute_seconds, peak)), peaks


def _example_bytes(probe: ProcessProbe) -> float | None:
    try:
        return probe.element_bytes()[0] or None
    except Exception:  # data that cannot be read outside of a training
        return None


# A training loop of a script's own: what an update takes, and which plugins to try


def diagnose_loop(task: DiagnoseTask, tell: Tell, own: LoopOfScript) -> Diagnosed:
    """Return the diagnosis of a script's own loop, from its first steps."""
    begun = perf_counter()
    diagnosis = _of_loop(own)
    limit = task.job.recipe.workload.max_steps
    if limit is None and own.ended is None:
        limit = own.clock.updates  # a run ends where the look does
    measuring_seconds, share = own.clock.seconds, diagnosis.input_seconds / own.step_seconds
    result = _answered(
        task,
        diagnosis,
        own.session.run.settings,
        tell,
        steps_per_epoch=limit,
        baseline=baseline_in_words(limit),
        input=_part(share),
        dispatch=_part(0.0),
        compute=_part(1 - share),
        rounds=(),
        estimate=own.estimate(limit),
        measuring_seconds=measuring_seconds,
    )
    return attrs.evolve(result, measuring_seconds=measuring_seconds + perf_counter() - begun)


def _of_loop(own: LoopOfScript) -> Diagnosis:
    job, step = own.job, own.step_seconds
    plans, waits = _plans(own), _waiting(own)
    train = plans.get("train")
    passes = [one.passes for one in own.data.of("train")]
    findings = [*own.findings()]
    for split, plan in plans.items():
        worth = split == "train" and waits >= INPUT_WORTH * step
        findings += plan_findings(split, plan, {}, step, worth)
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
        trainable_parameters=own.trainable_parameters,
        policy=own.session.precision.policy,
        jit_compile=False,
        supports_jit=False,
        plans=plans,
        findings=tuple(findings),
    )


def _plans(own: LoopOfScript) -> dict[str, DataPlan]:
    """Return the plan of each split: that of the data set over which the loop began most often."""
    most = {}
    for split in ("train", "validation"):
        sets = sorted(own.data.of(split), key=lambda one: one.passes)
        if sets:
            most[split] = sets[-1].before
    return most


def _waiting(own: LoopOfScript) -> float:
    """Return the seconds of an update that the script waits for batches."""
    if not own.clock.seconds:
        return 0.0
    share = min(1.0, own.data.waited_ns / 1e9 / own.clock.seconds)
    return share * own.step_seconds


def _part(share: float) -> StepPart:
    return StepPart(share=share, low=share, high=share)
