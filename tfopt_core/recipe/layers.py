"""Recipes over one another: a recipe over its base, and `--set` over both.

A layer is the tree of one file in which the plugins are a table by name, in the order of the stack.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence

import attrs

from tfopt_core.errors import Problem, did_you_mean
from tfopt_core.recipe.model import RESERVED_KEYS
from tfopt_core.recipe.table import SCRIPT_KEYS, TARGET_BOUNDS, WORKLOAD_CHOICES
from tfopt_core.recipe.toml import MAX_DEPTH, nested_too_deep
from tfopt_core.recipe.tree import NOWHERE, Node, Place, join_path, place_values
from tfopt_core.recipe.values import expected, faults_of

_FORM = "write path=value, such as measure.pairs=4 or plugins.cache.storage=disk"
_PLUGIN_FORM = "write plugins.NAME.key=value, such as plugins.cache.storage=disk"
_KEYS_OF_PLUGIN = 3  # plugins, NAME and at least one key


def read_layer(root: Node, problems: list[Problem]) -> Node:
    """Return a file's data as a layer; append the problems of its plugins."""
    node = root.table().get("plugins")
    if node is None:
        return root
    plugins: dict[str, Node] = {}
    if isinstance(node.value, list):
        for plugin in node.value:
            name = _name_of(plugin, problems)
            if name in plugins:
                message = f'plugin "{name}" is listed twice, at lines {plugins[name].place.line} '
                message += f"and {plugin.place.line}"
                problems.append(plugin.place.problem(message, "keep one of them"))
            elif name is not None:
                plugins[name] = plugin
    else:
        mend = 'write each plugin as [[plugins]] with use = "NAME"'
        problems += node.problems(expected("an array of tables", node.plain(), mend).faults)
    return _with_plugins(root, plugins, node.place)


def _name_of(plugin: Node, problems: list[Problem]) -> str | None:
    """Return the name of a plugin, None if it has none; append the problems of its own keys."""
    if not isinstance(plugin.value, dict):
        refused = expected("a table", plugin.plain(), 'write { use = "NAME" }')
        problems += plugin.problems(refused.faults)
        return None
    wrong = set()
    for key, node in plugin.value.items():
        if key in RESERVED_KEYS and (faults := faults_of(node.plain(), RESERVED_KEYS[key])):
            problems += node.problems(faults)
            wrong.add(key)
    if "use" not in plugin.value:
        problems.append(plugin.place.problem("the plugin has no name", 'add use = "NAME"'))
        return None
    return None if "use" in wrong else str(plugin.value["use"].value)


def is_enabled(plugin: Node) -> bool:
    """Return whether a plugin of a layer is in the stack; what is no boolean counts as true."""
    enabled = plugin.table().get("enabled")
    return enabled is None or enabled.value is not False


def _with_plugins(layer: Node, plugins: Mapping[str, Node], place: Place) -> Node:
    return Node({**layer.table(), "plugins": Node(dict(plugins), place)}, layer.place)


def merge_layers(base: Node, top: Node) -> Node:
    """Merge `top` over `base`: tables key by key, plugins by name."""
    merged = merge_tables(without_replaced(base, top), top)
    if "plugins" not in merged.table():
        return merged
    # A disabled plugin stays until the stack is complete, so that a later recipe or --set enables
    # it in its old place.
    stack = {**below(base, "plugins"), **below(top, "plugins")}
    return _with_plugins(merged, stack, {**base.table(), **top.table()}["plugins"].place)


def without_replaced(base: Node, top: Node) -> Node:
    """Return `base` without the alternatives that `top` replaces.

    Otherwise a base's `use` and the extending recipe's `factory` would be two workloads, its
    `at_least` and an `at_most` two bounds, and its `budget` beside a number of pairs an error.
    """
    ours, theirs = below(base, "workload"), below(top, "workload")
    gone: list[tuple[str, Sequence[str]]] = []
    if chosen := [key for key in WORKLOAD_CHOICES if key in theirs]:
        gone.append(("workload", WORKLOAD_CHOICES))
        if any(key not in ours or ours[key].value != theirs[key].value for key in chosen):
            # these belong to the other workload, or name options of it
            gone.append(("workload", ("options", *SCRIPT_KEYS)))
            gone += [("measure", ["baseline"]), ("tune", ["options"])]
        if {"script", "module"} & set(chosen):
            gone.append(("workload", ("epochs", "batch_size")))  # a script sets these itself
    # there are either pairs or a budget
    time = below(top, "measure")
    if "budget" in time and "pairs" not in time:
        gone.append(("measure", ["pairs"]))
    elif "pairs" in time and "budget" not in time:
        gone.append(("measure", ["budget"]))
    if set(below(top, "measure", "target")).intersection(TARGET_BOUNDS):
        gone.append(("measure.target", TARGET_BOUNDS))
    new = below(top, "measure", "quality").get("metric")
    old = below(base, "measure", "quality").get("metric")
    if new is not None and old is not None and new.value != old.value:
        # direction and tolerance belong to the other metric
        gone.append(("measure.quality", ["direction", "tolerance"]))
    for table, keys in gone:
        base = _without(base, table.split("."), keys)
    return base


