"""Compare what two runs of one script noted."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import attrs
import numpy as np

from support.drawn_fits.case import Stack

RELATIVE, ABSOLUTE = 1e-5, 1e-6
# What a message holds that differs from process to process.
_VARYING = re.compile(r"0x[0-9a-f]+|/tmp/\S+|\{\{.*?\}\}|_\d+\b|\d+\.\d+ ?s\b")


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

    def refusal(self, stack: Stack) -> str:
        """Return the message of tfopt that refuses a plugin of the stack by name; "" if none."""
        raised = [value for name, value in self.notes if name.endswith(" raised")]
        for error in (*raised, self.ended or ""):
            message = error if "tfopt" in error else ""
            if any(f'"{plugin["use"]}"' in message for plugin in stack):
                return str(message)
        return ""

    def applied(self, name: str) -> bool:
        """Return whether a plugin was applied, or may have been, in a fit that has raised."""
        raised = any(note.endswith(" raised") for note, _ in self.notes)
        return raised or (name in self.effects and self.effects[name][0])


@attrs.frozen
class Difference:
    """One value that is not what plain Keras gives."""

    path: str
    plain: str
    other: str

    def __str__(self) -> str:
        return f"{self.path}: {self.plain} plain, {self.other} here"


@attrs.frozen
class Compared:
    """The differences of two outcomes, and the first value that differs by rounding only."""

    differences: tuple[Difference, ...]
    rounded: str = ""

    @property
    def bitwise(self) -> bool:
        """Whether all values have the same bits."""
        return not self.differences and not self.rounded


def compare(plain: Outcome, other: Outcome, *, ordered: bool = True) -> Compared:
    """Compare an outcome with that of plain Keras.

    :param ordered: whether the examples come in the same order. If not, only counts and names are
        compared: updates, epochs, batches, examples and keys.
    """
    ours, theirs = dict(_leaves(plain)), dict(_leaves(other))
    found, rounded = [], []
    for path in (*ours, *(path for path in theirs if path not in ours)):
        one, two = ours.get(path, _MISSING), theirs.get(path, _MISSING)
        if _identical(one, two):
            continue
        if not ordered and _depends_on_order(path, one, two):
            continue
        if _both_fail(path, one, two):
            continue
        difference = Difference(path, _shown(one, two), _shown(two, one))
        (rounded if _close(one, two) else found).append(difference)
    return Compared(tuple(found), str(rounded[0]) if rounded else "")


_MISSING = "nothing"


def _both_fail(path: str, one: Any, two: Any) -> bool:
    """Return whether both fail, and plain Keras of what an earlier fit left that failed: the second
    trace of a step whose first one failed has an `Optional` without values."""
    return path.endswith(" raised") and "OptionalFromValue" in str(one) and two is not _MISSING


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
    elif isinstance(value, tuple | list):
        yield f"length of {path}", len(value)
        for index, item in enumerate(value):
            yield from _parts(f"{path}[{index}]", item)
    else:
        yield path, _VARYING.sub("_", value) if isinstance(value, str) else value


def _identical(one: Any, two: Any) -> bool:
    if type(one) is not type(two):
        return False
    if isinstance(one, np.ndarray):
        same_type = (one.dtype, one.shape) == (two.dtype, two.shape)
        return same_type and one.tobytes() == two.tobytes()
    return bool(one == two or (one != one and two != two))


def _close(one: Any, two: Any) -> bool:
    """Return whether two values are of one kind and differ by rounding at most."""
    if isinstance(one, str) and isinstance(two, str):
        return _close_texts(one, two)
    if isinstance(one, str) or isinstance(two, str) or one is None or two is None:
        return False
    if isinstance(one, bool | int) or isinstance(two, bool | int):
        return False  # not identical
    first, second = np.asarray(one), np.asarray(two)
    if (first.dtype, first.shape) != (second.dtype, second.shape):
        return False
    if first.dtype.kind not in "fc":
        return bool(np.array_equal(first, second))
    return np.allclose(second, first, rtol=RELATIVE, atol=ABSOLUTE, equal_nan=True)


def _close_texts(one: str, two: str) -> bool:
    """Return whether two texts are numbers, as in a CSV file, that differ by rounding."""
    try:
        return _close(float(one), float(two))
    except ValueError:
        return False


def _depends_on_order(path: str, one: Any, two: Any) -> bool:
    """Return whether a value may differ where examples come in another order."""
    if one is _MISSING or two is _MISSING or "rows'" in path:
        return False
    if path.startswith(("random.", "looked at", "file ")):
        return True
    first, second = np.asarray(one), np.asarray(two)
    if first.dtype.kind == "f":
        return (first.dtype, first.shape) == (second.dtype, second.shape)
    return False


def _shown(value: Any, other: Any) -> str:
    """Return a value in short; of an array the one that is farthest from the other array's."""
    if not isinstance(value, np.ndarray):
        return f"{value!r}"[:300]
    if not isinstance(other, np.ndarray) or value.shape != other.shape or value.dtype.kind != "f":
        return f"{value.dtype}{value.shape} {value.ravel()[:6].tolist()}"
    place = np.unravel_index(np.nanargmax(np.abs(value - other)), value.shape) if (
        value.size and not np.isnan(value - other).all()
    ) else ()  # fmt: skip
    return f"{value[place].tolist()} at {list(map(int, place))}" if place else f"{value.tolist()}"
