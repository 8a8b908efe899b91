"""Read the range that a plugin declares for a setting."""

from __future__ import annotations

from typing import Any

import attrs

from tfopt_core.errors import PluginDefinitionError
from tfopt_core.hooks.installed.settings import mismatch
from tfopt_core.recipe.checks import Invalid
from tfopt_core.recipe.ranges import Choices, search_range

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
        message = mismatch(value, annotation)
        if message is None and attribute.validator is not None:
            try:
                attribute.validator(object(), attribute, value)
            except (TypeError, ValueError) as error:
                message = str(error.args[0]) if error.args else str(error)
        if message is not None:
            raise PluginDefinitionError(plugin, f"{setting} holds what it refuses: {message}")
    return list(written) if isinstance(written, tuple) else written