def below(node: Node, *keys: str) -> dict[str, Node]:
    """Return the table at a path of keys; {} where there is none."""
    for key in keys:
        node = node.table().get(key, NOWHERE)
    return node.table()


def _without(node: Node, path: Sequence[str], dropped: Sequence[str]) -> Node:
    """Return a table without some keys of the table at a path."""
    kept = {key: one for key, one in node.table().items() if path or key not in dropped}
    if path and path[0] in kept:
        kept[path[0]] = _without(kept[path[0]], path[1:], dropped)
    return Node(kept, node.place) if isinstance(node.value, dict) else node


def merge_tables(base: Node, top: Node) -> Node:
    """Return the keys of both tables, preferring `top`; values that are no tables are replaced."""
    if not (isinstance(base.value, dict) and isinstance(top.value, dict)):
        return top
    merged = dict(base.value)
    for key, node in top.value.items():
        merged[key] = merge_tables(merged[key], node) if key in merged else node
    return Node(merged, base.place)


@attrs.frozen(eq=False)
class Override:
    """One `--set`: the path, and the value nested in tables for it, whose places have no line."""

    path: tuple[str, ...]
    root: Node

    @property
    def place(self) -> Place:
        """The place of the value."""
        return self.root.place_at(self.path)


def parse_overrides(texts: Sequence[str], problems: list[Problem]) -> list[Override]:
    """Return the parsed `--set` texts; append a problem for each that is no `path=value`."""
    overrides = []
    for text in texts:
        shown = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
        file = f"--set {shown}"
        split = _split(text)
        if split is None:
            problems.append(Problem(file, 0, "", "this is no path=value", _FORM))
            continue
        path, nested = split
        for key in reversed(path):
            nested = {key: nested}
        overrides.append(Override(path, place_values(nested, file, {})))
    return overrides


def apply_overrides(
    layer: Node, overrides: Sequence[Override], problems: list[Problem], *, complete: bool
) -> Node:
    """Merge the overrides over a recipe; `complete` is False if it may have unread plugins."""
    tables = Node({}, layer.place)
    stack = dict(below(layer, "plugins"))
    # `enabled` first, so that the order of the overrides does not matter
    for override in sorted(overrides, key=lambda one: one.path[2:3] != ("enabled",)):
        path, place = override.path, override.place
        if path[0] == "extends":
            message = "what a recipe extends cannot be set"
            problems.append(place.problem(message, "change it in the recipe"))
        elif path[0] != "plugins":
            tables = merge_tables(tables, override.root)
        elif len(path) < _KEYS_OF_PLUGIN:
            problems.append(place.problem("this names no setting of a plugin", _PLUGIN_FORM))
        elif path[1] not in stack:
            if complete:
                names = ", ".join(f'"{name}"' for name in stack)
                mend = did_you_mean(path[1], stack) or (f"the stack holds {names}" if names else "")
                problems.append(place.problem(f'no plugin "{path[1]}" in the stack', mend))
        elif path[2] == "use":
            message = "a plugin's name cannot be set"
            problems.append(place.problem(message, "change it in the recipe"))
        elif wrong := _faults_of_setting(override, stack[path[1]]):
            problems += wrong
        else:
            stack[path[1]] = merge_tables(stack[path[1]], below(override.root, "plugins")[path[1]])
    if stack:
        layer = _with_plugins(layer, stack, layer.table()["plugins"].place)
    return merge_layers(layer, tables)


def _faults_of_setting(override: Override, plugin: Node) -> list[Problem]:
    path, place = override.path, override.place
    if path[2] != "enabled":
        if is_enabled(plugin):
            return []
        mend = f"add --set {join_path('plugins', (path[1], 'enabled'))}=true"
        return [place.problem(f'plugin "{path[1]}" is disabled', mend)]
    if len(path) > _KEYS_OF_PLUGIN:
        return [place.problem('"enabled" has no keys of its own')]
    enabled = below(override.root, *path[:2])["enabled"]
    return enabled.problems(faults_of(enabled.plain(), bool))


def _split(text: str) -> tuple[tuple[str, ...], object] | None:
    """Return path and value of `path=value`, or None. Quoted keys in the path may hold "="."""
    at = text.find("=")
    while at >= 0:
        path = _parse_path(text[:at])
        if path is not None:
            return path, _parse_value(text[at + 1 :])
        at = text.find("=", at + 1)
    return None


def _parse_path(text: str) -> tuple[str, ...] | None:
    if "\n" in text or text.count(".") >= MAX_DEPTH:  # tomllib is slow on long keys
        return None
    try:
        node: object = tomllib.loads(f"{text} = 0")
    except ValueError:
        return None
    path = []
    while isinstance(node, dict):
        if len(node) != 1:  # a comment sign swallowed the rest
            return None
        ((key, node),) = node.items()
        path.append(str(key))
    return tuple(path)


def _parse_value(text: str) -> object:
    """Return the text as a TOML value, or unchanged if it is none."""
    try:
        tomllib.loads(f"value = {text}")  # "1," is an element of an array, but no value
        # In an array, no comment and no further line can follow the value.
        (within,) = tomllib.loads(f"value = [{text}]")["value"]
    except (ValueError, RecursionError):
        return text
    return text if nested_too_deep(within) else within
