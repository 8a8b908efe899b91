"""The change that one plugin's hook made to a value."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import attrs


@runtime_checkable
class DescribesChange(Protocol):
    """A value that describes how it differs from an earlier one."""

    def describe_change(self, before: Any) -> tuple[str, ...]: ...


@attrs.frozen(eq=False)
class Change:
    """The value before and after one plugin's implementation of one hook.

    `split` is "train" or "validation" for `build_dataset`, else None.
    """

    plugin: str
    hook: str
    before: Any
    after: Any
    split: str | None = None

    @property
    def changed(self) -> bool:
        """Whether the hook returned a different value.

        A model that was changed in place is the same object: only `report_effect` can confirm
        such a change.
        """
        return self.after is not self.before and bool(self.describe())

    def describe(self) -> tuple[str, ...]:
        """Return the differences as text, such as `steps_per_execution: 1 -> 16`."""
        if self.after is self.before:
            return ()
        if isinstance(self.after, DescribesChange):
            return self.after.describe_change(self.before)
        if attrs.has(type(self.after)) and type(self.after) is type(self.before):
            return tuple(_field_differences(self.before, self.after))
        return (f"{_word(self.before)} -> {_word(self.after)}",)


def _field_differences(before: Any, after: Any) -> list[str]:
    differences = []
    for attribute in attrs.fields(type(after)):
        old, new = getattr(before, attribute.name), getattr(after, attribute.name)
        if old is not new and old != new:
            differences.append(f"{attribute.name}: {_word(old)} -> {_word(new)}")
    return differences


def _word(value: Any) -> str:
    """Return a value as text; objects by their class, never by their address."""
    if value is None or isinstance(value, bool | int | float | str):
        return str(value)
    if isinstance(value, tuple | list):
        return "[" + ", ".join(_word(item) for item in value) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_word(item)}" for key, item in value.items()) + "}"
    return getattr(value, "__name__", None) or type(value).__name__
