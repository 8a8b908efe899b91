"""One recipe file before merging, with its plugins split from the other tables."""

from __future__ import annotations

import attrs

from tfopt_core.errors import Problem
from tfopt_core.recipe.formats import Word
from tfopt_core.recipe.model import PluginEntry
from tfopt_core.recipe.tree import Node, Place
from tfopt_core.recipe.values import expected, faults_of

RESERVED = {"use": Word, "enabled": bool}


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
        keys = Node({**self.reserved, **self.settings.table()}, self.place)
        return PluginEntry(self.use, self.settings.plain(), keys)


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
        mend = 'write each plugin as [[plugins]] with use = "NAME"'
        problems += node.problems(expected("an array of tables", node.plain(), mend).faults)
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
        faults = expected("a table", element.plain(), 'write { use = "NAME" }').faults
        problems += element.problems(faults)
        return None
    reserved = {key: node for key, node in element.value.items() if key in RESERVED}
    settings = {key: node for key, node in element.value.items() if key not in RESERVED}
    wrong = {
        key: node.problems(faults_of(node.plain(), RESERVED[key])) for key, node in reserved.items()
    }
    problems += [problem for found in wrong.values() for problem in found]
    if "use" not in reserved:
        problems.append(element.place.problem("the plugin has no name", 'add use = "NAME"'))
    if "use" not in reserved or wrong["use"]:
        return None
    enabled = not reserved.get("enabled") or bool(wrong["enabled"]) or reserved["enabled"].value
    name = str(reserved["use"].value)
    return PluginLayer(name, Node(settings, element.place), element.place, reserved, enabled)
