"""Put plugins and values into a stack and a recipe, take a plugin out, configure all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs

from tfopt_core.errors import InputError
from tfopt_core.hooks.card import Traits
from tfopt_core.hooks.installed.assemble import assemble
from tfopt_core.hooks.installed.inspection import PluginInfo
from tfopt_core.hooks.installed.suggest import in_order
from tfopt_core.hooks.stack import StackedPlugin
from tfopt_core.recipe import PluginEntry, Recipe, TuneSpec
from tfopt_core.recipe.formats import SearchRange, search_range
from tfopt_core.recipe.model import BaselineSpec
from tfopt_core.recipe.tree import join_path
from tfopt_core.trials.workload_options import BATCH_SIZE
from tfopt_core.tuning.candidates import TuneCandidate
from tfopt_core.tuning.results import TunedPlugin, Values

Stack = tuple[TunedPlugin, ...]


@attrs.frozen
class Placed:
    """A stack with a further plugin, and the plugins whose place it takes; or why it cannot be."""

    stack: Stack = ()
    replaces: tuple[str, ...] = ()
    why_not: str = ""


def placed(
    candidate: TuneCandidate, stack: Stack, known: Mapping[str, Traits], owners: frozenset[str]
) -> Placed:
    """Return the stack with the candidate, in an order that all cards allow.

    A plugin that conflicts with plugins of the stack takes their place and that of those which
    require them.

    :param known: the traits of all installed plugins.
    :param owners: the plugins that build a strategy, of which a stack has one.
    """
    name, names = candidate.plugin, [one.name for one in stack]
    out = {other for other in names if _exclude(name, other, known)}
    if name in owners:
        out |= set(names) & owners
    out |= requiring(out, names, known)
    missing = [one for one in candidate.traits.requires if one not in names or one in out]
    if missing:
        return Placed(why_not=f'it needs "{missing[0]}" in the stack')
    rest = [one for one in stack if one.name not in out]
    with_it = [*rest, TunedPlugin(name=name, settings=candidate.settings)]
    order = in_order({one.name: known[one.name] for one in with_it})
    by_name = {one.name: one for one in with_it}
    return Placed(tuple(by_name[one] for one in order), tuple(one for one in names if one in out))


def joined(
    candidates: Iterable[TuneCandidate], stack: Stack, known: Mapping[str, Traits],
    owners: frozenset[str],
) -> tuple[Stack, tuple[str, ...]]:  # fmt: skip
    """Return the stack with all candidates that can stand beside it and those before them, and
    their names."""
    names: tuple[str, ...] = ()
    for candidate in candidates:
        if candidate.plugin in [one.name for one in stack]:
            continue
        place = placed(candidate, stack, known, owners)
        if not (place.why_not or place.replaces):
            stack, names = place.stack, (*names, candidate.plugin)
    return stack, names


def without(plugin: str, stack: Stack, known: Mapping[str, Traits]) -> Stack:
    """Return the stack without a plugin and those that require it."""
    names = [one.name for one in stack]
    out = {plugin} | requiring({plugin}, names, known)
    return tuple(one for one in stack if one.name not in out)


def requiring(out: set[str], names: Sequence[str], known: Mapping[str, Traits]) -> set[str]:
    """Return the plugins that cannot stand without those that are taken out, themselves too."""
    gone = set(out)
    while True:
        needy = {name for name in names if set(known[name].requires) & gone}
        if needy <= gone:
            return gone
        gone |= needy


def _exclude(one: str, other: str, known: Mapping[str, Traits]) -> bool:
    return other in known[one].conflicts or one in known[other].conflicts


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


def against(tuned: Recipe, untuned: Recipe) -> Recipe:
    """Return the tuned recipe with a baseline whose workload is that of the untuned one."""
    now, before = (
        {**one.workload.options, BATCH_SIZE: one.workload.batch_size} for one in (tuned, untuned)
    )
    differ = [name for name in {**now, **before} if now.get(name) != before.get(name)]
    options = {name: before[name] for name in differ if before.get(name) is not None}
    baseline = BaselineSpec(
        batch_size=options.pop(BATCH_SIZE, None), options=options,
        defaults=tuple(name for name in differ if before.get(name) is None),
    )  # fmt: skip
    measure = attrs.evolve(tuned.measure, baseline=baseline if differ else None)
    return attrs.evolve(tuned, measure=measure)


def option_values(values: Values, space: Sequence[Tunable]) -> dict[str, Any]:
    """Return the values of the workload's options, by their names."""
    return {one.name: values[one.key] for one in space if not one.plugin and one.key in values}


def changed(values: Values, space: Sequence[Tunable]) -> dict[str, Any]:
    """Return the values that differ from the untuned ones."""
    untuned = {one.key: one.untuned for one in space}
    return {key: value for key, value in values.items() if untuned.get(key) != value}
