"""Choose the plugins of the recipe that `tfopt init` writes: named, safe, or proposed ones."""

from __future__ import annotations

from collections.abc import Sequence

from tfopt_core.diagnosis.draft import proposed, proposed_additions, why_chosen
from tfopt_core.errors import InputError, did_you_mean
from tfopt_core.hooks.card import MATHEMATICS
from tfopt_core.hooks.installed.discovery import registrations
from tfopt_core.hooks.installed.inspection import PluginInfo, inspect_plugins
from tfopt_core.hooks.installed.safe_stack import in_order, safe_stack
from tfopt_core.recipe.writing import PlannedPlugin
from tfopt_core.records.diagnosis import Diagnosed


def chosen_plugins(names: Sequence[str], *, target: bool) -> list[PlannedPlugin]:
    """Return these plugins with their defaults, in an order that their cards allow.

    :param target: whether the recipe has a target.
    :raises InputError: if a plugin is unknown, broken, or has required settings.
    """
    known = registrations()
    for name in names:
        if name not in known:
            hint = did_you_mean(name, known) or "`tfopt plugins` lists those that are installed"
            raise InputError(f'no plugin is named "{name}"; {hint}')
    infos = {info.name: info for info in inspect_plugins(names)}
    for name in names:
        _check_usable(infos[name], target=target)
    card_traits = {name: infos[name].traits for name in names}
    order = in_order({name: traits for name, traits in card_traits.items() if traits is not None})
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
    """Return the plugins that keep the training as it is and, disabled, those that round or
    reorder.

    :raises InputError: if none is installed.
    """
    stack = safe_stack(inspect_plugins())
    if not any(planned.enabled for planned in stack):
        raise InputError("no installed plugin leaves the training as it is; choose by --plugin")
    return [
        PlannedPlugin(
            planned.info.name,
            why=_why(planned.info, on=planned.enabled),
            enabled=planned.enabled,
        )
        for planned in stack
    ]


def _why(info: PluginInfo, *, on: bool) -> str:
    if on:
        return info.summary
    text = f"{info.summary.rstrip('.')}: {MATHEMATICS[info.math]}."
    if info.traits is not None and info.traits.conflicts:
        text += f" Not beside {', '.join(info.traits.conflicts)}."
    return text


def proposed_plugins(diagnosed: Diagnosed) -> list[PlannedPlugin]:
    """Return the exact stack that a diagnosis proposes and, disabled, what is not exact."""
    exact = proposed(diagnosed)
    names = {suggestion.plugin for suggestion in exact}
    others = [one for one in proposed_additions(diagnosed) if one.plugin not in names]
    return [
        *(PlannedPlugin(one.plugin, one.settings, why_chosen(one, diagnosed)) for one in exact),
        *(
            PlannedPlugin(
                one.plugin,
                one.settings,
                f"{why_chosen(one, diagnosed)} Disabled: {MATHEMATICS[one.math]}.",
                enabled=False,
            )
            for one in others
        ),
    ]
