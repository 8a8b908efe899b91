"""Choose which installed plugins a search tries, and say of each other why it is not tried."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import attrs

from tfopt_core.errors import TfoptError
from tfopt_core.hooks.card import EQUIVALENCES, EXACT_EQUIVALENCES, Traits
from tfopt_core.hooks.diagnosis import PARTS
from tfopt_core.hooks.installed.inspection import PluginInfo
from tfopt_core.hooks.installed.suggest import LEAST_BOUND
from tfopt_core.recipe import Objective
from tfopt_core.records.diagnosis import Diagnosed, StepPart
from tfopt_core.tuning.results import NotTried


@attrs.frozen(kw_only=True)
class TuneCandidate:
    """A plugin to try, with its settings before any "auto" is resolved.

    :param bound: the most that it can gain; infinite where nothing bounds it.
    :param proposed: whether it answered the diagnosis with settings, and is not only for a part
        of a step that takes time.
    """

    plugin: str
    settings: Mapping[str, Any] = attrs.field(factory=dict)
    bound: float
    equivalence: str
    traits: Traits
    proposed: bool = False

    @property
    def is_exact(self) -> bool:
        """Whether it changes no value of the training, but perhaps the order of the examples."""
        return self.equivalence in EXACT_EQUIVALENCES


Space = tuple[tuple[TuneCandidate, ...], tuple[NotTried, ...]]


def search_space(
    diagnosed: Diagnosed,
    installed: Sequence[PluginInfo],
    *,
    proposing: frozenset[str],
    own: Mapping[str, Mapping[str, Any]],
    objective: Objective,
    is_script: bool,
    only: frozenset[str] = frozenset(),
) -> Space:
    """Return what is worth trying on top of the diagnosed stack, and the other plugins with the
    reason.

    Those that the user names come first, then those that answered the diagnosis; among these, those
    that can gain most.

    :param installed: all plugins, as read in a guarded process.
    :param proposing: the plugins that answer a diagnosis with settings or with nothing.
    :param own: the settings of the plugins that the recipe names, which are always tried, first.
    :param only: the plugins that the user wants to be tried, all of them and no others; empty for
        those that are worth it.
    """
    suggested = {one.plugin: one for one in diagnosed.suggestions}
    silent = {one.plugin: one.cause for one in diagnosed.silent}
    device_count = max(1, len(diagnosed.machine.get("gpus") or ()))
    candidates, not_tried = [], []
    for info in installed:
        if info.name in diagnosed.stack:
            continue
        suggestion = suggested.get(info.name)
        proposed = {} if suggestion is None else suggestion.settings
        # what the user names is tried, whatever a diagnosis says
        is_named = info.name in own or info.name in only
        bound = float("inf")
        if suggestion is None and not is_named:
            bound = _bound_of(info, diagnosed, objective)
        elif suggestion is not None and suggestion.bound is not None and not is_named:
            bound = suggestion.bound
        equivalence = (suggestion or info).equivalence or "unknown"
        why = "" if not only or info.name in only else "--plugin does not name it"
        why = why or _why_never(
            info, objective, is_script=is_script, named=is_named, device_count=device_count
        )
        if not why and not is_named:
            why = silent.get(info.name, "")
            if not why and suggestion is None:
                why = _why_not(info, diagnosed, proposing, bound, objective)
        if not why and equivalence == "changes" and objective != "time-to-target":
            why = _CHANGES
        if why:
            not_tried.append(NotTried(plugin=info.name, reason=why))
            continue
        assert info.traits is not None
        candidates.append(
            TuneCandidate(
                plugin=info.name, settings=own.get(info.name, proposed), bound=bound,
                equivalence=equivalence, traits=info.traits, proposed=suggestion is not None,
            )
        )  # fmt: skip
    candidates.sort(key=lambda one: (one.plugin not in own, *_rank(one)))
    return tuple(candidates), tuple(not_tried)


_CHANGES = 'it changes the training algorithm, which only objective = "time-to-target" may search'


def _why_never(
    info: PluginInfo, objective: Objective, *, is_script: bool, named: bool, device_count: int
) -> str:
    """Return why a plugin is tried on no stack; empty if it may be."""
    traits = info.traits
    if info.error is not None or traits is None:
        return f"it cannot be loaded: {info.error}"
    if traits.role != "optimization":
        return "it is an observer, and optimizes nothing"
    if is_script and traits.model_change == "replaces":
        return "it replaces the model, and a script makes its own"
    if not info.equivalence and not named:
        needed = [f'"{setting.name}"' for setting in info.settings if setting.default is None]
        what = " and ".join(needed) if needed else "settings"
        return f"it needs {what}; name it in the recipe, and it is tried with what stands there"
    if info.equivalence == "changes" and objective != "time-to-target" and not named:
        return _CHANGES
    if info.spreads and device_count < 2 and not named:
        return "it is for several devices; name it in the recipe, and it is tried on this one"
    return ""


def _why_not(
    info: PluginInfo, diagnosed: Diagnosed, proposing: frozenset[str], bound: float,
    objective: Objective,
) -> str:  # fmt: skip
    """Return why a plugin without a proposal is not tried; empty if it is."""
    assert info.traits is not None
    targets = info.traits.targets
    listed = " and ".join(targets) or "no part that it names"
    if objective == "memory":
        return "" if "memory" in targets else f"it is for {listed}, not for memory"
    if objective == "time-to-target" and "convergence" in targets:
        return ""
    if not set(targets) & set(PARTS):
        return f"it is for {listed}, which is no part of a step's time here"
    if bound < LEAST_BOUND:
        most = f"it is for {listed}, which can gain {bound:.2f}x at most here"
        return "; ".join([most, *_spread(diagnosed, targets)])
    if info.traits.model_change == "replaces":
        return "it replaces the model; name it in the recipe, and it is tried"
    if info.name in proposing:
        return "it proposes nothing for this training"
    return ""


def _spread(diagnosed: Diagnosed, targets: Sequence[str]) -> Iterator[str]:
    """Yield how much the rounds of the diagnosis differ on each part of a step."""
    for name in PARTS:
        part: StepPart = getattr(diagnosed, name)
        if name in targets and part.high > part.low:
            yield f"{name} took {part.low:.0%} to {part.high:.0%} of a step in single rounds"


def _bound_of(info: PluginInfo, diagnosed: Diagnosed, objective: Objective) -> float:
    """Return the most that a plugin can gain by what it targets."""
    if objective != "time" or info.traits is None:
        return float("inf")
    return diagnosed.bound(info.traits.targets)


def _rank(candidate: TuneCandidate) -> tuple[bool, float, int, int, str]:
    place = list[str](EQUIVALENCES).index(candidate.equivalence)
    # a search in which nothing helps ends early, so what looked at this training goes before what
    # is only for the part that bounds it
    # below a hundredth, bounds are equal: the least change to the training goes first, and of two
    # such the one for more parts of a step, which may gain what the other does and more
    return (
        not candidate.proposed, -round(candidate.bound, 2), place,
        -len(set(candidate.traits.targets) & set(PARTS)), candidate.plugin,
    )  # fmt: skip


def proposing_plugins(installed: Sequence[PluginInfo]) -> frozenset[str]:
    """Return the names of the plugins that have a `suggest`.

    They are imported here, after they were imported in a guarded process without harm.
    """
    from tfopt_core.hooks.installed.discovery import find, registrations
    from tfopt_core.hooks.plugin_class import overrides

    known, proposing = registrations(), set()
    for info in installed:
        if info.error is None:
            with suppress(TfoptError):  # named by `inspect_plugins` where it matters
                if overrides(find(info.name, known).load(), "suggest"):
                    proposing.add(info.name)
    return frozenset(proposing)
