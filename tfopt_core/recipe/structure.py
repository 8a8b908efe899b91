"""Build the classes of model.py from TOML data, and report every problem."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from typing import Any, TypeVar

import attrs

from tfopt_core.errors import Problem, did_you_mean
from tfopt_core.recipe.checks import Fault, Invalid, expected, unfit_values
from tfopt_core.recipe.layer import PluginLayer
from tfopt_core.recipe.model import MeasureSpec, PluginEntry, Recipe, WorkloadSpec
from tfopt_core.recipe.paths import join_path
from tfopt_core.recipe.table import Checked, Nested, Table, keys_of
from tfopt_core.recipe.tree import Node

T = TypeVar("T", bound=Table)

ROOT_KEYS = frozenset({"extends", "plugins"})  # read before a recipe is structured


def structure(
    table: type[T],
    node: Node,
    problems: list[Problem],
    *,
    complete: bool,
    known: Set[str] = frozenset(),
    **given: Any,
) -> T | None:
    """Build a class from its TOML table, or append the problems and return None.

    `known` are keys of the table that are read elsewhere, and `given` the fields made from them.
    Without `complete`, a missing key is no problem.
    """
    if not isinstance(node.value, dict):
        _report(node, expected("a table", node.value).faults, problems)
        return None
    keys = keys_of(table)
    whole = complete
    values: dict[str, Any] = dict(given)
    for key, child in node.value.items():
        if key in keys:
            value = _value(keys[key], child, problems, complete=complete)
            values[keys[key].name] = value
            whole = whole and value is not None  # TOML has no null, so None is a refusal
        elif key not in known:
            mend = _mend_unknown(key, table, keys.keys() | known)
            problems.append(child.place.problem("unknown key", mend))
    faults = [fault for fault in table.rules(node.value.keys()) if complete or fault.at]
    _report(node, faults, problems)
    # Everything that the constructor checks was checked above, key by key.
    return table(**values) if whole and not faults else None


def entries_of(
    plugins: tuple[PluginLayer, ...], problems: list[Problem]
) -> tuple[tuple[PluginEntry, ...], bool]:
    """Return the plugins of the stack, and whether a recipe can hold all of their settings."""
    entries = []
    fit = True
    for plugin in plugins:
        if plugin.enabled:
            entries.append(plugin.entry())
            faults = list(unfit_values(plugin.settings.plain()))
            _report(plugin.settings, faults, problems)
            fit = fit and not faults
    return tuple(entries), fit


def _value(
    attribute: attrs.Attribute[Any], node: Node, problems: list[Problem], *, complete: bool
) -> Any:
    validator = attribute.validator
    if isinstance(validator, Nested):
        return structure(validator.table, node, problems, complete=complete)
    assert isinstance(validator, Checked)
    try:
        return validator.check(node.plain())
    except Invalid as invalid:
        _report(node, invalid.faults, problems)
        return None


def _report(node: Node, faults: Iterable[Fault], problems: list[Problem]) -> None:
    problems += [node.place_at(fault.at).problem(fault.message, fault.mend) for fault in faults]


def _mend_unknown(key: str, table: type[Table], known: Set[str]) -> str:
    if table is MeasureSpec and key == "length":
        return 'say how long each run trains: seconds = 5, or seconds = "whole"'
    homes = [home for home, keys in _homes(Recipe) if key in keys]
    if homes:
        return f"it belongs {' or '.join(homes)}"
    mend = did_you_mean(key, known) or f"known keys: {', '.join(sorted(known))}"
    if table is WorkloadSpec:
        mend += ' (arguments of a factory stand under "workload.options")'
    return mend


def _homes(table: type[Table], path: str = "") -> Iterator[tuple[str, Set[str]]]:
    """Yield every table of a recipe, in words, with its keys."""
    keys = keys_of(table)
    if path:
        yield f'under "{path}"', keys.keys()
    else:
        yield "at the top of the file", keys.keys() | ROOT_KEYS
    for key, attribute in keys.items():
        if isinstance(attribute.validator, Nested):
            yield from _homes(attribute.validator.table, join_path(path, (key,)))
