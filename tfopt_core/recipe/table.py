"""What the classes of model.py share: fields that know their TOML key, and rules between them.

Structuring is our own and not cattrs'. A recipe's every problem is wanted at once and at its key,
but cattrs builds a class whose field validators stop at the first that fails, and it has no place
for rules between keys ("two workloads") that still run when another key is wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from datetime import date, time
from typing import Any

import attrs

from tfopt_core.recipe.checks import Check, Fault, Invalid, listing


@attrs.frozen
class Checked:
    """Validator of a field that is a TOML key: `check` says what it accepts.

    `key` is the TOML key where it differs from the field's name.
    """

    check: Check
    key: str = ""

    def __call__(self, instance: object, attribute: attrs.Attribute[Any], value: Any) -> None:
        """Check the value that a class is built with from Python."""
        if value is None and attribute.default is None:
            return
        try:
            self.check(value)
        except Invalid as invalid:
            raise ValueError(f"{attribute.name}: {invalid}") from None


@attrs.frozen
class Nested:
    """Validator of a field that is a TOML table with a class of its own."""

    table: type[Table]

    def __call__(self, instance: object, attribute: attrs.Attribute[Any], value: Any) -> None:
        """Check the value that a class is built with from Python."""
        if value is None and attribute.default is None:
            return
        if not isinstance(value, self.table):
            raise ValueError(f"{attribute.name}: expected a {self.table.__name__}")


@attrs.frozen
class Table:
    """Base of the classes that mirror a TOML table."""

    @classmethod
    def rules(cls, given: Set[str]) -> Iterable[Fault]:
        """What is wrong between the keys that are given, whatever their values."""
        return ()

    def __attrs_post_init__(self) -> None:
        values = self.to_dict()
        for fault in self.rules(values.keys()):
            raise ValueError(f"{type(self).__name__}: {fault.message}")

    def to_dict(self) -> dict[str, Any]:
        """Plain data by TOML key, fit for JSON; what is absent or empty is left out."""
        found = {}
        for key, attribute in keys_of(type(self)).items():
            value = getattr(self, attribute.name)
            if value is not None and value not in ((), {}):
                found[key] = to_json(value)
        return found


def keys_of(table: type[Table]) -> dict[str, attrs.Attribute[Any]]:
    """The TOML keys of a class with their fields; fields without a key are left out."""
    found = {}
    for attribute in attrs.fields(table):
        if isinstance(attribute.validator, Checked):
            found[attribute.validator.key or attribute.name] = attribute
        elif isinstance(attribute.validator, Nested):
            found[attribute.name] = attribute
    return found


def to_json(value: Any) -> Any:
    """Recipe values as JSON has them: dates as ISO strings, tuples as lists."""
    if isinstance(value, Table):
        return value.to_dict()
    if isinstance(value, Mapping):
        return {key: to_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(item) for item in value]
    if isinstance(value, date | time):
        return value.isoformat()
    return value


def exactly_one(given: Set[str], names: tuple[str, ...], what: str) -> Iterator[Fault]:
    """The rule that a table has one of some keys; `what` names the thing they say."""
    found = [name for name in names if name in given]
    if not found:
        yield Fault(f"no {what}", f"give {listing(names, 'or')}")
    elif len(found) > 1:
        both = listing([f'"{name}"' for name in found], "and")
        count = {2: "two", 3: "three"}[len(found)]
        yield Fault(f"{count} {what}s: {both}", "keep one of them", at=(found[1],))
