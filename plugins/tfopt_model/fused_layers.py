"""Layers that compute by other operations than their own, and what became of each of them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import attrs

from tfopt_core.plugins import PluginRefused
from tfopt_core.toolkit import tf

# How many layers a message names.
NAMED = 3
# The attribute of a function that took a method's place here.
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


def release(layer: Any, method: str) -> None:
    """Give a layer its own method back, if it was replaced here and not by somebody else."""
    if _is_fused(layer, method):
        del vars(layer)[method]


def why_not_free(layer: Any, method: str) -> str:
    """Return why a method of a layer cannot be replaced, "" if it can."""
    if method in vars(layer) and not _is_fused(layer, method):
        return f"its {method} was replaced already, by a plugin or the workload"
    return ""


def _is_fused(layer: Any, method: str) -> bool:
    return bool(getattr(vars(layer).get(method), _MARK, False))


def refuse_compiled(settings: Mapping[str, Mapping[str, Any]], why: str) -> None:
    """Refuse a stack in which a plugin has XLA compile the steps.

    :param settings: the resolved settings of the plugins, by name.
    :param why: what XLA does or lacks.
    :raises PluginRefused: naming that plugin.
    """
    for name, given in settings.items():
        if given.get("xla") is True:
            raise PluginRefused(
                f'"{name}" has XLA compile the steps, and XLA {why}; set xla = false in "{name}", '
                "or leave one of the two out"
            )


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
