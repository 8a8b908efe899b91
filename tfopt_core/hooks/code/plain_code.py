"""What a plugin did to a training, as plain TensorFlow and Keras: what `export` writes into.

Most of what a plugin does is a value that its hooks return, and such values core writes down by
itself: `RuntimeOptions`, `PrecisionPolicy`, the stages of a `DataPlan`, and of `TrainingOptions`
the optimizer, Keras' own schedules, XLA, the loop and its steps. What is left are functions and
objects, and only their plugin knows how they are written. It may say so in a method:

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
    """Something of a training cannot be written down; the plugin that brought it is left out.

    :param plugin: None where it is the workload's own.
    """

    def __init__(self, plugin: str | None, reason: str) -> None:
        super().__init__(reason)
        self.plugin, self.reason = plugin, reason


class Names(Protocol):
    """Finds out how objects are called in the file that is written."""

    def reference(self, thing: Any) -> str:
        """An expression for something of the workload's. :raises NoPlainForm: if there is none."""

    def load(self, place: str) -> str:
        """Import what "module:name" or "file.py:name" means; its name."""


@attrs.define(eq=False)
class Written:
    """What all plugins together have written so far, each kind in the order of the stack."""

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
    """One plugin's view of the file that is written. Expressions and statements are one line of
    code each; what is too long is wrapped.

    In the file stand `tf`, `keras`, the names `seed`, `workload` and, once it is built, `model`.

    :param plugin: the name of the plugin.
    :param changes: what its value hooks changed in a dry build.
    :param model: the model of that build.
    :param epochs: planned; `replicas` are those of the strategy.
    """

    plugin: str
    changes: Sequence[Change]
    model: Any
    epochs: int
    replicas: int
    names: Names
    written: Written

    def stages(self, split: str = "train") -> tuple[Any, ...]:
        """The stages that this plugin put into the plan of a split."""
        found = [c for c in self.changes if c.hook == "build_dataset" and c.split == split]
        return tuple(
            stage
            for change in found
            for stage in change.after.stages
            if all(stage is not other for other in change.before.stages)
        )

    def all_stages(self) -> tuple[Any, ...]:
        """The same of both splits."""
        return (*self.stages("train"), *self.stages("validation"))

    def reference(self, thing: Any) -> str:
        """An expression for something of the workload's: a function of its pipeline.

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
        """Write functions or classes out above the training: themselves, or their source.

        Their annotations are taken out, and so is a lazy import of TensorFlow or Keras.
        """
        self.written.helpers.update((plain_source(thing), None) for thing in things)

    def before_data(self, statement: str) -> None:
        """Add a statement between the workload and its data."""
        self.written.before_data.append(statement)

    def function(self, function: Any, expression: str) -> None:
        """Say how a function that this plugin put into a stage is written."""
        self.written.functions.append((function, expression))

    def strategy(self, expression: str) -> None:
        """Say how the distribution strategy is made."""
        self.written.strategy = expression
        self._show(expression)

    def on_model(self, statement: str) -> None:
        """Add a statement on the `model` between its build and `compile`."""
        self.written.on_model.append(statement)
        self._show(statement)

    def compile(self, argument: str, expression: str) -> None:
        """Say what `compile` is given as an argument."""
        self.written.compile[argument] = expression

    def schedule(self, expression: str) -> None:
        """Say how a learning-rate schedule that is none of Keras' own is made."""
        self.written.schedule = expression

    def callback(self, expression: str) -> None:
        """Add a Keras callback."""
        self.written.callbacks.append(expression)
        self._show(expression)

    def note(self, text: str) -> None:
        """Say in the file's heading in what the plain form is not the same."""
        self.written.notes.setdefault(self.plugin, []).append(text)

    def _show(self, code: str) -> None:
        """Code that stands for the plugin in the file's heading, if no change of a value does."""
        self.written.shown.setdefault(self.plugin, []).append(code)

    def no_plain_form(self, reason: str) -> NoReturn:
        """Give up: the file trains without this plugin, and says why.

        :raises NoPlainForm: always.
        """
        raise NoPlainForm(self.plugin, reason)
