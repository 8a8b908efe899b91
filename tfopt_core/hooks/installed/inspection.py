"""Inspect the installed plugins in a separate process, so that a broken one does no harm."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import attrs

from tfopt_core.errors import PluginDefinitionError, TfoptError
from tfopt_core.hooks.contract import implementations
from tfopt_core.hooks.installed.discovery import find, registrations
from tfopt_core.hooks.plugin_class import Traits, card, equivalence_of, overrides, traits
from tfopt_core.hooks.specs import OWNER_HOOK
from tfopt_core.recipe.formats import Choices, search_range
from tfopt_core.recipe.values import (
    Invalid,
    faults_in_field,
    field_expectation,
    field_types,
    setting_schema,
)

TIME_LIMIT_SECONDS = 30.0  # for the import of one plugin


@attrs.frozen(kw_only=True)
class Setting:
    """One TOML key of a plugin: its type in words, its default in TOML, its help, and its JSON
    Schema. A `default` of None means that the key is required. `search` is the range that
    `tfopt tune` may search, None for none."""

    name: str
    type: str
    default: str | None
    help: str
    schema: dict[str, Any] = attrs.field(factory=dict)
    search: Any = None


@attrs.frozen(kw_only=True)
class PluginInfo:
    """The description of a registered plugin. With an `error`, only its origin is known.

    `suggests` says whether it answers a diagnosis. `equivalence` is the equivalence with default
    settings, "" if the plugin has required settings.
    """

    name: str
    distribution: str = ""
    version: str = ""
    error: str | None = None
    summary: str = ""
    sections: tuple[tuple[str, str], ...] = ()
    traits: Traits | None = None
    hooks: tuple[str, ...] = ()
    suggests: bool = False
    settings: tuple[Setting, ...] = ()
    equivalence: str = ""

    @property
    def spreads(self) -> bool:
        """Whether it places a training on devices or spreads it over several."""
        targets = self.traits.targets if self.traits is not None else ()
        return OWNER_HOOK in self.hooks or "communication" in targets


def inspect_plugins(names: Sequence[str] | None = None) -> tuple[PluginInfo, ...]:
    """Import the plugins of these names (None: all) in guarded processes and describe them.

    A plugin that raises, exits, aborts or takes longer than its own time limit during import gets
    that as its `error`; a new process handles the rest.
    """
    known = registrations()
    wanted = [name for name in known if names is None or name in names]
    infos: list[PluginInfo] = []
    while waiting := wanted[len(infos) :]:
        infos += _described(waiting)
    for place, info in enumerate(infos):
        one, *others = known[info.name]
        if not others:
            infos[place] = attrs.evolve(info, distribution=one.distribution, version=one.version)
    return tuple(infos)


def _described(names: Sequence[str]) -> Iterator[PluginInfo]:
    """Yield the plugins that one process described, in their order, and the one that ended it."""
    from cattrs import structure

    module = "tfopt_core.hooks.installed.inspection"
    command = [sys.executable, "-P", "-m", module, str(TIME_LIMIT_SECONDS), *names]
    # no pipe: what a plugin has started may hold it open
    with open(os.memfd_create("answers"), "w+b") as answers:
        code = subprocess.call(
            command, stdin=subprocess.DEVNULL, stdout=answers, stderr=subprocess.DEVNULL
        )
        answers.seek(0)
        lines = [json.loads(line) for line in answers if line.endswith(b"\n")]
    cause = f"ended with status {code}"
    if code == -signal.SIGALRM:
        cause = f"took longer than {TIME_LIMIT_SECONDS:.0f} s"
    elif code < 0:
        cause = f"killed by {signal.Signals(-code).name}"
    if not lines:
        raise TfoptError(f"plugins could not be inspected: the process {cause}")
    yield from (structure(line, PluginInfo) for line in lines if "begin" not in line)
    if begun := lines[-1].get("begin"):
        yield PluginInfo(name=begun, error=f"{cause} while it was imported")


def describe_plugin(name: str, plugin_class: type[Any]) -> PluginInfo:
    """Return the description of a plugin class.

    :raises PluginDefinitionError: if the range of a setting is wrong.
    """
    types = field_types(plugin_class)
    summary, sections = card(plugin_class)
    equivalence = ""
    with contextlib.suppress(Exception, SystemExit):  # third-party code; the rest is described
        equivalence = equivalence_of(name, plugin_class())
    return PluginInfo(
        name=name,
        summary=summary,
        sections=sections,
        traits=traits(name, plugin_class),
        hooks=tuple(implementations(plugin_class)),
        suggests=overrides(plugin_class, "suggest"),
        settings=tuple(
            Setting(
                name=attribute.name,
                type=field_expectation(attribute, types[attribute.name]),
                default=_default(attribute.default),
                help=str(attribute.metadata.get("help", "")),
                schema=setting_schema(attribute, types[attribute.name]),
                search=declared_range(name, attribute, types[attribute.name]),
            )
            for attribute in attrs.fields(plugin_class)
        ),
        equivalence=equivalence,
    )


def declared_range(plugin: str, attribute: attrs.Attribute[Any], annotation: Any) -> Any:
    """Return the range of a setting as its plugin wrote it, None if it declares none.

    :raises PluginDefinitionError: if it means no range, or the setting refuses its ends.
    """
    written = attribute.metadata.get("search")
    if written is None:
        return None
    setting = f'the search range of "{attribute.name}"'
    try:
        range_ = search_range(written)
    except Invalid as invalid:
        raise PluginDefinitionError(plugin, f"{setting} is wrong: {invalid}") from None
    ends = range_.values if isinstance(range_, Choices) else (range_.low, range_.high)
    for value in ends:
        for fault in faults_in_field(value, annotation, attribute):
            raise PluginDefinitionError(plugin, f"{setting} holds what it refuses: {fault.message}")
    return list(written) if isinstance(written, tuple) else written


def _default(value: Any) -> str | None:
    if value is attrs.NOTHING:
        return None
    if isinstance(value, attrs.Factory):  # type: ignore[arg-type]
        value = value.factory() if not value.takes_self else None
    return "unset" if value is None else json.dumps(value, default=str)


def _main(limit: float, names: Sequence[str]) -> None:
    """Describe plugins in the guarded process, each after a line with its name.

    :param limit: the seconds that each may take; then SIGALRM ends the process.
    """
    from cattrs import unstructure

    # output of a plugin during import must not mix with our lines
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    known = registrations()
    for name in names:
        signal.setitimer(signal.ITIMER_REAL, limit)
        print(json.dumps({"begin": name}), file=answers, flush=True)
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                info = describe_plugin(name, find(name, known).load())
        except TfoptError as error:
            cause = getattr(error, "cause", None) or getattr(error, "reason", None) or str(error)
            info = PluginInfo(name=name, error=cause)
        except (Exception, SystemExit) as error:
            info = PluginInfo(name=name, error=f"{type(error).__name__}: {error}")
        print(json.dumps(unstructure(info)), file=answers, flush=True)


if __name__ == "__main__":
    _main(float(sys.argv[1]), sys.argv[2:])
