"""The parts of an exported file, as plain data. No TensorFlow."""

from __future__ import annotations

import attrs

from tfopt_core.records.dry_build import Prepared


@attrs.frozen(kw_only=True)
class Became:
    """What a plugin is in the file: what it changed and what is not the same, or, if it was left
    out, why."""

    plugin: str
    changed: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    left_out: str = ""


@attrs.frozen(kw_only=True)
class Program:
    """A training in plain TensorFlow and Keras. Statements are one line of code each.

    :param folders: those that modules are imported from, before the statements of `imports`.
    :param environment: statements before TensorFlow is imported; `start` come right behind.
    :param helpers: the source of functions and classes.
    :param body: the statements of the function that trains, with comments; "" is a blank line.
        The last one makes `history`.
    :param script: in place of all statements: a script's own text, edited.
    """

    recipe: str
    seed: int
    epochs: int
    versions: dict[str, str]
    plugins: tuple[Became, ...] = ()
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
