"""Say what to write by hand for each plugin of a stack, as `tfopt export` does."""

from __future__ import annotations

from collections.abc import Sequence

from tfopt_core.app.command_request import temporary_request
from tfopt_core.app.script_target import refuse_script
from tfopt_core.hooks.guards import guarded
from tfopt_core.hooks.stack import StackedPlugin


def lines_by_hand(
    target: str, overrides: Sequence[str], *, debug: bool = False
) -> list[tuple[StackedPlugin, str | None]]:
    """Return each plugin of the resolved stack with the lines that do the same in plain code.

    The lines are None for a plugin that has none.

    :raises InputError: for errors in the recipe.
    :raises PluginError: if a plugin fails to give its lines.
    :raises PreparationFailed: if a setting of "auto" cannot be resolved.
    """
    refuse_script(target, "tfopt export")
    with temporary_request(target, overrides, debug=debug) as request:
        request = request.observed()
        if any("auto" in stacked.settings.values() for stacked in request.plugins):
            from tfopt_core.trials.preparation import prepare
            from tfopt_core.workers.spawn import SpawnRunner

            _, request = prepare(request, SpawnRunner())
        return [(stacked, _lines(stacked)) for stacked in request.plugins]


def _lines(stacked: StackedPlugin) -> str | None:
    lines: str | None = guarded(stacked.name, "by_hand", stacked.plugin.by_hand)
    return lines or None
