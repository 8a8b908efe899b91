"""Gradient accumulation: a batch is computed in parts, whose gradients make one update."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

from attrs import validators

from tfopt_core.plugins import (
    Effect,
    Plugin,
    RunContext,
    TrainingOptions,
    hookimpl,
    plugin,
    setting,
)
from tfopt_training.batch_parts import in_parts

# Why the step that was last traced for a model was left as it is, or "": a second fit of the model
# reuses its train function, and traces nothing.
_TRACED: WeakKeyDictionary[Any, str] = WeakKeyDictionary()


@plugin
class GradientAccumulation(Plugin):
    """Computes each batch in parts, one after another, and updates the weights once.

    What it does: divides every training batch into `steps` parts, computes their gradients one
    after another, and applies their mean, weighted by examples. Batches, updates, learning rate
    and callbacks stay as they are: the training is that of the whole batch, but for rounding.
    With `steps = 8` a batch of 128 takes the activations of 16.

    Why it helps: a step holds the activations of one part only, so a batch trains that does not
    fit into memory as a whole.

    When it does not: where memory is not short: smaller parts keep a processor less busy. Weights,
    the optimizer's state and the data take what they took, and one more copy of the gradients. Not
    applied where parts are not the batch: with batch normalization that trains, masked outputs, a
    loss that is no mean over examples, state that changes in each step, and a train_step of the
    model's own; each is named. Dropout draws for each part. Other layers and losses in which the
    examples of a batch meet, and sums over them that call() adds, are not noticed.

    Mixes with: mixed-precision, xla, rematerialize, fit-batch. Not over several replicas. Keras'
    own gradient_accumulation_steps is another training: it leaves the batches as they are and
    updates once in so many of them.

    Reference: Huang et al., GPipe (its micro-batches), https://arxiv.org/abs/1811.06965
    """

    targets = ("memory",)
    equivalence = "rounding"  # the same sum over the batch, taken in parts

    steps: int = setting(
        default=4,
        validator=validators.ge(2),
        help="Into how many parts a batch is divided, at least 2.",
        search=[2, 4, 8],
    )

    @hookimpl
    def configure_training(
        self, run: RunContext, model: Any, options: TrainingOptions
    ) -> TrainingOptions:
        """Divide the step, where there is one replica."""
        state = run.state_of(self)
        if run.replicas > 1:
            state["reason"] = f"each of {run.replicas} replicas computes its part already"
            return options

        def note(reason: str) -> None:
            _TRACED[model] = reason

        return options.with_wrapped_step(lambda step: in_parts(step, model, self.steps, note))

    @hookimpl
    def report_effect(self, run: RunContext, model: Any) -> Effect:
        """Report what the trace of the step came to, in this fit or an earlier one of the model."""
        traced = _TRACED.get(model, "no training step was traced")
        reason = run.state_of(self).get("reason", traced)
        if reason:
            return Effect.not_applied(reason)
        size = "" if run.batch_size is None else f" of {-(-run.batch_size // self.steps)} examples"
        return Effect.applied_as(f"one update from {self.steps} parts{size}")

    def by_hand(self) -> str:
        """The same in plain code."""
        return (
            "# Keras' own accumulates over batches, so these are made smaller\n"
            f"train = train.rebatch(batch_size // {self.steps})\n"
            f"optimizer.gradient_accumulation_steps = {self.steps}  # before `compile`"
        )
