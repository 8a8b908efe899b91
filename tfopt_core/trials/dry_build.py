"""The dry build: resolve settings and call every hook up to `compile`, without training.

It runs in a process of its own, once per measurement, and finds before the first timed run what
would fail in every run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from time import perf_counter
from typing import Any

import attrs

from tfopt_core.data import DataPlan
from tfopt_core.data.lower import lower
from tfopt_core.data.stages import before_copy
from tfopt_core.errors import PluginError, WorkloadError, describe
from tfopt_core.hooks.own_loop import configured_runtime
from tfopt_core.hooks.plugin_class import card, equivalence_of, guarded, overrides
from tfopt_core.hooks.stack import Stack, StackedPlugin
from tfopt_core.lazy import keras, tf
from tfopt_core.private_api import disabled_so_far
from tfopt_core.recipe.table import to_json
from tfopt_core.scripts.fit_workload import FitWorkload
from tfopt_core.scripts.limits import cut_in_words
from tfopt_core.statistics.runs import BASELINE
from tfopt_core.training.build import Built, baseline_plans, build, build_state, load
from tfopt_core.training.fit_monitor import with_data_loss
from tfopt_core.training.job import Job
from tfopt_core.training.messages import Tell
from tfopt_core.training.workload import Workload, judged_metric, quality_direction
from tfopt_core.trials.epoch_ends import waiting_seconds
from tfopt_core.trials.probing import ProcessProbe
from tfopt_core.trials.request import Estimate, HookChange, PluginPlan, Prepared
from tfopt_core.trials.step_timing import time_steps
from tfopt_core.workers.task import PrepareTask
from tfopt_core.workers.telemetry import peak_rss_bytes

# The longest time to read the data for the number of steps in an epoch.
COUNT_SECONDS = 4.0
# A forward pass takes about a third of a step.
VALIDATION_SHARE = 1 / 3


def prepare(task: PrepareTask, tell: Tell, load: Callable[[Job], Workload] = load) -> Prepared:
    """Resolve the settings, build, and return what that found.

    :param load: loads the job's workload.
    :raises InputError, PluginError: for an error that would stop every run.
    """
    job = task.job
    workload = load(job)
    resolved, search_notes = resolve_all(job, workload)
    job = _with_resolved(job, resolved)
    built = build(job, workload)
    baseline = baseline_plans(job, workload)
    metrics = _metrics(built)
    # of a script before other builds, which share its model
    not_applied = _not_applied(built)
    quality = job.recipe.measure.quality
    metric = quality.metric if quality else default_metric(workload, metrics)
    direction = quality.direction if quality else workload.quality_direction
    if direction is None and metric in metrics:
        direction = quality_direction(metric)
    estimated = _estimates(task, job, workload)
    plugins = tuple(
        plan_of(built.stack, before, after, search_notes.get(after.name, ()))
        for before, after in zip(task.job.plugins, resolved, strict=True)
    )
    prepared = Prepared(
        plugins=plugins,
        data_before={split: plan.describe() for split, plan in baseline.items()},
        data_after={split: plan.describe() for split, plan in built.plans.items()},
        metrics=metrics,
        quality_metric=metric,
        quality_direction=direction,
        epochs=built.run.epochs,
        steps_per_epoch=built.run.steps_per_epoch,
        batch_size=built.run.batch_size,
        baseline_batch_size=baseline["train"].batch_size if "train" in baseline else None,
        to_target=job.recipe.measure.objective == "time-to-target"
        or any(plugin.equivalence == "changes" for plugin in plugins),
        validation_examples=_validation_examples(baseline),
        trainable_parameters=sum(v.numpy().size for v in built.model.trainable_variables),
        jit_compile=bool(built.model.jit_compile),
        policy=built.precision.policy,
        baseline=workload.baseline,
        versions=versions(),
        gpus=job.machine.gpus,
        warnings=_warnings(workload, built),
        several_processes=job.runtime.cluster is not None,
        not_applied=not_applied,
        peak_rss_bytes=peak_rss_bytes(),
        **estimated,
    )
    disabled = [text for text in disabled_so_far() if text not in prepared.warnings]
    return attrs.evolve(prepared, warnings=(*prepared.warnings, *prepared.search_notes, *disabled))


def _not_applied(built: Built) -> dict[str, str]:
    """Return the plugins without effect, with the reason: of a script after its first steps, of
    other workloads those that certainly have none, before any step."""
    stack, run, model = built.stack, built.run, built.model
    if not isinstance(built.workload, FitWorkload):
        # a dry build has no strategy of several devices, which a plugin may be for
        several = built.job.runtime.builds_strategy_first
        return {} if several else stack.without_effect(run, model)
    effects = stack.report_effects(run, model)
    return {name: effect.detail for name, effect in effects.items() if not effect.applied}


def _estimates(task: PrepareTask, job: Job, workload: Workload) -> dict[str, Any]:
    """Return the fields of `Prepared` that say how long a training takes, as the task asks."""
    bare = without_stack(job)
    if task.estimate:
        [without] = estimates(workload, bare)
        return {"training_seconds": None if without is None else without.seconds}
    if not task.quick:
        return {}
    if not task.follows:  # the model may have been built for the stack
        return {"stack_estimate": estimates(workload, job)[0]}
    names = ("baseline_estimate", "stack_estimate")
    return dict(zip(names, estimates(workload, bare, job), strict=True))


def resolve_all(
    job: Job, workload: Workload, probe_of: type[ProcessProbe] = ProcessProbe
) -> tuple[tuple[StackedPlugin, ...], dict[str, tuple[str, ...]]]:
    """Ask every plugin in recipe order to replace its "auto". Return the stack without any, and for
    each plugin how its settings were found.

    :param probe_of: the class of the probes.
    :raises PluginError, PluginRefused: naming the plugin whose `resolve` failed or refused.
    """
    resolved, search_notes = list(job.plugins), {}
    for index, stacked in enumerate(job.plugins):
        if not overrides(type(stacked.plugin), "resolve"):
            continue
        probe = probe_of(attrs.evolve(job, plugins=tuple(resolved)), workload, index)
        plugin = guarded(stacked.name, "resolve", partial(stacked.plugin.resolve, probe))
        if type(plugin) is not type(stacked.plugin):
            raise PluginError(
                stacked.name, "resolve", f"returned type {type(plugin).__name__}; return the plugin"
            )
        resolved[index] = StackedPlugin(stacked.name, plugin)
        not_timed = tuple(
            f'the settings of plugin "{stacked.name}" were chosen without what could not be timed: '
            f"{settings}: {why_not}"
            for settings, why_not in probe.not_timed.items()
        )
        noted = tuple(f'plugin "{stacked.name}": {text}' for text in probe.notes)
        search_notes[stacked.name] = (*noted, *not_timed)
    return tuple(resolved), search_notes


def _with_resolved(job: Job, resolved: tuple[StackedPlugin, ...]) -> Job:
    """Return the job with the resolved plugins, and what they set of the runtime of a run.

    This process itself was started with what they set before, and a hook may read its environment:
    it is asked again only where there are other settings now.
    """
    before = [one.settings for one in job.plugins]
    if before == [one.settings for one in resolved]:
        return attrs.evolve(job, plugins=resolved)
    _, changes = configured_runtime(resolved, job.machine, job.recipe)
    return attrs.evolve(job, plugins=resolved, runtime_changes=changes)


def plan_of(
    stack: Stack,
    before: StackedPlugin,
    resolved: StackedPlugin,
    search_notes: tuple[str, ...],
) -> PluginPlan:
    """Return what a plugin of the stack changed, with its settings before and after `resolve`."""
    in_place = resolved.plugin.model_change == "in-place"
    changes = tuple(
        HookChange(change.hook, change.split, ("may change the model in place",))
        if in_place and change.hook == "wrap_model" and change.after is change.before
        else HookChange(change.hook, change.split, change.describe())
        for change in stack.changes(resolved.name)
    )
    return PluginPlan(
        name=resolved.name,
        settings=to_json(resolved.settings),
        asked=to_json(before.settings),
        equivalence=equivalence_of(resolved.name, resolved.plugin),
        summary=card(type(resolved.plugin))[0],
        changes=changes,
        search_notes=search_notes,
    )


def default_metric(workload: Workload, metrics: Sequence[str]) -> str:
    """Return the workload's metric of quality, or its training metric without validation data."""
    if isinstance(workload, FitWorkload):
        return judged_metric(metrics)
    metric = workload.quality_metric
    if metric not in metrics and metric.removeprefix("val_") in metrics:
        return metric.removeprefix("val_")
    return metric


