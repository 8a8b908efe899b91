"""What a plugin is: the base class, the decorator, and a setting. No TensorFlow."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self

import attrs

from tfopt_core.hooks.card import Equivalence

if TYPE_CHECKING:
    # type checkers know attrs' own decorator, and with it `attrs.evolve` of a plugin
    from attrs import frozen as plugin

    from tfopt_core.hooks.context import Probe
    from tfopt_core.hooks.diagnosis import Diagnosis
else:
    plugin = attrs.frozen(kw_only=True, eq=False)

__all__ = [
    "Plugin", "number_or", "overrides", "plugin", "setting", "size_in_words",
]  # fmt: skip


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
    # what becomes of the mathematics of training; a method where it depends on the settings
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
