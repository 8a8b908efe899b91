"""Base of the classes of model.py: fields that know their TOML key, and rules between keys.

cattrs is not used here: a recipe must report all problems at once, each at its key, but the
validators of a class stop at the first failure, and rules between keys ("two workloads") must
run even if another key is wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from datetime import date, time
from typing import Any, get_args

import attrs

from tfopt_core.recipe.tree import Fault
from tfopt_core.recipe.values import field_types


def key(default: Any, help: str, *, toml: str = "", **more: Any) -> Any:
    """Return a field that is a TOML key.

    :param help: a sentence for editors.
    :param toml: the TOML key where it differs from the field's name.
    :param more: further arguments of `attrs.field`.
    """
    if callable(default):
        default = attrs.Factory(default)
    return attrs.field(default=default, metadata={"help": help, "toml": toml}, **more)


@attrs.frozen
class Key:
    """A field that is a TOML key: what attrs knows of it, and its resolved annotation."""

    field: attrs.Attribute[Any]
    annotation: Any

    @property
    def table(self) -> type[Table] | None:
        """The class of its table; None for a single value."""
        for part in (self.annotation, *get_args(self.annotation)):
            if isinstance(part, type) and issubclass(part, Table):
                return part
        return None


@attrs.frozen
class Table:
    """Base of the classes that represent a TOML table."""

    @classmethod
    def rules(cls, given: Set[str]) -> Iterable[Fault]:
        """Return the faults between the given keys, whatever their values."""
        return ()

    def to_dict(self) -> dict[str, Any]:
        """Return plain data by TOML key for JSON, without absent or empty values."""
        values = {}
        for name, key in keys_of(type(self)).items():
            value = getattr(self, key.field.name)
            if value is not None and value not in ((), {}):
                values[name] = to_json(value)
        return values


def keys_of(table: type[Table]) -> dict[str, Key]:
    """Return the keys of a class by their names in TOML; other fields are left out."""
    types = field_types(table)
    return {
        one.metadata["toml"] or one.name: Key(one, types[one.name])
        for one in attrs.fields(table)
        if "toml" in one.metadata
    }


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
