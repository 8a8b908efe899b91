"""What a plugin is: the base class, the decorator, a setting; the class attributes and the card.

TensorFlow is not imported.
"""

from __future__ import annotations

import inspect
import re
import traceback
from collections.abc import Callable, Mapping, Set
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, cast, get_args

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

if TYPE_CHECKING:
    # type checkers know attrs' own decorator, and with it `attrs.evolve` of a plugin
    from attrs import frozen as plugin

    from tfopt_core.hooks.context import Probe
    from tfopt_core.hooks.diagnosis import Diagnosis
else:
    plugin = attrs.frozen(kw_only=True, eq=False)

__all__ = [
    "EQUIVALENCES", "EQUIVALENCE_IN_WORDS", "EXACT_EQUIVALENCES", "HEADINGS", "Equivalence",
    "Plugin", "Target", "Traits", "card", "equivalence_of", "guarded", "number_or", "overrides",
    "plugin", "requiring", "setting", "size_in_words", "traits",
]  # fmt: skip

# "unknown": the plugin does not declare it; a replay decides.
Equivalence = Literal["exact", "order", "rounding", "unknown", "changes"]

Target = Literal["input", "dispatch", "compute", "memory", "communication", "convergence"]
# From the least to the largest change.
EQUIVALENCES: tuple[Equivalence, ...] = get_args(Equivalence)
# What a replay certifies without statistics of quality.
EXACT_EQUIVALENCES: tuple[Equivalence, ...] = ("exact", "order")
# The words for it in printed text.
EQUIVALENCE_IN_WORDS = {
    "exact": "exact: the same training",
    "order": "order: the same examples in another order",
    "rounding": "rounding: the same training, rounded differently",
    "unknown": "unknown: a replay shows whether it is the same training",
    "changes": "changes: another training algorithm",
}

# The headings of a card, in order; `tfopt plugins show` and the reference pages print them.
HEADINGS = ("What it does", "Why it helps", "When it does not", "Mixes with", "Reference")


def setting(
    *,
    help: str,
    default: Any = attrs.NOTHING,
    validator: Any = None,
    converter: Callable[[Any], Any] | None = None,
    search: Mapping[str, Any] | list[Any] | None = None,
) -> Any:
    """Return a setting of a plugin: a key of its table in a recipe.

    :param help: a sentence for the documentation, with units and bounds.
    :param default: the value where a recipe says nothing; without it the key is needed.
    :param validator: one of attrs, or a list of them.
    :param search: the range that `tfopt tune` searches, in the form of `[tune.options]`.
    """
    metadata = {"help": help} if search is None else {"help": help, "search": search}
    return attrs.field(default=default, validator=validator, converter=converter, metadata=metadata)


class Plugin:
    """The base of every plugin class. A plugin says only what differs.

        @plugin
        class Prefetch(Plugin):
            targets = ("input",)
            equivalence = "exact"
            buffer_size: int = setting(default=2, help="Batches held ready.")

    All of this is read without TensorFlow. `docs/guide/plugins.md` lists the class attributes.
    """

    __slots__ = ()

    # of input, dispatch, compute, memory, communication, convergence
    targets: ClassVar[tuple[str, ...]] = ()
    # "observer": joins one extra untimed run, and is never measured
    role: ClassVar[str] = "optimization"
    # "in-place", "replaces"
    model_change: ClassVar[str] = "none"
    requires: ClassVar[tuple[str, ...]] = ()
    conflicts: ClassVar[tuple[str, ...]] = ()
    before: ClassVar[tuple[str, ...]] = ()
    after: ClassVar[tuple[str, ...]] = ()
    # False: does not reach a training loop of a script's own, though its hooks would
    own_loop: ClassVar[bool] = True
    # what it does to the training; a method where it depends on the settings
    equivalence: ClassVar[Equivalence | Callable[[Any], Equivalence]] = "unknown"

    def suggest(self, diagnosis: Diagnosis) -> Mapping[str, Any] | None:
        """Return the settings that are worth trying after a diagnosis, None for none."""
        return None

    def resolve(self, probe: Probe) -> Self:
        """Return the plugin with every "auto" replaced."""
        return self

    def by_hand(self) -> str | None:
        """Return the lines that do the same in a user's own code, None for none."""
        return None

    def unwrap(self, model: Any) -> Any:
        """Return the model without what the plugin put around it, for saving."""
        return model


def overrides(plugin_class: type[Any], method: str) -> bool:
    """Return whether a plugin class has this optional method of its own."""
    return getattr(plugin_class, method) is not getattr(Plugin, method)


# Its class attributes and its card


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
    """Return how the plugin, with its settings, changes the training.

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


# Helpers of the plugins that ship


def number_or(word: str, help: str) -> Any:
    """Return a setting that is a whole number of at least 1, or this word, which is the default."""

    def validate(_: Any, attribute: Any, value: Any) -> None:
        if value != word and (isinstance(value, str) or value < 1):
            raise ValueError(f'{attribute.name} must be at least 1 or "{word}", got {value}')

    return setting(default=word, validator=validate, help=help)


def size_in_words(size: float) -> str:
    """Return bytes as a person reads them: `166 MiB`, `2.5 GiB`."""
    for unit, name in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if size >= unit:
            figure = size / unit
            return f"{figure:.2g} {name}" if figure < 10 else f"{figure:,.0f} {name}"
    return f"{size:.0f} bytes"
