"""Compare what two runs of one script noted."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import attrs
import numpy as np

from support.drawn_fits.case import Stack

RELATIVE, ABSOLUTE = 1e-5, 1e-6
# What a message holds that differs from process to process.
_VARYING = re.compile(r"0x[0-9a-f]+|/tmp/\S+|\{\{.*?\}\}|_\d+\b|\d+\.\d+ ?s\b")
_MISSING = "nothing"


@attrs.frozen
class Outcome:
    """What a run of a script left.

    :param notes: what it noted, in order.
    :param effects: of each plugin, whether it was applied, and how or why not.
    :param ended: what ended the run but the script's end: an exception, or the time limit.
    """

    notes: tuple[tuple[str, Any], ...] = ()
    effects: Mapping[str, tuple[bool, str]] = attrs.field(factory=dict)
    ended: str | None = None

    @property
    def raised(self) -> list[str]:
        """What the fits raised, and what ended the script."""
        raised = [value for name, value in self.notes if name.endswith(" raised")]
        return raised if self.ended is None else [*raised, self.ended]

    def refusal(self, stack: Stack) -> str:
        """Return the message of tfopt that refuses a plugin of the stack by name; "" if none."""
        for error in self.raised:
            if "tfopt" in error and any(f'"{plugin["use"]}"' in error for plugin in stack):
                return error
        return ""

    def applied(self, name: str) -> bool:
        """Return whether a plugin was applied, or may have been, in a fit that has raised."""
        return bool(self.raised) or (name in self.effects and self.effects[name][0])


@attrs.frozen
class Compared:
    """The values that are not what plain Keras gives, and the first that differs by rounding."""

    differences: tuple[str, ...]
    rounded: str = ""


def compare(plain: Outcome, other: Outcome) -> Compared:
    """Compare an outcome with that of plain Keras."""
    ours, theirs = dict(_leaves(plain)), dict(_leaves(other))
    found, rounded = [], []
    for path in (*ours, *(path for path in theirs if path not in ours)):
        one, two = ours.get(path, _MISSING), theirs.get(path, _MISSING)
        if _identical(one, two):
            continue
        if path.endswith(" raised") and "OptionalFromValue" in str(one) and two is not _MISSING:
            # plain Keras fails of what an earlier fit left that failed: the second trace of a step
            # whose first one failed has an `Optional` without values
            continue
        if path.endswith(" raised") and str(one).split(":")[0] == str(two).split(":")[0]:
            continue  # Keras words it by the layer in whose call it was raised
        shown = f"{path}: {_shown(one, two)} plain, {_shown(two, one)} here"
        (rounded if _close(one, two) else found).append(shown)
    return Compared(tuple(found), rounded[0] if rounded else "")


def _leaves(outcome: Outcome) -> Iterator[tuple[str, Any]]:
    """Yield each single value with its path, in the order in which it was noted."""
    seen: dict[str, int] = {}
    for name, value in outcome.notes:
        seen[name] = seen.get(name, 0) + 1
        yield from _parts(name if seen[name] == 1 else f"{name} #{seen[name]}", value)
    if outcome.ended is not None:
        yield from _parts("script raised", outcome.ended)


def _parts(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        yield f"keys of {path}", ", ".join(value)
        for key, item in value.items():
            yield from _parts(f"{path}[{key!r}]", item)
    elif isinstance(value, tuple):
        yield f"length of {path}", len(value)
        for index, item in enumerate(value):
            yield from _parts(f"{path}[{index}]", item)
    else:
        yield path, _VARYING.sub("_", value) if isinstance(value, str) else value


def _identical(one: Any, two: Any) -> bool:
    if isinstance(one, np.ndarray) and isinstance(two, np.ndarray):
        same_type = (one.dtype, one.shape) == (two.dtype, two.shape)
        return same_type and one.tobytes() == two.tobytes()
    return type(one) is type(two) and bool(one == two or (one != one and two != two))


def _close(one: Any, two: Any) -> bool:
    """Return whether two values are floating-point numbers of one type, or texts of them as in a
    CSV file, that differ by rounding at most."""
    try:
        texts = isinstance(one, str) and isinstance(two, str)
        first, second = (np.asarray(float(value) if texts else value) for value in (one, two))
    except ValueError:
        return False
    same_type = (first.dtype, first.shape) == (second.dtype, second.shape)
    return same_type and first.dtype.kind == "f" and np.allclose(
        second, first, rtol=RELATIVE, atol=ABSOLUTE, equal_nan=True)  # fmt: skip


def _shown(value: Any, other: Any) -> str:
    """Return a value in short; of an array the one that is farthest from the other array's."""
    if not isinstance(value, np.ndarray):
        return f"{value!r}"[:300]
    if np.shape(other) != value.shape or value.dtype.kind != "f" or not value.ndim:
        return f"{value.dtype}{value.shape} {value.ravel()[:6].tolist()}"
    farthest = np.argmax(np.nan_to_num(np.abs(value - other), nan=np.inf))
    return f"{value.ravel()[farthest]} at {np.unravel_index(farthest, value.shape)}"