def _metrics(built: Built) -> tuple[str, ...]:
    """Return the metrics that a finished epoch will report.

    :raises WorkloadError: if evaluating one batch fails.
    """
    if isinstance(built.workload, FitWorkload):
        return built.workload.reported_metrics(built)
    try:
        with built.stack.changes_noted():
            return _evaluated_metrics(built)
    except Exception as error:
        if hasattr(error, "__notes__"):  # a plugin may have caused it
            raise
        raise WorkloadError(f"evaluating one batch {describe(error)}") from error


def _evaluated_metrics(built: Built) -> tuple[str, ...]:
    """Return the names of the metrics of an epoch, by evaluating one batch.

    A name is known only once Keras has built the metric.
    """
    build_state(built)
    validation = "validation" in built.run.datasets
    data = built.run.datasets["validation" if validation else "train"]
    if isinstance(data, tf.data.Dataset):
        data = before_copy(data, lambda data: data.take(1))
        names = built.model.evaluate(data, return_dict=True, verbose=0)
    else:
        names = built.model.evaluate(data, steps=1, return_dict=True, verbose=0)
    if validation:
        names |= {f"val_{name}": value for name, value in names.items()}
    return tuple(with_data_loss(names, built.model))


def _validation_examples(plans: Mapping[str, DataPlan]) -> int | None:
    """Return how many validation examples there are, None if unknown."""
    plan = plans.get("validation")
    return None if plan is None or plan.source.batched else plan.examples


