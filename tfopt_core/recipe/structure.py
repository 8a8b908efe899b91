"""Build the classes of model.py from TOML data, and report every problem."""

from __future__ import annotations

from collections.abc import Iterator, Set
from typing import Any, TypeVar

from tfopt_core.errors import Problem, did_you_mean
from tfopt_core.recipe.model import MeasureSpec, Recipe, WorkloadSpec
from tfopt_core.recipe.table import Key, Table, keys_of
from tfopt_core.recipe.tree import Node, join_path
from tfopt_core.recipe.values import converted, expected, faults_in_field

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
        problems += node.problems(expected("a table", node.value).faults)
        return None
    keys = keys_of(table)
    whole = complete
    values: dict[str, Any] = dict(given)
    for name, child in node.value.items():
        if name in keys:
            value = _value(keys[name], child, problems, complete=complete)
            values[keys[name].field.name] = value
            whole = whole and value is not None  # TOML has no null, so None is a refusal
        elif name not in known:
            mend = _mend_unknown(name, table, keys.keys() | known)
            problems.append(child.place.problem("unknown key", mend))
    faults = [fault for fault in table.rules(node.value.keys()) if complete or fault.at]
    problems += node.problems(faults)
    # Everything that the constructor checks was checked above, key by key.
    return table(**values) if whole and not faults else None


def _value(key: Key, node: Node, problems: list[Problem], *, complete: bool) -> Any:
    if key.table is not None:
        return structure(key.table, node, problems, complete=complete)
    value = node.plain()
    faults = faults_in_field(value, key.annotation, key.field)
    problems += node.problems(faults)
    return None if faults else converted(value)


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
    for name, key in keys.items():
        if key.table is not None:
            yield from _homes(key.table, join_path(path, (name,)))
