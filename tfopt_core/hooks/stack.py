"""The plugins of a recipe in order, and the calls of their hooks by one pluggy manager."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar, cast

import attrs
import pluggy

from tfopt_core.errors import (
    PluginDefinitionError,
    PluginError,
    StageError,
    TfoptError,
    add_note,
    describe,
    ran_out_of_memory,
)
from tfopt_core.hooks.context import RunContext
from tfopt_core.hooks.contract import HookManager, check_class, implementations
from tfopt_core.hooks.machine import Machine
from tfopt_core.hooks.plugin_class import guarded
from tfopt_core.hooks.specs import OWNER_HOOK, PROJECT, VALUE_HOOKS, HookSpecs
from tfopt_core.hooks.values import (
    Change,
    Control,
    Effect,
    PrecisionPolicy,
    RuntimeOptions,
    TrainingOptions,
)
from tfopt_core.recipe.model import Recipe

T = TypeVar("T")
# What of `TrainingOptions` computes in each step.
CALLED_IN_STEPS = (
    "loss", "metrics", "weighted_metrics", "loss_weights", "wrap_train_step", "wrap_test_step",
)  # fmt: skip


@attrs.frozen(eq=False)
class StackedPlugin:
    """A configured plugin instance with its name in the recipe."""

    name: str
    plugin: Any

    @property
    def settings(self) -> dict[str, Any]:
        """The plugin's settings by TOML key."""
        return {a.name: getattr(self.plugin, a.name) for a in attrs.fields(type(self.plugin))}


