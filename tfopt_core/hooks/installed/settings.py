"""Check a plugin's settings by the types and validators of its fields, and configure it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from tfopt_core.errors import PluginDefinitionError, did_you_mean
from tfopt_core.recipe.formats import Choices, search_range
from tfopt_core.recipe.tree import Fault
from tfopt_core.recipe.values import Invalid, converted, faults_in_field, field_types, first_line


def configure(
    plugin_class: type[Any], settings: Mapping[str, Any]
) -> tuple[Any | None, list[Fault]]:
    """Return the configured plugin, or None and all faults of its settings."""
    if faults := list(_faults(plugin_class, settings)):
        return None, faults
    values = {key: converted(value) for key, value in settings.items()}
    try:
        return plugin_class(**values), []
    except (TypeError, ValueError) as error:
        return None, [Fault(first_line(error))]


def _faults(plugin_class: type[Any], settings: Mapping[str, Any]) -> Iterator[Fault]:
    fields = attrs.fields(plugin_class)
    known = [one.name for one in fields]
    for key in settings:
        if key not in known:
            mend = did_you_mean(key, known) or f"the settings are: {', '.join(known) or 'none'}"
            yield Fault("unknown setting", mend, at=(key,))
    for one in fields:
        if one.default is attrs.NOTHING and one.name not in settings:
            yield Fault(f'"{one.name}" is missing', "add it: it has no default")
    annotations = field_types(plugin_class)
    # Validators run on a blank instance, so that the problem of each setting is found.
    blank = object.__new__(plugin_class)
    for one in fields:
        if one.name in settings:
            for fault in faults_in_field(settings[one.name], annotations[one.name], one, blank):
                yield attrs.evolve(fault, at=(one.name, *fault.at))


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
