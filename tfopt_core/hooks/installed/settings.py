"""Check a plugin's settings by the types and validators of its fields, and configure it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from tfopt_core.errors import PluginDefinitionError, Problem, did_you_mean
from tfopt_core.recipe import PluginEntry
from tfopt_core.recipe.paths import join_path
from tfopt_core.recipe.ranges import Choices, search_range
from tfopt_core.recipe.values import Invalid, converted, faults_in_field, field_types, first_line


def configure(plugin_class: type[Any], entry: PluginEntry) -> tuple[Any | None, list[Problem]]:
    """Return the configured plugin, or None and all problems of its settings."""
    problems = [
        *_unknown(plugin_class, entry),
        *_missing(plugin_class, entry),
        *_wrong(plugin_class, entry),
    ]
    if problems:
        return None, problems
    values = {key: converted(value) for key, value in entry.settings.items()}
    try:
        return plugin_class(**values), []
    except (TypeError, ValueError) as error:
        return None, [entry.where.problem("", first_line(error))]


def _unknown(plugin_class: type[Any], entry: PluginEntry) -> list[Problem]:
    known = [a.name for a in attrs.fields(plugin_class)]
    return [
        entry.where.problem(
            join_path("", (key,)),
            "unknown setting",
            did_you_mean(key, known) or f"the settings are: {', '.join(known) or 'none'}",
        )
        for key in entry.settings
        if key not in known
    ]


def _missing(plugin_class: type[Any], entry: PluginEntry) -> list[Problem]:
    return [
        entry.where.problem("", f'"{a.name}" is missing', "add it: it has no default")
        for a in attrs.fields(plugin_class)
        if a.default is attrs.NOTHING and a.name not in entry.settings
    ]


def _wrong(plugin_class: type[Any], entry: PluginEntry) -> list[Problem]:
    annotations = field_types(plugin_class)
    # Validators run on a blank instance, so that the problem of each setting is found.
    blank = object.__new__(plugin_class)
    return [
        entry.where.problem(join_path(one.name, fault.at), fault.message, fault.mend)
        for one in attrs.fields(plugin_class) if one.name in entry.settings
        for fault in faults_in_field(entry.settings[one.name], annotations[one.name], one, blank)
    ]  # fmt: skip


def plain(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings as plain data, with lists for tuples."""
    return {key: list(v) if isinstance(v, tuple) else v for key, v in settings.items()}


# `setting(help="...", search={"low": 1e-6, "high": 1e-2, "log": True})`
SEARCH = "search"


def declared_range(plugin: str, attribute: attrs.Attribute[Any], annotation: Any) -> Any:
    """Return the range of a setting as its plugin wrote it, None if it declares none.

    :raises PluginDefinitionError: if it means no range, or the setting refuses its ends.
    """
    written = attribute.metadata.get(SEARCH)
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
