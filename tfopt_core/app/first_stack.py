"""The plugins of the recipe that `tfopt init` writes: named ones, safe ones, or proposed ones."""

from __future__ import annotations

from collections.abc import Sequence

from tfopt_core.diagnosis.draft import proposed, why_chosen
from tfopt_core.errors import InputError, did_you_mean
from tfopt_core.hooks.card import MATHEMATICS
from tfopt_core.hooks.installed.discovery import registrations
from tfopt_core.hooks.installed.inspection import PluginInfo, inspect_plugins
from tfopt_core.hooks.installed.safe_stack import in_order, safe_stack
from tfopt_core.recipe.writing import PlannedPlugin
from tfopt_core.records.diagnosis import Diagnosed


def chosen_plugins(names: Sequence[str], *, target: bool) -> list[PlannedPlugin]:
    """These plugins with their defaults, in an order that they agree to.

    :param target: whether the recipe says what value of a metric is to be reached.
    :raises InputError: if one is unknown, broken, or needs more than its name.
    """
    known = registrations()
    for name in names:
        if name not in known:
            hint = did_you_mean(name, known) or "`tfopt plugins` lists those that are installed"
            raise InputError(f'no plugin is named "{name}"; {hint}')
    infos = {info.name: info for info in inspect_plugins(names)}
    for name in names:
        _check_usable(infos[name], target=target)
    said = {name: infos[name].traits for name in names}
    order = in_order({name: traits for name, traits in said.items() if traits is not None})
    return [PlannedPlugin(name, why=infos[name].summary) for name in order]


def _check_usable(info: PluginInfo, *, target: bool) -> None:
    if info.error is not None:
        raise InputError(f'plugin "{info.name}" cannot be loaded: {info.error}')
    if not info.math:
        needed = [f'"{setting.name}"' for setting in info.settings if setting.default is None]
        what = f"needs {' and '.join(needed)}" if needed else "needs settings"
        raise InputError(
            f'plugin "{info.name}" {what}; leave it out here, and add it to the recipe as '
            f"`tfopt plugins show {info.name}` says"
        )
    if info.math == "changes" and not target:
        raise InputError(
            f'plugin "{info.name}" changes the training algorithm, so it is judged by the time to '
            'a target; add --target "val_accuracy>=0.9", say'
        )


def safe_plugins() -> list[PlannedPlugin]:
    """Those that leave the training as it is, and switched off those that round or reorder.

    :raises InputError: if none is installed.
    """
    found = safe_stack(inspect_plugins())
    if not any(one.enabled for one in found):
        raise InputError("no installed plugin leaves the training as it is; choose by --plugin")
    return [
        PlannedPlugin(one.info.name, why=_why(one.info, on=one.enabled), enabled=one.enabled)
        for one in found
    ]


def _why(info: PluginInfo, *, on: bool) -> str:
    if on:
        return info.summary
    said = f"{info.summary.rstrip('.')}: {MATHEMATICS[info.math]}."
    if info.traits is not None and info.traits.conflicts:
        said += f" Not beside {', '.join(info.traits.conflicts)}."
    return said


def proposed_plugins(diagnosed: Diagnosed) -> list[PlannedPlugin]:
    """Return the stack that a diagnosis proposes."""
    return [
        PlannedPlugin(one.plugin, one.settings, why_chosen(one, diagnosed))
        for one in proposed(diagnosed)
    ]
