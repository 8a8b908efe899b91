"""One recipe file before merging, with its plugins split from the other tables."""

from __future__ import annotations

import attrs

from tfopt_core.errors import Problem
from tfopt_core.recipe.checks import Invalid, expected, flag, word
from tfopt_core.recipe.model import PluginEntry, Where
from tfopt_core.recipe.paths import join_path
from tfopt_core.recipe.tree import Node, Place

RESERVED = ("use", "enabled")


@attrs.frozen(eq=False)
class PluginLayer:
    """A plugin as one file or `--set` gives it; `settings` excludes the reserved keys."""

    use: str
    settings: Node
    place: Place
    reserved: dict[str, Node]
    enabled: bool = True

    def entry(self) -> PluginEntry:
        """Return the plugin as the model class."""
        key_lines: dict[str, int] = {}
        set_by: dict[str, Place] = {}
        nodes = [(join_path("", (key,)), node) for key, node in self.reserved.items()]
        nodes += [(join_path("", path), node) for path, node in self.settings.walk()]
        for key, node in nodes:
            if node.place.file == self.place.file:
                key_lines[key] = node.place.line
            else:
                set_by[key] = node.place
        place = self.place
        where = Where(place.file, place.path, place.line, key_lines, set_by)
        return PluginEntry(self.use, self.settings.plain(), where)


@attrs.frozen(eq=False)
class Layer:
    """The tables of one file, and its plugins in order. `tables` still holds the key `plugins`."""

    tables: Node
    plugins: tuple[PluginLayer, ...] = ()


def read_layer(root: Node, problems: list[Problem]) -> Layer:
    """Split a file's data into tables and plugins; append problems of the plugins."""
    node = root.table().get("plugins")
    if node is None:
        return Layer(root)
    if not isinstance(node.value, list):
        (fault,) = expected("an array of tables", node.plain()).faults
        mend = 'write each plugin as [[plugins]] with use = "NAME"'
        problems.append(node.place.problem(fault.message, mend))
        return Layer(root)
    plugins: dict[str, PluginLayer] = {}
    for element in node.value:
        plugin = _read_plugin(element, problems)
        if plugin is None:
            continue
        if plugin.use in plugins:
            first = plugins[plugin.use].place.line
            message = f'plugin "{plugin.use}" is listed twice, at lines {first} and'
            message += f" {plugin.place.line}"
            problems.append(plugin.place.problem(message, "keep one of them"))
            continue
        plugins[plugin.use] = plugin
    return Layer(root, tuple(plugins.values()))


def _read_plugin(element: Node, problems: list[Problem]) -> PluginLayer | None:
    if not isinstance(element.value, dict):
        (fault,) = expected("a table", element.plain()).faults
        problems.append(element.place.problem(fault.message, 'write { use = "NAME" }'))
        return None
    reserved = {key: node for key, node in element.value.items() if key in RESERVED}
    settings = {key: node for key, node in element.value.items() if key not in RESERVED}
    enabled = True
    if "enabled" in reserved:
        try:
            enabled = flag(reserved["enabled"].value)
        except Invalid as invalid:
            problems += [reserved["enabled"].place.problem(f.message) for f in invalid.faults]
    if "use" not in reserved:
        problems.append(element.place.problem("the plugin has no name", 'add use = "NAME"'))
        return None
    use = reserved["use"]
    try:
        name = word(use.value)
    except Invalid as invalid:
        problems += [use.place.problem(fault.message) for fault in invalid.faults]
        return None
    return PluginLayer(name, Node(settings, element.place), element.place, reserved, enabled)
