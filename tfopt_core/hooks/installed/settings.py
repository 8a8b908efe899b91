"""Check a plugin's settings by the types and validators of its fields, and configure it."""

from __future__ import annotations

import math
import types
import typing
from collections.abc import Mapping
from typing import Any, Literal, get_args, get_origin

import attrs

from tfopt_core.errors import Problem, did_you_mean
from tfopt_core.recipe import PluginEntry

_WORDS = {
    bool: "a boolean", int: "a whole number", float: "a number", str: "a string",
    list: "an array", dict: "a table", type(None): "nothing",
}  # fmt: skip


def field_types(plugin_class: type[Any]) -> dict[str, Any]:
    """Return the annotation of every setting, by TOML key."""
    hints = typing.get_type_hints(plugin_class)
    return {a.name: hints.get(a.name, Any) for a in attrs.fields(plugin_class)}


def configure(plugin_class: type[Any], entry: PluginEntry) -> tuple[Any | None, list[Problem]]:
    """Return the configured plugin, or None and all problems of its settings."""
    problems = [
        *_unknown(plugin_class, entry),
        *_missing(plugin_class, entry),
        *_wrong(plugin_class, entry),
    ]
    if problems:
        return None, problems
    values = {key: _converted(value) for key, value in entry.settings.items()}
    try:
        return plugin_class(**values), []
    except (TypeError, ValueError) as error:
        return None, [entry.where.problem(None, _tidy(error))]


def _unknown(plugin_class: type[Any], entry: PluginEntry) -> list[Problem]:
    known = [a.name for a in attrs.fields(plugin_class)]
    return [
        entry.where.problem(
            key,
            "unknown setting",
            did_you_mean(key, known) or f"the settings are: {', '.join(known) or 'none'}",
        )
        for key in entry.settings
        if key not in known
    ]


def _missing(plugin_class: type[Any], entry: PluginEntry) -> list[Problem]:
    return [
        entry.where.problem(None, f'"{a.name}" is missing', "add it: it has no default")
        for a in attrs.fields(plugin_class)
        if a.default is attrs.NOTHING and a.name not in entry.settings
    ]


def _wrong(plugin_class: type[Any], entry: PluginEntry) -> list[Problem]:
    problems = []
    annotations = field_types(plugin_class)
    # Validators run on a blank instance, so that the problem of each setting is found.
    blank = object.__new__(plugin_class)
    for attribute in attrs.fields(plugin_class):
        if attribute.name not in entry.settings:
            continue
        value = entry.settings[attribute.name]
        message = mismatch(value, annotations[attribute.name])
        if message is None and attribute.validator is not None:
            try:
                attribute.validator(blank, attribute, _converted(value))
            except (TypeError, ValueError) as error:
                message = _tidy(error)
        if message is not None:
            problems.append(entry.where.problem(attribute.name, message))
    return problems


def mismatch(value: Any, annotation: Any) -> str | None:
    """Return how a TOML value does not fit a type, None if it fits.

    Booleans are no numbers, as in TOML. A whole number is accepted as a number; nan and inf are
    not.
    """
    if isinstance(value, float) and not math.isfinite(value):
        return f"expected a finite number, got {value}"
    if _fits(value, annotation):
        return None
    return f"expected {expectation(annotation)}, got {_shown(value)}"


def _fits(value: Any, annotation: Any) -> bool:
    if annotation is Any:
        return True
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        return any(_fits(value, argument) for argument in arguments)
    if origin is Literal:
        return any(value == choice and type(value) is type(choice) for choice in arguments)
    if origin in (tuple, list) or annotation in (tuple, list):
        inner = arguments[0] if arguments else Any
        return isinstance(value, list | tuple) and all(_fits(item, inner) for item in value)
    if origin is not None and issubclass(origin, Mapping):
        return isinstance(value, Mapping) and all(_fits(v, arguments[1]) for v in value.values())
    if annotation is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if annotation is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, annotation)


def expectation(annotation: Any) -> str:
    """Return a type in the words of TOML: `"auto" or a whole number`."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        parts = [expectation(a) for a in arguments if a is not type(None)]
        return " or ".join(parts)
    if origin is Literal:
        return ", ".join(f'"{a}"' if isinstance(a, str) else str(a).lower() for a in arguments)
    if origin in (tuple, list):
        return f"an array of {expectation(arguments[0])}"
    if origin is not None and issubclass(origin, Mapping):
        return "a table"
    return _WORDS.get(annotation, getattr(annotation, "__name__", str(annotation)))


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return f'"{value}"'
    word = next((w for kind, w in _WORDS.items() if type(value) is kind), type(value).__name__)
    if isinstance(value, list | tuple | dict):
        return word
    return f"{str(value).lower()} ({word})"


def _converted(value: Any) -> Any:
    """Return the value with arrays as tuples, so that a frozen plugin is immutable."""
    return tuple(_converted(item) for item in value) if isinstance(value, list) else value


def _tidy(error: BaseException) -> str:
    """Return the first line of a validator's message; attrs appends the attribute's definition."""
    message = str(error.args[0]) if error.args else str(error)
    return " ".join(message.split()).rstrip(".").replace("'", '"')


def plain(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings as plain data, with lists for tuples."""
    return {key: list(v) if isinstance(v, tuple) else v for key, v in settings.items()}
