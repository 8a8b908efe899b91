"""The eight hooks, in the order in which a run calls them.

*Value hooks* hand a value along the stack: each is given what the plugins before it in the recipe
built, and returns what the next one receives:

    @hookimpl
    def build_dataset(self, run, split, plan):
        return with_cache(plan)

For a stack a, b, c the result is c(b(a(default))).
*The owner hook* `build_strategy` has at most one implementation in a stack.
*Notifications* are called plugin by plugin in recipe order.

Argument names are permanent; an implementation takes those that it needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import pluggy

from tfopt_core.hooks.values import (
    Control,
    Effect,
    PrecisionPolicy,
    RuntimeOptions,
    TrainingOptions,
)

if TYPE_CHECKING:
    from tfopt_core.hooks.context import RunContext
    from tfopt_core.hooks.machine import Machine
    from tfopt_core.hooks.values import Change
    from tfopt_core.recipe.model import Recipe


Split = Literal["train", "validation"]

PROJECT = "tfopt"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)

# By name, the argument that holds the value so far.
VALUE_HOOKS: dict[str, str] = {
    "configure_runtime": "options",
    "configure_precision": "policy",
    "build_dataset": "plan",
    "wrap_model": "model",
    "configure_training": "options",
}
OWNER_HOOK = "build_strategy"
NOTIFICATIONS = ("on_epoch_end", "report_effect")
ALL_HOOKS = (*VALUE_HOOKS, OWNER_HOOK, *NOTIFICATIONS)


class HookSpecs:
    """The specifications that pluggy checks implementations against."""

    @hookspec
    def configure_runtime(  # type: ignore[empty-body]
        self, machine: Machine, recipe: Recipe, options: RuntimeOptions
    ) -> RuntimeOptions:
        """Value hook. Called once for each run, in the parent, before its process starts.

        For what TensorFlow reads when it starts: environment, threads, flags, device memory.
        TensorFlow must not be imported here.

        :param machine: what this machine has.
        :param recipe: the recipe that is measured.
        :param options: the options so far.
        :returns: the `RuntimeOptions` that the next plugin receives.
        """

    @hookspec
    def configure_precision(  # type: ignore[empty-body]
        self, run: RunContext, policy: PrecisionPolicy
    ) -> PrecisionPolicy:
        """Value hook. Called once per fit, before the strategy and the model are built.

        :param run: the run's context.
        :param policy: the policy so far.
        :returns: the `PrecisionPolicy` that the next plugin receives.
        """

    @hookspec
    def build_strategy(self, run: RunContext) -> Any:
        """Owner hook: at most one plugin of a stack.

        Called once per fit, after the precision and before the data and the model are built.

        :param run: the run's context.
        :returns: a `tf.distribute.Strategy`.
        """

    @hookspec
    def build_dataset(self, run: RunContext, split: Split, plan: Any) -> Any:
        """Value hook. Called once per split, "train" and then "validation".

        :param run: the run's context.
        :param split: which data the plan is for.
        :param plan: the `DataPlan` so far.
        :returns: the `DataPlan` that the next plugin receives.
        """

    @hookspec
    def wrap_model(self, run: RunContext, model: Any) -> Any:
        """Value hook. Called once per fit, inside the strategy's scope.

        :param run: the run's context.
        :param model: the `keras.Model` so far, not compiled.
        :returns: the `keras.Model`, not compiled, that the next plugin receives.
        """

    @hookspec
    def configure_training(  # type: ignore[empty-body]
        self, run: RunContext, model: Any, options: TrainingOptions
    ) -> TrainingOptions:
        """Value hook. Called once per fit, just before `compile`, inside the strategy's scope.

        :param run: the run's context.
        :param model: the `keras.Model` as `wrap_model` left it.
        :param options: the options so far.
        :returns: the `TrainingOptions` that the next plugin receives.
        """

    @hookspec
    def on_epoch_end(
        self, run: RunContext, model: Any, epoch: int, logs: dict[str, float], control: Control
    ) -> None:
        """Notification. Called after each epoch and its validation, plugins in recipe order.

        :param run: the run's context.
        :param model: the model that is trained.
        :param epoch: the epoch that ended, counted from 0.
        :param logs: the epoch's metrics, those of the validation with the prefix "val_".
        :param control: `stop(reason)` ends the training after this epoch.
        """

    @hookspec
    def report_effect(self, run: RunContext, model: Any, changes: tuple[Change, ...]) -> Effect:  # type: ignore[empty-body]
        """Notification. Called once per fit, at its end, in the run's process.

        Read back what was set; do not trust that setting it was enough. Without this hook a
        plugin counts as applied if one of its value hooks changed something.

        :param run: the run's context.
        :param model: the trained model.
        :param changes: what this plugin's own hooks changed, in the order of the calls.
        :returns: an `Effect`, made by `Effect.applied_as(...)` or `Effect.not_applied(...)`.
        """
