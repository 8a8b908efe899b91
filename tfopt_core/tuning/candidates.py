"""Choose which installed plugins a search tries, and say of each other why it is not tried."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import cast

import attrs

from tfopt_core.diagnosis.draft import what_bounds
from tfopt_core.diagnosis.results import Diagnosed, StepPart
from tfopt_core.hooks.diagnosis import PARTS
from tfopt_core.hooks.installed.inspection import PluginInfo
from tfopt_core.hooks.installed.suggest import LEAST_BOUND, Suggestion
from tfopt_core.hooks.plugin_class import EQUIVALENCES, Equivalence
from tfopt_core.tuning.context import SearchContext
from tfopt_core.tuning.results import BoundStep

_CHANGES = 'it changes the training algorithm, which only objective = "time-to-target" may search'


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
        return _CHANGES
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
    if one in diagnosed.suggestions:
        return ""
    listed = " and ".join(one.targets) or "no part that it names"
    if tune.objective == "memory":
        return "" if "memory" in one.targets else f"it is for {listed}, not for memory"
    if tune.objective == "time-to-target" and "convergence" in one.targets:
        return ""
    if not set(one.targets) & set(PARTS):
        return f"it is for {listed}, which is no part of a step's time here"
    if one.most < LEAST_BOUND:
        most = f"it is for {listed}, which can gain {one.most:.2f}x at most here"
        return "; ".join([most, *_spread(diagnosed, one.targets)])
    if info.traits.model_change == "replaces":
        return "it replaces the model; name it in the recipe, and it is tried"
    return "it proposes nothing for this training" if info.suggests else ""


def _spread(diagnosed: Diagnosed, targets: Sequence[str]) -> Iterator[str]:
    """Yield how much the rounds of the diagnosis differ on each part of a step."""
    for name in PARTS:
        part: StepPart = getattr(diagnosed, name)
        if name in targets and part.high > part.low:
            yield f"{name} took {part.low:.0%} to {part.high:.0%} of a step in single rounds"


def _rank(one: Suggestion) -> tuple[float, int, int, str]:
    # below a hundredth, bounds are equal: the least change to the training goes first, and of two
    # such the one for more parts of a step, which may gain what the other does and more
    place, parts = EQUIVALENCES.index(one.equivalence), len(set(one.targets) & set(PARTS))
    return -round(one.most, 2), place, -parts, one.plugin
