"""Try what a draft proposes, and keep what seems to save time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import attrs

from tfopt_core.diagnosis.draft import Draft, LeftOut, Tried
from tfopt_core.errors import TfoptError, first_line
from tfopt_core.hooks.diagnosis import PARTS
from tfopt_core.hooks.installed.suggest import Suggestion
from tfopt_core.hooks.plugin_class import EXACT_EQUIVALENCES
from tfopt_core.trials.request import Estimate, PluginPlan

# A plugin that saves a smaller share by its first steps is left out. What is not exact must save
# more: it is a third side of each group, which makes a measurement half as long again.
LEAST_GAIN, LEAST_GAIN_ADDED = 0.03, 0.1
# One-time costs vary by this much from start to start.
LEAST_SAVED_SECONDS = 0.25
# A plugin is tried for a share of a training's time, without the script's time before its fit,
# and left out if that is not enough.
TRY_SHARE, SHORTEST_TRY, LONGEST_TRY = 0.1, 30.0, 120.0
# On a busy machine, and where steps are slow, it takes longer to begin with: a trial builds and
# traces the training a few times, perhaps by XLA, and makes some steps. A look does as much.
TRY_STARTS, TRY_STEPS = 8.0, 12.0
# The time to try a plugin if the time of a training is unknown.
UNKNOWN_TRY = 60.0
# Of a plugin that is tried with two settings, the beginning of why one of them was left out.
EXACTLY, OTHERWISE = "kept exact: ", "where it may round differently: "
WHERE_OTHERWISE = " where it may round differently"


def try_seconds(estimate: Estimate | None, look_seconds: float = 0.0) -> float:
    """Return how many seconds a plugin may be tried for.

    :param estimate: the estimate for a training without plugins; None if unknown.
    :param look_seconds: what timing the training without plugins took on this machine.
    """
    if estimate is None:
        return max(UNKNOWN_TRY, look_seconds)
    steps = TRY_STEPS * estimate.step_seconds
    start = TRY_STARTS * estimate.set_up_seconds
    share = min(max(TRY_SHARE * estimate.seconds, SHORTEST_TRY), LONGEST_TRY)
    return max(share, look_seconds, start + steps)


def screened(
    draft: Draft,
    attempt: Callable[[Draft], Tried],
    on_try: Callable[[str], None],
    *,
    why_not_try: Callable[[bool], str] = lambda found: "",
    measure_anyway: bool = False,
) -> Draft:
    """Return the draft with those plugins that seem to save time: first the exact ones, then what
    is added to them; without an exact one, the others are the stack.

    Of each kind those come first that can gain most. What is tried stands on top of what stays
    already, unless this saves as much of the same parts of a step: the first exact plugin alone,
    all others together, and one by one what does not stay so. This claims nothing: it decides what
    is worth measuring.

    :param attempt: prepares a draft's stack.
    :param on_try: called with plugins, in words, before they are tried.
    :param why_not_try: called before that with whether a plugin stays already; returns why no
        further one is tried, "" if one may be.
    :param measure_anyway: if no plugin seems to save time, keep the one that costs least.
    """
    screening = _Screening(draft, attempt, on_try, why_not_try)
    screening.try_exact()
    # each of the others makes a claim of its own
    screening.try_alone(_most_first(draft.additions))
    stays, left_out = screening.stays, screening.left_out
    if not stays.extended and measure_anyway and screening.cheapest is not None:
        stays = attrs.evolve(screening.cheapest[1], hopeful=False)
        kept = [one.plugin for one in stays.extended]
        left_out = [left for left in left_out if left.plugin not in kept]
    if not stays.stack:  # nothing stands below what is not exact: that is the stack
        stays = attrs.evolve(
            stays, stack=stays.additions, additions=(), tried=stays.tried_extended,
            tried_extended=None,
        )  # fmt: skip
    return _with_found(attrs.evolve(stays, left_out=tuple(left_out)))


@attrs.define(eq=False)
class _Screening:
    """One screening: what stays, the estimate of a training with it, and what is left out so far.

    :ivar cheapest: of those that save no time, the seconds and the draft of the one that costs
        least.
    """

    draft: Draft
    attempt: Callable[[Draft], Tried]
    on_try: Callable[[str], None]
    why_not_try: Callable[[bool], str]
    stays: Draft = attrs.field(init=False)
    estimate: Estimate | None = attrs.field(init=False)
    left_out: list[LeftOut] = attrs.field(init=False)
    cheapest: tuple[float, Draft] | None = None

    def __attrs_post_init__(self) -> None:
        self.stays = attrs.evolve(self.draft, stack=(), additions=())
        self.estimate = self.draft.diagnosed.estimate
        self.left_out = [*self.draft.left_out]

    def try_exact(self) -> None:
        """Try the exact plugins."""
        ordered = _most_first(self.draft.stack)
        self.try_alone(ordered[:1])
        left = ordered[1:]
        several = [one for one in left if not self._why_saved(one)]
        together: tuple[str, Estimate | None] = ("", None)
        if len(several) > 1 and not self.why_not_try(bool(self.stays.extended)):
            together = self._try(several)
            if not together[0]:
                left = [one for one in left if one not in several]
        self.try_alone(left, *together)

    def try_alone(
        self, several: Sequence[Suggestion], why: str = "", takes: Estimate | None = None
    ) -> None:
        """Try plugins one by one, while there is time.

        :param why: why they did not stay when they were tried together, "" if they were not, and
            what a training with them takes.
        """
        for one in several:
            if saved := self._why_saved(one):
                self._leave_out(one, saved)
                continue
            late = self.why_not_try(bool(self.stays.extended))
            if late and why:
                self._leave_out(one, f"tried with others: {why}", takes)
            elif late:
                self._leave_out(one, late, untried=True)
            else:
                reason, alone = self._try([one])
                if reason:
                    self._leave_out(one, reason, alone)

    def _why_saved(self, one: Suggestion) -> str:
        """Return why a plugin could gain nothing on top of what stays; empty if it may.

        That is said of input and dispatch alone, which plugins may save whole.
        """
        without, stays = self.draft.diagnosed.estimate, self.stays.extended
        parts = set(one.targets) & set(PARTS)
        saved = {part for other in stays for part in other.targets} & {"input", "dispatch"}
        if without is None or self.estimate is None or not parts or not parts <= saved:
            return ""
        best, takes = without.step_seconds / one.most, self.estimate.step_seconds
        if takes > best:
            return ""
        names = ", ".join(f'"{other.plugin}"' for other in stays)
        return (
            f"not tried: alone it would make a step {_duration(best)} long at best, and with "
            f"{names} it takes {_duration(takes)}"
        )

    def _leave_out(
        self, one: Suggestion, why: str, takes: Estimate | None = None, *, untried: bool = False
    ) -> None:
        self.left_out.append(LeftOut(one.plugin, self._note(one) + why, takes, untried=untried))

    def _note(self, one: Suggestion) -> str:
        """Return with which settings a plugin is tried that is tried with two."""
        kinds = (self.draft.stack, self.draft.additions)
        if not all(one.plugin in [each.plugin for each in kind] for kind in kinds):
            return ""
        return EXACTLY if one.is_exact else OTHERWISE

    def _try(self, several: Sequence[Suggestion]) -> tuple[str, Estimate | None]:
        """Try plugins at once on top of what stays, of which those stay that take effect.

        :param several: exact ones, or one that is not.
        :returns: why they do not stay, "" if they do, and what a training with them takes, None
            where they took no effect or nobody knows.
        """
        names, adds = [one.plugin for one in several], not several[0].is_exact
        words = f"{', '.join(names[:-1])} and {names[-1]} together" if names[1:] else names[0]
        otherwise = self._note(several[0]) == OTHERWISE
        self.on_try(f"{words}{WHERE_OTHERWISE}" if otherwise else words)
        if adds:
            candidate = attrs.evolve(self.stays, additions=(*self.stays.additions, *several))
        else:  # in the proposed order: all cards allow that
            stay = (*self.stays.stack, *several)
            stack = tuple(one for one in self.draft.stack if one in stay)
            candidate = attrs.evolve(self.stays, stack=stack)
        try:
            tried = _with_notes_of(self.stays, self.attempt(_as_one_stack(candidate)), names)
        except TfoptError as error:
            return first_line(error), None
        idle = tried.prepared.not_applied
        if all(name in idle for name in names):
            return f"not applied: {idle[names[0]]}", None
        # the first addition makes a third side of each group
        third = adds and self.stays.stack and not self.stays.additions
        why = _why_not(tried, self.estimate, LEAST_GAIN_ADDED if third else LEAST_GAIN)
        why = why or next(filter(None, (_why_not_here(n, tried, candidate) for n in names)), "")
        gone = [] if adds else [one for one in candidate.stack if one.plugin in idle]
        if adds:
            candidate = attrs.evolve(candidate, tried_extended=tried)
        else:
            candidate = _without(gone, attrs.evolve(candidate, tried=tried))
        takes = tried.estimate
        if not why:
            self.stays, self.estimate = candidate, takes
            for one in gone:
                self._leave_out(one, f"not applied: {idle[one.plugin]}")
        elif takes is not None and (self.cheapest is None or takes.seconds < self.cheapest[0]):
            self.cheapest = (takes.seconds, candidate)
        return why, takes


def _without(gone: Sequence[Suggestion], draft: Draft) -> Draft:
    """Return the draft, whose exact stack was tried, without plugins of it that took no effect."""
    if not gone:
        return draft
    assert draft.tried is not None
    names, request = [one.plugin for one in gone], draft.tried.request
    stay = tuple(one for one in draft.tried.prepared.plugins if one.name not in names)
    prepared = attrs.evolve(draft.tried.prepared, plugins=stay, not_applied={})
    plugins = tuple(one for one in request.plugins if one.name not in names)
    tried = attrs.evolve(
        draft.tried, prepared=prepared, request=attrs.evolve(request, plugins=plugins)
    )
    stack = tuple(one for one in draft.stack if one not in gone)
    return attrs.evolve(draft, stack=stack, tried=tried)


def _most_first(several: Sequence[Suggestion]) -> list[Suggestion]:
    return sorted(several, key=lambda one: -one.most)


def _as_one_stack(draft: Draft) -> Draft:
    """Return the draft with its additions in the stack, and the settings that were found so far:
    to search for them again may take half a minute for each further plugin."""
    exact, extended = _found(draft.tried), _found(draft.tried_extended)

    def settled(one: Suggestion, found: Mapping[str, PluginPlan]) -> Suggestion:
        settings = found[one.plugin].settings if one.plugin in found else one.settings
        return attrs.evolve(one, settings=dict(settings))

    draft = attrs.evolve(
        draft,
        stack=tuple(settled(one, exact) for one in draft.stack),
        additions=tuple(settled(one, extended) for one in draft.additions[:-1])
        + draft.additions[-1:],
    )
    return attrs.evolve(draft, stack=draft.extended, additions=())


def _found(tried: Tried | None) -> dict[str, PluginPlan]:
    return {} if tried is None else {one.name: one for one in tried.prepared.plugins}


def _with_notes_of(before: Draft, tried: Tried, names: Sequence[str]) -> Tried:
    """Return what was tried with further plugins, with what was asked of those before them, and how
    that was found."""
    known = {**_found(before.tried), **_found(before.tried_extended)}
    for name in names:
        known.pop(name, None)  # which may stand there with other settings
    prepared, plugins = tried.prepared, []
    for one in prepared.plugins:
        if (then := known.get(one.name)) is not None:
            notes = dict.fromkeys((*then.search_notes, *one.search_notes))
            one = attrs.evolve(one, asked=then.asked, search_notes=tuple(notes))
        plugins.append(one)
    noted = [text for one in known.values() for text in one.search_notes]
    warnings = tuple(dict.fromkeys((*noted, *prepared.warnings)))
    return attrs.evolve(
        tried, prepared=attrs.evolve(prepared, plugins=tuple(plugins), warnings=warnings)
    )


def _with_found(draft: Draft) -> Draft:
    """Return the draft with what was found of settings that its stack has otherwise."""
    if draft.tried is None or draft.tried_extended is None:
        return draft
    by_name = {one.plugin: one for one in draft.stack}
    before, now = draft.tried.prepared.resolved, draft.tried_extended.prepared.resolved
    additions = []
    for one in draft.additions:
        if (of_stack := by_name.get(one.plugin)) is not None:
            old = before[one.plugin]
            other = {key: new for key, new in now[one.plugin].items() if old.get(key) != new}
            one = attrs.evolve(one, settings={**of_stack.settings, **other})
        additions.append(one)
    return attrs.evolve(draft, additions=tuple(additions))


def _why_not_here(plugin: str, tried: Tried, candidate: Draft) -> str:
    """Return why a plugin does not stay among the exact ones, or the others; empty if it does."""
    maths = {one.name: one.equivalence for one in tried.prepared.plugins}
    if plugin not in maths:
        return ""
    exact = maths[plugin] in EXACT_EQUIVALENCES
    if all(one.plugin != plugin for one in candidate.additions):
        return "" if exact else "it is not exact with the settings that were found for it"
    stands_already = exact and any(one.plugin == plugin for one in candidate.stack)
    return "what was found for it is exact all the same" if stands_already else ""


def _why_not(tried: Tried, before: Estimate | None, least: float) -> str:
    """Return why what was tried does not stay on top of the best stack so far; empty if it does.

    :param least: the share of a step that it must save.
    """
    now = tried.estimate
    if before is None or now is None:
        return ""
    if now.step_seconds > before.step_seconds * (1 - least):
        steps = f"{_duration(before.step_seconds)} to {_duration(now.step_seconds)}"
        much = "" if least == LEAST_GAIN else f"{least:.0%} "
        return f"a step does not seem to become {much}faster with it (from about {steps})"
    saved = (before.step_seconds - now.step_seconds) * now.steps
    if saved < LEAST_SAVED_SECONDS:
        return (
            f"steps are faster with it, but that saves only about {saved:.2g} s of a training, "
            "less than start-up times vary by"
        )
    if now.seconds > before.seconds:
        return (
            "steps are faster with it, but its longer start costs more than that saves: an "
            f"estimated {now.seconds:.3g} s a training, {before.seconds:.3g} s without it"
        )
    return ""


def _duration(step_seconds: float) -> str:
    return f"{step_seconds:.3g} s" if step_seconds >= 1 else f"{step_seconds * 1e3:.3g} ms"
