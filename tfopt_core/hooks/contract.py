"""Check that a plugin class follows the contract, before any hook is called."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from types import FunctionType
from typing import Any

import attrs
import pluggy

from tfopt_core.errors import PluginDefinitionError, did_you_mean
from tfopt_core.hooks.plugin_class import Plugin, traits
from tfopt_core.hooks.specs import ALL_HOOKS, PROJECT, HookSpecs
from tfopt_core.recipe.model import RESERVED_KEYS

# What core reads of a plugin. A name that is near to one of these is a mistake.
KNOWN_NAMES = (*(name for name in vars(Plugin) if name[0] != "_"), *ALL_HOOKS)


class HookManager(pluggy.PluginManager):
    """A plugin manager that looks for hooks in the class of a plugin.

    pluggy 1.5 and 1.6 read every attribute of the instance, and a property runs.
    """

    def parse_hookimpl_opts(self, plugin: Any, name: str) -> pluggy.HookimplOpts | None:
        """Return the options of a marked method of a plugin or its class, None for the rest."""
        plugin_class = plugin if inspect.isclass(plugin) else type(plugin)
        attribute = inspect.getattr_static(plugin_class, name, None)
        if not isinstance(attribute, FunctionType | staticmethod | classmethod):
            return None
        return super().parse_hookimpl_opts(plugin_class, name)


def check_class(name: str, plugin_class: Any) -> None:
    """Check that a class keeps the contract: its base, its hooks and its attributes.

    :raises PluginDefinitionError: naming the plugin and what to mend.
    """

    def fail(reason: str) -> None:
        raise PluginDefinitionError(name, reason)

    if not inspect.isclass(plugin_class):
        fail(f"the entry point names a {type(plugin_class).__name__}, not a class")
    if not issubclass(plugin_class, Plugin):
        fail("does not derive from Plugin; write: @plugin, class Name(Plugin)")
    # pluggy finds plugins with ==, so two that compare by value would be taken for one
    frozen = plugin_class.__setattr__ is not object.__setattr__
    if not attrs.has(plugin_class) or plugin_class.__eq__ is not object.__eq__ or not frozen:
        fail("is not frozen, or compares by value; decorate it with @plugin")
    settings = {attribute.name for attribute in attrs.fields(plugin_class)}
    marked = implementations(plugin_class)
    for names, owner in ((RESERVED_KEYS, "recipe"), (KNOWN_NAMES, "plugin")):
        for reserved in sorted(settings.intersection(names)):
            fail(f'has a setting "{reserved}", which every {owner} reserves; rename it')
    known = {*settings, *marked, *KNOWN_NAMES}
    bases = plugin_class.__mro__[: plugin_class.__mro__.index(Plugin)]
    for attribute in (one for base in bases for one in vars(base) if one[0] != "_"):
        if attribute not in known and (hint := did_you_mean(attribute, KNOWN_NAMES)):
            fail(f'has no use for "{attribute}"; {hint}')
    _check_hooks(name, plugin_class, marked)
    traits(name, plugin_class)


def _check_hooks(
    name: str, plugin_class: type[Any], marked: Mapping[str, Mapping[str, Any]]
) -> None:
    for hook in ALL_HOOKS:
        if hook not in marked and callable(getattr(plugin_class, hook, None)):
            raise PluginDefinitionError(
                name, "is named like a hook but not marked; add @hookimpl", hook
            )
    for hook, options in marked.items():
        if hook not in ALL_HOOKS:
            raise PluginDefinitionError(
                name,
                f'there is no hook "{hook}"; {did_you_mean(hook, ALL_HOOKS)}'.rstrip("; "),
                hook,
            )
        used = [option for option, value in options.items() if value]
        if used:
            raise PluginDefinitionError(
                name, f"takes {used[0]}, but the recipe's order decides; mark it with a plain "
                "@hookimpl", hook,
            )  # fmt: skip
        _check_arguments(name, hook, plugin_class)
    if not marked:
        raise PluginDefinitionError(name, "implements no hook; mark its methods with @hookimpl")


def implementations(plugin_class: type[Any]) -> dict[str, dict[str, Any]]:
    """Return the marked methods of a plugin class, with pluggy's options for each."""
    manager = HookManager(PROJECT)
    found = {}
    for attribute in dir(plugin_class):
        options = manager.parse_hookimpl_opts(plugin_class, attribute)
        if options is not None:
            found[attribute] = dict(options)
    return found


def _check_arguments(name: str, hook: str, plugin_class: type[Any]) -> None:
    known = [p for p in inspect.signature(getattr(HookSpecs, hook)).parameters if p != "self"]
    parameters = list(inspect.signature(getattr(plugin_class, hook)).parameters.values())
    if isinstance(inspect.getattr_static(plugin_class, hook), FunctionType):
        parameters = parameters[1:]  # self
    for parameter in parameters:
        if parameter.name not in known and parameter.default is parameter.empty:
            raise PluginDefinitionError(
                name, f'has no argument "{parameter.name}"; it may take: {", ".join(known)}', hook
            )
