"""Build the JSON Schema of recipes with the installed plugins, by which editors complete and check.

It is draft-07, the newest that Taplo reads, which most editors use for TOML. Some checks cannot be
expressed in a schema (a duration of "0s", a duplicate plugin): only reading a recipe makes them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

import attrs

from tfopt_core.hooks.installed.inspection import PluginInfo
from tfopt_core.recipe.formats import Word
from tfopt_core.recipe.model import Recipe, TargetSpec, WorkloadSpec
from tfopt_core.recipe.table import TARGET_BOUNDS, WORKLOAD_CHOICES, Table, keys_of
from tfopt_core.recipe.values import Schema, of_annotation, setting_schema

DRAFT = "http://json-schema.org/draft-07/schema#"

# Keys of which a table has exactly one.
_ALTERNATIVES: Mapping[type[Table], Sequence[str]] = {
    WorkloadSpec: WORKLOAD_CHOICES,
    TargetSpec: TARGET_BOUNDS,
}


def installed_schema(infos: Sequence[PluginInfo]) -> Schema:
    """Return the schema of a recipe file with these plugins, as plain data; broken ones are left
    out.

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
    base = "The recipe that this one extends: a file, relative to it, or a shipped recipe."
    stack = "The stack, in order; each plugin at most once."
    body = _table(Recipe)
    return {
        "$schema": DRAFT,
        "title": "tfopt recipe",
        "description": "A workload, a stack of plugins, and how to measure what they gain.",
        **body,
        "properties": {
            **body["properties"],
            "extends": {"description": base, **of_annotation(Word)},
            "plugins": {"description": stack, "type": "array", "items": plugin},
        },
        # a recipe that extends another inherits what it does not give
        "if": {"not": {"required": ["extends"]}},
        "then": {"required": ["workload"], "properties": dict(_complete(Recipe))},
        "definitions": {keys[info.name]: plugin_schema(info) for info in whole},
    }


def _table(table: type[Table]) -> Schema:
    properties = {}
    for name, key in keys_of(table).items():
        schema = setting_schema(key.field, key.annotation)
        properties[name] = schema if key.table is None else {**schema, **_table(key.table)}
    schema = {"type": "object", "additionalProperties": False, "properties": properties}
    # with "allOf" and "if" instead, Taplo completes no key of the table
    refused = dict(_exclusions(table))
    return {**schema, "dependencies": refused} if refused else schema


def _exclusions(table: type[Table]) -> Iterator[tuple[str, Schema]]:
    """Yield for each alternative the keys that the table's rules refuse beside it."""
    for chosen in _ALTERNATIVES.get(table, ()):
        refused: Schema = {
            key: {"not": {}}
            for key in keys_of(table)
            if any(fault.at == (key,) for fault in table.rules({chosen, key}))
        }
        yield chosen, {"properties": refused}


def _complete(table: type[Table]) -> Iterator[tuple[str, Schema]]:
    """Yield the required keys of the tables below, for a recipe that extends none."""
    for name, key in keys_of(table).items():
        if key.table is not None:
            fields = keys_of(key.table).items()
            needed = {
                "required": [inner for inner, one in fields if one.field.default is attrs.NOTHING],
                "properties": dict(_complete(key.table)),
                "anyOf": [{"required": [one]} for one in _ALTERNATIVES.get(key.table, ())],
            }
            yield name, {word: value for word, value in needed.items() if value}


def plugin_schema(info: PluginInfo) -> Schema:
    """Return the schema of one plugin's table."""
    stays = "Whether the plugin is in the stack; false keeps its place."
    schema: Schema = {
        "title": info.name,
        "description": info.summary,
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "use": _use({"const": info.name}),
            "enabled": {"description": stays, "type": "boolean", "default": True},
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
    which = "The plugin's name; `tfopt plugins` lists those that are installed."
    return {"description": which, "type": "string", **schema}
