"""Base of the classes of model.py: fields that know their TOML key, and rules between keys.

cattrs is not used here: a recipe must report all problems at once, each at its key, but the
validators of a class stop at the first failure, and rules between keys ("two workloads") must
run even if another key is wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from datetime import date, time
from typing import Any

import attrs

from tfopt_core.recipe.checks import Check, Fault, Invalid, listing


@attrs.frozen
class Checked:
    """Validator of a field that is a TOML key, by the function `check`.

    `key` is the TOML key where it differs from the field's name.
    """

    check: Check
    key: str = ""

    def __call__(self, instance: object, attribute: attrs.Attribute[Any], value: Any) -> None:
        """Check a value that is given in Python."""
        if value is None and attribute.default is None:
            return
        try:
            self.check(value)
        except Invalid as invalid:
            raise ValueError(f"{attribute.name}: {invalid}") from None


@attrs.frozen
class Nested:
    """Validator of a field that is a TOML table with its own class."""

    table: type[Table]

    def __call__(self, instance: object, attribute: attrs.Attribute[Any], value: Any) -> None:
        """Check a value that is given in Python."""
        if value is None and attribute.default is None:
            return
        if not isinstance(value, self.table):
            raise ValueError(f"{attribute.name}: expected a {self.table.__name__}")


@attrs.frozen
class Table:
    """Base of the classes that represent a TOML table."""

    @classmethod
    def rules(cls, given: Set[str]) -> Iterable[Fault]:
        """Return the faults between the given keys, whatever their values."""
        return ()

    def __attrs_post_init__(self) -> None:
        values = self.to_dict()
        for fault in self.rules(values.keys()):
            raise ValueError(f"{type(self).__name__}: {fault.message}")

    def to_dict(self) -> dict[str, Any]:
        """Return plain data by TOML key for JSON, without absent or empty values."""
        values = {}
        for key, attribute in keys_of(type(self)).items():
            value = getattr(self, attribute.name)
            if value is not None and value not in ((), {}):
                values[key] = to_json(value)
        return values


def keys_of(table: type[Table]) -> dict[str, attrs.Attribute[Any]]:
    """Return the fields of a class by TOML key; fields without a key are left out."""
    fields = {}
    for attribute in attrs.fields(table):
        if isinstance(attribute.validator, Checked):
            fields[attribute.validator.key or attribute.name] = attribute
        elif isinstance(attribute.validator, Nested):
            fields[attribute.name] = attribute
    return fields


def to_json(value: Any) -> Any:
    """Return recipe values for JSON: dates as ISO strings, tuples as lists."""
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
    """Yield a fault unless exactly one of some keys is given; `what` names them in the message."""
    present = [name for name in names if name in given]
    if not present:
        yield Fault(f"no {what}", f"give {listing(names, 'or')}")
    elif len(present) > 1:
        both = listing([f'"{name}"' for name in present], "and")
        count = {2: "two", 3: "three", 4: "four"}[len(present)]
        yield Fault(f"{count} {what}s: {both}", "keep one of them", at=(present[1],))
