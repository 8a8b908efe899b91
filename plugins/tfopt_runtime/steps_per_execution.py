"""Steps per execution: several training steps in one call from Python."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, ClassVar, Literal

import attrs
from attrs import field

from tfopt_core import Effect, Probe, RunContext, TrainingOptions, hookimpl
from tfopt_core.training.callbacks import batch_callbacks

LARGEST = 64
# A smaller gain is not worth the coarser callbacks, and drowns in the noise of a short probe.
LEAST_GAIN = 0.03


def choose_steps(step_seconds: Callable[[int], float], steps_per_epoch: int | None) -> int:
    """The power of two after which the next one gains less than 3 % a step.

    :param step_seconds: seconds of a step with so many steps a call.
    :param steps_per_epoch: no more steps than that are put into one call; None for unknown.
    """
    largest = min(LARGEST, steps_per_epoch or LARGEST)
    best, seconds = 1, step_seconds(1)
    while best * 2 <= largest:
        faster = step_seconds(best * 2)
        if faster > seconds * (1 - LEAST_GAIN):
            break
        best, seconds = best * 2, faster
    return best


def why_not(replicas: int, callbacks: Sequence[Any]) -> str:
    """Why the steps are left alone, "" if they are not."""
    if replicas > 1:
        # TF 2.21 and Keras 3.15 raise InvalidArgumentError in the first call
        return f"Keras cannot run several steps a call over {replicas} replicas"
    names = batch_callbacks(callbacks)
    return f"the callback {names[0]} acts on every batch" if names else ""


def _positive_or_auto(_: Any, __: Any, value: Any) -> None:
    if value != "auto" and value < 1:
        raise ValueError(f'steps must be at least 1 or "auto", got {value}')


@attrs.frozen(kw_only=True, eq=False)
class StepsPerExecution:
    """Runs several training steps in one call from Python.

    What it does: sets Keras' steps_per_execution; auto tries 1, 2, 4, ... up to 64 and stops where
    the next gains less than 3 %.

    Why it helps: starting a step from Python costs about half a millisecond, which small models
    spend mostly waiting.

    When it does not: large models, whose steps take tens of milliseconds. A callback that acts on
    every batch would be called every so many steps only: then nothing is changed.

    Mixes with: xla, prefetch. Not with mirrored: Keras fails there, so nothing is changed. Progress
    is shown every so many steps.

    Reference: https://keras.io/api/models/model_training_apis/#compile-method
    """

    targets: ClassVar[tuple[str, ...]] = ("dispatch",)
    role: ClassVar[str] = "optimization"
    model_change: ClassVar[str] = "none"
    requires: ClassVar[tuple[str, ...]] = ()
    conflicts: ClassVar[tuple[str, ...]] = ()
    before: ClassVar[tuple[str, ...]] = ()
    after: ClassVar[tuple[str, ...]] = ()

    steps: int | Literal["auto"] = field(
        default="auto",
        validator=_positive_or_auto,
        metadata={
            "help": "Training steps in one call, at least 1; auto times powers of two up to 64."
        },
    )

    def math(self) -> Literal["exact"]:
        """The same steps."""
        return "exact"

    def resolve(self, probe: Probe) -> StepsPerExecution:
        """Time powers of two."""
        if self.steps != "auto":
            return self

        def step_seconds(steps: int) -> float:
            return probe.step_seconds(attrs.evolve(self, steps=steps))

        return attrs.evolve(self, steps=choose_steps(step_seconds, probe.steps_per_epoch))

    @hookimpl(wrapper=True)
    def configure_training(
        self, run: RunContext
    ) -> Generator[None, TrainingOptions, TrainingOptions]:
        """Set the steps, unless a callback acts on every batch or there are replicas."""
        options = yield
        reason = run.state["reason"] = why_not(run.replicas, options.callbacks)
        if reason or self.steps == "auto":
            return options
        return attrs.evolve(options, steps_per_execution=self.steps)

    @hookimpl
    def report_effect(self, run: RunContext, model: Any) -> Effect:
        """Read the steps back from the model."""
        if run.state.get("reason"):
            return Effect.not_applied(run.state["reason"])
        if model.steps_per_execution == 1:
            return Effect.not_applied("1 step a call, as without it")
        return Effect.applied_as(f"{model.steps_per_execution} steps a call")
