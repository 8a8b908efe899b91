"""Fields as JSON Schema: the types, bounds, defaults and help of a recipe's keys."""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, get_args, get_origin

import attrs
from attrs import validators

Schema = dict[str, Any]

_TYPES: Mapping[Any, str] = {
    bool: "boolean", int: "integer", float: "number", str: "string",
    list: "array", tuple: "array", dict: "object",
}  # fmt: skip
_BOUNDS = {
    ">=": "minimum", ">": "exclusiveMinimum", "<=": "maximum", "<": "exclusiveMaximum",
}  # fmt: skip
# The classes of attrs' validators have no public names.
_ALL_OF: Any = type(validators.and_())
_OPTIONAL: Any = type(validators.optional(validators.ge(0)))
_BOUND: Any = type(validators.ge(0))
_MIN_LENGTH: Any = type(validators.min_len(0))
_PATTERN: Any = type(validators.matches_re(""))


@attrs.frozen
class Format:
    """What an annotation says of a value beside its type.

    :param check: raises `Invalid` for a wrong value.
    :param schema: the JSON Schema of right ones.
    :param words: what messages call a right one; "" for the words of the type.
    """

    check: Callable[[object], object]
    schema: Mapping[str, Any] = attrs.field(hash=False)
    words: str = ""


def format_of(annotation: Any) -> Format | None:
    """Return the format among what is annotated to a type; others mean nothing here."""
    return next((one for one in annotation.__metadata__ if isinstance(one, Format)), None)


def setting_schema(attribute: attrs.Attribute[Any], annotation: Any) -> Schema:
    """Return the schema of one key."""
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
    """Return the schema of the TOML values that fit a type, as in `values.faults_of`.

    A type that TOML lacks accepts any value.
    """
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        # TOML has no null: an optional setting is left out instead
        parts = [of_annotation(part) for part in arguments if part is not type(None)]
        return parts[0] if len(parts) == 1 else {"anyOf": parts}
    if origin is Annotated:
        format_ = format_of(annotation)
        return of_annotation(arguments[0]) if format_ is None else dict(format_.schema)
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin in (tuple, list):
        return {"type": "array", "items": of_annotation(arguments[0])}
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": of_annotation(arguments[1])}
    return {"type": _TYPES[annotation]} if annotation in _TYPES else {}


def of_validator(validator: Any) -> Schema:
    """Return what attrs' own validators say; what a plugin checks in another way is left to it.

    A bound holds for numbers and a length for strings and arrays only, so each stands beside the
    types. attrs documents its validators, but not the fields that they keep this in.
    """
    if isinstance(validator, _ALL_OF):
        return {k: v for part in validator._validators for k, v in of_validator(part).items()}
    if isinstance(validator, _OPTIONAL):
        return of_validator(validator.validator)
    if isinstance(validator, _BOUND):
        return {_BOUNDS[validator.compare_op]: validator.bound}
    if isinstance(validator, _MIN_LENGTH):
        return {"minItems": validator.min_length, "minLength": validator.min_length}
    if isinstance(validator, _PATTERN):
        return {"pattern": f"^(?:{validator.pattern.pattern})$"}
    return {}
