"""Configure the plugins of a recipe, and report every problem of the stack at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tfopt_core.errors import (
    PluginDefinitionError,
    PluginError,
    PluginLoadError,
    Problem,
    TfoptError,
    describe,
)
from tfopt_core.hooks.installed.discovery import Registration, find, registrations
from tfopt_core.hooks.installed.inspection import inspect_plugins
from tfopt_core.hooks.plugin_class import equivalence_of
from tfopt_core.hooks.specs import OWNER_HOOK
from tfopt_core.hooks.stack import StackedPlugin
from tfopt_core.recipe.model import PluginEntry
from tfopt_core.recipe.table import configure
from tfopt_core.recipe.tree import Fault

# Plugins that ship with tfopt are tested to import; others are first imported in another process.
OWN_DISTRIBUTION = "tfopt"


def assemble(entries: Sequence[PluginEntry]) -> tuple[tuple[StackedPlugin, ...], list[Problem]]:
    """Configure the plugins that a recipe names; only those are imported.

    :returns: the plugins that could be configured, in recipe order, and all problems.
    """
    known = registrations()
    plugins, problems = [], []
    for entry in entries:
        try:
            plugin, wrong = _configured(entry, known)
        except (PluginLoadError, PluginDefinitionError, PluginError) as error:
            problems += entry.where.problems([Fault(str(error), at=("use",))])
            continue
        problems.extend(wrong)
        if plugin is not None:
            plugins.append(StackedPlugin(entry.use, plugin))
    problems.extend(_relations(entries, plugins))
    return tuple(plugins), problems


def _configured(
    entry: PluginEntry, known: dict[str, tuple[Registration, ...]]
) -> tuple[Any | None, list[Problem]]:
    """Return a plugin, or the problems of its settings.

    :raises PluginLoadError, PluginDefinitionError, PluginError: for an invalid class; any error of
        its own code becomes one of these.
    """
    registration = find(entry.use, known)
    if registration.distribution != OWN_DISTRIBUTION:
        # so that an abort does not end the command
        [info] = inspect_plugins([registration.name])
        if info.error is not None:
            raise PluginLoadError(
                registration.name, info.error, registration.distribution, registration.version
            )
    try:
        plugin, faults = configure(registration.load(), entry.settings)
        if plugin is not None:
            equivalence_of(entry.use, plugin)
    except TfoptError:
        raise
    except (Exception, SystemExit) as error:
        raise PluginDefinitionError(entry.use, describe(error)) from error
    return plugin, entry.where.problems(faults)


def _relations(entries: Sequence[PluginEntry], plugins: Sequence[StackedPlugin]) -> list[Problem]:
    """Return the problems between plugins: requires, conflicts, before, after, one owner."""
    problems: list[Problem] = []
    excluded: set[frozenset[str]] = set()
    place = {entry.use: index for index, entry in enumerate(entries)}

    def add(name: str, message: str, mend: str) -> None:
        problems.extend(entries[place[name]].where.problems([Fault(message, mend, at=("use",))]))

    for stacked in plugins:
        name, rules = stacked.name, stacked.plugin
        for other in rules.requires:
            if other not in place:
                add(name, f'"{name}" needs "{other}" in the stack', f'add "{other}"')
        for other in rules.conflicts:
            # either may declare it, or both do
            if other in place and frozenset((name, other)) not in excluded:
                excluded.add(frozenset((name, other)))
                add(name, f'"{name}" conflicts with "{other}"', "keep one of them")
        for other in rules.before:
            if other in place and place[other] < place[name]:
                add(name, f'"{name}" must stand before "{other}"', "move it up")
        for other in rules.after:
            if other in place and place[other] > place[name]:
                add(name, f'"{name}" must stand after "{other}"', "move it down")
    owners = [p.name for p in plugins if hasattr(p.plugin, OWNER_HOOK)]
    for name in owners[1:]:
        if frozenset((owners[0], name)) not in excluded:
            message = f'"{owners[0]}" and "{name}" each build the distribution strategy'
            add(name, message, "keep one of them")
    return problems
