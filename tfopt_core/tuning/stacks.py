"""Put a plugin into a stack, take one out, configure all: conflicts, requirements, order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import attrs

from tfopt_core.errors import InputError
from tfopt_core.hooks.card import Traits
from tfopt_core.hooks.installed.assemble import assemble
from tfopt_core.hooks.installed.suggest import in_order
from tfopt_core.hooks.stack import StackedPlugin
from tfopt_core.recipe import PluginEntry
from tfopt_core.tuning.candidates import TuneCandidate
from tfopt_core.tuning.results import TunedPlugin

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
