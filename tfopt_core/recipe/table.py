"""Classes as TOML tables: objects from their keys, the tables of a recipe, and rules between keys.

cattrs is not used here: a recipe must report all problems at once, each at its key, but the
validators of a class stop at the first failure, and rules between keys ("two workloads") must
run even if another key is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from datetime import date, time
from typing import Any, TypeVar, get_args

import attrs

from tfopt_core.errors import did_you_mean
from tfopt_core.recipe.tree import Fault
from tfopt_core.recipe.values import (
    Invalid,
    converted,
    expected,
    faults_in_field,
    field_types,
    first_line,
    listing,
)

T = TypeVar("T")


def configure(
    table: type[T],
    values: Mapping[str, Any],
    mend_unknown: Callable[[str, type[Any]], str] | None = None,
    *,
    complete: bool = True,
    **given: Any,
) -> tuple[T | None, list[Fault]]:
    """Return the object of a class with these values of its keys, None if they make none, and all
    faults. An unknown key is a fault, but prevents no object.

    :param mend_unknown: what to do about an unknown key of a recipe's table; by default, the fields
        are settings of a plugin.
    :param complete: whether the table is whole: what is missing may stand in one that is not read.
    :param given: fields that are made from other keys.
    """
    keys, made, whole = keys_of(table), dict(given), complete
    faults: list[Fault] = []
    blank = object.__new__(table)  # for validators, so that the problem of each field is found
    for name, value in values.items():
        if name not in keys:
            what, mend = "setting", did_you_mean(name, keys)
            if mend_unknown is not None:
                what, mend = "key", mend_unknown(name, table)
            mend = mend or f"the {what}s are: {', '.join(keys) or 'none'}"
            faults.append(Fault(f"unknown {what}", mend, at=(name,)))
            continue
        key, inner = keys[name], keys[name].table
        if inner is None:
            wrong = faults_in_field(value, key.annotation, key.field, blank)
            one, fits = converted(value), not wrong
        else:
            one, wrong = None, [*expected("a table", value).faults]
            if isinstance(value, Mapping):
                one, wrong = configure(inner, value, mend_unknown, complete=complete)
            fits = one is not None
        made[key.field.name], whole = one, whole and fits
        faults += [attrs.evolve(fault, at=(name, *fault.at)) for fault in wrong]
    between = [one for one in _between_keys(table, {*values, *given}) if complete or one.at]
    faults += between
    if not whole or between:
        return None, faults
    try:
        return table(**made), faults
    except Invalid as invalid:
        return None, [*faults, *invalid.faults]
    except (TypeError, ValueError) as error:
        return None, [*faults, Fault(first_line(error))]


def _between_keys(table: type[Any], given: Set[str]) -> Iterator[Fault]:
    """Yield what is missing, and the faults between the given keys, whatever their values."""
    for name, key in keys_of(table).items():
        if key.field.default is attrs.NOTHING and name not in given:
            usual = (f'"{name}" is missing', "add it: it has no default")
            yield Fault(*(key.field.metadata.get("missing") or usual))
    if issubclass(table, Table):
        yield from table.rules(given)


# The tables of a recipe


def key(
    default: Any, help: str, *, toml: str = "", missing: tuple[str, str] | None = None, **more: Any
) -> Any:
    """Return a field that is a TOML key.

    :param help: a sentence for editors.
    :param toml: the TOML key where it differs from the field's name.
    :param missing: what is wrong and what to do where a key without a default is not given.
    :param more: further arguments of `attrs.field`.
    """
    if callable(default):
        default = attrs.Factory(default)
    metadata = {"help": help, "toml": toml, "missing": missing}
    return attrs.field(default=default, metadata=metadata, **more)


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


def keys_of(table: type[Any]) -> dict[str, Key]:
    """Return the keys of a class by their names in TOML: its fields, of a `Table` those with
    `key`."""
    types = field_types(table)
    return {
        one.metadata.get("toml") or one.name: Key(one, types[one.name])
        for one in attrs.fields(table)
        if "toml" in one.metadata or not issubclass(table, Table)
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


# What excludes or needs another key

WORKLOAD_CHOICES = ("use", "factory", "script", "module")
# Only scripts have these, started by their path or as a module.
SCRIPT_KEYS = ("args", "environment", "folder", "isolate", "loop", "fit", "max_epochs", "max_steps")
# What is refused, with its mend: beside a script, beside its own loop, and without a script.
_NOT_OF_SCRIPT = {
    "epochs": ("a script sets this itself", 'remove it; "max_epochs" cuts a script short'),
    "batch_size": ("a script sets this itself", "remove it"),
    "options": (
        "options are arguments of a factory",
        'give a script its arguments as args = ["--lr", "0.1"]',
    ),
}
_NOT_OF_OWN_LOOP = dict.fromkeys(("fit", "max_epochs"), (
    "a loop of the script's own has no call of fit",
    'remove it; "max_steps" ends a run after so many updates',
))  # fmt: skip
_ABOUT_SCRIPT = "this is about a script, and there is none"
_OF_SCRIPT_ALONE = {
    **dict.fromkeys(SCRIPT_KEYS, (_ABOUT_SCRIPT, "remove it")),
    "args": (_ABOUT_SCRIPT, "give a factory its arguments under [workload.options]"),
}
TARGET_BOUNDS = ("at_least", "at_most")


def workload_rules(given: Set[str]) -> Iterator[Fault]:
    """Yield a fault unless there is one workload, and for keys that do not apply to it."""
    yield from exactly_one(given, WORKLOAD_CHOICES, "workload")
    refused = _OF_SCRIPT_ALONE
    if given & {"script", "module"}:
        refused = {**_NOT_OF_SCRIPT, **(_NOT_OF_OWN_LOOP if "loop" in given else {})}
    for key, (message, mend) in refused.items():
        if key in given:
            yield Fault(message, mend, at=(key,))


def exactly_one(given: Set[str], names: tuple[str, ...], what: str) -> Iterator[Fault]:
    """Yield a fault unless exactly one of some keys is given; `what` names them in the message."""
    present = [name for name in names if name in given]
    if not present:
        yield Fault(f"no {what}", f"give {listing(names, 'or')}")
    elif len(present) > 1:
        both = listing([f'"{name}"' for name in present], "and")
        count = {2: "two", 3: "three", 4: "four"}[len(present)]
        yield Fault(f"{count} {what}s: {both}", "keep one of them", at=(present[1],))
