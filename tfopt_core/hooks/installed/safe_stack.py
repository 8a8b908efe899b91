"""The plugins that a stack can begin with, without a diagnosis: chosen by their cards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from tfopt_core.hooks.card import Traits
from tfopt_core.hooks.installed.inspection import PluginInfo
from tfopt_core.hooks.specs import OWNER_HOOK

# Of a step's parts those that can be made faster without touching a number of the training.
AROUND_THE_MODEL = frozenset({"input", "dispatch"})


@attrs.frozen
class SafePlugin:
    """A plugin in the order of a stack, and whether it is in it or only ready to be tried."""

    info: PluginInfo
    enabled: bool


def safe_stack(infos: Sequence[PluginInfo]) -> tuple[SafePlugin, ...]:
    """Return every plugin that can be tried on one machine without further words, in order.

    In the stack are those that leave the training as it is, exactly, and only change how input
    and steps come. Left out are plugins that need more devices or processes, that change the
    training algorithm (they need a target), or that must be given a setting.
    """
    candidates = [info for info in infos if _stands_alone(info)]
    on: list[PluginInfo] = []
    for info in candidates:
        if _harmless(info) and not any(_conflict(info, other) for other in on):
            on.append(info)
    rest = [info for info in candidates if info not in on]
    said = {info.name: info.traits for info in (*on, *rest) if info.traits is not None}
    by_name = {info.name: info for info in candidates}
    return tuple(SafePlugin(by_name[name], by_name[name] in on) for name in in_order(said))


def in_order(said: Mapping[str, Traits]) -> tuple[str, ...]:
    """Return the names as `before` and `after` want them, else as they come.

    Where these contradict each other, they come as they are: assembling the stack reports it.
    """
    left, placed = list(said), []
    while left:
        ready = (
            name
            for name in left
            if not any(
                other in said[name].after or name in said[other].before
                for other in left
                if other != name
            )
        )
        following = next(ready, left[0])
        left.remove(following)
        placed.append(following)
    return tuple(placed)


def _stands_alone(info: PluginInfo) -> bool:
    traits = info.traits
    return (
        info.error is None
        and traits is not None
        and traits.role == "optimization"
        and traits.model_change != "replaces"
        and not traits.requires
        and OWNER_HOOK not in info.hooks
        and "communication" not in traits.targets
        and info.math in ("exact", "order", "rounding", "unknown")
    )


def _harmless(info: PluginInfo) -> bool:
    assert info.traits is not None
    return (
        info.math == "exact"
        and info.traits.model_change == "none"
        and AROUND_THE_MODEL.issuperset(info.traits.targets)
    )


def _conflict(one: PluginInfo, other: PluginInfo) -> bool:
    assert one.traits is not None
    assert other.traits is not None
    return other.name in one.traits.conflicts or one.name in other.traits.conflicts
