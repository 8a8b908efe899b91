"""The options of `tfopt apply`, and the changes that they make in a recipe."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import attrs

from tfopt_core.errors import InputError


@attrs.frozen(kw_only=True)
class ApplyOptions:
    """The options of `tfopt apply`.

    :param module: whether the target is a module, and no path.
    :param script: replaces the script of the recipe.
    :param arguments: the arguments of the script, given after `--`.
    :param epochs, max_steps, fit: limits of a script.
    :param write_to: the file for the recipe of a script; None for the working directory.
    :param no_wait: end if another process measures in the project, instead of waiting for it.
    :param measure_anyway: measure a plugin of a script even if none seems to save time.
    :param seconds: how long each run trains behind its start.
    :param full: train all runs to their end.
    """

    target: str
    module: bool = False
    overrides: tuple[str, ...] = ()
    script: str | None = None
    arguments: tuple[str, ...] = ()
    epochs: int | None = None
    max_steps: int | None = None
    fit: int | None = None
    write_to: Path | None = None
    measure_anyway: bool = False
    full: bool = False
    pairs: int | None = None
    seconds: float | None = None
    budget: str | None = None
    save_to: Path | None = None
    resuming: bool = False
    no_wait: bool = False
    time_limit: str | None = None
    debug: bool = False

    def workload(self) -> dict[str, Any]:
        """Return the keys of `[workload]` except the script."""
        keys = {
            "args": list(self.arguments) or None,
            "max_epochs": self.epochs,
            "max_steps": self.max_steps,
            "fit": self.fit,
        }
        return {key: value for key, value in keys.items() if value is not None}

    def measure_asked(self) -> dict[str, Any]:
        """Return the pairs, seconds and budget that are asked for, by an option or by `--set`, by
        their keys in `[measure]`. What `--set` gives is not checked here.

        :raises InputError: for options that exclude each other.
        """
        from tfopt_core.recipe.layers import parse_overrides

        asked: dict[str, Any] = {}
        for change in parse_overrides(self.overrides, []):
            given = change.root.plain().get("measure")
            if isinstance(given, dict):
                asked |= given
        keys: tuple[str, ...] = ("pairs", "seconds", "budget")
        known = {key: asked[key] for key in keys if key in asked}
        return {**known, **self._measure()}

    def _measure(self) -> dict[str, Any]:
        options = {"pairs": self.pairs, "seconds": self.seconds, "budget": self.budget}
        if self.full and self.seconds is not None:
            raise InputError("--full trains each run to its end; leave --full or --seconds out")
        if self.full:
            options["seconds"] = "whole"
        return {key: value for key, value in options.items() if value is not None}

    def changes(self) -> list[str]:
        """Return the changes that the options make in a recipe, in the form of `--set`.

        :raises InputError: if the script does not exist, for an option that is about a script
            without a recipe, and for options that exclude each other.
        """
        if self.write_to is not None:
            raise InputError("--write is about a script without a recipe; leave it out")
        if self.measure_anyway:
            raise InputError(
                "--measure-anyway is about a script without a recipe; a recipe is always measured"
            )
        changes = [*self.overrides]
        if self.script is not None:
            path = Path(self.script)
            if not os.path.isfile(path):
                raise InputError(f'--script: there is no file "{self.script}"')
            # relative to where the user is, not to where the recipe lies
            changes.append(f"workload.script={_toml(str(path.absolute()))}")
            changes.append(f"workload.folder={_toml(str(Path.cwd()))}")
        changes += (f"workload.{key}={_toml(value)}" for key, value in self.workload().items())
        changes += (f"measure.{key}={_toml(value)}" for key, value in self._measure().items())
        return changes


def _toml(value: Any) -> str:
    # JSON's strings, numbers and arrays are valid TOML, except characters that JSON writes as pairs
    return json.dumps(value, ensure_ascii=False)
