"""Command-line options for scripts, as changes of a recipe."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import attrs

from tfopt_core.errors import InputError


@attrs.frozen(kw_only=True)
class ScriptOptions:
    """The options of a command that apply to a script.

    :param arguments: the words after `--`.
    """

    script: str | None = None
    arguments: tuple[str, ...] = ()
    epochs: int | None = None
    max_steps: int | None = None
    fit: int | None = None

    def workload(self) -> dict[str, Any]:
        """Return the keys of `[workload]`, without the script."""
        given = {
            "args": list(self.arguments) or None,
            "max_epochs": self.epochs,
            "max_steps": self.max_steps,
            "fit": self.fit,
        }
        return {key: value for key, value in given.items() if value is not None}

    def overrides(self) -> list[str]:
        """Return the options in the form of `--set`.

        :raises InputError: if the script does not exist.
        """
        changes = [f"workload.{key}={_toml(value)}" for key, value in self.workload().items()]
        if self.script is None:
            return changes
        path = Path(self.script)
        if not path.is_file():
            raise InputError(f'--script: there is no file "{self.script}"')
        # relative to the working directory, not to the recipe
        return [
            f"workload.script={_toml(str(path.absolute()))}",
            f"workload.folder={_toml(str(Path.cwd()))}",
            *changes,
        ]


def _toml(value: Any) -> str:
    # JSON's strings, numbers and arrays are valid TOML, unless it escapes characters as pairs
    return json.dumps(value, ensure_ascii=False)
