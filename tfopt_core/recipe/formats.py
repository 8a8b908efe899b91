"""What no type of Python says of a value: annotations of the fields of a recipe's tables."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

import attrs
from attrs.validators import gt, optional

from tfopt_core.errors import did_you_mean
from tfopt_core.recipe.table import configure, key, keys_of
from tfopt_core.recipe.tree import Fault
from tfopt_core.recipe.values import Format, Invalid, checked, expected, faults_of, setting_schema

_DURATION = re.compile(r"(?:(\d+(?:\.\d+)?)h)? ?(?:(\d+(?:\.\d+)?)m)? ?(?:(\d+(?:\.\d+)?)s)?")
_SECONDS = "a number of seconds above 0"
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

# Ranges that a search draws values from, as recipes and plugins write them: `[32, 64, 128]` are
# choices, `{ low = 1e-4, high = 1e-2, log = true }` are the numbers between two ends, whole ones if
# both ends are.
Value = float | str | bool

_EXAMPLES = "write { low = 1e-4, high = 1e-2, log = true } or choices such as [32, 64, 128]"


class _Checked:
    """A range whose parts are checked against each other as it is made."""

    def __attrs_post_init__(self) -> None:
        if faults := tuple(self._faults()):
            raise Invalid(*faults)

    def _faults(self) -> Iterator[Fault]:
        raise NotImplementedError


@attrs.frozen
class Choices(_Checked):
    """Some values of one kind, at least two."""

    values: tuple[Value, ...]

    def _faults(self) -> Iterator[Fault]:
        kinds = {type(one) if isinstance(one, bool | str) else float for one in self.values}
        if unfit := faults_of(self.values, tuple[Value, ...]):
            yield from unfit
        elif len(kinds) > 1:
            yield Fault(
                "the choices are of several kinds", "give numbers, strings or booleans alone"
            )
        elif any(one in self.values[:index] for index, one in enumerate(self.values)):
            yield Fault("a choice stands twice", "name each once")
        elif len(self.values) < 2:
            what = "an empty range" if not self.values else "one choice"
            yield Fault(f"{what} leaves nothing to search", "give two choices at least")

    def holds(self, value: object) -> bool:
        """Return whether a value is one of the choices."""
        return any(value == one and type(value) is type(one) for one in self.values)


@attrs.frozen
class Between(_Checked):
    """The numbers from `low` to `high`, both included: on a log scale, or each `step` from low."""

    low: float = key(
        attrs.NOTHING, "The smallest number; whole ones if both ends and the step are."
    )
    high: float = key(attrs.NOTHING, "The largest number.")
    log: bool = key(False, "Whether to draw on a log scale.")
    step: float | None = key(
        None, "The distance of the numbers, from low.", validator=optional(gt(0))
    )

    def _faults(self) -> Iterator[Fault]:
        low, high, step = self.low, self.high, self.step
        if low >= high:
            yield Fault(f"low ({low}) is not below high ({high})", "give the smaller number as low")
        if self.log and low <= 0:
            yield Fault(f"a log scale begins above 0, and low is {low}", "raise low, or remove log")
        if self.log and step is not None:
            yield Fault("a log scale has no step", "remove step or log", at=("step",))
        elif step is not None and step > high - low > 0:
            yield Fault(
                f"a step of {step} makes no second value from {low} to {high}",
                "give a step that is no larger than the range", at=("step",),
            )  # fmt: skip

    @property
    def whole(self) -> bool:
        """Whether its numbers are whole ones."""
        return all(isinstance(one, int) for one in (self.low, self.high, self.step or 1))

    def holds(self, value: object) -> bool:
        """Return whether a value is one of the numbers."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            return False
        if not self.low <= value <= self.high or (self.whole and not isinstance(value, int)):
            return False
        if self.step is None:
            return True
        steps = (value - self.low) / self.step
        return abs(steps - round(steps)) < 1e-9 * max(1.0, abs(steps))


SearchRange = Choices | Between


def search_range(value: object) -> SearchRange:
    """Return the range that an array or a table of TOML means.

    :raises Invalid: with all of its faults.
    """
    if isinstance(value, list | tuple):
        return Choices(tuple(value))
    if not isinstance(value, Mapping):
        raise expected("an array of choices or a table with low and high", value, _EXAMPLES)
    between, faults = configure(
        Between, value, lambda name, _: did_you_mean(name, keys_of(Between))
    )
    if between is None or faults:
        raise Invalid(*faults)
    return between


def _search_ranges(value: object) -> None:
    if not isinstance(value, Mapping):
        raise expected("a table", value)
    faults: list[Fault] = []
    for name, one in value.items():
        try:
            range_ = search_range(one)
        except Invalid as invalid:
            faults += [attrs.evolve(fault, at=(name, *fault.at)) for fault in invalid.faults]
            continue
        ends = range_.values if isinstance(range_, Choices) else (range_.low, range_.high)
        if name == "batch_size" and not all(type(end) is int and end >= 1 for end in ends):
            message = "a batch size is a whole number of at least 1"
            faults.append(Fault(message, "write [32, 64, 128], for example", at=(name,)))
    if faults:
        raise Invalid(*faults)


_CHOICES: Mapping[str, Any] = {
    "anyOf": [
        {"type": "array", "minItems": 2, "uniqueItems": True, "items": {"type": kind}}
        for kind in ("number", "string", "boolean")
    ]
}
_BETWEEN: Mapping[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["low", "high"],
    "properties": {
        name: setting_schema(one.field, one.annotation) for name, one in keys_of(Between).items()
    },
}
SearchRanges = Annotated[
    Mapping[str, Any],
    Format(_search_ranges, {
        "type": "object", "additionalProperties": {"anyOf": [_CHOICES, _BETWEEN]}
    }),
]  # fmt: skip
