"""Fused optimizer: large variables are updated by one kernel each, embeddings row by row."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import attrs
from attrs import validators

from tfopt_core.plugins import (
    Diagnosis,
    Effect,
    Plugin,
    RunContext,
    TrainingOptions,
    hookimpl,
    plugin,
    setting,
)
from tfopt_core.toolkit import keras, method_replaced, optimizers_of, tf, why_without
from tfopt_training.lr_schedule import inner
from tfopt_training.update_kernels import Kernels, Update, kernels_of


@attrs.define(eq=False)
class FusedUpdates:
    """How the variables of a model were updated when its step was traced.

    :param min_elements: of the variables whose update is replaced.
    :param whole: the names of those that one kernel updates.
    :param rows: the names of those that are updated by the rows of a gradient.
    :param reasons: why another variable keeps Keras' update, or an optimizer all of its, by name.
    """

    min_elements: int
    whole: dict[str, None] = attrs.field(factory=dict)
    rows: dict[str, None] = attrs.field(factory=dict)
    reasons: dict[str, str] = attrs.field(factory=dict)
    _zeros: dict[tuple[int, ...], Any] = attrs.field(factory=dict)

    @contextmanager
    def within(self, model: Any) -> Iterator[None]:
        """Replace the updates of the model's optimizers in this block, which traces a step."""
        compiled = bool(model.jit_compile)
        with ExitStack() as stack:
            for optimizer in map(inner, optimizers_of(model)):
                kernels = kernels_of(optimizer)
                if isinstance(kernels, str):
                    self.reasons[optimizer.name] = kernels
                else:
                    stack.enter_context(self._replaced(optimizer, kernels, compiled))
            yield

    @contextmanager
    def _replaced(self, optimizer: Any, kernels: Kernels, compiled: bool) -> Iterator[None]:
        own = optimizer.update_step

        def update_step(gradient: Any, variable: Any, learning_rate: Any) -> None:
            name = _name(optimizer, variable)
            by_rows = isinstance(gradient, tf.IndexedSlices)
            kernel = kernels.suited(by_rows, compiled)
            reason = kernel if isinstance(kernel, str) else why_own(variable, self.min_elements)
            if reason or isinstance(kernel, str):
                self.reasons[name] = reason
                own(gradient, variable, learning_rate)
                return
            (self.rows if by_rows else self.whole)[name] = None
            # cast as Keras casts them
            dtype = variable.dtype
            given = tf.cast(gradient, dtype), variable, keras.ops.cast(learning_rate, dtype)
            kernel(Update(optimizer, *given, self._zeros_for))

        with method_replaced(optimizer, "update_step", update_step):
            yield

    def _zeros_for(self, variable: Any) -> Any:
        """Return zeros of the shape of a variable, made once."""
        shape = tuple(variable.shape)
        if shape not in self._zeros:
            # not within the graph, which would fill them in every step
            with tf.init_scope():
                self._zeros[shape] = tf.zeros(shape)
        return self._zeros[shape]


def _name(optimizer: Any, variable: Any) -> str:
    known = optimizer._trainable_variables[optimizer._get_variable_index(variable)]
    return str(getattr(known, "path", variable.name))


def why_own(variable: Any, min_elements: int) -> str:
    """Return why a variable keeps Keras' update whatever the optimizer, "" if it need not."""
    if variable.dtype != tf.float32:
        return f"the kernels are for float32, not for {variable.dtype.name}"
    if math.prod(variable.shape) < min_elements:
        return f"fewer than {min_elements:,} elements"
    return ""


# How many variables or reasons a message names.
NAMED = 3


