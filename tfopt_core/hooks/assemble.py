"""From a recipe's entries to configured plugins, with every problem of the stack at once."""

from __future__ import annotations

from collections.abc import Sequence

from tfopt_core.errors import PluginDefinitionError, PluginLoadError, Problem
from tfopt_core.hooks.card import traits
from tfopt_core.hooks.contract import check_hooks
from tfopt_core.hooks.discovery import Registration, find, registrations
from tfopt_core.hooks.settings import configure
from tfopt_core.hooks.stack import StackedPlugin
from tfopt_core.recipe import PluginEntry


def assemble(
    entries: Sequence[PluginEntry],
    known: dict[str, tuple[Registration, ...]] | None = None,
) -> tuple[tuple[StackedPlugin, ...], list[Problem]]:
    """Configure the plugins that a recipe names; only those are imported.

    :returns: the plugins that could be configured, in recipe order, and all problems.
    """
    known = registrations() if known is None else known
    plugins, problems = [], []
    for entry in entries:
        try:
            plugin_class = find(entry.use, known).load()
        except (PluginLoadError, PluginDefinitionError) as error:
            problems.append(entry.where.problem("use", str(error)))
            continue
        plugin, wrong = configure(plugin_class, entry)
        problems.extend(wrong)
        if plugin is None:
            continue
        try:
            check_hooks(entry.use, plugin)
        except PluginDefinitionError as error:
            problems.append(entry.where.problem("use", str(error)))
            continue
        plugins.append(StackedPlugin(entry.use, plugin))
    problems.extend(_relations(entries, plugins))
    return tuple(plugins), problems


def _relations(entries: Sequence[PluginEntry], plugins: Sequence[StackedPlugin]) -> list[Problem]:
    """What the plugins say of each other: requires, conflicts, before, after, one owner."""
    problems = []
    place = {entry.use: index for index, entry in enumerate(entries)}
    where = {entry.use: entry.where for entry in entries}
    for stacked in plugins:
        name, said = stacked.name, traits(stacked.name, type(stacked.plugin))
        here = where[name]
        for other in said.requires:
            if other not in place:
                problems.append(
                    here.problem("use", f'"{name}" needs "{other}" in the stack', f'add "{other}"')
                )
        for other in said.conflicts:
            if other in place:
                problems.append(
                    here.problem("use", f'"{name}" conflicts with "{other}"', "keep one of them")
                )
        for other in said.before:
            if other in place and place[other] < place[name]:
                problems.append(
                    here.problem("use", f'"{name}" must stand before "{other}"', "move it up")
                )
        for other in said.after:
            if other in place and place[other] > place[name]:
                problems.append(
                    here.problem("use", f'"{name}" must stand after "{other}"', "move it down")
                )
    owners = [p.name for p in plugins if hasattr(p.plugin, "build_strategy")]
    for name in owners[1:]:
        problems.append(
            where[name].problem(
                "use",
                f'"{owners[0]}" and "{name}" each build the distribution strategy',
                "keep one of them",
            )
        )
    return problems
