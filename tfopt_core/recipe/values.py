"""Check the values of TOML keys, by the annotation and the validator of the field that takes them.

The tables of a recipe (model.py) and the plugins' settings are attrs classes, and each field is a
key. `Annotated[T, Format(...)]` stands for what no type of Python says, such as a duration; the
JSON Schema is read off the same fields.
"""

from __future__ import annotations

import json
import math
import operator
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, time
from typing import Annotated, Any, Literal, get_args, get_origin

import attrs
from attrs import validators

from tfopt_core.errors import did_you_mean
from tfopt_core.recipe.tree import Fault

Schema = dict[str, Any]

_LONGEST_SHOWN = 40
_TOO_LARGE = "this whole number does not fit 64 bits"
_TOML_TYPES: Mapping[Any, str] = {
    bool: "a boolean",  # before int, whose subclass it is
    int: "a whole number",
    float: "a number",
    str: "a string",
    datetime: "a date-time",  # before date, whose subclass it is
    date: "a date",
    time: "a time",
    Mapping: "a table",
}
# What JSON Schema calls a bound: in words, and whether a value keeps it.
_BOUNDS: Mapping[str, tuple[str, Callable[[Any, Any], bool]]] = {
    "minimum": ("at least", operator.ge), "exclusiveMinimum": ("above", operator.gt),
    "maximum": ("at most", operator.le), "exclusiveMaximum": ("below", operator.lt),
}  # fmt: skip
_JSON_TYPES: Mapping[Any, str] = {
    bool: "boolean", int: "integer", float: "number", str: "string",
    list: "array", tuple: "array", dict: "object",
}  # fmt: skip
_KEYWORDS = {
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


class Invalid(ValueError):
    """A value that is refused, with all of its faults."""

    def __init__(self, *faults: Fault) -> None:
        self.faults = faults
        super().__init__("; ".join(map(str, faults)))


def faults_of(value: object, annotation: Any) -> list[Fault]:
    """Return how a TOML value does not fit a type.

    Booleans are no numbers, as in TOML. A whole number is accepted as a number. Recipes are stored
    as JSON, so nan, inf and what takes more than 64 bits are not.
    """
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        format_ = format_of(annotation)
        if format_ is None:
            return faults_of(value, arguments[0])
        try:
            format_.check(value)
        except Invalid as invalid:
            return list(invalid.faults)
        return []
    unfit = list(_unfit_number(value))
    if origin in (typing.Union, types.UnionType):
        if value is None and type(None) in arguments:  # of settings that were resolved
            return []
        each = [faults_of(value, one) for one in arguments if one is not type(None)]
        if not all(each):
            return []
        if len(each) == 1:
            return each[0]
        return unfit if unfit and unfit in each else [_unlike(value, annotation)]
    if origin is Literal:
        fits = any(value == one and type(value) is type(one) for one in arguments)
        return [] if fits else [_unlike(value, annotation)]
    if annotation is not Any and not _is_instance(value, origin or annotation):
        return [_unlike(value, annotation)]
    if isinstance(value, list | tuple):
        return list(_inside(enumerate(value), arguments[0] if arguments else Any))
    if isinstance(value, Mapping):
        return list(_inside(value.items(), arguments[1] if arguments else Any))
    return unfit


def faults_in_field(
    value: object, annotation: Any, attribute: attrs.Attribute[Any], instance: object = None
) -> list[Fault]:
    """Return how a TOML value does not fit a field, by its annotation and its validator.

    :param instance: what the validator is given; a blank one, so that each field is checked.
    """
    faults = faults_of(value, annotation)
    if faults or attribute.validator is None:
        return faults
    try:
        attribute.validator(instance, attribute, converted(value))
    except (TypeError, ValueError) as error:
        bounds = _missed_bounds(value, of_validator(attribute.validator))
        if not bounds:
            return [Fault(first_line(error))]
        what = "a number" if float in _alternatives(annotation) else "a whole number"
        return list(expected(f"{what} {bounds}", value).faults)
    return []


def field_types(table: type[Any]) -> dict[str, Any]:
    """Return the annotation of every field of an attrs class."""
    hints = typing.get_type_hints(table, include_extras=True)
    return {one.name: hints.get(one.name, Any) for one in attrs.fields(table)}


def converted(value: Any) -> Any:
    """Return the value with arrays as tuples, so that a frozen object is immutable."""
    return tuple(converted(item) for item in value) if isinstance(value, list) else value


def expectation(annotation: Any) -> str:
    """Return a type in the words of TOML: `"auto" or a whole number`."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(expectation(a) for a in arguments if a is not type(None))
    if origin is Annotated:
        format_ = format_of(annotation)
        return (format_ and format_.words) or expectation(arguments[0])
    if origin is Literal:
        words = [f'"{a}"' if isinstance(a, str) else str(a).lower() for a in arguments]
        return listing(words, "or") if len(words) > 1 else words[0]
    if (origin or annotation) in (tuple, list):
        inner = expectation(arguments[0]) if arguments else ""
        if inner in _TOML_TYPES.values():
            inner = f"{inner.removeprefix('a ')}s"
        return f"an array of {inner}" if inner else "an array"
    if isinstance(origin or annotation, type) and issubclass(origin or annotation, Mapping):
        return "a table"
    name = getattr(annotation, "__name__", str(annotation))
    return _TOML_TYPES.get(annotation, name)


def field_expectation(attribute: attrs.Attribute[Any], annotation: Any) -> str:
    """Return what a field takes, with its bounds: `"auto" or a whole number of at least 1`."""
    words, bounds = expectation(annotation), _in_words(of_validator(attribute.validator))
    for what in ("a whole number", "a number"):
        words = words.replace(what, f"{what} {bounds}".rstrip())
    return words


def show(value: object) -> str:
    """Return a value as messages show it, with the TOML word for its type."""
    kind = next((name for one, name in _TOML_TYPES.items() if isinstance(value, one)), "an array")
    if isinstance(value, str):
        short = value if len(value) <= _LONGEST_SHOWN else value[: _LONGEST_SHOWN - 3] + "..."
        return f"{json.dumps(short, ensure_ascii=not short.isprintable())} ({kind})"
    if isinstance(value, bool):
        return f"{str(value).lower()} ({kind})"
    if isinstance(value, float) or (isinstance(value, int) and _fits(value)):
        return f"{value} ({kind})"
    return kind


def listing(words: Sequence[str], last: str) -> str:
    """Return two or more words as "a, b or c"; `last` is "and" or "or"."""
    return f"{', '.join(words[:-1])} {last} {words[-1]}"


def expected(what: str, value: object, mend: str = "") -> Invalid:
    """Return the error for a value: `expected <what>, got <value> (<type>)`."""
    return Invalid(Fault(f"expected {what}, got {show(value)}", mend))


def first_line(error: BaseException) -> str:
    """Return the first line of a validator's message; attrs appends the attribute's definition."""
    message = str(error.args[0]) if error.args else str(error)
    return " ".join(message.split()).rstrip(".").replace("'", '"')


def checked(value: object, annotation: Any) -> Any:
    """Return a value that fits a type.

    :raises Invalid: for others.
    """
    if faults := faults_of(value, annotation):
        raise Invalid(*faults)
    return value


def _missed_bounds(value: object, said: Mapping[str, Any]) -> str:
    """Return the bounds of a schema in words, if a value misses one; empty if not."""
    if isinstance(value, str):
        return ""
    kept = all(keeps(value, said[key]) for key, (_, keeps) in _BOUNDS.items() if key in said)
    return "" if kept else _in_words(said)


def _in_words(said: Mapping[str, Any]) -> str:
    """Return the bounds of a schema as `of at least 1 and at most 8` or `above 0`."""
    words = " and ".join(f"{word} {said[key]}" for key, (word, _) in _BOUNDS.items() if key in said)
    return f"of {words}" if words.startswith("at") else words


def _unlike(value: object, annotation: Any) -> Fault:
    """Return the fault of a value that fits none of the alternatives of a type."""
    what = expectation(annotation)
    words = [one for part in _alternatives(annotation) if get_origin(part) is Literal
             for one in get_args(part) if isinstance(one, str)]  # fmt: skip
    mend = did_you_mean(value, words) if isinstance(value, str) else ""
    return expected(what, value, mend).faults[0]


def _alternatives(annotation: Any) -> tuple[Any, ...]:
    """Return the parts of a union; of another type, itself."""
    is_union = get_origin(annotation) in (typing.Union, types.UnionType)
    return get_args(annotation) if is_union else (annotation,)


def _inside(items: Iterable[tuple[Any, object]], annotation: Any) -> Iterator[Fault]:
    for key, item in items:
        for fault in faults_of(item, annotation):
            yield attrs.evolve(fault, at=(key, *fault.at))


def _is_instance(value: object, kind: type[Any]) -> bool:
    if kind in (tuple, list):
        return isinstance(value, list | tuple)
    if kind in (int, float):
        wide = int | float if kind is float else int
        return isinstance(value, wide) and not isinstance(value, bool)
    return isinstance(value, kind)


def _unfit_number(value: object) -> Iterator[Fault]:
    if isinstance(value, float) and not math.isfinite(value):
        yield Fault(f"expected a finite number, got {value}")
    elif isinstance(value, int) and not _fits(value):
        yield Fault(_TOO_LARGE)


def _fits(value: int) -> bool:
    # TOML guarantees 64 bits. Beyond that, float() may overflow, and str() refuses the 4,300 digits
    # that a hexadecimal integer can reach.
    return -(2**63) <= value < 2**63


# The same as JSON Schema


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
    """Return the schema of the TOML values that fit a type, as in `faults_of`.

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
    return {"type": _JSON_TYPES[annotation]} if annotation in _JSON_TYPES else {}


def of_validator(validator: Any) -> Schema:
    """Return what attrs' own validators say; what a plugin checks in another way is left to it.

    A bound holds for numbers and a length for strings and arrays only, so each stands beside the
    types. attrs documents its validators, but not the fields that they keep this in.
    """
    if isinstance(validator, _ALL_OF):
        return {k: v for part in validator._validators for k, v in of_validator(part).items()}
    if isinstance(validator, _OPTIONAL):
        return of_validator(validator.validator)
    if isinstance(validator, _BOUND) and abs(validator.bound) != math.inf:  # JSON has no infinity
        return {_KEYWORDS[validator.compare_op]: validator.bound}
    if isinstance(validator, _MIN_LENGTH):
        return {"minItems": validator.min_length, "minLength": validator.min_length}
    if isinstance(validator, _PATTERN):
        return {"pattern": f"^(?:{validator.pattern.pattern})$"}
    return {}
