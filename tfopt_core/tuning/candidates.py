"""What a search may try: plugins, each with its place in a stack, and values of settings; and why
each other plugin is not tried."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

import attrs

from tfopt_core.diagnosis.draft import what_bounds
from tfopt_core.diagnosis.results import Diagnosed
from tfopt_core.errors import InputError
from tfopt_core.hooks.diagnosis import PARTS
from tfopt_core.hooks.installed.assemble import assemble
from tfopt_core.hooks.installed.inspection import PluginInfo
from tfopt_core.hooks.installed.suggest import LEAST_BOUND, Suggestion, in_order
from tfopt_core.hooks.plugin_class import EQUIVALENCES, Equivalence, requiring
from tfopt_core.hooks.stack import StackedPlugin
from tfopt_core.recipe.formats import SearchRange, search_range
from tfopt_core.recipe.model import BaselineSpec, PluginEntry, Recipe
from tfopt_core.recipe.tree import join_path
from tfopt_core.trials.workload_options import BATCH_SIZE, options_of
from tfopt_core.tuning.context import SearchContext
from tfopt_core.tuning.results import (
    BoundStep,
    Stack,
    StackTrial,
    TunedPlugin,
    Values,
    values_below,
)


@attrs.frozen(kw_only=True)
class SearchSpace:
    """What bounds a step of a stack, and what is worth trying on top of it.

    :param baseline: the training without plugins, in words.
    :param candidates: in the order in which they are tried; one that the diagnosis did not propose
        is there for a part of a step that takes time, or since the user names it.
    :param proposed: the names of those that answered the diagnosis with settings.
    :param not_tried: why each other plugin is not tried.
    """

    bound: BoundStep
    baseline: str = ""
    candidates: tuple[Suggestion, ...]
    proposed: frozenset[str]
    not_tried: Mapping[str, str]


def search_space(tune: SearchContext, diagnosed: Diagnosed) -> SearchSpace:
    """Return what is worth trying on top of the diagnosed stack, and the other plugins with the
    reason.

    Those that the recipe names come first, then those that answered the diagnosis; among these,
    those that can gain most.
    """
    suggested = {one.plugin: one for one in diagnosed.suggestions}
    silent = {one.plugin: one.cause for one in diagnosed.silent}
    candidates, not_tried = [], {}
    for info in tune.installed:
        if info.name in diagnosed.stack:
            continue
        # what the user names is tried, whatever a diagnosis says
        is_named = info.name in tune.own or info.name in tune.options.plugins
        one = suggested.get(info.name) or _by_targets(info, diagnosed, tune)
        why = _why_never(one, info, tune)
        if not why and not is_named:
            why = silent.get(info.name, "") or _why_not(one, info, diagnosed, tune)
        if why:
            not_tried[info.name] = why
            continue
        settings = dict(tune.own.get(info.name, one.settings))
        bound = None if is_named else one.bound
        candidates.append(attrs.evolve(one, settings=settings, bound=bound))
    # a search in which nothing helps ends early, so what looked at this training goes before what
    # is only for the part that bounds it
    candidates.sort(key=lambda one: (one.plugin not in tune.own, one.plugin not in suggested,
                                     *_rank(one)))  # fmt: skip
    return SearchSpace(
        bound=BoundStep(
            stack=diagnosed.stack, sentence=what_bounds(diagnosed),
            shares={part: getattr(diagnosed, part).share for part in PARTS},
        ),
        baseline=diagnosed.baseline, candidates=tuple(candidates), proposed=frozenset(suggested),
        not_tried=not_tried,
    )  # fmt: skip


def _by_targets(info: PluginInfo, diagnosed: Diagnosed, tune: SearchContext) -> Suggestion:
    """Return a plugin that proposed nothing, with its defaults: its targets bound its gain."""
    targets = info.traits.targets if info.traits is not None else ()
    most = diagnosed.bound(targets) if tune.objective == "time" else float("inf")
    return Suggestion(
        plugin=info.name, settings={}, bound=None if most == float("inf") else most,
        targets=targets, equivalence=cast("Equivalence", info.equivalence or "unknown"),
        summary=info.summary, distribution=info.distribution,
    )  # fmt: skip


def _why_never(one: Suggestion, info: PluginInfo, tune: SearchContext) -> str:
    """Return why a plugin is tried on no stack, though it is named; empty if it may be."""
    traits = info.traits
    if tune.options.plugins and info.name not in tune.options.plugins:
        return "--plugin does not name it"
    if info.error is not None or traits is None:
        return f"it cannot be loaded: {info.error}"
    if traits.role != "optimization":
        return "it is an observer, and optimizes nothing"
    if tune.request.recipe.workload.is_script and traits.model_change == "replaces":
        return "it replaces the model, and a script makes its own"
    if one.equivalence == "changes" and tune.objective != "time-to-target":
        only = 'which only objective = "time-to-target" may search'
        return f"it changes the training algorithm, {only}"
    return ""


def _why_not(one: Suggestion, info: PluginInfo, diagnosed: Diagnosed, tune: SearchContext) -> str:
    """Return why a plugin that nobody names is not tried; empty if it is."""
    assert info.traits is not None
    if not info.equivalence:
        needed = [f'"{setting.name}"' for setting in info.settings if setting.default is None]
        what = " and ".join(needed) if needed else "settings"
        return f"it needs {what}; name it in the recipe, and it is tried with what stands there"
    if info.spreads and len(diagnosed.machine.get("gpus") or ()) < 2:
        return "it is for several devices; name it in the recipe, and it is tried on this one"
    listed = " and ".join(one.targets) or "no part that it names"
    if tune.objective == "memory" and "memory" not in one.targets:
        return f"it is for {listed}, not for memory"
    if one in diagnosed.suggestions or tune.objective == "memory":
        return ""
    if tune.objective == "time-to-target" and "convergence" in one.targets:
        return ""
    if not set(one.targets) & set(PARTS):
        return f"it is for {listed}, which is no part of a step's time here"
    if one.most < LEAST_BOUND:
        parts = {name: getattr(diagnosed, name) for name in PARTS if name in one.targets}
        spread = (
            f"; {name} took {part.low:.0%} to {part.high:.0%} of a step in single rounds"
            for name, part in parts.items()
            if part.high > part.low
        )
        most = f"it is for {listed}, which can gain {one.most:.2f}x at most here"
        return most + "".join(spread)
    if info.traits.model_change == "replaces":
        return "it replaces the model; name it in the recipe, and it is tried"
    return "it proposes nothing for this training" if info.suggests else ""


def _rank(one: Suggestion) -> tuple[float, int, int, str]:
    # below a hundredth, bounds are equal: the least change to the training goes first, and of two
    # such the one for more parts of a step, which may gain what the other does and more
    place, parts = EQUIVALENCES.index(one.equivalence), len(set(one.targets) & set(PARTS))
    return -round(one.most, 2), place, -parts, one.plugin


# The place of a plugin in a stack


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
