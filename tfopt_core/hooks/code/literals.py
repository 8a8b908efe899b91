"""Write plain values and calls as Python code, on one line. No TensorFlow."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tfopt_core.hooks.code.plain_code import NoPlainForm


def literal(value: Any) -> str:
    """Return a plain value as code, with double quotes.

    :raises NoPlainForm: for any other value.
    """
    if value is None or isinstance(value, bool | int):
        return repr(value)
    if isinstance(value, float):
        return repr(float(value))
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, tuple | list):
        inner = ", ".join(map(literal, value))
        if isinstance(value, list):
            return f"[{inner}]"
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if isinstance(value, dict):
        items = (f"{literal(key)}: {literal(item)}" for key, item in value.items())
        return "{" + ", ".join(items) + "}"
    raise NoPlainForm(None, f"a {type(value).__name__} is no plain value")


def call(function: str, *arguments: str, **named: str) -> str:
    """Return a call on one line; the arguments are code already."""
    written = [*arguments, *(f"{key}={value}" for key, value in named.items())]
    return f"{function}({', '.join(written)})"


def keywords(values: Mapping[str, Any]) -> str:
    """Return the arguments of a call: `examples=6000`; with `**` if a key is no identifier."""
    if all(key.isidentifier() for key in values):
        return ", ".join(f"{key}={literal(value)}" for key, value in values.items())
    return f"**{literal(dict(values))}"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False) if text.isprintable() else repr(text)
