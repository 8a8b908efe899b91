"""Target stop: the training ends once a metric is good enough."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import validators

from tfopt_core.plugins import Control, Effect, Plugin, RunContext, hookimpl, plugin, setting


@plugin
class TargetStop(Plugin):
    """Ends the training once a metric has reached its target.

    What it does: after each epoch compares a metric with at_least or at_most, and stops the
    training when it has held for some epochs in a row.

    Why it helps: epochs after the target are not trained at all.

    When it does not: where the target is never reached, or in the last epoch only. A noisy metric
    may touch its target by luck: raise patience.

    Mixes with: lr-schedule, though a schedule planned for all epochs is then cut short. The
    recipe's measure.target compares both trainings by their time to the target.

    Reference: Mattson et al., MLPerf Training Benchmark, https://arxiv.org/abs/1910.01500
    """

    targets = ("convergence",)
    equivalence = "changes"  # fewer epochs are trained

    metric: str = setting(
        validator=validators.min_len(1),
        help="The metric of a finished epoch that is compared, as val_accuracy.",
    )
    at_least: float | None = setting(
        default=None, help="The target of a metric that rises, in the metric's own unit."
    )
    at_most: float | None = setting(
        default=None, help="The target of a metric that falls, in the metric's own unit."
    )
    patience: int = setting(
        default=1,
        validator=validators.ge(1),
        help="Epochs in a row that must reach the target, at least 1.",
    )

    def __attrs_post_init__(self) -> None:
        if (self.at_least is None) == (self.at_most is None):
            raise ValueError("set exactly one of at_least and at_most")

    def reached(self, value: float) -> bool:
        """Whether a value of the metric meets the target; nan never does."""
        if self.at_least is not None:
            return value >= self.at_least
        assert self.at_most is not None
        return value <= self.at_most

    @hookimpl
    def on_epoch_end(
        self, run: RunContext, epoch: int, logs: Mapping[str, float], control: Control
    ) -> None:
        """Count the epochs in a row that reach the target, and stop after enough of them.

        :raises ValueError: if there is no such metric.
        """
        value, state = run.metric_in(logs, self.metric), run.state_of(self)
        if value is None:
            return
        better = max if self.at_least is not None else min
        if value == value:  # nan is never the best
            state["best"] = better(state.get("best", value), value)
        state["streak"] = state.get("streak", 0) + 1 if self.reached(value) else 0
        state["epochs"] = epoch + 1
        if state["streak"] >= self.patience and epoch + 1 < run.epochs:
            control.stop(f"{self.metric} {self._target} was reached: {value:.6g}")
            state["stopped"] = value

    @hookimpl
    def report_effect(self, run: RunContext, model: Any) -> Effect:
        """Say after which epoch the training was stopped, or how close it came."""
        state = run.state_of(self)
        if "stopped" in state:
            return Effect.applied_as(
                f"stopped after epoch {state['epochs']} of {run.epochs}: "
                f"{self.metric} was {state['stopped']:.6g}"
            )
        if state.get("streak", 0) >= self.patience:
            return Effect.not_applied(f"{self.metric} {self._target} was reached in the last epoch")
        best = f"{state['best']:.6g}" if "best" in state else "no number"
        return Effect.not_applied(
            f"{self.metric} {self._target} was never reached; best was {best}"
        )

    @property
    def _target(self) -> str:
        if self.at_least is not None:
            return f">= {self.at_least:g}"
        return f"<= {self.at_most:g}"

    def by_hand(self) -> str:
        """The same in plain code."""
        sign, bound = (">=", self.at_least) if self.at_least is not None else ("<=", self.at_most)
        return f"""class StopAtTarget(keras.callbacks.Callback):
    epochs = 0

    def on_epoch_end(self, epoch, logs=None):
        self.epochs = self.epochs + 1 if logs[{self.metric!r}] {sign} {bound!r} else 0
        self.model.stop_training = self.epochs >= {self.patience}"""
