"""Merge a recipe with the recipe that it extends."""

from __future__ import annotations

from collections.abc import Mapping

from tfopt_core.recipe.layer import Layer, PluginLayer
from tfopt_core.recipe.model import SCRIPT_KEYS, TARGET_BOUNDS, WORKLOAD_CHOICES
from tfopt_core.recipe.tree import Node


def merge_layers(base: Layer, top: Layer) -> Layer:
    """Merge `top` over `base`: tables key by key, plugins by name."""
    tables = merge_tables(_without_replaced(base.tables, top.tables), top.tables)
    return Layer(tables, _merge_plugins(base.plugins, top.plugins))


def merge_tables(base: Node, top: Node) -> Node:
    """Return the keys of both tables, preferring `top`; values that are no tables are replaced."""
    if not (isinstance(base.value, dict) and isinstance(top.value, dict)):
        return top
    merged = dict(base.value)
    for key, node in top.value.items():
        merged[key] = merge_tables(merged[key], node) if key in merged else node
    return Node(merged, base.place)


def _merge_plugins(
    base: tuple[PluginLayer, ...], top: tuple[PluginLayer, ...]
) -> tuple[PluginLayer, ...]:
    # A disabled plugin stays in the list until the stack is complete, so that a later recipe or
    # --set enables it in its old place.
    stack = {plugin.use: plugin for plugin in base}
    stack.update({plugin.use: plugin for plugin in top})
    return tuple(stack.values())


def _without_replaced(base: Node, top: Node) -> Node:
    """Return `base` without the alternatives that `top` replaces.

    Otherwise a base's `use` and the extending recipe's `factory` would be two workloads, its
    `at_least` and an `at_most` two bounds, and its `budget` beside a number of pairs an error.
    """
    replaced = _workload_keys_replaced(base, top)
    base = _edit(base, "workload", replaced)
    if "options" in replaced:
        # both name options of the other workload
        base = _edit(_edit(base, "measure", {"baseline"}), "tune", {"options"})
    base = _edit(base, "measure", _time_replaced(_below(top, "measure")))
    measure = base.table().get("measure")
    if measure is None:
        return base
    if set(_below(top, "measure", "target")).intersection(TARGET_BOUNDS):
        measure = _edit(measure, "target", set(TARGET_BOUNDS))
    theirs = _below(top, "measure", "quality").get("metric")
    ours = _below(base, "measure", "quality").get("metric")
    if theirs is not None and ours is not None and theirs.value != ours.value:
        # direction and tolerance belong to the other metric
        measure = _edit(measure, "quality", {"direction", "tolerance"})
    return Node({**base.table(), "measure": measure}, base.place)


def _workload_keys_replaced(base: Node, top: Node) -> set[str]:
    ours, theirs = _below(base, "workload"), _below(top, "workload")
    chosen = [key for key in WORKLOAD_CHOICES if key in theirs]
    if not chosen:
        return set()
    replaced = set(WORKLOAD_CHOICES)
    if any(key not in ours or ours[key].value != theirs[key].value for key in chosen):
        replaced |= {"options", *SCRIPT_KEYS}  # they belong to the other workload
    if {"script", "module"} & set(chosen):
        replaced |= {"epochs", "batch_size"}  # a script sets these itself
    return replaced


def _time_replaced(measure: Mapping[str, Node]) -> set[str]:
    """Return which of `pairs` and `budget` the other one replaces: there is one or the other."""
    if measure.keys() >= {"pairs", "budget"}:
        return set()
    if "budget" in measure:
        return {"pairs"}
    return {"budget"} if "pairs" in measure and measure["pairs"].value != "auto" else set()


def _below(node: Node, *keys: str) -> dict[str, Node]:
    for key in keys:
        child = node.table().get(key)
        if child is None:
            return {}
        node = child
    return node.table()


def _edit(node: Node, key: str, dropped: set[str]) -> Node:
    """Return `node` without some keys of the table at `key`."""
    table = node.table().get(key)
    if table is None or not isinstance(table.value, dict):
        return node
    kept = {name: item for name, item in table.value.items() if name not in dropped}
    return Node({**node.table(), key: Node(kept, table.place)}, node.place)
