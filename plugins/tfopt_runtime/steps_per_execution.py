"""Steps per execution: several training steps in one call from Python."""

from __future__ import annotations

from typing import Any, Literal

import attrs

from tfopt_core.plugins import (
    Diagnosis,
    Effect,
    Plugin,
    Probe,
    RunContext,
    TrainingOptions,
    hookimpl,
    plugin,
)
from tfopt_core.toolkit import loop_report, number_or
from tfopt_runtime.loops import (
    LEAST_GAIN,
    candidates,
    computes_for_seconds,
    made_in_words,
    smallest_good,
    why_not,
)


@plugin
class StepsPerExecution(Plugin):
    """Runs several training steps in one call from Python.

    What it does: sets Keras' steps_per_execution; auto times 1, 4, 16 and 64 in turns, and takes
    the fewest whose steps are at most 3 % slower than the fastest.

    Why it helps: starting a step from Python costs about half a millisecond, which small models
    spend mostly waiting.

    When it does not: large models, whose steps take tens of milliseconds. A callback that acts on
    every batch would be called every so many steps only: then nothing is changed.

    Mixes with: xla, prefetch; over replicas (mirrored, multi-worker), where Keras itself fails with
    several steps a call, tfopt's loop makes them, if the number of steps in an epoch is known.
    Progress is shown every so many steps. On one device the plugin chunked does the same in a
    leaner loop, and lets XLA compile it as a whole.

    Reference: https://keras.io/api/models/model_training_apis/#compile-method
    """

    targets = ("dispatch",)
    conflicts = ("chunked", "resident")
    equivalence = "exact"  # the same steps

    steps: int | Literal["auto"] = number_or(
        "auto", "Training steps in one call, at least 1; auto times 1, 4, 16 and 64."
    )

    def suggest(self, diagnosis: Diagnosis) -> dict[str, Any] | None:
        """Worth it where steps wait to be started from Python."""
        if diagnosis.batch_callbacks or diagnosis.bound(self.targets) < 1 + LEAST_GAIN:
            return None
        if computes_for_seconds(diagnosis):
            return None
        return {}

    def resolve(self, probe: Probe) -> StepsPerExecution:
        """Time some numbers of steps, in turns."""
        if self.steps != "auto":
            return self
        sizes = candidates(probe.steps_per_epoch)
        seconds = probe.step_seconds([attrs.evolve(self, steps=steps) for steps in sizes])
        return attrs.evolve(self, steps=smallest_good(dict(zip(sizes, seconds, strict=True))))

    @hookimpl
    def configure_training(self, run: RunContext, options: TrainingOptions) -> TrainingOptions:
        """Set the steps, unless a callback acts on every batch."""
        # over replicas too: their loop makes as many steps a call
        reason = run.state_of(self)["reason"] = why_not(1, options.callbacks)
        if reason or self.steps == "auto":
            return options
        return attrs.evolve(options, steps_per_execution=self.steps)

    @hookimpl
    def report_effect(self, run: RunContext, model: Any) -> Effect:
        """Read the steps back from the loop that trained the model."""
        report = loop_report(model)
        reason = run.state_of(self).get("reason") or report.why_not
        if reason:
            return Effect.not_applied(reason)
        if report.kind == "distributed" and report.steps_per_call == 1:
            return Effect.not_applied(
                "the number of steps in an epoch is unknown, for which the loop over replicas "
                "makes single steps"
            )
        if report.steps_per_call == model.steps_per_execution:
            return Effect.not_applied("the model makes as many steps a call without it")
        if report.kind == "distributed":
            return Effect.applied_as(made_in_words(report))
        return Effect.applied_as(f"{report.steps_per_call} steps a call")

    def by_hand(self) -> str:
        """The same in plain code."""
        steps = 16 if isinstance(self.steps, str) else self.steps
        return f"model.compile(optimizer, loss, steps_per_execution={steps})"
