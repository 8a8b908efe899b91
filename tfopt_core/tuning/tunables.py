"""Say which settings and options a search may change, and put values into a training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from tfopt_core.hooks.installed.inspection import PluginInfo
from tfopt_core.recipe import Recipe, TuneSpec
from tfopt_core.recipe.formats import SearchRange, search_range
from tfopt_core.recipe.tree import join_path
from tfopt_core.tuning.results import TunedPlugin, Values
from tfopt_core.tuning.stacks import Stack

# The key of `[tune.options]` that is no argument of a factory.
BATCH_SIZE = "batch_size"
OPTIONS, PLUGINS = "options", "plugins"


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
        return (
            join_path("", (PLUGINS, self.plugin, self.name))
            if self.plugin
            else join_path("", (OPTIONS, self.name))
        )


def tunables(
    recipe: Recipe,
    stack: Stack,
    installed: Sequence[PluginInfo],
    own: Mapping[str, Mapping[str, Any]],
) -> tuple[Tunable, ...]:
    """Return what may be searched: the settings with a range of the stack's plugins, but for those
    that the recipe gives, then the options of `[tune.options]`.

    :param own: the settings of the plugins that the recipe names.
    """
    infos = {info.name: info for info in installed}
    settings = (
        Tunable(
            plugin=one.name, name=setting.name, range=search_range(setting.search),
            written=setting.search, untuned=one.settings.get(setting.name),
        )
        for one in stack
        if one.name in infos
        for setting in infos[one.name].settings
        if setting.search is not None and setting.name not in own.get(one.name, {})
    )  # fmt: skip
    spec, workload = recipe.tune or TuneSpec(), recipe.workload
    options = (
        Tunable(
            name=name, range=range_, written=spec.options[name],
            untuned=workload.batch_size if name == BATCH_SIZE else workload.options.get(name),
        )
        for name, range_ in spec.ranges.items()
    )  # fmt: skip
    return (*settings, *options)


def with_options(recipe: Recipe, values: Values, space: Sequence[Tunable]) -> Recipe:
    """Return the recipe with these values of its workload's options."""
    chosen = {one.name: values[one.key] for one in space if not one.plugin and one.key in values}
    return with_tuned_options(recipe, chosen)


def with_tuned_options(recipe: Recipe, options: Mapping[str, Any]) -> Recipe:
    """Return the recipe with these options of its workload, the batch size in its own place."""
    if not options:
        return recipe
    workload = recipe.workload
    if BATCH_SIZE in options:
        workload = attrs.evolve(workload, batch_size=options[BATCH_SIZE])
    rest = {name: value for name, value in options.items() if name != BATCH_SIZE}
    given = {**workload.options, **rest}
    return attrs.evolve(recipe, workload=attrs.evolve(workload, options=given))


def with_values(stack: Stack, values: Values, space: Sequence[Tunable]) -> Stack:
    """Return the stack with these values of its plugins' settings."""
    changes: dict[str, dict[str, Any]] = {}
    for one in space:
        if one.plugin and one.key in values:
            changes.setdefault(one.plugin, {})[one.name] = values[one.key]
    return tuple(
        TunedPlugin(name=one.name, settings={**one.settings, **changes.get(one.name, {})})
        for one in stack
    )


def changed(values: Values, space: Sequence[Tunable]) -> dict[str, Any]:
    """Return the values that differ from the untuned ones."""
    untuned = {one.key: one.untuned for one in space}
    return {key: value for key, value in values.items() if untuned.get(key) != value}