@plugin
class FusedOptimizer(Plugin):
    """Updates large variables by one kernel each, and embeddings by the rows of a batch.

    What it does: replaces the update of single variables in Adam, AdamW and SGD by TensorFlow's
    kernel, which makes it in one pass on all cores. Where a gradient is that of an embedding's
    rows, its rows are added to the optimizer's variables in place; RMSprop too. The optimizer, its
    variables, learning rate, weight decay, clipping, averages and loss scaling stay Keras' own.

    Why it helps: Keras updates by some ten operations, each of which reads and writes all of the
    variable, and makes the gradient of an embedding as large as the embedding, twice with Adam.
    Measured on two CPUs, as the time of a step without it over that with it: 1.64 (1.47 to 1.82)
    with an embedding of 30,000 words.

    When it does not: for variables of fewer elements than `min_elements`, which keep Keras' update:
    there a kernel's start on several threads costs more. Where XLA compiles the step, which fuses
    the update of a whole variable itself; a large embedding gains there too. Where the rest of a
    step takes most of it, steps become no faster or slower: 0.91 (0.76 to 1.09) in a Transformer of
    8,192 words, 0.78 (0.64 to 0.94) with compiled parts of each batch; between 0.96 (0.77 to 1.20)
    and 1.80 (1.27 to 2.55) in the recipe small-cnn. Not on a GPU and not over several replicas.
    Subclasses, other optimizers, amsgrad, centered RMSprop and one with momentum keep theirs, by
    name. Without XLA zeros of the size of each embedding are held.

    Mixes with: resident and chunked, split-batch, fused-recurrent, mixed-precision. As Keras does,
    Adam squares the gradients of a word that stands in a batch several times one by one. The kernel
    computes 1 - beta_2 in float32, so an update differs from Keras' by up to 7e-6 of it.

    Reference: https://www.tensorflow.org/api_docs/python/tf/raw_ops/ResourceApplyAdam
    """

    targets = ("compute",)
    # which makes a step of its own in place of the one that is wrapped
    after = ("gradient-accumulation",)
    equivalence = "rounding"  # the same update, computed in another order

    min_elements: int = setting(
        default=65_536,
        validator=validators.ge(1),
        help="Smaller variables keep Keras' update; at least 1.",
    )

    def suggest(self, diagnosis: Diagnosis) -> dict[str, Any] | None:
        """Worth it on a CPU, for an embedding or, without XLA, for any large variable."""
        if diagnosis.machine.gpus or diagnosis.trainable_parameters < self.min_elements:
            return None
        return {} if "Embedding" in diagnosis.layers or not diagnosis.jit_compile else None

    @hookimpl
    def configure_training(
        self, run: RunContext, model: Any, options: TrainingOptions
    ) -> TrainingOptions:
        """Wrap the train step."""
        state = run.state_of(self)
        state["reason"] = _why_not(run)
        if state["reason"]:
            return options
        updates = state["updates"] = FusedUpdates(self.min_elements)

        def wrapped(train_step: Callable[..., Any]) -> Callable[..., Any]:
            def step(data: Any) -> Any:
                with updates.within(model):
                    return train_step(data)

            return step

        return options.with_wrapped_step(wrapped)

    @hookimpl
    def report_effect(self, run: RunContext) -> Effect:
        """Read back which variables were updated how in the step that was traced."""
        state = run.state_of(self)
        if state["reason"]:
            return Effect.not_applied(state["reason"])
        updates: FusedUpdates = state["updates"]
        left = _grouped(updates.reasons)
        done = [
            f"{how} {_listed(list(names))}"
            for how, names in (("one kernel updates", updates.whole), ("rows of", updates.rows))
            if names
        ]
        if not done:
            return Effect.not_applied(left or "no train step that was traced makes an update")
        return Effect.applied_as("; ".join(done) + (f"; left alone: {left}" if left else ""))

    def by_hand(self) -> str:
        """The same in plain code."""
        return "# updates of variables are replaced while the step is traced: only tfopt does it"


def _why_not(run: RunContext) -> str:
    if run.replicas > 1:
        return f"the updates are those of {run.replicas} replicas, which Keras makes together"
    if run.cluster is not None:  # one replica with parameter servers, whose variables are remote
        return "it was not tried with variables that several processes share"
    if run.machine.gpus:
        return "it was measured on CPUs alone"
    return why_without("optimizer-slots")


def _grouped(reasons: Mapping[str, str]) -> str:
    """Return the reasons in words, each with the names that it is for."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in reasons.items():
        by_reason.setdefault(reason, []).append(name)
    return "; ".join(f"{_listed(names)}: {reason}" for reason, names in by_reason.items())


def _listed(names: list[str]) -> str:
    quoted = ", ".join(f'"{name}"' for name in names[:NAMED])
    more = len(names) - NAMED
    return f"{quoted} and {more} more" if more > 0 else quoted
