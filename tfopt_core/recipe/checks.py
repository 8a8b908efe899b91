"""Check single values: each check returns the converted value or raises `Invalid`.

A check is a function or a callable frozen object. The classes of model.py name one for each
field, and reading a recipe, building the class in Python and the JSON Schema (schema.py) use it.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, datetime, time
from typing import Any

import attrs

from tfopt_core.errors import did_you_mean
from tfopt_core.recipe.paths import KeyPath

Check = Callable[[object], Any]

_LONGEST_SHOWN = 40
_TOO_LARGE = "this whole number does not fit 64 bits"
_DURATION = re.compile(r"(?:(\d+(?:\.\d+)?)h)? ?(?:(\d+(?:\.\d+)?)m)? ?(?:(\d+(?:\.\d+)?)s)?")


# Where modules are found, and how the interpreter starts: tfopt's own processes need them as well.
INTERPRETER_VARIABLES = frozenset([
    "PYTHONHOME", "PYTHONPATH", "PYTHONSAFEPATH", "PYTHONSTARTUP", "PYTHONOPTIMIZE",
    "PYTHONINSPECT", "PYTHONPLATLIBDIR",
])  # fmt: skip


@attrs.frozen
class Fault:
    """A message about a value, without file and line; `at` is the path to the wrong part of it."""

    message: str
    mend: str = ""
    at: KeyPath = ()


class Invalid(ValueError):
    """A value that a check refuses, with all of its faults."""

    def __init__(self, *faults: Fault) -> None:
        self.faults = faults
        super().__init__("; ".join(fault.message for fault in faults))


def show(value: object) -> str:
    """Return a value as messages show it, with the TOML word for its type."""
    kind = _toml_type(value)
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
    """Return the error for a value of a wrong type: `expected <what>, got <value> (<type>)`."""
    return Invalid(Fault(f"expected {what}, got {show(value)}", mend))


def out_of_range(what: str, value: object, mend: str = "") -> Invalid:
    """Return the error for a value of the right type: `expected <what>, got <value>`."""
    shown = show(value).removesuffix(f" ({_toml_type(value)})")
    return Invalid(Fault(f"expected {what}, got {shown}", mend))


def text(value: object) -> str:
    """Return a string, which may be empty."""
    if not isinstance(value, str):
        raise expected("a string", value)
    return value


def word(value: object) -> str:
    """Return a string that is not blank."""
    if not text(value).strip():
        raise Invalid(Fault("expected a string that is not empty"))
    return text(value)


def flag(value: object) -> bool:
    """Return a boolean."""
    if not isinstance(value, bool):
        raise expected("a boolean (true or false)", value)
    return value


def number(value: object) -> float:
    """Return a finite number; booleans are refused."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise expected("a number", value)
    if isinstance(value, int) and not _fits(value):
        raise Invalid(Fault(_TOO_LARGE))
    if not math.isfinite(value):
        raise out_of_range("a finite number", value)
    return float(value)


def at_least_zero(value: object) -> float:
    """Return a finite number of at least 0."""
    if (checked := number(value)) < 0:
        raise out_of_range("a number of at least 0", value)
    return checked


@attrs.frozen
class Whole:
    """A check for whole numbers of at least `minimum`."""

    minimum: int

    def __call__(self, value: object) -> int:
        """Return the number."""
        if isinstance(value, bool) or not isinstance(value, int):
            raise expected("a whole number", value)
        if not _fits(value):
            raise Invalid(Fault(_TOO_LARGE))
        if value < self.minimum:
            raise out_of_range(f"a whole number of at least {self.minimum}", value)
        return value


@attrs.frozen
class Choice:
    """A check for one of several words."""

    words: tuple[str, ...]

    def __call__(self, value: object) -> str:
        """Return the word."""
        listed = listing([f'"{word}"' for word in self.words], "or")
        if not isinstance(value, str):
            raise expected(listed, value)
        if value not in self.words:
            raise out_of_range(listed, value, did_you_mean(value, self.words))
        return value


def whole(minimum: int) -> Whole:
    """Return a check for whole numbers."""
    return Whole(minimum)