class Stack:
    """Calls the hooks of a stack; knows what each plugin changed.

    Each value hook is called with the value that the first plugin receives; a baseline, which has
    no plugins, trains with that.

    :param plugins: the plugins in recipe order; empty for the baseline.
    :param earlier: changes that were made before, in the parent of a run's process.
    :param given: by hook, the value to begin with in place of what a call gives: the public
        `stack_of` drives a stack without a training.
    :raises PluginDefinitionError: if a plugin breaks the contract, or two own the strategy.
    """

    def __init__(
        self, plugins: Sequence[StackedPlugin], earlier: Sequence[Change] = (), **given: Any
    ) -> None:
        self.plugins = tuple(plugins)
        self._changes = list(earlier)
        self._given = given
        self._model_kind: type[Any] | None = None
        self._manager = HookManager(PROJECT)
        self._manager.add_hookspecs(HookSpecs)
        for stacked in self.plugins:
            check_class(stacked.name, type(stacked.plugin))
            self._manager.register(stacked.plugin, stacked.name)
        owners = self._implementations(OWNER_HOOK)
        if len(owners) > 1:
            first, second = (owner.plugin_name for owner in owners[:2])
            why = f'"{first}" builds the distribution strategy too; keep one of them'
            raise PluginDefinitionError(second, why, OWNER_HOOK)
        self._owner = owners[0] if owners else None

    @property
    def settings(self) -> dict[str, dict[str, Any]]:
        """Every plugin's settings, by name."""
        return {stacked.name: stacked.settings for stacked in self.plugins}

    @property
    def all_changes(self) -> tuple[Change, ...]:
        """What the plugins' hooks did so far, in the order of the calls."""
        return tuple(self._changes)

    def changes(self, plugin: str) -> tuple[Change, ...]:
        """Return the changes of one plugin's value hooks so far, in call order."""
        return tuple(change for change in self._changes if change.plugin == plugin)

    # The hooks, in the order in which a run calls them.

    def configure_runtime(self, machine: Machine, recipe: Recipe) -> RuntimeOptions:
        """Call the value hook. :raises PluginError: naming the plugin that failed."""
        return self._value(
            "configure_runtime", RuntimeOptions(), RuntimeOptions, machine=machine, recipe=recipe
        )

    def configure_precision(self, run: RunContext) -> PrecisionPolicy:
        """Call the value hook. :raises PluginError: naming the plugin that failed."""
        return self._value("configure_precision", PrecisionPolicy(), PrecisionPolicy, run=run)

    def build_strategy(
        self, run: RunContext, default: Any = None, kind: type[Any] | None = None
    ) -> Any:
        """Call the owner hook. Return `default` if there is none.

        :param kind: the type that the owner must return, None for any.
        :raises PluginError: if the owner fails or returns something else.
        """
        if self._owner is None:
            return default
        strategy = _call(OWNER_HOOK, self._owner, run=run)
        _check(self._owner.plugin_name, OWNER_HOOK, strategy, kind, "a tf.distribute.Strategy")
        return self.with_strategy(strategy)

    def with_strategy(self, strategy: Any) -> Any:
        """Take note of the strategy that the owner has built, here or before; the strategy."""
        assert self._owner is not None
        self._changes.append(Change(self._owner.plugin_name, OWNER_HOOK, None, strategy))
        return strategy

    def build_dataset(self, run: RunContext, split: str, plan: Any = None) -> Any:
        """Call the value hook. :raises PluginError: naming the plugin that failed."""
        kind = None if plan is None else type(plan)
        return self._value("build_dataset", plan, kind, run=run, split=split)

    def wrap_model(self, run: RunContext, model: Any = None, kind: type[Any] | None = None) -> Any:
        """Call the value hook.

        :param kind: the type that it must return, None for any.
        :raises PluginError: naming the plugin that failed.
        """
        self._model_kind = kind
        return self._value("wrap_model", model, kind, run=run)

    def configure_training(
        self, run: RunContext, model: Any, options: Any = None
    ) -> TrainingOptions:
        """Call the value hook. :raises PluginError: naming the plugin that failed."""
        result: TrainingOptions = self._value(
            "configure_training", options, TrainingOptions, run=run, model=model
        )
        return result

    def on_epoch_end(
        self, run: RunContext, model: Any, epoch: int, logs: Mapping[str, float], control: Control
    ) -> None:
        """Call each plugin's notification. :raises PluginError: naming the plugin that failed."""
        for implementation in self._implementations("on_epoch_end"):
            # each plugin gets a copy, so that none can change what the next one sees
            _call(
                "on_epoch_end", implementation,
                run=run, model=model, epoch=epoch, logs=dict(logs), control=control,
            )  # fmt: skip

    def report_effects(self, run: RunContext, model: Any) -> dict[str, Effect]:
        """Return every plugin's effect: from `report_effect`, else from the changes of its hooks.

        :raises PluginError: naming the plugin that failed.
        """
        return {stacked.name: self._effect(stacked, run, model) for stacked in self.plugins}

    def without_effect(self, run: RunContext, model: Any) -> dict[str, str]:
        """Return the plugins that certainly have no effect, by name, each with the reason.

        It is certain before a training if the hooks of a plugin only return values, and each value
        is unchanged. A plugin whose `report_effect` fails before a training is left out.
        """
        reasons = {}
        for stacked in self.plugins:
            changed = any(change.changed for change in self.changes(stacked.name))
            if changed or not _only_returns_values(stacked.plugin):
                continue
            with contextlib.suppress(PluginError):
                effect = self._effect(stacked, run, model)
                if not effect.applied:
                    reasons[stacked.name] = effect.detail
        return reasons

    def _effect(self, stacked: StackedPlugin, run: RunContext, model: Any) -> Effect:
        changes = self.changes(stacked.name)
        reports = self._implementations("report_effect")
        implementation = next((one for one in reports if one.plugin is stacked.plugin), None)
        if implementation is None:
            return effect_of(changes)
        effect = _call("report_effect", implementation, run=run, model=model, changes=changes)
        _check(stacked.name, "report_effect", effect, Effect, "an Effect")
        return cast(Effect, effect)

    def unwrap(self, model: Any) -> Any:
        """Return the model without the wrapping of plugins, last plugin first, for saving."""
        for stacked in reversed(self.plugins):
            unwrap = functools.partial(stacked.plugin.unwrap, model)
            model = guarded(stacked.name, "unwrap", unwrap)
            _check(stacked.name, "unwrap", model, self._model_kind, "the model")
        return model

    @contextlib.contextmanager
    def blamed(self, hook: str) -> Iterator[None]:
        """Name the last plugin that changed the value of a hook in errors of what is made of it,
        or the one that put a stage into the data plan where that stage fails.

        :raises PluginError: naming it; an error that no plugin has caused is raised as it is.
        """
        try:
            yield
        except Exception as error:
            changed = [one for one in self._changes if one.hook == hook and one.changed]
            reason = f"returned what {describe(error)}"
            if isinstance(error, StageError):
                stage, reason = error.stage, str(error)
                changed = [
                    one for one in changed if _has(one.after, stage) and not _has(one.before, stage)
                ]
            elif isinstance(error, TfoptError):
                raise
            if not changed:
                raise
            out_of_memory = ran_out_of_memory(error)
            by = changed[-1].plugin
            raise PluginError(by, hook, reason, out_of_memory=out_of_memory) from error

    @contextlib.contextmanager
    def changes_noted(self) -> Iterator[None]:
        """Add to an error of a training which functions plugins put into its data and steps, and
        which loss and metrics they chose: nothing else names what fails while it is called."""
        try:
            yield
        except Exception as error:
            if not isinstance(error, TfoptError):
                for note in self._functions_put_in():
                    add_note(error, note)
            raise

    def _functions_put_in(self) -> Iterator[str]:
        for change in self._changes:
            if change.hook == "configure_training":
                for words in change.describe():
                    if words.partition(":")[0] in CALLED_IN_STEPS:
                        yield f'plugin "{change.plugin}" has changed {words}'
            if change.hook == "build_dataset":
                known = [getattr(stage, "function", None) for stage in change.before.stages]
                for stage in change.after.stages:
                    if getattr(stage, "function", None) not in known:
                        yield (
                            f'plugin "{change.plugin}" put {stage.describe()} into the '
                            f"{change.split} data"
                        )

    # How they are called.

    def _implementations(self, hook: str) -> list[pluggy.HookImpl]:
        """Return the implementations in recipe order."""
        found: list[pluggy.HookImpl] = getattr(self._manager.hook, hook).get_hookimpls()
        return found

    def _value(self, hook: str, value: T, kind: type[Any] | None, **arguments: Any) -> T:
        """Return the value that the plugins make of this one, each of the one before it."""
        value = self._given.get(hook, value)
        for implementation in self._implementations(hook):
            plugin, before = implementation.plugin_name, value
            value = _call(hook, implementation, **{**arguments, VALUE_HOOKS[hook]: before})
            wanted = "the value" if kind is None else f"a {kind.__name__}"
            _check(plugin, hook, value, kind, wanted)
            self._changes.append(Change(plugin, hook, before, value, arguments.get("split")))
        return value


