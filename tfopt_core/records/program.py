"""The parts of an exported file, as plain data. No TensorFlow."""

from __future__ import annotations

import attrs

from tfopt_core.records.dry_build import Prepared


@attrs.frozen(kw_only=True)
class ExportedPlugin:
    """The form of a plugin in the file: its changes and the differences from tfopt, or why it
    was left out."""

    plugin: str
    changed: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    left_out: str = ""


@attrs.frozen(kw_only=True)
class Program:
    """A training in plain TensorFlow and Keras. Statements are one line of code each.

    :param folders: folders from which `imports` import modules.
    :param environment: statements before TensorFlow is imported; `start` follow the import.
    :param helpers: the source of functions and classes.
    :param body: the statements of the function that trains, with comments; "" is a blank line.
        The last statement assigns `history`.
    :param script: the edited text of a script, in place of all statements.
    """

    recipe: str
    seed: int
    epochs: int
    versions: dict[str, str]
    plugins: tuple[ExportedPlugin, ...] = ()
    notes: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()
    start: tuple[str, ...] = ()
    helpers: tuple[str, ...] = ()
    body: tuple[str, ...] = ()
    script: str | None = None


@attrs.frozen
class Exported:
    """A training as a program, and the dry build that resolved its settings."""

    prepared: Prepared
    program: Program
