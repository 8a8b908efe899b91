"""What no type of Python says of a value: annotations of the fields of a recipe's tables."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Annotated, Literal

from tfopt_core.recipe.json_types import Format
from tfopt_core.recipe.values import Fault, Invalid, checked, expected, faults_of

_DURATION = re.compile(r"(?:(\d+(?:\.\d+)?)h)? ?(?:(\d+(?:\.\d+)?)m)? ?(?:(\d+(?:\.\d+)?)s)?")
_PAIRS, _SECONDS = "a whole number of at least 4", "a number of seconds above 0"
# Where modules are found, and how the interpreter starts: tfopt's own processes need them as well.
INTERPRETER_VARIABLES = frozenset([
    "PYTHONHOME", "PYTHONPATH", "PYTHONSAFEPATH", "PYTHONSTARTUP", "PYTHONOPTIMIZE",
    "PYTHONINSPECT", "PYTHONPLATLIBDIR",
])  # fmt: skip


def _word(value: object) -> None:
    if not checked(value, str).strip():
        raise Invalid(Fault("expected a string that is not empty"))


def duration(value: object) -> float:
    """Return a time above 0 in seconds, from a number or a string such as "1h30m".

    :raises Invalid: for others.
    """
    mend = 'write a string such as "10m", "90s" or "1h30m", or a number of seconds'
    if isinstance(value, str):
        match = _DURATION.fullmatch(value.strip())
        if match is None or not any(match.groups()):
            raise expected("a duration", value, mend)
        hours, minutes, seconds = (float(part or 0) for part in match.groups())
        total = hours * 3600 + minutes * 60 + seconds
    elif isinstance(value, bool) or not isinstance(value, int | float):
        raise expected("a duration", value, mend)
    else:
        total = float(checked(value, float))
    if not 0 < total < math.inf:
        raise expected("a finite duration above 0", value, mend)
    return total


def _pairs(value: object) -> None:
    if value == "auto":
        mend = "pairs are fixed beforehand: leave it out for 6, or give a budget"
        raise expected(_PAIRS, value, mend)
    if checked(value, int) < 4:
        raise expected(_PAIRS, value)


def _above_zero(value: object) -> None:
    if checked(value, float) <= 0:
        raise expected(_SECONDS, value)


def _variables(value: object) -> None:
    """Check a table of environment variables, without those that only the interpreter's start
    reads."""
    faults = faults_of(value, Mapping[str, str])
    for name, item in value.items() if isinstance(value, Mapping) else ():
        if isinstance(item, str) and "\0" in item:
            faults.append(Fault("a variable cannot hold a zero byte", at=(name,)))
        if name in INTERPRETER_VARIABLES:
            faults.append(
                Fault(
                    f"{name} is about the start of Python, and tfopt starts it",
                    f"set it for tfopt itself: {name}=... tfopt ...",
                    at=(name,),
                )
            )
        if not name or "=" in name or "\0" in name:
            message = "this cannot be the name of an environment variable"
            faults.append(Fault(message, at=(name,)))
    if faults:
        raise Invalid(*faults)


Pairs = Annotated[int, Format(_pairs, {"type": "integer", "minimum": 4}, _PAIRS)]
Word = Annotated[str, Format(_word, {"type": "string", "pattern": r"\S"})]
Duration = Annotated[
    float,
    Format(duration, {
        "anyOf": [
            {"type": "string", "minLength": 2,
             "pattern": r"^ *(\d+(\.\d+)?h)? ?(\d+(\.\d+)?m)? ?(\d+(\.\d+)?s)? *$"},
            {"type": "number", "exclusiveMinimum": 0},
        ]
    }),
]  # fmt: skip
SecondsOrWhole = (
    Annotated[float, Format(_above_zero, {"type": "number", "exclusiveMinimum": 0}, _SECONDS)]
    | Literal["whole"]
)
Variables = Annotated[
    Mapping[str, str],
    Format(_variables, {
        "type": "object",
        "additionalProperties": {"type": "string"},
        "propertyNames": {"not": {"enum": sorted(INTERPRETER_VARIABLES)}},
    }),
]  # fmt: skip
