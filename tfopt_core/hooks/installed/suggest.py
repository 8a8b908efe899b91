"""Ask the installed plugins for suggestions on a diagnosis. Core names no plugin. No TensorFlow."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

import attrs

from tfopt_core.errors import message_of
from tfopt_core.hooks.diagnosis import Diagnosis
from tfopt_core.hooks.installed.discovery import Registration, find, registrations
from tfopt_core.hooks.own_loop import why_not_reached
from tfopt_core.hooks.plugin_class import (
    EQUIVALENCES,
    EXACT_EQUIVALENCES,
    Equivalence,
    Traits,
    card,
    equivalence_of,
    overrides,
    traits,
)
from tfopt_core.hooks.specs import OWNER_HOOK
from tfopt_core.recipe.table import configure, to_json

# Smaller gains are not worth a measurement.
LEAST_BOUND = 1.02
# A plugin that takes longer is reported, and the next one is asked.
ANSWER_SECONDS = 10.0


@attrs.frozen(kw_only=True)
class ExactForm:
    """The settings with which a plugin leaves each value as it is, or reorders examples at most."""

    settings: dict[str, Any]
    bound: float | None
    equivalence: Equivalence


@attrs.frozen(kw_only=True)
class Suggestion:
    """A plugin worth trying, with its proposed settings; {} means its defaults.

    `bound` is the most that it can gain, None if unbounded. `left_out` says why it cannot be
    stacked with the suggestions before it, "" if it can. `exact_form` are the settings of a plugin
    that may round differently with which it does not; None if it has none, or is exact anyway.
    """

    plugin: str
    settings: dict[str, Any]
    bound: float | None
    targets: tuple[str, ...]
    equivalence: Equivalence
    summary: str
    distribution: str
    left_out: str = ""
    exact_form: ExactForm | None = None

    @property
    def is_exact(self) -> bool:
        """Whether it leaves each value as it is, or reorders examples at most."""
        return self.equivalence in EXACT_EQUIVALENCES

    @property
    def most(self) -> float:
        """The most that it can gain; infinite if unbounded."""
        return float("inf") if self.bound is None else self.bound

    @property
    def exactly(self) -> Suggestion | None:
        """The suggestion with settings that are exact; None if there are none."""
        form = self.exact_form
        if self.is_exact or form is None:
            return self if self.is_exact else None
        return attrs.evolve(
            self,
            settings=form.settings,
            bound=form.bound,
            equivalence=form.equivalence,
            exact_form=None,
        )


@attrs.frozen(kw_only=True)
class NoAnswer:
    """A plugin that gave no answer, and why."""

    plugin: str
    distribution: str
    cause: str


@attrs.frozen(kw_only=True)
class Proposal:
    """The suggestions of all plugins, the most promising first; the names of those that can be
    stacked together, in stack order, where exact ones come before others that conflict with them;
    and the plugins that gave no answer."""

    suggestions: tuple[Suggestion, ...] = ()
    stack: tuple[str, ...] = ()
    silent: tuple[NoAnswer, ...] = ()


def propose(
    names: Iterable[str],
    diagnosis: Diagnosis,
    in_effect: Sequence[str] = (),
    tell: Callable[[str], None] = lambda plugin: None,
) -> Proposal:
    """Ask plugins for suggestions.

    Suggestions are sorted by their bound; equal ones by how little they change the training.

    :param in_effect: the plugins of the diagnosed stack, which are not asked.
    :param tell: called with each plugin before it is imported.
    """
    suggestions: list[Suggestion] = []
    silent: list[NoAnswer] = []
    known = registrations()
    for name in names:
        if name in in_effect:
            continue
        tell(name)
        origin = known[name][0].distribution if known.get(name) else "unknown"
        try:
            suggestion = _within_time(functools.partial(_asked, name, known, diagnosis))
        except (Exception, SystemExit) as error:  # third-party code must do no harm
            cause = message_of(error)
            silent.append(NoAnswer(plugin=name, distribution=origin, cause=cause))
            continue
        if suggestion is not None:
            suggestions.append(suggestion)
    suggestions.sort(key=_rank)
    classes = {one.plugin: find(one.plugin, known).load() for one in suggestions}
    left_out = _left_out(suggestions, classes, in_effect)
    stack = [name for name in classes if not left_out[name]]
    return Proposal(
        suggestions=tuple(attrs.evolve(one, left_out=left_out[one.plugin]) for one in suggestions),
        stack=in_order({name: traits(name, classes[name]) for name in stack}),
        silent=tuple(silent),
    )


def _asked(
    name: str, known: dict[str, tuple[Registration, ...]], diagnosis: Diagnosis
) -> Suggestion | None:
    """Return what a plugin suggests; one that may round differently is asked for its exact settings
    too."""
    registration = find(name, known)
    plugin_class = registration.load()
    own = traits(name, plugin_class)
    bound = diagnosis.bound(own.targets)
    if (
        not overrides(plugin_class, "suggest") or own.role != "optimization"
        or bound < LEAST_BOUND or (diagnosis.own_loop and why_not_reached(plugin_class))
    ):  # fmt: skip
        return None
    answer = suggested(plugin_class, diagnosis)
    if answer is None:
        return None
    settings, plugin = answer
    found = Suggestion(
        plugin=name, settings=to_json(settings), bound=None if bound == float("inf") else bound,
        targets=own.targets, equivalence=equivalence_of(name, plugin),
        summary=card(plugin_class)[0], distribution=registration.distribution,
    )  # fmt: skip
    if found.is_exact or (exact := suggested(plugin_class, diagnosis.exact_only())) is None:
        return found
    settings, plugin = exact
    equivalence = equivalence_of(name, plugin)
    if equivalence not in EXACT_EQUIVALENCES:
        return found
    form = ExactForm(settings=to_json(settings), bound=found.bound, equivalence=equivalence)
    return attrs.evolve(found, exact_form=form)


def suggested(
    plugin_class: type[Any], diagnosis: Diagnosis
) -> tuple[Mapping[str, Any], Any] | None:
    """Return the settings that a plugin's `suggest` returns, and the plugin with them.

    :raises TypeError: for what is no table.
    :raises ValueError: for settings that do not fit the plugin.
    """
    default, _ = configure(plugin_class, {})
    # a plugin without defaults is asked too: `suggest` returns its settings
    blank = object.__new__(plugin_class) if default is None else default
    settings = blank.suggest(diagnosis)
    if settings is None:
        return None
    if not isinstance(settings, Mapping):
        raise TypeError(f"suggest returned type {type(settings).__name__}; return a dict or None")
    plugin, faults = configure(plugin_class, settings)
    if plugin is None or faults:
        wrong = "; ".join(map(str, faults))
        raise ValueError(f"suggest proposed settings that do not fit: {wrong}")
    return settings, plugin


def _rank(one: Suggestion) -> tuple[float, int, str]:
    # below a hundredth, bounds are equal: the least change to the training goes first
    return (-round(one.most, 2), EQUIVALENCES.index(one.equivalence), one.plugin)


def _left_out(
    suggestions: Sequence[Suggestion], classes: Mapping[str, type[Any]], in_effect: Sequence[str]
) -> dict[str, str]:
    """Return why each plugin cannot be stacked with the others, "" if it can.

    :param classes: those of the suggested plugins.
    """
    reasons: dict[str, str] = {}
    exact_first = sorted(
        suggestions, key=lambda one: (one.exactly is None, _rank(one.exactly or one))
    )
    for name in (one.plugin for one in exact_first):
        own, taken = classes[name], [other for other, reason in reasons.items() if not reason]
        needs = [one for one in own.requires if one not in (*in_effect, *classes)]
        conflicts = [one for one in (*in_effect, *taken) if one in own.conflicts]
        conflicts += [one for one in taken if name in classes[one].conflicts]
        owners = [one for one in taken if hasattr(classes[one], OWNER_HOOK)]
        reasons[name] = ""
        if needs:
            reasons[name] = f'needs "{needs[0]}"'
        elif conflicts:
            reasons[name] = f'conflicts with "{conflicts[0]}"'
        elif owners and hasattr(own, OWNER_HOOK):
            reasons[name] = f'builds a strategy, as "{owners[0]}" does'
    return reasons


def _within_time(ask: Callable[[], Suggestion | None]) -> Suggestion | None:
    """Return the answer, or raise what the plugin raises.

    :raises TimeoutError: if it takes too long; its thread is abandoned.
    """
    answer: Future[Suggestion | None] = Future()

    def run() -> None:
        try:
            answer.set_result(ask())
        except BaseException as error:
            answer.set_exception(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(ANSWER_SECONDS)
    if not answer.done():
        raise TimeoutError(f"gave no answer for {ANSWER_SECONDS:.0f} s")
    return answer.result()


def in_order(traits: Mapping[str, Traits]) -> tuple[str, ...]:
    """Return the names ordered by `before` and `after`, otherwise in the given order.

    Contradictions are ignored here: assembling the stack reports them.
    """
    left, placed = list(traits), []
    while left:
        ready = (
            name
            for name in left
            if not any(
                other in traits[name].after or name in traits[other].before
                for other in left
                if other != name
            )
        )
        following = next(ready, left[0])
        left.remove(following)
        placed.append(following)
    return tuple(placed)
