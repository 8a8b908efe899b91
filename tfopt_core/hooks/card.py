"""The class attributes and the card of a plugin, read without TensorFlow, and calls of its code."""

from __future__ import annotations

import inspect
import re
import traceback
from collections.abc import Callable, Mapping, Set
from typing import Any, Literal, cast, get_args

import attrs

from tfopt_core.errors import (
    PluginDefinitionError,
    PluginError,
    PluginRefused,
    TfoptError,
    add_note,
    describe,
    ran_out_of_memory,
)
from tfopt_core.recipe.table import configure

# "unknown": the plugin does not declare it; a replay decides.
Equivalence = Literal["exact", "order", "rounding", "unknown", "changes"]

Target = Literal["input", "dispatch", "compute", "memory", "communication", "convergence"]
# From the least to the largest change.
EQUIVALENCES: tuple[Equivalence, ...] = get_args(Equivalence)
# What a replay certifies without statistics of quality.
EXACT_EQUIVALENCES: tuple[Equivalence, ...] = ("exact", "order")
# The words for it in printed text.
MATHEMATICS = {
    "exact": "the same training, exactly",
    "order": "the same examples in another order",
    "rounding": "the same training, rounded differently",
    "unknown": "not declared: a replay shows whether it is the same training",
    "changes": "another training algorithm",
}

# The headings of a card, in order; `tfopt plugins show` and the reference pages print them.
HEADINGS = ("What it does", "Why it helps", "When it does not", "Mixes with", "Reference")


@attrs.frozen
class Traits:
    """The class attributes of a plugin, checked."""

    targets: tuple[Target, ...]
    role: Literal["optimization", "observer"]
    model_change: Literal["none", "in-place", "replaces"]
    requires: tuple[str, ...]
    conflicts: tuple[str, ...]
    before: tuple[str, ...]
    after: tuple[str, ...]


def traits(name: str, plugin_class: type[Any]) -> Traits:
    """Read a plugin's class attributes.

    :raises PluginDefinitionError: if an attribute has an invalid value.
    """
    values = {one.name: getattr(plugin_class, one.name) for one in attrs.fields(Traits)}
    found, faults = configure(Traits, values)
    if found is None:
        raise PluginDefinitionError(name, str(faults[0]))
    return found


def requiring(out: Set[str], known: Mapping[str, Traits]) -> set[str]:
    """Return the plugins that cannot stand without those that are taken out, themselves too.

    :param known: the traits of the plugins of the stack, by name.
    """
    gone = set(out)
    while True:
        needy = {name for name, one in known.items() if set(one.requires) & gone}
        if needy <= gone:
            return gone
        gone |= needy


def guarded(plugin: str, hook: str, call: Callable[[], Any]) -> Any:
    """Call a method of a plugin. Return its value.

    :raises PluginError: for an error of the method, naming plugin and hook.
    """
    try:
        return call()
    except PluginRefused as refusal:
        named = refusal.named(plugin)
        if named is refusal:
            raise  # `from refusal` would make it its own cause
        raise named from refusal
    except (TfoptError, KeyboardInterrupt):
        raise
    except BaseException as error:
        if place := _place(error):
            add_note(error, f"at {place}")
        raise PluginError(
            plugin, hook, describe(error), out_of_memory=ran_out_of_memory(error)
        ) from error


def _place(error: BaseException) -> str:
    """Return the innermost line of the plugin's own file, `file:line`; "" if there is none."""
    frames = [
        (frame.f_code.co_filename, line)
        for frame, line in traceback.walk_tb(error.__traceback__)
        if not frame.f_globals.get("__name__", "").startswith("tfopt_core.")
    ]
    own = [(file, line) for file, line in frames if file == frames[0][0]]
    return f"{own[-1][0]}:{own[-1][1]}" if own else ""


def equivalence_of(name: str, plugin: Any) -> Equivalence:
    """Return how the plugin, with its settings, changes the mathematics of training.

    :raises PluginDefinitionError: if it declares something else.
    :raises PluginError: if its method raises.
    """

    def declared() -> Any:
        value = plugin.equivalence
        return value() if callable(value) else value

    value = guarded(name, "equivalence", declared)
    if value not in EQUIVALENCES:
        raise PluginDefinitionError(
            name, f'"equivalence" returned "{value}", not one of {", ".join(EQUIVALENCES)}'
        )
    return cast(Equivalence, value)


_HEADING = re.compile(rf"^({'|'.join(HEADINGS)}):[ \t]*", re.MULTILINE)


def card(plugin_class: type[Any]) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Return the card in a plugin's docstring: the summary in its first line, and the sections of
    its `Heading: text` paragraphs, in their order."""
    text = inspect.cleandoc(plugin_class.__doc__ or "")
    parts = _HEADING.split(text)
    sections = tuple(
        (heading, " ".join(body.split()))
        for heading, body in zip(parts[1::2], parts[2::2], strict=True)
    )
    return " ".join(parts[0].split()), sections
