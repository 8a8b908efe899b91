"""Make single calls of a loop that trains, whatever its kind, to be timed from outside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tfopt_core.data.lower import lower_stages
from tfopt_core.training.build import Built
from tfopt_core.training.distributed.distribution import Synchronous, distribution_of
from tfopt_core.training.loops.exact_loops import Loop
from tfopt_core.training.loops.resident import ResidentFunction
from tfopt_core.training.loops.train_functions import keras_function, made_function


def keras_or_chunked_calls(built: Built, loop: Loop, iterator: Any) -> Callable[[], int]:
    """Return a function that makes one call of this loop and returns its number of steps."""
    if loop.kind == "keras":
        function = keras_function(built, loop.jit_compile)
        attributes = vars(built.model)

        def call_keras() -> int:
            # Keras reads this when it traces; setting it as an attribute of a layer is slow
            before, attributes["steps_per_execution"] = built.model.steps_per_execution, loop.steps
            function(iterator)
            attributes["steps_per_execution"] = before
            return loop.steps

        return call_keras
    function = made_function(built, loop)

    def call_chunked() -> int:
        function(iterator)
        return function.report.last_call

    return call_chunked


def growing_resident(built: Built, loop: Loop) -> ResidentFunction:
    """Return the train function of a resident loop, with one step a call at first."""
    function = made_function(built, loop)
    assert isinstance(function, ResidentFunction)
    function.steps = 1
    return function


def resident_calls(function: ResidentFunction) -> Callable[[], int]:
    """Return a function that makes one call over data on the device and returns its steps."""
    epoch = _an_iterator()

    def call_resident() -> int:
        nonlocal epoch
        try:
            function(epoch)
        except StopIteration:
            epoch = _an_iterator()
            function(epoch)
        return function.report.last_call

    return call_resident


def replicas_of(built: Built) -> Synchronous | None:
    """Return the distribution among replicas, now in effect; None for one device.

    It is not undone, since the model is thrown away after the timing.
    """
    distribution = distribution_of(built)
    if not isinstance(distribution, Synchronous):
        return None
    distribution.install()
    return distribution


def replica_calls(shared: Synchronous, loop: Loop, iterator: Any) -> Callable[[], int]:
    """Return a function that makes one call over all replicas and returns its steps.

    :raises ValueError: for a loop that does not train over replicas.
    """
    if loop.kind != "keras" or loop.jit_compile:
        raise ValueError(f"{loop.name}: not over several replicas")
    function = shared.endless_function(loop.steps)

    def call() -> int:
        function(iterator)
        return loop.steps

    return call


def _an_iterator() -> Any:
    """Return a new iterator: a resident loop begins an epoch with it, and takes nothing from it."""
    import tensorflow as tf

    return iter(tf.data.Dataset.range(1))


def endless_data(built: Built, shared: Synchronous | None) -> Any:
    """Return an endless iterator over the training data, which all loops share."""
    import tensorflow as tf

    if shared is not None:
        return iter(shared.data("train", endless=True))
    dataset = built.run.datasets["train"]
    if not isinstance(dataset, tf.data.Dataset):  # a PyDataset, read one batch after another
        dataset = lower_stages(built.plans["train"].stages)
    with built.run.strategy.scope():
        return iter(built.run.strategy.experimental_distribute_dataset(dataset.repeat()))