def _has(plan: Any, stage: Any) -> bool:
    """Return whether a plan has the stage, or what it was before `for_model`."""
    if hasattr(stage, "for_model"):
        return any(type(one) is type(stage) for one in plan.stages)
    return stage in plan.stages


def _check(plugin: str, hook: str, value: Any, expected: type[Any] | None, wanted: str) -> None:
    if value is None or (expected is not None and not isinstance(value, expected)):
        what = "nothing" if value is None else f"type {type(value).__name__}"
        raise PluginError(plugin, hook, f"returned {what}; return {wanted}")


def _call(hook: str, implementation: pluggy.HookImpl, **arguments: Any) -> Any:
    """Call one plugin's implementation with the arguments that it takes."""
    chosen = [arguments[name] for name in implementation.argnames]
    return guarded(implementation.plugin_name, hook, lambda: implementation.function(*chosen))


def _only_returns_values(plugin: Any) -> bool:
    """Return whether no hook acts during the training or may change the model in place."""
    hooks = set(implementations(type(plugin))) - {"report_effect"}
    return hooks <= {*VALUE_HOOKS} - {"wrap_model"} and plugin.model_change == "none"


def effect_of(changes: Sequence[Change]) -> Effect:
    """Return the effect of a plugin that reports none: applied if a value hook changed
    something."""
    words = [word for change in changes if change.changed for word in change.describe()]
    if words:
        return Effect.applied_as("; ".join(dict.fromkeys(words)))
    return Effect.not_applied("its hooks changed nothing")
