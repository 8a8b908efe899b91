"""Layers that compute by other operations than their own, and what became of each of them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ClassVar, NoReturn

import attrs

from tfopt_core.plugins import (
    Diagnosis,
    Effect,
    Plugin,
    PluginRefused,
    RunContext,
    TrainingOptions,
    hookimpl,
)
from tfopt_core.toolkit import nested_layers, tf, why_without

# How many layers a message names.
NAMED = 3
# The methods that are replaced, and the attribute of a function that took the place of one here.
METHODS = ("_compute_attention", "call", "inner_loop")
_MARK = "fuses"


@attrs.define(eq=False)
class FusedLayers:
    """The layers of which a method was replaced.

    :param replaced: the layers.
    :param traced: the names of those that were traced with the other operations.
    :param reasons: why a layer computes as it did, by name.
    """

    replaced: list[Any] = attrs.field(factory=list)
    traced: dict[str, None] = attrs.field(factory=dict)
    reasons: dict[str, str] = attrs.field(factory=dict)

    def replace(
        self, layer: Any, method: str, compute: Callable[..., Any], why_not: Callable[..., str]
    ) -> None:
        """Replace a method of a layer, in place; its weights, configuration and class stay.

        :param compute: is given the layer, its class' method, and what the method is given.
        :param why_not: returns why a call is left to the class' method, "" if it is not; is given
            the layer, and the arguments of the call.
        """

        def replacing(*args: Any, **kwargs: Any) -> Any:
            own = getattr(type(layer), method)
            # asked here: what a layer is given, and its policy, are known when it is traced
            reason = why_not(layer, args, kwargs)
            if reason:
                self.reasons[layer.name] = reason
                return own(layer, *args, **kwargs)
            self.traced[layer.name] = None
            return compute(layer, own, *args, **kwargs)

        vars(replacing)[_MARK] = True
        vars(layer)[method] = replacing
        self.replaced.append(layer)

    @property
    def computed(self) -> list[Any]:
        """The layers that compute by the other operations."""
        return [
            layer
            for layer in self.replaced
            if layer.name in self.traced and layer.name not in self.reasons
        ]

    @property
    def left_alone(self) -> str:
        """The layers that compute as they did, each with its reason."""
        return listed([f'"{name}": {why}' for name, why in self.reasons.items()], "; ")


def release(model: Any) -> None:
    """Give a model's layers the methods back that were replaced here and not by somebody else."""
    if why_without("nested-layers"):
        return  # none was replaced
    for layer in (model, *nested_layers(model)):
        for method in METHODS:
            if _is_fused(layer, method):
                del vars(layer)[method]


def why_not_free(layer: Any, method: str) -> str:
    """Return why a method of a layer cannot be replaced, "" if it can."""
    if method in vars(layer) and not _is_fused(layer, method):
        return f"its {method} was replaced already, by a plugin or the workload"
    return ""


def _is_fused(layer: Any, method: str) -> bool:
    return bool(getattr(vars(layer).get(method), _MARK, False))


class FusingPlugin(Plugin):
    """A plugin that has layers compute by other operations, in steps that XLA does not compile.

    A subclass sets what is declared here.
    """

    __slots__ = ()

    # the layers' classes for which it is suggested
    _kinds: ClassVar[frozenset[str]]
    # what XLA does or lacks
    _xla: ClassVar[str]
    # the reasons on a GPU, where the workload compiles its steps, and where no layer was traced
    _on_gpu: ClassVar[str]
    _compiled: ClassVar[str]
    _nothing: ClassVar[str]
    # the private parts of Keras that it needs
    _needs: ClassVar[tuple[str, ...]] = ("nested-layers",)
    # returns the layers of a model that may be replaced
    _layers: ClassVar[Callable[..., list[Any]]]
    # replaces what a layer computes; returns why it is left alone, "" if it is not
    _fuse: ClassVar[Callable[..., str]]
    # returns how these layers compute, "" for none
    _in_words: ClassVar[Callable[..., str]]

    def suggest(self, diagnosis: Diagnosis) -> dict[str, Any] | None:
        """Worth it for such layers on a CPU in float32, without XLA."""
        if diagnosis.machine.gpus or diagnosis.policy != "float32" or diagnosis.jit_compile:
            return None
        return {} if self._kinds & set(diagnosis.layers) else None

    @hookimpl
    def wrap_model(self, run: RunContext, model: Any) -> Any:
        """Replace what the layers compute."""
        fused = run.state_of(self)["fused"] = FusedLayers()
        missing = next(filter(None, map(why_without, self._needs)), "")
        reason = missing or (self._on_gpu if run.machine.gpus else "")
        run.state_of(self)["reason"] = reason
        for layer in [] if reason else self._layers(model):
            if why := self._fuse(layer, fused):
                fused.reasons[layer.name] = why
        return model

    @hookimpl
    def configure_training(
        self, run: RunContext, model: Any, options: TrainingOptions
    ) -> TrainingOptions:
        """Leave a workload alone that has XLA compile the steps.

        :raises PluginRefused: where another plugin has XLA compile them.
        """
        for name, given in run.settings.items():
            if given.get("xla") is True:
                raise PluginRefused(
                    f'"{name}" has XLA compile the steps, and XLA {self._xla}; set xla = false in '
                    f'"{name}", or leave one of the two out'
                )
        if options.jit_compile is True and not run.state_of(self)["reason"]:
            run.state_of(self)["reason"] = self._compiled
            release(model)
        return options

    def unwrap(self, model: Any) -> Any:
        """Return the model whose layers compute as Keras does."""
        release(model)
        return model

    @hookimpl
    def report_effect(self, run: RunContext) -> Effect:
        """Read back which layers were traced with the other operations."""
        fused: FusedLayers = run.state_of(self)["fused"]
        if reason := run.state_of(self)["reason"]:
            return Effect.not_applied(reason)
        left, done = fused.left_alone, self._in_words(fused.computed)
        if not done:
            return Effect.not_applied(left or self._nothing)
        return Effect.applied_as(f"{done}; left alone: {left}" if left else done)


def listed(items: list[str], between: str) -> str:
    """Return the first items, joined; dots for those that are left out."""
    return between.join(items[:NAMED]) + (f"{between}..." if items[NAMED:] else "")


def once(gradient: Any, plugin: str, *inputs: Any) -> Any:
    """Return the gradient as a function that refuses to be derived itself.

    It uses what the forward pass computed, so that a second derivative would be wrong silently.

    :param gradient: given the gradient of each output, returns those of the inputs.
    :param plugin: whose gradient it is, for the message.
    :param inputs: those that it is the gradient of.
    """

    def refuse(*_: Any) -> NoReturn:
        raise NotImplementedError(
            f"{plugin} has no second derivative, which this training takes; leave the plugin out "
            "of the recipe"
        )

    @functools.wraps(gradient)
    def derived(*upstream: Any) -> Any:
        @tf.custom_gradient  # type: ignore[untyped-decorator]
        def first(*given: Any) -> Any:
            return gradient(*given[: len(upstream)]), refuse

        return first(*upstream, *inputs)

    return derived
