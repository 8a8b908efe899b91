"""Command-line options about a script, translated into changes of a recipe."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import attrs

from tfopt_core.errors import InputError


@attrs.frozen(kw_only=True)
class ScriptOptions:
    """What a command was told of a script.

    :param arguments: what stood behind `--`.
    """

    script: str | None = None
    arguments: tuple[str, ...] = ()
    epochs: int | None = None
    max_steps: int | None = None
    fit: int | None = None

    def workload(self) -> dict[str, Any]:
        """Return the keys of `[workload]` but for the script."""
        given = {
            "args": list(self.arguments) or None,
            "max_epochs": self.epochs,
            "max_steps": self.max_steps,
            "fit": self.fit,
        }
        return {key: value for key, value in given.items() if value is not None}

    def overrides(self) -> list[str]:
        """As `--set` would say it.

        :raises InputError: if the script is not there.
        """
        told = [f"workload.{key}={_toml(value)}" for key, value in self.workload().items()]
        if self.script is None:
            return told
        path = Path(self.script)
        if not path.is_file():
            raise InputError(f'--script: there is no file "{self.script}"')
        # relative to where the user is, not to where the recipe lies
        return [
            f"workload.script={_toml(str(path.absolute()))}",
            f"workload.folder={_toml(str(Path.cwd()))}",
            *told,
        ]


def _toml(value: Any) -> str:
    # JSON's strings, numbers and arrays are TOML's, but for characters that JSON writes as pairs
    return json.dumps(value, ensure_ascii=False)
