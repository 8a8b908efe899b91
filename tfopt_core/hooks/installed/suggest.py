"""Plugins asked what they would do about a diagnosis. Core names none of them. No TensorFlow."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import attrs

from tfopt_core.errors import TfoptError, describe
from tfopt_core.hooks.card import MATHS, Traits, card, math_of, traits
from tfopt_core.hooks.diagnosis import Diagnosis
from tfopt_core.hooks.installed.discovery import Registration, find, registrations
from tfopt_core.hooks.installed.safe_stack import in_order
from tfopt_core.hooks.installed.settings import configure, plain
from tfopt_core.recipe import PluginEntry
from tfopt_core.recipe.model import Where

# What can gain less is not worth a measurement.
LEAST_BOUND = 1.02
# A plugin that has not answered by then is named, and the others are asked.
ANSWER_SECONDS = 10.0


@attrs.frozen(kw_only=True)
class Suggestion:
    """A plugin worth trying, with the settings that it proposes; {} leaves its defaults.

    `bound` is the most that it can gain, None where nothing bounds it. `left_out` says why it
    stands in no stack with those before it, "" if it may.
    """

    plugin: str
    settings: dict[str, Any]
    bound: float | None
    targets: tuple[str, ...]
    math: str
    summary: str
    distribution: str
    left_out: str = ""


@attrs.frozen(kw_only=True)
class NoAnswer:
    """A plugin that could not be asked, and why."""

    plugin: str
    distribution: str
    cause: str


@attrs.frozen(kw_only=True)
class Proposal:
    """What all plugins propose: the most promising first; the names of those that can be stacked
    together, in the order in which they must stand; and those that gave no answer."""

    suggestions: tuple[Suggestion, ...] = ()
    stack: tuple[str, ...] = ()
    silent: tuple[NoAnswer, ...] = ()


@attrs.frozen(eq=False)
class _Candidate:
    suggestion: Suggestion
    traits: Traits
    owns_strategy: bool


def propose(
    names: Iterable[str],
    diagnosis: Diagnosis,
    in_effect: Sequence[str] = (),
    tell: Callable[[str], None] = lambda plugin: None,
) -> Proposal:
    """Ask these plugins.

    What is proposed is sorted by how much it can gain; among equals those that change the training
    least go first.

    :param in_effect: the plugins of the stack that was diagnosed; they are not asked.
    :param tell: told of each plugin before it is imported and asked.
    """
    candidates: list[_Candidate] = []
    silent: list[NoAnswer] = []
    known = registrations()
    for name in names:
        if name in in_effect:
            continue
        tell(name)
        origin = known[name][0].distribution if known.get(name) else "unknown"
        try:
            candidate = _within_time(functools.partial(_asked, name, known, diagnosis))
        except (Exception, SystemExit) as error:  # somebody else's code: it harms nobody
            cause = str(error) if isinstance(error, TfoptError) else describe(error)
            silent.append(NoAnswer(plugin=name, distribution=origin, cause=cause))
            continue
        if candidate is not None:
            candidates.append(candidate)
    candidates.sort(key=_rank)
    marked, taken = _stackable(candidates, in_effect)
    return Proposal(
        suggestions=marked,
        stack=in_order({one.suggestion.plugin: one.traits for one in taken}),
        silent=tuple(silent),
    )


def _asked(
    name: str, known: dict[str, tuple[Registration, ...]], diagnosis: Diagnosis
) -> _Candidate | None:
    registration = find(name, known)
    plugin_class = registration.load()
    said = traits(name, plugin_class)
    bound = diagnosis.bound(said.targets)
    if not hasattr(plugin_class, "suggest") or said.role != "optimization" or bound < LEAST_BOUND:
        return None
    default, _ = _configured(plugin_class, name, {})
    # what has no defaults is asked all the same: its settings are what it is asked for
    blank = object.__new__(plugin_class) if default is None else default
    settings = blank.suggest(diagnosis)
    if settings is None:
        return None
    if not isinstance(settings, Mapping):
        raise TypeError(f"suggest returned a {type(settings).__name__}; return a dict or None")
    plugin, problems = _configured(plugin_class, name, settings)
    if plugin is None:
        wrong = "; ".join(f"{p.path}: {p.message}".lstrip(": ") for p in problems)
        raise ValueError(f"suggest proposed settings that do not fit: {wrong}")
    suggestion = Suggestion(
        plugin=name,
        settings=plain(settings),
        bound=None if bound == float("inf") else bound,
        targets=said.targets,
        math=math_of(name, plugin),
        summary=card(plugin_class).summary,
        distribution=registration.distribution,
    )
    return _Candidate(suggestion, said, hasattr(plugin_class, "build_strategy"))


def _configured(plugin_class: Any, name: str, settings: Mapping[str, Any]) -> tuple[Any, list[Any]]:
    return configure(plugin_class, PluginEntry(name, dict(settings), Where()))


def _rank(candidate: _Candidate) -> tuple[float, int, str]:
    one = candidate.suggestion
    # differences below a hundredth are none; the least change to the training decides then
    bound = float("inf") if one.bound is None else round(one.bound, 2)
    return (-bound, MATHS.index(one.math), one.plugin)


def _stackable(
    candidates: Sequence[_Candidate], in_effect: Sequence[str]
) -> tuple[tuple[Suggestion, ...], list[_Candidate]]:
    """All suggestions, those marked that cannot join the ones before them; and the others."""
    names = [*in_effect, *(candidate.suggestion.plugin for candidate in candidates)]
    taken: list[_Candidate] = []
    marked = []
    for candidate in candidates:
        missing = [name for name in candidate.traits.requires if name not in names]
        reason = f'needs "{missing[0]}"' if missing else _against(candidate, taken, in_effect)
        if not reason:
            taken.append(candidate)
        marked.append(attrs.evolve(candidate.suggestion, left_out=reason))
    return tuple(marked), taken


def _against(candidate: _Candidate, taken: Sequence[_Candidate], in_effect: Sequence[str]) -> str:
    """Why a plugin cannot join these, "" if it can."""
    name = candidate.suggestion.plugin
    for other in (*in_effect, *(earlier.suggestion.plugin for earlier in taken)):
        if other in candidate.traits.conflicts:
            return f'conflicts with "{other}"'
    for earlier in taken:
        if name in earlier.traits.conflicts:
            return f'conflicts with "{earlier.suggestion.plugin}"'
        if candidate.owns_strategy and earlier.owns_strategy:
            return f'builds a strategy, as "{earlier.suggestion.plugin}" does'
    return ""


def _within_time(ask: Callable[[], _Candidate | None]) -> _Candidate | None:
    """The answer; whatever the plugin raises.

    :raises TimeoutError: if it takes too long; it is left alone then.
    """
    answer: list[_Candidate | None] = []
    raised: list[BaseException] = []

    def run() -> None:
        try:
            answer.append(ask())
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(ANSWER_SECONDS)
    if raised:
        raise raised[0]
    if not answer:
        raise TimeoutError(f"gave no answer for {ANSWER_SECONDS:.0f} s")
    return answer[0]
