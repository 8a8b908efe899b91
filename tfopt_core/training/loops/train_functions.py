"""Make the train function of a stack's loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tfopt_core.errors import PluginRefused
from tfopt_core.lazy import keras
from tfopt_core.private_api import why_without
from tfopt_core.training.build import Built
from tfopt_core.training.callbacks import batch_callbacks
from tfopt_core.training.loops.chunked import ChunkedFunction
from tfopt_core.training.loops.graph_steps import PassEnd, TracedSteps
from tfopt_core.training.loops.report import Loop, LoopReport, continued, note_loop
from tfopt_core.training.loops.resident import ResidentFunction
from tfopt_core.training.loops.resident_data import resident_data, why_not_resident
from tfopt_core.training.model.layers import runs_eagerly

# A model that overrides these methods counts its steps differently, or makes other functions.
OWN_METHODS = ("fit", "make_train_function")

TrainFunction = ChunkedFunction | ResidentFunction


def loop_function(
    built: Built, traced: TracedSteps, ends: PassEnd, before: ChunkedFunction | None = None
) -> TrainFunction | None:
    """Return a new train function of the stack's loop; None for Keras' own.

    Where the stack's loop cannot train, for the reason in `loop_report(model).why_not`, one with
    Keras' own number of steps does: it calls the steps that other fits of the model have traced.

    :param traced: the steps of the model.
    :param ends: what it does at the end of the data in this fit.
    :param before: the one that an earlier fit of the model has traced.
    """
    if not _asks_for_a_loop(built) and not traced.used:
        return None
    reason, own = why_no_loop(built), _why_keras_itself(built)
    if own or (built.keeps_step and not traced.used):
        note_loop(built.model, LoopReport(why_not=reason))
        return None
    function: TrainFunction = before or made_function(built, loop_of(built), traced)
    function.ends = ends
    function.report.why_not = reason
    if isinstance(function, ResidentFunction):
        function.reads_order = function.data.passes is not None
    function.report = continued(built.model, function.report)
    return function


def _asks_for_a_loop(built: Built) -> bool:
    training, replicas = built.training, built.run.replicas
    if training.loop == "keras" and replicas > 1 and built.workload.own_strategy is None:
        return False  # the loop over replicas makes as many steps a call
    own = built.model.steps_per_execution
    return training.loop != "keras" or training.steps_per_execution != own


def loop_of(built: Built) -> Loop:
    """Return the loop that trains: the stack's, or Keras' own where the stack's cannot."""
    training, jit_compile = built.training, bool(built.model.jit_compile)
    if why_no_loop(built):
        return Loop(built.model.steps_per_execution, jit_compile)
    return Loop(training.steps_per_execution, jit_compile, training.loop)


def made_function(built: Built, loop: Loop, traced: TracedSteps | None = None) -> TrainFunction:
    """Return a train function of this loop.

    :param traced: the steps of the model; None to trace them anew.
    """
    traced = traced or TracedSteps(built.model)
    if loop.kind != "resident":
        return ChunkedFunction(traced, loop, built.plans["train"].batch_size)
    lowered = built.run.datasets["train"]
    draws = built.shuffle_draws
    drawn = None if draws is None else draws.counter(lowered)
    data = resident_data(built.plans["train"], lowered, drawn)
    weight = built.workload.class_weight
    try:
        return ResidentFunction(traced, data, loop, weight)
    except PluginRefused as refusal:
        raise named_by_loop(built, refusal) from refusal


def named_by_loop(built: Built, refusal: PluginRefused) -> PluginRefused:
    """Return the refusal in the name of the plugin that asks for the loop; of the last of the stack
    where none changes what this fit has."""
    by = [one.name for one in built.stack.plugins] + [
        one.plugin
        for one in built.stack.all_changes
        if one.hook == "configure_training"
        and (one.before.loop, one.before.steps_per_execution)
        != (one.after.loop, one.after.steps_per_execution)
    ]
    return refusal.named(by[-1])


def keras_function(built: Built, jit_compile: bool) -> Callable[..., Any]:
    """Return Keras' own train function with XLA or without, leaving the model's settings unchanged.

    The function reads `model.steps_per_execution` while it is traced, in its first call.
    """
    model = built.model
    before = model.train_function, model.jit_compile
    try:
        model.jit_compile = jit_compile
        type(model).make_train_function(model, force=True)
        function: Callable[..., Any] = model.train_function
    finally:
        model.train_function, model.jit_compile = before
    return function


def why_no_loop(built: Built) -> str:
    """Return why Keras' own number of steps a call trains in the place of the stack's loop; empty
    if the stack asks for no other, or has it."""
    if not _asks_for_a_loop(built):
        return ""
    reason = _why_keras_itself(built)
    if reason:
        return reason
    if built.keeps_step:
        return f"an earlier fit has traced the step for Keras' own loop, {built.keeps_step}"
    training, own = built.training, built.model.steps_per_execution
    if training.steps_per_execution > 1:
        names = batch_callbacks(training.callbacks)
        if names:
            return f"the callback {names[0]} acts on every batch"
    if built.batches.get("train") is None:
        if own > 1 and built.steps_given:
            return (
                f"the model is compiled with {own} steps a call, and the number of batches is "
                "unknown: the epochs of Keras' own loop have other steps there"
            )
        if why_without("unknown-counts"):
            return why_without("unknown-counts")
    if training.loop != "resident":
        return ""
    if built.workload.class_weight is not None and why_without("class-weights"):
        return why_without("class-weights")
    if built.workload.own_strategy is not None:
        # Keras takes a batch before each fit, and iterators are made that nothing counts
        return "the script trains within a strategy of its own"
    return why_not_resident(built.plans["train"])


def _why_keras_itself(built: Built) -> str:
    """Return why only Keras' own train function can train the model; empty if others can."""
    model, replicas = built.model, built.run.replicas
    made_by = getattr(model.train_function, "__module__", "").partition(".")[0]
    if model.train_function is not None and made_by not in ("keras", "tfopt_core"):
        return "the model has a train function of its own"
    if runs_eagerly(model):
        return "the model runs eagerly"
    if built.workload.own_strategy is not None and model.jit_compile:
        # within it XLA draws other random numbers in Keras' own function
        return "XLA compiles the step within a strategy of the script's own"
    for name in OWN_METHODS:
        if getattr(type(model), name) is not getattr(keras.Model, name) or name in vars(model):
            return f"the model has a {name} of its own"
    return "" if replicas == 1 else over_replicas(replicas)


def over_replicas(replicas: int) -> str:
    """Return why no loop of one device trains over replicas."""
    return f"its loop is for one device, and the training has {replicas} replicas"
