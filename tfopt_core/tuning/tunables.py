"""Say which settings and options a search may change, and put values into a training."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs

from tfopt_core.hooks.installed.inspection import PluginInfo
from tfopt_core.recipe import Recipe, TuneSpec
from tfopt_core.recipe.paths import join_path
from tfopt_core.recipe.ranges import SearchRange, search_range
from tfopt_core.records.hyperparameters import Conditions, Hyperparameter, is_active
from tfopt_core.records.settings_search import Values
from tfopt_core.records.tuning import TunedPlugin
from tfopt_core.tuning.stacks import Stack

# The key of `[tune.options]` that is no argument of a factory.
BATCH_SIZE = "batch_size"
OPTIONS, PLUGINS = "options", "plugins"


@attrs.frozen(kw_only=True)
class Tunable:
    """A setting of a plugin, or an option of the workload (`plugin` is ""), with its range.

    :param written: the range as it is written in TOML.
    :param untuned: its value without the search; None where the workload or plugin chooses.
    :param when: the values of others, by their keys, beside which it is active; always if empty.
    """

    plugin: str = ""
    name: str
    range: SearchRange
    written: Any
    untuned: Any = None
    when: tuple[Conditions, ...] = ()

    @property
    def key(self) -> str:
        """Its key in trials and results."""
        return (
            join_path("", (PLUGINS, self.plugin, self.name))
            if self.plugin
            else (_option_key(self.name))
        )


def tunables(
    recipe: Recipe,
    stack: Stack,
    installed: Sequence[PluginInfo],
    own: Mapping[str, Mapping[str, Any]],
    declared: Sequence[Hyperparameter] = (),
) -> tuple[Tunable, ...]:
    """Return what may be searched: the settings with a range of the stack's plugins and what the
    model declares, but for those that the recipe gives, then the options of `[tune.options]`.

    :param own: the settings of the plugins that the recipe names.
    :param declared: the hyperparameters that the model declares; a range of `[tune.options]`
        replaces that of the model.
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
    known = {one.name for one in declared}
    options = (
        Tunable(
            name=name, range=range_, written=spec.options[name],
            untuned=workload.batch_size if name == BATCH_SIZE else workload.options.get(name),
        )
        for name, range_ in spec.ranges.items()
        if name not in known
    )  # fmt: skip
    return (*settings, *_declared(declared, spec, workload.options), *options)


def _declared(
    declared: Sequence[Hyperparameter], spec: TuneSpec, given: Mapping[str, Any]
) -> Iterator[Tunable]:
    """Yield the hyperparameters to search, in the order in which they are declared."""
    ranges = {
        one.name: spec.options.get(one.name, None if one.name in given else one.range)
        for one in declared
    }
    # one may stand before what decides about it
    fixed = {one.name: one.untuned for one in declared if ranges[one.name] is None}
    for one in declared:
        written = ranges[one.name]
        if written is None:
            continue
        places = _open(one.when, fixed)
        if places or not one.when:
            yield Tunable(
                name=one.name, range=search_range(written), written=written, untuned=one.untuned,
                when=() if () in places else places,
            )  # fmt: skip


def _open(when: tuple[Conditions, ...], fixed: Mapping[str, Any]) -> tuple[Conditions, ...]:
    """Return the conditions that can be met, by keys, without what is not searched."""
    return tuple(
        tuple((_option_key(name), allowed) for name, allowed in place if name not in fixed)
        for place in when
        if all(name not in fixed or fixed[name] in allowed for name, allowed in place)
    )


def _option_key(name: str) -> str:
    return join_path("", (OPTIONS, name))


def active_values(values: Values, space: Sequence[Tunable]) -> dict[str, Any]:
    """Return the values that have an effect beside the others of them."""
    given = [one for one in space if one.key in values]
    active: dict[str, Any] = {}
    while one := next_active(given, active):
        active[one.key] = values[one.key]
    return active


def next_active(space: Sequence[Tunable], values: Values) -> Tunable | None:
    """Return the first that is active beside these values and has none yet; None if there is none.

    A hyperparameter may stand before one of those that make it active, so each value asks again.
    """
    return next(
        (one for one in space if one.key not in values and is_active(one.when, values)), None
    )


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
