"""A plugin's settings as JSON Schema: types, bounds, defaults and help of its fields."""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from typing import Any, Literal, get_args, get_origin

import attrs

Schema = dict[str, Any]

_TYPES: Mapping[Any, str] = {
    bool: "boolean", int: "integer", float: "number", str: "string",
    list: "array", tuple: "array", dict: "object",
}  # fmt: skip
_BOUNDS = {
    ">=": "minimum", ">": "exclusiveMinimum", "<=": "maximum", "<": "exclusiveMaximum",
}  # fmt: skip


def setting_schema(attribute: attrs.Attribute[Any], annotation: Any) -> Schema:
    """Return the schema of one setting."""
    schema = {**of_annotation(annotation), **of_validator(attribute.validator)}
    if attribute.metadata.get("help"):
        schema = {"description": str(attribute.metadata["help"]), **schema}
    default = attribute.default
    if isinstance(default, tuple):
        default = list(default)
    if isinstance(default, bool | int | float | str | list):
        schema["default"] = default
    return schema


def of_annotation(annotation: Any) -> Schema:
    """Return the schema of the TOML values that fit a type, as in `hooks.settings.mismatch`.

    A type that TOML lacks accepts any value.
    """
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        # TOML has no null: an optional setting is left out instead
        parts = [of_annotation(part) for part in arguments if part is not type(None)]
        return parts[0] if len(parts) == 1 else {"anyOf": parts}
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin in (tuple, list):
        return {"type": "array", "items": of_annotation(arguments[0])}
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": of_annotation(arguments[1])}
    return {"type": _TYPES[annotation]} if annotation in _TYPES else {}


def of_validator(validator: Any) -> Schema:
    """Return the bounds of attrs' own validators; other checks of a plugin are not expressed.

    Bounds apply to numbers, lengths to strings and arrays, so they can be combined with any type.
    attrs does not document the fields of its validators: if they change, the bound is left out.
    """
    match type(validator).__name__:
        case "_AndValidator":
            return {k: v for part in validator._validators for k, v in of_validator(part).items()}
        case "_OptionalValidator":
            return of_validator(validator.validator)
        case "_NumberValidator":
            return {_BOUNDS[validator.compare_op]: validator.bound}
        case "_MinLengthValidator":
            return {"minItems": validator.min_length, "minLength": validator.min_length}
        case "_MatchesReValidator":
            return {"pattern": f"^(?:{validator.pattern.pattern})$"}
    return {}
