"""Check that a plugin class follows the contract, before any hook is called."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any

import attrs
import pluggy

from tfopt_core.errors import PluginDefinitionError, did_you_mean
from tfopt_core.hooks.markers import PROJECT
from tfopt_core.hooks.specs import ALL_HOOKS, VALUE_HOOKS, HookSpecs

# What a recipe says about any plugin, so no plugin can have it as a setting.
RESERVED_KEYS = ("use", "enabled")


class HookManager(pluggy.PluginManager):
    """A plugin manager that looks for hooks in the class of a plugin.

    pluggy 1.5 and 1.6 read every attribute of the instance: a property runs, and a setting that is
    not set yet raises AttributeError.
    """

    def parse_hookimpl_opts(self, plugin: Any, name: str) -> pluggy.HookimplOpts | None:
        """Return the options of a marked method of a plugin or its class, None for the rest."""
        plugin_class = plugin if inspect.isclass(plugin) else type(plugin)
        attribute = inspect.getattr_static(plugin_class, name, None)
        if not isinstance(attribute, FunctionType | staticmethod | classmethod):
            return None
        return super().parse_hookimpl_opts(plugin_class, name)


def check_class(name: str, plugin_class: Any) -> None:
    """Check that a class can be a plugin.

    :raises PluginDefinitionError: naming the plugin and what to mend.
    """

    def fail(reason: str) -> None:
        raise PluginDefinitionError(name, reason)

    if not inspect.isclass(plugin_class):
        fail(f"the entry point names a {type(plugin_class).__name__}, not a class")
    if not attrs.has(plugin_class):
        fail("is no attrs class; decorate it with @attrs.frozen(kw_only=True, eq=False)")
    for reserved in RESERVED_KEYS:
        if reserved in {attribute.name for attribute in attrs.fields(plugin_class)}:
            fail(f'has a setting "{reserved}", which every recipe reserves; rename it')
    if plugin_class.__eq__ is not object.__eq__:
        # pluggy finds plugins with ==, so two equal ones would be taken for one
        fail("compares by value; decorate the class with eq=False")
    if plugin_class.__setattr__ is object.__setattr__:
        fail("is not frozen; decorate the class with @attrs.frozen(kw_only=True, eq=False)")


def check_hooks(name: str, plugin: Any) -> None:
    """Check a plugin's implementations against the specifications, before it is registered.

    :raises PluginDefinitionError: naming plugin, hook and fix.
    """
    marked = implementations(plugin)
    for hook in ALL_HOOKS:
        if hook not in marked and callable(getattr(type(plugin), hook, None)):
            raise PluginDefinitionError(
                name, "is named like a hook but not marked; add @hookimpl", hook
            )
    for hook, options in marked.items():
        if hook not in ALL_HOOKS:
            raise PluginDefinitionError(
                name, f"there is no such hook; {did_you_mean(hook, ALL_HOOKS)}".rstrip("; "), hook
            )
        _check_options(name, hook, options)
        _check_arguments(name, hook, getattr(plugin, hook))
        if hook in VALUE_HOOKS and not inspect.isgeneratorfunction(getattr(plugin, hook)):
            raise PluginDefinitionError(name, "does not yield; begin with: value = yield", hook)
    if not marked:
        raise PluginDefinitionError(name, "implements no hook; mark its methods with @hookimpl")


def implementations(plugin: Any) -> dict[str, dict[str, Any]]:
    """Return the marked methods of a plugin or its class, with pluggy's options for each."""
    manager = HookManager(PROJECT)
    found = {}
    for attribute in dir(plugin if inspect.isclass(plugin) else type(plugin)):
        options = manager.parse_hookimpl_opts(plugin, attribute)
        if options is not None:
            found[attribute] = dict(options)
    return found


def _check_options(name: str, hook: str, options: dict[str, Any]) -> None:
    if options["tryfirst"] or options["trylast"]:
        raise PluginDefinitionError(
            name, "takes tryfirst or trylast, but the recipe's order decides; remove it", hook
        )
    if options["hookwrapper"]:
        raise PluginDefinitionError(name, "uses hookwrapper=True; use wrapper=True", hook)
    if hook in VALUE_HOOKS and not options["wrapper"]:
        raise PluginDefinitionError(
            name, "is a value hook; mark it @hookimpl(wrapper=True) and return what follows "
            "from `value = yield`", hook,
        )  # fmt: skip
    if hook not in VALUE_HOOKS and options["wrapper"]:
        raise PluginDefinitionError(name, "is no value hook; mark it with a plain @hookimpl", hook)


def _check_arguments(name: str, hook: str, method: Callable[..., Any]) -> None:
    known = [p for p in inspect.signature(getattr(HookSpecs, hook)).parameters if p != "self"]
    for parameter in inspect.signature(method).parameters.values():
        if parameter.name not in known and parameter.default is parameter.empty:
            raise PluginDefinitionError(
                name, f'has no argument "{parameter.name}"; it may take: {", ".join(known)}', hook
            )
