"""The data of `--json` for commands that list or plan: plugins, recipes, doctor, plan."""

from __future__ import annotations

import attrs

from tfopt_core.hooks.installed.inspection import PluginInfo
from tfopt_core.records.dry_build import Prepared

SCHEMA_VERSION = 2


@attrs.frozen(kw_only=True)
class PluginList:
    """The data of `tfopt plugins --json`, and of `tfopt plugins show` with one plugin."""

    schema_version: int = SCHEMA_VERSION
    plugins: tuple[PluginInfo, ...]


@attrs.frozen(kw_only=True)
class ShippedRecipe:
    """A recipe that ships: its file, and when to use it."""

    name: str
    path: str
    summary: str


@attrs.frozen(kw_only=True)
class RecipeList:
    """The data of `tfopt recipes --json`."""

    schema_version: int = SCHEMA_VERSION
    recipes: tuple[ShippedRecipe, ...]


@attrs.frozen(kw_only=True)
class MachineReport:
    """The data of `tfopt doctor --json`; `ok` is False if a finding needs a mend."""

    schema_version: int = SCHEMA_VERSION
    ok: bool
    findings: tuple[DoctorFinding, ...]


@attrs.frozen(kw_only=True)
class PlanReport:
    """The data of `tfopt plan --json`: what the recipe's stack would do."""

    schema_version: int = SCHEMA_VERSION
    recipe: str
    plan: Prepared


@attrs.frozen(kw_only=True)
class DoctorFinding:
    """A fact about this machine or a plugin.

    `ok` is False if it needs a mend, None if it is neutral.
    """

    subject: str
    ok: bool | None
    detail: str
    mend: str = ""
