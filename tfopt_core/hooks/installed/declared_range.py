"""Read the range that a plugin declares for a setting."""

from __future__ import annotations

from typing import Any

import attrs

from tfopt_core.errors import PluginDefinitionError
from tfopt_core.recipe.ranges import Choices, search_range
from tfopt_core.recipe.values import Invalid, faults_in_field

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
