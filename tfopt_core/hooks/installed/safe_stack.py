"""Choose the plugins of a first stack by their traits, without a diagnosis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from tfopt_core.hooks.card import Traits
from tfopt_core.hooks.installed.inspection import PluginInfo

# The parts of a step that can become faster without changing a number of the training.
AROUND_THE_MODEL = frozenset({"input", "dispatch"})


@attrs.frozen
class SafePlugin:
    """A plugin in the order of a stack, enabled or only ready to be tried."""

    info: PluginInfo
    enabled: bool


def safe_stack(infos: Sequence[PluginInfo]) -> tuple[SafePlugin, ...]:
    """Return every plugin that can be tried on one machine without settings, in order.

    Plugins that leave the training exactly as it is, and only change input and dispatch, are
    enabled. Plugins that need more devices or processes, change the training algorithm (they need a
    target) or have required settings are left out.
    """
    candidates = [info for info in infos if _stands_alone(info)]
    on: list[PluginInfo] = []
    for info in candidates:
        if _harmless(info) and not any(_conflict(info, other) for other in on):
            on.append(info)
    rest = [info for info in candidates if info not in on]
    stack_traits = {info.name: info.traits for info in (*on, *rest) if info.traits is not None}
    by_name = {info.name: info for info in candidates}
    return tuple(SafePlugin(by_name[name], by_name[name] in on) for name in in_order(stack_traits))


def in_order(traits: Mapping[str, Traits]) -> tuple[str, ...]:
    """Return the names ordered by `before` and `after`, otherwise in the given order.

    Contradictions are ignored here: assembling the stack reports them.
    """
    left, placed = list(traits), []
    while left:
        ready = (
            name
            for name in left
            if not any(
                other in traits[name].after or name in traits[other].before
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
        and not info.spreads
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
