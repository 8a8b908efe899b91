"""Find plugins by their entry points; a plugin is imported only when it is named."""

from __future__ import annotations

from importlib.metadata import Distribution, EntryPoint, entry_points
from typing import Any

import attrs

from tfopt_core.errors import PluginLoadError, did_you_mean
from tfopt_core.hooks.contract import check_class

GROUP = "tfopt.plugins"


@attrs.frozen
class Registration:
    """One entry point: a plugin's name and the distribution that registers it."""

    name: str
    entry_point: EntryPoint = attrs.field(eq=False, repr=False)
    distribution: str
    version: str

    def load(self) -> type[Any]:
        """Import the plugin class.

        :raises PluginLoadError: for any error of the import, SystemExit included.
        :raises PluginDefinitionError: if it is no class that keeps the contract.
        """
        plugin_class = self.load_any()
        check_class(self.name, plugin_class)
        return plugin_class  # type: ignore[no-any-return]

    def load_any(self) -> Any:
        """Import whatever the entry point names.

        :raises PluginLoadError: whatever the import raises, SystemExit included.
        """
        try:
            return self.entry_point.load()
        except (Exception, SystemExit) as error:
            cause = f"{type(error).__name__}: {error}".rstrip(": ").replace("\n", " ")
            raise PluginLoadError(self.name, cause, self.distribution, self.version) from error


def registrations(group: str = GROUP) -> dict[str, tuple[Registration, ...]]:
    """Return every registered name, sorted, with its registrations; nothing is imported.

    If a name has several registrations, `find` reports it.
    """
    by_name: dict[str, list[Registration]] = {}
    # name and version parse the metadata of a distribution, its whole description, each time
    origins: dict[Distribution | None, tuple[str, str]] = {None: ("unknown", "unknown")}
    for entry_point in entry_points(group=group):
        distribution = entry_point.dist
        if distribution is not None and distribution not in origins:
            origins[distribution] = (distribution.name, distribution.version)
        registration = Registration(entry_point.name, entry_point, *origins[distribution])
        known = by_name.setdefault(entry_point.name, [])
        # an editable install can list the same distribution twice
        if registration not in known:
            known.append(registration)
    return {name: tuple(by_name[name]) for name in sorted(by_name)}


def find(name: str, known: dict[str, tuple[Registration, ...]]) -> Registration:
    """Return the only registration of a plugin.

    :raises PluginLoadError: if there is none, or if two distributions register the name.
    """
    if name not in known:
        hint = did_you_mean(name, known) or "`tfopt plugins` lists those that are installed"
        raise PluginLoadError(name, f"no installed distribution registers it; {hint}")
    if len(known[name]) > 1:
        both = " and ".join(f'"{r.distribution}" {r.version}' for r in known[name])
        raise PluginLoadError(name, f"two distributions register it: {both}; uninstall one")
    return known[name][0]
