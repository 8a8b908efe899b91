"""A covering array of stacks: each pair of plugins that may stand together stands in one of them.

It is computed from what the plugins declare, so that a new plugin enters it by itself.
"""

import graphlib
import itertools
from collections.abc import Iterator, Mapping, Sequence

import attrs

from tfopt_core.hooks.installed.discovery import registrations
from tfopt_core.hooks.plugin_class import Equivalence, Traits, equivalence_of, traits
from tfopt_core.hooks.specs import OWNER_HOOK
from tfopt_core.hooks.stack import StackedPlugin
from tfopt_core.recipe.table import configure

# More plugins in a stack make fewer stacks, and a failure harder to put down to two of them.
PLUGINS_A_STACK = 10
DISTRIBUTION = "tfopt"


@attrs.frozen
class Candidate:
    """A plugin as the array sees it: what it declares, with the settings that it is tested with."""

    traits: Traits
    equivalence: Equivalence
    builds_strategy: bool


Pair = frozenset[str]


def stacked(name: str, settings: Mapping[str, object]) -> StackedPlugin:
    """Return the registered plugin with these settings.

    :raises ValueError: for settings that it does not take.
    """
    [found, *_] = registrations()[name]
    plugin, problems = configure(found.load(), settings)
    if plugin is None or problems:
        raise ValueError("; ".join(map(str, problems)))
    return StackedPlugin(name, plugin)


def candidates(settings: Mapping[str, Mapping[str, object]]) -> dict[str, Candidate]:
    """Return every plugin that tfopt's own distribution registers, by name.

    :param settings: by plugin, those that it is tested with; the defaults for others.
    """
    found = {}
    for name, registered in sorted(registrations().items()):
        if registered[0].distribution == DISTRIBUTION:
            one = stacked(name, settings.get(name, {}))
            declared, equivalence = traits(name, type(one.plugin)), equivalence_of(name, one.plugin)
            found[name] = Candidate(declared, equivalence, hasattr(one.plugin, OWNER_HOOK))
    return found


def ordered(
    names: set[str], known: Mapping[str, Candidate], *, backwards: bool = False
) -> tuple[str, ...] | None:
    """Return the plugins in an order that all of them allow, None if there is none.

    :param backwards: of plugins in any order, take the last by name first.
    """
    sorter = graphlib.TopologicalSorter({n: {*known[n].traits.after} & names for n in names})
    for name in names:
        for other in {*known[name].traits.before} & names:
            sorter.add(other, name)
    try:
        sorter.prepare()
    except graphlib.CycleError:
        return None
    done: list[str] = []
    free: list[str] = []
    while sorter.is_active():
        free = sorted([*free, *sorter.get_ready()], reverse=backwards)
        done.append(free.pop(0))
        sorter.done(done[-1])
    return tuple(done)


def with_required(names: set[str], known: Mapping[str, Candidate]) -> set[str]:
    """Return the plugins with all that they require."""
    whole = set(names)
    while missing := {r for name in whole for r in known[name].traits.requires} - whole:
        whole |= missing
    return whole


def admissible(names: set[str], known: Mapping[str, Candidate]) -> bool:
    """Return whether the plugins may stand together, as they declare, in some order."""
    if any(set(known[name].traits.conflicts) & names for name in names):
        return False
    if sum(known[name].builds_strategy for name in names) > 1:
        return False
    return ordered(names, known) is not None


def pairs(names: Sequence[str]) -> Iterator[Pair]:
    """Yield every pair of different plugins, each once."""
    return (frozenset(pair) for pair in itertools.combinations(sorted(names), 2))


def admissible_pairs(known: Mapping[str, Candidate]) -> set[Pair]:
    """Return the pairs that may stand together, with what they require."""
    return {
        pair for pair in pairs(tuple(known)) if admissible(with_required(set(pair), known), known)
    }


def covering_array(known: Mapping[str, Candidate]) -> tuple[tuple[str, ...], ...]:
    """Return stacks of at most PLUGINS_A_STACK plugins and those that these require.

    Every admissible pair stands in one of them. Pairs of exact plugins stand in stacks of exact
    plugins only, so that these can be certified.
    """
    open_pairs = admissible_pairs(known)
    exact = {name: one for name, one in known.items() if one.equivalence == "exact"}
    stacks = []
    for pool in (exact, known):
        within = {pair for pair in open_pairs if with_required(set(pair), known) <= set(pool)}
        while within:
            names = _next_stack(within, sorted(pool), known)
            covered = set(pairs(tuple(names)))
            within -= covered
            open_pairs -= covered
            stack = ordered(names, known, backwards=len(stacks) % 2 == 1)
            assert stack is not None
            stacks.append(stack)
    return tuple(stacks)


def _next_stack(
    open_pairs: set[Pair], pool: Sequence[str], known: Mapping[str, Candidate]
) -> set[str]:
    """Return the stack that grows greedily from the first open pair of the busiest plugin."""
    degree = {name: sum(name in pair for pair in open_pairs) for name in pool}
    first = min(open_pairs, key=lambda pair: (-max(degree[name] for name in pair), sorted(pair)))
    names = with_required(set(first), known)
    while len(names) < PLUGINS_A_STACK:
        gains = []
        for name in pool:
            grown = with_required(names | {name}, known)
            if name not in names and admissible(grown, known):
                gained = sum(pair <= grown for pair in open_pairs)
                gains.append((-gained, -degree[name], name, grown))
        before = sum(pair <= names for pair in open_pairs)
        if not gains or -min(gains)[0] == before:
            break
        names = min(gains)[-1]
    return names
