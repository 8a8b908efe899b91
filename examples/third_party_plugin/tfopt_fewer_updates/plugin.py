"""Fewer updates: the gradients of several batches make one."""

from __future__ import annotations

from typing import Any

import attrs
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


def with_accumulation(options: TrainingOptions, steps: int) -> TrainingOptions:
    """The options with an update every so many steps, unless the optimizer accumulates already."""
    if accumulated(options.optimizer) is not None:
        return options
    return attrs.evolve(options, gradient_accumulation_steps=steps)


def accumulated(optimizer: Any) -> int | None:
    """Over how many steps an optimizer accumulates; None if it does not."""
    # dynamic loss scaling puts an optimizer around the one that updates the weights
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    steps: int | None = getattr(inner, "gradient_accumulation_steps", None)
    return steps


@plugin
class FewerUpdates(Plugin):
    """Averages the gradients of several batches before the weights are updated.

    What it does: sets Keras' gradient_accumulation_steps, so an update sees as many examples as
    `steps` batches hold, while memory holds one batch.

    Why it helps: a batch size that was found to train well no longer has to fit into memory; and
    an optimizer whose update is expensive runs less often.

    When it does not: where the large batch fits into memory, take that: it is faster. Batch
    normalization still sees the small batches. Fewer updates an epoch often need a higher learning
    rate, so a target can be reached later.

    Mixes with: mixed-precision, xla. An optimizer that accumulates already is left alone. tfopt's
    own gradient-accumulation divides each batch instead, and leaves the training as it is.

    Reference: https://keras.io/api/optimizers/
    """

    targets = ("memory",)
    equivalence = "changes"  # fewer updates, each over more examples: another training algorithm

    steps: int = setting(
        default=4,
        validator=validators.ge(2),
        help="Batches whose gradients make one update, at least 2.",
    )

    @hookimpl
    def configure_training(self, run: RunContext, options: TrainingOptions) -> TrainingOptions:
        """Have the optimizer accumulate."""
        run.state_of(self)["own"] = accumulated(options.optimizer)
        return with_accumulation(options, self.steps)

    @hookimpl
    def report_effect(self, run: RunContext, model: Any) -> Effect:
        """Read back over how many steps the compiled model's optimizer accumulates."""
        if run.state_of(self)["own"] is not None:
            return Effect.not_applied(
                f"the workload's optimizer accumulates {run.state_of(self)['own']} steps itself"
            )
        found = accumulated(model.optimizer)
        if found != self.steps:
            return Effect.not_applied(f"the optimizer accumulates {found} steps")
        return Effect.applied_as(f"one update every {found} steps")

    def by_hand(self) -> str:
        """Return the line that does the same in plain Keras."""
        return f"optimizer.gradient_accumulation_steps = {self.steps}  # before `compile`"
