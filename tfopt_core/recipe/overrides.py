"""Parse and apply `--set path=value`, the last layer over a recipe."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence

import attrs

from tfopt_core.errors import Problem, did_you_mean
from tfopt_core.recipe.layer import Layer, PluginLayer
from tfopt_core.recipe.merge import merge_layers, merge_tables
from tfopt_core.recipe.paths import KeyPath, join_path
from tfopt_core.recipe.toml import MAX_DEPTH, nested_too_deep
from tfopt_core.recipe.tree import Node, Place, place_values
from tfopt_core.recipe.values import faults_of

_FORM = "write path=value, such as measure.pairs=4 or plugins.cache.storage=disk"
_PLUGIN_FORM = "write plugins.NAME.key=value, such as plugins.cache.storage=disk"
_KEYS_OF_PLUGIN = 3  # plugins, NAME and at least one key


@attrs.frozen(eq=False)
class Override:
    """One `--set`: the path and the value. Its place has no line."""

    path: tuple[str, ...]
    value: object
    place: Place

    def node(self, skip: int = 0) -> Node:
        """Return the value nested in tables for its path, without the first `skip` keys."""
        file = self.place.file
        node = place_values(self.value, file, {})
        # The nodes inside a table or an array get this place too.
        node = _moved(node, self.path)
        for depth in range(len(self.path) - 1, skip - 1, -1):
            place = Place(file, 0, join_path("", self.path[:depth]))
            node = Node({self.path[depth]: node}, place)
        return node


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
        path, value = split
        overrides.append(Override(path, value, Place(file, 0, join_path("", path))))
    return overrides


def apply_overrides(
    layer: Layer, overrides: Sequence[Override], problems: list[Problem], *, complete: bool
) -> Layer:
    """Merge the overrides over a recipe; `complete` is False if it may have unread plugins."""
    # Collected first, so that the order of the overrides does not matter.
    tables = Node({}, layer.tables.place)
    stack = {plugin.use: plugin for plugin in layer.plugins}
    settings: list[Override] = []
    for override in overrides:
        if override.path[0] == "extends":
            message = "what a recipe extends cannot be set"
            problems.append(override.place.problem(message, "change it in the recipe"))
        elif override.path[0] != "plugins":
            tables = merge_tables(tables, override.node())
        elif _is_for_a_plugin(override, stack, problems, complete=complete):
            name = override.path[1]
            if override.path[2] == "enabled":
                stack[name] = _enabled(stack[name], override, problems)
            else:
                settings.append(override)
    for override in settings:
        plugin = stack[override.path[1]]
        if not plugin.enabled:
            message = f'plugin "{plugin.use}" is disabled'
            mend = f"add --set {join_path('plugins', (plugin.use, 'enabled'))}=true"
            problems.append(override.place.problem(message, mend))
        merged = merge_tables(plugin.settings, override.node(skip=2))
        stack[plugin.use] = attrs.evolve(plugin, settings=merged)
    return merge_layers(attrs.evolve(layer, plugins=tuple(stack.values())), Layer(tables))


def _is_for_a_plugin(
    override: Override, stack: dict[str, PluginLayer], problems: list[Problem], *, complete: bool
) -> bool:
    path, place = override.path, override.place
    if len(path) < _KEYS_OF_PLUGIN:
        problems.append(place.problem("this names no setting of a plugin", _PLUGIN_FORM))
        return False
    if path[1] not in stack:
        if complete:
            names = ", ".join(f'"{name}"' for name in stack)
            mend = did_you_mean(path[1], stack) or (f"the stack holds {names}" if names else "")
            problems.append(place.problem(f'no plugin "{path[1]}" in the stack', mend))
        return False
    if path[2] == "use":
        message = "a plugin's name cannot be set"
        problems.append(place.problem(message, "change it in the recipe"))
        return False
    return True


def _enabled(plugin: PluginLayer, override: Override, problems: list[Problem]) -> PluginLayer:
    if len(override.path) > _KEYS_OF_PLUGIN:
        problems.append(override.place.problem('"enabled" has no keys of its own'))
        return plugin
    if wrong := override.node(_KEYS_OF_PLUGIN).problems(faults_of(override.value, bool)):
        problems += wrong
        return plugin
    return attrs.evolve(plugin, enabled=bool(override.value))


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


def _moved(node: Node, under: KeyPath) -> Node:
    value = node.value
    if isinstance(value, dict):
        value = {key: _moved(item, (*under, key)) for key, item in value.items()}
    elif isinstance(value, list):
        value = [_moved(item, (*under, index)) for index, item in enumerate(value)]
    return Node(value, Place(node.place.file, 0, join_path("", under)))