def versions() -> dict[str, str]:
    """Return the versions of Python and the libraries that a training depends on."""
    import platform

    import numpy
    import tensorflow

    return {
        "python": platform.python_version(),
        "tensorflow": tensorflow.__version__,
        "keras": keras.__version__,
        "numpy": numpy.__version__,
    }


def _warnings(workload: Workload, built: Built) -> tuple[str, ...]:
    warnings = []
    if workload.validation is None:
        of = f"fit {workload.call.number} has " if isinstance(workload, FitWorkload) else ""
        warnings.append(
            f"{of}no validation data: quality is judged by a metric of the training data"
        )
    cut = cut_in_words(built.job.recipe.workload)
    if isinstance(workload, FitWorkload) and cut is not None:
        warnings.append(cut)
    return tuple(warnings)


def estimates(workload: Workload, *jobs: Job) -> list[Estimate | None]:
    """Return about how long a training of each job takes, from steps that are timed in turns.

    :returns: None for each if the number of steps is unknown.
    :raises Exception: whatever the workload raises in a step of the only job, as in every run.
    :raises WorkloadError: if one of several cannot make a step, as it could not in a run.
    """
    begun = perf_counter()
    made = [build(jobs[0], workload)]
    building = perf_counter() - begun
    # before steps are timed, which use up what is read only once
    counted = made[0].run.steps_per_epoch or _counted(made[0])
    if counted is None:
        return [None for _ in jobs]

    def built_of(job: Job) -> Built:
        made.append(build(job, workload))
        return made[-1]

    further = [partial(built_of, job) for job in jobs[1:]]
    timed = time_steps([lambda: made[0], *further])
    for one in timed:
        if one.why_not:
            raise WorkloadError(f"timing some steps {one.why_not}")
    timed[0].set_up_seconds += building
    steps, epochs = _steps_per_epoch(made[-1], counted), made[-1].run.epochs
    found: list[Estimate | None] = []
    for one, of in zip(timed, made, strict=True):
        epoch = steps * one.step_seconds
        epoch += waiting_seconds(of, epoch)
        found.append(Estimate(epoch / steps, one.set_up_seconds + epochs * epoch, epochs * steps))
    return found


def without_stack(job: Job) -> Job:
    """Return the job without plugins."""
    return attrs.evolve(job, plugins=(), variant=BASELINE)


def _steps_per_epoch(built: Built, counted: int) -> float:
    """Return the training steps of an epoch, plus the validation's time in steps.

    :param counted: the steps without the stack, where those with it are unknown.
    """
    train = built.run.steps_per_epoch or counted
    validation = built.plans.get("validation")
    if validation is None or validation.examples is None or not built.run.batch_size:
        return float(train)
    return train + VALIDATION_SHARE * validation.examples / built.run.batch_size


def _counted(built: Built) -> int | None:
    """Return the steps of an epoch by reading one without the stack. None if that takes too long,
    or would use the data up."""
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
