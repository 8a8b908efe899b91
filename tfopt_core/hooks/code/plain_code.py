"""The code that a plugin's `export` method writes, as plain TensorFlow and Keras.

Core itself exports the values that hooks return: `RuntimeOptions`, `PrecisionPolicy`, the stages
of a `DataPlan`, and from `TrainingOptions` the optimizer, Keras' own schedules, XLA, the loop and
its steps. Functions and other objects are exported by their plugin, in a method:

    def export(self, code):
        code.helper(add_l2)
        code.on_model(f"add_l2(model, {self.strength!r})")
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn, Protocol

import attrs

from tfopt_core.hooks.changes import Change
from tfopt_core.hooks.code.source import plain_source


class NoPlainForm(Exception):
    """A part of a training has no plain form; its plugin is left out.

    :param plugin: None if the part is the workload's own.
    """

    def __init__(self, plugin: str | None, reason: str) -> None:
        super().__init__(reason)
        self.plugin, self.reason = plugin, reason


class Names(Protocol):
    """Expressions for the workload's objects in the exported file."""

    def reference(self, thing: Any) -> str:
        """Return an expression for an object of the workload. :raises NoPlainForm: if none."""

    def load(self, place: str) -> str:
        """Import "module:name" or "file.py:name". Return its name."""


@attrs.define(eq=False)
class Written:
    """The code that all plugins have written, each kind in the order of the stack."""

    imports: dict[str, None] = attrs.field(factory=dict)
    helpers: dict[str, None] = attrs.field(factory=dict)
    before_data: list[str] = attrs.field(factory=list)
    strategy: str | None = None
    on_model: list[str] = attrs.field(factory=list)
    compile: dict[str, str] = attrs.field(factory=dict)
    schedule: str | None = None
    callbacks: list[str] = attrs.field(factory=list)
    functions: list[tuple[Any, str]] = attrs.field(factory=list)
    notes: dict[str, list[str]] = attrs.field(factory=dict)
    shown: dict[str, list[str]] = attrs.field(factory=dict)


@attrs.frozen(eq=False)
class PlainCode:
    """One plugin's view of the exported file. Expressions and statements are one line of code; long
    lines are wrapped.

    The file defines `tf`, `keras`, `seed`, `workload` and, once it is built, `model`.

    :param plugin: the name of the plugin.
    :param changes: what its value hooks changed in a dry build.
    :param model: the model of that build.
    :param epochs: the planned epochs; `replicas` is the number of replicas of the strategy.
    """

    plugin: str
    changes: Sequence[Change]
    model: Any
    epochs: int
    replicas: int
    names: Names
    written: Written

    def stages(self, split: str = "train") -> tuple[Any, ...]:
        """Return the stages that this plugin added to the plan of a split."""
        changes = [c for c in self.changes if c.hook == "build_dataset" and c.split == split]
        return tuple(
            stage
            for change in changes
            for stage in change.after.stages
            if all(stage is not other for other in change.before.stages)
        )

    def all_stages(self) -> tuple[Any, ...]:
        """Return the stages that this plugin added to either split."""
        return (*self.stages("train"), *self.stages("validation"))

    def reference(self, thing: Any) -> str:
        """Return an expression for an object of the workload, such as a function of its pipeline.

        :raises NoPlainForm: if it cannot be reached from the workload.
        """
        return self.names.reference(thing)

    def load(self, place: str) -> str:
        """Import a function that the recipe names, "module:function" or "file.py:function".

        :returns: its name.
        """
        return self.names.load(place)

    def imports(self, *lines: str) -> None:
        """Add imports: `import random`, `from pathlib import Path`."""
        self.written.imports.update(dict.fromkeys(lines))

    def helper(self, *things: Any) -> None:
        """Write functions or classes, or their given source, above the training.

        Annotations and lazy imports of TensorFlow or Keras are removed.
        """
        self.written.helpers.update((plain_source(thing), None) for thing in things)

    def before_data(self, statement: str) -> None:
        """Add a statement between the workload and its data."""
        self.written.before_data.append(statement)

    def function(self, function: Any, expression: str) -> None:
        """Set the expression for a function that this plugin put into a stage."""
        self.written.functions.append((function, expression))

    def strategy(self, expression: str) -> None:
        """Set the expression that makes the distribution strategy."""
        self.written.strategy = expression
        self._show(expression)

    def on_model(self, statement: str) -> None:
        """Add a statement on the `model`, between its build and `compile`."""
        self.written.on_model.append(statement)
        self._show(statement)

    def compile(self, argument: str, expression: str) -> None:
        """Set an argument of `compile`."""
        self.written.compile[argument] = expression

    def schedule(self, expression: str) -> None:
        """Set the expression that makes a learning-rate schedule that is not one of Keras' own."""
        self.written.schedule = expression

    def callback(self, expression: str) -> None:
        """Add a Keras callback."""
        self.written.callbacks.append(expression)
        self._show(expression)

    def note(self, text: str) -> None:
        """Describe in the file's heading how the plain form differs."""
        self.written.notes.setdefault(self.plugin, []).append(text)

    def _show(self, code: str) -> None:
        """Show code for the plugin in the file's heading, unless it changed a value."""
        self.written.shown.setdefault(self.plugin, []).append(code)

    def no_plain_form(self, reason: str) -> NoReturn:
        """Leave this plugin out of the file, with the reason.

        :raises NoPlainForm: always.
        """
        raise NoPlainForm(self.plugin, reason)
