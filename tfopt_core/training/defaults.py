"""The values of a workload that no plugin changes: the baseline trains with them."""

from __future__ import annotations

import contextlib
import inspect
from typing import Any

from tfopt_core.data import DataPlan
from tfopt_core.errors import WorkloadError, describe
from tfopt_core.hooks.values import TrainingOptions
from tfopt_core.lazy import keras
from tfopt_core.training.input.sources import as_plan, batched_plan
from tfopt_core.training.job import Job
from tfopt_core.training.workload import Workload


def baseline_plans(job: Job, workload: Workload) -> dict[str, DataPlan]:
    """Return the workload's data by split, shuffled and batched: what the baseline trains on."""
    data = {"train": workload.train, "validation": workload.validation}
    size = job.recipe.workload.batch_size
    return {
        split: batched_plan(
            as_plan(given, split), split, batch_size=size or workload.batch_size,
            explicit=size is not None, shuffle=workload.shuffle, seed=job.seed,
        )
        for split, given in data.items() if split == "train" or given is not None
    }  # fmt: skip


def default_model(workload: Workload) -> Any:
    """Return the workload's model.

    :raises WorkloadError: if building it raises or returns something else.
    """
    try:
        model = workload.build_model()
    except Exception as error:
        raise WorkloadError(f"build_model {describe(error)}") from error
    if not isinstance(model, keras.Model):
        raise WorkloadError(
            f"build_model returned type {type(model).__name__}; return a keras.Model"
        )
    return model


def default_options(workload: Workload) -> TrainingOptions:
    """Return the workload's arguments of `compile`, with Keras' defaults for the rest."""
    return TrainingOptions(
        optimizer=rebuilt(workload.optimizer),
        loss=workload.loss,
        metrics=[rebuilt(metric) for metric in workload.metrics],
        weighted_metrics=[rebuilt(metric) for metric in workload.weighted_metrics],
        loss_weights=workload.loss_weights,
        callbacks=workload.callbacks(),
    )


def rebuilt(part: Any) -> Any:
    """Return the optimizer or metric with its variables in the scope that is active now.

    A function that makes one is called. An instance was built outside of the strategy's scope,
    where the factory ran, so it is built again from its configuration. Of a list, the metrics of
    one output, each is.
    """
    if isinstance(part, list | tuple):
        return [rebuilt(one) for one in part]
    if isinstance(part, keras.optimizers.Optimizer | keras.metrics.Metric):
        return type(part).from_config(part.get_config())
    made = made_by(part) if callable(part) else None
    return part if made is None else made


def made_by(function: Any) -> Any:
    """Return the optimizer or metric that a function or class makes when it is called without
    arguments; None for a metric function, which takes y_true and y_pred, maybe with defaults."""
    try:
        signature = inspect.signature(function)
        signature.bind()
    except (TypeError, ValueError):
        return None
    try:
        signature.bind(None, None)
    except TypeError:  # too few arguments for a metric function
        return function()
    with contextlib.suppress(Exception):  # a metric function may fail without its arguments
        made = function()
        if isinstance(made, str | keras.optimizers.Optimizer | keras.metrics.Metric):
            return made
    return None