def pairs(value: object) -> int:
    """Return a number of pairs, at least 4."""
    if value == "auto":
        raise out_of_range(
            "a whole number of at least 4", value,
            "pairs are fixed beforehand: leave it out for 6, or give a budget",
        )  # fmt: skip
    return Whole(4)(value)


def seconds_or_whole(value: object) -> float | str:
    """Return seconds above 0, or the word "whole"."""
    if value == "whole":
        return "whole"
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise expected('a number of seconds or "whole"', value)
    if (checked := number(value)) <= 0:
        raise out_of_range('a number of seconds above 0, or "whole"', value)
    return checked


def choice(*words: str) -> Choice:
    """Return a check for one of these words."""
    return Choice(words)


def texts(value: object) -> tuple[str, ...]:
    """Return an array of strings, as a tuple."""
    if not isinstance(value, list | tuple):
        raise expected("an array of strings", value)
    wrong = [
        Fault(f"expected a string, got {show(item)}", at=(index,))
        for index, item in enumerate(value)
        if not isinstance(item, str)
    ]
    if wrong:
        raise Invalid(*wrong)
    return tuple(value)


def variables(value: object) -> dict[str, str]:
    """Return a table of environment variables, without those that only the interpreter's start
    reads."""
    if not isinstance(value, Mapping):
        raise expected("a table", value)
    faults = [
        Fault(f"expected a string, got {show(item)}", at=(name,))
        for name, item in value.items()
        if not isinstance(item, str) or "\0" in item
    ]
    faults += [
        Fault(
            f"{name} is about the start of Python, and tfopt starts it",
            f"set it for tfopt itself: {name}=... tfopt ...",
            at=(name,),
        )
        for name in value
        if name in INTERPRETER_VARIABLES
    ]
    faults += [
        Fault("this cannot be the name of an environment variable", at=(name,))
        for name in value
        if not name or "=" in name or "\0" in name
    ]
    if faults:
        raise Invalid(*faults)
    return dict(value)


def free_table(value: object) -> dict[str, Any]:
    """Return a table with any keys, whose values a recipe can hold (see `unfit_values`)."""
    if not isinstance(value, Mapping):
        raise expected("a table", value)
    if wrong := tuple(unfit_values(value)):
        raise Invalid(*wrong)
    return dict(value)


def unfit_values(value: object, at: KeyPath = ()) -> Iterator[Fault]:
    """Yield a fault for each number that a recipe cannot hold: nan, inf, more than 64 bits.

    TOML allows these, JSON does not, and recipes are stored as JSON.
    """
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from unfit_values(item, (*at, key))
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from unfit_values(item, (*at, index))
    elif isinstance(value, float) and not math.isfinite(value):
        yield Fault(f"expected a finite number, got {value}", at=at)
    elif isinstance(value, int) and not _fits(value):
        yield Fault(_TOO_LARGE, at=at)


def duration(value: object) -> float:
    """Return a time above 0 in seconds, from a number or a string such as "1h30m"."""
    mend = 'write a string such as "10m", "90s" or "1h30m", or a number of seconds'
    if isinstance(value, str):
        match = _DURATION.fullmatch(value.strip())
        if match is None or not any(match.groups()):
            raise out_of_range("a duration", value, mend)
        hours, minutes, seconds = (float(part or 0) for part in match.groups())
        total = hours * 3600 + minutes * 60 + seconds
    elif isinstance(value, bool) or not isinstance(value, int | float):
        raise expected("a duration", value, mend)
    else:
        total = number(value)
    if not 0 < total < math.inf:
        raise out_of_range("a finite duration above 0", value, mend)
    return total


def _fits(value: int) -> bool:
    # TOML guarantees 64 bits. Beyond that, float() may overflow, and str() refuses the 4,300 digits
    # that a hexadecimal integer can reach.
    return -(2**63) <= value < 2**63


_TOML_TYPES: tuple[tuple[type, str], ...] = (
    (bool, "a boolean"),  # before int, whose subclass it is
    (int, "a whole number"),
    (float, "a number"),
    (str, "a string"),
    (datetime, "a date-time"),  # before date, whose subclass it is
    (date, "a date"),
    (time, "a time"),
    (Mapping, "a table"),
)


def _toml_type(value: object) -> str:
    return next((name for kind, name in _TOML_TYPES if isinstance(value, kind)), "an array")
