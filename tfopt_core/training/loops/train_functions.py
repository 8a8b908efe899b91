"""Make the train function of a stack's loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tfopt_core.private_api import why_without
from tfopt_core.training.build import Built
from tfopt_core.training.callbacks import EVERY_BATCH, batch_callbacks
from tfopt_core.training.loops.chunked import ChunkedFunction
from tfopt_core.training.loops.exact_loops import Loop
from tfopt_core.training.loops.report import LoopReport, continued, note_loop
from tfopt_core.training.loops.resident import (
    ResidentFunction,
    resident_data,
    why_not_resident,
)

# A model that overrides these methods counts its steps differently, or makes other functions.
OWN_METHODS = ("fit", "make_train_function")

TrainFunction = ChunkedFunction | ResidentFunction


def loop_function(built: Built, before: ChunkedFunction | None = None) -> TrainFunction | None:
    """Return a new train function of the stack's loop; None for Keras' own.

    Keras' own loop also trains where the stack's cannot; `loop_report(model).why_not` says why.

    :param before: the one that an earlier fit of the model has traced.
    """
    if built.training.loop == "keras":
        return None
    reason = why_no_loop(built)
    if reason:
        note_loop(built.model, LoopReport(why_not=reason))
        return None
    if before is not None:
        before.report = continued(built.model, before.report)
        return before
    function = made_function(built, loop_of(built))
    function.report = continued(built.model, function.report)
    return function


def loop_of(built: Built) -> Loop:
    """Return the loop that trains: the stack's, or Keras' own where the stack's cannot."""
    training, jit_compile = built.training, bool(built.model.jit_compile)
    if training.loop == "keras":
        return Loop(training.steps_per_execution, jit_compile)
    if why_no_loop(built):
        return Loop(1, jit_compile)
    return Loop(training.steps_per_execution, jit_compile, training.loop)


def made_function(built: Built, loop: Loop) -> TrainFunction:
    """Return a train function of this chunked or resident loop."""
    if loop.kind == "chunked":
        size = built.plans["train"].batch_size
        return ChunkedFunction(built.model, loop.steps, loop.jit_compile, size)
    data = resident_data(
        built.plans["train"],
        built.run.datasets["train"],
        reads_before_fit=reads_before_fit(built.model),
    )
    return ResidentFunction(
        built.model, data, loop.steps, loop.jit_compile, built.workload.class_weight
    )


def reads_before_fit(model: Any) -> bool:
    """Return whether Keras takes a batch before each `fit` and validation, as under a strategy."""
    if why_without("own-strategy") or "_maybe_symbolic_build" in vars(model):
        return False
    return model._distribute_strategy is not None


def keras_function(built: Built, jit_compile: bool) -> Callable[..., Any]:
    """Return Keras' own train function with XLA or without, leaving the model's settings unchanged.

    The function reads `model.steps_per_execution` while it is traced, in its first call.
    """
    model = built.model
    before = model.train_function, model.jit_compile
    try:
        model.jit_compile = jit_compile
        model.make_train_function(force=True)
        function: Callable[..., Any] = model.train_function
    finally:
        model.train_function, model.jit_compile = before
    return function


def count_by(model: Any, steps: int) -> None:
    """Make `fit` and `evaluate` count this many steps a call from now on."""
    if model.steps_per_execution != steps:
        model.steps_per_execution = steps
        # functions traced with the former number would skip batches without an error
        model.test_function = model.predict_function = None


def why_no_loop(built: Built) -> str:
    """Return why the stack's loop cannot train this model; empty if it can."""
    reason = why_only_keras(built.model, built.run.replicas)
    if reason:
        return reason
    if built.training.steps_per_execution > 1:
        names = batch_callbacks(built.training.callbacks, EVERY_BATCH)
        if names:
            return f"the callback {names[0]} acts on every batch"
    if built.training.loop != "resident":
        return ""
    if built.workload.class_weight is not None and why_without("class-weights"):
        return why_without("class-weights")
    return why_not_resident(built.plans["train"])


def why_only_keras(model: Any, replicas: int) -> str:
    """Return why no other loop can train the model than its own; empty if others can."""
    import keras

    if model.run_eagerly:
        return "the model runs eagerly"
    for name in OWN_METHODS:
        if getattr(type(model), name) is not getattr(keras.Model, name) or name in vars(model):
            return f"the model has a {name} of its own"
    return "" if replicas == 1 else over_replicas(replicas)


def over_replicas(replicas: int) -> str:
    """Return why no loop of one device trains over replicas."""
    return (
        f"over {replicas} replicas another loop trains, which steps_per_execution gives its steps "
        "a call and which XLA cannot compile"
    )
