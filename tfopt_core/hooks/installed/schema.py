"""Build the JSON Schema of recipes with the installed plugins."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tfopt_core.hooks.installed.inspection import PluginInfo
from tfopt_core.recipe.json_types import Schema
from tfopt_core.recipe.schema import DESCRIPTIONS, recipe_schema


def installed_schema(infos: Sequence[PluginInfo]) -> Schema:
    """Return the schema of recipes with these plugins; broken ones are left out.

    The conditions of "allOf" refuse an unknown plugin at `use`, and a wrong setting at its key.
    "anyOf" is for completion, since Taplo does not look for keys behind conditions; its empty
    schema accepts everything.
    """
    whole = [info for info in infos if info.error is None]
    keys = {info.name: _key(info.name, place) for place, info in enumerate(whole)}
    places = {name: {"$ref": f"#/definitions/{key}"} for name, key in keys.items()}
    plugin: Schema = {
        "type": "object",
        "required": ["use"],
        "properties": {"use": _use({"enum": [*places]})},
        "anyOf": [*places.values(), {}],
        "allOf": [
            {
                "if": {"properties": {"use": {"const": name}}, "required": ["use"]},
                "then": place,
            }
            for name, place in places.items()
        ],
    }
    return recipe_schema(plugin, {keys[info.name]: plugin_schema(info) for info in whole})


def plugin_schema(info: PluginInfo) -> Schema:
    """Return the schema of one plugin's table."""
    enabled = {"description": DESCRIPTIONS["plugins.enabled"], "type": "boolean", "default": True}
    schema: Schema = {
        "title": info.name,
        "description": info.summary,
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "use": _use({"const": info.name}),
            "enabled": enabled,
            **{setting.name: dict(setting.schema) for setting in info.settings},
        },
    }
    if needed := [setting.name for setting in info.settings if setting.default is None]:
        off = {"properties": {"enabled": {"const": False}}, "required": ["enabled"]}
        schema |= {"if": off, "else": {"required": needed}}
    return schema


def _key(name: str, place: int) -> str:
    # an entry point may have any name, but references allow few characters
    return name if re.fullmatch(r"[A-Za-z0-9._-]+", name) else f"plugin:{place}"


def _use(schema: Schema) -> Schema:
    return {"description": DESCRIPTIONS["plugins.use"], "type": "string", **schema}
