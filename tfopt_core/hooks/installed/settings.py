"""Check a plugin's settings by the types and validators of its fields, and configure it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from tfopt_core.errors import PluginDefinitionError, Problem, did_you_mean
from tfopt_core.recipe import PluginEntry
from tfopt_core.recipe.formats import Choices, search_range
from tfopt_core.recipe.tree import join_path
from tfopt_core.recipe.values import Invalid, converted, faults_in_field, field_types, first_line


def configure(plugin_class: type[Any], entry: PluginEntry) -> tuple[Any | None, list[Problem]]:
    """Return the configured plugin, or None and all problems of its settings."""
    if problems := list(_problems(plugin_class, entry)):
        return None, problems
    values = {key: converted(value) for key, value in entry.settings.items()}
    try:
        return plugin_class(**values), []
    except (TypeError, ValueError) as error:
        return None, [entry.where.problem("", first_line(error))]


def _problems(plugin_class: type[Any], entry: PluginEntry) -> Iterator[Problem]:
    settings, fields = entry.settings, attrs.fields(plugin_class)
    known = [one.name for one in fields]
    for key in settings:
        if key not in known:
            mend = did_you_mean(key, known) or f"the settings are: {', '.join(known) or 'none'}"
            yield entry.where.problem(join_path("", (key,)), "unknown setting", mend)
    for one in fields:
        if one.default is attrs.NOTHING and one.name not in settings:
            message = f'"{one.name}" is missing'
            yield entry.where.problem("", message, "add it: it has no default")
    annotations = field_types(plugin_class)
    # Validators run on a blank instance, so that the problem of each setting is found.
    blank = object.__new__(plugin_class)
    for one in fields:
        if one.name in settings:
            for fault in faults_in_field(settings[one.name], annotations[one.name], one, blank):
                place = join_path(one.name, fault.at)
                yield entry.where.problem(place, fault.message, fault.mend)


def plain(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings as plain data, with lists for tuples."""
    return {key: list(v) if isinstance(v, tuple) else v for key, v in settings.items()}


def declared_range(plugin: str, attribute: attrs.Attribute[Any], annotation: Any) -> Any:
    """Return the range of a setting as its plugin wrote it, None if it declares none.

    :raises PluginDefinitionError: if it means no range, or the setting refuses its ends.
    """
    written = attribute.metadata.get("search")
    if written is None:
        return None
    setting = f'the search range of "{attribute.name}"'
    try:
        range_ = search_range(written)
    except Invalid as invalid:
        raise PluginDefinitionError(plugin, f"{setting} is wrong: {invalid}") from None
    ends = range_.values if isinstance(range_, Choices) else (range_.low, range_.high)
    for value in ends:
        for fault in faults_in_field(value, annotation, attribute):
            raise PluginDefinitionError(plugin, f"{setting} holds what it refuses: {fault.message}")
    return list(written) if isinstance(written, tuple) else written
