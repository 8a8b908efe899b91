"""Put plugins and values into a stack and a recipe, take a plugin out, configure all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from tfopt_core.errors import InputError
from tfopt_core.hooks.installed.assemble import assemble
from tfopt_core.hooks.installed.suggest import in_order
from tfopt_core.hooks.plugin_class import requiring
from tfopt_core.hooks.stack import StackedPlugin
from tfopt_core.recipe.formats import SearchRange, search_range
from tfopt_core.recipe.model import BaselineSpec, PluginEntry, Recipe
from tfopt_core.recipe.tree import join_path
from tfopt_core.trials.workload_options import BATCH_SIZE, options_of
from tfopt_core.tuning.context import SearchContext
from tfopt_core.tuning.results import Stack, StackTrial, TunedPlugin, Values, values_below


def placed(plugin: TunedPlugin, stack: Stack, tune: SearchContext) -> StackTrial | str:
    """Return the trial of the stack with a further plugin, in an order that all cards allow, or why
    the plugin cannot be added.

    One that conflicts with plugins of the stack takes their place and that of those which require
    them; so does one that builds a strategy.
    """
    name, names, known = plugin.name, [one.name for one in stack], tune.known
    out = {
        one for one in names
        if one in known[name].conflicts or name in known[one].conflicts
        or {one, name} <= tune.owners
    }  # fmt: skip
    out |= requiring(out, {one: known[one] for one in names})
    missing = [one for one in known[name].requires if one not in names or one in out]
    if missing:
        return f'it needs "{missing[0]}" in the stack'
    by_name = {one.name: one for one in (*stack, plugin) if one.name not in out}
    order = in_order({one: known[one] for one in by_name})
    return StackTrial(
        action="add", plugin=name, stack=tuple(by_name[one] for one in order), without=stack,
        replaces=tuple(one for one in names if one in out),
    )  # fmt: skip


def joined(plugins: Iterable[TunedPlugin], stack: Stack, tune: SearchContext) -> StackTrial | None:
    """Return the trial of the stack with all further plugins that can stand beside it and those
    before them, None if that is one at most."""
    with_them, names = stack, list[str]()
    for plugin in plugins:
        one = placed(plugin, with_them, tune)
        is_new = plugin.name not in [other.name for other in with_them]
        if is_new and isinstance(one, StackTrial) and not one.replaces:
            with_them, names = one.stack, [*names, plugin.name]
    if len(names) < 2:
        return None
    return StackTrial(
        action="add", plugin=names[0], joined_by=tuple(names[1:]), stack=with_them, without=stack
    )


def without(plugin: str, stack: Stack, tune: SearchContext) -> Stack:
    """Return the stack without a plugin and those that require it."""
    out = requiring({plugin}, {one.name: tune.known[one.name] for one in stack})
    return tuple(one for one in stack if one.name not in out)


def stacked(stack: Stack) -> tuple[StackedPlugin, ...]:
    """Return the configured plugins of a stack.

    :raises InputError: with the first problem of a setting, or between plugins.
    """
    entries = [PluginEntry(one.name, dict(one.settings)) for one in stack]
    plugins, problems = assemble(entries)
    if problems:
        raise InputError(problems[0].message)
    return plugins


# Settings of a stack, and options of its workload


@attrs.frozen(kw_only=True)
class Tunable:
    """A setting of a plugin, or an option of the workload (`plugin` is ""), with its range.

    :param written: the range as it is written in TOML.
    :param untuned: its value without the search; None where the workload or plugin chooses.
    """

    plugin: str = ""
    name: str
    range: SearchRange
    written: Any
    untuned: Any = None

    @property
    def key(self) -> str:
        """Its key in trials and results."""
        path = ("plugins", self.plugin, self.name) if self.plugin else ("options", self.name)
        return join_path("", path)


def tunables(tune: SearchContext, stack: Stack) -> tuple[Tunable, ...]:
    """Return what may be searched: the settings with a range of the stack's plugins, but for those
    that the recipe gives, then the options of `[tune.options]`."""
    infos = {info.name: info for info in tune.installed}
    settings = (
        Tunable(
            plugin=one.name, name=setting.name, range=search_range(setting.search),
            written=setting.search, untuned=one.settings.get(setting.name),
        )
        for one in stack
        if one.name in infos
        for setting in infos[one.name].settings
        if setting.search is not None and setting.name not in tune.own.get(one.name, {})
    )  # fmt: skip
    now = options_of(tune.request.recipe)
    options = (
        Tunable(name=name, range=range_, written=tune.spec.options[name], untuned=now.get(name))
        for name, range_ in tune.spec.ranges.items()
    )
    return (*settings, *options)


def with_options(recipe: Recipe, options: Mapping[str, Any]) -> Recipe:
    """Return the recipe with these options of its workload, the batch size in its own place."""
    if not options:
        return recipe
    workload = recipe.workload
    if BATCH_SIZE in options:
        workload = attrs.evolve(workload, batch_size=options[BATCH_SIZE])
    rest = {name: value for name, value in options.items() if name != BATCH_SIZE}
    given = {**workload.options, **rest}
    return attrs.evolve(recipe, workload=attrs.evolve(workload, options=given))


def with_values(stack: Stack, values: Values) -> Stack:
    """Return the stack with the values that are of its plugins' settings."""
    return tuple(
        attrs.evolve(one, settings={**one.settings, **values_below(values, "plugins", one.name)})
        for one in stack
    )


def against(tuned: Recipe, untuned: Recipe) -> Recipe:
    """Return the tuned recipe with a baseline whose workload is that of the untuned one."""
    now, before = options_of(tuned), options_of(untuned)
    differ = [name for name in {**now, **before} if now.get(name) != before.get(name)]
    options = {name: before[name] for name in differ if before.get(name) is not None}
    baseline = BaselineSpec(
        batch_size=options.pop(BATCH_SIZE, None), options=options,
        defaults=tuple(name for name in differ if before.get(name) is None),
    )  # fmt: skip
    measure = attrs.evolve(tuned.measure, baseline=baseline if differ else None)
    return attrs.evolve(tuned, measure=measure)
